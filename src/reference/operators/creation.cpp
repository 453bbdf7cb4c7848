// Tensors of constants, and embedding and dropout, which choose among values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "src/dump/dump_file.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {

namespace {

// The shape is that of the captured output: what is checked are the values.
const CapturedTensor* OnlyOutput(Call& call) {
  if (call.outputs().size() != 1 || call.outputs()[0].value == nullptr) {
    call.Fail("its output was not saved");
    return nullptr;
  }
  return &call.outputs()[0];
}

template <int kNumber>
Values Constant(Call& call, const Arithmetic& m) {
  const CapturedTensor* output = OnlyOutput(call);
  return {output == nullptr ? nullptr : m.Filled(output->value->shape, kNumber)};
}

Values FilledWith(Call& call, const Arithmetic& m, double number) {
  const CapturedTensor* output = OnlyOutput(call);
  if (output == nullptr) {
    return {nullptr};
  }
  return {m.Expand(m.Scalar(number), output->value->shape)};
}
Values Full(Call& call, const Arithmetic& m) {
  return FilledWith(call, m, call.Number(1, "fill_value"));
}
Values Fill(Call& call, const Arithmetic& m) {
  return FilledWith(call, m, call.Number(1, "value"));
}

Values Range(Call& call, const Arithmetic& m) {
  const CapturedTensor* output = OnlyOutput(call);
  const size_t count = call.ArgumentCount();
  const double start = count < 2 && !call.Has(0, "start") ? 0 : call.Number(0, "start");
  const double first = count == 1 ? 0 : start;
  const double step = call.Number(2, "step", 1);
  if (output == nullptr) {
    return {nullptr};
  }
  std::vector<double> values(output->value->size());
  std::vector<double> error(values.size(), 0);
  const bool whole = std::floor(first) == first && std::floor(step) == step;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = first + static_cast<double>(i) * step;
    // Whole numbers are exact as far as the type has all of them.
    error[i] = whole && std::fabs(values[i]) * m.rounding().unit <= 1
                   ? 0
                   : 3 * m.rounding().Step(std::fabs(first) + std::fabs(values[i] - first));
  }
  return {MakeValue(output->value->shape, std::move(values), std::move(error))};
}

Values Embedding(Call& call, const Arithmetic& m) {
  const Value indices = call.Tensor(0, "input");
  const Value weight = call.Tensor(1, "weight");
  const double padding = call.Number(2, "padding_idx", -1e18);
  const bool by_frequency = call.Bool(5, "scale_grad_by_freq", false);
  if (call.Has(3, "max_norm")) {
    return {call.Fail("max_norm changes the weights")};
  }
  if (call.failed() || weight->shape.size() != 2) {
    return {call.Fail("the weight is not a matrix")};
  }
  const int64_t rows = weight->shape[0];
  const int64_t width = weight->shape[1];
  Shape shape = indices->shape;
  shape.push_back(width);
  if (!m.Affords(shape)) {
    return {nullptr};
  }
  std::vector<int64_t> places(static_cast<size_t>(ElementCount(shape)));
  std::vector<double> is_trained(indices->size(), 1);
  for (size_t i = 0; i < indices->size(); ++i) {
    const double row = indices->value[i];
    if (!(row >= 0 && row < static_cast<double>(rows))) {
      return {call.Fail(fmt::format("index {} is beyond the {} rows of the weight", row, rows))};
    }
    is_trained[i] = row == (padding < 0 ? padding + static_cast<double>(rows) : padding) ? 0 : 1;
    for (int64_t j = 0; j < width; ++j) {
      places[i * static_cast<size_t>(width) + static_cast<size_t>(j)] =
          static_cast<int64_t>(row) * width + j;
    }
  }
  const Value taken = m.Take({weight}, shape, std::move(places));
  if (!m.taping() || (padding < -1e17 && !by_frequency) || taken == nullptr) {
    return {taken};
  }
  if (by_frequency) {
    std::map<double, double> counts;
    for (const double row : indices->value) {
      counts[row] += 1;
    }
    for (size_t i = 0; i < is_trained.size(); ++i) {
      is_trained[i] /= counts[indices->value[i]];
    }
  }
  // Rows of the padding index get no gradient, others by scale_grad_by_freq a share of it.
  Shape column = indices->shape;
  column.push_back(1);
  const Value mask = MakeValue(column, std::move(is_trained));
  auto masked = std::make_shared<Tensor>();
  masked->shape = taken->shape;
  masked->value = taken->value.Shared();
  return {m.Finish(masked, {taken}, [&m, mask, by_frequency](const Value& gradient) {
    const Value shared = by_frequency ? m.Multiply(gradient, mask) : gradient;
    return Values{m.Where(mask, shared, m.Filled({}, 0))};
  })};
}

