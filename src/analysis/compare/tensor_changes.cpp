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
#include <iterator>
#include <map>
#include <system_error>
#include <unordered_set>
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
  if (view.shape.empty() || view.shape.size() > 2) {
    return MismatchError(path.string() + ": neither a matrix nor a vector but of shape " +
                         ShapeText(view.shape));
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
  if ((transpose || scale != 1) && view.shape.size() != 2) {
    return MismatchError(path.string() + ": transpose and scale are for matrices, not for shape " +
                         ShapeText(view.shape));
  }
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

// How the matrices of one map are applied.
struct MapUse {
  bool from_the_left = false;
  bool transpose = false;
  double scale = 1;
};

// Beside the YAML file, or as the Python tool has it, relative to the current folder.
std::filesystem::path MatrixPath(const std::filesystem::path& base, const std::string& name) {
  const std::filesystem::path path(name);
  return path.is_absolute() || !base::Exists(base / path) ? path : base / path;
}

Status ReadOne(const json::Config& config, const json::Json& section,
               const std::filesystem::path& base, std::string_view key, const MapUse& use,
               MatrixFiles& files, Calibrations& all, std::vector<Calibration>& out,
               std::vector<std::string>& warnings) {
  const json::Json* map = json::Find(section, key);
  const size_t begin = out.size();
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
    const std::filesystem::path path = MatrixPath(base, name);
    const std::string ending = path.extension().string();
    if (ending != ".npy" && ending != ".pt" && ending != ".pth") {
      warnings.push_back(
          fmt::format("{}: {}: \"{}\" is not a .npy, .pt or .pth file; its tensors "
                      "are compared as they are",
                      config.file, key, name));
      continue;
    }
    auto matrix = files.find(path);
    if (matrix == files.end()) {
      matrix = files.emplace(path, ReadMatrix(path, use.transpose, use.scale, all)).first;
    }
    // A later file takes the place of an earlier one, also where it cannot be read.
    const auto given_again = [&](const Calibration& calibration) {
      return std::any_of(list.begin(), list.end(), [&](const json::Json& item) {
        return json::TextOf(item) == calibration.data_names;
      });
    };
    out.erase(
        std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), given_again),
        out.end());
    if (!matrix->second.ok()) {
      warnings.push_back(matrix->second.status().message() +
                         "; its tensors are compared as they are");
      continue;
    }
    for (const json::Json& item : list) {
      out.push_back({json::TextOf(item), matrix->second->values, matrix->second->file_bytes,
                     path.string(), use.from_the_left});
    }
  }
  return OkStatus();
}

}  // namespace

namespace {

// The layout of one kind of products per file: `mode`, and maps at the top.
Status ReadOneMode(const json::Config& config, const std::filesystem::path& base,
                   Calibrations& calibrations, std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const std::string mode, config.Text(config.root(), "mode", ""));
  if (mode != "right_matmul" && mode != "left_matmul") {
    warnings.push_back(
        fmt::format("{}: the mode \"{}\" is unknown (right_matmul, left_matmul); "
                    "the file is left out",
                    config.file, mode));
    return OkStatus();
  }
  MapUse use{mode == "left_matmul"};
  MSP_ASSIGN_OR_RETURN(use.transpose, config.Bool(config.root(), "transpose", false));
  if (const json::Json* scale = json::Find(config.root(), "scale")) {
    if (!scale->is_number_integer() && !scale->is_number_float()) {
      return config.ErrorAt(*scale, "scale", "must be a number");
    }
    use.scale = json::NumberOf(*scale);
  }
  MatrixFiles files;
  MSP_RETURN_IF_ERROR(ReadOne(config, config.root(), base, "target_tensor_map", use, files,
                              calibrations, calibrations.target, warnings));
  return ReadOne(config, config.root(), base, "golden_tensor_map", use, files, calibrations,
                 calibrations.golden, warnings);
}

// The layout of 26.2: a section per kind of products, applied in this order, whatever that of the
// file is.
struct SectionMap {
  std::string_view section;
  std::string_view key;
  bool of_target;
  bool from_the_left;
};
constexpr SectionMap kSectionMaps[] = {
    {"right_matmul", "target_tensor_map", true, false},
    {"right_matmul", "golden_tensor_map", false, false},
    {"left_matmul", "target_tensor_map", true, true},
    {"left_matmul", "golden_tensor_map", false, true},
    {"left_right_matmul", "left_target_tensor_map", true, true},
    {"left_right_matmul", "right_target_tensor_map", true, false},
    {"left_right_matmul", "left_golden_tensor_map", false, true},
    {"left_right_matmul", "right_golden_tensor_map", false, false}};

