// Changes tensors of v26 before they are compared.
//
// Three changes, in this order, each on demand when a row is opened: (1) parts of a fused
// projection are put together: weights one below the other, results side by side along the last
// axis; (2) in outputs of calls that fill only their first rows, the rows beyond the number of
// valid tokens (the sum of an argument) are set to zero; (3) tensors whose file name matches a
// calibration are multiplied by its matrix, from the left or the right, in the order and
// precision of a plain matrix product. ProductBudget limits the results of products by the sizes
// of the files they come from.
#include "src/analysis/compare/tensor_changes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/analysis/compare/real_data.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/json/config.h"
#include "src/kernels/convert.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::compare {
namespace {

using tensor::TensorBuffer;

// As of any tensor file.
constexpr uint64_t kFreeMatrixBytes = uint64_t{1} << 30U;
constexpr uint64_t kMatrixBytesPerByte = 8;
constexpr uint64_t kMostFileBytes = uint64_t{1} << 46U;  // keeps products of it within 64 bits
constexpr size_t kMostFailuresOfARow = 8;

// Calls that fill only the first rows of their outputs, and the argument whose sum counts them.
struct PaddedCall {
  std::string_view name_part;
  std::string_view keyword;
};
constexpr PaddedCall kPaddedCalls[] = {{"npu_grouped_matmul", "group_list"},
                                       {"npu_dequant_swiglu_quant", "group_index"}};

Result<TensorBuffer> ReadRowTensor(const Side& side, std::string_view data_name) {
  MSP_RETURN_IF_ERROR(dump::CheckDataName(data_name));
  return ReadWholeTensor(side.tensor_folder / data_name);
}

std::vector<double> AsDoubles(const TensorView& view) {
  std::vector<double> values(static_cast<size_t>(view.element_count()));
  kernels::WidenToDouble(view.dtype, view.bytes(), values);
  return values;
}

template <typename T>
std::vector<T> As(const std::vector<double>& values) {
  std::vector<T> converted(values.size());
  std::transform(values.begin(), values.end(), converted.begin(),
                 [](double value) { return static_cast<T>(value); });
  return converted;
}

bool IsInteger(DType dtype) {
  const DTypeKind kind = GetDTypeInfo(dtype).kind;
  return kind == DTypeKind::kSigned || kind == DTypeKind::kUnsigned || kind == DTypeKind::kBool;
}

// The dtype numpy gives a product of floats.
DType ProductType(DType a, DType b) {
  const auto known = [](DType dtype) {
    return dtype == DType::kFloat64 || dtype == DType::kFloat16 ? dtype : DType::kFloat32;
  };
  const auto wide = [](DType dtype) { return IsInteger(dtype) ? DType::kFloat64 : dtype; };
  a = known(wide(a));
  b = known(wide(b));
  return DTypeSize(a) >= DTypeSize(b) ? a : b;
}

void StoreAs(DType dtype, double value, std::byte* out) {
  if (dtype == DType::kFloat64) {
    std::memcpy(out, &value, sizeof(value));
  } else if (dtype == DType::kFloat16) {
    const uint16_t bits = tensor::FloatToFloat16(static_cast<float>(value));
    std::memcpy(out, &bits, sizeof(bits));
  } else {
    const auto narrow = static_cast<float>(value);
    std::memcpy(out, &narrow, sizeof(narrow));
  }
}

// rows x inner times inner x columns; sums in T, in order, as the plain loop of a BLAS makes them.
// A row of sums grows at a time: that gives the same sums as one after the other, and reads the
// factors as they lie.
template <typename T>
void Multiply(const std::vector<double>& a, const std::vector<double>& b, size_t rows, size_t inner,
              size_t columns, DType dtype, std::byte* out) {
  const size_t element = DTypeSize(dtype);
  const std::vector<T> factors = As<T>(b);
  std::vector<T> sums(columns);
  for (size_t i = 0; i < rows; ++i) {
    std::fill(sums.begin(), sums.end(), T{0});
    for (size_t k = 0; k < inner; ++k) {
      const T left = static_cast<T>(a[i * inner + k]);
      const T* right = factors.data() + k * columns;
      for (size_t j = 0; j < columns; ++j) {
        const T product = left * right[j];
        sums[j] += product;
      }
    }
    for (size_t j = 0; j < columns; ++j) {
      StoreAs(dtype, static_cast<double>(sums[j]), out + (i * columns + j) * element);
    }
  }
}

uint64_t FileBytes(const std::filesystem::path& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

// A matrix as it is multiplied with, and the size of its file.
struct Matrix {
  std::shared_ptr<const TensorBuffer> values;
  uint64_t file_bytes = 0;
};
using MatrixFiles = std::map<std::filesystem::path, Result<Matrix>>;

Result<Matrix> ReadMatrix(const std::filesystem::path& path, bool transpose, double scale,
                          Calibrations& all) {
  MSP_ASSIGN_OR_RETURN(TensorBuffer matrix, ReadWholeTensor(path));
  const TensorView view = matrix.view();
  if (view.shape.size() != 2) {
    return MismatchError(path.string() + ": not a matrix but of shape " + ShapeText(view.shape));
  }
  Matrix read;
  read.file_bytes = FileBytes(path);
  all.file_bytes += read.file_bytes;
  if (view.size_bytes() > kFreeMatrixBytes + kMatrixBytesPerByte * all.file_bytes ||
      all.matrix_bytes >
          kFreeMatrixBytes + kMatrixBytesPerByte * all.file_bytes - view.size_bytes()) {
    return UnsupportedError(path.string() +
                            ": with it the matrices take more memory than their files account for");
  }
  all.matrix_bytes += view.size_bytes();
  if (transpose || scale != 1) {
    const auto rows = static_cast<size_t>(view.shape[0]);
    const auto columns = static_cast<size_t>(view.shape[1]);
    const std::vector<double> values = AsDoubles(view);
    const DType dtype = ProductType(view.dtype, view.dtype);
    TensorBuffer next(dtype, transpose ? Shape{view.shape[1], view.shape[0]} : view.shape);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        StoreAs(dtype, values[i * columns + j] * scale,
                next.mutable_bytes().data() +
                    (transpose ? j * rows + i : i * columns + j) * DTypeSize(dtype));
      }
    }
    matrix = std::move(next);
  }
  read.values = std::make_shared<const TensorBuffer>(std::move(matrix));
  return read;
}