// The output shows which elements were kept, except for elements that were 0: nothing is known
// about their gradients.
Value DropoutWithGradient(const Arithmetic& m, const Value& x, std::vector<double> kept,
                          double share) {
  auto out = std::make_shared<Tensor>();
  out->shape = x->shape;
  out->value = x->value.Shared();
  std::vector<double> unknown(x->size(), 0);
  for (size_t i = 0; i < unknown.size(); ++i) {
    unknown[i] = kept[i] == 0 && x->value[i] == 0 ? std::numeric_limits<double>::infinity() : 0.0;
  }
  const Value mask = MakeValue(x->shape, std::move(kept), std::move(unknown));
  return m.Finish(out, {x}, [&m, mask, share](const Value& gradient) {
    const Value scaled = share > 0 ? m.Divide(gradient, m.Scalar(share)) : gradient;
    return Values{m.Multiply(scaled, mask)};
  });
}

// Every element is either 0 or x / (1 - p); how many are 0 must be what p makes likely. In double
// precision no coin is off by more than seven standard deviations in any dump that was ever made.
Values Dropout(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const double p = call.Number(1, "p", 0.5);
  const bool training = call.Bool(2, "training", true);
  if (x == nullptr || !training || p == 0) {
    return {x};
  }
  const CapturedTensor* output = OnlyOutput(call);
  if (output == nullptr || output->value->shape != x->shape || !(p > 0 && p <= 1)) {
    return {call.Fail("dropout of unusual arguments")};
  }
  std::vector<double> kept(x->size());
  size_t zeros = 0;
  size_t counted = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    kept[i] = output->value->value[i] != 0 ? 1 : 0;
    if (x->value[i] != 0) {
      ++counted;
      zeros += kept[i] == 0 ? 1 : 0;
    }
  }
  const auto n = static_cast<double>(counted);
  if (std::fabs(static_cast<double>(zeros) - n * p) > 7 * std::sqrt(n * p * (1 - p)) + 1) {
    // As if nothing had been dropped: the zeros are beyond their bounds.
    kept.assign(kept.size(), 1);
  }
  if (m.taping()) {
    return {DropoutWithGradient(m, x, std::move(kept), 1 - p)};
  }
  const Value mask = MakeValue(x->shape, std::move(kept));
  const Value scaled = p < 1 ? m.Divide(x, m.Scalar(1 - p)) : x;
  return {m.Where(mask, scaled, m.Filled({}, 0))};
}

}  // namespace

OperatorList CreationOperators() {
  return {
      {"zeros zeros_like new_zeros zero", Constant<0>},
      {"ones ones_like new_ones", Constant<1>},
      {"full full_like new_full", Full},
      {"fill", Fill},
      {"arange", Range, Rounds::kSteps},
      {"embedding", Embedding},
      {"dropout", Dropout},
  };
}

// The same operation on every tensor of a list (_foreach_add, _foreach_norm, ...), as optimizers
// and the clipping of gradients make them.

namespace {

// An operand for each of `count` tensors: a list of tensors or numbers, or one for all.
Values ForEach(Call& call, const Arithmetic& m, size_t position, std::string_view name,
               size_t count) {
  const uint32_t index = call.Find(position, name);
  Values operands;
  if (index != dump::EntryTree::kNone && call.tree()[index].kind == dump::NodeKind::kList) {
    call.tree().ForEachChild(index, [&](uint32_t child) {
      if (dump::IsTensorLeaf(call.tree(), child)) {
        operands.push_back(call.TensorAt(child, name));
      } else if (const std::optional<double> number = call.NumberAt(child)) {
        operands.push_back(m.Scalar(*number));
      }
    });
  } else {
    const Value all = Operand(call, m, position, name);
    if (all != nullptr && !all->shape.empty()) {
      call.Fail("its operand is neither a list nor one number for all of its tensors");
    }
    operands.assign(count, all);
  }
  if (operands.size() != count) {
    call.Fail("its lists do not fit each other");
    operands.resize(count);
  }
  return operands;
}

using OfOne = Value (*)(const Arithmetic& m, const Value& x);
using OfTwo = Value (*)(const Arithmetic& m, const Value& x, const Value& y);
using OfThree = Value (*)(const Arithmetic& m, const Value& x, const Value& y, const Value& z);

template <OfOne kOperation>
Values Each(Call& call, const Arithmetic& m) {
  Values results = call.Tensors(0, "self");
  for (Value& x : results) {
    x = kOperation(m, x);
  }
  return results;
}

// With alpha times the second where it is given.
template <OfTwo kOperation>
Values Each(Call& call, const Arithmetic& m) {
  Values results = call.Tensors(0, "self");
  const Values others = ForEach(call, m, 1, "other", results.size());
  const double alpha = call.Number(2, "alpha", 1);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] =
        kOperation(m, results[i], alpha == 1 ? others[i] : m.Multiply(others[i], m.Scalar(alpha)));
  }
  return results;
}

