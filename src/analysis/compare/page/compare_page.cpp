// Fills the page of `compare --format html`.
//
// A pair becomes columns: per call its name, place in the module tree, stack and status; per row
// the names, dtypes, shapes, statistics and errors of both sides, as codes of a few bytes
// (report::CellCodes). Errors and metrics keep only as many digits as people read. If a pair has
// more rows than the page has room for, whole calls are left out, equal ones first.
#include "src/analysis/compare/page/compare_page.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/document.h"
#include "src/analysis/compare/summary.h"
#include "src/base/strings.h"
#include "src/dump/stack_file.h"
#include "src/json/writer.h"
#include "src/report/texts.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kComparePage;  // empty: not built
}

namespace msprobe::analysis::compare {

uint32_t StatCode(const StatValue& stat, report::CellCodes& cells) {
  switch (stat.kind) {
    case StatKind::kNone:
      return report::CellCodes::kNothing;
    case StatKind::kBool:
      return cells.Text(stat.boolean ? "True" : "False");
    case StatKind::kText:
      return cells.Text(stat.text());
    case StatKind::kInteger:
    case StatKind::kNumber:
      break;
  }
  return cells.Number(stat.number);
}

namespace {

using json::Writer;
using report::CellCodes;
using report::TextList;
using Columns = report::PageColumns;

constexpr int kErrorBits = 11;       // of an error's fraction: 3 digits are enough to judge by
constexpr int kMetricBits = 17;      // 5 digits
constexpr size_t kMostAlone = 2000;  // names of reference rows without partner
constexpr uint32_t kSame = 1;        // a text of the reference side that is the other side's

// Rows of one call; rows of an entry stand together in a result.
struct Call {
  uint32_t entry = 0;
  uint32_t first_row = 0;  // of PairResult::rows
  uint32_t row_count = 0;
  int weight = 0;  // 2: a row stands out, 1: only noise, 0: equal
};

// If there are more than `most_rows` rows, whole calls are left out: first those that are equal,
// then those that agree, the latest calls first.
class ColumnMaker {
 public:
  ColumnMaker(const ComparedPair& pair, uint64_t most_rows)
      : pair_(pair), plan_(PlanExecution(pair.npu)) {
    FindCalls();
    ChooseCalls(most_rows);
  }

  uint64_t row_count() const { return rows_.size(); }

  std::vector<report::PageBlock> Blocks(const std::string& id) {
    Columns columns;
    AddStandings(columns);
    AddErrors(columns);
    AddTexts(columns);
    AddStatistics(columns);
    AddMetrics(columns);
    std::vector<report::PageBlock> blocks;
    std::string listing;
    WriteListing(columns, listing);
    blocks.push_back({id, [text = std::move(listing)](std::string& out) { out += text; }});
    report::AddColumnBlocks(id, std::move(columns), blocks);
    return blocks;
  }

 private:
  const SideRow& NpuRow(const RowResult& row) const { return pair_.npu.rows[row.pair.npu]; }
  const SideRow* BenchRow(const RowResult& row) const {
    return row.pair.bench == kNoRow ? nullptr : &pair_.bench.rows[row.pair.bench];
  }

  int WeightOf(size_t row) const {
    const RowResult& result = pair_.result.rows[row];
    const RowStatus standing = pair_.divergence.rows[row];
    if (standing == RowStatus::kDrifts || standing == RowStatus::kDiffers ||
        result.pair.bench == kNoRow || result.fill != report::Fill::kNone) {
      return 2;
    }
    return standing == RowStatus::kAgrees ? 1 : 0;
  }

  void FindCalls() {
    std::vector<Call> of_entry(pair_.npu.entries.size());
    for (size_t row = 0; row < pair_.result.rows.size(); ++row) {
      Call& call = of_entry[NpuRow(pair_.result.rows[row]).entry];
      if (call.row_count == 0) {
        call.first_row = static_cast<uint32_t>(row);
      }
      ++call.row_count;
      call.weight = std::max(call.weight, WeightOf(row));
    }
    for (const uint32_t entry : plan_.order) {
      if (of_entry[entry].row_count > 0) {
        calls_.push_back(of_entry[entry]);
        calls_.back().entry = entry;
      }
    }
  }