Status ReadOne(const json::Config& config, const std::filesystem::path& base, std::string_view key,
               bool from_the_left, bool transpose, double scale, MatrixFiles& files,
               Calibrations& all, std::vector<Calibration>& out,
               std::vector<std::string>& warnings) {
  const json::Json* map = json::Find(config.root(), key);
  if (map == nullptr || map->is_null()) {
    return OkStatus();
  }
  if (!map->is_object()) {
    return config.ErrorAt(*map, key, "must hold lines `matrix file: [data_name, ...]`");
  }
  for (const auto& [name, list] : map->items()) {
    if (!list.is_array()) {
      warnings.push_back(fmt::format(
          "{}: {}: \"{}\" is skipped, it does not name a list of tensors", config.file, key, name));
      continue;
    }
    const std::filesystem::path path =
        std::filesystem::path(name).is_absolute() ? std::filesystem::path(name) : base / name;
    auto matrix = files.find(path);
    if (matrix == files.end()) {
      matrix = files.emplace(path, ReadMatrix(path, transpose, scale, all)).first;
    }
    if (!matrix->second.ok()) {
      warnings.push_back(matrix->second.status().message() +
                         "; its tensors are compared as they are");
      continue;
    }
    for (const json::Json& item : list) {
      out.push_back({json::TextOf(item), matrix->second->values, matrix->second->file_bytes,
                     path.string(), from_the_left});
    }
  }
  return OkStatus();
}

}  // namespace

Status ReadCalibrations(const std::filesystem::path& file, Calibrations& calibrations,
                        std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "", "expected the keys mode and target_tensor_map");
  }
  MSP_ASSIGN_OR_RETURN(const std::string mode, config.Text(config.root(), "mode", ""));
  if (mode != "right_matmul" && mode != "left_matmul") {
    warnings.push_back(
        fmt::format("{}: the mode \"{}\" is unknown (right_matmul, left_matmul); "
                    "the file is left out",
                    file.string(), mode));
    return OkStatus();
  }
  MSP_ASSIGN_OR_RETURN(const bool transpose, config.Bool(config.root(), "transpose", false));
  const json::Json* scale_value = json::Find(config.root(), "scale");
  double scale = 1;
  if (scale_value != nullptr) {
    if (!scale_value->is_number_integer() && !scale_value->is_number_float()) {
      return config.ErrorAt(*scale_value, "scale", "must be a number");
    }
    scale = json::NumberOf(*scale_value);
  }
  const bool left = mode == "left_matmul";
  const std::filesystem::path base = file.parent_path();
  MatrixFiles files;
  MSP_RETURN_IF_ERROR(ReadOne(config, base, "target_tensor_map", left, transpose, scale, files,
                              calibrations, calibrations.target, warnings));
  return ReadOne(config, base, "golden_tensor_map", left, transpose, scale, files, calibrations,
                 calibrations.golden, warnings);
}

