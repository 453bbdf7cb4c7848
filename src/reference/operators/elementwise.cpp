// Arithmetic and functions of single elements. Broadcasting and the type of the result are the
// framework's; numbers beside tensors may be rounded to the tensor's type.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

constexpr double kPi = std::numbers::pi;

// Errors of functions on GPUs, in units, where they exceed those elsewhere: twice the ulps that
// NVIDIA, CUDA C++ Programming Guide 12, section 17.1, table 17 has for single precision.
constexpr int kThreeUlps = 6;  // sinh, asinh, atanh, atan2
constexpr int kFourUlps = 8;   // tan, acosh, erfc, pow
constexpr int kUsual = -1;     // as of all functions

// A function of one tensor.
template <double (*kFunction)(double), double (*kDerivative)(double), int kUnits = kUsual>
Values Unary(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(kFunction(x)); },
      [](double x) { return Term(kDerivative(x)); }, kUnits)};
}

// One whose derivative is computed in steps that cancel, or that enlarge an error.
template <double (*kFunction)(double), Term (*kDerivative)(double), int kUnits = kUsual>
Values Unary(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(kFunction(x)); }, kDerivative, kUnits)};
}

// One that is exact, such as rounding to whole numbers: its gradient is 0.
template <double (*kFunction)(double)>
Values Exact(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(kFunction(x)); },
      [](double) { return Term(0); }, 0)};
}

double Square(double x) { return x * x; }
double SquareSlope(double x) { return 2 * x; }
double InverseRoot(double x) { return 1 / std::sqrt(x); }
double InverseRootSlope(double x) { return -0.5 / (x * std::sqrt(x)); }
double RootSlope(double x) { return 0.5 / std::sqrt(x); }
double Inverse(double x) { return 1 / x; }
double InverseSlope(double x) { return -1 / (x * x); }
double LogSlope(double x) { return 1 / x; }
double Log2Slope(double x) { return 1 / (x * std::numbers::ln2); }
double Log10Slope(double x) { return 1 / (x * std::numbers::ln10); }
double Log1pSlope(double x) { return 1 / (1 + x); }
double Exp2Slope(double x) { return std::exp2(x) * std::numbers::ln2; }
double TanSlope(double x) { return 1 + std::tan(x) * std::tan(x); }
double MinusSin(double x) { return -std::sin(x); }
// 1 - x^2 is off by units of 1.
Term AsinSlope(double x) {
  const double rest = 1 - x * x;
  const double slope = 1 / std::sqrt(rest);
  return {slope, slope / rest};
}
Term AcosSlope(double x) {
  const Term slope = AsinSlope(x);
  return {-slope.value, slope.magnitude};
}
double AtanSlope(double x) { return 1 / (1 + x * x); }
double AsinhSlope(double x) { return 1 / std::sqrt(1 + x * x); }
Term AcoshSlope(double x) {
  const double rest = x * x - 1;
  const double slope = 1 / std::sqrt(rest);
  return {slope, slope * x * x / rest};
}
Term AtanhSlope(double x) {
  const double slope = 1 / (1 - x * x);
  return {slope, slope * slope};
}
// exp passes the rounding of x^2 on.
Term ErfSlope(double x) {
  const double slope = 2 / std::sqrt(kPi) * std::exp(-x * x);
  return {slope, slope * (1 + x * x)};
}
Term ErfcSlope(double x) {
  const Term slope = ErfSlope(x);
  return {-slope.value, slope.magnitude};
}
// From the stored result y: y + 1.
Term Expm1Slope(double x) { return {std::exp(x), 1 + std::fabs(std::expm1(x))}; }
double Sign(double x) { return std::isnan(x) ? 0.0 : (x > 0) - (x < 0); }
double Fraction(double x) { return x - std::trunc(x); }

Values FractionOf(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(Fraction(x)); },
      [](double) { return Term(1); }, 0)};
}

Values Absolute(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(std::fabs(x)); },
      [](double x) { return Term(Sign(x)); }, 0)};
}

Values Negative(Call& call, const Arithmetic& m) { return {m.Negate(call.Tensor(0, "input"))}; }
Values Positive(Call& call, const Arithmetic&) { return {call.Tensor(0, "input")}; }

// b, times `alpha` where it is given.
Value WithAlpha(Call& call, const Arithmetic& m, const Value& b) {
  const double alpha = call.Number(2, "alpha", 1);
  return alpha == 1 ? b : m.Multiply(b, m.Scalar(alpha));
}