  void ChooseCalls(uint64_t most_rows) {
    std::vector<bool> keep(calls_.size());
    uint64_t room = most_rows;
    for (const int weight : {2, 1, 0}) {
      for (size_t i = 0; i < calls_.size() && room > 0; ++i) {
        if (calls_[i].weight == weight) {
          keep[i] = true;
          room -= std::min<uint64_t>(room, calls_[i].row_count);
        }
      }
    }
    std::vector<Call> kept;
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (keep[i]) {
        kept.push_back(calls_[i]);
      }
    }
    calls_ = std::move(kept);
    for (const Call& call : calls_) {
      for (uint32_t i = 0; i < call.row_count && rows_.size() < most_rows; ++i) {
        rows_.push_back(call.first_row + i);
      }
    }
  }

  template <typename Function>
  void AddColumn(Columns& columns, std::string name, Function&& code_of) {
    std::vector<uint32_t> codes;
    codes.reserve(rows_.size());
    for (const uint32_t row : rows_) {
      codes.push_back(code_of(pair_.result.rows[row], row));
    }
    columns.emplace_back(std::move(name), std::move(codes));
  }

  // Standing 3 bits, state 3, fill 2, verdict 4, outcome 2.
  void AddStandings(Columns& columns) {
    AddColumn(columns, "kind", [&](const RowResult& row, uint32_t index) {
      return static_cast<uint32_t>(pair_.divergence.rows[index]) |
             static_cast<uint32_t>(NpuRow(row).state) << 3U |
             static_cast<uint32_t>(row.fill) << 6U | static_cast<uint32_t>(row.verdict) << 8U |
             static_cast<uint32_t>(row.pair.outcome) << 12U;
    });
  }

  void AddErrors(Columns& columns) {
    const auto code = [&](const Distance& distance, double value) {
      if (!distance.comparable) {
        return CellCodes::kNothing;
      }
      return cells_.Number(
          distance.nonfinite_differs ? std::numeric_limits<double>::infinity() : value, kErrorBits);
    };
    AddColumn(columns, "relative", [&](const RowResult& row, uint32_t) {
      return code(row.distance, row.distance.relative);
    });
    AddColumn(columns, "absolute", [&](const RowResult& row, uint32_t) {
      return code(row.distance, row.distance.absolute);
    });
    // Only of dumps whose calls were repeated.
    const auto noise = [&](const RowResult& row) {
      const SideRow* const bench = BenchRow(row);
      return bench == nullptr ? 0 : MeasuredNoise(NpuRow(row), *bench);
    };
    if (std::any_of(rows_.begin(), rows_.end(),
                    [&](uint32_t row) { return noise(pair_.result.rows[row]) > 0; })) {
      AddColumn(columns, "own_noise", [&](const RowResult& row, uint32_t) {
        return noise(row) > 0 ? cells_.Number(noise(row), kErrorBits) : CellCodes::kNothing;
      });
    }
  }

