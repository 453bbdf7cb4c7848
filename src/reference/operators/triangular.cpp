// Triangular matrices and Cholesky factors (matrices.h has the bounds).
#include <algorithm>
#include <cmath>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/matrices.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

Value Transposed(const Arithmetic& m, const Value& x) {
  std::vector<int64_t> order(x->shape.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int64_t>(i);
  }
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return m.Permute(x, order);
}

// The half of `x` that counts, the other one 0; `unit`: with a diagonal of ones.
Value HalfOf(const Value& x, size_t n, bool upper, bool unit) {
  std::vector<double> half(x->size());
  for (size_t i = 0; i < half.size(); ++i) {
    const size_t row = i / n % n;
    const size_t column = i % n;
    half[i] = row == column ? (unit ? 1 : x->value[i]) : (row < column) == upper ? x->value[i] : 0;
  }
  return MakeValue(x->shape, std::move(half));
}

// The inverse of lower triangular matrices, row by row.
Value InverseOfLower(const Value& lower, size_t n) {
  std::vector<double> inverse(lower->size());
  for (size_t first = 0; first < inverse.size(); first += n * n) {
    const double* const l = &lower->value[first];
    double* const x = &inverse[first];
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < i; ++k) {
        for (size_t j = 0; j <= k; ++j) {
          x[i * n + j] -= l[i * n + k] * x[k * n + j];
        }
      }
      for (size_t j = 0; j < i; ++j) {
        x[i * n + j] /= l[i * n + i];
      }
      x[i * n + i] = 1 / l[i * n + i];
    }
  }
  return MakeValue(lower->shape, std::move(inverse));
}

// inv(T) b of triangular matrices T (`inverse` is theirs), with what b is off by.
Value SolveTriangular(const Arithmetic& m, const Value& triangle, const Value& inverse,
                      const Value& b) {
  const Value product = m.MatMul(inverse, WithoutErrors(b));
  if (product == nullptr) {
    return nullptr;
  }
  const Value x = WithoutErrors(product);
  const size_t n = static_cast<size_t>(triangle->shape.back());
  const Value residual = MagnitudeProduct(m, MagnitudesOf(triangle), MagnitudesOf(x), false);
  if (residual == nullptr) {
    return nullptr;
  }
  std::vector<double> off(b->size());
  for (size_t i = 0; i < off.size(); ++i) {
    off[i] = 2 * m.rounding().Gamma(n + 1) * residual->value[i] + b->error_at(i);
  }
  const Value moved =
      MagnitudeProduct(m, MagnitudesOf(inverse), MakeValue(b->shape, std::move(off)), false);
  if (moved == nullptr) {
    return nullptr;
  }
  std::vector<double> errors(x->size());
  for (size_t i = 0; i < errors.size(); ++i) {
    errors[i] = moved->value[i] + m.rounding().Step(x->value[i]);
  }
  return MakeValue(x->shape, x->value, std::move(errors));
}

// Lower triangular factors and right-hand sides of as many matrices.
bool FitEachOther(Call& call, const Value& matrices, const Value& b) {
  if (!call.failed() && b != nullptr && b->shape.size() == matrices->shape.size() &&
      b->size() > 0 && std::equal(b->shape.begin(), b->shape.end() - 1, matrices->shape.begin())) {
    return true;
  }
  call.Fail("its right-hand sides are not as many as its matrices");
  return false;
}

// triangular_solve(b, A, upper=True, transpose=False, unitriangular=False)
Values TriangularSolve(Call& call, const Arithmetic& m) {
  const Value b = call.Tensor(0, "input");
  const Value a = call.Tensor(1, "A");
  const bool upper = call.Bool(2, "upper", true);
  const bool transpose = call.Bool(3, "transpose", false);
  const size_t n = MatricesOf(call, a).size;
  if (!FitEachOther(call, a, b)) {
    return {nullptr};
  }
  Value triangle = HalfOf(a, n, upper, call.Bool(4, "unitriangular", false));
  Value inverse = upper ? Transposed(m, InverseOfLower(Transposed(m, triangle), n))
                        : InverseOfLower(triangle, n);
  if (transpose) {
    triangle = Transposed(m, triangle);
    inverse = Transposed(m, inverse);
  }
  return {SolveTriangular(m, triangle, inverse, b)};
}