Values Plus(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  return {m.Add(a, WithAlpha(call, m, b))};
}
Values Minus(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  return {m.Subtract(a, WithAlpha(call, m, b))};
}
Values MinusFrom(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  return {m.Subtract(b, WithAlpha(call, m, a))};
}
Values Times(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  return {m.Multiply(a, b)};
}

Value Quotient(Call& call, const Arithmetic& m, const Value& a, const Value& b,
               std::string_view mode) {
  if (mode.empty()) {
    return m.Divide(a, b);
  }
  // The jump of rounding: only where both sides are exact, and not within an error of a whole
  // number.
  const bool down = mode == "floor";
  const double unit = m.rounding().stored.unit;
  const Value whole = m.Zip(
      a, b,
      [down](double x, double y) { return Term(down ? std::floor(x / y) : std::trunc(x / y)); },
      nullptr, nullptr, 0);
  if (whole == nullptr || unit == 0) {
    return whole;
  }
  const Value plain = m.Zip(
      a, b, [](double x, double y) { return Term(x / y); }, nullptr, nullptr, 0);
  std::vector<double> error(whole->size(), 0);
  for (size_t i = 0; i < error.size(); ++i) {
    const double quotient = plain->value[i];
    const double near = std::nearbyint(quotient);
    if (std::fabs(quotient - near) <= 4 * unit * std::max(1.0, std::fabs(quotient))) {
      error[i] = 1;
    }
  }
  (void)call;
  return MakeValue(whole->shape, whole->value.Shared(), std::move(error));
}
Values Over(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  return {Quotient(call, m, a, b, call.Text(2, "rounding_mode", ""))};
}
Values UnderTensor(Call& call, const Arithmetic& m) {  // __rtruediv__
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  // PyTorch multiplies by the reciprocal.
  const Value reciprocal = m.Map(
      a, [](double x) { return Term(Inverse(x)); }, [](double x) { return Term(InverseSlope(x)); },
      1);
  return {m.Multiply(m.Stored(reciprocal), b)};
}
Values FloorDivide(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  return {Quotient(call, m, a, b, "floor")};
}

template <bool kMax>
Values Extreme(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  return {ExtremeOfTwo(m, a, call.Tensor(1, "other"), kMax)};
}

Term PowerTerm(double x, double y) { return {std::pow(x, y)}; }
Term PowerByBase(double x, double y) { return y == 0 ? Term(0) : Term(y * std::pow(x, y - 1)); }
Term PowerByExponent(double x, double y) {
  const double power = std::pow(x, y);
  return x == 0 && y >= 0 ? Term(0) : Term(power * std::log(x));
}

Value PowerOf(const Arithmetic& m, const Value& base, const Value& exponent) {
  // pow is exp(y log x): an error of the logarithm grows with the result's logarithm.
  return m.Zip(base, exponent, PowerTerm, PowerByBase, PowerByExponent, kFourUlps);
}
Values Power(Call& call, const Arithmetic& m) {
  const Value base = Operand(call, m, 0, "input");
  const Value exponent = Operand(call, m, 1, "exponent");
  return {PowerOf(m, base, exponent)};
}
Values PowerFrom(Call& call, const Arithmetic& m) {  // __rpow__
  const Value exponent = Operand(call, m, 0, "input");
  const Value base = Operand(call, m, 1, "other");
  return {PowerOf(m, base, exponent)};
}

Values ArcTangent2(Call& call, const Arithmetic& m) {
  const Value y = call.Tensor(0, "input");
  const Value x = call.Tensor(1, "other");
  return {m.Zip(
      y, x, [](double a, double b) { return Term(std::atan2(a, b)); },
      [](double a, double b) { return Term(b / (a * a + b * b)); },
      [](double a, double b) { return Term(-a / (a * a + b * b)); }, kThreeUlps)};
}

