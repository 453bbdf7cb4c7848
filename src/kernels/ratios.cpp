#include "src/kernels/ratios.h"

#include "src/kernels/kernel_table.h"

namespace msprobe::kernels {
namespace {

using internal::kGroupElements;
using internal::RatioLanes;

template <typename Number>
std::optional<RatioRun> Run(internal::RatioFunction<Number> groups,
                            internal::RatioFunction<Number> rest, std::span<const Number> original,
                            std::span<const Number> perturbed, const RatioRule& rule,
                            std::span<Number> ratios) {
  RatioLanes lanes;
  const size_t count = original.size();
  const size_t grouped = count / kGroupElements * kGroupElements;
  if ((grouped > 0 &&
       !groups(original.data(), perturbed.data(), grouped, rule, ratios.data(), lanes)) ||
      (grouped < count && !rest(original.data() + grouped, perturbed.data() + grouped,
                                count - grouped, rule, ratios.data() + grouped, lanes))) {
    return std::nullopt;
  }
  const double* const sum = lanes.sum;
  static_assert(internal::kRatioLanes == 8);
  return RatioRun{lanes.largest, lanes.smallest,
                  ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])),
                  lanes.exceeding};
}

}  // namespace

std::optional<RatioRun> RatiosOf(DType type, std::span<const float> original,
                                 std::span<const float> perturbed, const RatioRule& rule,
                                 std::span<float> ratios) {
  const auto member = type == DType::kFloat16    ? &internal::KernelTable::ratios_float16
                      : type == DType::kBFloat16 ? &internal::KernelTable::ratios_bfloat16
                                                 : &internal::KernelTable::ratios_float32;
  return Run(internal::ActiveTable().*member, internal::PlainTable().*member, original, perturbed,
             rule, ratios);
}

std::optional<RatioRun> RatiosOf(std::span<const double> original,
                                 std::span<const double> perturbed, const RatioRule& rule,
                                 std::span<double> ratios) {
  return Run(internal::ActiveTable().ratios_float64, internal::PlainTable().ratios_float64,
             original, perturbed, rule, ratios);
}

std::optional<BoundRun> BoundRatiosOf(std::span<const double> found, std::span<const double> wanted,
                                      std::span<const double> errors, const BoundRule& rule) {
  internal::BoundLanes lanes;
  const size_t count = found.size();
  const size_t grouped = count / kGroupElements * kGroupElements;
  internal::ActiveTable().bounds(found.data(), wanted.data(), errors.data(), grouped, rule, lanes);
  internal::PlainTable().bounds(found.data() + grouped, wanted.data() + grouped,
                                errors.data() + grouped, count - grouped, rule, lanes);
  return lanes.not_finite == 0 ? std::optional(BoundRun{lanes.largest, lanes.reaching})
                               : std::nullopt;
}

}  // namespace msprobe::kernels