ProductBudget::ProductBudget(uint64_t file_bytes)
    : multiplications(kFreeMultiplications +
                      kMultiplicationsPerByte * std::min(file_bytes, kMostFileBytes)),
      bytes(kFreeProductBytes + kProductBytesPerByte * std::min(file_bytes, kMostFileBytes)) {}

Result<TensorBuffer> MultiplyByMatrix(const TensorView& tensor, const TensorView& matrix,
                                      bool from_the_left, ProductBudget& budget) {
  const size_t axes = tensor.shape.size();
  const bool fits = from_the_left ? axes >= 2 && tensor.shape[axes - 2] == matrix.shape[1]
                                  : axes >= 1 && tensor.shape[axes - 1] == matrix.shape[0];
  const bool complex = GetDTypeInfo(tensor.dtype).kind == DTypeKind::kComplex ||
                       GetDTypeInfo(matrix.dtype).kind == DTypeKind::kComplex;
  if (!fits || complex) {
    return MismatchError(fmt::format("a tensor of shape {} cannot be multiplied with the matrix {}",
                                     ShapeText(tensor.shape), ShapeText(matrix.shape)));
  }
  Shape shape = tensor.shape;
  shape[from_the_left ? axes - 2 : axes - 1] = from_the_left ? matrix.shape[0] : matrix.shape[1];
  const DType dtype = ProductType(tensor.dtype, matrix.dtype);
  const int64_t count = msprobe::ElementCount(shape);
  if (count > static_cast<int64_t>(kMostTensorBytes / DTypeSize(dtype))) {
    return UnsupportedError(fmt::format("the product of {} and {} is too large",
                                        ShapeText(tensor.shape), ShapeText(matrix.shape)));
  }
  const auto inner = static_cast<uint64_t>(from_the_left ? matrix.shape[1] : matrix.shape[0]);
  const uint64_t product_bytes = static_cast<uint64_t>(count) * DTypeSize(dtype);
  if (product_bytes > budget.bytes ||
      (inner > 0 && static_cast<uint64_t>(count) > budget.multiplications / inner)) {
    return UnsupportedError(
        fmt::format("the product of {} and {} takes more than the files of both account for",
                    ShapeText(tensor.shape), ShapeText(matrix.shape)));
  }
  budget.bytes -= product_bytes;
  budget.multiplications -= static_cast<uint64_t>(count) * inner;
  TensorBuffer product(dtype, shape);
  if (count == 0) {
    return product;
  }
  const std::vector<double> values = AsDoubles(tensor);
  const std::vector<double> factors = AsDoubles(matrix);
  const auto multiply = dtype == DType::kFloat64 ? Multiply<double> : Multiply<float>;
  std::byte* out = product.mutable_bytes().data();
  const auto matrix_rows = static_cast<size_t>(matrix.shape[0]);
  const auto matrix_columns = static_cast<size_t>(matrix.shape[1]);
  if (!from_the_left) {
    multiply(values, factors, values.size() / matrix_rows, matrix_rows, matrix_columns, dtype, out);
    return product;
  }
  const auto width = static_cast<size_t>(tensor.shape[axes - 1]);
  const size_t slice = matrix_columns * width;
  for (size_t first = 0; first < values.size(); first += slice) {
    const std::vector<double> part(values.begin() + static_cast<std::ptrdiff_t>(first),
                                   values.begin() + static_cast<std::ptrdiff_t>(first + slice));
    multiply(factors, part, matrix_rows, matrix_columns, width, dtype, out);
    out += matrix_rows * width * DTypeSize(dtype);
  }
  return product;
}

