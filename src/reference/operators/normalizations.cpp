// Normalisation layers: of rows, groups of channels, batches.
#include <cmath>

#include <fmt/format.h>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

// weight * x + bias, both optional, of this shape.
Value Affine(const Arithmetic& m, Value x, Value weight, Value bias, const Shape& shape) {
  if (weight != nullptr) {
    x = m.Multiply(x, m.Reshape(weight, shape));
  }
  if (bias != nullptr) {
    x = m.Add(x, m.Reshape(bias, shape));
  }
  return x;
}

// The last `count` dims as one.
Value Rows(const Arithmetic& m, const Value& x, size_t count) {
  Shape shape(x->shape.begin(), x->shape.end() - static_cast<std::ptrdiff_t>(count));
  shape.push_back(
      ElementCount(Shape(x->shape.end() - static_cast<std::ptrdiff_t>(count), x->shape.end())));
  return m.Reshape(x, shape);
}

Values OverLastDims(Call& call, const Arithmetic& m, const Value& x, const Value& weight,
                    const Value& bias, size_t count, double epsilon, bool root_mean_square) {
  if (call.failed() || count == 0 || count > x->shape.size()) {
    return {call.Fail("there are fewer dims than the normalised shape has")};
  }
  const Shape own(x->shape.end() - static_cast<std::ptrdiff_t>(count), x->shape.end());
  if ((weight != nullptr && weight->shape != own) || (bias != nullptr && bias->shape != own)) {
    return {call.Fail("the weight is not of the normalised shape")};
  }
  const Value normal = m.Normalize(Rows(m, x, count), epsilon, root_mean_square);
  return {Affine(m, m.Reshape(normal, x->shape), weight, bias, own)};
}

Values LayerNorm(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const size_t count = call.Ints(1, "normalized_shape").size();
  const Value weight = call.OptionalTensor(2, "weight");
  const Value bias = call.OptionalTensor(3, "bias");
  return OverLastDims(call, m, x, weight, bias, count, call.Number(4, "eps", 1e-5), false);
}

Values RmsNorm(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const size_t count = call.Ints(1, "normalized_shape").size();
  const Value weight = call.OptionalTensor(2, "weight");
  // Not given, it is the machine epsilon of the type.
  const double usual = 2 * m.rounding().stored.unit;
  return OverLastDims(call, m, x, weight, nullptr, count, call.Number(3, "eps", usual), true);
}

// npu_rms_norm(x, gamma, epsilon=1e-6)
Values NpuRmsNorm(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "self");
  const Value weight = call.Tensor(1, "gamma");
  return OverLastDims(call, m, x, weight, nullptr, weight == nullptr ? 0 : weight->shape.size(),
                      call.Number(2, "epsilon", 1e-6), true);
}

// (1, channels, 1, ...) for an input of channels in dim 1.
Shape AlongChannels(const Value& x) {
  Shape shape(x->shape.size() > 1 ? x->shape.size() - 1 : 1, 1);
  shape[0] = x->shape.size() > 1 ? x->shape[1] : 1;
  return shape;
}

bool FitsChannels(Call& call, const Value& x, const Value& per_channel) {
  if (per_channel == nullptr ||
      (x->shape.size() > 1 && static_cast<int64_t>(per_channel->size()) == x->shape[1])) {
    return true;
  }
  call.Fail("there is not one number per channel");
  return false;
}

Values GroupNorm(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const int64_t groups = call.Int(1, "num_groups");
  const Value weight = call.OptionalTensor(2, "weight");
  const Value bias = call.OptionalTensor(3, "bias");
  const double epsilon = call.Number(4, "eps", 1e-5);
  if (call.failed() || x->shape.size() < 2 || groups < 1 || x->shape[1] % groups != 0 ||
      !FitsChannels(call, x, weight) || !FitsChannels(call, x, bias)) {
    return {call.Fail("the channels are not divided by the groups")};
  }
  const int64_t rows = x->shape[0] * groups;
  const Value normal = m.Normalize(
      m.Reshape(x, {rows, rows == 0 ? 0 : ElementCount(x->shape) / rows}), epsilon, false);
  return {Affine(m, m.Reshape(normal, x->shape), weight, bias, AlongChannels(x))};
}