  void AddTexts(Columns& columns) {
    AddColumn(columns, "part", [&](const RowResult& row, uint32_t) {
      const SideRow& npu = NpuRow(row);
      const std::string_view call = pair_.npu.entries[npu.entry].name;
      const bool below = npu.name.size() > call.size() && npu.name.starts_with(call) &&
                         npu.name[call.size()] == '.';
      return parts_.Add(below ? npu.name.substr(call.size() + 1) : npu.name);
    });
    // 0 nothing, 1 the same as the test side, else a text.
    const auto same_or = [&](std::string_view npu, std::string_view bench) -> uint32_t {
      return bench == npu ? kSame : kSame + 1 + words_.Add(bench);
    };
    const auto of_bench = [&](const RowResult& row, std::string_view SideRow::*text) -> uint32_t {
      const SideRow* const bench = BenchRow(row);
      return bench == nullptr ? 0 : same_or(NpuRow(row).*text, bench->*text);
    };
    AddColumn(columns, "dtype",
              [&](const RowResult& row, uint32_t) { return words_.Add(NpuRow(row).dtype); });
    AddColumn(columns, "shape",
              [&](const RowResult& row, uint32_t) { return words_.Add(NpuRow(row).shape); });
    AddColumn(columns, "dtype_b",
              [&](const RowResult& row, uint32_t) { return of_bench(row, &SideRow::dtype); });
    AddColumn(columns, "shape_b",
              [&](const RowResult& row, uint32_t) { return of_bench(row, &SideRow::shape); });
    AddColumn(columns, "name_b",
              [&](const RowResult& row, uint32_t) { return of_bench(row, &SideRow::name); });
    AddColumn(columns, "message", [&](const RowResult& row, uint32_t) {
      return row.message.empty() ? 0U : 1U + words_.Add(row.message);
    });
    const std::vector<std::string_view>& npu_layouts = pair_.result.npu_layouts;
    const std::vector<std::string_view>& bench_layouts = pair_.result.bench_layouts;
    if (!npu_layouts.empty()) {
      AddColumn(columns, "layout", [&](const RowResult& row, uint32_t) {
        return words_.Add(npu_layouts[row.pair.npu]);
      });
      AddColumn(columns, "layout_b", [&](const RowResult& row, uint32_t) {
        return row.pair.bench == kNoRow
                   ? 0
                   : same_or(npu_layouts[row.pair.npu], bench_layouts[row.pair.bench]);
      });
    }
    const std::vector<std::string_view>& relations = pair_.result.relations;
    if (std::any_of(relations.begin(), relations.end(),
                    [](std::string_view text) { return !text.empty(); })) {
      AddColumn(columns, "relation", [&](const RowResult&, uint32_t index) {
        return relations[index].empty() ? 0U : 1U + words_.Add(relations[index]);
      });
    }
    if (pair_.result.mode == CompareMode::kMd5) {
      AddColumn(columns, "md5",
                [&](const RowResult& row, uint32_t) { return words_.Add(NpuRow(row).md5); });
      AddColumn(columns, "md5_b",
                [&](const RowResult& row, uint32_t) { return of_bench(row, &SideRow::md5); });
    }
  }

  void AddStatistics(Columns& columns) {
    for (size_t i = 0; i < kStatCount; ++i) {
      const std::string slot = std::to_string(i);
      AddColumn(columns, "stat" + slot, [&](const RowResult& row, uint32_t) {
        return StatCode(NpuRow(row).stats[i], cells_);
      });
      AddColumn(columns, "stat_b" + slot, [&](const RowResult& row, uint32_t) {
        const SideRow* const bench = BenchRow(row);
        return report::DifferenceOfCodes(
            bench == nullptr ? CellCodes::kNothing : StatCode(bench->stats[i], cells_),
            StatCode(NpuRow(row).stats[i], cells_));
      });
    }
  }

  // Metrics of real data only; differences of statistics follow from the statistics.
  void AddMetrics(Columns& columns) {
    if (pair_.result.mode != CompareMode::kRealData) {
      return;
    }
    for (size_t i = 0; i <= kFiveThousandths; ++i) {
      AddColumn(columns, "metric" + std::to_string(i), [&](const RowResult& row, uint32_t) {
        const Metric& metric = row.metrics[i];
        return metric.kind == MetricKind::kText ? cells_.Text(metric.text())
                                                : cells_.Number(metric.number(), kMetricBits);
      });
    }
  }

