// Elements that change their places, and sums of elements that share one.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "src/kernels/transpose.h"
#include "src/reference/arithmetic/arithmetic.h"

namespace msprobe::reference {

namespace {

// sums[indices[i]] += x[i]: the gradient of Take. Any order of a sum is allowed.
std::shared_ptr<Tensor> Gather(const Arithmetic& arithmetic, const Value& x,
                               const std::vector<int64_t>& indices, int64_t first,
                               const Shape& shape) {
  auto out = std::make_shared<Tensor>();
  out->shape = shape;
  const auto count = static_cast<size_t>(ElementCount(shape));
  out->value = Numbers::Zeros(count);
  out->error = Numbers::Zeros(count);
  std::vector<double> magnitude(count, 0);
  std::vector<uint32_t> terms(count, 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t place = indices[i] - first;
    if (place < 0 || place >= static_cast<int64_t>(count)) {
      continue;
    }
    const auto at = static_cast<size_t>(place);
    out->value[at] += x->value[i];
    out->error[at] += x->error_at(i);
    magnitude[at] += std::fabs(x->value[i]);
    ++terms[at];
  }
  for (size_t i = 0; i < count; ++i) {
    if (terms[i] > 1) {
      out->error[i] += arithmetic.rounding().Gamma(terms[i]) * magnitude[i];
    }
  }
  return out;
}

// The elements of a tensor at other places: dims in another order, or broadcast.
class StridedCopy {
 public:
  // `strides`: for each dim of the result, how far a step along it goes in the source.
  StridedCopy(const Shape& shape, const std::vector<int64_t>& strides)
      : elements_(static_cast<size_t>(ElementCount(shape))) {
    if (elements_ == 0) {
      return;
    }
    for (size_t at = 0; at < shape.size(); ++at) {
      // Dims that lie one behind the other are one.
      if (!dims_.empty() && dims_.back().from_stride == strides[at] * shape[at]) {
        dims_.back().size *= shape[at];
        dims_.back().from_stride = strides[at];
      } else if (shape[at] != 1) {
        dims_.push_back({shape[at], strides[at], 0});
      }
    }
    int64_t stride = 1;
    for (size_t dim = dims_.size(); dim-- > 0;) {
      dims_[dim].to_stride = stride;
      stride *= dims_[dim].size;
    }
    // The innermost dim of the source, which with that of the result makes matrices to transpose.
    const auto inner = std::find_if(dims_.begin(), dims_.end(),
                                    [](const Dim& dim) { return dim.from_stride == 1; });
    if (inner != dims_.end()) {
      lines_ = *inner;
      dims_.erase(inner);
    }
    if (lines_.to_stride != 1 && !dims_.empty()) {
      columns_ = dims_.back();
      dims_.pop_back();
    }
    for (const Dim& dim : dims_) {
      pieces_ *= static_cast<size_t>(dim.size);
    }
  }

  Numbers Of(const Numbers& from, const Arithmetic& arithmetic) const {
    Numbers to = Numbers::Unset(elements_);
    if (elements_ == 0) {
      return to;
    }
    const auto piece = static_cast<size_t>(lines_.size * columns_.size);
    const size_t at_once = std::max<size_t>(1, kElementsAtOnce / piece);
    const auto copy = [&](size_t first, size_t) {
      for (size_t i = first * at_once; i < std::min(pieces_, (first + 1) * at_once); ++i) {
        CopyPiece(i, from.data(), to.data());
      }
    };
    const size_t blocks = (pieces_ + at_once - 1) / at_once;
    if (blocks == 1) {
      copy(0, 0);
    } else {
      arithmetic.pool().ParallelFor(blocks, copy);
    }
    return to;
  }

 private:
  static constexpr size_t kElementsAtOnce = size_t{1} << 15U;
  struct Dim {
    int64_t size = 1;
    int64_t from_stride = 1;
    int64_t to_stride = 1;
  };

  void CopyPiece(size_t number, const double* from, double* to) const {
    auto rest = static_cast<int64_t>(number);
    for (size_t dim = dims_.size(); dim-- > 0;) {
      const int64_t place = rest % dims_[dim].size;
      rest /= dims_[dim].size;
      from += place * dims_[dim].from_stride;
      to += place * dims_[dim].to_stride;
    }
    if (lines_.to_stride == 1) {
      std::copy_n(from, lines_.size, to);
    } else {
      kernels::TransposeMatrix(sizeof(double), reinterpret_cast<const std::byte*>(from),
                               columns_.from_stride, reinterpret_cast<std::byte*>(to),
                               lines_.to_stride, columns_.size, lines_.size);
    }
  }

