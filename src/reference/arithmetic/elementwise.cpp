// Element by element. Errors travel by the derivative of the function; products of two errors and
// the curvature are covered by taking the larger derivative at both ends of the interval.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/reference/arithmetic/arithmetic.h"
#include "src/tensor/float_bits.h"

namespace msprobe::reference {

namespace {

constexpr size_t kBlockElements = size_t{1} << 15U;

std::shared_ptr<Tensor> NewTensor(Shape shape, bool with_error) {
  auto tensor = std::make_shared<Tensor>();
  tensor->shape = std::move(shape);
  const auto count = static_cast<size_t>(ElementCount(tensor->shape));
  tensor->value = Numbers::Unset(count);
  if (with_error) {
    tensor->error = Numbers::Unset(count);
  }
  return tensor;
}

// An operand, seen in the shape of the result.
class BroadcastOperand {
 public:
  struct Run {
    const double* value;
    const double* error;
  };
  // Memory for a run whose elements are not adjacent.
  struct Scratch {
    std::array<double, kRunElements> value;
    std::array<double, kRunElements> error;
  };

  BroadcastOperand(const Value& value, const Shape& whole) : tensor_(*value) {
    const Shape& shape = value->shape;
    if (shape == whole) {
      places_ = Places::kSame;
    } else if (value->size() == 1 || (shape.size() <= whole.size() &&
                                      std::equal(shape.rbegin(), shape.rend(), whole.rbegin()))) {
      places_ = Places::kRepeated;
    } else {
      places_ = Places::kIndexed;
      indices_ = BroadcastIndices(shape, whole);
    }
  }

  Run At(size_t first, size_t count, Scratch& scratch) const {
    if (places_ == Places::kSame) {
      return {tensor_.value.data() + first, tensor_.errors_from(first)};
    }
    size_t at = places_ == Places::kRepeated ? first % tensor_.size() : 0;
    for (size_t i = 0; i < count; ++i) {
      if (places_ == Places::kIndexed) {
        at = static_cast<size_t>(indices_[first + i]);
      }
      scratch.value[i] = tensor_.value[at];
      scratch.error[i] = tensor_.error_at(at);
      if (places_ == Places::kRepeated && ++at == tensor_.size()) {
        at = 0;
      }
    }
    return {scratch.value.data(), scratch.error.data()};
  }

 private:
  enum class Places {
    kSame,
    kRepeated,  // it is broadcast along dims in front of its own
    kIndexed,
  };
  const Tensor& tensor_;
  Places places_;
  std::vector<int64_t> indices_;
};

// Body over runs of [0, count).
template <typename Body>
void ForRuns(const Arithmetic& arithmetic, size_t count, const Body& body) {
  arithmetic.ForBlocks(count, [&](size_t first, size_t end) {
    for (; first < end; first += kRunElements) {
      body(first, std::min(kRunElements, end - first));
    }
  });
}

// f(x, ex, y, ey, error) -> value, for all elements of two broadcast operands.
template <typename F>
std::shared_ptr<Tensor> Combine(const Arithmetic& arithmetic, const Value& a, const Value& b,
                                const F& f) {
  const BroadcastShape whole = Broadcast(a->shape, b->shape);
  std::shared_ptr<Tensor> out = NewTensor(whole.shape, true);
  const BroadcastOperand left(a, whole.shape);
  const BroadcastOperand right(b, whole.shape);
  ForRuns(arithmetic, out->size(), [&](size_t first, size_t count) {
    BroadcastOperand::Scratch left_scratch;
    BroadcastOperand::Scratch right_scratch;
    const BroadcastOperand::Run x = left.At(first, count, left_scratch);
    const BroadcastOperand::Run y = right.At(first, count, right_scratch);
    double* const value = out->value.data() + first;
    double* const error = out->error.data() + first;
    for (size_t i = 0; i < count; ++i) {
      value[i] = f(x.value[i], x.error[i], y.value[i], y.error[i], error[i]);
    }
  });
  return out;
}

}  // namespace

void Arithmetic::ForBlocks(size_t count,
                           const std::function<void(size_t first, size_t end)>& body) const {
  const size_t blocks = (count + kBlockElements - 1) / kBlockElements;
  if (blocks < 2) {
    if (count > 0) {
      body(0, count);
    }
    return;
  }
  pool_.ParallelFor(blocks, [&](size_t block, size_t) {
    body(block * kBlockElements, std::min(count, (block + 1) * kBlockElements));
  });
}

Value Arithmetic::Finish(std::shared_ptr<Tensor> tensor, std::vector<Value> parents,
                         PassGradient pass_gradient) const {
  const bool wanted = taping_ && pass_gradient &&
                      std::any_of(parents.begin(), parents.end(), [](const Value& parent) {
                        return parent != nullptr && parent->wants_gradient;
                      });
  if (wanted) {
    tensor->parents = std::move(parents);
    tensor->pass_gradient = std::move(pass_gradient);
    tensor->wants_gradient = true;
  }
  return tensor;
}

Value Arithmetic::Fail(std::string reason) const {
  if (problem_.empty()) {
    problem_ = std::move(reason);
  }
  return nullptr;
}

double Arithmetic::Units(double units, const Term& term) const {
  if (term.is_free()) {
    return std::numeric_limits<double>::infinity();
  }
  return units > 0 ? units * rounding_.Step(term.magnitude) : 0.0;
}

bool Arithmetic::Affords(const Shape& shape) const {
  constexpr uint64_t kTimesLoaded = 64;
  constexpr uint64_t kFreeElements = uint64_t{1} << 20U;
  const uint64_t most = kFreeElements + kTimesLoaded * (loaded_ == nullptr ? 0 : *loaded_);
  uint64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (size > 0 && count > most / static_cast<uint64_t>(size))) {
      Fail("a tensor of shape " + ShapeText(shape) + " is out of proportion to what was captured");
      return false;
    }
    count *= static_cast<uint64_t>(size);
  }
  return true;
}

