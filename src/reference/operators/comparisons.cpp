// Truth values and choices: exact.
#include <cmath>

#include "src/reference/operators/arguments.h"
#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

struct Equal {
  bool operator()(double x, double y) const { return x == y; }
};
struct Unequal {
  bool operator()(double x, double y) const { return x != y; }
};
struct Less {
  bool operator()(double x, double y) const { return x < y; }
};
struct LessOrEqual {
  bool operator()(double x, double y) const { return x <= y; }
};
struct Greater {
  bool operator()(double x, double y) const { return x > y; }
};
struct GreaterOrEqual {
  bool operator()(double x, double y) const { return x >= y; }
};

// A number beside a tensor may be rounded to its type: elements that are so near stay open.
template <typename Relation>
Values Compared(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  const Value result = m.Zip(
      a, b, [](double x, double y) { return Term(Relation()(x, y) ? 1 : 0); }, nullptr, nullptr, 0);
  if (result == nullptr || (a->is_exact() && b->is_exact())) {
    return {result};
  }
  const Value distance = m.Subtract(a, b);
  std::vector<double> error(result->size());
  for (size_t i = 0; i < error.size(); ++i) {
    error[i] = std::fabs(distance->value[i]) <= distance->error_at(i) ? 1 : 0;
  }
  return {MakeValue(result->shape, result->value, std::move(error))};
}

template <bool (*kTruth)(bool, bool)>
Values Logical(Call& call, const Arithmetic& m) {
  return {m.Zip(
      call.Tensor(0, "input"), call.Tensor(1, "other"),
      [](double x, double y) { return Term(kTruth(x != 0, y != 0) ? 1 : 0); }, nullptr, nullptr,
      0)};
}
bool Both(bool x, bool y) { return x && y; }
bool Either(bool x, bool y) { return x || y; }
bool One(bool x, bool y) { return x != y; }

// Of bools, which is how masks are made; integers are left alone.
template <bool (*kTruth)(bool, bool)>
Values BitsOfBools(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  const Value b = call.Tensor(1, "other");
  if (call.DTypeOf(a) != DType::kBool || call.DTypeOf(b) != DType::kBool) {
    return {call.Fail("bits of integers")};
  }
  return Logical<kTruth>(call, m);
}

template <bool (*kTruth)(double)>
Values Asked(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(kTruth(x) ? 1 : 0); }, nullptr, 0)};
}
bool IsZero(double x) { return x == 0; }
bool IsNan(double x) { return std::isnan(x); }
bool IsInfinite(double x) { return std::isinf(x); }
bool IsFinite(double x) { return std::isfinite(x); }

Values InvertedBools(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  if (call.DTypeOf(x) != DType::kBool) {
    return {call.Fail("bits of integers")};
  }
  return Asked<IsZero>(call, m);
}

Values Choice(Call& call, const Arithmetic& m) {
  const bool is_method =
      call.IsTensor(0, "condition") && call.DTypeOf(call.Tensor(0, "condition")) != DType::kBool &&
      call.IsTensor(1, "condition") && call.DTypeOf(call.Tensor(1, "condition")) == DType::kBool;
  if (is_method) {  // x.where(condition, other)
    const Value condition = call.Tensor(1, "condition");
    return {m.Where(condition, call.Tensor(0, "input"), Operand(call, m, 2, "other"))};
  }
  const Value condition = call.Tensor(0, "condition");
  return {m.Where(condition, Operand(call, m, 1, "input"), Operand(call, m, 2, "other"))};
}

Values MaskedFill(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value mask = call.Tensor(1, "mask");
  return {m.Where(mask, Operand(call, m, 2, "value"), x)};
}

}  // namespace

OperatorList ComparisonOperators() {
  return {
      {"eq equal", Compared<Equal>},
      {"ne not_equal", Compared<Unequal>},
      {"lt less", Compared<Less>},
      {"le less_equal", Compared<LessOrEqual>},
      {"gt greater", Compared<Greater>},
      {"ge greater_equal", Compared<GreaterOrEqual>},
      {"logical_and", Logical<Both>},
      {"logical_or", Logical<Either>},
      {"logical_xor", Logical<One>},
      {"logical_not", Asked<IsZero>},
      {"bitwise_and and iand", BitsOfBools<Both>},
      {"bitwise_or or ior", BitsOfBools<Either>},
      {"bitwise_xor xor ixor", BitsOfBools<One>},
      {"bitwise_not invert", InvertedBools},
      {"isnan", Asked<IsNan>},
      {"isinf", Asked<IsInfinite>},
      {"isfinite", Asked<IsFinite>},
      {"where", Choice},
      {"masked_fill", MaskedFill},
  };
}

}  // namespace msprobe::reference
