// How large an error an output of a correct call may have.
//
// error_bound.h gives the bound of one operator by the norms of its operands. Here it is applied to
// a call of a run, of which a dump shows less than there is: statistics hide single units,
// gradients add up over several calls, noise changes discrete choices. Each of these widens the
// bound. Two things narrow it: a gradient whose exact value is zero is rounding, however large its
// relative error, and statistics that all differ by one factor are a scale that differs, not noise.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/analysis/compare/divergence_thresholds.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {
namespace {

using dump::Direction;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// The operands of a recorded call, errors included.
std::vector<Operand> RecordedInputs(const WalkContext& context, uint32_t entry) {
  std::vector<Operand> operands;
  if (entry == kNoEntry) {
    return operands;
  }
  const std::string_view entry_name = context.npu.entries[entry].name;
  for (auto it = context.views.Begin(entry); it != context.views.End(entry); ++it) {
    RowView view = context.views.View(*it);
    const bool is_parameter = view.npu->state == dump::RowState::kParameters;
    if (!IsInput(*view.npu) && !is_parameter) {
      continue;
    }
    view.stored =
        is_parameter || IsLayerStateArgument(context.plan.names[entry],
                                             dump::ArgumentOf(entry_name, view.npu->name));
    operands.push_back(OperandOf(view, context.CoarserEpsilon(view)));
  }
  return operands;
}

// For an output whose shape differs between the sides: differing shapes of the inputs explain it.
double ExplainedShape(const WalkContext& context, const WalkHistory& history,
                      const CallView& call) {
  if (call.is_backward() && call.family == OperatorFamily::kExact) {
    return kUnbounded;  // a cast that does nothing on one side hands other gradients on
  }
  const bool shapes_enter = std::any_of(call.inputs.begin(), call.inputs.end(),
                                        [](const RowView& v) { return v.bench == nullptr; });
  const uint32_t forward = call.is_backward() ? context.plan.partner[call.entry] : kNoEntry;
  return shapes_enter || (forward != kNoEntry && history.calls[forward].diverges) ? kUnbounded : 0;
}

// How far inputs may be apart without the dump showing it, relative to their scale.
double HiddenError(const WalkContext& context, const WalkHistory& history, const CallView& call) {
  const bool noise_enters = history.any_unequal || !call.InputsAreEqual();
  if (!noise_enters || context.result.mode == CompareMode::kRealData) {
    return 0;
  }
  const double units = context.usual_epsilon > kNarrowFrom ? kHiddenNarrowUnits
                       : context.IsUpdatedByChance()       ? kHiddenUnitsByChance
                                                           : kHiddenUnits;
  return units * context.usual_epsilon;
}

double ExplainedValue(const WalkContext& context, const WalkHistory& history, const CallView& call,
                      const CallOperands& operands, const RowView& output) {
  if (output.bench == nullptr) {
    return ExplainedShape(context, history, call);
  }
  if (!std::isfinite(output.distance.relative) && std::isfinite(call.input_error)) {
    return 0;  // finite errors do not explain a NaN or infinity on one side only
  }
  const dump::EntryName& name = call.name;
  OperatorFamily family = call.family;
  const uint32_t partner = context.plan.partner[call.entry];
  if (family == OperatorFamily::kDiscrete && call.is_backward() && partner != kNoEntry &&
      history.calls[partner].made_same_choice) {
    family = OperatorFamily::kExact;  // gradients go back to where they were chosen from
  }
  const bool rounds_differently = context.agreement.RoundsDifferently(*output.npu, *output.bench);
  BoundOptions options;
  options.hidden_error = HiddenError(context, history, call);
  if (context.usual_epsilon > kNarrowFrom && (call.is_backward() || name.is_parameters_grad)) {
    options.slack = rounds_differently ? kMixedGradientSlack : kNarrowGradientSlack;
  }
  double explained = ExplainedError(name, family, operands,
                                    OperandOf(output, context.CoarserEpsilon(output)), options);
  if (name.direction != Direction::kForward && rounds_differently) {
    explained *= kMixedSlack;
  }
  if (name.is_parameters_grad) {
    // The last backward call does not show all calls and shared weights whose gradients add up.
    explained = std::max(explained, kParameterGradientFactor *
                                        history.modules[context.plan.module_of[call.entry]].error);
  }
  if (family == OperatorFamily::kExact && history.any_unequal) {
    // A part of a tensor may hold all of an error that the statistics of the whole do not show.
    explained = std::max(explained, kFreshOriginFactor * history.recent.largest());
  }
  if (history.choice_flipped) {
    explained = std::max(explained, kFlippedChoiceError);
  }
  return std::max(explained,
                  kOriginNoiseFactor * context.agreement.Noise(*output.npu, *output.bench));
}

// Whether a discrete choice (topk, a comparison) among these inputs may flip at their error.
bool ChoiceMayFlip(const WalkHistory& history, const CallView& call) {
  double elements = 1;
  for (const RowView& input : call.inputs) {
    elements = std::max(elements, ElementCount(input.npu->shape));
  }
  return history.choice_flipped || call.InputsDiffer() ||
         FlippedShare(std::max(call.input_error, history.recent.largest()), elements) > 0;
}

// Gradients that cancel to zero in exact arithmetic (of a bias in front of a normalisation, say)
// are nothing but rounding: their relative error means nothing. What rounding may leave is measured
// against the gradients that entered: a sum of n numbers of size g is off by up to about 8 u g
// sqrt(n), whatever its result.
bool Cancels(const WalkContext& context, const CallView& call, const CallOperands& operands,
             const RowView& output) {
  if (!call.name.is_parameters_grad && !call.is_backward()) {
    return false;
  }
  double rms = 0;
  double elements = 1;
  // Kernels of 16 bits sum in float32: what they leave is the rounding of the gradients.
  const double epsilon = context.CoarserEpsilon(output);
  double error = epsilon > kNarrowFrom ? kHiddenNarrowUnits * epsilon
                                       : context.agreement.DTypeNoise(*output.npu, *output.bench);
  for (const Operand& gradient : operands.inputs) {
    rms = std::max(rms, gradient.rms);
    elements = std::max(elements, gradient.elements);
    error = std::max(error, gradient.error);
  }
  const double summed = std::max(1.0, elements / ElementCount(output.npu->shape));
  const double scale = rms * std::sqrt(summed);
  return RootMeanSquare(*output.bench) <= kCancelledFactor * error * scale &&
         output.distance.absolute <= kCancelledFactor * error * scale;
}

// The bound of an output whose statistics are all the other side's times one factor, or of the Norm
// of a gradient, of which every call is a linear function of the one that entered. Empty where
// operands and noise explain that factor.
std::optional<double> BoundOfScale(const WalkContext& context, const WalkHistory& history,
                                   const CallView& call, const CallOperands& operands,
                                   const RowView& output, double explained, bool cancels,
                                   bool choice_flipped) {
  // A view may hand on a part of a tensor that was scaled before.
  if (output.bench == nullptr || call.family == OperatorFamily::kExact) {
    return std::nullopt;
  }
  const bool is_linear = call.is_backward() && !choice_flipped && !cancels;
  const Operand result = OperandOf(output, 0);
  const std::optional<double> factor = context.ScaleFactor(output);
  if (!factor && !is_linear) {
    return std::nullopt;
  }
  // Several calls have a part in a parameter's gradient.
  double entering = call.name.is_parameters_grad
                        ? history.modules[context.plan.module_of[call.entry]].error
                        : 0.0;
  double share = NormShare(result);
  for (const std::vector<Operand>* of : {&operands.inputs, &operands.forward_inputs}) {
    for (const Operand& operand : *of) {
      entering += operand.scale_error;
      if (operand.elements > 1 && operand.epsilon > 0 && operand.rms > 0 && !operand.is_state) {
        share = std::max(share, NormShare(operand));
      }
    }
  }
  // What rounding leaves where sums cancel has no scale at all: another order of the sum leaves
  // other remainders, not the same ones scaled.
  const double allowed = std::max(kFactorSlack * entering + (cancels ? 0.0 : explained * share),
                                  context.agreement.Noise(*output.npu, *output.bench));
  const double off =
      factor ? std::abs(*factor) : std::abs(RootMeanSquare(*output.npu) / result.rms - 1);
  return off > allowed ? std::optional(allowed) : std::nullopt;
}

}  // namespace