bool Arithmetic::Fit(const std::vector<Value>& operands) const {
  Shape whole;
  for (const Value& operand : operands) {
    if (operand == nullptr) {
      return false;
    }
    const BroadcastShape next = Broadcast(whole, operand->shape);
    if (!next.ok) {
      Fail("shapes " + ShapeText(whole) + " and " + ShapeText(operand->shape) + " do not fit");
      return false;
    }
    whole = next.shape;
  }
  return Affords(whole);
}

Value Arithmetic::Scalar(double number) const {
  double error = 0;
  if (std::isfinite(number)) {
    const double stored = tensor::RoundToDType(rounding_.storage, number);
    const double working = rounding_.storage == DType::kFloat64
                               ? number
                               : static_cast<double>(static_cast<float>(number));
    for (const double rounded : {stored, working}) {
      if (std::isfinite(rounded)) {
        error = std::max(error, std::fabs(rounded - number));
      }
    }
  }
  return MakeValue({}, {number}, error > 0 ? std::vector<double>{error} : std::vector<double>());
}

Value Arithmetic::Filled(const Shape& shape, double number) const {
  return MakeValue(shape, std::vector<double>(static_cast<size_t>(ElementCount(shape)), number));
}

Value Arithmetic::Stored(const Value& x) const {
  if (x == nullptr) {
    return nullptr;
  }
  auto out = std::make_shared<Tensor>();
  out->shape = x->shape;
  out->value = x->value.Shared();
  out->error = Numbers::Unset(x->size());
  ForRuns(*this, x->size(), [&](size_t first, size_t count) {
    const double* const value = x->value.data() + first;
    const double* const error = x->errors_from(first);
    double* const stored = out->error.data() + first;
    for (size_t i = 0; i < count; ++i) {
      stored[i] = error[i] + rounding_.Store(value[i]);
    }
  });
  return Finish(out, {x}, [](const Value& gradient) { return std::vector<Value>{gradient}; });
}

Value Arithmetic::GradientMayFlush(const Value& x) const {
  if (x == nullptr || !taping_ || !x->wants_gradient) {
    return x;
  }
  std::shared_ptr<Tensor> out = SameElements(*x, x->shape);
  out->is_inner = x->is_inner;
  return Finish(out, {x}, [this](const Value& gradient) {
    auto passed = std::make_shared<Tensor>(*gradient);
    if (passed->error.empty()) {
      passed->error = Numbers::Zeros(passed->size());
    }
    for (double& error : passed->error) {
      error += rounding_.working.normal;
    }
    return std::vector<Value>{passed};
  });
}

Value Arithmetic::Add(const Value& a, const Value& b) const {
  if (!Fit({a, b})) {
    return nullptr;
  }
  auto out = Combine(*this, a, b, [&](double x, double ex, double y, double ey, double& error) {
    const double sum = x + y;
    error = ex + ey + rounding_.Step(sum);
    return sum;
  });
  return Finish(out, {a, b}, [](const Value& gradient) {
    return std::vector<Value>{gradient, gradient};
  });
}

Value Arithmetic::Subtract(const Value& a, const Value& b) const {
  if (!Fit({a, b})) {
    return nullptr;
  }
  auto out = Combine(*this, a, b, [&](double x, double ex, double y, double ey, double& error) {
    const double difference = x - y;
    error = ex + ey + rounding_.Step(difference);
    return difference;
  });
  return Finish(out, {a, b}, [this](const Value& gradient) {
    return std::vector<Value>{gradient, Negate(gradient)};
  });
}

