// Dumps of the Ascend Transformer Boost: a folder per execution round, with statistic.csv and the
// tensors of every operator.
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

#include "src/analysis/compare/folders/folders.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/result_table.h"
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
// Parts of a tensor path, from atb_dump_data on, that are the path of the round folder.
constexpr size_t kRoundParts = 4;

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
  MSP_ASSIGN_OR_RETURN(tensor::TensorBuffer values, ReadWholeTensor(path));
  const TensorView view = values.view();
  const DTypeKind kind = GetDTypeInfo(view.dtype).kind;
  const bool integer = kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned;
  if (!integer && view.dtype != DType::kFloat64) {
    return values;
  }
  tensor::TensorBuffer narrow(DType::kFloat32, view.shape);
  std::vector<double> wide(static_cast<size_t>(view.element_count()));
  kernels::WidenToDouble(view.dtype, view.bytes(), wide);
  auto* out = reinterpret_cast<float*>(narrow.mutable_bytes().data());
  std::transform(wide.begin(), wide.end(), out,
                 [](double value) { return static_cast<float>(value); });
  return narrow;
}

std::string NumberText(double value) {
  return std::isnan(value) ? std::string(kNotApplicable) : base::PythonFloatRepr(value);
}

// As PyTorch computes it: the sum becomes a float16 before it is divided.
double HalfMean(const TensorView& view) {
  const auto count = static_cast<double>(view.element_count());
  const double sum = kernels::ComputeStats(view.dtype, view.bytes()).mean * count;
  return tensor::RoundToDType(view.dtype, tensor::RoundToDType(view.dtype, sum) / count);
}

std::array<std::string, kStatCount> StatTexts(const Result<tensor::TensorBuffer>& tensor) {
  std::array<std::string, kStatCount> texts;
  texts.fill(std::string(kNotApplicable));
  if (!tensor.ok() || tensor->view().shape.empty() || tensor->view().element_count() == 0) {
    return texts;
  }
  const TensorView view = tensor->view();
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

void AddTensors(const Round& target, const Record& t, const Round& golden, const Record& g,
                FolderRow& row) {
  const auto read = [](const Round& round, const Record& record) -> Result<tensor::TensorBuffer> {
    MSP_ASSIGN_OR_RETURN(const fs::path path, TensorPath(round, record.cells[kTensorPath]));
    return ReadAsFloat(path);
  };
  const Result<tensor::TensorBuffer> n = read(target, t);
  const Result<tensor::TensorBuffer> b = read(golden, g);
  if (n.ok() && b.ok()) {
    const RealMetrics metrics = ComputeRealMetrics(n->view(), b->view(), Edition::kV26);
    for (size_t i = 0; i <= kFiveThousandths; ++i) {
      row.Add(std::string(base::Trim(MetricText(metrics.metrics[i]))));
    }
    row.distance = metrics.distance;
    row.noise = FolderNoise(n->view().dtype, b->view().dtype);
  } else {
    for (size_t i = 0; i <= kFiveThousandths; ++i) {
      row.Add(Cell::Text(kNotApplicable));
    }
    row.outcome = FolderRow::Outcome::kNoValues;
    row.unreadable = true;
    row.warning = fmt::format("{}: {}", t.key, (n.ok() ? b : n).status().message());
  }
  const auto n_texts = StatTexts(n);
  const auto b_texts = StatTexts(b);
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    row.Add(n_texts[stat]);
    row.Add(b_texts[stat]);
  }
}

void AddRecordedStatistics(const Record& t, const Record& g, FolderRow& row) {
  std::array<double, kStatCount> target{};
  std::array<double, kStatCount> golden{};
  std::array<std::string, kStatCount> relative;
  for (size_t i = 0; i < kStatCount; ++i) {
    const std::optional<double> n = base::ParseDouble(t.cells[kMaximum + i]);
    const std::optional<double> b = base::ParseDouble(g.cells[kMaximum + i]);
    target[i] = n && b ? *n : std::numeric_limits<double>::quiet_NaN();
    golden[i] = n && b ? *b : std::numeric_limits<double>::quiet_NaN();
    const double difference = target[i] - golden[i];
    row.Add(NumberText(difference));
    relative[i] = difference == 0 ? "0.0"
                  : std::isnan(difference) || golden[i] == 0
                      ? std::string(kNotApplicable)
                      : base::PythonFloatRepr(std::fabs(difference / golden[i] * 100));
  }
  for (std::string& text : relative) {
    row.Add(std::move(text));
  }
  for (size_t i = 0; i < kStatCount; ++i) {
    row.Add(t.cells[kMaximum + i]);
    row.Add(g.cells[kMaximum + i]);
  }
  row.distance = FolderDistance(target, golden);
  row.noise = kTextNoise;
}

FolderRow RecordRow(const Round& target, const Record& t, const Round& golden, const Record& g) {
  FolderRow row;
  row.name = t.key;
  row.Add(t.key);
  row.Add(g.key);
  for (const Column column : {kDevice, kExecution, kDType, kShape}) {
    row.Add(t.cells[column]);
    row.Add(g.cells[column]);
  }
  if (target.has_tensors) {
    AddTensors(target, t, golden, g, row);
  } else {
    AddRecordedStatistics(t, g, row);
  }
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
  FolderTable& table = comparison.tables.emplace_back();
  std::vector<std::pair<const Record*, const Record*>> pairs;
  for (const Record& record : target.records) {
    const auto found = golden.by_key.find(record.key);
    if (found != golden.by_key.end()) {
      pairs.emplace_back(&record, &golden.records[found->second]);
    } else {
      ++table.counts.npu_only;
    }
  }
  if (pairs.empty()) {
    return MismatchError(fmt::format("{} and {} have no tensor of one name", target.folder.string(),
                                     golden.folder.string()));
  }
  table.counts.bench_only = golden.records.size() - pairs.size();
  table.name = target.has_tensors ? "atb_tensor_compare_result" : "atb_stats_compare_result";
  table.table = report::Table("Sheet", AtbColumns(target.has_tensors));
  CompareRows(
      pairs.size(),
      [&](size_t i, size_t) {
        return RecordRow(target, *pairs[i].first, golden, *pairs[i].second);
      },
      FirstBy::kPlace, pool, comparison);
  return comparison;
}

}  // namespace msprobe::analysis::compare
