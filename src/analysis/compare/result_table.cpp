// One builder for the tables of both editions and all modes. What differs between the editions is
// in TableSpec; what differs between the modes are the columns in the middle: metrics and
// statistics, or checksums.
#include "src/analysis/compare/result_table.h"

#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

using report::Cell;
using report::Table;

struct TableSpec {
  bool requires_grad;               // two columns, and one that says whether the sides agree
  bool checksum_messages;           // Err_message, for checksums too
  bool colours;                     // rows are filled
  std::string_view tensor_verdict;  // header of the verdict on tensors
  std::string_view (*verdict_text)(Verdict);
  std::string_view unmatched_null;  // a null statistic of a row without partner
  std::string_view infinity;
  std::string_view minus_infinity;
};

constexpr TableSpec kV8Table = {.requires_grad = false,
                                .checksum_messages = false,
                                .colours = true,
                                .tensor_verdict = "Accuracy Reached or Not",
                                .verdict_text = VerdictText,
                                .unmatched_null = kNotApplicable,
                                .infinity = "inf\t",
                                .minus_infinity = "-inf\t"};
constexpr TableSpec kV26Table = {.requires_grad = true,
                                 .checksum_messages = true,
                                 .colours = false,
                                 .tensor_verdict = "Result",
                                 .verdict_text = ResultWord,
                                 .unmatched_null = "None",
                                 .infinity = " inf",
                                 .minus_infinity = " -inf"};

const TableSpec& SpecOf(Edition edition) { return edition == Edition::kV26 ? kV26Table : kV8Table; }

constexpr const char* kRealColumns[] = {"Cosine",
                                        "EucDist",
                                        "MaxAbsErr",
                                        "MaxRelativeErr",
                                        "One Thousandth Err Ratio",
                                        "Five Thousandths Err Ratio"};
constexpr const char* kStatisticsColumns[] = {"Max diff",        "Min diff",       "Mean diff",
                                              "L2norm diff",     "MaxRelativeErr", "MinRelativeErr",
                                              "MeanRelativeErr", "NormRelativeErr"};

Cell NumberCell(double number, const TableSpec& spec) {
  if (std::isnan(number)) {
    return Cell::Text("Nan");
  }
  if (std::isinf(number)) {
    return Cell::Text(number > 0 ? spec.infinity : spec.minus_infinity);
  }
  return Cell::Number(number);
}

// One line of the table. Either side may be missing, not both.
struct Line {
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;
  const RowResult* result = nullptr;  // null: a bench row alone
  bool first_of_entry = false;
};

// The lines of a table, and their cells where somebody writes them. Borrows what it is given.
class TableLines {
 public:
  TableLines(const Side& npu, const Side& bench, const PairResult& result,
             const dump::StackFile* stack, const std::vector<bool>* keep)
      : npu_(npu),
        bench_(bench),
        result_(result),
        stack_(stack),
        spec_(SpecOf(result.edition)),
        metric_count_(MetricColumns(result.mode).size()) {
    const auto row_count = static_cast<uint32_t>(result.rows.size());
    uint32_t alone = 0;
    const auto alone_count = static_cast<uint32_t>(result.shown_bench_only.size());
    lines_.reserve(keep == nullptr ? row_count + alone_count : 0);
    for (uint32_t row = 0; row < row_count; ++row) {
      for (; alone < alone_count && result.shown_bench_only[alone].before <= row; ++alone) {
        lines_.push_back(kAlone | alone);
      }
      if (keep == nullptr || (*keep)[row]) {
        lines_.push_back(row);
      }
    }
    for (; alone < alone_count; ++alone) {
      lines_.push_back(kAlone | alone);
    }
  }

  size_t count() const { return lines_.size(); }

  // The bytes of the texts of all cells, or more.
  uint64_t TextBytes() const {
    uint64_t bytes = 0;
    for (const uint32_t number : lines_) {
      const Line line = LineOf(number);
      for (const SideRow* row : {line.npu, line.bench}) {
        if (row != nullptr) {
          bytes += row->name.size() + row->dtype.size() + row->shape.size() + row->md5.size() +
                   row->data_name.size();
          for (const StatValue& stat : row->stats) {
            bytes += stat.text().size();
          }
        }
      }
      if (line.result != nullptr && !result_.user_cells.empty()) {
        for (const UserCell& cell :
             result_.user_cells[static_cast<size_t>(line.result - result_.rows.data())]) {
          bytes += cell.text.size();
        }
      }
      bytes += kShortCells + (line.result == nullptr ? 0 : line.result->message.size());
      if (const std::vector<std::string>* frames = FramesOf(line)) {
        for (const std::string& frame : *frames) {
          bytes += 4 * frame.size() + 4;  // escapes take up to four bytes each
        }
      }
    }
    return bytes;
  }