  size_t elements_;
  // The dimensions of the result, outermost first, without the two of a piece.
  std::vector<Dim> dims_;
  Dim lines_{1, 1, 0};  // side by side in the source
  Dim columns_;         // side by side in the result, where that is another dim
  size_t pieces_ = 1;
};

std::shared_ptr<Tensor> Copied(const Arithmetic& arithmetic, const Tensor& x, const Shape& shape,
                               const std::vector<int64_t>& strides) {
  const StridedCopy copy(shape, strides);
  auto out = std::make_shared<Tensor>();
  out->shape = shape;
  out->value = copy.Of(x.value, arithmetic);
  if (!x.is_exact()) {
    out->error = copy.Of(x.error, arithmetic);
  }
  return out;
}

}  // namespace

Value Arithmetic::Take(const std::vector<Value>& sources, const Shape& shape,
                       std::vector<int64_t> indices, double fill) const {
  if (std::any_of(sources.begin(), sources.end(), [](const Value& source) { return !source; })) {
    return nullptr;
  }
  int64_t available = 0;
  for (const Value& source : sources) {
    available += static_cast<int64_t>(source->size());
  }
  if (ElementCount(shape) != static_cast<int64_t>(indices.size()) ||
      std::any_of(indices.begin(), indices.end(),
                  [&](int64_t index) { return index >= available; })) {
    return Fail("an index is beyond the tensor");
  }
  auto out = std::make_shared<Tensor>();
  out->shape = shape;
  out->value = Numbers::Unset(indices.size());
  const bool with_error = std::any_of(sources.begin(), sources.end(),
                                      [](const Value& source) { return !source->is_exact(); });
  if (with_error) {
    out->error = Numbers::Zeros(indices.size());
  }
  std::vector<int64_t> firsts(sources.size() + 1, 0);
  for (size_t i = 0; i < sources.size(); ++i) {
    firsts[i + 1] = firsts[i] + static_cast<int64_t>(sources[i]->size());
  }
  ForBlocks(indices.size(), [&](size_t first, size_t end) {
    size_t source = 0;
    for (size_t i = first; i < end; ++i) {
      const int64_t index = indices[i];
      if (index < 0) {
        out->value[i] = fill;
        continue;
      }
      if (index < firsts[source] || index >= firsts[source + 1]) {
        source = static_cast<size_t>(std::upper_bound(firsts.begin(), firsts.end(), index) -
                                     firsts.begin()) -
                 1;
      }
      const auto at = static_cast<size_t>(index - firsts[source]);
      out->value[i] = sources[source]->value[at];
      if (with_error) {
        out->error[i] = sources[source]->error_at(at);
      }
    }
  });
  if (!taping_) {
    return out;
  }
  auto kept = std::make_shared<const std::vector<int64_t>>(std::move(indices));
  return Finish(out, sources, [this, kept, sources, firsts](const Value& gradient) {
    std::vector<Value> passed;
    for (size_t i = 0; i < sources.size(); ++i) {
      passed.push_back(sources[i]->wants_gradient
                           ? Gather(*this, gradient, *kept, firsts[i], sources[i]->shape)
                           : nullptr);
    }
    return passed;
  });
}

Value Arithmetic::Reshape(const Value& x, const Shape& shape) const {
  if (x == nullptr) {
    return nullptr;
  }
  if (ElementCount(shape) != static_cast<int64_t>(x->size())) {
    return Fail("shape " + ShapeText(x->shape) + " does not become " + ShapeText(shape));
  }
  return Finish(SameElements(*x, shape), {x}, [this, x](const Value& gradient) {
    return std::vector<Value>{Reshape(gradient, x->shape)};
  });
}

Value Arithmetic::Permute(const Value& x, const std::vector<int64_t>& order, bool is_inner) const {
  if (x == nullptr) {
    return nullptr;
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(x->shape.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  if (sorted != all) {
    return Fail("the order of dims does not fit shape " + ShapeText(x->shape));
  }
  const Shape strides = ContiguousStrides(x->shape);
  Shape shape;
  std::vector<int64_t> moved;
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<size_t>(order[i]);
    shape.push_back(x->shape[from]);
    moved.push_back(strides[from]);
    back[from] = static_cast<int64_t>(i);
  }
  const std::shared_ptr<Tensor> out = Copied(*this, *x, shape, moved);
  if (out != nullptr) {
    out->is_inner = is_inner;
  }
  return Finish(out, {x}, [this, back](const Value& gradient) {
    return std::vector<Value>{Permute(gradient, back)};
  });
}

Value Arithmetic::Expand(const Value& x, const Shape& shape) const {
  if (x == nullptr) {
    return nullptr;
  }
  if (const BroadcastShape whole = Broadcast(x->shape, shape); !whole.ok || whole.shape != shape) {
    return Fail("shape " + ShapeText(x->shape) + " does not expand to " + ShapeText(shape));
  }
  if (!Affords(shape)) {
    return nullptr;
  }
  if (x->shape == shape) {
    return x;
  }
  return Finish(
      Copied(*this, *x, shape, BroadcastStrides(x->shape, shape)), {x},
      [this, x](const Value& gradient) { return std::vector<Value>{SumTo(gradient, x->shape)}; });
}

namespace {

// A compensated sum (Neumaier), so that the reference itself is exact to double precision.
struct LongSum {
  double value = 0;
  double rest = 0;
  double magnitude = 0;
  double error = 0;

  void Add(double term, double its_error) {
    const double next = value + term;
    const double lost =
        std::fabs(value) >= std::fabs(term) ? (value - next) + term : (term - next) + value;
    rest += std::isfinite(next) ? lost : 0;
    value = next;
    magnitude += std::fabs(term);
    error += its_error;
  }
};
constexpr size_t kFewTerms = size_t{1} << 15U;  // are not worth waking a thread

// Whether, dims of 1 aside, all that are reduced stand before all that stay.
bool ReducesColumns(const Shape& shape, const std::vector<bool>& reduced) {
  bool any = false;
  bool stays = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) {
      continue;
    }
    if (reduced[i] && stays) {
      return false;
    }
    any = any || reduced[i];
    stays = stays || !reduced[i];
  }
  return any && stays;
}

// Each of `count` sums takes every count-th element.
template <typename Set>
void AddColumns(const Arithmetic& arithmetic, const Tensor& x, size_t terms, size_t count,
                const Set& set) {
  constexpr size_t kColumns = 64;
  const auto add = [&](size_t block, size_t) {
    const size_t first = block * kColumns;
    const size_t wide = std::min(kColumns, count - first);
    std::array<LongSum, kColumns> sums;
    for (size_t term = 0; term < terms; ++term) {
      const double* const value = x.value.data() + term * count + first;
      const double* const error =
          x.is_exact() ? kNoErrors.data() : x.error.data() + term * count + first;
      for (size_t i = 0; i < wide; ++i) {
        sums[i].Add(value[i], error[i]);
      }
    }
    for (size_t i = 0; i < wide; ++i) {
      set(first + i, sums[i]);
    }
  };
  const size_t blocks = (count + kColumns - 1) / kColumns;
  if (count * terms < kFewTerms) {
    for (size_t block = 0; block < blocks; ++block) {
      add(block, 0);
    }
  } else {
    arithmetic.pool().ParallelFor(blocks, add);
  }
}

// Each sum takes a row of the dims that are reduced, in their order.
template <typename Set>
void AddRows(const Arithmetic& arithmetic, const Tensor& x, const std::vector<bool>& reduced,
             size_t terms, size_t count, const Set& set) {
  constexpr size_t kRowsAtATime = 64;
  Shape shape;
  std::vector<int64_t> strides;
  const Shape own = ContiguousStrides(x.shape);
  std::vector<size_t> order;
  for (const bool wanted : {false, true}) {
    for (size_t i = 0; i < reduced.size(); ++i) {
      if (reduced[i] == wanted) {
        order.push_back(i);
        shape.push_back(x.shape[i]);
        strides.push_back(own[i]);
      }
    }
  }
  std::shared_ptr<Tensor> moved;
  if (!std::is_sorted(order.begin(), order.end())) {
    moved = Copied(arithmetic, x, shape, strides);
  }
  const Tensor& rows = moved == nullptr ? x : *moved;
  const auto add = [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) {
      LongSum sum;
      for (size_t i = row * terms; i < (row + 1) * terms; ++i) {
        sum.Add(rows.value[i], rows.error_at(i));
      }
      set(row, sum);
    }
  };
  if (count * terms < kFewTerms) {
    add(0, count);
  } else {
    arithmetic.pool().ParallelFor(
        (count + kRowsAtATime - 1) / kRowsAtATime, [&](size_t block, size_t) {
          add(block * kRowsAtATime, std::min(count, (block + 1) * kRowsAtATime));
        });
  }
}

}  // namespace

