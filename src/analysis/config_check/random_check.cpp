#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/parameters.h"
#include "src/analysis/config_check/rules.h"
#include "src/base/strings.h"
#include "src/report/advice.h"

namespace msprobe::analysis::config_check {
namespace {

using json::Json;
using report::Cell;

constexpr double kLeastScore = 0.8;
constexpr std::string_view kNoMatch = "no match stack";

// "File PATH, line N, in FUNCTION, CODE", taken apart at single blanks.
struct Frame {
  explicit Frame(std::string_view text) {
    constexpr size_t kPathPiece = 1;
    constexpr size_t kFunctionPiece = 5;
    constexpr size_t kCodePiece = 6;
    const std::vector<std::string_view> pieces = base::Split(text, ' ');
    if (pieces.size() <= kCodePiece) {
      return;
    }
    const auto without_last = [](std::string_view piece) {
      return piece.substr(0, piece.empty() ? 0 : piece.size() - 1);
    };
    const std::string_view path = without_last(pieces[kPathPiece]);
    file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
    function = without_last(pieces[kFunctionPiece]);
    const auto code_begin = static_cast<size_t>(pieces[kCodePiece].data() - text.data());
    code = text.substr(code_begin);
  }

  std::string_view file;
  std::string_view function;
  std::string_view code;
};

// The calls of one operation from one place.
struct Entry {
  const Json* count = nullptr;
  std::vector<Frame> frames;
  std::string stack;  // lines
  // What a partner has, too: file and function of each frame, behind a mark because a stack without
  // frames matches another one. Empty where a frame names no file: nothing matches that.
  std::string places = "|";
};

// Compares the code of frames whose file and function are equal: line numbers may differ, and a
// little of the code. Without either of the first two the score of a frame stays below the limit.
class CodeMatcher {
 public:
  // `steps`: what all matchers have done so far.
  CodeMatcher(uint64_t& steps, uint64_t most_steps) : steps_(steps), most_steps_(most_steps) {}

  bool Matches(const Entry& a, const Entry& b) {
    return std::equal(a.frames.begin(), a.frames.end(), b.frames.begin(),
                      [this](const Frame& x, const Frame& y) { return Matches(x.code, y.code); });
  }
  // From now on only equal code matches.
  bool gave_up() const { return steps_ > most_steps_; }

 private:
  bool Matches(std::string_view a, std::string_view b) {
    constexpr size_t kBytesPerStep = 32;
    steps_ += 1 + (a.size() == b.size() ? a.size() / kBytesPerStep : 0);
    if (a == b) {
      return true;
    }
    if (gave_up()) {
      return false;
    }
    const SimilarityText& text_a = TextOf(a);
    const SimilarityText& text_b = TextOf(b);
    steps_ += text_a.histogram.size();
    return IsEnough(SimilarityBound(text_a, text_b)) &&
           IsEnough(Similarity(text_a, text_b, steps_));
  }

  static bool IsEnough(double code) { return (1.0 + 1.0 + code) / 3 >= kLeastScore; }

  const SimilarityText& TextOf(std::string_view code) {
    return texts_.try_emplace(code, code, false).first->second;
  }

  std::unordered_map<std::string_view, SimilarityText> texts_;  // by code, of the trees
  uint64_t& steps_;
  const uint64_t most_steps_;
};

// Entries by the places of their frames, in file order.
class EntriesByPlaces {
 public:
  explicit EntriesByPlaces(const std::vector<Entry>& entries) : all_(entries) {
    for (const Entry& entry : entries) {
      if (!entry.places.empty()) {
        entries_[entry.places].push_back(&entry);
      }
    }
  }

  // The first one that matches; nullptr when there is none.
  const Entry* FirstMatch(const Entry& entry, CodeMatcher& matcher) {
    if (matcher.gave_up()) {
      return FirstEqual(entry);
    }
    const auto known = entries_.find(entry.places);
    if (known == entries_.end()) {
      return nullptr;
    }
    const auto match =
        std::find_if(known->second.begin(), known->second.end(),
                     [&](const Entry* other) { return matcher.Matches(*other, entry); });
    return match == known->second.end() ? nullptr : *match;
  }

