// Whole steps of an optimizer in one call. They change their arguments and return nothing: what
// came of them is what the same call of the next step begins with, where it counts one step more.
// Formulas: D. P. Kingma, J. Ba, Adam, ICLR 2015, algorithm 1; S. J. Reddi et al., On the
// convergence of Adam and beyond, ICLR 2018 (amsgrad); I. Loshchilov, F. Hutter, Decoupled weight
// decay regularization, ICLR 2019, algorithm 2.
#include <algorithm>
#include <cmath>

#include "src/reference/operators/operators.h"

namespace msprobe::reference {
namespace {

constexpr size_t kNamed = SIZE_MAX;  // an argument that only has a name

// The lists of _fused_adam_ and _fused_adamw_.
enum AdamList : size_t { kParameters, kGradients, kMeans, kSquares, kLargestSquares, kSteps };

bool IsOneStepLater(const Values& steps, const Values& later) {
  return std::equal(steps.begin(), steps.end(), later.begin(), later.end(),
                    [](const Value& own, const Value& next) {
                      return own != nullptr && next != nullptr && own->size() == 1 &&
                             next->size() == 1 && next->value[0] == own->value[0] + 1;
                    });
}

void FindAdamResults(Call& call) {
  const Values parameters = call.Tensors(kParameters, "self");
  const Values steps = call.Tensors(kSteps, "state_steps");
  if (const Value skipped = call.OptionalTensor(kNamed, "found_inf");
      skipped != nullptr && skipped->size() == 1 && skipped->value[0] != 0) {
    call.Fail("the step was skipped, because a gradient was not finite");
  }
  Call* const later = call.Later();
  if (call.failed()) {
    return;
  }
  const Values later_steps = later->Tensors(kSteps, "state_steps");
  if (later->failed() || !IsOneStepLater(steps, later_steps)) {
    call.Fail("its results are what the next step begins with, which is not in the dump");
    return;
  }
  call.TakeOutputsFromLater({kParameters, kMeans, kSquares, kLargestSquares});
  const std::vector<CapturedTensor>& outputs = call.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value& parameter = parameters[i % parameters.size()];
    if (outputs[i].value == nullptr) {
      call.Fail(outputs[i].problem);
    } else if (outputs.size() % parameters.size() != 0 || parameter == nullptr ||
               outputs[i].value->shape != parameter->shape) {
      call.Fail("the next step is of other parameters");
    }
  }
}

struct AdamSettings {
  Value rate, beta1, beta2, decay, epsilon;
  Value gradient_scale;  // null: 1
  bool decoupled = false;
  bool keeps_largest = false;
  bool maximizes = false;
};

struct AdamState {
  Value parameter, gradient, mean, square, largest_square, step;
};

// Bias corrections are 1 - beta^t, which cancels while t is small: their error is that of beta.
Value BiasCorrection(const Arithmetic& m, const Value& beta, const Value& step) {
  return m.Subtract(m.Filled({}, 1),
                    m.Zip(
                        beta, step, [](double b, double t) { return Term(std::pow(b, t)); },
                        [](double b, double t) { return Term(t * std::pow(b, t - 1)); }, nullptr));
}

AdamState AfterStep(const Arithmetic& m, const AdamSettings& with, AdamState state) {
  const Value one = m.Filled({}, 1);
  Value gradient = state.gradient;
  if (with.gradient_scale != nullptr) {
    gradient = m.Divide(gradient, with.gradient_scale);
  }
  if (with.maximizes) {
    gradient = m.Negate(gradient);
  }
  if (with.decoupled) {
    state.parameter =
        m.Multiply(state.parameter, m.Subtract(one, m.Multiply(with.rate, with.decay)));
  } else {
    gradient = m.Add(gradient, m.Multiply(state.parameter, with.decay));
  }
  state.mean =
      m.Add(m.Multiply(with.beta1, state.mean), m.Multiply(m.Subtract(one, with.beta1), gradient));
  state.square = m.Add(m.Multiply(with.beta2, state.square),
                       m.Multiply(m.Subtract(one, with.beta2), m.Multiply(gradient, gradient)));
  Value square = state.square;
  if (with.keeps_largest) {
    square = state.largest_square = ExtremeOfTwo(m, state.largest_square, state.square, true);
  }
  const Value root = RootOfSquares(m, BiasCorrection(m, with.beta2, state.step));
  const Value divisor = m.Add(m.Divide(RootOfSquares(m, square), root), with.epsilon);
  const Value rate = m.Divide(with.rate, BiasCorrection(m, with.beta1, state.step));
  state.parameter = m.Subtract(state.parameter, m.Divide(m.Multiply(rate, state.mean), divisor));
  return state;
}

template <bool kDecoupled>
Values FusedAdam(Call& call, const Arithmetic& m) {
  AdamSettings settings;
  settings.rate = Operand(call, m, kNamed, "lr");
  settings.beta1 = Operand(call, m, kNamed, "beta1");
  settings.beta2 = Operand(call, m, kNamed, "beta2");
  settings.decay = Operand(call, m, kNamed, "weight_decay");
  settings.epsilon = Operand(call, m, kNamed, "eps");
  settings.gradient_scale = call.OptionalTensor(kNamed, "grad_scale");
  settings.decoupled = kDecoupled;
  settings.keeps_largest = call.Bool(kNamed, "amsgrad", false);
  settings.maximizes = call.Bool(kNamed, "maximize", false);
  const Values parameters = call.Tensors(kParameters, "self");
  const Values gradients = call.Tensors(kGradients, "grads");
  const Values means = call.Tensors(kMeans, "exp_avgs");
  const Values squares = call.Tensors(kSquares, "exp_avg_sqs");
  const Values steps = call.Tensors(kSteps, "state_steps");
  const Values largest = settings.keeps_largest ? call.Tensors(kLargestSquares, "max_exp_avg_sqs")
                                                : Values(parameters.size());
  for (const Values* list : {&gradients, &means, &squares, &steps, &largest}) {
    if (call.failed() || list->size() != parameters.size()) {
      return {call.Fail("its lists of tensors do not fit each other")};
    }
  }
  std::vector<Values> results(settings.keeps_largest ? 4 : 3);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const AdamState after = AfterStep(
        m, settings, {parameters[i], gradients[i], means[i], squares[i], largest[i], steps[i]});
    results[0].push_back(after.parameter);
    results[1].push_back(after.mean);
    results[2].push_back(after.square);
    if (settings.keeps_largest) {
      results[3].push_back(after.largest_square);
    }
  }
  Values all;
  for (Values& list : results) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

void FindNoResults(Call& call) {
  call.Fail("it returns nothing, and has no count of steps by which the next one would be known");
}
Values NoResults(Call& /*call*/, const Arithmetic& /*m*/) { return {}; }

}  // namespace

OperatorList OptimizerOperators() {
  return {
      {"_fused_adamw", FusedAdam<true>, Rounds::kOnce, FindAdamResults},
      {"_fused_adam", FusedAdam<false>, Rounds::kOnce, FindAdamResults},
      {"_fused_sgd _fused_adagrad", NoResults, Rounds::kOnce, FindNoResults},
  };
}

}  // namespace msprobe::reference
