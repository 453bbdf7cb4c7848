#include "src/reference/operators/matrices.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace msprobe::reference {

Matrices MatricesOf(Call& call, const Value& x) {
  Matrices matrices;
  if (call.failed() || x == nullptr || x->shape.size() < 2 ||
      x->shape.back() != x->shape[x->shape.size() - 2]) {
    call.Fail("its argument holds no square matrices");
    return matrices;
  }
  if (x->size() == 0) {
    call.Fail("its matrices are empty");
    return matrices;
  }
  matrices.size = static_cast<size_t>(x->shape.back());
  matrices.count = x->size() / matrices.elements();
  return matrices;
}

Value WithoutErrors(const Value& x) { return MakeValue(x->shape, x->value); }

Value MagnitudesOf(const Value& x) {
  std::vector<double> magnitudes(x->size());
  std::transform(x->value.begin(), x->value.end(), magnitudes.begin(),
                 [](double v) { return std::fabs(v); });
  return MakeValue(x->shape, std::move(magnitudes));
}

Value MagnitudeProduct(const Arithmetic& m, const Value& a, const Value& b, bool transpose_b) {
  const Value product = m.MatMul(a, b, false, transpose_b);
  return product == nullptr ? nullptr : WithoutErrors(product);
}

Value WithMoved(const Arithmetic& m, const Value& x, const Value& moved, const Value& parts,
                double gamma, size_t rows) {
  if (moved == nullptr || parts == nullptr) {
    return nullptr;
  }
  std::vector<double> errors(x->size());
  const size_t columns = rows == 0 ? 0 : parts->size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    double part = 0;
    for (size_t j = 0; j < columns; ++j) {
      part += gamma * parts->value[i * columns + j];
    }
    const size_t width = x->size() / rows;
    for (size_t j = i * width; j < (i + 1) * width; ++j) {
      errors[j] = part < kMostOff
                      ? gamma * moved->value[j] / (1 - kMostOff) + m.rounding().Step(x->value[j])
                      : kNothingKnown;
    }
  }
  return MakeValue(x->shape, x->value, std::move(errors));
}

}  // namespace msprobe::reference