void ClearRowsFrom(int64_t valid_rows, const TensorView& shape_of, std::span<std::byte> bytes) {
  if (shape_of.shape.empty() || shape_of.shape[0] == 0) {
    return;
  }
  const int64_t rows = shape_of.shape[0];
  const auto first = static_cast<size_t>(std::clamp<int64_t>(valid_rows, 0, rows));
  const size_t row_bytes = bytes.size() / static_cast<size_t>(rows);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(first * row_bytes), bytes.end(),
            std::byte{0});
}

Result<TensorChanges> TensorChanges::Prepare(const V26Options& options, const Side& npu,
                                             const Side& bench, const PairResult& result,
                                             std::vector<std::string>& warnings) {
  TensorChanges changes(npu, bench);
  if (!options.postprocess.empty()) {
    std::vector<std::filesystem::path> files = {options.postprocess};
    if (base::IsFolder(options.postprocess)) {
      files.clear();
      MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           base::ListFolder(options.postprocess));
      for (const std::string& name : names) {
        if (name.ends_with(".yaml") || name.ends_with(".yml")) {
          files.push_back(options.postprocess / name);
        }
      }
    }
    for (const std::filesystem::path& file : files) {
      MSP_RETURN_IF_ERROR(ReadCalibrations(file, changes.calibrations_, warnings));
    }
  }
  changes.fused_ = options.backend != TrainingBackend::kNone;
  if (!changes.fused_) {
    changes.FindValidRows(options, result, warnings);
  }
  return changes;
}

bool TensorChanges::empty() const {
  return !fused_ && calibrations_.target.empty() && calibrations_.golden.empty() &&
         valid_npu_rows_.empty();
}

std::vector<std::string> TensorChanges::Failures() const {
  const std::lock_guard lock(failures_->mutex);
  std::vector<std::string> texts = failures_->texts;
  std::sort(texts.begin(), texts.end());
  return texts;
}

void TensorChanges::FindValidRows(const V26Options& options, const PairResult& result,
                                  std::vector<std::string>& warnings) {
  std::vector<PaddedCall> calls(std::begin(kPaddedCalls), std::end(kPaddedCalls));
  for (const auto& [name, keyword] : options.valid_rows) {
    calls.push_back({name, keyword});
  }
  const bool strict = options.strict;
  for (uint32_t i = 0; i < npu_.entries.size(); ++i) {
    const SideEntry& entry = npu_.entries[i];
    const auto call = std::find_if(calls.begin(), calls.end(), [&](const PaddedCall& padded) {
      return entry.name.find(padded.name_part) != std::string_view::npos;
    });
    if (call == calls.end()) {
      continue;
    }
    const std::string wanted = fmt::format("{}.input.{}", entry.name, call->keyword);
    bool cumulative = false;
    const SideRow* lengths = nullptr;
    for (uint32_t row = entry.first_row; row < entry.first_row + entry.row_count; ++row) {
      const SideRow& side_row = npu_.rows[row];
      lengths = side_row.name == wanted ? &side_row : lengths;
      cumulative =
          cumulative || (strict && side_row.name == wanted + "_type" &&
                         side_row.stats[kMax].is_numeric() && side_row.stats[kMax].number == 0);
    }
    if (lengths == nullptr || lengths->data_name == "-1") {
      continue;
    }
    const Result<TensorBuffer> tensor = ReadRowTensor(npu_, lengths->data_name);
    if (!tensor.ok() || !IsInteger(tensor->view().dtype)) {
      warnings.push_back(
          fmt::format("{}: {}; its outputs are compared with their padding", wanted,
                      tensor.ok() ? "not a tensor of integers" : tensor.status().message()));
      continue;
    }
    const std::vector<double> values = AsDoubles(tensor->view());
    double sum = 0;
    for (const double value : values) {
      sum = cumulative ? value : sum + value;
    }
    valid_npu_rows_[i] = static_cast<int64_t>(std::clamp(sum, 0.0, 0x1p62));
  }
  if (!strict || valid_npu_rows_.empty()) {
    return;
  }
  for (const RowResult& row : result.rows) {
    const auto valid = valid_npu_rows_.find(npu_.rows[row.pair.npu].entry);
    if (valid != valid_npu_rows_.end() && row.pair.bench != kNoRow) {
      valid_bench_rows_[bench_.rows[row.pair.bench].entry] = valid->second;
    }
  }
}

