#include "src/analysis/compare/line26/torchair_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/line26/torchair_files.h"
#include "src/analysis/compare/line26/torchair_metrics.h"
#include "src/analysis/compare/line26/torchair_pairs.h"
#include "src/analysis/compare/real_metrics.h"
#include "src/analysis/kernel_dump/number_reader.h"
#include "src/analysis/kernel_dump/vector_measures.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::compare {
namespace {

using report::Cell;

struct SideCells {
  std::string dtype;
  std::string shape;
  std::array<std::string, 3> stats;  // max, min, mean
};

struct ComparedRow {
  SideCells golden;
  SideCells mine;
  std::optional<TorchairMetrics> metrics;
  std::string reason;
  Status status;
  Distance distance;
  double noise = 0;
};

// Statistics of float32, whatever the dtype is; none of what has no elements or is complex.
SideCells CellsOf(const TensorView& view) {
  SideCells cells;
  cells.dtype = fmt::format("torch.{}", DTypeName(view.dtype));
  cells.shape = ShapeText(view.shape);
  const auto count = static_cast<size_t>(view.element_count());
  if (count == 0 || !kernel_dump::CheckMeasurable(view, view).ok()) {
    return cells;
  }
  kernel_dump::NumberReader<float> numbers(view);
  double largest = -INFINITY;
  double smallest = INFINITY;
  double sum = 0;
  for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
    for (const float number :
         numbers.Read(first, std::min(tensor::kCopyBlockElements, count - first))) {
      const auto value = static_cast<double>(number);
      largest = kernel_dump::LargerOrNaN(largest, value);
      smallest = kernel_dump::SmallerOrNaN(smallest, value);
      sum += value;
    }
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  cells.stats = {base::PythonFloatRepr(largest), base::PythonFloatRepr(smallest),
                 base::PythonFloatRepr(static_cast<double>(mean))};
  return cells;
}

ComparedRow CompareTorchairRow(const TorchairRow& row) {
  ComparedRow out;
  const Result<tensor::TensorBuffer> golden = row.golden.Read();
  const Result<tensor::TensorBuffer> mine = row.mine.Read();
  if (golden.ok()) {
    out.golden = CellsOf(golden->view());
  }
  if (mine.ok()) {
    out.mine = CellsOf(mine->view());
  }
  if (!golden.ok() || !mine.ok()) {
    out.status = golden.ok() ? mine.status() : golden.status();
    out.reason = out.status.message();
    return out;
  }
  TensorView a = golden->view();
  TensorView b = mine->view();
  if (a.element_count() != b.element_count()) {
    out.reason = "data shape doesn't match.";
    out.status = MismatchError(out.reason);
    return out;
  }
  out.status = kernel_dump::CheckMeasurable(b, a);
  if (out.status.ok() && a.element_count() == 0) {
    out.status = UnsupportedError("no elements to compare");
  }
  if (!out.status.ok()) {
    out.reason = out.status.message();
    return out;
  }
  for (TensorView* view : {&a, &b}) {
    view->shape = {view->element_count()};
    view->strides = {1};
  }
  out.metrics = MeasureTorchair(a, b);
  if (!out.metrics->golden_finite) {
    out.reason = "golden_data includes NAN or inf.";
  }
  if (!out.metrics->mine_finite) {
    out.reason += "my_data includes NAN or inf.";
  }
  out.distance = ComputeRealMetrics(b, a, Edition::k26).distance;
  out.noise = FolderNoise(b.dtype, a.dtype);
  return out;
}

std::vector<std::string> ReportColumns() {
  std::vector<std::string> columns = {"token_id", "data_id"};
  for (const char* side : {"golden", "my"}) {
    columns.push_back(fmt::format("{}_data_path", side));
    for (const char* fact : {"op_type", "dtype", "shape", "max_value", "min_value", "mean_value"}) {
      columns.push_back(fmt::format("{}_{}", side, fact));
    }
  }
  columns.insert(columns.end(), kTorchairMetrics.begin(), kTorchairMetrics.end());
  columns.emplace_back("cmp_fail_reason");
  return columns;
}

void AddReportRow(const TorchairRow& row, const ComparedRow& compared, size_t id,
                  report::Table& table) {
  std::vector<Cell> cells = {Cell::Integer(row.token), Cell::Integer(static_cast<int64_t>(id))};
  for (const auto& [place, facts] :
       {std::pair(&row.golden, &compared.golden), std::pair(&row.mine, &compared.mine)}) {
    cells.push_back(table.KeepText(place->Text()));
    cells.push_back(table.KeepText(place->op == nullptr ? "" : place->op->op_type));
    cells.push_back(table.KeepText(facts->dtype));
    cells.push_back(table.KeepText(facts->shape));
    for (const std::string& stat : facts->stats) {
      cells.push_back(table.KeepText(stat));
    }
  }
  const bool has_values =
      compared.metrics && compared.metrics->golden_finite && compared.metrics->mine_finite;
  for (size_t i = 0; i < kTorchairMetricCount; ++i) {
    cells.push_back(has_values ? table.KeepText(base::PythonFloatRepr(compared.metrics->values[i]))
                               : Cell());
  }
  cells.push_back(table.KeepText(base::Printable(compared.reason)));
  table.AddRow(cells);
}

FolderTable MakeTable(const std::vector<TorchairRow>& rows, std::optional<int64_t> rank,
                      FolderCounts counts, base::ThreadPool& pool) {
  FolderTable out;
  out.counts = counts;
  out.name = fmt::format("msprobe_cmp_report{}", rank ? fmt::format("_rank{}", *rank) : "");
  out.table = report::Table("report", ReportColumns());
  std::vector<ComparedRow> compared(rows.size());
  pool.ParallelFor(rows.size(),
                   [&](size_t i, size_t) { compared[i] = CompareTorchairRow(rows[i]); });
  for (size_t i = 0; i < rows.size(); ++i) {
    AddReportRow(rows[i], compared[i], i, out.table);
    if (compared[i].status.ok()) {
      out.counts.Add(compared[i].distance, compared[i].noise, rows[i].mine.Text());
    } else if (compared[i].status.code() == StatusCode::kMismatch) {
      ++out.counts.mismatched;
    } else {
      ++out.counts.unreadable;
    }
  }
  return out;
}

std::string RankName(std::optional<int64_t> rank) {
  return rank ? fmt::format("rank {}", *rank) : "what is in no folder of a rank";
}

std::string LonelyRank(std::optional<int64_t> rank, const std::filesystem::path& here,
                       const std::filesystem::path& there) {
  return fmt::format("{} of {} is not in {}", RankName(rank), here.string(), there.string());
}

}  // namespace