  // On any thread.
  void AddTo(size_t first, size_t count, Table& table) const;

 private:
  static constexpr uint32_t kAlone = uint32_t{1} << 31U;  // then a place in shown_bench_only
  static constexpr uint64_t kShortCells = 512;            // metrics, verdicts, flags

  Line LineOf(uint32_t number) const {
    if ((number & kAlone) != 0) {
      return {nullptr, &bench_.rows[result_.shown_bench_only[number & ~kAlone].bench], nullptr,
              false};
    }
    const RowResult& row = result_.rows[number];
    const SideRow& npu_row = npu_.rows[row.pair.npu];
    const bool first =
        number == 0 || npu_.rows[result_.rows[number - 1].pair.npu].entry != npu_row.entry;
    return {&npu_row, row.pair.bench == kNoRow ? nullptr : &bench_.rows[row.pair.bench], &row,
            first};
  }

  // The stack of a call is shown in its first row only.
  const std::vector<std::string>* FramesOf(const Line& line) const {
    return stack_ != nullptr && line.npu != nullptr && line.first_of_entry
               ? stack_->Find(npu_.entries[line.npu->entry].name)
               : nullptr;
  }

  class LineWriter;

  const Side& npu_;
  const Side& bench_;
  const PairResult& result_;
  const dump::StackFile* stack_;
  const TableSpec& spec_;
  const size_t metric_count_;
  std::vector<uint32_t> lines_;  // result rows, or kAlone
};

class TableLines::LineWriter {
 public:
  LineWriter(const TableLines& lines, Table& table)
      : lines_(lines), result_(lines.result_), spec_(lines.spec_), table_(table) {}

  void AddLine(const Line& line) {
    cells_.clear();
    AddBoth(line, [](const SideRow& row) { return row.name; });
    AddBoth(line, [](const SideRow& row) { return row.dtype; });
    AddBoth(line, [](const SideRow& row) { return row.shape; });
    if (spec_.requires_grad) {
      AddBoth(line, RequiresGradText);
    }
    if (result_.mode == CompareMode::kMd5) {
      AddBoth(line, [](const SideRow& row) { return row.md5; });
    } else {
      AddMetrics(line);
      AddStatistics(line);
    }
    if (spec_.requires_grad) {
      const size_t npu_place = 6;  // of the two columns above
      const bool agrees = cells_[npu_place].text() == cells_[npu_place + 1].text();
      cells_.push_back(Cell::Text(agrees ? "True" : "False"));
    }
    cells_.push_back(
        Cell::Text(line.result == nullptr ? "pass" : spec_.verdict_text(line.result->verdict)));
    if (result_.mode != CompareMode::kMd5 || spec_.checksum_messages) {
      cells_.push_back(Cell::Text(line.result == nullptr ? "[]" : line.result->message));
    }
    if (lines_.stack_ != nullptr) {
      AddStack(line);
    }
    if (result_.mode == CompareMode::kRealData) {
      const auto file_of = [](const SideRow* row) {
        return row == nullptr ? kNotApplicable : row->data_name;
      };
      const std::string_view names[] = {file_of(line.npu), file_of(line.bench)};
      cells_.push_back(table_.KeepText(PythonTextList(names)));
    }
    if (!result_.npu_layouts.empty()) {
      cells_.push_back(LayoutCell(line.npu, lines_.npu_, result_.npu_layouts));
      cells_.push_back(LayoutCell(line.bench, lines_.bench_, result_.bench_layouts));
    }
    if (!result_.npu_layouts.empty()) {
      cells_.push_back(Cell::Text(
          line.result == nullptr || result_.relations.empty()
              ? ""
              : result_.relations[static_cast<size_t>(line.result - result_.rows.data())]));
    }
    if (!result_.paired_by.empty()) {
      cells_.push_back(LayoutCell(line.npu, lines_.npu_, result_.paired_by));
    }
    const bool filled = spec_.colours && line.result != nullptr;
    table_.AddRow(cells_, filled ? line.result->fill : report::Fill::kNone);
  }

  static Cell LayoutCell(const SideRow* row, const Side& side,
                         const std::vector<std::string_view>& layouts) {
    const size_t place = row == nullptr ? layouts.size() : static_cast<size_t>(row - &side.rows[0]);
    return Cell::Text(place < layouts.size() ? layouts[place] : kNotApplicable);
  }

  template <typename TextOf>
  void AddBoth(const Line& line, TextOf&& text_of) {
    for (const SideRow* row : {line.npu, line.bench}) {
      cells_.push_back(Cell::Text(row == nullptr ? kNotApplicable : text_of(*row)));
    }
  }