// Keys that have no effect are named: a typing error would leave tensors as they are.
Status ReadSections(const json::Config& config, const std::filesystem::path& base,
                    Calibrations& calibrations, std::vector<std::string>& warnings) {
  for (const auto& [name, section] : config.root().items()) {
    const auto in_section = [&name = name](const SectionMap& map) { return map.section == name; };
    if (std::none_of(std::begin(kSectionMaps), std::end(kSectionMaps), in_section)) {
      warnings.push_back(fmt::format("{}: \"{}\" has no effect", config.file, name));
      continue;
    }
    if (!section.is_null() && !section.is_object()) {
      return config.ErrorAt(section, name, "must hold maps of matrix files");
    }
    for (auto entry = section.begin(); section.is_object() && entry != section.end(); ++entry) {
      if (std::none_of(std::begin(kSectionMaps), std::end(kSectionMaps),
                       [&](const SectionMap& known) {
                         return in_section(known) && known.key == entry.key();
                       })) {
        warnings.push_back(
            fmt::format("{}: \"{}\" has no effect in {}", config.file, entry.key(), name));
      }
    }
  }
  MatrixFiles files;
  for (const SectionMap& map : kSectionMaps) {
    const json::Json* section = json::Find(config.root(), map.section);
    if (section != nullptr && section->is_object()) {
      MSP_RETURN_IF_ERROR(
          ReadOne(config, *section, base, map.key, {map.from_the_left}, files, calibrations,
                  map.of_target ? calibrations.target : calibrations.golden, warnings));
    }
  }
  return OkStatus();
}

}  // namespace

Status ReadCalibrations(const std::filesystem::path& file, Calibrations& calibrations,
                        std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadYamlConfig(file));
  if (!config.root().is_object()) {
    return config.ErrorAt(config.root(), "",
                          "expected right_matmul, left_matmul or left_right_matmul, with maps of "
                          "matrix files");
  }
  const auto has_section = [&](const SectionMap& map) {
    return config.root().contains(std::string(map.section));
  };
  return std::any_of(std::begin(kSectionMaps), std::end(kSectionMaps), has_section)
             ? ReadSections(config, file.parent_path(), calibrations, warnings)
             : ReadOneMode(config, file.parent_path(), calibrations, warnings);
}

ProductBudget::ProductBudget(uint64_t file_bytes)
    : multiplications(kFreeMultiplications +
                      kMultiplicationsPerByte * std::min(file_bytes, kMostFileBytes)),
      bytes(kFreeProductBytes + kProductBytesPerByte * std::min(file_bytes, kMostFileBytes)) {}

namespace {

// Another shape of as many elements, row-major.
TensorView Reshaped(const TensorView& view, Shape shape) {
  TensorView reshaped = view;
  reshaped.strides = ContiguousStrides(shape);
  reshaped.shape = std::move(shape);
  return reshaped;
}

Result<TensorBuffer> WithoutAxis(Result<TensorBuffer> product, size_t from_the_end) {
  MSP_RETURN_IF_ERROR(product.status());
  Shape shape = product->view().shape;
  shape.erase(shape.end() - static_cast<std::ptrdiff_t>(from_the_end));
  TensorBuffer less(product->view().dtype, shape);
  const std::span<const std::byte> bytes = product->view().bytes();
  std::copy(bytes.begin(), bytes.end(), less.mutable_bytes().begin());
  return less;
}

}  // namespace

Result<TensorBuffer> MultiplyByMatrix(const TensorView& tensor, const TensorView& matrix,
                                      bool from_the_left, ProductBudget& budget) {
  // A vector is a row before a matrix and a column behind it; its axis is then dropped.
  if (matrix.shape.size() == 1 && !tensor.shape.empty()) {
    const int64_t size = matrix.shape[0];
    return WithoutAxis(
        MultiplyByMatrix(tensor, Reshaped(matrix, from_the_left ? Shape{1, size} : Shape{size, 1}),
                         from_the_left, budget),
        from_the_left && tensor.shape.size() > 1 ? 2 : 1);
  }
  if (tensor.shape.size() == 1 && from_the_left) {
    return WithoutAxis(
        MultiplyByMatrix(Reshaped(tensor, {tensor.shape[0], 1}), matrix, true, budget), 1);
  }
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

namespace {

// A misspelt name leaves tensors as they are, which nothing else shows.
void NameUnmet(const std::vector<Calibration>& calibrations, const Side& side,
               std::vector<std::string>& warnings) {
  constexpr size_t kMostNamed = 8;
  std::unordered_set<std::string_view> names;
  for (const SideRow& row : side.rows) {
    names.insert(row.data_name);
  }
  std::vector<std::string> unmet;
  for (const Calibration& calibration : calibrations) {
    const std::string& pattern = calibration.data_names;
    const bool met = pattern.find_first_of("*?") == std::string::npos
                         ? names.contains(pattern)
                         : std::any_of(names.begin(), names.end(), [&](std::string_view name) {
                             return base::GlobMatch(pattern, name);
                           });
    if (!met && std::find(unmet.begin(), unmet.end(), pattern) == unmet.end()) {
      unmet.push_back(pattern);
    }
  }
  if (!unmet.empty()) {
    const size_t shown = std::min(unmet.size(), kMostNamed);
    warnings.push_back(fmt::format(
        "{} of {} names with a matrix match no tensor of {}: {}{}", unmet.size(),
        calibrations.size(), side.tensor_folder.parent_path().string(),
        base::Join(std::vector<std::string>(unmet.begin(),
                                            unmet.begin() + static_cast<std::ptrdiff_t>(shown)),
                   ", "),
        shown < unmet.size() ? ", ..." : ""));
  }
}

}  // namespace

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
  NameUnmet(changes.calibrations_.target, npu, warnings);
  NameUnmet(changes.calibrations_.golden, bench, warnings);
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
    // Axes of size 1 do not count when tensors are compared, nor here.
    TensorView squeezed = Squeezed(tensor.view());
    squeezed.strides = ContiguousStrides(squeezed.shape);
    Result<TensorBuffer> product =
        MultiplyByMatrix(squeezed, calibration.matrix->view(), calibration.from_the_left, budget);
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
