#include "src/analysis/compare/line26/result_table26.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/analysis/compare/line26/judge.h"
#include "src/analysis/compare/result_table.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {

void AppendRowLog(const ComparedPair& pair, std::vector<std::string>& lines) {
  if (pair.result.mode != CompareMode::kRealData) {
    return;
  }
  const std::vector<std::string> columns = MetricColumns(CompareMode::kRealData);
  report::Table texts;
  for (const RowResult& row : pair.result.rows) {
    const SideRow& npu = pair.npu.rows[row.pair.npu];
    lines.push_back(fmt::format("{} with {}", npu.name,
                                row.pair.bench == kNoRow ? std::string_view("nothing")
                                                         : pair.bench.rows[row.pair.bench].name));
    std::string metrics;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string value = report::CellText(MetricCell26(row.metrics[i], texts));
      metrics += fmt::format("{} {}, ", columns[i], base::Trim(value));
    }
    lines.push_back(fmt::format("  {}Result {}", metrics, ResultWord(row.verdict)));
  }
}

namespace {

using report::Cell;
using report::Table;

size_t MetricCount(CompareMode mode) { return MetricColumns(mode).size(); }

// One line of the table: either side may be missing, not both.
struct Line {
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;
  const RowResult* result = nullptr;  // null: a bench row alone
  bool first_of_entry = false;
};

class TableBuilder26 {
 public:
  TableBuilder26(const Side& npu, const Side& bench, const PairResult& result,
                 const dump::StackFile* stack)
      : npu_(npu),
        bench_(bench),
        result_(result),
        stack_(stack),
        metric_count_(MetricCount(result.mode)),
        table_("Sheet", ResultColumns26(result.mode, stack != nullptr)) {}

  Table Build(const std::vector<bool>* keep) {
    table_.Reserve(result_.rows.size());
    auto alone = result_.shown_bench_only.begin();
    const auto add_alone_before = [&](size_t row) {
      for (; alone != result_.shown_bench_only.end() && alone->before <= row; ++alone) {
        AddLine({nullptr, &bench_.rows[alone->bench], nullptr, false});
      }
    };
    uint32_t last_entry = kNoRow;
    for (size_t i = 0; i < result_.rows.size(); ++i) {
      add_alone_before(i);
      const RowResult& row = result_.rows[i];
      const SideRow& npu_row = npu_.rows[row.pair.npu];
      const bool first = npu_row.entry != last_entry;
      last_entry = npu_row.entry;
      if (keep == nullptr || (*keep)[i]) {
        AddLine({&npu_row, row.pair.bench == kNoRow ? nullptr : &bench_.rows[row.pair.bench], &row,
                 first});
      }
    }
    add_alone_before(result_.rows.size());
    return std::move(table_);
  }

 private:
  void AddLine(const Line& line) {
    cells_.clear();
    AddTexts(line, [](const SideRow& row) { return row.name; });
    AddTexts(line, [](const SideRow& row) { return row.dtype; });
    AddTexts(line, [](const SideRow& row) { return row.shape; });
    AddTexts(line, RequiresGradText);
    if (result_.mode == CompareMode::kMd5) {
      AddTexts(line, [](const SideRow& row) { return row.md5; });
    } else {
      for (size_t i = 0; i < metric_count_; ++i) {
        cells_.push_back(line.result != nullptr ? MetricCell26(line.result->metrics[i], table_)
                                                : Cell::Text(MissingMetric()));
      }
      for (const SideRow* row : {line.npu, line.bench}) {
        for (size_t i = 0; i < kStatCount; ++i) {
          cells_.push_back(row == nullptr ? Cell::Text(kNoValue) : StatisticCell(row->stats[i]));
        }
      }
    }
    const auto requires_grad = [](const SideRow* row) {
      return row == nullptr ? kNoValue : RequiresGradText(*row);
    };
    cells_.push_back(
        Cell::Text(requires_grad(line.npu) == requires_grad(line.bench) ? "True" : "False"));
    cells_.push_back(
        Cell::Text(line.result == nullptr ? "pass" : ResultWord(line.result->verdict)));
    cells_.push_back(Cell::Text(line.result == nullptr ? "[]" : line.result->message));
    AddStack(line);
    if (result_.mode == CompareMode::kRealData) {
      AddDataNames(line);
    }
    table_.AddRow(cells_);
  }

  std::string_view MissingMetric() const {
    return result_.mode == CompareMode::kRealData ? std::string_view("unsupported") : kNoValue;
  }

  template <typename TextOf>
  void AddTexts(const Line& line, TextOf&& text_of) {
    for (const SideRow* row : {line.npu, line.bench}) {
      cells_.push_back(Cell::Text(row == nullptr ? kNoValue : text_of(*row)));
    }
  }

  void AddStack(const Line& line) {
    if (stack_ == nullptr) {
      return;
    }
    const std::vector<std::string>* frames = line.npu != nullptr && line.first_of_entry
                                                 ? stack_->Find(npu_.entries[line.npu->entry].name)
                                                 : nullptr;
    if (frames == nullptr) {
      cells_.push_back(Cell::Text(kNoValue));
      return;
    }
    std::string text = "[";
    for (size_t i = 0; i < frames->size(); ++i) {
      text += i > 0 ? ", " : "";
      base::AppendPythonTextRepr((*frames)[i], text);
    }
    cells_.push_back(table_.KeepText(text + "]"));
  }

  void AddDataNames(const Line& line) {
    std::string text = "[";
    base::AppendPythonTextRepr(line.npu == nullptr ? kNoValue : line.npu->data_name, text);
    text += ", ";
    base::AppendPythonTextRepr(line.bench == nullptr ? kNoValue : line.bench->data_name, text);
    cells_.push_back(table_.KeepText(text + "]"));
  }

  const Side& npu_;
  const Side& bench_;
  const PairResult& result_;
  const dump::StackFile* stack_;
  const size_t metric_count_;
  Table table_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<std::string> ResultColumns26(CompareMode mode, bool with_stack) {
  std::vector<std::string> columns = ResultColumns(mode, false);
  // The older table: six columns of both sides, then what the mode has, then verdict and message.
  columns.erase(std::find(columns.begin(), columns.end(),
                          mode == CompareMode::kRealData ? "Accuracy Reached or Not" : "Result"),
                columns.end());
  columns.insert(columns.begin() + 6, {"NPU Requires_grad", "Bench Requires_grad"});
  columns.insert(columns.end(), {"Requires_grad Consistent", "Result", "Err_message"});
  if (with_stack) {
    columns.emplace_back(kStackColumn);
  }
  if (mode == CompareMode::kRealData) {
    columns.emplace_back("Data_name");
  }
  return columns;
}

report::Table MakeResultTable26(const Side& npu, const Side& bench, const PairResult& result,
                                const dump::StackFile* stack, const std::vector<bool>* keep) {
  return TableBuilder26(npu, bench, result, stack).Build(keep);
}

}  // namespace msprobe::analysis::compare