// The remainder of floats is exact (fmod), or off by the division's rounding times the divisor
// (x - y floor(x / y)), which is all of it where the quotient has more digits than the type.
//
// The divisor's gradient has the whole quotient, which may be rounded over a whole number in the
// type of the tensors: it is off by as many as there are within 8 units. One that the type has no
// number for says nothing of its product with the gradient that comes in.
template <bool kFloor>
Term WholeQuotient(double x, double y, const Rounding& rounding) {
  const double quotient = x / y;
  if (std::fabs(quotient) * (1 + 2 * rounding.stored.unit) >= rounding.stored.largest) {
    return Term(-quotient, std::numeric_limits<double>::infinity());
  }
  const auto whole = [](double of) { return kFloor ? std::floor(of) : std::trunc(of); };
  const double room = 8 * rounding.stored.unit * std::max(1.0, std::fabs(quotient));
  const double off = std::max(std::fabs(whole(quotient + room) - whole(quotient)),
                              std::fabs(whole(quotient - room) - whole(quotient)));
  // A magnitude whose rounding is as much.
  const double units = rounding.function_units * rounding.unit + rounding.stored.unit;
  return Term(-whole(quotient), std::fabs(whole(quotient)) + off / units);
}
template <bool kFloor>
Values Remainder(Call& call, const Arithmetic& m) {
  const Value a = Operand(call, m, 0, "input");
  const Value b = Operand(call, m, 1, "other");
  const Rounding& rounding = m.rounding();
  const double unit = rounding.stored.unit;
  return {m.Zip(
      a, b,
      [unit](double x, double y) {
        const double rest = std::fmod(x, y);
        const double moved = kFloor && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
        const bool is_free = unit > 0 && !(std::fabs(x / y) * unit < 1);
        return Term(
            moved, is_free ? std::numeric_limits<double>::infinity() : std::fabs(x) + std::fabs(y));
      },
      [](double, double) { return Term(1); },
      [rounding](double x, double y) { return WholeQuotient<kFloor>(x, y, rounding); },
      unit == 0 ? 0 : -1)};
}

// If a value equals its bound, either of them may receive the gradient.
bool IsTiedWithBound(Call& call, const Arithmetic& m, const Value& x, const Value& bound) {
  const Value ties = m.taping()
                         ? m.Zip(
                               x, bound, [](double a, double b) { return Term(a == b ? 1 : 0); },
                               nullptr, nullptr, 0)
                         : nullptr;
  if (ties == nullptr ||
      std::find(ties->value.begin(), ties->value.end(), 1.0) == ties->value.end()) {
    return false;
  }
  call.Fail("gradients of values that equal a bound may go to either");
  return true;
}

Values Clamp(Call& call, const Arithmetic& m) {
  Value x = call.Tensor(0, "input");
  for (const bool is_max : {false, true}) {
    const std::string_view name = is_max ? "max" : "min";
    if (!call.Has(is_max ? 2 : 1, name)) {
      continue;
    }
    const Value limit = Operand(call, m, is_max ? 2 : 1, name);
    if (limit != nullptr && call.IsTensor(is_max ? 2 : 1, name) &&
        IsTiedWithBound(call, m, x, limit)) {
      return {nullptr};
    }
    const auto inside = [is_max](double value, double bound) {
      return std::isnan(value) || (is_max ? value <= bound : value >= bound);
    };
    x = m.Zip(
        x, limit,
        [inside](double value, double bound) { return Term(inside(value, bound) ? value : bound); },
        [inside](double value, double bound) { return Term(inside(value, bound) ? 1 : 0); },
        [inside](double value, double bound) { return Term(inside(value, bound) ? 0 : 1); }, 0);
  }
  return {x};
}

Values ClampMin(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  return {m.Zip(
      x, Operand(call, m, 1, "min"),
      [](double value, double bound) { return Term(value < bound ? bound : value); },
      [](double value, double bound) { return Term(value < bound ? 0 : 1); },
      [](double value, double bound) { return Term(value < bound ? 1 : 0); }, 0)};
}
Values ClampMax(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  return {m.Zip(
      x, Operand(call, m, 1, "max"),
      [](double value, double bound) { return Term(value > bound ? bound : value); },
      [](double value, double bound) { return Term(value > bound ? 0 : 1); },
      [](double value, double bound) { return Term(value > bound ? 1 : 0); }, 0)};
}

Values Lerp(Call& call, const Arithmetic& m) {
  const Value a = call.Tensor(0, "input");
  const Value b = call.Tensor(1, "end");
  const Value weight = Operand(call, m, 2, "weight");
  // Computed from either end, whichever is nearer.
  const Value way = m.Multiply(weight, m.Subtract(b, a));
  const Value sum = m.Add(a, way);
  const Value other =
      m.Subtract(b, m.Multiply(m.Subtract(b, a), m.Subtract(m.Filled({}, 1), weight)));
  if (sum == nullptr || other == nullptr) {
    return {nullptr};
  }
  if (m.taping()) {
    return {sum};
  }
  std::vector<double> error(sum->size());
  for (size_t i = 0; i < error.size(); ++i) {
    error[i] = std::max(sum->error_at(i), other->error_at(i));
  }
  return {MakeValue(sum->shape, sum->value.Shared(), std::move(error))};
}