Result<std::optional<LoadedTensor>> TensorChanges::Load(bool of_npu, const SideRow& row) const {
  const Side& side = of_npu ? npu_ : bench_;
  if (fused_ && row.data_name.find(';') != std::string_view::npos) {
    MSP_ASSIGN_OR_RETURN(TensorBuffer fused, LoadFused(side, row));
    return std::optional<LoadedTensor>(std::move(fused));
  }
  const auto& valid = of_npu ? valid_npu_rows_ : valid_bench_rows_;
  const auto padded = row.state == dump::RowState::kOutput ? valid.find(row.entry) : valid.end();
  const auto& calibrations = of_npu ? calibrations_.target : calibrations_.golden;
  const auto concerns = [&](const Calibration& calibration) {
    return base::GlobMatch(calibration.data_names, row.data_name);
  };
  if (padded == valid.end() && std::none_of(calibrations.begin(), calibrations.end(), concerns)) {
    return std::optional<LoadedTensor>();
  }
  MSP_ASSIGN_OR_RETURN(TensorBuffer tensor, ReadRowTensor(side, row.data_name));
  if (padded != valid.end()) {
    ClearRowsFrom(padded->second, tensor.view(), tensor.mutable_bytes());
  }
  uint64_t file_bytes = FileBytes(side.tensor_folder / row.data_name);
  for (const Calibration& calibration : calibrations) {
    if (concerns(calibration)) {
      file_bytes += calibration.file_bytes;
    }
  }
  ProductBudget budget(file_bytes);
  size_t failures = 0;
  for (const Calibration& calibration : calibrations) {
    if (!concerns(calibration)) {
      continue;
    }
    Result<TensorBuffer> product = MultiplyByMatrix(tensor.view(), calibration.matrix->view(),
                                                    calibration.from_the_left, budget);
    if (product.ok()) {
      tensor = *std::move(product);
    } else if (failures++ < kMostFailuresOfARow) {
      const std::lock_guard lock(failures_->mutex);
      failures_->texts.push_back(fmt::format("{}: {} ({}); compared as it is", row.data_name,
                                             product.status().message(), calibration.matrix_file));
    }
  }
  if (failures > kMostFailuresOfARow) {
    const std::lock_guard lock(failures_->mutex);
    failures_->texts.push_back(fmt::format("{}: {} more matrices do not fit", row.data_name,
                                           failures - kMostFailuresOfARow));
  }
  return std::optional<LoadedTensor>(std::move(tensor));
}

// Inputs of the parts are the same tensor; weights stand one below the other, results side by side.
Result<TensorBuffer> TensorChanges::LoadFused(const Side& side, const SideRow& row) const {
  std::vector<TensorBuffer> parts;
  for (const std::string_view data_name : base::Split(row.data_name, ';')) {
    MSP_ASSIGN_OR_RETURN(TensorBuffer part, ReadRowTensor(side, data_name));
    if (row.state == dump::RowState::kInput || row.state == dump::RowState::kKwargs) {
      return part;
    }
    parts.push_back(std::move(part));
  }
  std::vector<TensorView> views;
  for (const TensorBuffer& part : parts) {
    TensorView view = Squeezed(part.view());
    view.strides = ContiguousStrides(view.shape);
    views.push_back(std::move(view));
  }
  const bool weights = row.state == dump::RowState::kParameters;
  Shape shape = views[0].shape;
  if (shape.empty()) {
    return MismatchError(fmt::format("{}: scalars cannot be concatenated", row.data_name));
  }
  const size_t axis = weights ? 0 : shape.size() - 1;
  shape[axis] = 0;
  for (const TensorView& view : views) {
    Shape rest = view.shape;
    if (rest.size() != shape.size() || view.dtype != views[0].dtype) {
      return MismatchError(fmt::format("{}: the parts have incompatible shapes", row.data_name));
    }
    shape[axis] += rest[axis];
    rest[axis] = shape[axis];
    if (rest != shape) {
      return MismatchError(fmt::format("{}: the parts have incompatible shapes", row.data_name));
    }
  }
  TensorBuffer fused(views[0].dtype, shape);
  size_t outer = 1;
  for (size_t i = 0; i < axis; ++i) {
    outer *= static_cast<size_t>(shape[i]);
  }
  std::byte* out = fused.mutable_bytes().data();
  for (size_t i = 0; i < outer; ++i) {
    for (const TensorView& view : views) {
      const size_t run = view.size_bytes() / std::max<size_t>(outer, 1);
      std::memcpy(out, view.data + i * run, run);
      out += run;
    }
  }
  return fused;
}

}  // namespace msprobe::analysis::compare
