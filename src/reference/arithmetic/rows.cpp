// Softmax and normalisation of rows, with bounds of their own: the errors of their parts are
// correlated, which a composition of single steps would not see.
//
// Softmax: P. Blanchard, D. J. Higham, N. J. Higham, Accurately computing the log-sum-exp and
// softmax functions, IMA J. Numer. Anal. 41 (2021), section 4. Variance: T. F. Chan, G. H. Golub,
// R. J. LeVeque, Algorithms for computing the sample variance, Amer. Statist. 37 (1983): an
// updating algorithm (Welford) is off by no more than n u k relatively, k = sqrt(1 + mean^2 /
// variance).
#include <algorithm>
#include <cmath>

#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

struct RowsOf {
  size_t count = 0;
  size_t length = 0;
};
RowsOf RowsIn(const Value& x) {
  const auto length = static_cast<size_t>(x->shape.empty() ? 1 : x->shape.back());
  return {length == 0 ? 0 : x->size() / length, length};
}

std::shared_ptr<Tensor> WithError(const Shape& shape, size_t size) {
  auto out = std::make_shared<Tensor>();
  out->shape = shape;
  out->value = Numbers::Unset(size);
  out->error = Numbers::Unset(size);
  return out;
}

// Body over rows, several at a time; `first`: the row's first element.
void ForRows(const Arithmetic& arithmetic, const RowsOf& rows,
             const std::function<void(size_t first)>& body) {
  constexpr size_t kElements = size_t{1} << 14U;
  const size_t step = std::max<size_t>(1, kElements / std::max<size_t>(1, rows.length));
  const size_t blocks = (rows.count + step - 1) / step;
  const auto run = [&](size_t block, size_t) {
    for (size_t row = block * step; row < std::min(rows.count, (block + 1) * step); ++row) {
      body(row * rows.length);
    }
  };
  if (blocks < 2) {
    for (size_t block = 0; block < blocks; ++block) {
      run(block, 0);
    }
  } else {
    arithmetic.pool().ParallelFor(blocks, run);
  }
}

struct Exponentials {
  double largest = -kUnknown;
  double sum = 0;       // of exp(x - largest)
  double relative = 0;  // error of the sum
  double largest_error = 0;
};

// exp(x_i - largest) is off by the error of x_i and of the largest, of their difference, and of
// exp.
double ExponentRelative(const Rounding& rounding, const Exponentials& row, double x, double error) {
  const double distance = x - row.largest;
  return std::expm1(
             std::min(error + row.largest_error + rounding.unit * std::fabs(distance), 700.0)) +
         rounding.function_units * rounding.unit;
}

// `parts` and `relatives`: exp(x - largest) of each element, and its error.
Exponentials SumOfRow(const Rounding& rounding, const Tensor& x, size_t first, size_t length,
                      double* parts, double* relatives) {
  Exponentials row;
  const double* const value = x.value.data() + first;
  for (size_t i = 0; i < length; ++i) {
    row.largest = std::max(row.largest, value[i]);
    if (std::isnan(value[i])) {
      row.largest = value[i];
      break;
    }
  }
  for (size_t i = first; i < first + length; ++i) {
    row.largest_error = std::max(row.largest_error, x.error_at(i));
  }
  double weighted = 0;
  for (size_t i = 0; i < length; ++i) {
    parts[i] = std::exp(value[i] - row.largest);
    relatives[i] = value[i] == -kUnknown
                       ? 0
                       : ExponentRelative(rounding, row, value[i], x.error_at(first + i));
    row.sum += parts[i];
    if (parts[i] > 0) {
      weighted += parts[i] * relatives[i];
    }
  }
  row.relative = weighted / row.sum + rounding.Gamma(length);
  return row;
}

}  // namespace

// A result of the shape of x, made row by row: `forward` fills a row of it from its first element
// on. `backward` makes a function of the result and a gradient, which fills a row of the gradient
// that is passed to x.
Value Arithmetic::ByRows(const Value& x, const RowFunction& forward,
                         const RowGradient& backward) const {
  if (x == nullptr) {
    return nullptr;
  }
  const RowsOf rows = RowsIn(x);
  std::shared_ptr<Tensor> out = WithError(x->shape, x->size());
  ForRows(*this, rows, [&](size_t first) { forward(first, rows.length, *out); });
  if (!taping_) {
    return out;
  }
  const Value y = SameElements(*out, out->shape);
  return Finish(out, {x}, [this, y, rows, backward](const Value& gradient) {
    std::shared_ptr<Tensor> passed = WithError(y->shape, y->size());
    const RowFunction fill = backward(y, gradient);
    ForRows(*this, rows, [&](size_t first) { fill(first, rows.length, *passed); });
    return std::vector<Value>{passed};
  });
}