Value Arithmetic::Sum(const Value& x, const std::vector<int64_t>& dims, bool keep) const {
  if (x == nullptr) {
    return nullptr;
  }
  std::vector<bool> reduced(x->shape.size(), false);
  for (const int64_t dim : dims) {
    if (dim < 0 || static_cast<size_t>(dim) >= reduced.size()) {
      return Fail("there is no such dim to sum over in shape " + ShapeText(x->shape));
    }
    reduced[static_cast<size_t>(dim)] = true;
  }
  Shape kept;
  Shape with_ones;
  size_t terms = 1;
  for (size_t i = 0; i < x->shape.size(); ++i) {
    with_ones.push_back(reduced[i] ? 1 : x->shape[i]);
    if (reduced[i]) {
      terms *= static_cast<size_t>(x->shape[i]);
    } else {
      kept.push_back(x->shape[i]);
    }
  }
  const auto count = static_cast<size_t>(ElementCount(kept));
  auto out = std::make_shared<Tensor>();
  out->shape = keep ? with_ones : kept;
  out->value = Numbers::Unset(count);
  out->error = Numbers::Unset(count);
  const double gamma = terms > 1 ? rounding_.Gamma(terms) : 0;
  const auto set = [&](size_t at, const LongSum& sum) {
    out->value[at] = sum.value + sum.rest;
    out->error[at] = sum.error + (std::isfinite(sum.magnitude) ? gamma * sum.magnitude : 0);
    if (std::isfinite(sum.magnitude) && sum.magnitude > rounding_.working.largest) {
      out->error[at] = std::numeric_limits<double>::infinity();  // a part may overflow
    }
  };
  // What is reduced lies in front of what stays: sums side by side. Otherwise it is moved behind
  // it: sums one behind the other.
  if (ReducesColumns(x->shape, reduced)) {
    AddColumns(*this, *x, terms, count, set);
  } else {
    AddRows(*this, *x, reduced, terms, count, set);
  }
  const Shape ones = with_ones;
  return Finish(out, {x}, [this, x, ones](const Value& gradient) {
    return std::vector<Value>{Expand(Reshape(gradient, ones), x->shape)};
  });
}