Value Arithmetic::Multiply(const Value& a, const Value& b) const {
  if (!Fit({a, b})) {
    return nullptr;
  }
  auto out = Combine(*this, a, b, [&](double x, double ex, double y, double ey, double& error) {
    const double product = x * y;
    error = rounding_.Step(product);
    if (ex > 0 || ey > 0) {
      error += std::fabs(x) * ey + ex * (std::fabs(y) + ey);
    }
    return product;
  });
  return Finish(out, {a, b}, [this, a, b](const Value& gradient) {
    return std::vector<Value>{a->wants_gradient ? Multiply(gradient, b) : nullptr,
                              b->wants_gradient ? Multiply(gradient, a) : nullptr};
  });
}

Value Arithmetic::Divide(const Value& a, const Value& b) const {
  if (!Fit({a, b})) {
    return nullptr;
  }
  // Twice the rounding: libraries multiply by the reciprocal, too.
  auto out = Combine(*this, a, b, [&](double x, double ex, double y, double ey, double& error) {
    const double quotient = x / y;
    error = 2 * rounding_.Step(quotient);
    if (ex > 0 || ey > 0) {
      const double room = std::fabs(y) - ey;
      error += room > 0 ? (ex + std::fabs(quotient) * ey) / room
                        : std::numeric_limits<double>::infinity();
    }
    return quotient;
  });
  return Finish(out, {a, b}, [this, a, b](const Value& gradient) {
    std::vector<Value> passed(2);
    if (a->wants_gradient) {
      passed[0] = Divide(gradient, b);
    }
    if (b->wants_gradient) {
      passed[1] = Negate(Divide(Multiply(gradient, Stored(Divide(a, b))), b));
    }
    return passed;
  });
}

Value Arithmetic::Negate(const Value& x) const { return Scale(x, -1); }

Value Arithmetic::Scale(const Value& x, double factor) const {
  if (x == nullptr) {
    return nullptr;
  }
  const bool is_exact = std::fabs(factor) == 1;
  std::shared_ptr<Tensor> out = NewTensor(x->shape, !is_exact || !x->is_exact());
  ForRuns(*this, x->size(), [&](size_t first, size_t count) {
    const double* const from = x->value.data() + first;
    double* const value = out->value.data() + first;
    for (size_t i = 0; i < count; ++i) {
      value[i] = from[i] * factor;
    }
    if (out->is_exact()) {
      return;
    }
    const double* const error = x->errors_from(first);
    double* const scaled = out->error.data() + first;
    for (size_t i = 0; i < count; ++i) {
      scaled[i] = error[i] * std::fabs(factor) + (is_exact ? 0 : 2 * rounding_.Step(value[i]));
    }
  });
  return Finish(out, {x}, [this, factor](const Value& gradient) {
    return std::vector<Value>{Scale(gradient, factor)};
  });
}

Value Arithmetic::Where(const Value& condition, const Value& a, const Value& b) const {
  if (!Fit({condition, a, b})) {
    return nullptr;
  }
  const Shape whole = Broadcast(Broadcast(condition->shape, a->shape).shape, b->shape).shape;
  const BroadcastOperand choice(condition, whole);
  const BroadcastOperand left(a, whole);
  const BroadcastOperand right(b, whole);
  std::shared_ptr<Tensor> out = NewTensor(whole, !a->is_exact() || !b->is_exact());
  ForRuns(*this, out->size(), [&](size_t first, size_t count) {
    std::array<BroadcastOperand::Scratch, 3> scratch;
    const BroadcastOperand::Run chosen = choice.At(first, count, scratch[0]);
    const BroadcastOperand::Run x = left.At(first, count, scratch[1]);
    const BroadcastOperand::Run y = right.At(first, count, scratch[2]);
    for (size_t i = 0; i < count; ++i) {
      const BroadcastOperand::Run& from = chosen.value[i] != 0 ? x : y;
      out->value[first + i] = from.value[i];
      if (!out->error.empty()) {
        out->error[first + i] = from.error[i];
      }
    }
  });
  return Finish(out, {a, b}, [this, condition](const Value& gradient) {
    const Value zero = Filled({}, 0);
    return std::vector<Value>{Where(condition, gradient, zero), Where(condition, zero, gradient)};
  });
}

namespace {

// How far f may be off at x that is known to `error`: by the larger derivative of both ends and the
// middle. An end at which f' is not a number counts as unknown.
double Travelled(const Arithmetic::Function& derivative, double x, double error) {
  if (!(error > 0)) {
    return 0;
  }
  double steepest = 0;
  for (const double at : {x - error, x, x + error}) {
    const double slope = std::fabs(derivative(at).value);
    if (std::isnan(slope)) {
      return std::numeric_limits<double>::infinity();
    }
    steepest = std::max(steepest, slope);
  }
  return 1.05 * steepest * error;
}

}  // namespace