Value Arithmetic::Softmax(const Value& x) const {
  const auto forward = [&](size_t first, size_t length, Tensor& out) {
    double* const value = out.value.data() + first;
    double* const error = out.error.data() + first;
    const Exponentials row = SumOfRow(rounding_, *x, first, length, value, error);
    const double* const from = x->value.data() + first;
    for (size_t i = 0; i < length; ++i) {
      const double part = value[i] / row.sum;
      value[i] = part;
      // exp may flush to zero what is below the normal numbers.
      error[i] =
          std::isnan(part) || from[i] == -kUnknown
              ? 0
              : part * (error[i] + row.relative + 2 * rounding_.unit) + rounding_.working.normal;
    }
  };
  // (g - sum(g y)) y of the stored result y.
  const auto backward = [this](const Value& y, const Value& gradient) -> RowFunction {
    const Value stored = Arithmetic(rounding_, pool_, false).Stored(y);
    return [this, y, gradient, stored](size_t first, size_t length, Tensor& passed) {
      double dot = 0;
      double dot_error = 0;
      double magnitude = 0;
      for (size_t i = first; i < first + length; ++i) {
        const double g = gradient->value[i];
        dot += g * y->value[i];
        magnitude += std::fabs(g * y->value[i]);
        dot_error += std::fabs(g) * stored->error[i] +
                     gradient->error_at(i) * (y->value[i] + stored->error[i]);
      }
      dot_error += rounding_.Gamma(length + 1) * magnitude;
      for (size_t i = first; i < first + length; ++i) {
        const double g = gradient->value[i];
        const double part = y->value[i];
        passed.value[i] = (g - dot) * part;
        // Also computed as g y - y sum(g y).
        passed.error[i] = (gradient->error_at(i) + dot_error) * (part + stored->error[i]) +
                          std::fabs(g - dot) * stored->error[i] +
                          3 * rounding_.Step((std::fabs(g) + std::fabs(dot)) * part);
      }
    };
  };
  return ByRows(x, forward, backward);
}

Value Arithmetic::LogSoftmax(const Value& x) const {
  const auto forward = [&](size_t first, size_t length, Tensor& out) {
    const Exponentials row =
        SumOfRow(rounding_, *x, first, length, out.value.data() + first, out.error.data() + first);
    const double log_sum = std::log(row.sum);
    for (size_t i = first; i < first + length; ++i) {
      out.value[i] = x->value[i] - row.largest - log_sum;
      // As (x - largest) - log or x - (largest + log).
      out.error[i] =
          std::isfinite(out.value[i])
              ? x->error_at(i) + row.largest_error + row.relative +
                    rounding_.function_units * rounding_.Step(log_sum) +
                    2 * rounding_.Step(std::fabs(x->value[i]) + std::fabs(row.largest) + log_sum)
              : 0;
    }
  };
  // g - exp(y) sum(g) of the stored result y.
  const auto backward = [this](const Value& y, const Value& gradient) -> RowFunction {
    const Value stored = Arithmetic(rounding_, pool_, false).Stored(y);
    return [this, y, gradient, stored](size_t first, size_t length, Tensor& passed) {
      double sum = 0;
      double magnitude = 0;
      double error = 0;
      for (size_t i = first; i < first + length; ++i) {
        sum += gradient->value[i];
        magnitude += std::fabs(gradient->value[i]);
        error += gradient->error_at(i);
      }
      error += rounding_.Gamma(length) * magnitude;
      for (size_t i = first; i < first + length; ++i) {
        const double part = std::exp(y->value[i]);
        const double off = part * (std::expm1(std::min(stored->error[i], 700.0)) +
                                   rounding_.function_units * rounding_.unit) +
                           rounding_.working.normal;
        passed.value[i] = gradient->value[i] - part * sum;
        passed.error[i] = gradient->error_at(i) + (part + off) * error + off * std::fabs(sum) +
                          2 * rounding_.Step(std::fabs(gradient->value[i]) + part * std::fabs(sum));
      }
    };
  };
  return ByRows(x, forward, backward);
}

