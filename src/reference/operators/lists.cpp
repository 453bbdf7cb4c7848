// The same operation on every tensor of a list (_foreach_add, _foreach_norm, ...), as optimizers
// and the clipping of gradients make them.
#include <algorithm>
#include <cmath>
#include <optional>

#include "src/dump/dump_file.h"
#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
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