  // Calls and whatever contains them; -1: nothing does. Parents that are not calls of this pair
  // stand behind the calls.
  void WriteParents(Writer& writer) const {
    std::unordered_map<std::string_view, int64_t> number_of;
    std::vector<std::string_view> names;
    for (const Call& call : calls_) {
      names.push_back(pair_.npu.entries[call.entry].name);
      number_of.emplace(names.back(), static_cast<int64_t>(names.size()) - 1);
    }
    std::vector<int64_t> parents;
    if (pair_.construct) {
      // `names` grows while it is walked: every parent is asked for its own.
      for (size_t i = 0; i < names.size(); ++i) {
        const std::string_view parent = pair_.construct->ParentOf(names[i]);
        if (parent.empty()) {
          parents.push_back(-1);
          continue;
        }
        const auto [found, is_new] = number_of.emplace(parent, static_cast<int64_t>(names.size()));
        if (is_new) {
          names.push_back(parent);
        }
        parents.push_back(found->second);
      }
    }
    writer.Member("call_count", static_cast<uint64_t>(calls_.size()));
    writer.Member("names", names);
    writer.Member("parents", parents);
  }

  // Stacks that calls share are kept once, frames that stacks share as well.
  void WriteStacks(Writer& writer) const {
    if (!pair_.stack) {
      return;
    }
    TextList frames;
    TextList spelled;
    std::vector<std::vector<int64_t>> stacks;
    std::vector<std::string> lines;
    std::vector<int64_t> of_call;
    for (const Call& call : calls_) {
      const std::vector<std::string>* const stack =
          pair_.stack->Find(pair_.npu.entries[call.entry].name);
      if (stack == nullptr || stack->empty()) {
        of_call.push_back(-1);
        continue;
      }
      std::vector<int64_t> numbers;
      std::string key;
      for (const std::string& frame : *stack) {
        numbers.push_back(frames.Add(frame));
        key += std::to_string(numbers.back()) + ",";
      }
      const uint32_t number = spelled.Add(key);
      if (number == stacks.size()) {
        stacks.push_back(std::move(numbers));
        lines.push_back(dump::UserCodeLine(*stack));
      }
      of_call.push_back(number);
    }
    writer.Member("frames", frames.texts());
    writer.Member("stacks", stacks);
    writer.Member("code_lines", lines);
    writer.Member("stack_of", of_call);
  }

  void WriteAlone(Writer& writer) const {
    std::vector<bool> used(pair_.bench.rows.size());
    for (const RowResult& row : pair_.result.rows) {
      if (row.pair.bench != kNoRow) {
        used[row.pair.bench] = true;
      }
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < used.size() && names.size() < kMostAlone; ++i) {
      if (!used[i]) {
        names.emplace_back(pair_.bench.rows[i].name);
      }
    }
    writer.Member("bench_only", names);
  }

  void WriteListing(const Columns& columns, std::string& out) const {
    Writer writer(out, -1, Writer::NonFinite::kText);
    writer.BeginObject();
    WriteParents(writer);
    std::vector<int64_t> counts;
    uint64_t left = rows_.size();
    for (const Call& call : calls_) {
      counts.push_back(static_cast<int64_t>(std::min<uint64_t>(call.row_count, left)));
      left -= static_cast<uint64_t>(counts.back());
    }
    writer.Member("row_counts", counts);
    writer.Member("rows", static_cast<uint64_t>(rows_.size()));
    std::vector<std::string> names;
    for (const auto& [name, values] : columns) {
      names.push_back(name);
    }
    writer.Member("columns", names);
    writer.Member("parts", parts_.texts());
    writer.Member("words", words_.texts());
    writer.Member("texts", cells_.texts());
    WriteStacks(writer);
    WriteAlone(writer);
    PutDivergence(writer, pair_.divergence);
    // Names of calls and stacks have no translation: what was found is looked up alone.
    std::string found;
    Writer texts(found, -1, Writer::NonFinite::kText);
    texts.BeginObject();
    PutDivergence(texts, pair_.divergence);
    texts.EndObject();
    writer.Key("zh");
    writer.Raw(report::TranslationsOf(found));
    writer.EndObject();
  }

  const ComparedPair& pair_;
  const ExecutionPlan plan_;
  std::vector<Call> calls_;     // in execution order
  std::vector<uint32_t> rows_;  // of PairResult::rows, call by call
  TextList parts_;              // what stands behind the call in a row's name
  TextList words_;
  CellCodes cells_;
};

constexpr int64_t kPageFormat = 1;             // what tools/web/compare expects
constexpr uint64_t kRoomForListing = 400'000;  // the shell and the list of pairs

constexpr uint64_t kMostBytesOfRows = ComparePage::kMostBytes - kRoomForListing;

}  // namespace

