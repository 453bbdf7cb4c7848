// Activation functions. Their magnitudes tell where parts cancel: 1 + erf(x) of a negative x is off
// by a unit of 1, not of itself.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

constexpr double kRootHalf = 0.70710678118654752440;
constexpr double kInverseRoot2Pi = 0.39894228040143267794;
constexpr double kGeluRoot = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double SigmoidSlope(double x) { return Sigmoid(x) * Sigmoid(-x); }
double TanhSlope(double x) {
  const double y = std::tanh(x);
  return (1 - y) * (1 + y);
}

// Computed from the stored result y, 1 - y^2 is off by a unit of 1.
Term TanhSlopeTerm(double x) { return {TanhSlope(x), 1}; }
Term SigmoidSlopeTerm(double x) { return {SigmoidSlope(x), Sigmoid(x)}; }

Term Gelu(double x) {
  const double erf = std::erf(x * kRootHalf);
  return {0.5 * x * std::erfc(-x * kRootHalf), 0.5 * std::fabs(x) * (1 + std::fabs(erf))};
}
Term GeluSlope(double x) {
  const double density = x * kInverseRoot2Pi * std::exp(-0.5 * x * x);
  return {0.5 * std::erfc(-x * kRootHalf) + density,
          0.5 * (1 + std::fabs(std::erf(x * kRootHalf))) + std::fabs(density)};
}
double GeluInner(double x) { return kGeluRoot * (x + kGeluCube * x * x * x); }
Term GeluTanh(double x) {
  const double inner = GeluInner(x);
  // The inner polynomial is off by units of itself, which tanh passes on by its slope.
  return {
      x * Sigmoid(2 * inner),
      0.5 * std::fabs(x) * (1 + std::fabs(std::tanh(inner)) + std::fabs(inner) * TanhSlope(inner))};
}
Term GeluTanhSlope(double x) {
  const double inner = GeluInner(x);
  const double slope = kGeluRoot * (1 + 3 * kGeluCube * x * x);
  const double second = 0.5 * x * TanhSlope(inner) * slope;
  return {Sigmoid(2 * inner) + second,
          0.5 * (1 + std::fabs(std::tanh(inner))) + 0.5 * std::fabs(x) * slope};
}
// Libraries compute erf and tanh of GELU by short polynomials of their own, each step of which
// rounds: Abramowitz and Stegun's 7.1.26 alone is off by 1.5e-7, 2.5 units of 1 in float32, and its
// five coefficients of up to 1.45 and its exponential add a unit or two each.
constexpr double kPolynomialUnits = 16;
Values GeluOf(Call& call, const Arithmetic& m) {
  const bool tanh = call.Text(1, "approximate", "none") == "tanh";
  return {m.Map(call.Tensor(0, "input"), tanh ? GeluTanh : Gelu, tanh ? GeluTanhSlope : GeluSlope,
                kPolynomialUnits)};
}

Term SiluSlope(double x) {
  const double y = Sigmoid(x);
  return {y * (1 + x * Sigmoid(-x)), y * (1 + std::fabs(x))};
}
Values Silu(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(x * Sigmoid(x)); }, SiluSlope)};
}

double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

Values Mish(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(x * std::tanh(Softplus(x))); },
      [](double x) {
        const double y = std::tanh(Softplus(x));
        return Term(y + x * Sigmoid(x) * (1 - y * y), 1 + 2 * std::fabs(x));
      },
      8)};
}

template <double (*kFunction)(double), Term (*kSlope)(double)>
Values Curve(Call& call, const Arithmetic& m) {
  return {m.Map(
      call.Tensor(0, "input"), [](double x) { return Term(kFunction(x)); }, kSlope)};
}

// Functions that are straight in pieces: `f` and `slope` of x and up to two numbers.
Values Pieces(const Arithmetic& m, const Value& x, const Arithmetic::Function& f,
              const Arithmetic::Function& slope, double units = 0) {
  return {m.Map(x, f, slope, units)};
}

Values Relu(Call& call, const Arithmetic& m) {
  return Pieces(
      m, call.Tensor(0, "input"), [](double x) { return Term(x < 0 ? 0 : x); },
      [](double x) { return Term(x > 0 ? 1 : 0); });
}
Values HardTanhBetween(Call& call, const Arithmetic& m, double low, double high) {
  return Pieces(
      m, call.Tensor(0, "input"),
      [=](double x) {
        const double raised = x < low ? low : x;
        return Term(raised > high ? high : raised);
      },
      [=](double x) { return Term(x > low && x < high ? 1 : 0); });
}
Values Relu6(Call& call, const Arithmetic& m) { return HardTanhBetween(call, m, 0, 6); }
Values HardTanh(Call& call, const Arithmetic& m) {
  return HardTanhBetween(call, m, call.Number(1, "min_val", -1), call.Number(2, "max_val", 1));
}
Values LeakyRelu(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const double slope = call.Number(1, "negative_slope", 0.01);
  if (x == nullptr) {
    return {nullptr};
  }
  const Value negative = m.Map(
      x, [](double at) { return Term(at > 0 ? 0 : 1); }, nullptr, 0);
  return {m.Where(negative, m.Multiply(x, m.Scalar(slope)), x)};
}
Values Prelu(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  Value weight = call.Tensor(1, "weight");
  if (x == nullptr || weight == nullptr) {
    return {nullptr};
  }
  if (weight->size() > 1 && x->shape.size() > 2) {
    Shape along(x->shape.size() - 1, 1);
    along[0] = static_cast<int64_t>(weight->size());
    weight = m.Reshape(weight, along);
  }
  const Value negative = m.Map(
      x, [](double at) { return Term(at > 0 ? 0 : 1); }, nullptr, 0);
  return {m.Where(negative, m.Multiply(x, weight), x)};
}