template <bool kDivide>
Values AddProductOf(Call& call, const Arithmetic& m) {
  const Value base = call.Tensor(0, "input");
  // The old form: addcmul(input, value, tensor1, tensor2).
  const bool old = !call.IsTensor(1, "tensor1");
  const Value a = call.Tensor(old ? 2 : 1, "tensor1");
  const Value b = call.Tensor(old ? 3 : 2, "tensor2");
  const double factor = old ? call.Number(1, "value") : call.Number(3, "value", 1);
  if (call.failed()) {
    return {};
  }
  const Value scaled = m.Multiply(a, m.Scalar(factor));
  return {m.Add(base, kDivide ? m.Divide(scaled, b) : m.Multiply(scaled, b))};
}

Values NanToNum(Call& call, const Arithmetic& m) {
  const double nan = call.Number(1, "nan", 0);
  const double largest = m.rounding().stored.largest;
  const double high = call.Number(2, "posinf", largest);
  const double low = call.Number(3, "neginf", -largest);
  return {m.Map(
      call.Tensor(0, "input"),
      [=](double x) {
        return Term(std::isnan(x) ? nan : std::isinf(x) ? (x > 0 ? high : low) : x);
      },
      [](double x) { return Term(std::isfinite(x) ? 1 : 0); }, 0)};
}

}  // namespace

Value ExtremeOfTwo(const Arithmetic& arithmetic, const Value& a, const Value& b, bool largest) {
  const auto slope = [largest](double x, double y) {
    return x == y ? Term(0.5) : Term((x > y) == largest ? 1 : 0);
  };
  return arithmetic.Zip(
      a, b,
      [largest](double x, double y) {
        return Term(std::isnan(x) ? x : std::isnan(y) ? y : (x > y) == largest ? x : y);
      },
      slope, [slope](double x, double y) { return slope(y, x); }, 0);
}

OperatorList ElementwiseOperators() {
  return {
      {"add radd iadd biasadd", Plus},
      {"sub subtract isub", Minus},
      {"rsub", MinusFrom},
      {"mul multiply rmul imul", Times},
      {"div true_divide truediv itruediv divide realdiv idiv", Over},
      {"rtruediv rdiv", UnderTensor},
      {"floor_divide floordiv ifloordiv", FloorDivide},
      {"neg negative", Negative},
      {"positive pos", Positive},
      {"abs absolute", Absolute},
      {"exp", Unary<std::exp, std::exp>},
      {"exp2", Unary<std::exp2, Exp2Slope>},
      {"expm1", Unary<std::expm1, Expm1Slope>},
      {"log", Unary<std::log, LogSlope>},
      {"log2", Unary<std::log2, Log2Slope>},
      {"log10", Unary<std::log10, Log10Slope>},
      {"log1p", Unary<std::log1p, Log1pSlope>},
      {"sqrt", Unary<std::sqrt, RootSlope>},
      {"rsqrt", Unary<InverseRoot, InverseRootSlope>},
      {"square", Unary<Square, SquareSlope>},
      {"reciprocal", Unary<Inverse, InverseSlope>},
      {"sin", Unary<std::sin, std::cos>},
      {"cos", Unary<std::cos, MinusSin>},
      {"tan", Unary<std::tan, TanSlope, kFourUlps>},
      {"asin arcsin", Unary<std::asin, AsinSlope>},
      {"acos arccos", Unary<std::acos, AcosSlope>},
      {"atan arctan", Unary<std::atan, AtanSlope>},
      {"sinh", Unary<std::sinh, std::cosh, kThreeUlps>},
      {"cosh", Unary<std::cosh, std::sinh>},
      {"asinh arcsinh", Unary<std::asinh, AsinhSlope, kThreeUlps>},
      {"acosh arccosh", Unary<std::acosh, AcoshSlope, kFourUlps>},
      {"atanh arctanh", Unary<std::atanh, AtanhSlope, kThreeUlps>},
      {"erf", Unary<std::erf, ErfSlope>},
      {"erfc", Unary<std::erfc, ErfcSlope, kFourUlps>},
      {"sign sgn", Exact<Sign>},
      {"floor", Exact<std::floor>},
      {"ceil", Exact<std::ceil>},
      {"trunc fix", Exact<std::trunc>},
      {"frac", FractionOf},
      {"maximum", Extreme<true>},
      {"minimum", Extreme<false>},
      {"pow ipow float_power", Power},
      {"rpow", PowerFrom},
      {"atan2 arctan2", ArcTangent2},
      {"fmod", Remainder<false>},
      {"remainder mod imod", Remainder<true>},
      {"clamp clip", Clamp},
      {"clamp_min", ClampMin},
      {"clamp_max", ClampMax},
      {"lerp", Lerp},
      {"addcmul", AddProductOf<false>, Rounds::kSteps},
      {"addcdiv", AddProductOf<true>, Rounds::kSteps},
      {"nan_to_num", NanToNum},
  };
}

}  // namespace msprobe::reference