  void AddMetrics(const Line& line) {
    const std::string_view missing =
        result_.mode == CompareMode::kRealData ? "unsupported" : kNotApplicable;
    for (size_t i = 0; i < lines_.metric_count_; ++i) {
      cells_.push_back(line.result == nullptr
                           ? Cell::Text(missing)
                           : MetricCell(line.result->metrics[i], table_, result_.edition));
    }
    for (size_t i = 0; i < result_.user_columns.size(); ++i) {
      cells_.push_back(
          line.result == nullptr
              ? Cell::Text(missing)
              : CellOf(
                    result_.user_cells[static_cast<size_t>(line.result - result_.rows.data())][i]));
    }
  }

  Cell CellOf(const UserCell& cell) const {
    switch (cell.kind) {
      case UserCell::Kind::kNumber:
        return std::isnan(cell.number) ? Cell::Text("") : NumberCell(cell.number, spec_);
      case UserCell::Kind::kInteger:
        return Cell::Integer(cell.integer);
      case UserCell::Kind::kText:
        break;
    }
    return Cell::Text(cell.text);
  }

  void AddStatistics(const Line& line) {
    const std::string_view null = line.bench == nullptr ? spec_.unmatched_null : "None";
    for (const SideRow* row : {line.npu, line.bench}) {
      for (size_t i = 0; i < kStatCount; ++i) {
        cells_.push_back(row == nullptr ? Cell::Text(kNotApplicable)
                                        : StatisticCell(row->stats[i], result_.edition, null));
      }
    }
  }

  void AddStack(const Line& line) {
    const std::vector<std::string>* frames = lines_.FramesOf(line);
    cells_.push_back(frames == nullptr
                         ? Cell::Text(kNotApplicable)
                         : table_.KeepText(PythonTextList(
                               std::vector<std::string_view>(frames->begin(), frames->end()))));
  }

  const TableLines& lines_;
  const PairResult& result_;
  const TableSpec& spec_;
  Table& table_;
  std::vector<Cell> cells_;
};

void TableLines::AddTo(size_t first, size_t count, Table& table) const {
  table.Reserve(count);
  LineWriter writer(*this, table);
  for (size_t i = first; i < first + count; ++i) {
    writer.AddLine(LineOf(lines_[i]));
  }
}

}  // namespace

std::vector<std::string> MetricColumns(CompareMode mode) {
  switch (mode) {
    case CompareMode::kRealData:
      return {std::begin(kRealColumns), std::end(kRealColumns)};
    case CompareMode::kStatistics:
      return {std::begin(kStatisticsColumns), std::end(kStatisticsColumns)};
    case CompareMode::kMd5:
      break;
  }
  return {};
}

std::vector<std::string> ResultColumns(CompareMode mode, bool with_stack, Edition edition,
                                       bool with_layouts, bool with_pairing,
                                       std::span<const std::string> user_columns) {
  const TableSpec& spec = SpecOf(edition);
  std::vector<std::string> columns = {
      std::string(kNpuNameColumn), "Bench Name",        "NPU Dtype", "Bench Dtype",
      "NPU Tensor Shape",          "Bench Tensor Shape"};
  const auto add = [&](std::initializer_list<std::string_view> names) {
    columns.insert(columns.end(), names.begin(), names.end());
  };
  if (spec.requires_grad) {
    add({"NPU Requires_grad", "Bench Requires_grad"});
  }
  if (mode == CompareMode::kMd5) {
    add({"NPU MD5", "BENCH MD5"});
  } else {
    const std::vector<std::string> metrics = MetricColumns(mode);
    columns.insert(columns.end(), metrics.begin(), metrics.end());
    columns.insert(columns.end(), user_columns.begin(), user_columns.end());
    add({"NPU max", "NPU min", "NPU mean", "NPU l2norm"});
    add({"Bench max", "Bench min", "Bench mean", "Bench l2norm"});
  }
  if (spec.requires_grad) {
    add({"Requires_grad Consistent"});
  }
  add({mode == CompareMode::kRealData ? spec.tensor_verdict : "Result"});
  if (mode != CompareMode::kMd5 || spec.checksum_messages) {
    add({"Err_message"});
  }
  if (with_stack) {
    add({kStackColumn});
  }
  if (mode == CompareMode::kRealData) {
    add({"Data_name"});
  }
  if (with_layouts) {
    add({"NPU Layout", "Bench Layout", "Relation"});
  }
  if (with_pairing) {
    add({"Paired By"});
  }
  return columns;
}

namespace {

constexpr std::string_view kSheetName = "Sheet";

}  // namespace