Values ExponentialUnit(Call& call, const Arithmetic& m, double alpha, double scale,
                       double input_scale) {
  return {m.Map(
      call.Tensor(0, "input"),
      [=](double x) {
        return x > 0 ? Term(scale * x)
                     // exp(x) - 1 as two steps is off by a unit of 1.
                     : Term(scale * alpha * std::expm1(x * input_scale), scale * alpha);
      },
      [=](double x) {
        return x > 0 ? Term(scale)
                     : Term(scale * alpha * input_scale * std::exp(x * input_scale),
                            scale * alpha * input_scale);
      })};
}
Values Elu(Call& call, const Arithmetic& m) {
  return ExponentialUnit(call, m, call.Number(1, "alpha", 1), 1, 1);
}
Values Celu(Call& call, const Arithmetic& m) {
  const double alpha = call.Number(1, "alpha", 1);
  return ExponentialUnit(call, m, alpha, 1, 1 / alpha);
}
Values Selu(Call& call, const Arithmetic& m) {
  return ExponentialUnit(call, m, 1.6732632423543772848170429916717,
                         1.0507009873554804934193349852946, 1);
}

Values HardSigmoid(Call& call, const Arithmetic& m) {
  const double sixth = std::max(1.0, 0x1p-24 / m.rounding().unit) / 6;
  return Pieces(
      m, call.Tensor(0, "input"),
      [](double x) {
        return Term(x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6);
      },
      // PyTorch 1.13 has 1/6 in float32 even for float64.
      [sixth](double x) { return x > -3 && x < 3 ? Term(1.0 / 6, sixth) : Term(0); }, -1);
}
Values HardSwish(Call& call, const Arithmetic& m) {
  return Pieces(
      m, call.Tensor(0, "input"),
      [](double x) {
        return Term(x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6, std::fabs(x));
      },
      [](double x) {
        // At the corners either slope is right.
        return std::fabs(x) == 3 ? Term(1, std::numeric_limits<double>::infinity())
               : x < -3          ? Term(0)
               : x > 3           ? Term(1)
                                 : Term(x / 3 + 0.5, std::fabs(x) / 3 + 0.5);
      },
      -1);
}

Values SoftPlus(Call& call, const Arithmetic& m) {
  const double beta = call.Number(1, "beta", 1);
  const double threshold = call.Number(2, "threshold", 20);
  return {m.Map(
      call.Tensor(0, "input"),
      // exp passes the rounding of beta x on.
      [=](double x) {
        const double y = Softplus(x * beta) / beta;
        return x * beta > threshold ? Term(x) : Term(y, std::fabs(y) * (1 + std::fabs(x * beta)));
      },
      [=](double x) {
        const double y = Sigmoid(x * beta);
        return x * beta > threshold ? Term(1) : Term(y, y * (1 + std::fabs(x * beta)));
      })};
}
double LogSigmoid(double x) { return -Softplus(-x); }
Term LogSigmoidSlope(double x) { return {Sigmoid(-x), 1}; }
Value Absolute(const Arithmetic& m, const Value& x) {
  return m.Map(
      x, [](double at) { return Term(std::fabs(at)); },
      [](double at) { return Term((at > 0) - (at < 0)); }, 0);
}
Values SoftSignOf(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  return {m.Divide(x, m.Stored(m.Add(Absolute(m, x), m.Filled({}, 1))))};
}
Values TanhShrink(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value tanh = m.Map(
      x, [](double at) { return Term(std::tanh(at)); }, TanhSlopeTerm);
  return {m.Subtract(x, m.Stored(tanh))};
}
Values SoftShrink(Call& call, const Arithmetic& m) {
  const double limit = call.Number(1, "lambd", 0.5);
  const double off = m.Scalar(limit)->error_at(0);
  return Pieces(
      m, call.Tensor(0, "input"),
      [=](double x) {
        return Term(x > limit    ? x - limit
                    : x < -limit ? x + limit
                                 : 0,
                    std::fabs(x) + off / m.rounding().working.unit);
      },
      [=](double x) { return Term(x > limit || x < -limit ? 1 : 0); }, 1);
}
Values HardShrink(Call& call, const Arithmetic& m) {
  const double limit = call.Number(1, "lambd", 0.5);
  return Pieces(
      m, call.Tensor(0, "input"),
      [=](double x) { return Term(x > limit || x < -limit || std::isnan(x) ? x : 0); },
      [=](double x) { return Term(x > limit || x < -limit ? 1 : 0); });
}
Values Threshold(Call& call, const Arithmetic& m) {
  const double limit = call.Number(1, "threshold");
  const double value = call.Number(2, "value");
  const Value x = call.Tensor(0, "input");
  if (x == nullptr) {
    return {nullptr};
  }
  const Value low = m.Map(
      x, [limit](double at) { return Term(at <= limit ? 1 : 0); }, nullptr, 0);
  return {m.Where(low, m.Scalar(value), x)};
}