// x + value y z, or x + value y / z.
template <OfThree kOperation>
Values Each(Call& call, const Arithmetic& m) {
  Values results = call.Tensors(0, "self");
  const Values first = ForEach(call, m, 1, "tensor1", results.size());
  const Values second = ForEach(call, m, 2, "tensor2", results.size());
  const std::string_view name = call.Has(3, "scalars") ? "scalars" : "value";
  const Values factors = call.Has(3, name) ? ForEach(call, m, 3, name, results.size())
                                           : Values(results.size(), m.Filled({}, 1));
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = m.Add(results[i], kOperation(m, first[i], second[i], factors[i]));
  }
  return results;
}

Value SumOfTwo(const Arithmetic& m, const Value& x, const Value& y) { return m.Add(x, y); }
Value DifferenceOf(const Arithmetic& m, const Value& x, const Value& y) { return m.Subtract(x, y); }
Value ProductOf(const Arithmetic& m, const Value& x, const Value& y) { return m.Multiply(x, y); }
Value QuotientOf(const Arithmetic& m, const Value& x, const Value& y) { return m.Divide(x, y); }
Value LargerOf(const Arithmetic& m, const Value& x, const Value& y) {
  return ExtremeOfTwo(m, x, y, true);
}
Value SmallerOf(const Arithmetic& m, const Value& x, const Value& y) {
  return ExtremeOfTwo(m, x, y, false);
}
Value ScaledProduct(const Arithmetic& m, const Value& y, const Value& z, const Value& factor) {
  return m.Multiply(m.Multiply(factor, y), z);
}
Value ScaledQuotient(const Arithmetic& m, const Value& y, const Value& z, const Value& factor) {
  return m.Divide(m.Multiply(factor, y), z);
}
Value MagnitudeOf(const Arithmetic& m, const Value& x) {
  return m.Map(
      x, [](double v) { return Term(std::fabs(v)); }, nullptr, 0);
}
Value NegativeOf(const Arithmetic& m, const Value& x) { return m.Negate(x); }
Value ReciprocalOf(const Arithmetic& m, const Value& x) { return m.Divide(m.Filled({}, 1), x); }
Value SquareRootOf(const Arithmetic& m, const Value& x) {
  return m.Map(
      x, [](double v) { return Term(std::sqrt(v)); }, nullptr);
}

// _foreach_norm(tensors, ord=2)
Values NormOfEach(Call& call, const Arithmetic& m) {
  Values results = call.Tensors(0, "self");
  const double order = call.Number(1, "ord", 2);
  for (Value& x : results) {
    const Value magnitudes = call.failed() ? nullptr : MagnitudeOf(m, x);
    if (magnitudes == nullptr || !(order == 1 || order == 2 || (std::isinf(order) && order > 0))) {
      return {call.Fail("norms of this order are not recomputed")};
    }
    std::vector<int64_t> dims(x->shape.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      dims[i] = static_cast<int64_t>(i);
    }
    if (order == 2) {
      x = RootOfSquares(m, m.Sum(m.Multiply(x, x), dims, false));
    } else if (order == 1) {
      x = m.Sum(magnitudes, dims, false);
    } else {
      double largest = 0;
      for (const double v : magnitudes->value) {
        largest = std::isnan(v) || v > largest ? v : largest;
      }
      x = m.Filled({}, largest);
    }
  }
  return results;
}

void NeedsResults(Call& call) {
  if (call.outputs().empty()) {
    call.Fail(
        "it changes its arguments and returns nothing: the dump has them as they were before");
  }
}

}  // namespace

OperatorList ListOperators() {
  const auto row = [](std::string_view names, Recompute recompute) {
    return Operator{names, recompute, Rounds::kSteps, NeedsResults};
  };
  return {
      row("_foreach_add", Each<SumOfTwo>),
      row("_foreach_sub", Each<DifferenceOf>),
      row("_foreach_mul", Each<ProductOf>),
      row("_foreach_div", Each<QuotientOf>),
      row("_foreach_maximum _foreach_clamp_min", Each<LargerOf>),
      row("_foreach_minimum _foreach_clamp_max", Each<SmallerOf>),
      row("_foreach_addcmul", Each<ScaledProduct>),
      row("_foreach_addcdiv", Each<ScaledQuotient>),
      row("_foreach_abs", Each<MagnitudeOf>),
      row("_foreach_neg", Each<NegativeOf>),
      row("_foreach_reciprocal", Each<ReciprocalOf>),
      row("_foreach_sqrt", Each<SquareRootOf>),
      row("_foreach_norm", NormOfEach),
  };
}

}  // namespace msprobe::reference