// (x - mean) / sqrt(var + eps) with statistics that are given.
Value WithStatistics(const Arithmetic& m, const Value& x, const Value& mean, const Value& variance,
                     double epsilon) {
  const Shape along = AlongChannels(x);
  const Value inverse = m.Map(
      m.Add(m.Reshape(variance, along), m.Scalar(epsilon)),
      [](double v) { return Term(1 / std::sqrt(v)); },
      [](double v) { return Term(-0.5 / (v * std::sqrt(v))); });
  // Also computed as x * inverse - mean * inverse.
  const Value distance = m.Zip(
      x, m.Reshape(mean, along),
      [](double a, double b) { return Term(a - b, std::fabs(a) + std::fabs(b)); },
      [](double, double) { return Term(1); }, [](double, double) { return Term(-1); }, 3);
  return m.Multiply(distance, inverse);
}

// The operands of norms over channels; all but the input may be null.
struct ChannelNorm {
  Value x;
  Value mean;
  Value variance;
  Value weight;
  Value bias;
  double epsilon = 1e-5;
};

// Whether all of it was captured, in shapes that fit.
bool ReadChannelNorm(Call& call, size_t least_dims, ChannelNorm& of) {
  of.x = call.Tensor(0, "input");
  of.mean = call.OptionalTensor(1, "running_mean");
  of.variance = call.OptionalTensor(2, "running_var");
  of.weight = call.OptionalTensor(3, "weight");
  of.bias = call.OptionalTensor(4, "bias");
  of.epsilon = call.Number(7, "eps", of.epsilon);
  return !call.failed() && of.x->shape.size() >= least_dims && FitsChannels(call, of.x, of.mean) &&
         FitsChannels(call, of.x, of.variance) && FitsChannels(call, of.x, of.weight) &&
         FitsChannels(call, of.x, of.bias);
}

Values BatchNorm(Call& call, const Arithmetic& m) {
  ChannelNorm of;
  const bool training = call.Bool(5, "training", false);
  if (!ReadChannelNorm(call, 2, of)) {
    return {call.Fail("batch_norm of unusual shapes")};
  }
  const auto& [x, mean, variance, weight, bias, epsilon] = of;
  Value normal;
  if (training || mean == nullptr || variance == nullptr) {
    std::vector<int64_t> order = {1, 0};
    for (size_t i = 2; i < x->shape.size(); ++i) {
      order.push_back(static_cast<int64_t>(i));
    }
    const Value channels = m.Permute(x, order);
    normal = m.Normalize(Rows(m, channels, channels->shape.size() - 1), epsilon, false);
    normal = m.Permute(m.Reshape(normal, channels->shape), order);
  } else {
    normal = WithStatistics(m, x, mean, variance, epsilon);
  }
  return {Affine(m, normal, weight, bias, AlongChannels(x))};
}

Values InstanceNorm(Call& call, const Arithmetic& m) {
  ChannelNorm of;
  const bool own = call.Bool(5, "use_input_stats", true);
  if (!ReadChannelNorm(call, 3, of) || (!own && (of.mean == nullptr || of.variance == nullptr))) {
    return {call.Fail("instance_norm of unusual shapes")};
  }
  const auto& [x, mean, variance, weight, bias, epsilon] = of;
  const Value normal =
      own ? m.Reshape(m.Normalize(Rows(m, x, x->shape.size() - 2), epsilon, false), x->shape)
          : WithStatistics(m, x, mean, variance, epsilon);
  return {Affine(m, normal, weight, bias, AlongChannels(x))};
}

}  // namespace

OperatorList NormalizationOperators() {
  return {
      {"layer_norm", LayerNorm},    {"rms_norm", RmsNorm, Rounds::kSteps},
      {"npu_rms_norm", NpuRmsNorm}, {"group_norm", GroupNorm},
      {"batch_norm", BatchNorm},    {"instance_norm", InstanceNorm},
  };
}

}  // namespace msprobe::reference