// A tensor cut into two halves along a dim.
Values GatedUnit(Call& call, const Arithmetic& m, bool silu) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr) {
    return {nullptr};
  }
  const int64_t dim = DimOf(call, call.Int(1, "dim", -1), x->shape.size());
  const Value rows = DimLast(m, x, dim);
  if (call.failed() || rows->shape.empty() || rows->shape.back() % 2 != 0) {
    return {call.Fail("it cannot be cut into halves")};
  }
  const int64_t half = rows->shape.back() / 2;
  Shape shape = rows->shape;
  shape.back() = half;
  Values parts;
  for (const int64_t first : {int64_t{0}, half}) {
    std::vector<int64_t> indices(static_cast<size_t>(ElementCount(shape)));
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      indices[i] = at / half * 2 * half + first + at % half;
    }
    parts.push_back(m.Take({rows}, shape, std::move(indices)));
  }
  const Value gate =
      silu ? m.Map(
                 parts[0], [](double at) { return Term(at * Sigmoid(at)); }, SiluSlope)
           : m.Map(
                 parts[1], [](double at) { return Term(Sigmoid(at)); }, SigmoidSlopeTerm);
  return {DimBack(m, m.Multiply(silu ? parts[1] : parts[0], gate), dim)};
}
Values Glu(Call& call, const Arithmetic& m) { return GatedUnit(call, m, false); }
Values Swiglu(Call& call, const Arithmetic& m) { return GatedUnit(call, m, true); }

// The dim of F.softmax(x) without one: 0 for 0, 1 and 3 dims, else 1.
Value Along(Call& call, const Arithmetic& m, bool logarithm) {
  const Value x = call.Tensor(0, "input");
  if (x == nullptr) {
    return nullptr;
  }
  const size_t rank = x->shape.size();
  const int64_t usual = rank == 0 || rank == 1 || rank == 3 ? 0 : 1;
  const int64_t dim = DimOf(call, call.Int(1, "dim", usual), rank);
  const Value rows = DimLast(m, x, dim);
  return DimBack(m, logarithm ? m.LogSoftmax(rows) : m.Softmax(rows), dim);
}
Values SoftmaxOf(Call& call, const Arithmetic& m) { return {Along(call, m, false)}; }
Values LogSoftmaxOf(Call& call, const Arithmetic& m) { return {Along(call, m, true)}; }
Values SoftMin(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t dim = DimOf(call, call.Int(1, "dim", -1), x == nullptr ? 0 : x->shape.size());
  return {DimBack(m, m.Softmax(DimLast(m, m.Negate(x), dim)), dim)};
}

double TanhOf(double x) { return std::tanh(x); }

}  // namespace

OperatorList ActivationOperators() {
  return {
      {"relu", Relu},
      {"relu6", Relu6},
      {"hardtanh", HardTanh},
      {"leaky_relu", LeakyRelu},
      {"prelu", Prelu},
      {"elu", Elu},
      {"celu", Celu},
      {"selu", Selu},
      {"gelu", GeluOf},
      {"silu swish", Silu},
      {"mish", Mish},
      {"sigmoid", Curve<Sigmoid, SigmoidSlopeTerm>},
      {"tanh", Curve<TanhOf, TanhSlopeTerm>},
      {"logsigmoid log_sigmoid", Curve<LogSigmoid, LogSigmoidSlope>},
      {"hardsigmoid", HardSigmoid},
      {"hardswish", HardSwish},
      {"softplus", SoftPlus},
      {"softsign", SoftSignOf},
      {"tanhshrink", TanhShrink},
      {"softshrink", SoftShrink},
      {"hardshrink", HardShrink},
      {"threshold", Threshold},
      {"glu", Glu},
      {"npu_swiglu swiglu", Swiglu},
      {"softmax", SoftmaxOf},
      {"log_softmax", LogSoftmaxOf},
      {"softmin", SoftMin},
  };
}

}  // namespace msprobe::reference