Status ComparePage::Available() { return report::CheckShell(resources::kComparePage); }

namespace {

uint64_t BytesOf(const ComparePage::Part& part) {
  uint64_t bytes = 0;
  for (const std::string& element : part.elements) {
    bytes += element.size();
  }
  return bytes;
}

ComparePage::Part MakePart(const ComparedPair& pair, const std::string& id, uint64_t most_rows,
                           base::ThreadPool& pool) {
  ColumnMaker maker(pair, most_rows);
  ComparePage::Part part;
  part.rows = maker.row_count();
  part.elements = report::PackBlocks(maker.Blocks(id), pool);
  return part;
}

}  // namespace

ComparePage::Place ComparePage::PlaceOf(size_t index, const PairSummary& summary) {
  const std::optional<DivergencePoint>& origin = summary.divergence.first_origin;
  return {VerdictOf(summary) < PairVerdict::kUnequalBits, summary.step.value_or(0),
          !origin.has_value(), origin && origin->from_other_rank, index};
}

bool ComparePage::IsBeyond(size_t index, const PairSummary& summary) {
  const std::lock_guard lock(mutex_);
  return cut_ && PlaceOf(index, summary) >= *cut_;
}

void ComparePage::Add(size_t index, const PairSummary& summary, const ComparedPair& pair,
                      base::ThreadPool& pool) {
  if (pair.result.rows.empty() || IsBeyond(index, summary)) {
    return;
  }
  const std::string id = fmt::format("p{}", index);
  uint64_t most_rows = kMostRowsPerPair;
  Part part = MakePart(pair, id, most_rows, pool);
  for (uint64_t bytes = BytesOf(part); bytes > kMostBytesOfRows && part.rows > 1;
       bytes = BytesOf(part)) {
    most_rows = std::max<uint64_t>(
        1, std::min(part.rows - 1, part.rows * kMostBytesOfRows / bytes * 9 / 10));
    part = MakePart(pair, id, most_rows, pool);
  }
  Keep(PlaceOf(index, summary), std::move(part));
}

void ComparePage::Take(size_t index, const PairSummary& summary, Part part) {
  Keep(PlaceOf(index, summary), std::move(part));
}

// The pairs in front of the first one that has no room stay. Later ones that would still fit do not
// take its place: whether they do would depend on who came first.
void ComparePage::Keep(const Place& place, Part part) {
  const std::lock_guard lock(mutex_);
  if (cut_ && place >= *cut_) {
    return;
  }
  if (part.is_left_out) {
    cut_ = place;
  } else {
    kept_bytes_ += BytesOf(part);
    kept_.emplace(place, std::move(part));
  }
  while (!kept_.empty()) {
    const auto last = std::prev(kept_.end());
    const bool is_beyond = cut_ && last->first >= *cut_;
    if (!is_beyond && (kept_bytes_ <= kMostBytesOfRows || kept_.size() == 1)) {
      break;
    }
    if (!is_beyond) {
      cut_ = last->first;
    }
    kept_bytes_ -= BytesOf(last->second);
    kept_.erase(last);
  }
}

std::optional<ComparePage::Part> ComparePage::GiveAway(size_t index, const PairSummary& summary) {
  const Place place = PlaceOf(index, summary);
  const std::lock_guard lock(mutex_);
  if (const auto found = kept_.find(place); found != kept_.end()) {
    return std::move(kept_.extract(found).mapped());
  }
  if (cut_ == place) {
    return Part{.is_left_out = true, .elements = {}, .rows = 0};
  }
  return std::nullopt;
}

