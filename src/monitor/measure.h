// All statistics of one tensor from one pass over its bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/monitor/batch.h"

namespace msprobe::monitor {

struct MeasureRules {
  double eps = 1e-8;  // |x| < eps counts as zero
  // As the Python tool counts zeros: eps in the dtype of the tensor, the most negative integer is
  // below any eps, none for bool.
  bool compat = false;
  bool wants_zeros = true;
  bool wants_small = true;  // subnormals, dynamic_range
};

// The numbers from which every column is computed.
struct TensorNumbers {
  enum class Kind : uint8_t {
    kNotATensor,  // None: every column is NaN
    kTensor,
    kUnread,  // dtype and shape are known, the values are not (meta, sparse, foreign dtypes)
    kNumber   // no tensor's: `number` is all
  };
  Kind kind = Kind::kNotATensor;
  bool is_known_dtype = false;
  DType dtype = DType::kFloat32;
  bool has_id = false;  // 0-d: `max` is the value
  uint64_t element_count = 0;
  double min = 0;  // of everything but NaN
  double max = 0;
  // The exact ones of int64 and uint64 (its bits).
  int64_t min_integer = 0;
  int64_t max_integer = 0;
  double sum = 0;
  double square_sum = 0;
  uint64_t nan_count = 0;
  uint64_t inf_count = 0;
  uint64_t zero_count = 0;       // |x| < eps
  uint64_t subnormal_count = 0;  // not 0, below the smallest normal number of the dtype
  double smallest_nonzero = 0;   // |x|; infinity: there is none
  double largest_finite = 0;     // |x|
  double number = 0;             // of kNumber
  uint32_t calls = 0;            // how many tensors were added up; 0: this is one tensor's
};

// Any dtype, strides and lazy negation; complex values count by their magnitude.
TensorNumbers Measure(const TensorView& view, const MeasureRules& rules);
// Numbers of two tensors as if of one: what several calls within a step add up to.
void Accumulate(TensorNumbers& into, const TensorNumbers& next);

// The value of a column; not for shape and dtype.
Value ColumnValue(Statistic op, const TensorNumbers& numbers, const MeasureRules& rules);

// The same of a number that was reduced elsewhere.
Value ColumnOfReduced(Statistic op, std::optional<DType> dtype, double number,
                      const MeasureRules& rules);

// ((sum sign(a) sign(b)) / n + 1) / 2; 0 when the shapes differ.
double SignAgreement(const TensorView& a, const TensorView& b);

}  // namespace msprobe::monitor
