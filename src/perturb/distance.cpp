#include "src/perturb/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/kernels/compare.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::perturb {

Result<Distance> MeasureDistance(const TensorView& actual, const TensorView& reference) {
  if (actual.element_count() != reference.element_count()) {
    return MismatchError("tensors of " + ShapeText(actual.shape) + " and " +
                         ShapeText(reference.shape) + " have no distance");
  }
  std::vector<std::byte> scratch[2];
  tensor::BlockReader actuals(actual, scratch[0]);
  tensor::BlockReader references(reference, scratch[1]);
  const auto count = static_cast<size_t>(actual.element_count());
  kernels::ComparePartial sums;
  for (size_t first = 0; first < count; first += tensor::kSumBlockElements) {
    const size_t elements = std::min(tensor::kSumBlockElements, count - first);
    kernels::MergeCompare(
        sums,
        kernels::CompareBlock(actual.dtype, actuals.Read(first, elements).data(), reference.dtype,
                              references.Read(first, elements).data(), elements));
  }
  Distance distance;
  const double error = std::sqrt(sums.difference_square_sum);
  const double norm = std::sqrt(sums.bench_square_sum);
  distance.relative_error = error == 0 ? 0
                            : norm > 0 ? error / norm
                                       : std::numeric_limits<double>::infinity();
  distance.largest_error = sums.max_abs_error;
  distance.different_count = sums.different_count;
  distance.nonfinite_count = sums.nonfinite_mismatch_count + sums.opposite_inf_count;
  return distance;
}

}  // namespace msprobe::perturb
