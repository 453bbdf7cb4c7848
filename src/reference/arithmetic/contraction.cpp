// Products of matrices. |fl(AB) - AB| <= gamma(n) |A||B| element by element for sums in any order,
// fused or not (Higham, section 3.5); |A||B| is bounded by the norms of a row of A and a column of
// B (Cauchy and Schwarz), which costs no second product and is larger by a factor of about pi / 2
// for random numbers. What rounding the factors first costs them adds to their errors.
#include <algorithm>
#include <array>
#include <cmath>

#include "src/kernels/matrix_product.h"
#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {
namespace {

// The sum of the squares of numbers `stride` apart, in lanes that do not wait for each other.
double SumOfSquares(const double* data, size_t count, size_t stride) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = data[(i + lane) * stride];
      sums[lane] += x * x;
    }
  }
  for (; i < count; ++i) {
    sums[i % kLanes] += data[i * stride] * data[i * stride];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Norms of the lines of a matrix.
std::vector<double> LineNorms(const double* data, size_t lines, size_t depth, size_t line_stride,
                              size_t depth_stride) {
  std::vector<double> norms(lines, 0);
  double* const squares = norms.data();
  if (line_stride == 1) {
    for (size_t p = 0; p < depth; ++p) {
      const double* const row = data + p * depth_stride;
      for (size_t i = 0; i < lines; ++i) {
        squares[i] += row[i] * row[i];
      }
    }
  } else {
    for (size_t i = 0; i < lines; ++i) {
      squares[i] = SumOfSquares(data + i * line_stride, depth, depth_stride);
    }
  }
  for (double& square : norms) {
    square = std::sqrt(square);
  }
  return norms;
}

// Norms of the errors of a matrix's lines, to which rounding the factors adds.
void AddRounding(const FloatFormat& format, const std::vector<double>& norms, size_t depth,
                 std::vector<double>& errors) {
  if (format.unit == 0) {
    return;
  }
  errors.resize(norms.size());
  const double tiny = format.tiny * std::sqrt(static_cast<double>(depth));
  for (size_t i = 0; i < norms.size(); ++i) {
    errors[i] += format.unit * (norms[i] + errors[i]) + tiny;
  }
}

}  // namespace

Value Arithmetic::MatMul(const Value& a, const Value& b, bool transpose_a, bool transpose_b,
                         size_t more_terms) const {
  if (a == nullptr || b == nullptr) {
    return nullptr;
  }
  if (a->shape.size() < 2 || b->shape.size() < 2) {
    return Fail("not a matrix");
  }
  const size_t dims_a = a->shape.size();
  const size_t dims_b = b->shape.size();
  const auto rows = static_cast<size_t>(a->shape[dims_a - (transpose_a ? 1 : 2)]);
  const auto depth = static_cast<size_t>(a->shape[dims_a - (transpose_a ? 2 : 1)]);
  const auto columns = static_cast<size_t>(b->shape[dims_b - (transpose_b ? 2 : 1)]);
  const Shape batch_a(a->shape.begin(), a->shape.end() - 2);
  const Shape batch_b(b->shape.begin(), b->shape.end() - 2);
  const BroadcastShape batches = Broadcast(batch_a, batch_b);
  if (!batches.ok || static_cast<size_t>(b->shape[dims_b - (transpose_b ? 1 : 2)]) != depth) {
    return Fail("matrices of " + ShapeText(a->shape) + " and " + ShapeText(b->shape) +
                " do not fit");
  }
  const Shape& batch = batches.shape;
  Shape shape = batch;
  shape.push_back(static_cast<int64_t>(rows));
  shape.push_back(static_cast<int64_t>(columns));
  if (!Affords(shape)) {
    return nullptr;
  }
  const std::vector<int64_t> places_a = BroadcastIndices(batch_a, batch);
  const std::vector<int64_t> places_b = BroadcastIndices(batch_b, batch);
  auto out = std::make_shared<Tensor>();
  out->shape = shape;
  const size_t matrix = rows * columns;
  const kernels::MatrixView view_a{nullptr, transpose_a ? 1 : depth, transpose_a ? rows : 1};
  const kernels::MatrixView view_b{nullptr, transpose_b ? 1 : columns, transpose_b ? depth : 1};
  const double gamma = rounding_.Gamma(depth + more_terms);
  const double tiny = rounding_.working.tiny * static_cast<double>(depth);
  const size_t items = a->size() == 0 || b->size() == 0 ? 0 : places_a.size();
  const size_t elements = places_a.size() * matrix;
  out->value = items == 0 ? Numbers::Zeros(elements) : Numbers::Unset(elements);
  out->error = items == 0 ? Numbers::Zeros(elements) : Numbers::Unset(elements);
  has_products_ = has_products_ || items > 0;
  for (size_t item = 0; item < items; ++item) {
    const size_t at_a = static_cast<size_t>(places_a[item]) * rows * depth;
    const size_t at_b = static_cast<size_t>(places_b[item]) * columns * depth;
    kernels::MatrixView left = view_a;
    left.data = a->value.data() + at_a;
    kernels::MatrixView right = view_b;
    right.data = b->value.data() + at_b;
    kernels::MultiplyMatrices(rows, columns, depth, left, right, out->value.data() + item * matrix,
                              pool_);
    const auto norms = [&](const Numbers& data, size_t at, bool of_a) {
      const kernels::MatrixView& view = of_a ? view_a : view_b;
      return data.empty() ? std::vector<double>()  // of errors: there are none
                          : LineNorms(data.data() + at, of_a ? rows : columns, depth,
                                      of_a ? view.row_stride : view.column_stride,
                                      of_a ? view.column_stride : view.row_stride);
    };
    const std::vector<double> norm_a = norms(a->value, at_a, true);
    const std::vector<double> norm_b = norms(b->value, at_b, false);
    std::vector<double> error_a = norms(a->error, at_a, true);
    std::vector<double> error_b = norms(b->error, at_b, false);
    AddRounding(rounding_.factors, norm_a, depth, error_a);
    AddRounding(rounding_.factors, norm_b, depth, error_b);
    for (size_t i = 0; i < rows; ++i) {
      double* const error = out->error.data() + item * matrix + i * columns;
      const double from_a = error_a.empty() ? 0 : error_a[i];
      const double of_norm = gamma * norm_a[i] + from_a;
      const double* const norm = norm_b.data();
      for (size_t j = 0; j < columns; ++j) {
        error[j] = of_norm * norm[j] + tiny;
      }
      if (!error_b.empty()) {
        const double of_error = norm_a[i] + from_a;
        for (size_t j = 0; j < columns; ++j) {
          error[j] += of_error * error_b[j];
        }
      }
    }
  }
  return Finish(out, {a, b},
                [this, a, b, transpose_a, transpose_b, more_terms](const Value& gradient) {
                  std::vector<Value> passed(2);
                  if (a->wants_gradient) {
                    passed[0] = transpose_a ? MatMul(b, gradient, transpose_b, true, more_terms)
                                            : MatMul(gradient, b, false, !transpose_b, more_terms);
                  }
                  if (b->wants_gradient) {
                    passed[1] = transpose_b ? MatMul(gradient, a, true, transpose_a, more_terms)
                                            : MatMul(a, gradient, !transpose_a, false, more_terms);
                  }
                  return passed;
                });
}

}  // namespace msprobe::reference
