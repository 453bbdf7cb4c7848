#include "src/analysis/compare/folders/atb.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/real_data.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/kernels/convert.h"
#include "src/kernels/stats.h"
#include "src/report/readers.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;
using report::Cell;

constexpr const char* kStatisticFile = "statistic.csv";
constexpr std::string_view kPathColumn = "Tensor Path";  // the last one
constexpr std::string_view kDumpFolder = "atb_dump_data";
// Of a tensor path, the parts from atb_dump_data on that the round folder stands for.
constexpr size_t kRoundParts = 4;
constexpr size_t kLargestTensorBytes = size_t{16} << 30U;

// The columns of statistic.csv, by position.
enum Column : uint8_t {
  kDevice,
  kExecution,
  kOpName,
  kOpType,
  kOpId,
  kDirection,
  kIndex,
  kDType,
  kFormat,
  kShape,
  kMaximum,
  kMinimum,
  kMeanValue,
  kNormValue,
  kTensorPath,
  kColumnCount
};

struct Record {
  std::string key;
  std::array<std::string, kColumnCount> cells;
};

struct Round {
  fs::path folder;
  std::vector<Record> records;                     // by first occurrence of the key
  std::unordered_map<std::string, size_t> by_key;  // a later row of the same key counts
  bool has_tensors = false;
};

// "0_Layer/2_Linear/input.0": the ids along the path beside the names; nullopt when they do not
// belong together.
std::optional<std::string> KeyOf(const std::array<std::string, kColumnCount>& cells) {
  const std::vector<std::string_view> names = base::Split(cells[kOpName], '/');
  const std::vector<std::string_view> ids = base::Split(cells[kOpId], '_');
  if (names.size() != ids.size()) {
    return std::nullopt;
  }
  std::string key;
  for (size_t i = 0; i < names.size(); ++i) {
    key += fmt::format("{}_{}/", ids[i], names[i]);
  }
  return key + cells[kDirection] + "." + cells[kIndex];
}

Result<Round> ReadRound(const fs::path& folder, std::vector<std::string>& warnings) {
  if (!base::IsFolder(folder)) {
    return UsageError(folder.string() + ": no such directory")
        .WithHint("-m atb compares the folders of two execution rounds, each with statistic.csv");
  }
  Round round;
  round.folder = folder;
  MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(folder / kStatisticFile));
  size_t skipped = 0;
  for (size_t i = 0; i < table.row_count(); ++i) {
    const std::span<const Cell> row = table.row(i);
    const auto is_filled = [](const Cell& cell) { return cell.kind() != report::CellKind::kEmpty; };
    if (row.size() != kColumnCount || !is_filled(row[kTensorPath])) {
      ++skipped;
      continue;
    }
    Record record;
    for (size_t column = 0; column < kColumnCount; ++column) {
      record.cells[column] = report::CellText(row[column]);
    }
    if (round.records.empty()) {
      round.has_tensors = record.cells[kTensorPath] != kNotApplicable;
    }
    std::optional<std::string> key = KeyOf(record.cells);
    if (!key) {
      ++skipped;
      continue;
    }
    record.key = *std::move(key);
    const auto [known, is_new] = round.by_key.try_emplace(record.key, round.records.size());
    if (is_new) {
      round.records.push_back(std::move(record));
    } else {
      round.records[known->second] = std::move(record);
    }
  }
  if (skipped > 0) {
    warnings.push_back(fmt::format("{}: {} skipped, their form is unknown",
                                   (folder / kStatisticFile).string(),
                                   base::Plural(skipped, "row")));
  }
  if (round.records.empty()) {
    return BadFormatError((folder / kStatisticFile).string() + " holds no row of a known form");
  }
  return round;
}

// The path as recorded on another machine, below the folder given.
Result<fs::path> TensorPath(const Round& round, const std::string& recorded) {
  const size_t at = recorded.find(kDumpFolder);
  if (at == std::string::npos) {
    return BadFormatError(
        fmt::format("the tensor path \"{}\" has no part {}", recorded, kDumpFolder));
  }
  const std::vector<std::string_view> parts =
      base::Split(std::string_view(recorded).substr(at), '/');
  fs::path path = round.folder;
  if (parts.size() <= kRoundParts) {
    return BadFormatError(fmt::format("the tensor path \"{}\" ends too early", recorded));
  }
  for (const std::string_view part : std::span(parts).subspan(kRoundParts)) {
    if (part == ".." || part.empty()) {
      return BadFormatError(fmt::format("the tensor path \"{}\" leaves its folder", recorded));
    }
    path /= part;
  }
  return path;
}

