// Arithmetic on values with error bounds: every operation computes its exact result in double from
// exact inputs, and how far off a correct implementation may be, given how far off its inputs may
// be (running error analysis: Higham, section 3.3). With `taping` it remembers how results were
// made, so that gradients can follow (gradients.h).
//
// A null value is a failure: operations on it give null, and so do operations on shapes that do not
// fit; problem() tells the first reason. So callers check once, at the end.
//
// Operations work on whole tensors, on the threads of a pool, in blocks of fixed size: the same
// bits for any number of threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/threads.h"
#include "src/reference/arithmetic/rounding.h"
#include "src/reference/arithmetic/value.h"

namespace msprobe::reference {

// A number and the sum of the magnitudes that it was added up from: rounding costs units of the
// latter. Where nothing cancels both are the same. An infinite magnitude of a finite value says
// that implementations are free there.
struct Term {
  double value = 0;
  double magnitude = 0;

  Term(double of) : value(of), magnitude(of < 0 ? -of : of) {}  // NOLINT: implicit
  Term(double of, double sum_of_magnitudes) : value(of), magnitude(sum_of_magnitudes) {}

  bool is_free() const { return std::isinf(magnitude) && std::isfinite(value); }
};

class Arithmetic {
 public:
  // `loaded`, which may be null and must outlive this, counts the elements of the captured tensors:
  // results that are out of all proportion to them are refused, whatever a dump asks for.
  Arithmetic(const Rounding& rounding, base::ThreadPool& pool, bool taping,
             const uint64_t* loaded = nullptr)
      : rounding_(rounding), pool_(pool), taping_(taping), loaded_(loaded) {}

  const Rounding& rounding() const { return rounding_; }
  base::ThreadPool& pool() const { return pool_; }
  bool taping() const { return taping_; }

  // ---- constants and stored values ----
  // A number of the call's arguments, which an implementation may round to the working type or to
  // the storage type.
  Value Scalar(double number) const;
  Value Filled(const Shape& shape, double number) const;
  // As `x`, after it was stored in the storage type.
  Value Stored(const Value& x) const;

  // ---- element by element, with broadcasting ----
  Value Add(const Value& a, const Value& b) const;
  Value Subtract(const Value& a, const Value& b) const;
  Value Multiply(const Value& a, const Value& b) const;
  Value Divide(const Value& a, const Value& b) const;
  Value Negate(const Value& x) const;
  // x, of whose gradient implementations may take what is below the smallest normal number for 0.
  Value GradientMayFlush(const Value& x) const;
  // x times a number that every implementation has exactly (a power of two, a count that divides).
  Value Scale(const Value& x, double factor) const;
  // condition ? a : b; the condition is exact.
  Value Where(const Value& condition, const Value& a, const Value& b) const;

  using Function = std::function<Term(double)>;
  // f(x) with the error of a library function; `derivative` is f' (null: no gradient, and the
  // errors of x must be 0). `units` below 0: as of library functions; 0: exact.
  Value Map(const Value& x, const Function& f, const Function& derivative, double units = -1) const;
  using Function2 = std::function<Term(double, double)>;
  Value Zip(const Value& a, const Value& b, const Function2& f, const Function2& by_a,
            const Function2& by_b, double units = -1) const;

  // ---- moving ----
  // out[i] = element indices[i] of the sources laid one behind the other; -1: `fill`.
  Value Take(const std::vector<Value>& sources, const Shape& shape, std::vector<int64_t> indices,
             double fill = 0) const;
  Value Reshape(const Value& x, const Shape& shape) const;
  // is_inner: see Tensor.
  Value Permute(const Value& x, const std::vector<int64_t>& order, bool is_inner = false) const;
  Value Expand(const Value& x, const Shape& shape) const;

  // ---- reductions; `dims` sorted, not negative ----
  Value Sum(const Value& x, const std::vector<int64_t>& dims, bool keep) const;
  // Sums over whatever a tensor of `shape` was broadcast along to become as `x`.
  Value SumTo(const Value& x, const Shape& shape) const;

  // ---- contraction over the last dim of a and the last but one of b, both transposed on request;
  // the dims in front are broadcast ----
  // `more_terms`: rounding as of sums that are so much longer.
  Value MatMul(const Value& a, const Value& b, bool transpose_a = false, bool transpose_b = false,
               size_t more_terms = 0) const;

  // ---- rows: the last dim ----
  Value Softmax(const Value& x) const;
  Value LogSoftmax(const Value& x) const;
  // (x - mean) / sqrt(var + epsilon) over the last dim; root mean square: without the mean.
  Value Normalize(const Value& x, double epsilon, bool root_mean_square) const;

  // Whether a tensor of this shape may be made; a problem otherwise.
  bool Affords(const Shape& shape) const;
  // Null, with a reason.
  Value Fail(std::string reason) const;
  const std::string& problem() const { return problem_; }
  // Whether a product of matrices is among what was computed.
  bool has_products() const { return has_products_; }

  // Body over blocks of [0, count).
  void ForBlocks(size_t count, const std::function<void(size_t first, size_t end)>& body) const;
  // Marks how `tensor` was made.
  Value Finish(std::shared_ptr<Tensor> tensor, std::vector<Value> parents,
               PassGradient pass_gradient) const;

 private:
  // What a function that is good to so many units may be off by.
  double Units(double units, const Term& term) const;
  // None is null, and they broadcast.
  bool Fit(const std::vector<Value>& operands) const;

  const Rounding rounding_;
  base::ThreadPool& pool_;
  const bool taping_;
  const uint64_t* const loaded_;
  // Set by the thread that calls, never inside of blocks.
  mutable std::string problem_;
  mutable bool has_products_ = false;
};

// The shape that both broadcast to; not `ok` where they do not fit.
struct BroadcastShape {
  Shape shape;
  bool ok = true;
};
BroadcastShape Broadcast(const Shape& a, const Shape& b);
// Strides of `shape` seen as a part of `whole`: 0 along broadcast dims.
std::vector<int64_t> BroadcastStrides(const Shape& shape, const Shape& whole);
// For every element of `whole` the place in a tensor of `shape` that it comes from.
std::vector<int64_t> BroadcastIndices(const Shape& shape, const Shape& whole);

}  // namespace msprobe::reference