std::string ComparePage::Listing(const RunSummary& summary, const std::string& graph_page) const {
  std::vector<uint64_t> rows_shown(summary.pairs.size());
  for (const auto& [place, columns] : kept_) {
    rows_shown[std::get<size_t>(place)] = columns.rows;
  }
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("format", kPageFormat);
  report::PutRun("compare", writer);
  const report::Verdict answer = MakeVerdict(summary);
  writer.Member("word", answer.word);
  writer.Member("verdict", PairVerdictName(VerdictOf(summary)));  // for `serve`
  writer.Member("answer", answer.text);
  writer.Member("tone", report::ToneName(answer.tone));
  const std::optional<size_t> leading = LeadingPair(summary);
  PutNumber(writer, "leading", leading ? std::optional<int64_t>(*leading) : std::nullopt);
  PutCounts(writer, "totals", summary.totals);
  std::vector<std::string> verdicts;
  for (size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    verdicts.emplace_back(VerdictText(static_cast<Verdict>(verdict)));
  }
  writer.Member("row_verdicts", verdicts);
  writer.Member("npu_only", summary.npu_only);
  writer.Member("bench_only", summary.bench_only);
  writer.Member("notes", notes_);
  writer.Member("graph_page", graph_page);
  writer.Key("pairs");
  writer.BeginArray();
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    const PairSummary& pair = summary.pairs[i];
    writer.BeginObject();
    writer.Member("name", PairName(pair));
    const VerdictLook look = LookOf(VerdictOf(pair));
    writer.Member("word", look.word);
    writer.Member("tone", report::ToneName(look.tone));
    writer.Member("error", pair.error);
    writer.Member("hint", report::AdviceText(NothingComparedHint(pair)));
    writer.Member("next", report::AdviceText(NextStep(pair)));
    writer.Member("npu_path", pair.npu_path);
    writer.Member("bench_path", pair.bench_path);
    PutNumber(writer, "step", pair.step);
    PutNumber(writer, "rank", pair.rank);
    writer.Member("is_debug", pair.is_debug);
    writer.Member("mode", CompareModeName(pair.mode));
    writer.Member("task", pair.task);
    PutCounts(writer, "counts", pair.counts);
    writer.Member("calls", pair.divergence.compared_entry_count);
    writer.Member("calls_agree", pair.divergence.agreeing_entry_count);
    const std::optional<DivergencePoint>& origin = pair.divergence.first_origin;
    writer.Member("origin", origin ? PointTitle(*origin) : std::string());
    writer.Member("rows_shown", rows_shown[i]);
    writer.Key("files");
    writer.BeginArray();
    for (const std::filesystem::path& file : pair.files) {
      writer.Text(file.filename().string());
    }
    writer.EndArray();
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
  return report::WithTranslations(std::move(text));
}

Status ComparePage::Write(const std::filesystem::path& path, const RunSummary& summary) {
  notes_.clear();
  uint64_t without_rows = 0;
  uint64_t with_rows = 0;
  for (const PairSummary& pair : summary.pairs) {
    with_rows += pair.counts.rows > 0 ? 1 : 0;
  }
  without_rows = with_rows - kept_.size();
  if (without_rows > 0) {
    notes_.push_back(fmt::format(
        "the page lists {} without rows, so that it stays below {}; their tables hold all",
        base::Plural(without_rows, "pair"), base::FormatBytes(kMostBytes)));
  }
  for (const auto& [place, columns] : kept_) {
    const PairSummary& pair = summary.pairs[std::get<size_t>(place)];
    if (columns.rows < pair.counts.rows) {
      notes_.push_back(fmt::format(
          "the page holds {} of the {} of {}, those that stand out first; its table holds all",
          base::FormatCount(columns.rows), base::Plural(pair.counts.rows, "row"), PairName(pair)));
    }
  }
  std::vector<std::string> elements;
  const std::string graph_page = report::PageBeside(path, "msprobe graph");
  elements.push_back(
      report::PackBlock({"run", [&](std::string& out) { out += Listing(summary, graph_page); }}));
  for (auto& [place, columns] : kept_) {
    std::move(columns.elements.begin(), columns.elements.end(), std::back_inserter(elements));
    columns.elements.clear();
  }
  return report::WriteWebPage(path, resources::kComparePage, elements).status();
}

}  // namespace msprobe::analysis::compare
