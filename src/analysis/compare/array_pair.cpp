#include "src/analysis/compare/array_pair.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/kernels/stats.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::compare {
namespace {

kernels::TensorStats StatsOf(const TensorView& view) {
  std::vector<std::byte> scratch;
  kernels::StatsPartial total;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
                       });
  return kernels::FinishStats(total);
}

}  // namespace

ArraySummary SummarizeArray(const TensorView& view) {
  ArraySummary summary;
  summary.dtype = view.dtype;
  summary.shape = view.shape;
  if (view.element_count() == 0) {
    summary.stats.fill(std::numeric_limits<double>::quiet_NaN());
    return summary;
  }
  const kernels::TensorStats stats = StatsOf(view);
  summary.stats = {stats.max, stats.min, stats.mean, stats.norm};
  switch (view.dtype) {
    case DType::kFloat16:
      // NumPy sums float16 in float32 but hands the sum of squares back as float16 before it takes
      // the root.
      summary.stats[kMean] = tensor::RoundToDType(view.dtype, stats.mean);
      summary.stats[kNorm] = tensor::RoundToDType(
          view.dtype, std::sqrt(tensor::RoundToDType(view.dtype, stats.norm * stats.norm)));
      break;
    case DType::kFloat32:
      summary.stats[kMean] = tensor::RoundToDType(view.dtype, stats.mean);
      summary.stats[kNorm] = tensor::RoundToDType(view.dtype, stats.norm);
      break;
    default:
      break;
  }
  return summary;
}

namespace {

struct OpenedArray {
  std::optional<TensorFile> file;
  const TensorView* view = nullptr;
  std::string problem;
};

OpenedArray OpenArray(const std::filesystem::path& path, std::vector<std::byte>& scratch) {
  OpenedArray opened;
  TensorFile::Options options;
  options.scratch = &scratch;
  auto file = TensorFile::Open(path, options);
  if (!file.ok()) {
    opened.problem = file.status().message();
    return opened;
  }
  opened.file.emplace(*std::move(file));
  const auto tensor = opened.file->Single();
  if (!tensor.ok()) {
    opened.problem = path.string() + ": " + tensor.status().message();
  } else if (!(*tensor)->status.ok()) {
    opened.problem = path.string() + ": " + (*tensor)->status.message();
  } else {
    opened.view = &(*tensor)->view;
  }
  return opened;
}

// The shortest decimal that reads back as the same float16.
double ShortestFloat16(double value) {
  const uint16_t bits = tensor::FloatToFloat16(static_cast<float>(value));
  for (int digits = 1; digits <= 5; ++digits) {
    std::string text;
    base::AppendGeneral(value, digits, text);
    const std::optional<double> parsed = base::ParseDouble(text);
    if (parsed && tensor::FloatToFloat16(static_cast<float>(*parsed)) == bits) {
      return *parsed;
    }
  }
  return value;
}

double ShortestFloat32(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value));
  return base::ParseDouble({text.data(), static_cast<size_t>(end.ptr - text.data())})
      .value_or(value);
}

report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat, bool shortest) {
  double value = summary.stats[stat];
  if (std::isnan(value)) {
    return {};
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  if (summary.dtype == DType::kBool && (stat == kMax || stat == kMin)) {
    return report::Cell::Text(value != 0 ? "True" : "False");
  }
  if (shortest && summary.dtype == DType::kFloat16) {
    value = ShortestFloat16(value);
  } else if (shortest && summary.dtype == DType::kFloat32) {
    value = ShortestFloat32(value);
  }
  return report::Cell::Number(value);
}

}  // namespace

ArrayPair CompareArrays(const std::filesystem::path& npu, const std::filesystem::path& bench,
                        ArrayScratch& scratch) {
  ArrayPair pair;
  OpenedArray npu_array;
  OpenedArray bench_array;
  std::string problem;
  if (npu.empty()) {
    problem = "No NPU file matches this bench file. ";
  } else {
    npu_array = OpenArray(npu, scratch.npu);
  }
  if (bench.empty()) {
    problem = "No bench file matches this NPU file. ";
  } else {
    bench_array = OpenArray(bench, scratch.bench);
  }
  for (const OpenedArray* array : {&npu_array, &bench_array}) {
    if (!array->problem.empty()) {
      problem += array->problem + ". ";
      pair.unreadable = true;
    }
  }
  if (npu_array.view != nullptr) {
    pair.npu = SummarizeArray(*npu_array.view);
  }
  if (bench_array.view != nullptr) {
    pair.bench = SummarizeArray(*bench_array.view);
  }
  pair.result = pair.npu && pair.bench ? ComputeRealMetrics(*npu_array.view, *bench_array.view)
                                       : UniformRealMetrics("unsupported", std::move(problem));
  return pair;
}

std::optional<double> NoiseOrCount(const ArrayPair& pair, bool has_npu, bool has_bench,
                                   FolderCounts& counts) {
  counts.unreadable += pair.unreadable ? 1 : 0;
  if (!has_npu || !has_bench) {
    ++(has_npu ? counts.npu_only : counts.bench_only);
    return std::nullopt;
  }
  if (!pair.npu || !pair.bench) {
    return std::nullopt;
  }
  if (pair.npu->shape != pair.bench->shape || pair.npu->dtype != pair.bench->dtype) {
    ++counts.mismatched;
    return std::nullopt;
  }
  return FolderNoise(pair.npu->dtype, pair.bench->dtype);
}

std::string NumpyShapeText(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += i > 0 ? ", " : "";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat) {
  return ArrayStatCell(summary, stat, false);
}

report::Cell ShortArrayStatCell(const ArraySummary& summary, Stat stat) {
  return ArrayStatCell(summary, stat, true);
}

Result<std::vector<Folder>> WalkFolders(const std::filesystem::path& root, int max_depth) {
  struct Pending {
    std::filesystem::path path;
    int depth;
  };
  std::vector<Folder> folders;
  std::vector<Pending> pending = {{root, 0}};
  while (!pending.empty()) {
    const Pending current = std::move(pending.back());
    pending.pop_back();
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(current.path));
    Folder folder;
    folder.path = current.path;
    std::vector<Pending> below;
    for (const std::string& name : names) {
      std::error_code error;
      const auto type = std::filesystem::symlink_status(current.path / name, error).type();
      if (type == std::filesystem::file_type::none) {
        base::NoteUnseen(
            IoError("cannot look at " + (current.path / name).string() + ": " + error.message()));
      }
      if (type == std::filesystem::file_type::directory) {
        folder.has_subfolders = true;
        if (current.depth < max_depth) {
          below.push_back({current.path / name, current.depth + 1});
        }
      } else if (type == std::filesystem::file_type::regular) {
        folder.files.push_back(name);
      }
    }
    std::move(below.rbegin(), below.rend(), std::back_inserter(pending));
    folders.push_back(std::move(folder));
  }
  return folders;
}

}  // namespace msprobe::analysis::compare