// L L' x = b of a factor L, or U' U x = b.
Value SolveFactored(Call& call, const Arithmetic& m, const Value& factor, bool upper,
                    const Value& b) {
  const size_t n = MatricesOf(call, factor).size;
  if (!FitEachOther(call, factor, b)) {
    return nullptr;
  }
  const Value lower = HalfOf(upper ? Transposed(m, factor) : factor, n, false, false);
  const Value inverse = InverseOfLower(lower, n);
  const Value half = SolveTriangular(m, lower, inverse, b);
  return half == nullptr ? nullptr
                         : SolveTriangular(m, Transposed(m, lower), Transposed(m, inverse), half);
}

// cholesky_solve(B, L, upper=False)
Values CholeskySolve(Call& call, const Arithmetic& m) {
  const Value b = call.Tensor(0, "input");
  const Value factor = call.Tensor(1, "L");
  return {SolveFactored(call, m, factor, call.Bool(2, "upper", false), b)};
}

// cholesky_inverse(L, upper=False)
Values CholeskyInverse(Call& call, const Arithmetic& m) {
  const Value factor = call.Tensor(0, "L");
  const size_t n = MatricesOf(call, factor).size;
  if (call.failed()) {
    return {nullptr};
  }
  std::vector<double> unit(factor->size());
  for (size_t i = 0; i < unit.size(); ++i) {
    unit[i] = i / n % n == i % n ? 1 : 0;
  }
  return {SolveFactored(call, m, factor, call.Bool(1, "upper", false),
                        MakeValue(factor->shape, std::move(unit)))};
}

// cholesky(A, upper=False), of the half that it reads.
Values Cholesky(Call& call, const Arithmetic& m) {
  const Value given = call.Tensor(0, "input");
  const bool upper = call.Bool(1, "upper", false);
  const size_t n = MatricesOf(call, given).size;
  if (call.failed()) {
    return {nullptr};
  }
  const Value a = HalfOf(upper ? Transposed(m, given) : given, n, false, false);
  std::vector<double> factor = a->value;
  for (size_t first = 0; first < factor.size(); first += n * n) {
    double* const l = &factor[first];
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double rest = l[i * n + j];
        for (size_t k = 0; k < j; ++k) {
          rest -= l[i * n + k] * l[j * n + k];
        }
        if (i == j && !(rest > 0)) {
          return {call.Fail("a matrix that is not positive definite")};
        }
        l[i * n + j] = i == j ? std::sqrt(rest) : rest / l[j * n + j];
      }
    }
  }
  const Value lower = MakeValue(a->shape, std::move(factor));
  const Value size = MagnitudesOf(lower);
  const Value inverse = MagnitudesOf(InverseOfLower(lower, n));
  const Value residual = MagnitudeProduct(m, size, size, true);
  if (residual == nullptr) {
    return {nullptr};
  }
  const Value left = MagnitudeProduct(m, inverse, residual, false);
  const Value both = left == nullptr ? nullptr : MagnitudeProduct(m, left, inverse, true);
  if (both == nullptr) {
    return {nullptr};
  }
  const Value half = HalfOf(both, n, false, false);
  const Value found = WithMoved(m, lower, MagnitudeProduct(m, size, half, false), both,
                                2 * m.rounding().Gamma(n + 1), lower->size() / n);
  return {found == nullptr ? nullptr : upper ? Transposed(m, found) : found};
}

}  // namespace

OperatorList TriangularOperators() {
  return {
      {"triangular_solve", TriangularSolve},
      {"cholesky cholesky_ex", Cholesky},
      {"cholesky_solve", CholeskySolve},
      {"cholesky_inverse", CholeskyInverse},
  };
}

}  // namespace msprobe::reference