Value Arithmetic::Map(const Value& x, const Function& f, const Function& derivative,
                      double units) const {
  if (x == nullptr) {
    return nullptr;
  }
  const double allowed = units < 0 ? rounding_.function_units : units;
  const bool with_error = allowed > 0 || !x->is_exact();  // without: nothing is free, either
  std::shared_ptr<Tensor> out = NewTensor(x->shape, with_error);
  ForBlocks(x->size(), [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const Term term = f(x->value[i]);
      out->value[i] = term.value;
      if (with_error) {
        out->error[i] = Units(allowed, term);
        if (derivative) {
          out->error[i] += Travelled(derivative, x->value[i], x->error_at(i));
        }
      }
    }
  });
  if (!derivative) {
    return out;
  }
  return Finish(out, {x}, [this, x, f, derivative, allowed](const Value& gradient) {
    // f' of x: its own change over the error of x, and its rounding. Where it is the result itself
    // (exp, sigmoid), the stored one is used by some: the storage type's rounding.
    std::shared_ptr<Tensor> slope = NewTensor(x->shape, true);
    ForBlocks(x->size(), [&](size_t first, size_t end) {
      for (size_t i = first; i < end; ++i) {
        const Term term = derivative(x->value[i]);
        slope->value[i] = term.value;
        slope->error[i] =
            Units(allowed, term) + (allowed > 0 ? rounding_.Store(term.magnitude) : 0);
        if (allowed > 0 &&
            rounding_.MayOverflow([&] { return f(x->value[i]).value; }, term.value)) {
          slope->error[i] = std::numeric_limits<double>::infinity();
        }
        if (const double error = x->error_at(i); error > 0) {
          slope->error[i] +=
              1.05 * std::max(std::fabs(derivative(x->value[i] + error).value - term.value),
                              std::fabs(derivative(x->value[i] - error).value - term.value));
        }
      }
    });
    return std::vector<Value>{Multiply(gradient, slope)};
  });
}

Value Arithmetic::Zip(const Value& a, const Value& b, const Function2& f, const Function2& by_a,
                      const Function2& by_b, double units) const {
  if (!Fit({a, b})) {
    return nullptr;
  }
  const double allowed = units < 0 ? rounding_.function_units : units;
  const auto travelled = [&](double x, double ex, double y, double ey) {
    double error = 0;
    if (ex > 0 && by_a) {
      error += Travelled([&](double at) { return by_a(at, y); }, x, ex);
    }
    if (ey > 0 && by_b) {
      error += Travelled([&](double at) { return by_b(x, at); }, y, ey);
    }
    return error;
  };
  auto out = Combine(*this, a, b, [&](double x, double ex, double y, double ey, double& error) {
    const Term term = f(x, y);
    error = Units(allowed, term) + travelled(x, ex, y, ey);
    return term.value;
  });
  if (!by_a && !by_b) {
    return out;
  }
  return Finish(out, {a, b}, [this, a, b, f, by_a, by_b, allowed](const Value& gradient) {
    const auto slope = [&](const Function2& by) -> Value {
      return Combine(*this, a, b, [&](double x, double ex, double y, double ey, double& error) {
        const Term term = by(x, y);
        error = Units(allowed, term) + (allowed > 0 ? rounding_.Store(term.magnitude) : 0);
        if (allowed > 0 && rounding_.MayOverflow([&] { return f(x, y).value; }, term.value)) {
          error = std::numeric_limits<double>::infinity();
        }
        if (ex > 0) {
          error += std::fabs(by(x + ex, y).value - term.value) +
                   std::fabs(by(x - ex, y).value - term.value);
        }
        if (ey > 0) {
          error += std::fabs(by(x, y + ey).value - term.value) +
                   std::fabs(by(x, y - ey).value - term.value);
        }
        return term.value;
      });
    };
    return std::vector<Value>{
        by_a && a->wants_gradient ? Multiply(gradient, slope(by_a)) : nullptr,
        by_b && b->wants_gradient ? Multiply(gradient, slope(by_b)) : nullptr};
  });
}

bool IsFloat(DType dtype) { return GetDTypeInfo(dtype).kind == DTypeKind::kFloat; }

Rounding Rounding::Of(DType storage, bool steps) {
  Rounding rounding;
  rounding.storage = storage;
  rounding.stored = FormatOf(storage);
  const bool is_narrow = IsFloat(storage) && DTypeSize(storage) < DTypeSize(DType::kFloat32);
  rounding.working =
      !IsFloat(storage) || (is_narrow && !steps) ? FormatOf(DType::kFloat32) : rounding.stored;
  rounding.unit = storage == DType::kFloat64 ? 2 * rounding.working.unit : rounding.working.unit;
  return rounding;
}

}  // namespace msprobe::reference
