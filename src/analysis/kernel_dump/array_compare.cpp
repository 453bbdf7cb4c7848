#include "src/analysis/kernel_dump/array_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/numbers.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/kernels/element_pairs.h"
#include "src/report/writers.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::kernel_dump {

Result<FileComparison> CompareArrayFiles(const std::filesystem::path& mine,
                                         const std::filesystem::path& golden,
                                         const std::filesystem::path& output) {
  MSP_ASSIGN_OR_RETURN(const TensorFile mine_file, TensorFile::Open(mine));
  MSP_ASSIGN_OR_RETURN(const TensorFile golden_file, TensorFile::Open(golden));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* left, mine_file.Single());
  MSP_ASSIGN_OR_RETURN(const NamedTensor* right, golden_file.Single());
  FileComparison comparison;
  comparison.mine = mine;
  comparison.golden = golden;
  if (left->view.shape != right->view.shape) {
    comparison.status =
        MismatchError(fmt::format("its shape is {}, that of {} is {}", ShapeText(left->view.shape),
                                  golden.string(), ShapeText(right->view.shape)));
    return comparison;
  }
  comparison.status = CheckMeasurable(left->view, right->view);
  if (!comparison.status.ok()) {
    return comparison;
  }
  comparison.measures = MeasureVectors(left->view, right->view);
  std::string text;
  for (const Measure measure : kFileMeasures) {
    text +=
        fmt::format("{}: {}\n", MeasureName(measure), MeasureText(comparison.measures, measure));
  }
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(output, base::TimestampNow()));
  comparison.file = output / fmt::format("file_result_{}.txt", stamp.text());
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(comparison.file, text));
  return comparison;
}

namespace {

constexpr std::string_view kArraySuffix = ".npy";

Result<ArrayPair::Side> DescribeSide(const std::filesystem::path& path, const TensorView& view) {
  const kernels::TensorStats stats = StatisticsOf(view);
  return ArrayPair::Side{path, view.shape, view.dtype, stats.max, stats.min, stats.mean};
}

// The machine epsilon by which zeros of the right side are moved, so that ratios to them exist.
double EpsilonOf(DType dtype) {
  const bool has_own = dtype == DType::kFloat16 || dtype == DType::kFloat32;
  return tensor::FormatOf(has_own                     ? dtype
                          : dtype == DType::kBFloat16 ? DType::kFloat32  // as which it is read
                                                      : DType::kFloat64)
      .epsilon();
}

Result<BatchRow> CompareFiles(const std::filesystem::path& left_path,
                              const std::filesystem::path& right_path) {
  MSP_ASSIGN_OR_RETURN(const TensorFile left_file, TensorFile::Open(left_path));
  MSP_ASSIGN_OR_RETURN(const TensorFile right_file, TensorFile::Open(right_path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* left, left_file.Single());
  MSP_ASSIGN_OR_RETURN(const NamedTensor* right, right_file.Single());
  if (left->view.shape != right->view.shape || left->view.dtype != right->view.dtype) {
    return MismatchError(fmt::format("{} is {} of {}, {} is {} of {}", left_path.string(),
                                     ShapeText(left->view.shape), DTypeName(left->view.dtype),
                                     right_path.string(), ShapeText(right->view.shape),
                                     DTypeName(right->view.dtype)));
  }
  BatchRow row;
  row.left = left_path.string();
  row.right = right_path.string();
  row.dtype = left->view.dtype;
  row.left_mean = StatisticsOf(left->view).mean;
  row.right_mean = StatisticsOf(right->view).mean;
  const double epsilon = EpsilonOf(row.dtype);
  row.same_bytes = true;
  using Run = std::span<const double>;
  kernels::ForEachRun<double>(left->view, right->view, [&](Run a, Run b, size_t) {
    row.same_bytes = row.same_bytes && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double difference = std::fabs(a[i] - b[i]);
      const double ratio = difference / std::fabs(b[i] == 0 ? b[i] + epsilon : b[i]);
      // NaN wins, as with NumPy's max.
      row.max_absolute =
          std::isnan(difference) ? difference : std::max(difference, row.max_absolute);
      row.max_relative = std::isnan(ratio) ? ratio : std::max(ratio, row.max_relative);
    }
  });
  return row;
}

Result<std::vector<std::string>> FoldersIn(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(folder));
  std::erase_if(names, [&](const std::string& name) { return !base::IsFolder(folder / name); });
  return names;
}

Result<std::vector<std::string>> ArraysIn(const std::filesystem::path& folder) {
  MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(folder));
  std::erase_if(names, [&](const std::string& name) { return !name.ends_with(kArraySuffix); });
  return names;
}

Status SameCount(const std::filesystem::path& left, size_t left_count,
                 const std::filesystem::path& right, size_t right_count, std::string_view what) {
  return left_count == right_count
             ? Status()
             : MismatchError(fmt::format("{} has {} {}, {} has {}", left.string(), left_count, what,
                                         right.string(), right_count));
}

}  // namespace