Value Arithmetic::SumTo(const Value& x, const Shape& shape) const {
  if (x == nullptr) {
    return nullptr;
  }
  if (x->shape == shape) {
    return x;
  }
  std::vector<int64_t> dims;
  const size_t more = x->shape.size() - std::min(shape.size(), x->shape.size());
  for (size_t i = 0; i < x->shape.size(); ++i) {
    if (i < more || (shape[i - more] == 1 && x->shape[i] != 1)) {
      dims.push_back(static_cast<int64_t>(i));
    }
  }
  return Reshape(dims.empty() ? x : Sum(x, dims, true), shape);
}

BroadcastShape Broadcast(const Shape& a, const Shape& b) {
  BroadcastShape result;
  result.shape.resize(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.shape.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    result.ok = result.ok && (left == right || left == 1 || right == 1);
    result.shape[result.shape.size() - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

std::vector<int64_t> BroadcastStrides(const Shape& shape, const Shape& whole) {
  std::vector<int64_t> strides(whole.size(), 0);
  const Shape own = ContiguousStrides(shape);
  for (size_t i = 0; i < shape.size() && i < whole.size(); ++i) {
    const size_t from = shape.size() - 1 - i;
    strides[whole.size() - 1 - i] = shape[from] == 1 ? 0 : own[from];
  }
  return strides;
}

std::vector<int64_t> BroadcastIndices(const Shape& shape, const Shape& whole) {
  const auto count = static_cast<size_t>(ElementCount(whole));
  std::vector<int64_t> indices(count);
  if (count == 0) {
    return indices;
  }
  const std::vector<int64_t> strides = BroadcastStrides(shape, whole);
  std::vector<int64_t> place(whole.size(), 0);
  const size_t inner = whole.empty() ? 1 : static_cast<size_t>(whole.back());
  const int64_t inner_stride = whole.empty() ? 0 : strides.back();
  int64_t base = 0;
  for (size_t first = 0; first < count; first += inner) {
    for (size_t i = 0; i < inner; ++i) {
      indices[first + i] = base + static_cast<int64_t>(i) * inner_stride;
    }
    for (size_t dim = whole.size() > 1 ? whole.size() - 1 : 0; dim-- > 0;) {
      base += strides[dim];
      if (++place[dim] < whole[dim]) {
        break;
      }
      base -= strides[dim] * whole[dim];
      place[dim] = 0;
    }
  }
  return indices;
}

}  // namespace msprobe::reference