// Integers and float64 are compared as float32, as the statistics of the dump were computed.
Result<tensor::TensorBuffer> ReadAsFloat(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, {}));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer values,
                       tensor::MakeContiguous(tensor->view, kLargestTensorBytes));
  const DTypeKind kind = GetDTypeInfo(tensor->view.dtype).kind;
  const bool integer = kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned;
  if (!integer && tensor->view.dtype != DType::kFloat64) {
    return values;
  }
  tensor::TensorBuffer narrow(DType::kFloat32, tensor->view.shape);
  std::vector<double> wide(static_cast<size_t>(tensor->view.element_count()));
  kernels::WidenToDouble(tensor->view.dtype, values.view().bytes(), wide);
  auto* out = reinterpret_cast<float*>(narrow.mutable_bytes().data());
  std::transform(wide.begin(), wide.end(), out,
                 [](double value) { return static_cast<float>(value); });
  return narrow;
}

struct TensorRow {
  std::array<std::string, 6> metrics;
  std::array<std::string, kStatCount> target;
  std::array<std::string, kStatCount> golden;
  Distance distance;
  double noise = 0;
  std::string problem;
};

std::string NumberText(double value) {
  return std::isnan(value) ? std::string(kNotApplicable) : base::PythonFloatRepr(value);
}

// As PyTorch computes it: the sum becomes a float16 before it is divided.
double HalfMean(const TensorView& view) {
  const auto count = static_cast<double>(view.element_count());
  const double sum = kernels::ComputeStats(view.dtype, view.bytes()).mean * count;
  return tensor::RoundToDType(view.dtype, tensor::RoundToDType(view.dtype, sum) / count);
}

std::array<std::string, kStatCount> StatTexts(const TensorView& view) {
  std::array<std::string, kStatCount> texts;
  texts.fill(std::string(kNotApplicable));
  if (view.shape.empty() || view.element_count() == 0) {
    return texts;
  }
  const ArraySummary summary = SummarizeArray(view);
  if (view.dtype == DType::kBool) {
    texts[kMax] = summary.stats[kMax] != 0 ? "True" : "False";
    texts[kMin] = summary.stats[kMin] != 0 ? "True" : "False";
    return texts;
  }
  for (size_t i = 0; i < kStatCount; ++i) {
    texts[i] = NumberText(summary.stats[i]);
  }
  if (view.dtype == DType::kFloat16) {
    texts[kMean] = NumberText(HalfMean(view));
  }
  return texts;
}

std::string AtbMetricText(const Metric& metric) {
  return metric.kind == MetricKind::kText ? std::string(base::Trim(metric.text))
                                          : base::PythonFloatRepr(metric.number);
}

TensorRow CompareTensorRow(const Round& target, const Record& t, const Round& golden,
                           const Record& g) {
  TensorRow row;
  row.metrics.fill(std::string(kNotApplicable));
  row.target.fill(std::string(kNotApplicable));
  row.golden.fill(std::string(kNotApplicable));
  const auto read = [](const Round& round, const Record& record) -> Result<tensor::TensorBuffer> {
    MSP_ASSIGN_OR_RETURN(const fs::path path, TensorPath(round, record.cells[kTensorPath]));
    return ReadAsFloat(path);
  };
  const Result<tensor::TensorBuffer> n = read(target, t);
  const Result<tensor::TensorBuffer> b = read(golden, g);
  if (n.ok()) {
    row.target = StatTexts(n->view());
  }
  if (b.ok()) {
    row.golden = StatTexts(b->view());
  }
  if (!n.ok() || !b.ok()) {
    row.problem = n.ok() ? b.status().message() : n.status().message();
    return row;
  }
  const RealMetrics metrics = ComputeRealMetrics(n->view(), b->view(), Edition::kV26);
  for (size_t i = 0; i < row.metrics.size(); ++i) {
    row.metrics[i] = AtbMetricText(metrics.metrics[i]);
  }
  row.distance = metrics.distance;
  row.noise = FolderNoise(n->view().dtype, b->view().dtype);
  return row;
}

struct StatisticRow {
  std::array<std::string, kStatCount> difference;
  std::array<std::string, kStatCount> relative;
  Distance distance;
};

StatisticRow CompareStatisticRow(const Record& t, const Record& g) {
  StatisticRow row;
  std::array<double, kStatCount> target{};
  std::array<double, kStatCount> golden{};
  for (size_t i = 0; i < kStatCount; ++i) {
    const std::optional<double> n = base::ParseDouble(t.cells[kMaximum + i]);
    const std::optional<double> b = base::ParseDouble(g.cells[kMaximum + i]);
    const bool known = n && b;
    target[i] = known ? *n : std::numeric_limits<double>::quiet_NaN();
    golden[i] = known ? *b : std::numeric_limits<double>::quiet_NaN();
    row.difference[i] = row.relative[i] = kNotApplicable;
    const double difference = target[i] - golden[i];
    if (std::isnan(difference)) {
      continue;
    }
    row.difference[i] = base::PythonFloatRepr(difference);
    if (difference == 0) {
      row.relative[i] = "0.0";
    } else if (*b != 0) {
      row.relative[i] = base::PythonFloatRepr(std::fabs(difference / *b * 100));
    }
  }
  row.distance = FolderDistance(target, golden);
  return row;
}

