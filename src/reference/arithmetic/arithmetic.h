// Exact arithmetic with bounds: tensors of float64 results, each with the error that a correct
// implementation may have; the rounding model behind it; the operations; gradients of taped
// results.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/base/threads.h"
#include "src/tensor/float_limits.h"

namespace msprobe::reference {

// A tensor of a recomputation: what the result is in exact arithmetic, and how far from it a
// correct implementation may be.

// So many elements are worked on together: all that is known of them fits into the L1 cache.
inline constexpr size_t kRunElements = 1024;
inline constexpr std::array<double, kRunElements> kNoErrors{};

// Numbers of a tensor. A copy has numbers of its own; `Shared` is another owner of the same ones,
// which must not change from then on.
class Numbers {
 public:
  Numbers() = default;
  Numbers(std::vector<double> numbers)  // NOLINT: implicit; takes them over
      : owner_(std::make_shared<std::vector<double>>(std::move(numbers))),
        numbers_(*std::static_pointer_cast<std::vector<double>>(owner_)) {}
  Numbers(std::initializer_list<double> numbers) : Numbers(std::vector<double>(numbers)) {}
  Numbers(const Numbers& other) : Numbers(Unset(other.size())) {
    std::copy(other.begin(), other.end(), numbers_.begin());
  }
  Numbers(Numbers&& other) noexcept
      : owner_(std::move(other.owner_)), numbers_(std::exchange(other.numbers_, {})) {}
  Numbers& operator=(Numbers other) noexcept {
    owner_.swap(other.owner_);
    std::swap(numbers_, other.numbers_);
    return *this;
  }
  ~Numbers() = default;

  // So many that whoever asks for them sets, each of them: they are not 0.
  static Numbers Unset(size_t count) {
    Numbers made;
    if (count > 0) {
      std::shared_ptr<double[]> memory(new double[count]);
      made.numbers_ = {memory.get(), count};
      made.owner_ = std::move(memory);
    }
    return made;
  }
  static Numbers Zeros(size_t count) {
    Numbers made = Unset(count);
    std::fill(made.numbers_.begin(), made.numbers_.end(), 0.0);
    return made;
  }
  Numbers Shared() const {
    Numbers shared;
    shared.owner_ = owner_;
    shared.numbers_ = numbers_;
    return shared;
  }

  size_t size() const { return numbers_.size(); }
  bool empty() const { return numbers_.empty(); }
  const double* data() const { return numbers_.data(); }
  double* data() { return numbers_.data(); }
  const double& operator[](size_t index) const { return numbers_[index]; }
  double& operator[](size_t index) { return numbers_[index]; }
  const double* begin() const { return data(); }
  const double* end() const { return data() + size(); }
  double* begin() { return data(); }
  double* end() { return data() + size(); }
  friend bool operator==(const Numbers& a, const Numbers& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::shared_ptr<void> owner_;
  std::span<double> numbers_;
};

struct Tensor;
using Value = std::shared_ptr<const Tensor>;

// The gradients that a tensor passes on, given the gradient of the result with regard to it: one
// gradient per parent, in the shape of the parent, or of the tensor itself where it was broadcast.
// Null: none.
using PassGradient = std::function<std::vector<Value>(const Value& gradient)>;

struct Tensor {
  Shape shape;
  Numbers value;  // row-major
  // error[i] >= |value[i] - x| for every x that a correct implementation may hold there, to first
  // order in the unit roundoff. Empty: all of them are 0. Not finite: nothing is known.
  Numbers error;

  // How it was made; empty for inputs, and when no gradients are asked for.
  std::vector<Value> parents;
  PassGradient pass_gradient;
  bool wants_gradient = false;  // it is an input that has a gradient, or is made of one
  bool is_inner = false;        // of dims moved for loops of ours: no hook of autograd sees it