double RootMeanSquare(const SideRow& row) {
  const StatValue& norm = row.stats[kNorm];
  return norm.is_numeric() && std::isfinite(norm.number)
             ? std::abs(norm.number) / std::sqrt(ElementCount(row.shape))
             : 0;
}

double NormShare(const Operand& values) {
  return std::max(kLeastNormShare, values.largest / (values.rms * std::sqrt(values.elements)));
}

double LargestError(const std::vector<RowView>& rows) {
  double largest = 0;
  for (const RowView& row : rows) {
    if (!row.forgiven) {
      largest = std::max(largest, row.distance.relative);
    }
  }
  return largest;
}

Operand OperandOf(const RowView& row, double epsilon) {
  const SideRow& values = row.bench != nullptr ? *row.bench : *row.npu;
  Operand operand;
  operand.epsilon = epsilon;
  operand.shape = values.shape;
  operand.elements = ElementCount(values.shape);
  operand.rms = RootMeanSquare(values);
  for (const Stat stat : {kMax, kMin}) {
    if (values.stats[stat].is_numeric() && std::isfinite(values.stats[stat].number)) {
      operand.largest = std::max(operand.largest, std::abs(values.stats[stat].number));
    }
  }
  if (values.stats[kMin].is_numeric()) {
    operand.smallest = std::max(0.0, values.stats[kMin].number);
  }
  if (values.stats[kMean].is_numeric() && std::isfinite(values.stats[kMean].number)) {
    operand.mean = values.stats[kMean].number;
  }
  operand.error = row.distance.comparable ? row.distance.relative : 0;
  if (operand.rms > 0 && row.bench != nullptr && operand.error > 0) {
    const StatValue& npu_mean = row.npu->stats[kMean];
    const double mean = npu_mean.is_numeric() ? npu_mean.number - operand.mean : 0;
    operand.scale_error =
        std::max(std::abs(RootMeanSquare(*row.npu) - operand.rms), std::abs(mean)) / operand.rms;
  }
  operand.is_state = row.stored;
  operand.hidden_error = operand.rms > 0 ? row.hidden / operand.rms : 0;
  return operand;
}

