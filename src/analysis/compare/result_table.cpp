#include "src/analysis/compare/result_table.h"

#include <cmath>

#include "src/analysis/compare/pair_result.h"
#include "src/base/numbers.h"

namespace msprobe::analysis::compare {
namespace {

using report::Cell;
using report::Table;

constexpr const char* kCommonColumns[] = {"NPU Name",    "Bench Name",       "NPU Dtype",
                                          "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"};
constexpr const char* kRealColumns[] = {"Cosine",
                                        "EucDist",
                                        "MaxAbsErr",
                                        "MaxRelativeErr",
                                        "One Thousandth Err Ratio",
                                        "Five Thousandths Err Ratio"};
constexpr const char* kStatisticsColumns[] = {"Max diff",        "Min diff",       "Mean diff",
                                              "L2norm diff",     "MaxRelativeErr", "MinRelativeErr",
                                              "MeanRelativeErr", "NormRelativeErr"};
constexpr const char* kStatColumns[] = {"NPU max",   "NPU min",   "NPU mean",   "NPU l2norm",
                                        "Bench max", "Bench min", "Bench mean", "Bench l2norm"};

template <size_t kSize>
void Append(std::vector<std::string>& columns, const char* const (&names)[kSize]) {
  columns.insert(columns.end(), std::begin(names), std::end(names));
}

// `missing` stands for null.
Cell StatCell(const StatValue& stat, std::string_view missing) {
  switch (stat.kind) {
    case StatKind::kNone:
      return Cell::Text(missing);
    case StatKind::kBool:
      return Cell::Text(stat.boolean ? "True" : "False");
    case StatKind::kInteger:
      return Cell::Integer(stat.integer);
    case StatKind::kText:
      return Cell::Text(stat.text);
    case StatKind::kNumber:
      break;
  }
  if (std::isnan(stat.number)) {
    return Cell::Text("Nan");
  }
  if (std::isinf(stat.number)) {
    return Cell::Text(stat.number > 0 ? "inf\t" : "-inf\t");
  }
  return Cell::Number(stat.number);
}

// The frames as Python prints a list of texts.
std::string StackText(const std::vector<std::string>& frames) {
  std::string text = "[";
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i > 0) {
      text += ", ";
    }
    base::AppendPythonTextRepr(frames[i], text);
  }
  return text + "]";
}

class TableBuilder {
 public:
  TableBuilder(const Side& npu, const Side& bench, const PairResult& result,
               const dump::StackFile* stack)
      : npu_(npu),
        bench_(bench),
        result_(result),
        stack_(stack),
        table_("Sheet", ResultColumns(result.mode, stack != nullptr)) {}

  Table Build(const std::vector<bool>* keep) {
    table_.Reserve(result_.rows.size());
    uint32_t last_entry = kNoRow;
    for (size_t i = 0; i < result_.rows.size(); ++i) {
      const RowResult& row = result_.rows[i];
      const uint32_t entry = npu_.rows[row.pair.npu].entry;
      const bool first_of_entry = entry != last_entry;
      last_entry = entry;
      if (keep == nullptr || (*keep)[i]) {
        AddRow(row, first_of_entry);
      }
    }
    return std::move(table_);
  }

 private:
  void AddRow(const RowResult& row, bool first_of_entry) {
    cells_.clear();
    const SideRow& npu_row = npu_.rows[row.pair.npu];
    const SideRow* bench_row = row.pair.bench == kNoRow ? nullptr : &bench_.rows[row.pair.bench];
    AddCommon(npu_row, bench_row);
    if (result_.mode == CompareMode::kMd5) {
      cells_.push_back(Cell::Text(npu_row.md5));
      cells_.push_back(Cell::Text(bench_row == nullptr ? kNotApplicable : bench_row->md5));
      cells_.push_back(Cell::Text(VerdictText(row.verdict)));
      AddStack(npu_row, first_of_entry);
    } else {
      const size_t metrics =
          result_.mode == CompareMode::kRealData ? std::size(kRealColumns) : kMetricSlots;
      for (size_t i = 0; i < metrics; ++i) {
        cells_.push_back(MetricCell(row.metrics[i], table_));
      }
      for (const StatValue& stat : npu_row.stats) {
        cells_.push_back(StatCell(stat, bench_row == nullptr ? kNotApplicable : "None"));
      }
      for (size_t i = 0; i < kStatCount; ++i) {
        cells_.push_back(bench_row == nullptr ? Cell::Text(kNotApplicable)
                                              : StatCell(bench_row->stats[i], "None"));
      }
      cells_.push_back(Cell::Text(VerdictText(row.verdict)));
      cells_.push_back(Cell::Text(row.message));
      AddStack(npu_row, first_of_entry);
      if (result_.mode == CompareMode::kRealData) {
        AddDataNames(npu_row, bench_row);
      }
    }
    table_.AddRow(cells_, row.fill);
  }

