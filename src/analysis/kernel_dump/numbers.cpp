// Reading dumped tensors of kernels as numbers: blocks in the type that a comparison is made in,
// statistics, and numbers as NumPy spells them.
#include "src/analysis/kernel_dump/numbers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"
#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::analysis::kernel_dump {

namespace kd = io::kernel_dump;

Result<tensor::TensorBuffer> ReadPlainTensor(const kd::DumpedTensor& dumped) {
  MSP_ASSIGN_OR_RETURN(const kd::PlainTensor plain, kd::ToPlain(dumped, kMostPlainBytes));
  if (plain.is_opaque) {
    return UnsupportedError("elements of a type that cannot be read");
  }
  const TensorView& view = plain.view;
  if (!kd::IsPlainFormat(dumped.format) && dumped.original_shape) {
    const Shape& original = *dumped.original_shape;
    const uint32_t to = kd::NaturalPlainFormat(dumped.format, original.size());
    const Result<kd::Layout> layout =
        kd::FindLayout({dumped.format, to, dumped.groups(), &view.shape, &original});
    if (layout.ok()) {
      tensor::TensorBuffer buffer(view.dtype, layout->plain_shape);
      kd::ToPlainRows(*layout, DTypeSize(view.dtype), view.bytes(), buffer.mutable_bytes());
      return buffer;
    }
  }
  return tensor::MakeContiguous(view, kMostPlainBytes);
}

kernels::TensorStats StatisticsOf(const TensorView& view) {
  std::vector<std::byte> scratch;
  kernels::StatsPartial total;
  tensor::ForEachBlock(view, tensor::kSumBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t) {
                         kernels::MergeStats(total, kernels::StatsOfBlock(view.dtype, block));
                       });
  return kernels::FinishStats(total);
}

namespace {

// bfloat16 and 8-bit floats are float32 by the time NumPy sees them.
DType SeenByNumpy(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kFloat16 ? dtype : DType::kFloat32;
}

std::string FloatText(DType dtype, double value) {
  if (dtype == DType::kFloat64 || !std::isfinite(value)) {
    return base::PythonFloatRepr(value);
  }
  const double rounded = tensor::RoundToDType(dtype, value);
  constexpr int kMostDigits = 9;
  for (int digits = 1; digits < kMostDigits; ++digits) {
    std::string text;
    base::AppendGeneral(rounded, digits, text);
    const std::optional<double> shorter = base::ParseDouble(text);
    if (shorter && tensor::RoundToDType(dtype, *shorter) == rounded) {
      return base::PythonFloatRepr(*shorter);
    }
  }
  return base::PythonFloatRepr(rounded);
}

}  // namespace

std::string NumpyText(DType dtype, double value) {
  switch (GetDTypeInfo(dtype).kind) {
    case DTypeKind::kFloat:
      return FloatText(SeenByNumpy(dtype), value);
    case DTypeKind::kBool:
      return value != 0 ? "True" : "False";
    case DTypeKind::kComplex:
      return FloatText(DType::kFloat64, value);
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      break;
  }
  return fmt::format("{:.0f}", value);
}

std::string NumpyMeanText(DType dtype, double value) {
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat ? FloatText(SeenByNumpy(dtype), value)
                                                       : FloatText(DType::kFloat64, value);
}

namespace {

constexpr size_t kRows = 16;
constexpr size_t kPerRow = 8;

}  // namespace

std::string TupleText(const Shape& shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0])
                           : fmt::format("({})", fmt::join(shape, ", "));
}

std::string ArrayFacts(const Shape& shape, DType dtype, double max, double min, double mean) {
  return fmt::format("[Shape: {}] [Dtype: {}] [Max: {}] [Min: {}] [Mean: {}]", TupleText(shape),
                     DTypeName(dtype), NumpyText(dtype, max), NumpyText(dtype, min),
                     NumpyMeanText(dtype, mean));
}

Status WriteArrayText(const std::filesystem::path& path, const TensorFile& source,
                      const NamedTensor& array) {
  const TensorView& view = array.view;
  const auto elements = static_cast<uint64_t>(view.element_count());
  if (elements > kFreeTextElements &&
      (elements - kFreeTextElements) / kTimesFileOfText > source.size_bytes()) {
    return UnsupportedError(
               fmt::format("{} is not written: {} elements of a file of {} bytes repeat what it "
                           "holds",
                           path.string(), base::FormatCount(elements), source.size_bytes()))
        .WithHint("msprobe show --stats tells what they are");
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  std::vector<std::byte> scratch;
  std::vector<double> numbers;
  std::string text;
  MSP_RETURN_IF_ERROR(tensor::ForEachBlock(view, tensor::kCopyBlockElements, scratch,
                                           [&](std::span<const std::byte> block, size_t) {
                                             numbers.resize(block.size() / DTypeSize(view.dtype));
                                             kernels::WidenToDouble(view.dtype, block, numbers);
                                             text.clear();
                                             for (const double number : numbers) {
                                               text += NumpyText(view.dtype, number);
                                               text += '\n';
                                             }
                                             return file.Write(text);
                                           }));
  return file.Commit();
}

Result<ArrayView> ViewArray(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  const TensorView& view = tensor->view;
  const kernels::TensorStats stats = StatisticsOf(view);
  ArrayView result;
  result.facts = ArrayFacts(view.shape, view.dtype, stats.max, stats.min, stats.mean);
  result.table = report::Table("array", {"Index", "Data"});
  std::vector<std::byte> scratch;
  tensor::BlockReader reader(view, scratch);
  const auto count = static_cast<size_t>(view.element_count());
  const size_t shown = std::min(count, kRows * kPerRow);
  std::vector<double> numbers(shown);
  kernels::WidenToDouble(view.dtype, reader.Read(0, shown), numbers);
  for (size_t first = 0; first < shown; first += kPerRow) {
    std::string row;
    for (size_t i = first; i < std::min(shown, first + kPerRow); ++i) {
      row += fmt::format("{}{}", row.empty() ? "" : " ", NumpyText(view.dtype, numbers[i]));
    }
    result.table.AddRow(std::vector<report::Cell>{
        report::Cell::Integer(static_cast<int64_t>(first)), result.table.KeepText(row)});
  }
  result.text_file = path.string() + ".txt";
  MSP_RETURN_IF_ERROR(WriteArrayText(result.text_file, file, *tensor));
  return result;
}

}  // namespace msprobe::analysis::kernel_dump
