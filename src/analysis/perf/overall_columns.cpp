#include "src/analysis/perf/overall_columns.h"

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/units.h"

namespace msprobe::analysis::perf {
namespace {

constexpr std::string_view kTitle = "Model Profiling Time Distribution";

std::string Seconds(double seconds) { return fmt::format("{:.3f}s", seconds); }

std::string Counted(double ms, int64_t count) {
  return fmt::format("{:.3f}s({})", ms / kMsPerS, count);
}

struct Column {
  std::string header;
  std::array<std::string, 2> cells;
};

// Matrix units: matrix products, what else runs there, and kernels that compute and communicate;
// those have no count of their own.
Bucket Cube(const OverallTimes& times) {
  Bucket cube = times.matmul() + times.other_cube;
  cube.ms += times.combined_ms();
  return cube;
}

class Columns {
 public:
  Columns(const OverallTimes& base, const OverallTimes& comparison)
      : base_(base), comparison_(comparison) {}

  using Text = std::function<std::string(const OverallTimes&)>;
  using Value = std::function<double(const OverallTimes&)>;
  using Part = std::function<Bucket(const OverallTimes&)>;

  void Add(const std::string& header, const Text& text) {
    columns_.push_back({header, {text(base_), text(comparison_)}});
  }
  // Only where either side has any of it.
  void AddNonZero(const std::string& header, const Value& value, const Text& text) {
    if (value(base_) != 0 || value(comparison_) != 0) {
      Add(header, text);
    }
  }
  void AddCounted(const std::string& header, const Part& part, bool always = false) {
    const auto text = [&](const OverallTimes& times) {
      const Bucket bucket = part(times);
      return Counted(bucket.ms, bucket.count);
    };
    if (always) {
      Add(header, text);
    } else {
      AddNonZero(
          header, [&](const OverallTimes& times) { return part(times).ms; }, text);
    }
  }
  void AddCells(const std::string& header, std::string base, std::string comparison) {
    columns_.push_back({header, {std::move(base), std::move(comparison)}});
  }

  std::vector<Column> Take() { return std::move(columns_); }

 private:
  const OverallTimes& base_;
  const OverallTimes& comparison_;
  std::vector<Column> columns_;
};

std::vector<Column> MakeColumns(const PairComparison& comparison) {
  using Times = OverallTimes;
  const Times& base = *comparison.base_times;
  const Times& other = *comparison.comparison_times;
  const auto device = [](profile::Device kind) {
    return std::string(kind == profile::Device::kGpu ? "GPU" : "NPU");
  };
  Columns columns(base, other);
  columns.AddCells("", device(comparison.base_device), device(comparison.comparison_device));
  if (base.has_kernel_metrics && other.has_kernel_metrics) {
    columns.AddCounted("Cube Time(Num)", Cube, true);
    columns.AddCounted(
        "Vector Time(Num)", [](const Times& times) { return times.vector(); }, true);
  }
  columns.AddCounted("Conv Time(Forward)(Num)",
                     [](const Times& times) { return times.conv_forward(); });
  columns.AddCounted("Conv Time(Backward)(Num)",
                     [](const Times& times) { return times.conv_backward(); });
  columns.AddCounted("Flash Attention Time(Forward)(Num)",
                     [](const Times& times) { return times.flash_forward(); });
  columns.AddCounted("Flash Attention Time(Backward)(Num)",
                     [](const Times& times) { return times.flash_backward(); });
  columns.AddCounted("Paged Attention Time(Num)",
                     [](const Times& times) { return times.paged_attention; });
  columns.AddCounted("Lccl Time(Num)", [](const Times& times) { return times.lccl; });
  columns.AddNonZero(
      "Other Time", [](const Times& times) { return times.other_s; },
      [](const Times& times) { return Seconds(times.other_s); });
  columns.Add("Computing Time", [](const Times& times) { return Seconds(times.computing_s); });
  columns.AddNonZero(
      "Mem Usage", [](const Times& times) { return times.memory_gb; },
      [](const Times& times) { return fmt::format("{:.2f}G", times.memory_gb); });
  columns.AddCells("Uncovered Communication Time(Wait Time)",
                   fmt::format(" {:.3f}s{}", base.uncovered_s,
                               base.wait_s == 0 ? "( / )" : fmt::format("({:.3f}s)", base.wait_s)),
                   fmt::format(" {:.3f}s({:.3f}s)", other.uncovered_s, other.wait_s));
  columns.AddNonZero(
      "RDMA Bandwidth", [](const Times& times) { return times.rdma_gbps; },
      [](const Times& times) { return fmt::format("{:.3f}GB/s", times.rdma_gbps); });
  columns.AddNonZero(
      "SDMA Bandwidth", [](const Times& times) { return times.sdma_gbps; },
      [](const Times& times) { return fmt::format("{:.3f}GB/s", times.sdma_gbps); });
  columns.AddCounted("SDMA Time(Num)",
                     [](const Times& times) { return times.tensor_move + times.stream_copies; });
  columns.Add("Free Time", [](const Times& times) { return Seconds(times.free_s); });
  const bool any_npu = comparison.base_device == profile::Device::kNpu ||
                       comparison.comparison_device == profile::Device::kNpu;
  columns.Add(any_npu ? "E2E Time(Not minimal profiling)" : "E2E Time",
              [](const Times& times) { return Seconds(times.end_to_end_s); });
  return columns.Take();
}

}  // namespace

report::Table OverallColumns(const PairComparison& comparison) {
  const std::vector<Column> columns = MakeColumns(comparison);
  std::vector<std::string> headers;
  for (const Column& column : columns) {
    headers.push_back(column.header);
  }
  report::Table table(std::string(kTitle), std::move(headers));
  for (const size_t side : {0, 1}) {
    std::vector<report::Cell> cells;
    for (const Column& column : columns) {
      cells.push_back(table.KeepText(column.cells[side]));
    }
    table.AddRow(cells);
  }
  return table;
}

}  // namespace msprobe::analysis::perf
