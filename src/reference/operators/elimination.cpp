// Systems of linear equations, inverses and determinants, by elimination (matrices.h has the
// bounds).
#include <algorithm>
#include <cmath>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/matrices.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

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

// Of the equations of `done`, right-hand sides and solutions n x columns.
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
  std::vector<double> values = found.logarithm->value;
  std::vector<double> errors = found.logarithm->error;
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

}  // namespace msprobe::reference