  void AddCommon(const SideRow& npu_row, const SideRow* bench_row) {
    const auto bench_text = [&](std::string_view SideRow::*member) {
      return Cell::Text(bench_row == nullptr ? kNotApplicable : bench_row->*member);
    };
    cells_.push_back(Cell::Text(npu_row.name));
    cells_.push_back(bench_text(&SideRow::name));
    cells_.push_back(Cell::Text(npu_row.dtype));
    cells_.push_back(bench_text(&SideRow::dtype));
    cells_.push_back(Cell::Text(npu_row.shape));
    cells_.push_back(bench_text(&SideRow::shape));
  }

  void AddStack(const SideRow& npu_row, bool first_of_entry) {
    if (stack_ == nullptr) {
      return;
    }
    const std::vector<std::string>* frames =
        first_of_entry ? stack_->Find(npu_.entries[npu_row.entry].name) : nullptr;
    cells_.push_back(frames == nullptr ? Cell::Text(kNotApplicable)
                                       : table_.KeepText(StackText(*frames)));
  }

  void AddDataNames(const SideRow& npu_row, const SideRow* bench_row) {
    std::string text = "[";
    base::AppendPythonTextRepr(npu_row.data_name, text);
    text += ", ";
    base::AppendPythonTextRepr(bench_row == nullptr ? kNotApplicable : bench_row->data_name, text);
    text += "]";
    cells_.push_back(table_.KeepText(text));
  }

  const Side& npu_;
  const Side& bench_;
  const PairResult& result_;
  const dump::StackFile* stack_;
  Table table_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<std::string> MetricColumns(CompareMode mode) {
  std::vector<std::string> columns;
  if (mode == CompareMode::kRealData) {
    Append(columns, kRealColumns);
  } else if (mode == CompareMode::kStatistics) {
    Append(columns, kStatisticsColumns);
  }
  return columns;
}

std::vector<std::string> ResultColumns(CompareMode mode, bool with_stack) {
  std::vector<std::string> columns;
  Append(columns, kCommonColumns);
  if (mode == CompareMode::kMd5) {
    columns.insert(columns.end(), {"NPU MD5", "BENCH MD5", "Result"});
  } else {
    const std::vector<std::string> metrics = MetricColumns(mode);
    columns.insert(columns.end(), metrics.begin(), metrics.end());
    Append(columns, kStatColumns);
    columns.emplace_back(mode == CompareMode::kRealData ? "Accuracy Reached or Not" : "Result");
    columns.emplace_back("Err_message");
  }
  if (with_stack) {
    columns.emplace_back(kStackColumn);
  }
  if (mode == CompareMode::kRealData) {
    columns.emplace_back("Data_name");
  }
  return columns;
}

report::Cell MetricCell(const Metric& metric, report::Table& table) {
  switch (metric.kind) {
    case MetricKind::kNumber:
      return Cell::Number(metric.number);
    case MetricKind::kText:
      return Cell::Text(metric.text);
    case MetricKind::kPercent:
      break;
  }
  if (metric.number == 0) {
    return Cell::Text("0.0%");
  }
  std::string text = base::PythonFloatRepr(metric.number);
  text += '%';
  return table.KeepText(text);
}

report::Table MakeResultTable(const Side& npu, const Side& bench, const PairResult& result,
                              const dump::StackFile* stack, const std::vector<bool>* keep) {
  return TableBuilder(npu, bench, result, stack).Build(keep);
}

}  // namespace msprobe::analysis::compare
