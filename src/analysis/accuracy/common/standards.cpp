#include "src/analysis/accuracy/common/standards.h"

#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/strings.h"

namespace msprobe::resources {
extern const std::string_view kAccuracyStandards;  // config/accuracy_standards.json
}

namespace msprobe::analysis::accuracy {
namespace {

struct StandardName {
  Standard standard;
  std::string_view key;  // in the table
  std::string_view chinese;
  std::string_view english;
};
// In the order in which a name is looked for.
constexpr std::array<StandardName, 6> kStandardNames = {{
    {Standard::kAbsolute, "absolute_threshold", "绝对阈值法", "absolute threshold"},
    {Standard::kBinary, "binary_consistency", "二进制一致法", "binary consistency"},
    {Standard::kUlp, "ulp_compare", "ULP误差比对法", "ULP error"},
    {Standard::kThousandth, "thousandth_threshold", "双千指标法", "thousandth"},
    {Standard::kAccumulative, "accumulative_error_compare", "累积误差比对法", "accumulative error"},
    {Standard::kBenchmark, "benchmark", "标杆比对法", "benchmark"},
}};

// Outputs of other dtypes are integers, truth values or no tensors: they are equal or not.
constexpr std::array<std::string_view, 6> kFloatDTypes = {"torch.float16",   "torch.bfloat16",
                                                          "torch.float32",   "torch.float64",
                                                          "torch.complex64", "torch.complex128"};

constexpr std::array<std::string_view, 3> kLevels = {"L0", "L1", "L2"};

struct DTypeLimitKey {
  std::string_view key;
  DTypeLimit Limits::*limit;
};
constexpr DTypeLimitKey kDTypeLimits[] = {
    {"small_value", &Limits::small_value},
    {"absolute_rtol", &Limits::absolute_rtol},
    {"absolute_atol", &Limits::absolute_atol},
    {"benchmark_atol", &Limits::benchmark_atol},
    {"accumulative_bound", &Limits::accumulative_bound},
    {"accumulative_error_balance", &Limits::accumulative_error_balance},
    {"smallest_divisor", &Limits::smallest_divisor},
    {"ulp_large", &Limits::ulp_large},
    {"ulp_share", &Limits::ulp_share},
};
struct LevelLimitKey {
  std::string_view key;
  LevelLimit Limits::*limit;
};
constexpr LevelLimitKey kLevelLimits[] = {
    {"ratio_small_value", &Limits::ratio_small_value},
    {"ratio_rmse", &Limits::ratio_rmse},
    {"ratio_max_relative", &Limits::ratio_max_relative},
    {"ratio_mean_relative", &Limits::ratio_mean_relative},
    {"ratio_error_balance", &Limits::ratio_error_balance},
};
struct NumberKey {
  std::string_view key;
  double Limits::*limit;
};
constexpr NumberKey kNumbers[] = {
    {"small_value_accumulative", &Limits::small_value_accumulative},
    {"ulp_mean_float32", &Limits::ulp_mean_float32},
    {"ulp_share_ratio", &Limits::ulp_share_ratio},
    {"thousandth", &Limits::thousandth},
    {"status_cosine", &Limits::status_cosine},
    {"status_max_abs", &Limits::status_max_abs},
    {"status_hundredth", &Limits::status_hundredth},
    {"status_thousandth", &Limits::status_thousandth},
    {"status_ten_thousandth", &Limits::status_ten_thousandth},
    {"mindspore_cosine", &Limits::mindspore_cosine},
    {"mindspore_max_abs", &Limits::mindspore_max_abs},
};
struct ApiListKey {
  std::string_view key;
  std::vector<std::string> ApiLists::*list;
};
constexpr ApiListKey kApiLists[] = {
    {"never_run", &ApiLists::never_run},
    {"types_never_run", &ApiLists::types_never_run},
    {"hf32_inputs", &ApiLists::hf32_inputs},
    {"keep_attached", &ApiLists::keep_attached},
    {"keep_dtype", &ApiLists::keep_dtype},
    {"quantised", &ApiLists::quantised},
    {"mindspore_tensor", &ApiLists::mindspore_tensor},
};

template <typename Keys>
std::vector<std::string> KeysOf(const Keys& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) {
    names.emplace_back(key.key);
  }
  return names;
}

Status ReadNumber(const json::Config& config, const json::Json& object, std::string_view key,
                  double& out) {
  const json::Json* value = json::Find(object, key);
  if (value == nullptr) {
    return {};
  }
  const bool is_number = value->is_number_integer() || value->is_number_float();
  if (!is_number || !(json::NumberOf(*value) >= 0)) {
    return config.ErrorAt(*value, key, "must be a number that is not negative");
  }
  out = json::NumberOf(*value);
  return {};
}

Status ReadObject(const json::Config& config, const json::Json& parent, std::string_view key,
                  std::vector<std::string> valid, const json::Json*& out) {
  out = json::Find(parent, key);
  if (out == nullptr) {
    return {};
  }
  if (!out->is_object()) {
    return config.ErrorAt(*out, key, "must be an object");
  }
  return config.CheckKeys(*out, valid);
}

Status ReadLimits(const json::Config& config, const json::Json& object, Limits& limits) {
  for (const NumberKey& entry : kNumbers) {
    MSP_RETURN_IF_ERROR(ReadNumber(config, object, entry.key, limits.*entry.limit));
  }
  for (const DTypeLimitKey& entry : kDTypeLimits) {
    const json::Json* by_dtype = nullptr;
    MSP_RETURN_IF_ERROR(
        ReadObject(config, object, entry.key, {"float16", "bfloat16", "float32"}, by_dtype));
    if (by_dtype != nullptr) {
      DTypeLimit& limit = limits.*entry.limit;
      MSP_RETURN_IF_ERROR(ReadNumber(config, *by_dtype, "float16", limit.half));
      MSP_RETURN_IF_ERROR(ReadNumber(config, *by_dtype, "bfloat16", limit.bfloat16));
      MSP_RETURN_IF_ERROR(ReadNumber(config, *by_dtype, "float32", limit.single));
    }
  }
  for (const LevelLimitKey& entry : kLevelLimits) {
    const json::Json* by_level = nullptr;
    MSP_RETURN_IF_ERROR(
        ReadObject(config, object, entry.key, {kLevels.begin(), kLevels.end()}, by_level));
    for (size_t level = 0; by_level != nullptr && level < kLevels.size(); ++level) {
      MSP_RETURN_IF_ERROR(
          ReadNumber(config, *by_level, kLevels[level], (limits.*entry.limit)[level]));
    }
  }
  return {};
}

}  // namespace

