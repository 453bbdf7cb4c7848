// Linear algebra. Exact results are computed in double; how far off a correct
// implementation may be follows from the residuals that elimination leaves, whatever its pivots
// (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.):
//   elimination       (A + dA) x = b with |dA| <= gamma(3n) |L| |U|          theorem 9.4
//   inverses          up to 8n instead of 3n, of Gauss-Jordan elimination    theorem 14.5
//   triangular ones   (T + dT) x = b with |dT| <= gamma(n) |T|               theorem 8.5
//   Cholesky          L L' = A + dA with |dA| <= gamma(n + 1) |L| |L'|       theorem 10.3
// A residual moves x by |inv(A)| |dA| |x|, the determinant by the trace of |inv(A)| |dA| of itself,
// and L by |L| times the lower half of |inv(L)| |dA| |inv(L)'| (theorem 10.8). Where such a part is
// more than a tenth the matrix is too close to a singular one, and nothing is said.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "src/reference/arithmetic/arithmetic.h"
#include "src/reference/call.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

// A part that moves more than this leaves nothing to say.
constexpr double kMostOff = 0.1;
constexpr double kNothingKnown = std::numeric_limits<double>::infinity();

// Square matrices, one behind the other.
struct Matrices {
  size_t count = 0;
  size_t size = 0;
  size_t elements() const { return size * size; }
};

// The matrices of the last two dims; a problem of the call where they are not square.
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

Value WithoutErrors(const Value& x) { return MakeValue(x->shape, x->value.Shared()); }

Value MagnitudesOf(const Value& x) {
  std::vector<double> magnitudes(x->size());
  std::transform(x->value.begin(), x->value.end(), magnitudes.begin(),
                 [](double v) { return std::fabs(v); });
  return MakeValue(x->shape, std::move(magnitudes));
}

// The product of magnitudes, without errors of its own.
Value MagnitudeProduct(const Arithmetic& m, const Value& a, const Value& b, bool transpose_b) {
  const Value product = m.MatMul(a, b, false, transpose_b);
  return product == nullptr ? nullptr : WithoutErrors(product);
}

// x, of `rows` rows, with `moved` (what residuals of 1 unit move it by) as its error, in units of
// `gamma`. Where a row of `parts`, which is how much of themselves the matrices are moved by, is
// more than kMostOff, nothing is known.
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
  return MakeValue(x->shape, x->value.Shared(), std::move(errors));
}

// ---- Systems of linear equations, inverses and determinants, by elimination ----

struct Elimination {
  std::vector<double> factors;  // of one matrix: U, and below it L without its diagonal of ones
  std::vector<size_t> rows;     // row i of the factors is row rows[i] of the matrix
  double sign = 1;
  bool is_singular = false;
};

// With partial pivoting.
Elimination Eliminate(const double* matrix, size_t n) {
  Elimination done;
  done.factors.assign(matrix, matrix + n * n);
  std::vector<double>& a = done.factors;
  done.rows.resize(n);
  for (size_t i = 0; i < n; ++i) {
    done.rows[i] = i;
  }
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      pivot = std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k]) ? i : pivot;
    }
    if (!(std::fabs(a[pivot * n + k]) > 0)) {
      done.is_singular = true;
      return done;
    }
    if (pivot != k) {
      std::swap_ranges(&a[k * n], &a[k * n] + n, &a[pivot * n]);
      std::swap(done.rows[k], done.rows[pivot]);
      done.sign = -done.sign;
    }
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] /= a[k * n + k];
      for (size_t j = k + 1; factor != 0 && j < n; ++j) {
        a[i * n + j] -= factor * a[k * n + j];
      }
    }
  }
  return done;
}

// Solves the equations of `done`; right-hand sides and solutions are n x columns.
void SolveWith(const Elimination& done, size_t n, const double* right, size_t columns,
               double* solution) {
  for (size_t i = 0; i < n; ++i) {
    std::copy_n(right + done.rows[i] * columns, columns, solution + i * columns);
    for (size_t k = 0; k < i; ++k) {
      const double factor = done.factors[i * n + k];
      for (size_t j = 0; factor != 0 && j < columns; ++j) {
        solution[i * columns + j] -= factor * solution[k * columns + j];
      }
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) {
      const double factor = done.factors[i * n + k];
      for (size_t j = 0; factor != 0 && j < columns; ++j) {
        solution[i * columns + j] -= factor * solution[k * columns + j];
      }
    }
    for (size_t j = 0; j < columns; ++j) {
      solution[i * columns + j] /= done.factors[i * n + i];
    }
  }
}

