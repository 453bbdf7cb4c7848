#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/rules.h"
#include "src/analysis/config_check/similarity.h"
#include "src/analysis/config_check/step_files.h"
#include "src/analysis/config_check/values.h"
#include "src/base/strings.h"
#include "src/json/value_text.h"

namespace msprobe::analysis::config_check {
namespace {

using json::ValueKind;
using json::ValueTree;
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
  const ValueTree* tree = nullptr;
  std::optional<uint32_t> count;
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

std::vector<Entry> EntriesOf(const ValueTree& tree, uint32_t operation) {
  std::vector<Entry> entries;
  if (operation == ValueTree::kNone || tree[operation].kind != ValueKind::kList) {
    return entries;
  }
  tree.ForEachChild(operation, [&](uint32_t node) {
    Entry& entry = entries.emplace_back();
    entry.tree = &tree;
    const uint32_t count = tree.Find(node, "count");
    if (count != ValueTree::kNone) {
      entry.count = count;
    }
    const uint32_t stack = tree.Find(node, "stack");
    if (stack == ValueTree::kNone || tree[stack].kind != ValueKind::kList) {
      return;
    }
    tree.ForEachChild(stack, [&](uint32_t frame) {
      entry.stack += entry.frames.empty() ? "" : "\n";
      entry.stack += tree[frame].text;
      entry.frames.emplace_back(tree[frame].text);
    });
    SetPlaces(entry);
  });
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
    return entry == nullptr ? "0"
           : entry->count   ? json::PythonStr(*entry->tree, *entry->count)
                            : "None";
  }

  Cell CountCell(const Entry* entry) {
    if (entry == nullptr) {
      return Cell::Integer(0);
    }
    return entry->count ? ValueCell(result_.table, *entry->tree, *entry->count) : Cell();
  }

  Cell StackCell(const Entry* entry) {
    if (entry == nullptr) {
      return Cell::Text(kNoMatch);
    }
    return entry->stack.empty() ? Cell() : result_.table.KeepText(entry->stack);
  }

  void AddRow(std::string_view operation, int64_t rank, const Entry* bench, const Entry* cmp) {
    const bool equal = bench != nullptr && cmp != nullptr && bench->count && cmp->count &&
                       PythonEqual(*bench->tree, *bench->count, *cmp->tree, *cmp->count);
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
                                         Shown(CountText(bench)), Shown(CountText(cmp)),
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

Result<ValueTree> ReadRank(const Pack& pack, const std::map<int64_t, std::string_view>& ranks,
                           int64_t rank) {
  const auto found = ranks.find(rank);
  return found == ranks.end() ? json::ParseValueTree("{}") : pack.ReadJsonObject(found->second);
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
    MSP_ASSIGN_OR_RETURN(const ValueTree bench, ReadRank(packs.bench, bench_ranks, rank));
    MSP_ASSIGN_OR_RETURN(const ValueTree cmp, ReadRank(packs.cmp, cmp_ranks, rank));
    const Members bench_operations(bench, 0);
    const Members cmp_operations(cmp, 0);
    for (const Members::Member& operation : bench_operations) {
      rows.Compare(operation.key, rank, EntriesOf(bench, operation.node),
                   EntriesOf(cmp, cmp_operations.Find(operation.key)));
    }
    for (const Members::Member& operation : cmp_operations) {
      if (!bench_operations.IndexOf(operation.key)) {
        rows.Compare(operation.key, rank, {}, EntriesOf(cmp, operation.node));
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

}  // namespace msprobe::analysis::config_check
