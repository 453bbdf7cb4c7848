#include "src/analysis/rl/arrays.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::rl {

Result<OpenArray> OpenSavedArray(const std::filesystem::path& path,
                                 std::vector<std::byte>& scratch) {
  TensorFile::Options options;
  options.scratch = &scratch;
  MSP_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, options));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(Status(tensor->status));
  TensorView view = tensor->view;
  return OpenArray{std::move(file), std::move(view)};
}

Result<Shape> CommonShape(const Shape& first, const Shape& second) {
  if (first.size() != second.size()) {
    return MismatchError(fmt::format("shapes {} and {} have different numbers of axes",
                                     ShapeText(first), ShapeText(second)));
  }
  Shape common = first;
  for (size_t axis = 0; axis < common.size(); ++axis) {
    common[axis] = std::min(common[axis], second[axis]);
  }
  if (ElementCount(common) == 0) {
    return MismatchError(
        fmt::format("nothing to compare: shapes {} and {} have no element in "
                    "common",
                    ShapeText(first), ShapeText(second)));
  }
  return common;
}

TensorView Crop(const TensorView& view, const Shape& shape) {
  TensorView part = view;
  part.shape = shape;
  return part;
}

std::span<const double> BlockReader::Read(int64_t at, int64_t count) {
  const auto elements = static_cast<size_t>(count);
  bytes_.resize(elements * DTypeSize(view_.dtype));
  values_.resize(elements);
  tensor::CopyElements(view_, at, count, bytes_.data());
  kernels::WidenToDouble(view_.dtype, bytes_, values_);
  return values_;
}

}  // namespace msprobe::analysis::rl
