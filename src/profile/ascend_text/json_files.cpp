#include "src/profile/ascend_text/json_files.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/json/stream_reader.h"
#include "src/json/value_tree.h"

namespace msprobe::profile {
namespace {

constexpr uint64_t kMetadataLimitBytes = uint64_t{64} << 20U;

Status Report(Status status, bool strict, Profile& profile) {
  if (strict) {
    return status;
  }
  profile.warnings.push_back(status.message());
  return {};
}

// {step: {"collective": {"Total Op Info": {"Communication Bandwidth Info": {"RDMA": {...}}}}}}
class BandwidthHandler final : public json::Handler {
 public:
  explicit BandwidthHandler(std::vector<Bandwidth>& steps) : steps_(steps) {}

  bool OnNull() override { return true; }
  bool OnBool(bool /*unused*/) override { return true; }
  bool OnInt(int64_t value) override { return Number(static_cast<double>(value)); }
  bool OnFloat(double value, std::string_view /*unused*/) override { return Number(value); }
  bool OnText(std::string_view value) override {
    const std::optional<double> number = base::ParseDouble(value);
    return !number.has_value() || Number(*number);
  }
  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      step_ = key;
      matched_ = 1;
    } else if (depth_ <= matched_ + 1 && depth_ <= kDepth) {
      // Keys on the way down, each below the one before.
      matched_ = Matches(key) ? depth_ : depth_ - 1;
    }
    if (depth_ == kDepth + 1 && matched_ == kDepth) {
      value_ = key == "Transit Size(MB)"   ? &size_mb_
               : key == "Transit Time(ms)" ? &time_ms_
                                           : nullptr;
    }
    return true;
  }
  bool OnBeginObject() override {
    ++depth_;
    if (depth_ == 2) {
      steps_.push_back({step_, 0, 0});
    } else if (depth_ == kDepth + 1 && matched_ == kDepth) {
      size_mb_ = time_ms_ = 0;
    }
    value_ = nullptr;
    return true;
  }
  bool OnEndObject() override {
    if (depth_ == kDepth + 1 && matched_ == kDepth) {
      const double rate = time_ms_ > 0 ? size_mb_ / time_ms_ : 0;
      (is_rdma_ ? steps_.back().rdma : steps_.back().sdma) = std::isfinite(rate) ? rate : 0;
    }
    --depth_;
    value_ = nullptr;
    return true;
  }
  bool OnBeginArray() override {
    value_ = nullptr;
    return ++depth_ > 1;  // a list of steps is no such file
  }
  bool OnEndArray() override {
    --depth_;
    return true;
  }

 private:
  static constexpr int kDepth = 5;  // of "RDMA" and "SDMA"; the step is 1

  bool Matches(std::string_view key) {
    switch (depth_) {
      case 2:
        return key == "collective";
      case 3:
        return key == "Total Op Info";
      case 4:
        return key == "Communication Bandwidth Info";
      default:
        is_rdma_ = key == "RDMA";
        return is_rdma_ || key == "SDMA";
    }
  }
  bool Number(double value) {
    if (value_ != nullptr && depth_ == kDepth + 1) {
      *value_ = value;
    }
    value_ = nullptr;
    return true;
  }

  std::vector<Bandwidth>& steps_;
  int depth_ = 0;
  int matched_ = 0;  // levels of the way down that the keys above agree with
  std::string step_;
  bool is_rdma_ = false;
  double size_mb_ = 0;
  double time_ms_ = 0;
  double* value_ = nullptr;
};

}  // namespace

Status ReadBandwidth(const std::filesystem::path& folder, bool strict, Profile& profile) {
  const std::filesystem::path path = folder / "communication.json";
  Result<base::FileBytes> file = base::FileBytes::Open(path);
  if (!file.ok()) {
    return Report(std::move(file).status(), strict, profile);
  }
  BandwidthHandler handler(profile.bandwidth);
  json::ParseOutcome outcome;
  Status status = json::ParseStream(file->text(), handler, &outcome);
  if (status.ok() && outcome.truncated) {
    status = BadFormatError("it is truncated");
  }
  if (!status.ok()) {
    return Report(std::move(status).AddContext(fmt::format("cannot read all of {}", path.string())),
                  strict, profile);
  }
  return {};
}

Status ReadGroupNames(const std::filesystem::path& folder, bool strict, Profile& profile) {
  const std::filesystem::path path = folder / "profiler_metadata.json";
  if (profile.groups.empty() || !base::Exists(path)) {
    return {};
  }
  Result<std::string> text = base::ReadTextFile(path, kMetadataLimitBytes);
  if (!text.ok()) {
    return Report(std::move(text).status(), strict, profile);
  }
  Result<json::ValueTree> parsed = json::ParseValueTree(*text);
  if (!parsed.ok()) {
    return Report(
        std::move(parsed).status().AddContext(fmt::format("cannot read {}", path.string())), strict,
        profile);
  }
  const json::ValueTree& tree = *parsed;
  if (tree[0].kind != json::ValueKind::kObject) {
    return {};
  }
  const uint32_t groups = tree.Find(0, "parallel_group_info");
  if (groups == json::ValueTree::kNone || tree[groups].kind != json::ValueKind::kObject) {
    return {};
  }
  std::unordered_map<TextId, std::vector<CommunicationGroup*>> by_name;
  for (CommunicationGroup& known : profile.groups) {
    by_name[known.name].push_back(&known);
  }
  tree.ForEachChild(groups, [&](uint32_t group) {
    if (tree[group].kind != json::ValueKind::kObject) {
      return;
    }
    const uint32_t name = tree.Find(group, "group_name");
    if (name == json::ValueTree::kNone || tree[name].kind != json::ValueKind::kText) {
      return;
    }
    const TextId thread =
        profile.texts.Find(fmt::format("Group {} Communication", tree[group].key));
    const auto named = by_name.find(thread);
    if (thread == kNoText || named == by_name.end()) {
      return;
    }
    for (CommunicationGroup* known : named->second) {
      known->parallel_name = profile.texts.Intern(tree[name].text);
    }
  });
  return {};
}

}  // namespace msprobe::profile