 private:
  const Entry* FirstEqual(const Entry& entry) {
    if (equal_.empty()) {
      for (const Entry& other : all_) {
        equal_.emplace(PlacesAndCode(other), &other);
      }
    }
    const auto known = entry.places.empty() ? equal_.end() : equal_.find(PlacesAndCode(entry));
    return known == equal_.end() ? nullptr : known->second;
  }

  static std::string PlacesAndCode(const Entry& entry) {
    std::string text = entry.places;
    for (const Frame& frame : entry.frames) {
      text.append(std::to_string(frame.code.size())).append(" ").append(frame.code);
    }
    return text;
  }

  const std::vector<Entry>& all_;
  std::unordered_map<std::string_view, std::vector<const Entry*>> entries_;
  std::unordered_map<std::string, const Entry*> equal_;  // the first one each
};

void SetPlaces(Entry& entry) {
  for (const Frame& frame : entry.frames) {
    if (frame.file.empty()) {
      entry.places.clear();
      return;
    }
    // Neither holds a blank.
    entry.places.append(frame.file).append(" ").append(frame.function).append(" ");
  }
}

std::vector<Entry> EntriesOf(const Json* operation) {
  std::vector<Entry> entries;
  if (operation == nullptr) {
    return entries;
  }
  for (const Json& place : json::ItemsOf(*operation)) {
    Entry& entry = entries.emplace_back();
    entry.count = json::Find(place, "count");
    const Json& stack = json::Member(place, "stack");
    if (!stack.is_array()) {
      continue;
    }
    for (const Json& frame : stack) {
      entry.stack += entry.frames.empty() ? "" : "\n";
      entry.stack += json::TextOf(frame);
      entry.frames.emplace_back(json::TextOf(frame));
    }
    SetPlaces(entry);
  }
  return entries;
}

class RandomRows {
 public:
  explicit RandomRows(uint64_t most_steps) : most_steps_(most_steps) {
    result_.part = Part::kRandom;
    result_.table = report::Table("random", {"op", "rank", "bench_stack", "cmp_stack",
                                             "bench_count", "cmp_count", "check_result"});
    differing_.part = Part::kRandom;
  }

  void Compare(std::string_view operation, int64_t rank, const std::vector<Entry>& bench,
               const std::vector<Entry>& cmp) {
    EntriesByPlaces bench_entries(bench);
    EntriesByPlaces cmp_entries(cmp);
    CodeMatcher matcher(steps_, most_steps_);
    for (const Entry& entry : bench) {
      AddRow(operation, rank, &entry, cmp_entries.FirstMatch(entry, matcher));
    }
    for (const Entry& entry : cmp) {
      if (bench_entries.FirstMatch(entry, matcher) == nullptr) {
        AddRow(operation, rank, nullptr, &entry);
      }
    }
  }