  size_t size() const { return value.size(); }
  bool is_exact() const { return error.empty(); }
  double error_at(size_t index) const { return error.empty() ? 0.0 : error[index]; }
  // The errors of up to kRunElements elements from here on.
  const double* errors_from(size_t index) const {
    return error.empty() ? kNoErrors.data() : error.data() + index;
  }
};

inline Value MakeValue(Shape shape, Numbers value, Numbers error = {}) {
  auto tensor = std::make_shared<Tensor>();
  tensor->shape = std::move(shape);
  tensor->value = std::move(value);
  tensor->error = std::move(error);
  return tensor;
}

// The elements of x in another shape, as a tensor of its own.
inline std::shared_ptr<Tensor> SameElements(const Tensor& x, Shape shape) {
  auto tensor = std::make_shared<Tensor>();
  tensor->shape = std::move(shape);
  tensor->value = x.value.Shared();
  tensor->error = x.error.Shared();
  return tensor;
}

// The rounding errors of a floating type and its arithmetic.
//
// Standard model: fl(x op y) = (x op y)(1 + d) + t with |d| <= u, and |t| no more than half of the
// smallest number where results are subnormal (N. J. Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd ed., section 2.2 and problem 2.19). A sum of n terms in any order is off by no
// more than gamma(n - 1) times the sum of magnitudes, gamma(n) = n u / (1 - n u) (lemma 3.1,
// section 4.2).

using tensor::FloatFormat;
using tensor::FormatOf;

// TF32 keeps 10 bits of a float32 number's mantissa and all of its exponent (NVIDIA, A100 Tensor
// Core GPU Architecture, 2020). Matrix units take a factor for one by leaving its other bits out,
// which costs up to 2^-10 of it, twice of what rounding to nearest does. HF32 of Ascend keeps 11
// bits: it is within the same bounds.
inline constexpr FloatFormat kTf32 = {.unit = 0x1p-10, .tiny = 0x1p-136, .normal = 0x1p-126};

bool IsFloat(DType dtype);

// The arithmetic of one call.
struct Rounding {
  DType storage = DType::kFloat32;  // of its floating tensors
  FloatFormat stored;
  // The format of the computation: float32 for 16-bit types, because accelerators and libraries
  // accumulate in it; the storage type otherwise.
  FloatFormat working;
  double unit = 0;            // of working; twice that of float64, which the reference has, too
  double function_units = 4;  // of exp, tanh, pow, ...: errors that libraries document, in units
  // The format to which matrix products round their factors; unit and tiny 0: they are not rounded.
  FloatFormat factors;

  // "steps": every operation may round to the storage type (implementations out of several calls).
  static Rounding Of(DType storage, bool steps);
  Rounding WithFactorsOf(const FloatFormat& format) const {
    Rounding rounding = *this;
    rounding.factors = format;
    return rounding;
  }

  // The error of a sum of so many terms, relative to the sum of their magnitudes. For sums that
  // round to a 16-bit type at every step, for which the worst case soon says nothing, it is the
  // probable bound where that is smaller: lambda sqrt(n) u (N. J. Higham, T. Mary, A new approach
  // to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41 (2019), theorem 2.4), lambda
  // = 6: one in 3e7 sums is further off.
  double Gamma(size_t terms) const {
    const auto n = static_cast<double>(terms);
    const double product = n * unit;
    const double worst =
        product < 1 ? product / (1 - product) : std::numeric_limits<double>::infinity();
    return unit > 0x1p-16 ? std::min(worst, 6 * std::sqrt(n) * unit) : worst;
  }
  // The error of rounding a result of this magnitude once.
  double Step(double magnitude) const {
    return std::isfinite(magnitude) ? unit * std::fabs(magnitude) + working.tiny : 0.0;
  }
  // Whether a derivative may come out infinite: some are stored, or made of the stored result of
  // their function, which a type of small range may have no numbers for.
  template <typename Result>
  bool MayOverflow(const Result& result, double derivative) const {
    constexpr double kWideRange = 0x1p100;
    const auto is_beyond = [&](double number) {
      return std::isfinite(number) && std::fabs(number) * (1 + 2 * stored.unit) >= stored.largest;
    };
    return stored.largest < kWideRange && (is_beyond(derivative) || is_beyond(result()));
  }
  // The error of storing it.
  double Store(double magnitude) const {
    return std::isfinite(magnitude) ? stored.unit * std::fabs(magnitude) + stored.tiny : 0.0;
  }
};

// Arithmetic on values with error bounds: every operation computes its exact result in double from
// exact inputs, and how far off a correct implementation may be, given how far off its inputs may
// be (running error analysis: Higham, section 3.3). With `taping` it remembers how results were
// made, so that gradients can follow (FollowGradients).
//
// A null value is a failure: operations on it give null, and so do operations on shapes that do not
// fit; problem() tells the first reason. So callers check once, at the end.
//
// Operations work on whole tensors, on the threads of a pool, in blocks of fixed size: the same
// bits for any number of threads.

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
  // For operators whose results are other ones where gradients are to follow.
  bool taping() const {
    asked_whether_taping_ = true;
    return taping_;
  }
  bool asked_whether_taping() const { return asked_whether_taping_; }

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
  using RowFunction = std::function<void(size_t first, size_t length, Tensor& out)>;
  using RowGradient = std::function<RowFunction(const Value& result, const Value& gradient)>;
  Value ByRows(const Value& x, const RowFunction& forward, const RowGradient& backward) const;
  // The error bound of a function that is accurate to so many units.
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
  mutable bool asked_whether_taping_ = false;
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

// Gradients of taped results.

struct Gradients {
  // The gradient of every tensor that was passed, in the shape of the tensor.
  std::unordered_map<const Tensor*, Value> of;
  // The gradients that a single step passed on to a tensor of shape `parent`, before it was summed
  // over what was broadcast, and with the gradients of other steps: hooks of autograd see these.
  struct Passed {
    Value gradient;
    Shape parent;
  };
  std::vector<Passed> passed;
  // Values that hooks may see, in the order in which they became known, results first.
  std::vector<const Tensor*> order;
};

// `results` and the gradients that reach them; null: none.
Gradients FollowGradients(const Arithmetic& arithmetic, const std::vector<Value>& results,
                          const std::vector<Value>& gradients);

}  // namespace msprobe::reference
