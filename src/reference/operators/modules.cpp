// Modules whose results follow from what a dump of modules holds: inputs and parameters. Settings
// that are not in it are taken as the one of the usual values that fits best, or the call cannot be
// checked.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

constexpr std::array<double, 5> kUsualEpsilons = {1e-5, 1e-6, 1e-12, 1e-8, 1e-3};

Values LinearModule(Call& call, const Arithmetic& m) {
  const Value x = call.Tensor(0, "input");
  const Value weight = call.Parameter("weight");
  const Value bias = call.Parameter("bias");
  if (call.failed() || weight == nullptr || weight->shape.size() != 2 || x->shape.empty()) {
    return {call.Fail("its weight is not in the dump")};
  }
  Shape shape = x->shape;
  const int64_t rows = shape.back() == 0 ? 0 : ElementCount(shape) / shape.back();
  Value product = m.MatMul(m.Reshape(x, {rows, shape.back()}), weight, false, true);
  shape.back() = weight->shape[0];
  product = product == nullptr ? nullptr : m.Reshape(product, shape);
  return {bias == nullptr ? product : m.Add(m.Stored(product), bias)};
}

// The result with the setting that comes nearest to the captured output.
Value Nearest(Call& call, const std::function<Value(double)>& with) {
  const std::vector<CapturedTensor>& outputs = call.outputs();
  if (outputs.size() != 1 || outputs[0].value == nullptr) {
    return call.Fail("its output was not saved");
  }
  Value nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const double epsilon : kUsualEpsilons) {
    const Value result = with(epsilon);
    if (result == nullptr || result->shape != outputs[0].value->shape) {
      return result;
    }
    double furthest = 0;
    for (size_t i = 0; i < result->size(); ++i) {
      furthest = std::max(furthest, std::fabs(result->value[i] - outputs[0].value->value[i]));
    }
    if (nearest == nullptr || furthest < least) {
      nearest = result;
      least = furthest;
    }
  }
  return nearest;
}

Values NormModule(Call& call, const Arithmetic& m, bool root_mean_square) {
  const Value x = call.Tensor(0, "input");
  const Value weight = call.Parameter("weight");
  const Value bias = call.Parameter("bias");
  if (call.failed() || weight == nullptr || weight->shape.size() > x->shape.size() ||
      !std::equal(weight->shape.rbegin(), weight->shape.rend(), x->shape.rbegin()) ||
      (bias != nullptr && bias->shape != weight->shape)) {
    return {call.Fail("its weight does not tell the normalised shape")};
  }
  const auto width = static_cast<int64_t>(weight->size());
  const Value rows =
      m.Reshape(x, {width == 0 ? 0 : static_cast<int64_t>(x->size()) / width, width});
  return {Nearest(call, [&](double epsilon) {
    const Value normal = m.Reshape(m.Normalize(rows, epsilon, root_mean_square), x->shape);
    const Value scaled = m.Multiply(root_mean_square ? m.Stored(normal) : normal, weight);
    return bias == nullptr ? scaled : m.Add(scaled, bias);
  })};
}
Values LayerNormModule(Call& call, const Arithmetic& m) { return NormModule(call, m, false); }
Values RmsNormModule(Call& call, const Arithmetic& m) { return NormModule(call, m, true); }

Values EmbeddingModule(Call& call, const Arithmetic& m) {
  const Value indices = call.Tensor(0, "input");
  const Value weight = call.Parameter("weight");
  if (call.failed() || weight == nullptr || weight->shape.size() != 2) {
    return {call.Fail("its weight is not in the dump")};
  }
  const int64_t width = weight->shape[1];
  Shape shape = indices->shape;
  shape.push_back(width);
  if (!m.Affords(shape)) {
    return {nullptr};
  }
  std::vector<int64_t> places(static_cast<size_t>(ElementCount(shape)));
  for (size_t i = 0; i < places.size(); ++i) {
    const double row = indices->value[i / static_cast<size_t>(width)];
    if (!(row >= 0 && row < static_cast<double>(weight->shape[0]))) {
      return {call.Fail("an index is beyond the rows of the weight")};
    }
    places[i] = static_cast<int64_t>(row) * width + static_cast<int64_t>(i) % width;
  }
  return {m.Take({weight}, shape, std::move(places))};
}

Values Unchanged(Call& call, const Arithmetic&) { return {call.Tensor(0, "input")}; }

}  // namespace

OperatorList ModuleOperators() {
  const auto function = [](const OperatorList& list, std::string_view name) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Operator& operation) {
      return operation.names.substr(0, operation.names.find(' ')) == name;
    });
    return found->recompute;
  };
  const OperatorList activations = ActivationOperators();
  return {
      {"Linear NonDynamicallyQuantizableLinear Dense", LinearModule},
      {"LayerNorm FusedLayerNorm", LayerNormModule},
      {"RMSNorm LlamaRMSNorm Qwen2RMSNorm T5LayerNorm", RmsNormModule, Rounds::kSteps},
      {"Embedding", EmbeddingModule},
      {"Identity", Unchanged},
      {"ReLU", function(activations, "relu")},
      {"ReLU6", function(activations, "relu6")},
      {"SiLU", function(activations, "silu")},
      {"Sigmoid", function(activations, "sigmoid")},
      {"Tanh", function(activations, "tanh")},
      {"Hardswish", function(activations, "hardswish")},
      {"Mish", function(activations, "mish")},
  };
}

}  // namespace msprobe::reference