namespace {

struct RowMoments {
  double mean = 0;
  double mean_error = 0;
  double inverse = 0;   // 1 / sqrt(var + epsilon)
  double relative = 0;  // error of the inverse
};

RowMoments MomentsOf(const Rounding& rounding, const Value& x, size_t first, size_t length,
                     double epsilon, bool root_mean_square) {
  RowMoments row;
  const auto n = static_cast<double>(length);
  const double gamma = rounding.Gamma(length + 2);
  double magnitude = 0;
  double input_error = 0;
  for (size_t i = first; i < first + length; ++i) {
    row.mean += x->value[i];
    magnitude += std::fabs(x->value[i]);
    input_error += x->error_at(i);
  }
  row.mean = root_mean_square ? 0 : row.mean / n;
  row.mean_error = root_mean_square ? 0 : (gamma * magnitude + input_error) / n;
  double squares = 0;
  double square_error = 0;
  for (size_t i = first; i < first + length; ++i) {
    const double distance = x->value[i] - row.mean;
    squares += distance * distance;
    square_error += 2 * std::fabs(distance) * x->error_at(i);
  }
  const double variance = squares / n;
  // n u k of the variance, k^2 = 1 + mean^2 / variance, and the square of the mean's error.
  const double off = gamma * std::sqrt(variance * (variance + row.mean * row.mean)) +
                     row.mean_error * row.mean_error + square_error / n;
  const double whole = variance + epsilon;
  row.inverse = 1 / std::sqrt(whole);
  row.relative = off < whole
                     ? 0.5 * off / (whole - off) + (3 + rounding.function_units) * rounding.unit
                     : kUnknown;
  return row;
}

// Statistics of 16-bit tensors are kept in that type by some (PyTorch 1.13 on a CPU), and so is
// their product: twice its rounding.
RowMoments AsStored(const Rounding& rounding, RowMoments row) {
  if (rounding.stored.unit > rounding.unit) {
    row.mean_error += 2 * rounding.stored.unit * std::fabs(row.mean);
    row.relative += 2 * rounding.stored.unit;
  }
  return row;
}

}  // namespace

Value Arithmetic::Normalize(const Value& x, double epsilon, bool root_mean_square) const {
  // Saved statistics may have been stored in the type of the tensor.
  const auto moments = [this, x, epsilon, root_mean_square](size_t first, size_t length) {
    return AsStored(rounding_, MomentsOf(rounding_, x, first, length, epsilon, root_mean_square));
  };
  const auto forward = [&](size_t first, size_t length, Tensor& out) {
    const RowMoments row = moments(first, length);
    for (size_t i = first; i < first + length; ++i) {
      const double distance = x->value[i] - row.mean;
      out.value[i] = distance * row.inverse;
      // Also computed as x * inverse - mean * inverse.
      out.error[i] = row.inverse * (1 + row.relative) *
                         (row.mean_error + x->error_at(i) +
                          3 * rounding_.Step(std::fabs(x->value[i]) + std::fabs(row.mean))) +
                     std::fabs(out.value[i]) * row.relative;
    }
  };
  // inverse (g - mean(g) - y mean(g y)). Also computed as a g + b x + c, whose parts are larger
  // than their sum.
  const auto backward = [this, x, moments, root_mean_square](const Value& y,
                                                             const Value& gradient) -> RowFunction {
    return [this, x, y, gradient, moments, root_mean_square](size_t first, size_t length,
                                                             Tensor& passed) {
      const auto n = static_cast<double>(length);
      const RowMoments row = moments(first, length);
      const double mean_error = row.mean_error;
      const double relative = row.relative;
      const double gamma = rounding_.Gamma(length + 2);
      double sum = 0, sum_error = 0, dot = 0, dot_error = 0;
      for (size_t i = first; i < first + length; ++i) {
        const double g = gradient->value[i];
        const double size = (std::fabs(x->value[i]) + std::fabs(row.mean)) * row.inverse;
        const double off =
            y->error_at(i) + row.inverse * mean_error + std::fabs(y->value[i]) * relative;
        if (!root_mean_square) {
          sum += g;
          sum_error += std::fabs(g) * gamma + gradient->error_at(i);
        }
        dot += g * y->value[i];
        dot_error += std::fabs(g) * (size * gamma + off) +
                     gradient->error_at(i) * (std::fabs(y->value[i]) + off);
      }
      for (size_t i = first; i < first + length; ++i) {
        const double g = gradient->value[i];
        const double size = (std::fabs(x->value[i]) + std::fabs(row.mean)) * row.inverse;
        const double off =
            y->error_at(i) + row.inverse * mean_error + std::fabs(y->value[i]) * relative;
        const double inner = g - sum / n - y->value[i] * dot / n;
        const double magnitude = std::fabs(g) + std::fabs(sum) / n + size * std::fabs(dot) / n;
        passed.value[i] = row.inverse * inner;
        passed.error[i] =
            row.inverse * (1 + relative) *
                (gradient->error_at(i) + sum_error / n +
                 (std::fabs(y->value[i]) + off) * dot_error / n + off * std::fabs(dot) / n +
                 6 * rounding_.Step(magnitude)) +
            (std::fabs(passed.value[i]) +
             row.inverse * (std::fabs(g) + (std::fabs(sum) + std::fabs(y->value[i] * dot)) / n)) *
                relative;
      }
    };
  };
  return ByRows(x, forward, backward);
}

}  // namespace msprobe::reference