std::string_view AlgorithmName(Standard standard, bool english) {
  for (const StandardName& name : kStandardNames) {
    if (name.standard == standard) {
      return english ? name.english : name.chinese;
    }
  }
  return {};
}

Status Standards::Read(const json::Config& config) {
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "must be an object");
  }
  const std::vector<std::string> sections = {"standards", "levels", "limits", "apis"};
  MSP_RETURN_IF_ERROR(config.CheckKeys(config.root(), sections));
  std::vector<std::string> standard_keys;
  for (const StandardName& name : kStandardNames) {
    standard_keys.emplace_back(name.key);
  }
  const json::Json* object = nullptr;
  MSP_RETURN_IF_ERROR(ReadObject(config, config.root(), "standards", standard_keys, object));
  if (object != nullptr) {
    std::map<std::string, Standard, std::less<>> named;
    for (const StandardName& name : kStandardNames) {
      MSP_ASSIGN_OR_RETURN(const std::vector<std::string> apis, config.TextList(*object, name.key));
      for (const std::string& api : apis) {
        named.emplace(api, name.standard);  // the first one counts
      }
    }
    // A user's table moves the operators that it names.
    for (auto& [api, standard] : named) {
      standards_.insert_or_assign(api, standard);
    }
  }
  MSP_RETURN_IF_ERROR(ReadObject(
      config, config.root(), "levels",
      {std::string(kLevels[0]), std::string(kLevels[1]), std::string(kLevels[2])}, object));
  for (size_t level = 0; object != nullptr && level < kLevels.size(); ++level) {
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> apis,
                         config.TextList(*object, kLevels[level]));
    for (const std::string& api : apis) {
      levels_.insert_or_assign(api, level);
    }
  }
  std::vector<std::string> limit_keys = KeysOf(kDTypeLimits);
  for (const std::vector<std::string>& more : {KeysOf(kLevelLimits), KeysOf(kNumbers)}) {
    limit_keys.insert(limit_keys.end(), more.begin(), more.end());
  }
  MSP_RETURN_IF_ERROR(ReadObject(config, config.root(), "limits", limit_keys, object));
  if (object != nullptr) {
    MSP_RETURN_IF_ERROR(ReadLimits(config, *object, limits_));
  }
  MSP_RETURN_IF_ERROR(ReadObject(config, config.root(), "apis", KeysOf(kApiLists), object));
  for (const ApiListKey& entry : kApiLists) {
    if (object != nullptr && json::Find(*object, entry.key) != nullptr) {
      MSP_ASSIGN_OR_RETURN(apis_.*entry.list, config.TextList(*object, entry.key));
    }
  }
  return {};
}

const Standards& Standards::BuiltIn() {
  static const Standards kTable = [] {
    Standards table;
    const Result<json::Config> config =
        json::ParseJsonConfig(resources::kAccuracyStandards, "accuracy_standards.json");
    // A unit test holds the table against this reader.
    if (config.ok()) {
      (void)table.Read(*config).ok();
    }
    return table;
  }();
  return kTable;
}

Result<Standards> Standards::Load(const std::filesystem::path& path) {
  Standards table = BuiltIn();
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(path));
  MSP_RETURN_IF_ERROR(table.Read(config));
  table.source_ = path.string();
  return table;
}

Standard Standards::Of(std::string_view api, std::string_view dtype) const {
  if (!dtype.empty() && !base::IsOneOf(dtype, kFloatDTypes)) {
    return Standard::kBinary;
  }
  const auto found = standards_.find(api);
  return found == standards_.end() ? Standard::kBenchmark : found->second;
}

size_t Standards::LevelOf(std::string_view api) const {
  const auto found = levels_.find(api);
  return found == levels_.end() ? 0 : found->second;
}

}  // namespace msprobe::analysis::accuracy