report::Table MakeResultTable(const Side& npu, const Side& bench, const PairResult& result,
                              const dump::StackFile* stack, const std::vector<bool>* keep) {
  const TableLines lines(npu, bench, result, stack, keep);
  Table table(
      std::string(kSheetName),
      ResultColumns(result.mode, stack != nullptr, result.edition, !result.npu_layouts.empty(),
                    !result.paired_by.empty(), result.user_columns));
  lines.AddTo(0, lines.count(), table);
  return table;
}

report::Table ResultTableInBlocks(const Side& npu, const Side& bench, const PairResult& result,
                                  const dump::StackFile* stack, const std::vector<bool>* keep,
                                  bool needs_text_bytes) {
  const auto lines = std::make_shared<const TableLines>(npu, bench, result, stack, keep);
  return Table(
      std::string(kSheetName),
      ResultColumns(result.mode, stack != nullptr, result.edition, !result.npu_layouts.empty(),
                    !result.paired_by.empty(), result.user_columns),
      lines->count(), needs_text_bytes ? lines->TextBytes() : 0,
      [lines](size_t first, size_t count, Table& rows) { lines->AddTo(first, count, rows); });
}

Cell MetricCell(const Metric& metric, Table& table, Edition edition) {
  switch (metric.kind) {
    case MetricKind::kNumber:
      return NumberCell(metric.number(), SpecOf(edition));
    case MetricKind::kPercent:
      return metric.number() == 0 ? Cell::Text("0.0%") : table.KeepText(MetricText(metric));
    case MetricKind::kText:
      break;
  }
  // Metrics spell infinities as v8 does.
  if (metric.text() == kV8Table.infinity) {
    return Cell::Text(SpecOf(edition).infinity);
  }
  return Cell::Text(metric.text() == kV8Table.minus_infinity ? SpecOf(edition).minus_infinity
                                                             : metric.text());
}

Cell StatisticCell(const StatValue& stat, Edition edition, std::string_view null) {
  switch (stat.kind) {
    case StatKind::kNone:
      return Cell::Text(null);
    case StatKind::kBool:
      return Cell::Text(stat.boolean ? "True" : "False");
    case StatKind::kInteger:
      return Cell::Integer(stat.integer());
    case StatKind::kText:
      return Cell::Text(stat.text());
    case StatKind::kNumber:
      break;
  }
  return NumberCell(stat.number, SpecOf(edition));
}

std::string StatText(const StatValue& stat) {
  switch (stat.kind) {
    case StatKind::kNone:
      return "None";
    case StatKind::kBool:
      return stat.boolean ? "True" : "False";
    case StatKind::kInteger:
      return std::to_string(stat.integer());
    case StatKind::kNumber:
      return base::PythonFloatRepr(stat.number);
    case StatKind::kText:
      break;
  }
  return std::string(stat.text());
}

std::string MetricText(const Metric& metric) {
  if (metric.kind == MetricKind::kText) {
    return std::string(metric.text());
  }
  std::string text = base::PythonFloatRepr(metric.number());
  return metric.kind == MetricKind::kPercent ? text + '%' : text;
}

std::string_view RequiresGradText(const SideRow& row) {
  switch (row.requires_grad) {
    case RequiresGrad::kFalse:
      return "False";
    case RequiresGrad::kTrue:
      return "True";
    case RequiresGrad::kNone:
      return "None";
    case RequiresGrad::kAbsent:
      break;
  }
  return row.is_tensor ? "" : kNotApplicable;
}

std::string PythonTextList(std::span<const std::string_view> texts) {
  std::string list = "[";
  for (const std::string_view text : texts) {
    list += list.size() > 1 ? ", " : "";
    base::AppendPythonTextRepr(text, list);
  }
  return list + "]";
}

void AppendRowLog(const Side& npu, const Side& bench, const PairResult& result,
                  std::vector<std::string>& lines) {
  if (result.mode != CompareMode::kRealData) {
    return;
  }
  report::Table texts;
  for (const RowResult& row : result.rows) {
    lines.push_back(fmt::format(
        "{} with {}", npu.rows[row.pair.npu].name,
        row.pair.bench == kNoRow ? std::string_view("nothing") : bench.rows[row.pair.bench].name));
    std::string metrics;
    for (size_t i = 0; i < std::size(kRealColumns); ++i) {
      const std::string value = report::CellText(MetricCell(row.metrics[i], texts, Edition::kV26));
      metrics += fmt::format("{} {}, ", kRealColumns[i], base::Trim(value));
    }
    lines.push_back(fmt::format("  {}Result {}", metrics, ResultWord(row.verdict)));
  }
}

}  // namespace msprobe::analysis::compare
