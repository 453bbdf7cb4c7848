#include "src/analysis/response_anomaly/limits_file.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/json/config.h"

namespace msprobe::analysis::response_anomaly {
namespace {

using json::Config;
using json::ConfigKind;
using json::ConfigValue;
using json::SettingsReader;

constexpr int64_t kLargestWindow = 1 << 16;
constexpr uint64_t kLargestLimitsFile = uint64_t{1} << 20U;
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// A number from `least` to `most`.
Status ReadNumber(const SettingsReader& reader, std::string_view key, double least, double most,
                  double& out) {
  const ConfigValue* value = reader.Find(key);
  if (value == nullptr) {
    return {};
  }
  const bool is_number = value->kind == ConfigKind::kInt || value->kind == ConfigKind::kFloat;
  if (!is_number || !std::isfinite(value->number) || value->number < least ||
      value->number > most) {
    const std::string allowed = std::isinf(least)  ? fmt::format("a number up to {}", most)
                                : std::isinf(most) ? fmt::format("a number from {}", least)
                                                   : fmt::format("{} to {}", least, most);
    return reader.Error(*value, key,
                        fmt::format("is {}; allowed: {}", json::ShownValue(*value), allowed));
  }
  out = value->number;
  return {};
}

// The object under `key`, checked for unknown keys; null when there is none.
Result<const ConfigValue*> FindSection(const Config& config, const ConfigValue& object,
                                       std::string_view key, std::vector<std::string> valid) {
  const ConfigValue* section = object.Find(key);
  if (section == nullptr || section->kind == ConfigKind::kNull) {
    return nullptr;
  }
  if (section->kind != ConfigKind::kObject) {
    return config.ErrorAt(*section, key,
                          fmt::format("is {}; allowed: keys", json::ShownValue(*section)));
  }
  MSP_RETURN_IF_ERROR(config.CheckKeys(*section, valid));
  return section;
}

Status ReadRepetition(const Config& config, const ConfigValue& section, Limits& limits) {
  const SettingsReader reader(config, section, "repetition");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  MSP_RETURN_IF_ERROR(reader.Int("single_window_thresh", 0, kMost, limits.single_window_thresh));
  MSP_RETURN_IF_ERROR(reader.Int("multi_window_thresh", 0, kMost, limits.multi_window_thresh));
  MSP_ASSIGN_OR_RETURN(
      const ConfigValue* trajectory,
      FindSection(config, section, "trajectory", {"n", "distinct_n_thresh", "logp_thresh"}));
  if (trajectory != nullptr) {
    const SettingsReader inner(config, *trajectory, "repetition.trajectory");
    MSP_RETURN_IF_ERROR(inner.Int("n", 1, kLargestWindow, limits.n));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "distinct_n_thresh", 0, 1, limits.distinct_n_thresh));
    MSP_RETURN_IF_ERROR(
        ReadNumber(inner, "logp_thresh", -kUnbounded, 0, limits.trajectory_logp_thresh));
  }
  MSP_ASSIGN_OR_RETURN(
      const ConfigValue* acf,
      FindSection(config, section, "acf", {"acf_threshold", "logp_thresh", "harmonic_thresh"}));
  if (acf != nullptr) {
    const SettingsReader inner(config, *acf, "repetition.acf");
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "acf_threshold", 0, 1, limits.acf_threshold));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "logp_thresh", -kUnbounded, 0, limits.acf_logp_thresh));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "harmonic_thresh", 0, 1, limits.harmonic_thresh));
  }
  return {};
}

Result<Limits> ReadLimits(const Config& config) {
  Limits limits;
  const ConfigValue& root = config.root;
  if (root.kind == ConfigKind::kNull) {
    return limits;  // an empty file
  }
  if (root.kind != ConfigKind::kObject) {
    return config.ErrorAt(root, "", "must hold keys such as window_size");
  }
  const std::vector<std::string> keys = {"window_size", "stride", "rare_character", "garbled",
                                         "repetition"};
  MSP_RETURN_IF_ERROR(config.CheckKeys(root, keys));
  const SettingsReader reader(config, root, "");
  MSP_RETURN_IF_ERROR(reader.Int("window_size", 1, kLargestWindow, limits.window_size));
  MSP_RETURN_IF_ERROR(reader.Int("stride", 1, kLargestWindow, limits.stride));
  if (limits.stride > limits.window_size) {
    const ConfigValue* place = root.Find("stride");
    return config.ErrorAt(
        place != nullptr ? *place : *root.Find("window_size"), "stride",
        fmt::format("is {}, more than the window_size of {}: tokens between the windows would "
                    "not be looked at",
                    limits.stride, limits.window_size));
  }
  MSP_ASSIGN_OR_RETURN(const ConfigValue* rare,
                       FindSection(config, root, "rare_character",
                                   {"explogp_sum_thresh", "category_thresh", "top1_logp_thresh"}));
  if (rare != nullptr) {
    const SettingsReader inner(config, *rare, "rare_character");
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "explogp_sum_thresh", 0, 1, limits.explogp_sum_thresh));
    MSP_RETURN_IF_ERROR(inner.Int("category_thresh", 0, 1'000'000, limits.category_thresh));
    MSP_RETURN_IF_ERROR(
        ReadNumber(inner, "top1_logp_thresh", -kUnbounded, 0, limits.rare_top1_logp_thresh));
  }
  MSP_ASSIGN_OR_RETURN(
      const ConfigValue* garbled,
      FindSection(config, root, "garbled", {"top1_logp_thresh", "window_ratio", "window_thresh"}));
  if (garbled != nullptr) {
    const SettingsReader inner(config, *garbled, "garbled");
    MSP_RETURN_IF_ERROR(
        ReadNumber(inner, "top1_logp_thresh", -kUnbounded, 0, limits.garbled_top1_logp_thresh));
    MSP_RETURN_IF_ERROR(ReadNumber(inner, "window_ratio", 0, 1, limits.window_ratio));
    MSP_RETURN_IF_ERROR(inner.Int("window_thresh", 0, 1'000'000, limits.window_thresh));
  }
  MSP_ASSIGN_OR_RETURN(
      const ConfigValue* repetition,
      FindSection(config, root, "repetition",
                  {"trajectory", "acf", "single_window_thresh", "multi_window_thresh"}));
  if (repetition != nullptr) {
    MSP_RETURN_IF_ERROR(ReadRepetition(config, *repetition, limits));
  }
  return limits;
}

}  // namespace

Result<Limits> ParseLimits(std::string_view text, std::string file_name) {
  MSP_ASSIGN_OR_RETURN(const Config config, json::ParseYamlConfig(text, std::move(file_name)));
  return ReadLimits(config);
}

Result<Limits> LoadLimits(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestLimitsFile));
  return ParseLimits(text, path.string());
}

}  // namespace msprobe::analysis::response_anomaly
