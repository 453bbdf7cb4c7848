#include "src/analysis/monitor/common/anomaly_reader.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/stream_reader.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::analysis::monitor {
namespace {

constexpr int kMostDepth = 16;
constexpr size_t kMembers = 9;

bool ReadInteger(const json::ValueTree& tree, std::string_view key, int64_t& value) {
  const uint32_t node = tree.Find(0, key);
  if (node == json::ValueTree::kNone || tree[node].kind != json::ValueKind::kInt) {
    return false;
  }
  value = tree[node].integer;
  return true;
}

bool ReadText(const json::ValueTree& tree, std::string_view key, std::string& value) {
  const uint32_t node = tree.Find(0, key);
  if (node == json::ValueTree::kNone || tree[node].kind != json::ValueKind::kText) {
    return false;
  }
  value = tree[node].text;
  return true;
}

// nullopt when a member is missing, is of another kind, or is one too many.
std::optional<msprobe::monitor::Anomaly> ReadEntry(const json::ValueTree& tree, std::string key) {
  msprobe::monitor::Anomaly entry;
  entry.key = std::move(key);
  const uint32_t group = tree.Find(0, "group_mates");
  if (tree[0].kind != json::ValueKind::kObject || tree[0].child_count != kMembers ||
      group == json::ValueTree::kNone || tree[group].kind != json::ValueKind::kList ||
      !ReadInteger(tree, "rank", entry.rank) || !ReadInteger(tree, "step", entry.step) ||
      !ReadInteger(tree, "micro_step", entry.micro_step) ||
      !ReadInteger(tree, "pp_stage", entry.pp_stage) ||
      !ReadInteger(tree, "vpp_stage", entry.vpp_stage) ||
      !ReadInteger(tree, "call_id", entry.call_id) || !ReadText(tree, "tag_name", entry.tag_name) ||
      !ReadText(tree, "message", entry.message)) {
    return std::nullopt;
  }
  bool good = true;
  tree.ForEachChild(group, [&](uint32_t child) {
    good = good && tree[child].kind == json::ValueKind::kInt;
    entry.group_mates.push_back(tree[child].integer);
  });
  return good ? std::optional(std::move(entry)) : std::nullopt;
}

// Keys that are written alike are one key: bytes that are no UTF-8 and an escaped half of a
// surrogate pair may be.
std::string WrittenKey(std::string_view key) {
  std::string text;
  json::Writer(text, -1).Text(key);
  return text;
}

// Members of the outermost object, each as a tree that is then forgotten.
class EntryReader : public json::Handler {
 public:
  EntryReader(const std::string& name, AnomalyFile& file) : name_(name), file_(file) {}

  bool OnNull() override {
    return Value([this] { return builder_.Null(); });
  }
  bool OnBool(bool value) override {
    return Value([&] { return builder_.Bool(value); });
  }
  bool OnInt(int64_t value) override {
    return Value([&] { return builder_.Int(value); });
  }
  bool OnFloat(double value, std::string_view digits) override {
    return Value([&] { return builder_.Float(value, digits); });
  }
  bool OnText(std::string_view value) override {
    return Value([&] { return builder_.Text(value); });
  }
  bool OnBeginObject() override { return Begin(json::ValueKind::kObject); }
  bool OnBeginArray() override { return Begin(json::ValueKind::kList); }
  bool OnEndObject() override { return End(); }
  bool OnEndArray() override { return End(); }
  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      key_ = key;
      builder_.Reset();
    } else {
      builder_.Key(key);
    }
    return true;
  }

  bool is_object() const { return is_object_; }
  bool too_large() const { return too_large_; }
  uint64_t more_skipped() const { return skipped_.more(); }

 private:
  template <typename Add>
  bool Value(const Add& add) {
    if (depth_ == 0) {
      return false;  // not an object
    }
    too_large_ = !add();
    if (depth_ == 1) {
      Finish();
    }
    return !too_large_;
  }
  bool Begin(json::ValueKind kind) {
    if (depth_ == 0) {
      is_object_ = kind == json::ValueKind::kObject;
      ++depth_;
      return is_object_;
    }
    ++depth_;
    too_large_ = !builder_.Begin(kind);
    return !too_large_;
  }
  bool End() {
    --depth_;
    if (depth_ > 0) {
      builder_.End();
    }
    if (depth_ == 1) {
      Finish();
    }
    return true;
  }
  void Finish() {
    std::optional<msprobe::monitor::Anomaly> entry = ReadEntry(builder_.tree(), key_);
    if (entry.has_value()) {
      const auto [place, is_new] = places_.emplace(WrittenKey(entry->key), file_.entries.size());
      if (is_new) {
        file_.entries.push_back(*std::move(entry));
      } else {
        file_.entries[place->second] = *std::move(entry);
      }
    } else {
      skipped_.Add(fmt::format("{}: entry {} lacks members of an alert; skipped", name_,
                               base::Printable(key_.substr(0, 120))));
    }
    builder_.Reset();
  }

  const std::string& name_;
  AnomalyFile& file_;
  json::ValueTreeBuilder builder_;
  std::unordered_map<std::string, size_t> places_;  // by written key
  std::string key_;
  int depth_ = 0;
  bool is_object_ = false;
  bool too_large_ = false;
  base::LimitedWarnings skipped_{file_.warnings, base::LimitedWarnings::kOfRows};
};

std::optional<int64_t> RankOfFolder(std::string_view name) {
  constexpr std::string_view kPrefix = "rank";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || name[4] < '0' ||
      name[4] > '9') {
    return std::nullopt;
  }
  return base::ParseInt(name.substr(kPrefix.size()));
}

}  // namespace

Result<AnomalyFile> ParseAnomalies(std::string_view text, const std::string& name) {
  AnomalyFile file;
  EntryReader reader(name, file);
  json::ParseOutcome outcome;
  const Status status = json::ParseStream(text, reader, &outcome, kMostDepth);
  if (reader.too_large()) {
    return BadFormatError(fmt::format("{}: one entry holds too many values", name));
  }
  if (!reader.is_object()) {
    return BadFormatError(fmt::format("{} is not a JSON object of alerts", name));
  }
  if (!status.ok()) {
    if (!outcome.truncated) {
      return Status(status).AddContext(name);
    }
    file.warnings.push_back(fmt::format("{} is truncated; its {} {} used", name,
                                        base::Plural(file.entries.size(), "entry"),
                                        file.entries.size() == 1 ? "is" : "are"));
  }
  if (reader.more_skipped() > 0) {
    file.warnings.push_back(
        fmt::format("{}: {} more of that kind", name, base::FormatCount(reader.more_skipped())));
  }
  return file;
}

Result<AnomalyFile> ReadAnomalyFile(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(path));
  return ParseAnomalies(bytes.text(), path.string());
}

Result<std::vector<RankAnomalies>> ReadAllAnomalies(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::vector<RankAnomalies> ranks;
  for (const std::string& name : names) {
    std::filesystem::path path = folder / name / "anomaly.json";
    if (!base::IsRegularFile(path)) {
      continue;
    }
    RankAnomalies rank;
    rank.rank = RankOfFolder(name).value_or(-1);
    rank.path = std::move(path);
    Result<AnomalyFile> file = ReadAnomalyFile(rank.path);
    if (file.ok()) {
      rank.file = *std::move(file);
    } else {
      rank.file.warnings.push_back(file.status().message());
    }
    ranks.push_back(std::move(rank));
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const RankAnomalies& a, const RankAnomalies& b) { return a.rank < b.rank; });
  return ranks;
}

}  // namespace msprobe::analysis::monitor
