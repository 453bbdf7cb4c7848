#include "src/analysis/monitor/common/anomaly_reader.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/json/document.h"
#include "src/json/stream_reader.h"
#include "src/json/writer.h"

namespace msprobe::analysis::monitor {
namespace {

constexpr int kMostDepth = 16;
constexpr size_t kMembers = 9;

bool ReadInteger(const json::Json& object, std::string_view key, int64_t& value) {
  const json::Json& member = json::Member(object, key);
  value = json::IntOf(member);
  return member.is_number_integer();
}

bool ReadText(const json::Json& object, std::string_view key, std::string& value) {
  const json::Json& member = json::Member(object, key);
  value = json::TextOf(member);
  return member.is_string();
}

// nullopt when a member is missing, is of another kind, or is one too many.
std::optional<msprobe::monitor::Anomaly> ReadEntry(const json::Json& object, std::string key) {
  msprobe::monitor::Anomaly entry;
  entry.key = std::move(key);
  const json::Json& group = json::Member(object, "group_mates");
  bool good = object.is_object() && object.size() == kMembers && group.is_array() &&
              ReadInteger(object, "rank", entry.rank) && ReadInteger(object, "step", entry.step) &&
              ReadInteger(object, "micro_step", entry.micro_step) &&
              ReadInteger(object, "pp_stage", entry.pp_stage) &&
              ReadInteger(object, "vpp_stage", entry.vpp_stage) &&
              ReadInteger(object, "call_id", entry.call_id) &&
              ReadText(object, "tag_name", entry.tag_name) &&
              ReadText(object, "message", entry.message);
  for (const json::Json& rank : json::ItemsOf(group)) {
    good = good && rank.is_number_integer();
    entry.group_mates.push_back(json::IntOf(rank));
  }
  return good ? std::optional(std::move(entry)) : std::nullopt;
}

// Keys that are written alike are one key: bytes that are not UTF-8 and an escaped half of a
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

  bool OnNull() override { return Value(); }
  bool OnBool(bool /*value*/) override { return Value(); }
  bool OnNumber(std::string_view /*digits*/) override { return Value(); }
  bool OnInt(int64_t /*value*/) override { return Value(); }
  bool OnFloat(double /*value*/, std::string_view /*digits*/) override { return Value(); }
  bool OnText(std::string_view /*value*/) override { return Value(); }
  bool OnBeginObject() override {
    is_object_ = is_object_ || depth_ == 0;
    return Begin();
  }
  bool OnBeginArray() override { return depth_ > 0 && Begin(); }
  bool OnEndObject() override { return End(); }
  bool OnEndArray() override { return End(); }
  bool OnKey(std::string_view key) override {
    if (depth_ == 1) {
      key_ = key;
    }
    return true;
  }

  bool is_object() const { return is_object_; }
  bool too_large() const { return too_large_; }
  uint64_t more_skipped() const { return skipped_.more(); }

 private:
  bool Value() {
    if (depth_ == 1) {
      Finish(nullptr);
    }
    return depth_ > 0;  // else not an object
  }
  bool Begin() {
    ++depth_;
    if (depth_ == 2) {
      begin_ = place() - 1;
    }
    return true;
  }
  bool End() {
    --depth_;
    if (depth_ != 1) {
      return true;
    }
    const Result<json::Json> entry =
        json::ParseDocument({begin_, static_cast<size_t>(place() - begin_)});
    too_large_ = !entry.ok();
    if (entry.ok()) {
      Finish(*entry);
    }
    return !too_large_;
  }
  void Finish(const json::Json& value) {
    std::optional<msprobe::monitor::Anomaly> entry = ReadEntry(value, key_);
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
  }

  const std::string& name_;
  AnomalyFile& file_;
  std::unordered_map<std::string, size_t> places_;  // by written key
  std::string key_;
  const char* begin_ = nullptr;  // of the entry that is open
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

Result<std::vector<RankAnomalies>> FindAnomalyFiles(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::vector<RankAnomalies> ranks;
  for (const std::string& name : names) {
    std::filesystem::path path = folder / name / "anomaly.json";
    if (base::IsRegularFile(path)) {
      RankAnomalies& rank = ranks.emplace_back();
      rank.rank = RankOfFolder(name).value_or(-1);
      rank.path = std::move(path);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const RankAnomalies& a, const RankAnomalies& b) { return a.rank < b.rank; });
  return ranks;
}

void ReadAnomalies(RankAnomalies& rank) {
  Result<AnomalyFile> file = ReadAnomalyFile(rank.path);
  if (file.ok()) {
    rank.file = *std::move(file);
  } else {
    rank.file.warnings.push_back(file.status().message());
  }
}

Result<std::vector<RankAnomalies>> ReadAllAnomalies(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(std::vector<RankAnomalies> ranks, FindAnomalyFiles(folder));
  std::for_each(ranks.begin(), ranks.end(), ReadAnomalies);
  return ranks;
}

}  // namespace msprobe::analysis::monitor
