// Copies, whose bits must agree, and casts, which round to nearest.
#include <cmath>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"
#include "src/tensor/float_bits.h"

namespace msprobe::reference {
namespace {

Values Copied(Call& call, const Arithmetic&) { return {call.Tensor(0, "input")}; }

// A copy of its own, which autograd knows.
Values Cloned(Call& call, const Arithmetic& m) { return {m.Scale(call.Tensor(0, "input"), 1)}; }

// What casting rounds to: the type of the captured output.
Values Cast(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr || call.outputs().size() != 1) {
    return {x};
  }
  const DType to = call.outputs()[0].dtype;
  const std::optional<DType> from = call.DTypeOf(x);
  const std::optional<DType> asked = DTypeArgument(call, 1, "dtype");
  if (asked && *asked != to) {
    return {call.Fail("its output is not of the dtype that was asked for")};
  }
  if (from == to) {
    return {x};
  }
  const bool may_round_twice = DTypeSize(to) < 4 && from && DTypeSize(*from) > 4 &&
                               GetDTypeInfo(*from).kind != DTypeKind::kBool;
  return {m.Map(
      x,
      [=](double value) {
        if (to == DType::kBool) {
          return Term(value != 0 ? 1 : 0);
        }
        if (!IsFloat(to)) {
          return Term(std::trunc(value));
        }
        const double rounded = to == DType::kFloat64 || to == DType::kFloat32 ||
                                       to == DType::kFloat16 || to == DType::kBFloat16
                                   ? tensor::RoundToDType(to, value)
                                   : value;
        return Term(rounded, may_round_twice ? std::fabs(rounded) : 0);
      },
      [](double) { return Term(1); }, 0)};
}

}  // namespace

OperatorList CopyOperators() {
  return {
      {"clone", Cloned},
      {"contiguous detach alias identity copy requires_grad cpu cuda npu", Copied},
      {"to float double half bfloat16 int long short bool type cast type_as", Cast},
  };
}

}  // namespace msprobe::reference