  CheckResult Finish() {
    if (result_.errors > 0) {
      const Remedy& remedy = BuiltInRules().RemedyOf("random");
      differing_.what = fmt::format("{} of {} places that draw or seed random numbers differ",
                                    base::FormatCount(result_.errors),
                                    base::FormatCount(result_.table.row_count()));
      differing_.why = remedy.why;
      differing_.fix = remedy.fix;
      result_.findings.push_back(std::move(differing_));
    }
    if (steps_ > most_steps_) {
      Finding finding;
      finding.severity = Severity::kWarning;
      finding.part = Part::kRandom;
      finding.what = "too many unmatched places: the search for similar code was cut short";
      result_.findings.push_back(std::move(finding));
    }
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  static std::string CountText(const Entry* entry) {
    return entry == nullptr ? "0" : entry->count ? json::PythonStr(*entry->count) : "None";
  }

  Cell CountCell(const Entry* entry) {
    if (entry == nullptr) {
      return Cell::Integer(0);
    }
    return entry->count ? ValueCell(result_.table, *entry->count) : Cell();
  }

  Cell StackCell(const Entry* entry) {
    if (entry == nullptr) {
      return Cell::Text(kNoMatch);
    }
    return entry->stack.empty() ? Cell() : result_.table.KeepText(entry->stack);
  }

  void AddRow(std::string_view operation, int64_t rank, const Entry* bench, const Entry* cmp) {
    const bool equal = bench != nullptr && cmp != nullptr && bench->count && cmp->count &&
                       PythonEqual(*bench->count, *cmp->count);
    const std::array<Cell, 7> cells = {result_.table.KeepText(operation),
                                       Cell::Integer(rank),
                                       StackCell(bench),
                                       StackCell(cmp),
                                       CountCell(bench),
                                       CountCell(cmp),
                                       Cell::Boolean(equal)};
    result_.table.AddRow(cells);
    if (!equal) {
      ++result_.errors;
      const std::string& stack = (bench != nullptr ? bench : cmp)->stack;
      const std::string_view place = std::string_view(stack).substr(stack.rfind('\n') + 1);
      AddExample(differing_, fmt::format("{} (rank {}): {} / {} calls, {}", Shown(operation), rank,
                                         Shown(CountText(cmp)), Shown(CountText(bench)),
                                         base::Printable(place.substr(0, place.find(", in ")))));
    }
  }

  CheckResult result_;
  Finding differing_;
  const uint64_t most_steps_;
  uint64_t steps_ = 0;
};

// The files of one side by rank.
std::map<int64_t, std::string_view> FindRanks(const Pack& pack,
                                              std::vector<std::string>& unplaced) {
  std::map<int64_t, std::string_view> ranks;
  constexpr std::string_view kFolder = "random/";
  constexpr std::string_view kSuffix = ".json";
  for (const std::string_view member : pack.MembersBelow(kFolder)) {
    std::string_view name = member.substr(kFolder.size());
    std::optional<int64_t> rank;
    if (name.ends_with(kSuffix)) {
      name.remove_suffix(kSuffix.size());
      rank = NumberBehind(name, "rank");
    }
    if (rank) {
      ranks.emplace(*rank, member);
    } else {
      unplaced.push_back(fmt::format("{}: {}", pack.label(), Shown(member)));
    }
  }
  return ranks;
}

Result<Json> ReadRank(const Pack& pack, const std::map<int64_t, std::string_view>& ranks,
                      int64_t rank) {
  const auto found = ranks.find(rank);
  return found == ranks.end() ? Result<Json>(Json::object()) : pack.ReadJsonObject(found->second);
}

}  // namespace

Result<CheckResult> CheckRandom(const PackPair& packs, uint64_t most_steps) {
  std::vector<std::string> unplaced;
  const std::map<int64_t, std::string_view> bench_ranks = FindRanks(packs.bench, unplaced);
  const std::map<int64_t, std::string_view> cmp_ranks = FindRanks(packs.cmp, unplaced);
  std::map<int64_t, std::string_view> all = bench_ranks;
  all.insert(cmp_ranks.begin(), cmp_ranks.end());
  RandomRows rows(most_steps);
  for (const auto& [rank, member] : all) {
    MSP_ASSIGN_OR_RETURN(const Json bench, ReadRank(packs.bench, bench_ranks, rank));
    MSP_ASSIGN_OR_RETURN(const Json cmp, ReadRank(packs.cmp, cmp_ranks, rank));
    const Members bench_operations(bench);
    const Members cmp_operations(cmp);
    for (const Members::Member& operation : bench_operations) {
      rows.Compare(operation.key, rank, EntriesOf(operation.value),
                   EntriesOf(cmp_operations.Find(operation.key)));
    }
    for (const Members::Member& operation : cmp_operations) {
      if (!bench_operations.IndexOf(operation.key)) {
        rows.Compare(operation.key, rank, {}, EntriesOf(operation.value));
      }
    }
  }
  CheckResult result = rows.Finish();
  if (!unplaced.empty()) {
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.part = Part::kRandom;
    finding.what = "files left out: not called rank<R>.json";
    finding.examples = std::move(unplaced);
    finding.examples.resize(std::min(finding.examples.size(), kMaxExamples));
    result.findings.push_back(std::move(finding));
  }
  return result;
}

namespace {

constexpr std::array<std::string_view, 4> kFeatures = {"max", "min", "mean", "norm"};

// The values of max, min, mean and norm; nullopt when the object has not exactly these four.
using Features = std::array<const Json*, kFeatures.size()>;
std::optional<Features> FeaturesOf(const Json& object) {
  Features features{};
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    features[i] = json::Find(object, kFeatures[i]);
  }
  const bool has_all = std::find(features.begin(), features.end(), nullptr) == features.end();
  return has_all && object.size() == features.size() ? std::optional(features) : std::nullopt;
}

double NumberOf(const Json& value) {
  const bool is_number = value.is_number() || json::IsBigInteger(value);
  return value.is_boolean() ? (json::BoolOf(value) ? 1 : 0)
         : is_number        ? json::NumberOf(value)
                            : std::nan("");
}

// |bench - cmp| / bench: the sign of bench stays in it, as the Python tool has it. NaN where
// there is none.
double RelativeDifference(const Json& bench, const Json& cmp) {
  const double bench_value = NumberOf(bench);
  if (bench_value == 0) {
    return std::nan("");
  }
  return std::abs(bench_value - NumberOf(cmp)) / bench_value;
}

// Rows of the dataset or weights sheet, and what they add up to.
class FeatureRows {
 public:
  FeatureRows(Part part, std::string name_column) {
    result_.part = part;
    result_.compared = false;
    result_.table =
        report::Table(std::string(PartName(part)),
                      {"step", "rank", std::move(name_column), "equal", "max_relative_diff",
                       "min_relative_diff", "mean_relative_diff", "norm_relative_diff"});
  }