Result<ArrayPair> CompareArrays(const ArrayCompareOptions& options) {
  MSP_ASSIGN_OR_RETURN(const TensorFile left_file, TensorFile::Open(options.left));
  MSP_ASSIGN_OR_RETURN(const TensorFile right_file, TensorFile::Open(options.right));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* left, left_file.Single());
  MSP_ASSIGN_OR_RETURN(const NamedTensor* right, right_file.Single());
  ArrayPair pair;
  MSP_ASSIGN_OR_RETURN(pair.left, DescribeSide(options.left, left->view));
  MSP_ASSIGN_OR_RETURN(pair.right, DescribeSide(options.right, right->view));
  pair.elements =
      static_cast<uint64_t>(std::max(left->view.element_count(), right->view.element_count()));
  double dot = 0;
  double left_square = 0;
  double right_square = 0;
  using Run = std::span<const float>;
  kernels::ForEachRun<float>(
      left->view, right->view, 0, pair.elements, [&](Run a, Run b, size_t first) {
        for (size_t i = 0; i < a.size(); ++i) {
          const double x = static_cast<double>(a[i]);
          const double y = static_cast<double>(b[i]);
          dot += x * y;
          left_square += x * x;
          right_square += y * y;
          const ElementPair element = {first + i, a[i], b[i]};
          const double difference = std::fabs(x - y);
          // Not "above": NaN is an error, equal infinities are none.
          if (!(difference <= options.atol + options.rtol * std::fabs(y)) && !(x == y)) {
            ++pair.errors;
            if (pair.first_errors.size() < options.shown) {
              pair.first_errors.push_back(element);
            }
          }
          if (pair.first.size() < options.shown) {
            pair.first.push_back(element);
          }
        }
      });
  pair.all_close = pair.errors == 0;
  pair.cosine = dot / (std::sqrt(left_square) * std::sqrt(right_square));
  return pair;
}

bool HoldsOnlyArrays(const std::filesystem::path& folder) {
  std::error_code error;
  bool any = false;
  for (auto entry = std::filesystem::recursive_directory_iterator(
           folder, std::filesystem::directory_options::skip_permission_denied, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file(error)) {
      if (entry->path().extension() != kArraySuffix) {
        return false;
      }
      any = true;
    }
  }
  return any && !error;
}

Result<BatchComparison> CompareArrayFolders(const std::filesystem::path& left,
                                            const std::filesystem::path& right,
                                            const std::filesystem::path& output) {
  BatchComparison comparison;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> left_ops, FoldersIn(left));
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> right_ops, FoldersIn(right));
  MSP_RETURN_IF_ERROR(SameCount(left, left_ops.size(), right, right_ops.size(), "operators"));
  for (size_t op = 0; op < left_ops.size(); ++op) {
    if (left_ops[op] != right_ops[op]) {
      return MismatchError(fmt::format("operator {} of {} has no partner in {}, which has {}",
                                       left_ops[op], left.string(), right.string(), right_ops[op]));
    }
    const std::filesystem::path left_op = left / left_ops[op];
    const std::filesystem::path right_op = right / right_ops[op];
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> left_times, FoldersIn(left_op));
    MSP_ASSIGN_OR_RETURN(const std::vector<std::string> right_times, FoldersIn(right_op));
    MSP_RETURN_IF_ERROR(
        SameCount(left_op, left_times.size(), right_op, right_times.size(), "calls"));
    for (size_t time = 0; time < left_times.size(); ++time) {
      const std::filesystem::path left_call = left_op / left_times[time];
      const std::filesystem::path right_call = right_op / right_times[time];
      MSP_ASSIGN_OR_RETURN(const std::vector<std::string> left_files, ArraysIn(left_call));
      MSP_ASSIGN_OR_RETURN(const std::vector<std::string> right_files, ArraysIn(right_call));
      MSP_RETURN_IF_ERROR(
          SameCount(left_call, left_files.size(), right_call, right_files.size(), "arrays"));
      for (size_t i = 0; i < left_files.size(); ++i) {
        MSP_ASSIGN_OR_RETURN(BatchRow row,
                             CompareFiles(left_call / left_files[i], right_call / right_files[i]));
        comparison.rows.push_back(std::move(row));
      }
    }
  }
  if (comparison.rows.empty()) {
    return NotFoundError(
               fmt::format("no pair of arrays in {} and {}", left.string(), right.string()))
        .WithHint("folders of `cad` are expected: <operator>/<time>/*.npy");
  }
  using report::Cell;
  report::Table table("batch_compare", {"NPU File Name", "Bench File Name", "Mean", "Bench Mean",
                                        "Md5 Consistency", "Max Abs Error", "Max Relative Error"});
  for (const BatchRow& row : comparison.rows) {
    const DType wide = DType::kFloat64;
    const std::array<Cell, 7> cells = {table.KeepText(row.left),
                                       table.KeepText(row.right),
                                       table.KeepText(NumpyMeanText(row.dtype, row.left_mean)),
                                       table.KeepText(NumpyMeanText(row.dtype, row.right_mean)),
                                       Cell::Text(row.same_bytes ? "True" : "False"),
                                       table.KeepText(NumpyText(wide, row.max_absolute)),
                                       table.KeepText(NumpyText(wide, row.max_relative))};
    table.AddRow(cells);
  }
  MSP_RETURN_IF_ERROR(base::CreateFolders(output));
  MSP_ASSIGN_OR_RETURN(
      const std::vector<std::filesystem::path> files,
      report::WriteCsvParts(output / fmt::format("batch_compare_{}", std::time(nullptr)), table));
  comparison.table = files.front();
  return comparison;
}

}  // namespace msprobe::analysis::kernel_dump