// |L| |U| in the order of the matrix's rows.
void AddFactorProduct(const Elimination& done, size_t n, double* product) {
  for (size_t i = 0; i < n; ++i) {
    double* const row = product + done.rows[i] * n;
    for (size_t k = 0; k <= i; ++k) {
      const double lower = k == i ? 1 : std::fabs(done.factors[i * n + k]);
      for (size_t j = k; j < n; ++j) {
        row[j] += lower * std::fabs(done.factors[k * n + j]);
      }
    }
  }
}

// Matrices, eliminated.
struct Solver {
  Matrices matrices;
  std::vector<Elimination> eliminations;
  Value inverse;     // of each
  Value residual;    // |inv(A)| |L| |U| of each: what a residual of 1 unit moves
  double gamma = 0;  // units of a residual
};

// A problem of the call where one of them is singular.
Solver SolverOf(Call& call, const Arithmetic& m, const Value& a) {
  Solver solver;
  solver.matrices = MatricesOf(call, a);
  if (call.failed()) {
    return solver;
  }
  const size_t n = solver.matrices.size;
  std::vector<double> unit(n * n);
  for (size_t i = 0; i < n; ++i) {
    unit[i * n + i] = 1;
  }
  std::vector<double> inverse(a->size());
  std::vector<double> products(a->size());
  for (size_t at = 0; at < solver.matrices.count; ++at) {
    solver.eliminations.push_back(Eliminate(&a->value[at * n * n], n));
    if (solver.eliminations.back().is_singular) {
      call.Fail("a matrix that is singular or holds NaN");
      return solver;
    }
    SolveWith(solver.eliminations.back(), n, unit.data(), n, &inverse[at * n * n]);
    AddFactorProduct(solver.eliminations.back(), n, &products[at * n * n]);
  }
  solver.inverse = MakeValue(a->shape, std::move(inverse));
  solver.residual = MagnitudeProduct(m, MagnitudesOf(solver.inverse),
                                     MakeValue(a->shape, std::move(products)), false);
  solver.gamma = m.rounding().Gamma(8 * n);
  return solver;
}

Value InverseOf(Call& call, const Arithmetic& m, const Value& a) {
  const Solver solver = SolverOf(call, m, a);
  if (call.failed()) {
    return nullptr;
  }
  const Value moved = MagnitudeProduct(m, solver.residual, MagnitudesOf(solver.inverse), false);
  return WithMoved(m, solver.inverse, moved, solver.residual, solver.gamma,
                   solver.matrices.count * solver.matrices.size);
}

Values MatrixInverse(Call& call, const Arithmetic& m) {
  return {InverseOf(call, m, call.Tensor(0, "input"))};
}

// "inv" is the inverse of a matrix, and in MindSpore the reciprocal of each element.
Values InverseOrReciprocal(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (call.failed() || outputs.empty() || outputs[0].value == nullptr) {
    return {call.Fail("its output was not saved")};
  }
  const auto near = [&](size_t i) {
    return std::fabs(outputs[0].value->value[i] * x->value[i] - 1) < 1e-2;
  };
  bool is_reciprocal = outputs[0].value->size() == x->size();
  for (size_t i = 0; is_reciprocal && i < x->size(); ++i) {
    is_reciprocal = near(i);
  }
  return {is_reciprocal ? m.Divide(m.Filled({}, 1), x) : InverseOf(call, m, x)};
}

// solve(A, B)
Values Solve(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "A");
  Value b = call.Tensor(1, "B");
  const Solver solver = SolverOf(call, m, a);
  if (call.failed() || !call.Bool(SIZE_MAX, "left", true)) {
    return {call.Fail("equations from the right are not recomputed")};
  }
  const Shape shape = b->shape;
  const bool is_vector = shape == Shape(a->shape.begin(), a->shape.end() - 1);
  if (is_vector) {
    Shape column = shape;
    column.push_back(1);
    b = m.Reshape(b, column);
  }
  if (b->shape.size() != a->shape.size() ||
      !std::equal(a->shape.begin(), a->shape.end() - 1, b->shape.begin()) || b->size() == 0) {
    return {call.Fail("its right-hand sides are not as many as its matrices")};
  }
  const size_t n = solver.matrices.size;
  const auto columns = static_cast<size_t>(b->shape.back());
  std::vector<double> solutions(b->size());
  for (size_t at = 0; at < solver.matrices.count; ++at) {
    SolveWith(solver.eliminations[at], n, &b->value[at * n * columns], columns,
              &solutions[at * n * columns]);
  }
  const Value x = MakeValue(b->shape, std::move(solutions));
  const Value moved = MagnitudeProduct(m, solver.residual, MagnitudesOf(x), false);
  const Value solved =
      WithMoved(m, x, moved, solver.residual, solver.gamma, solver.matrices.count * n);
  return {solved == nullptr ? nullptr : m.Reshape(solved, shape)};
}