  void StartFile(const StepFile& file) {
    step_ = file.step;
    rank_ = file.rank;
    if (!first_step_) {
      first_step_ = step_;
    }
  }

  // Two tensors, both with features.
  void Compare(std::string_view name, const Features& bench, const Features& cmp) {
    result_.compared = true;
    bool equal = true;
    bool only_nan = true;  // that makes them unequal
    std::array<Cell, kFeatures.size()> differences;
    double largest = 0;
    for (size_t i = 0; i < kFeatures.size(); ++i) {
      const Json& bench_value = *bench[i];
      const Json& cmp_value = *cmp[i];
      const bool same = PythonEqual(bench_value, cmp_value);
      equal = equal && same;
      only_nan = only_nan &&
                 (same || (std::isnan(NumberOf(bench_value)) && std::isnan(NumberOf(cmp_value))));
      const double difference = RelativeDifference(bench_value, cmp_value);
      differences[i] = NumberCell(difference);
      if (!std::isnan(difference)) {
        largest = std::max(largest, std::abs(difference));
      }
    }
    AddRow(name, Cell::Boolean(equal), differences);
    if (equal) {
      return;
    }
    if (only_nan) {
      ++nan_count_;
      AddExample(nan_, fmt::format("{} (step {} rank {})", Shown(name), step_, rank_));
    } else {
      Differs(name, largest > 0 ? fmt::format("relative difference up to {:.2g}", largest) : "");
    }
  }

  // A row that is not equal and has no numbers.
  void AddUnequal(std::string_view name, std::string_view reason) {
    AddRow(name, Cell::Boolean(false), {});
    Differs(name, reason);
  }

  void AddOnly(std::string_view name, std::string_view text, std::string_view side) {
    AddRow(name, Cell::Text(text), {});
    ++only_count_;
    ++result_.warnings;
    AddExample(only_,
               fmt::format("{} (only in {}, step {} rank {})", Shown(name), side, step_, rank_));
  }

  void AddUnplaced(const Pack& pack, const std::vector<std::string>& members) {
    if (members.empty()) {
      return;
    }
    Finding finding;
    finding.severity = Severity::kWarning;
    finding.part = result_.part;
    finding.what = fmt::format("{}: {} file{} left out: not in a folder step<S>/rank<R>",
                               pack.label(), members.size(), members.size() == 1 ? "" : "s");
    for (const std::string& member : members) {
      AddExample(finding, Shown(member));
    }
    unplaced_.push_back(std::move(finding));
  }