Result<FolderComparison> CompareTorchair(const Options& options, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(const TorchairSide mine, ReadTorchairSide(options.npu_path));
  MSP_ASSIGN_OR_RETURN(const TorchairSide golden, ReadTorchairSide(options.bench_path));
  if (!mine.is_ge()) {
    return NotFoundError(fmt::format("{} holds no dynamo_original_graph_<n>.txt, which names the "
                                     "operators of a dump of GE",
                                     options.npu_path.string()))
        .WithHint("the dump of GE comes first, one of GE or FX second");
  }
  FolderComparison comparison;
  const std::optional<int64_t>& asked = options.line26->torchair_rank;
  bool found = false;
  for (const auto& [rank, mine_rank] : mine.ranks) {
    if (asked && rank != asked) {
      continue;
    }
    const auto partner = golden.ranks.find(rank);
    if (partner == golden.ranks.end()) {
      comparison.warnings.push_back(LonelyRank(rank, options.npu_path, options.bench_path));
      continue;
    }
    found = true;
    FolderCounts counts;
    const std::vector<TorchairRow> rows =
        PairTorchairRank(mine, mine_rank, golden, partner->second, counts.npu_only);
    if (rows.empty()) {
      comparison.warnings.push_back(
          fmt::format("{}: none of {} kernels has a partner", RankName(rank), counts.npu_only));
      continue;
    }
    comparison.tables.push_back(MakeTable(rows, rank, counts, pool));
  }
  for (const auto& [rank, unused] : golden.ranks) {
    if (mine.ranks.count(rank) == 0 && !asked) {
      comparison.warnings.push_back(LonelyRank(rank, options.bench_path, options.npu_path));
    }
  }
  if (asked && !found) {
    return NotFoundError(fmt::format("rank {} is not in both of {} and {}", *asked,
                                     options.npu_path.string(), options.bench_path.string()))
        .WithHint("ranks are the folders worldsize<W>_global_rank<R>");
  }
  if (comparison.tables.empty()) {
    return MismatchError(fmt::format("{} and {} have no tensor in common",
                                     options.npu_path.string(), options.bench_path.string()))
        .WithHint("operators pair by the names in the text of the graph, tokens by their numbers");
  }
  return comparison;
}

}  // namespace msprobe::analysis::compare