std::vector<std::string> AtbColumns(bool tensors) {
  std::vector<std::string> columns;
  const auto both = [&](std::string_view name) {
    columns.push_back(fmt::format("Target {}", name));
    columns.push_back(fmt::format("Golden {}", name));
  };
  for (const char* name :
       {"Data Name", "Device and PID", "Execution Count", "Data Type", "Data Shape"}) {
    both(name);
  }
  if (tensors) {
    columns.insert(columns.end(), {"Cosine", "Euc Distance", "Max Absolute Err", "Max Relative Err",
                                   "One Thousandth Err Ratio", "Five Thousandth Err Ratio"});
  } else {
    for (const std::string_view stat : dump::kStatisticKeys) {
      columns.push_back(fmt::format("{} Diff", stat));
    }
    for (const std::string_view stat : dump::kStatisticKeys) {
      columns.push_back(fmt::format("Relative Err of {}(%)", stat));
    }
  }
  for (const std::string_view stat : dump::kStatisticKeys) {
    both(stat);
  }
  return columns;
}

}  // namespace

bool IsAtbRound(const fs::path& folder) {
  constexpr size_t kHeaderBytes = 4096;
  const std::string header = base::HeadOf(folder / kStatisticFile, kHeaderBytes);
  const std::string_view line = std::string_view(header).substr(0, header.find('\n'));
  return base::Split(line, ',').size() == kColumnCount && base::Trim(line).ends_with(kPathColumn);
}

Result<FolderComparison> CompareAtb(const Options& options, base::ThreadPool& pool) {
  FolderComparison comparison;
  MSP_ASSIGN_OR_RETURN(const Round target, ReadRound(options.npu_path, comparison.warnings));
  MSP_ASSIGN_OR_RETURN(const Round golden, ReadRound(options.bench_path, comparison.warnings));
  if (target.has_tensors != golden.has_tensors) {
    return MismatchError(fmt::format("{} holds {}, {} holds {}", target.folder.string(),
                                     target.has_tensors ? "tensors" : "statistics",
                                     golden.folder.string(),
                                     golden.has_tensors ? "tensors" : "statistics"))
        .WithHint("dump both sides with the same task");
  }
  std::vector<std::pair<const Record*, const Record*>> pairs;
  FolderCounts counts;
  for (const Record& record : target.records) {
    const auto found = golden.by_key.find(record.key);
    if (found != golden.by_key.end()) {
      pairs.emplace_back(&record, &golden.records[found->second]);
    } else {
      ++counts.npu_only;
    }
  }
  if (pairs.empty()) {
    return MismatchError(fmt::format("{} and {} have no tensor of one name", target.folder.string(),
                                     golden.folder.string()));
  }
  counts.bench_only = golden.records.size() - pairs.size();
  const bool tensors = target.has_tensors;
  std::vector<TensorRow> rows(tensors ? pairs.size() : 0);
  pool.ParallelFor(rows.size(), [&](size_t i, size_t) {
    rows[i] = CompareTensorRow(target, *pairs[i].first, golden, *pairs[i].second);
  });
  FolderTable out;
  out.counts = counts;
  out.name = tensors ? "atb_tensor_compare_result" : "atb_stats_compare_result";
  out.table = report::Table("Sheet", AtbColumns(tensors));
  std::vector<Cell> cells;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [t, g] = pairs[i];
    cells.clear();
    const auto add = [&](std::string_view text) { cells.push_back(out.table.KeepText(text)); };
    add(t->key);
    add(g->key);
    for (const Column column : {kDevice, kExecution, kDType, kShape}) {
      add(t->cells[column]);
      add(g->cells[column]);
    }
    if (tensors) {
      for (const std::string& text : rows[i].metrics) {
        add(text);
      }
      for (size_t stat = 0; stat < kStatCount; ++stat) {
        add(rows[i].target[stat]);
        add(rows[i].golden[stat]);
      }
      out.counts.Add(rows[i].distance, rows[i].noise, t->key);
      if (!rows[i].problem.empty()) {
        ++out.counts.unreadable;
        comparison.warnings.push_back(fmt::format("{}: {}", t->key, rows[i].problem));
      }
    } else {
      const StatisticRow row = CompareStatisticRow(*t, *g);
      for (const std::string& text : row.difference) {
        add(text);
      }
      for (const std::string& text : row.relative) {
        add(text);
      }
      for (size_t stat = 0; stat < kStatCount; ++stat) {
        add(t->cells[kMaximum + stat]);
        add(g->cells[kMaximum + stat]);
      }
      out.counts.Add(row.distance, kTextNoise, t->key);
    }
    out.table.AddRow(cells);
  }
  comparison.tables.push_back(std::move(out));
  return comparison;
}

}  // namespace msprobe::analysis::compare