CallOperands OperandsOf(const WalkContext& context, const WalkHistory& history,
                        const CallView& call) {
  CallOperands operands;
  operands.inner_error = history.containment.InnerError(call.entry);
  const uint32_t partner = context.plan.partner[call.entry];
  if (call.name.is_parameters_grad) {  // partner: the module's last backward call
    operands.inputs = RecordedInputs(context, partner);
    operands.forward_inputs =
        RecordedInputs(context, partner == kNoEntry ? kNoEntry : context.plan.partner[partner]);
    return operands;
  }
  for (const RowView& input : call.inputs) {
    operands.inputs.push_back(OperandOf(input, context.CoarserEpsilon(input)));
  }
  if (call.is_backward()) {
    operands.forward_inputs = RecordedInputs(context, partner);
  }
  return operands;
}

OutputBound BoundOf(const WalkContext& context, const WalkHistory& history, const CallView& call,
                    const CallOperands& operands, const RowView& output) {
  OutputBound bound;
  bound.explained = ExplainedValue(context, history, call, operands, output);
  if (history.any_unequal && !context.agreement.IsFloating(*output.npu) &&
      ChoiceMayFlip(history, call)) {
    // Choices jump where noise decides them, and what they select with them.
    bound.explained = kUnbounded;
    bound.flips_choice = true;
  }
  const bool cancels = output.bench != nullptr && Cancels(context, call, operands, output);
  const std::optional<double> of_scale =
      BoundOfScale(context, history, call, operands, output, bound.explained, cancels,
                   history.choice_flipped || bound.flips_choice);
  bound.is_rounding = cancels && !of_scale;
  bound.explained = of_scale.value_or(bound.explained);
  return bound;
}

}  // namespace msprobe::analysis::compare