  CheckResult Finish(const Rules& rules) {
    const std::string_view noun = result_.part == Part::kDataset ? "input" : "weight";
    if (differing_count_ > 0) {
      const Remedy& remedy = rules.RemedyOf(PartName(result_.part));
      differing_.part = result_.part;
      const bool started_alike = first_differing_step_ > *first_step_;
      differing_.what = fmt::format(
          "{} of {} recorded {}s differ, from step {} on{}", base::FormatCount(differing_count_),
          base::FormatCount(result_.table.row_count()), noun, first_differing_step_,
          started_alike ? fmt::format(" (equal before, since step {})", *first_step_) : "");
      differing_.why = remedy.why;
      differing_.fix = remedy.fix;
      if (started_alike && result_.part == Part::kWeights) {
        differing_.consequence = true;
        differing_.why = report::AdviceText("config_check.diverged_in_training");
        differing_.fix = report::AdviceText("config_check.resolve_above");
      }
      result_.findings.push_back(std::move(differing_));
    }
    if (nan_count_ > 0) {
      nan_.part = result_.part;
      nan_.what =
          fmt::format("{} {}{} NaN on both sides, and NaN never equals NaN",
                      base::FormatCount(nan_count_), noun, nan_count_ == 1 ? " is" : "s are");
      nan_.why = report::AdviceText("config_check.run_with_nan");
      nan_.fix = report::AdviceText("config_check.find_first_nan");
      result_.findings.push_back(std::move(nan_));
    }
    if (only_count_ > 0) {
      only_.severity = Severity::kWarning;
      only_.part = result_.part;
      only_.what =
          fmt::format("{} {}{} no partner, which does not fail the check",
                      base::FormatCount(only_count_), noun, only_count_ == 1 ? " has" : "s have");
      only_.why = report::AdviceText("config_check.other_model");
      only_.fix = report::AdviceText("config_check.compare_checkpoints");
      result_.findings.push_back(std::move(only_));
    }
    for (Finding& finding : unplaced_) {
      result_.findings.push_back(std::move(finding));
    }
    result_.errors = differing_count_ + nan_count_;
    result_.nan_errors = nan_count_;
    result_.passed = result_.errors == 0;
    return std::move(result_);
  }

 private:
  void AddRow(std::string_view name, Cell equal,
              const std::array<Cell, kFeatures.size()>& differences) {
    std::array<Cell, 8> cells = {Cell::Integer(step_), Cell::Integer(rank_),
                                 name.empty() ? Cell() : result_.table.KeepText(name), equal};
    std::copy(differences.begin(), differences.end(), cells.begin() + 4);
    result_.table.AddRow(cells);
  }

  void Differs(std::string_view name, std::string_view reason) {
    if (differing_count_ == 0) {
      first_differing_step_ = step_;
    }
    ++differing_count_;
    AddExample(differing_, fmt::format("{} (step {} rank {}){}{}", Shown(name), step_, rank_,
                                       reason.empty() ? "" : ": ", reason));
  }