// ---- determinants ----

struct Determinants {
  Value sign, logarithm, value;
};

Determinants DeterminantsOf(Call& call, const Arithmetic& m, const Value& a) {
  const Solver solver = SolverOf(call, m, a);
  if (call.failed() || solver.residual == nullptr) {
    return {};
  }
  const size_t n = solver.matrices.size;
  const Shape shape(a->shape.begin(), a->shape.end() - 2);
  const double most = std::log(m.rounding().working.largest);
  std::vector<double> signs, logarithms, log_errors, values, value_errors;
  for (size_t at = 0; at < solver.matrices.count; ++at) {
    const Elimination& done = solver.eliminations[at];
    double sign = done.sign;
    // Not from the logarithm, whose rounding the exponential enlarges.
    double value = sign;
    double logarithm = 0;
    double magnitude = 0;
    double trace = 0;
    for (size_t i = 0; i < n; ++i) {
      const double pivot = done.factors[i * n + i];
      sign = pivot < 0 ? -sign : sign;
      value *= pivot;
      logarithm += std::log(std::fabs(pivot));
      magnitude += std::fabs(std::log(std::fabs(pivot)));
      trace += solver.residual->value[(at * n + i) * n + i];
    }
    const double part = solver.gamma * trace;
    const bool is_known = part < kMostOff;
    signs.push_back(is_known ? sign : std::numeric_limits<double>::quiet_NaN());
    logarithms.push_back(logarithm);
    log_errors.push_back(is_known ? part / (1 - kMostOff) +
                                        m.rounding().function_units * m.rounding().Step(magnitude) +
                                        m.rounding().Gamma(n) * magnitude
                                  : kNothingKnown);
    values.push_back(value);
    // The product may overflow on its way.
    value_errors.push_back(is_known && magnitude < most
                               ? std::fabs(value) *
                                     (part / (1 - kMostOff) + m.rounding().Gamma(2 * n))
                               : kNothingKnown);
  }
  std::vector<double> sign_errors(signs.size());
  for (size_t i = 0; i < signs.size(); ++i) {
    if (std::isnan(signs[i])) {
      signs[i] = 1;
      sign_errors[i] = kNothingKnown;
    }
  }
  return {MakeValue(shape, std::move(signs), std::move(sign_errors)),
          MakeValue(shape, std::move(logarithms), std::move(log_errors)),
          MakeValue(shape, std::move(values), std::move(value_errors))};
}

Values Determinant(Call& call, const Arithmetic& m) {
  return {DeterminantsOf(call, m, call.Tensor(0, "input")).value};
}
Values SignAndLogarithm(Call& call, const Arithmetic& m) {
  const Determinants found = DeterminantsOf(call, m, call.Tensor(0, "input"));
  return {found.sign, found.logarithm};
}
Values LogDeterminant(Call& call, const Arithmetic& m) {
  const Determinants found = DeterminantsOf(call, m, call.Tensor(0, "input"));
  if (call.failed() || found.sign == nullptr) {
    return {nullptr};
  }
  Numbers values = found.logarithm->value;
  Numbers errors = found.logarithm->error;
  for (size_t i = 0; i < values.size(); ++i) {
    if (found.sign->error_at(i) > 0) {
      errors[i] = kNothingKnown;
    } else if (found.sign->value[i] < 0) {
      values[i] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  return {MakeValue(found.logarithm->shape, std::move(values), std::move(errors))};
}

}  // namespace

OperatorList EliminationOperators() {
  return {
      {"inverse inv_ex", MatrixInverse}, {"inv", InverseOrReciprocal},
      {"solve solve_ex", Solve},         {"det", Determinant},
      {"slogdet", SignAndLogarithm},     {"logdet", LogDeterminant},
  };
}

// ---- Triangular matrices and Cholesky factors ----

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
  return MakeValue(x->shape, x->value.Shared(), std::move(errors));
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
  Numbers factor = a->value;
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