  CheckResult result_;
  int64_t step_ = 0;
  int64_t rank_ = 0;
  std::optional<int64_t> first_step_;
  int64_t first_differing_step_ = 0;
  size_t differing_count_ = 0;
  size_t nan_count_ = 0;
  size_t only_count_ = 0;
  Finding differing_;
  Finding nan_;
  Finding only_;
  std::vector<Finding> unplaced_;
};

std::string Joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// The inputs of one forward call. Depth is bounded by the JSON reader.
Status CompareInputs(const Json& bench, const Json& cmp, const std::string& path,
                     internal::NameBudget& names, FeatureRows& rows) {
  const Members bench_members(bench);
  const Members cmp_members(cmp);
  for (const Members::Member& member : bench_members) {
    const std::string tag = Joined(path, member.key);
    MSP_RETURN_IF_ERROR(names.Take(tag));
    const Json* const other = cmp_members.Find(member.key);
    if (other == nullptr) {
      rows.AddUnequal(tag, "only in reference");
      continue;
    }
    if (!member.value->is_object()) {
      continue;  // no tensor
    }
    const std::optional<Features> bench_features = FeaturesOf(*member.value);
    if (!bench_features) {
      if (other->is_object()) {
        MSP_RETURN_IF_ERROR(CompareInputs(*member.value, *other, tag, names, rows));
      } else {
        rows.AddUnequal(tag, "a container in reference only");
      }
      continue;
    }
    const std::optional<Features> cmp_features = FeaturesOf(*other);
    if (cmp_features) {
      rows.Compare(tag, *bench_features, *cmp_features);
    } else {
      rows.AddUnequal(tag, "a tensor in reference only");
    }
  }
  for (const Members::Member& member : cmp_members) {
    if (bench_members.Find(member.key) == nullptr) {
      const std::string tag = Joined(path, member.key);
      MSP_RETURN_IF_ERROR(names.Take(tag));
      rows.AddUnequal(tag, "only in test");
    }
  }
  return {};
}

void CompareParameters(const Json& bench, const Json& cmp, FeatureRows& rows) {
  const Members bench_members(bench);
  const Members cmp_members(cmp);
  for (const Members::Member& member : bench_members) {
    const Json* const other = cmp_members.Find(member.key);
    if (other == nullptr) {
      rows.AddOnly(member.key, "only bench have", "reference");
      continue;
    }
    const std::optional<Features> bench_features = FeaturesOf(*member.value);
    const std::optional<Features> cmp_features = FeaturesOf(*other);
    if (bench_features && cmp_features) {
      rows.Compare(member.key, *bench_features, *cmp_features);
    } else {
      rows.AddUnequal(member.key, "no max, min, mean and norm");
    }
  }
  for (const Members::Member& member : cmp_members) {
    if (bench_members.Find(member.key) == nullptr) {
      rows.AddOnly(member.key, "only cmp have", "test");
    }
  }
}

}  // namespace

Result<CheckResult> CheckDataset(const PackPair& packs) {
  FeatureRows rows(Part::kDataset, "tag");
  internal::NameBudget names;
  constexpr uint64_t kTimesFileSize = 4;  // short keys and values below a path of some length
  const StepFiles files = FindStepFiles(packs.bench, Part::kDataset, "dataset.json");
  for (const StepFile& file : files.files) {
    if (!packs.cmp.HasMember(file.member)) {
      continue;  // reported with the gaps
    }
    MSP_ASSIGN_OR_RETURN(const Json bench, packs.bench.ReadJsonObject(file.member));
    MSP_ASSIGN_OR_RETURN(const Json cmp, packs.cmp.ReadJsonObject(file.member));
    rows.StartFile(file);
    names.Add(kTimesFileSize * (packs.bench.BytesOf(file.member) + packs.cmp.BytesOf(file.member)));
    MSP_RETURN_IF_ERROR(CompareInputs(bench, cmp, "", names, rows), file.member);
  }
  rows.AddUnplaced(packs.bench, files.unplaced);
  rows.AddUnplaced(packs.cmp, FindStepFiles(packs.cmp, Part::kDataset, "dataset.json").unplaced);
  return rows.Finish(BuiltInRules());
}

Result<CheckResult> CheckWeights(const PackPair& packs) {
  FeatureRows rows(Part::kWeights, "weight_name");
  const StepFiles files = FindStepFiles(packs.bench, Part::kWeights, "");
  for (const StepFile& file : files.files) {
    MSP_ASSIGN_OR_RETURN(const Json bench, packs.bench.ReadJsonObject(file.member));
    rows.StartFile(file);
    if (!packs.cmp.HasMember(file.member)) {
      for (const Members::Member& member : Members(bench)) {
        rows.AddOnly(member.key, "only bench have", "reference");
      }
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const Json cmp, packs.cmp.ReadJsonObject(file.member));
    CompareParameters(bench, cmp, rows);
  }
  rows.AddUnplaced(packs.bench, files.unplaced);
  rows.AddUnplaced(packs.cmp, FindStepFiles(packs.cmp, Part::kWeights, "").unplaced);
  return rows.Finish(BuiltInRules());
}

}  // namespace msprobe::analysis::config_check
