// The prepared pair, and what the walk remembers from call to call.
//
// Everything that an earlier call contributes to the judgement of a later one is a member of
// WalkHistory and is changed by a function named Record..., so that the order of these calls in
// CallWalk (divergence.cpp) is the whole flow of state. What outlives the step is collected by
// RecordParameters.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/analysis/compare/error_bound.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {

using dump::Direction;
using dump::EntryName;
using dump::RowState;

// ---- The pair ----

WalkContext::WalkContext(const DivergenceInput& pair)
    : input(pair),
      npu(pair.npu),
      bench(pair.bench),
      result(pair.result),
      previous(pair.previous),
      has_checksums(pair.result.mode == CompareMode::kMd5),
      leaves_record(pair.step.has_value()),
      agreement(pair.noise, pair.result.mode),
      plan(pair.order.plan),
      kinds(SharedKindsOf(pair.npu, pair.bench)),
      alignment(pair.order.alignment),
      views(pair.npu, pair.bench, pair.result, alignment),
      parameters(has_checksums) {
  records_functions = std::any_of(plan.names.begin(), plan.names.end(), [](const EntryName& name) {
    return !name.is_module && !name.is_debug && !name.is_parameters_grad;
  });
  FindUsualDTypes();
  FindParameters();
}

// Finds the dtypes that most floating rows have on both sides: any other dtype is a finding.
void WalkContext::FindUsualDTypes() {
  std::map<std::pair<std::string_view, std::string_view>, size_t> counts;
  size_t floating = 0;
  auto last = counts.end();
  for (uint32_t i = 0; i < result.rows.size(); ++i) {
    const RowView view = views.View(i, /*with_fingerprint=*/false);
    if (view.bench == nullptr || !agreement.IsFloating(*view.npu) ||
        !agreement.IsFloating(*view.bench)) {
      continue;
    }
    ++floating;
    const std::pair dtypes(view.npu->dtype, view.bench->dtype);
    if (last == counts.end() || last->first != dtypes) {
      last = counts.try_emplace(dtypes, 0).first;
    }
    if (2 * ++last->second > floating) {
      usual_epsilon = CoarserEpsilon(view);
    }
  }
  if (npu.framework != bench.framework) {
    return;
  }
  for (const auto& [dtypes, count] : counts) {
    if (static_cast<double>(count) >= kUsualDTypeShare * static_cast<double>(floating)) {
      usual_dtypes = dtypes;
    }
  }
}

// So that a weight is known as such when a functional call inside the module, which a dump lists
// first, takes it; how parameters move between steps; and whether equal weights have equal sums.
void WalkContext::FindParameters() {
  size_t identical = 0;
  size_t sums_apart = 0;
  uint32_t last_entry = kNoEntry;
  dump::LayerState layer_state;
  for (uint32_t i = 0; i < result.rows.size(); ++i) {
    const SideRow& row = npu.rows[result.rows[i].pair.npu];
    const EntryName& name = plan.names[row.entry];
    const std::string_view entry_name = npu.entries[row.entry].name;
    if (std::exchange(last_entry, row.entry) != row.entry) {
      layer_state = dump::LayerState(name);
    }
    const std::string_view argument = dump::ArgumentOf(entry_name, row.name);
    const bool in_module = row.state == RowState::kParameters;
    if (!in_module && !(row.is_tensor && layer_state.Has(argument))) {
      continue;
    }
    const RowView view = views.View(i);
    if (view.bench == nullptr || !view.distance.comparable) {
      continue;
    }
    if (previous != nullptr && !IsRunningStatistic(name, argument)) {
      update_rule.Add(*previous, UpdateKeysOf(entry_name, argument, row), CancellationOf(row),
                      *view.npu, *view.bench);
    }
    if (view.distance.identical) {
      ++identical;
    } else {
      sums_apart += SameExtremes(*view.npu, *view.bench) ? 1 : 0;
      if (in_module) {
        parameters.Record(view.fingerprint);
      }
    }
  }
  agreement.SetSumsAreExact(identical >= sums_apart && !result.sums_are_joined);
}

double WalkContext::CoarserEpsilon(const RowView& row) const {
  const double epsilon = agreement.Epsilon(*row.npu);
  return row.bench == nullptr ? epsilon : std::max(epsilon, agreement.Epsilon(*row.bench));
}

bool WalkContext::HasUnusualDType(const RowView& row) const {
  if (!usual_dtypes || row.bench == nullptr || !agreement.IsFloating(*row.npu) ||
      !agreement.IsFloating(*row.bench)) {
    return false;
  }
  const std::pair dtypes(row.npu->dtype, row.bench->dtype);
  if (dtypes == *usual_dtypes) {
    return false;
  }
  // Sides of different precision may well have values of one dtype here and there (a loss in
  // float32), but not weights.
  return row.npu->dtype != row.bench->dtype ||
         (row.stored && usual_dtypes->first != usual_dtypes->second);
}

// Biases of contractions; a projection with three times as many outputs as inputs is fused from
// queries, keys and values.
Cancellation WalkContext::CancellationOf(const SideRow& parameter) const {
  if (FamilyOf(plan.names[parameter.entry]) != OperatorFamily::kContraction ||
      parameter.shape.find(',') != std::string_view::npos) {
    return Cancellation::kNever;
  }
  if (shapes_entry_ != parameter.entry) {
    shapes_entry_ = parameter.entry;
    shapes_.clear();
    const SideEntry& rows = npu.entries[parameter.entry];
    for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
      if (npu.rows[i].is_tensor) {
        shapes_.insert(npu.rows[i].shape);
      }
    }
  }
  const double outputs = ElementCount(parameter.shape);
  return shapes_.contains(fmt::format("[{:.0f}, {:.0f}]", outputs, outputs / 3))
             ? Cancellation::kInPart
             : Cancellation::kWhole;
}

bool WalkContext::IsUpdatedByChance() const {
  return previous != nullptr && !previous->identical && !update_rule.FollowsGradients();
}

std::optional<double> WalkContext::ScaleFactor(const RowView& row) const {
  if (row.bench == nullptr || std::max(CoarserEpsilon(row), usual_epsilon) > kNarrowFrom ||
      agreement.RoundsDifferently(*row.npu, *row.bench)) {
    return std::nullopt;
  }
  const std::optional<double> factor = CommonFactor(*row.npu, *row.bench);
  return factor && std::abs(*factor) <= kLargestFactor ? factor : std::nullopt;
}

// ---- The call ----

bool CallView::InputsDiffer() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const RowView& v) { return !v.agrees; });
}

bool CallView::InputsAreEqual() const {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const RowView& v) { return v.distance.identical; });
}

// ---- History ----

void RecentErrors::Record(const CallView& call, const Agreement& agreement) {
  for (RecentError& recent : errors_) {
    recent.error *= kRecentErrorDecay;
    recent.scale_error *= kRecentErrorDecay;
  }
  const bool may_absorb = call.family == OperatorFamily::kNormalisation && !call.outputs.empty();
  double output_error = 0;
  if (may_absorb) {
    for (const RowView& row : call.outputs) {
      if (!row.forgiven && agreement.IsFloating(*row.npu)) {
        output_error = std::max(output_error, row.distance.relative);
      }
    }
    Absorb(call.inputs, output_error);
  }
  const auto add = [&](const RowView& row) {
    if (!row.distance.identical && std::isfinite(row.distance.relative) && !row.forgiven &&
        !row.stored && agreement.IsFloating(*row.npu)) {
      Add(row);
    }
  };
  for (const RowView& row : call.inputs) {
    if (!may_absorb || kAbsorbedFactor * output_error > row.distance.relative) {
      add(row);
    }
  }
  std::for_each(call.outputs.begin(), call.outputs.end(), add);
  largest_ = errors_.empty() ? 0 : errors_.front().error;
  largest_scale_ = 0;
  for (const RecentError& recent : errors_) {
    largest_scale_ = std::max(largest_scale_, recent.scale_error);
  }
}

bool RecentErrors::IsLarger(const RecentError& a, const RecentError& b) {
  return a.error > b.error;
}

// A normalisation takes the scale out of its inputs: what they were off is off no more.
void RecentErrors::Absorb(const std::vector<RowView>& inputs, double output_error) {
  bool any = false;
  for (const RowView& input : inputs) {
    if (input.stored || input.distance.identical) {
      continue;
    }
    for (RecentError& recent : errors_) {
      if (recent.extremes == input.fingerprint.extremes &&
          kAbsorbedFactor * output_error <= recent.error) {
        recent.error = output_error;
        recent.scale_error = std::min(recent.scale_error, output_error);
        any = true;
      }
    }
  }
  if (any) {
    std::stable_sort(errors_.begin(), errors_.end(), IsLarger);
  }
}

// Behind those that are as large; the smallest of too many is left out.
void RecentErrors::Add(const RowView& row) {
  largest_ever_ = std::max(largest_ever_, row.distance.relative);
  const RecentError added = {row.fingerprint.extremes, row.distance.relative, 0};
  const auto place =
      std::upper_bound(errors_.begin(), errors_.end(), added, IsLarger) - errors_.begin();
  if (place == static_cast<ptrdiff_t>(kRecentErrorCount)) {
    return;
  }
  errors_.resize(std::min(errors_.size(), kRecentErrorCount - 1));
  errors_.insert(errors_.begin() + place, added)->scale_error = OperandOf(row, 0).scale_error;
}

WalkHistory::WalkHistory(const WalkContext& pair)
    : context(pair),
      any_unequal(pair.previous != nullptr && !pair.previous->identical),
      calls(pair.npu.entries.size()),
      modules(pair.plan.module_count),
      containment(pair.npu, pair.plan, pair.input.construct),
      known(pair.has_checksums),
      explained_parameters(pair.has_checksums),
      carried(std::make_shared<DifferingRows>(pair.has_checksums)),
      by_chance(std::make_shared<DifferingRows>(pair.has_checksums)) {}

bool WalkHistory::HasOrigin() const {
  return std::any_of(first_of_kind.begin(), first_of_kind.end(),
                     [](const std::optional<DivergencePoint>& point) { return point.has_value(); });
}

bool WalkHistory::StartsAtUnequalBits(const CallView& call) const {
  return unequal_bits && !HasOrigin() &&
         (call.place - unequal_bits->place <= kUnequalBitsReach || recent.largest_ever() == 0);
}

bool WalkHistory::IsByChance(const CallView& call) const {
  const RowView* worst = nullptr;
  for (const RowView& input : call.inputs) {
    if (!input.stored && !input.distance.identical &&
        (worst == nullptr || input.distance.relative > worst->distance.relative)) {
      worst = &input;
    }
  }
  return worst != nullptr &&
         (by_chance->Contains(worst->fingerprint) ||
          (context.previous != nullptr && context.previous->by_chance != nullptr &&
           context.previous->by_chance->Contains(worst->fingerprint)));
}

bool WalkHistory::IsUpdateCall(const EntryName& name) const {
  return seen_backward && !name.is_module && name.direction == Direction::kForward &&
         name.subject.ends_with('_') && !name.subject.ends_with("__");
}

bool WalkHistory::IsCarriedOver(const RowView& input) const {
  return !input.stored && context.previous != nullptr && context.previous->differing != nullptr &&
         context.previous->differing->Contains(input.fingerprint);
}

double WalkHistory::PartnerError(const CallView& call) const {
  if (call.name.is_parameters_grad) {
    return modules[context.plan.module_of[call.entry]].error;
  }
  const uint32_t forward = context.plan.partner[call.entry];
  return forward == kNoEntry ? 0
                             : std::max(calls[forward].input_error, calls[forward].output_error);
}

bool WalkHistory::PartnerDiverges(const CallView& call) const {
  const uint32_t partner = context.plan.partner[call.entry];
  if (call.name.is_parameters_grad) {
    return modules[context.plan.module_of[call.entry]].diverges ||
           (partner == kNoEntry && any_divergence);
  }
  // A gradient call without its forward: what it worked on is unknown.
  return partner == kNoEntry ? call.is_backward() && any_divergence : calls[partner].diverges;
}

void WalkHistory::AdvanceUnmatchedCalls(uint32_t entry) {
  const CallAlignment& alignment = context.alignment;
  while (next_unmatched < alignment.unmatched.size()) {
    const UnmatchedCalls& run = alignment.unmatched[next_unmatched];
    // Reached when the walk comes to the call in front of which calls are missing, or to the one
    // that is too many; a run behind the last forward call, with the backward pass.
    const bool is_last = run.npu_begin >= alignment.forward_npu.size();
    if (is_last ? context.plan.names[entry].direction != Direction::kBackward
                : alignment.forward_npu[run.npu_begin] > entry) {
      return;
    }
    passed_unmatched = next_unmatched++;
  }
}

void WalkHistory::RecordFinding(Finding finding) {
  choice_flipped = choice_flipped || finding.flips_choice;
  if (finding.kind == Finding::Kind::kDrift && !drift && !HasOrigin()) {
    drift = std::move(finding.point);
    return;
  }
  if (finding.kind == Finding::Kind::kUnequalBits) {
    unequal_bits->reason += ", and the values after it differ";
    finding.point = *unequal_bits;
  } else if (finding.kind != Finding::Kind::kOrigin) {
    return;
  }
  std::optional<DivergencePoint>& first = first_of_kind[static_cast<size_t>(finding.point.kind)];
  if (!first) {
    first = std::move(finding.point);
  }
}

void WalkHistory::RecordAmplifier(DivergencePoint point) {
  const auto at = std::upper_bound(amplifiers.begin(), amplifiers.end(), point,
                                   [](const DivergencePoint& a, const DivergencePoint& b) {
                                     return a.amplification > b.amplification;
                                   });
  amplifiers.insert(at, std::move(point));
  if (amplifiers.size() > kAmplifierCount) {
    amplifiers.pop_back();
  }
}

void WalkHistory::RecordByChance(const CallView& call) {
  const bool is_by_chance = IsByChance(call);
  for (const RowView& output : call.outputs) {
    if (!output.distance.identical && (output.forgiven || is_by_chance)) {
      by_chance->Record(output.fingerprint);
    }
  }
}

void WalkHistory::RecordHidden(const CallView& call) {
  for (const RowView& output : call.outputs) {
    if (output.hidden > 0 && !output.distance.identical) {
      hidden[output.fingerprint.extremes] = output.hidden;
    }
  }
}

void WalkHistory::RecordRows(const CallView& call) {
  call.ForEachRow([&](const RowView& row) {
    if (row.distance.identical) {
      return;
    }
    if (!row.agrees) {
      known.Record(row.fingerprint);
      any_divergence = true;
    }
    if (context.leaves_record) {
      carried->Record(row.fingerprint);
    }
  });
}

void WalkHistory::RecordErrors(const CallView& call, bool diverges) {
  any_unequal = true;
  CallErrors& errors = calls[call.entry];
  errors.input_error = call.input_error;
  errors.output_error = call.output_error;
  errors.diverges = diverges;
  if (context.plan.module_of[call.entry] != kNoEntry) {
    ModuleErrors& module = modules[context.plan.module_of[call.entry]];
    module.error = std::max({module.error, call.input_error, call.output_error});
    module.diverges = module.diverges || diverges;
  }
  // Weights and gradients that cancel left aside: their relative errors say nothing of what is
  // computed with them.
  double computed = 0;
  call.ForEachRow([&](const RowView& row) {
    computed = row.forgiven || row.stored ? computed : std::max(computed, row.distance.relative);
  });
  containment.RecordError(call.entry, computed);
  if (diverges) {
    containment.MarkDiverging(call.entry);
  }
  if (!call.name.is_parameters_grad) {  // no call before the optimizer's takes those
    recent.Record(call, context.agreement);
  }
}

void WalkHistory::RecordVisited(const CallView& call) {
  last_was_normalised = call.family == OperatorFamily::kNormalisation &&
                        call.name.direction == Direction::kForward &&
                        std::all_of(call.outputs.begin(), call.outputs.end(),
                                    [](const RowView& v) { return v.agrees; });
  last_was_forward = call.name.direction == Direction::kForward;
  seen_output = seen_output || !call.outputs.empty();
  seen_backward = seen_backward || call.is_backward();
}

// ---- What the step leaves to the next one ----

namespace {

// Where a dump shows what entered a backward call, but not the gradient that it gave to a weight
// (PyTorch 2 adds it to the parameter elsewhere), that gradient is as far apart as what it is made
// of.
void RecordUnseenGradients(const WalkContext& context, const CallView& call, StepRecord& record) {
  const uint32_t forward = context.plan.partner[call.entry];
  if (call.name.is_parameters_grad || call.name.is_module || forward == kNoEntry ||
      call.inputs.empty()) {
    return;
  }
  double error = LargestError(call.inputs);
  std::vector<RowView> weights;
  const std::string_view forward_name = context.npu.entries[forward].name;
  for (auto it = context.views.Begin(forward); it != context.views.End(forward); ++it) {
    RowView view = context.views.View(*it);
    if (!IsInput(*view.npu) || view.bench == nullptr || !view.npu->is_tensor) {
      continue;
    }
    if (IsLayerStateArgument(context.plan.names[forward],
                             dump::ArgumentOf(forward_name, view.npu->name))) {
      weights.push_back(view);
    } else {
      error = std::max(error, view.distance.relative);
    }
  }
  for (const RowView& weight : weights) {
    if (context.CancellationOf(*weight.npu) != Cancellation::kNever ||
        IsRunningStatistic(context.plan.names[forward],
                           dump::ArgumentOf(forward_name, weight.npu->name))) {
      continue;
    }
    StepRecord::Gradient gradient;
    gradient.error = kUnseenGradientSlack *
                     std::max(error, context.agreement.DTypeNoise(*weight.npu, *weight.bench));
    record.gradients.try_emplace(
        UpdateKeysOf(forward_name, dump::ArgumentOf(forward_name, weight.npu->name), *weight.npu)
            .gradient,
        gradient);
  }
}

}  // namespace

void RecordParameters(const WalkContext& context, const WalkHistory& history, const CallView& call,
                      StepRecord& record) {
  if (!context.leaves_record) {
    return;
  }
  const EntryName& name = call.name;
  const std::string_view entry_name = call.entry_name;
  for (const RowView& row : call.inputs) {
    if (!row.stored || row.bench == nullptr || name.direction != Direction::kForward) {
      continue;
    }
    record.repeats_layers =
        record.repeats_layers || (history.seen_backward && !history.IsUpdateCall(name));
    StepRecord::Parameter parameter;
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      const auto number = [&](const SideRow& side) {
        return side.stats[stat].is_numeric() ? side.stats[stat].number
                                             : std::numeric_limits<double>::quiet_NaN();
      };
      parameter.npu[stat] = number(*row.npu);
      parameter.bench[stat] = number(*row.bench);
    }
    parameter.identical = row.distance.identical;
    parameter.agrees = row.agrees;
    record.parameters.try_emplace(
        UpdateKeysOf(entry_name, dump::ArgumentOf(entry_name, row.npu->name), *row.npu).parameter,
        parameter);
  }
  if (!name.is_parameters_grad && name.direction != Direction::kBackward) {
    return;
  }
  for (const RowView& row : call.outputs) {
    if (!row.npu->is_tensor) {
      continue;
    }
    StepRecord::Gradient gradient;
    gradient.identical = row.distance.identical;
    gradient.cancelled = row.forgiven;
    gradient.error = row.distance.relative;
    gradient.scale = row.bench == nullptr ? 0 : RootMeanSquare(*row.bench);
    const auto [found, is_new] = record.gradients.try_emplace(
        UpdateKeysOf(entry_name, dump::ArgumentOf(entry_name, row.npu->name), *row.npu).gradient,
        gradient);
    if (!is_new) {  // of several with one shape, the worst
      found->second.identical = found->second.identical && gradient.identical;
      found->second.cancelled = found->second.cancelled || gradient.cancelled;
      found->second.error = std::max(found->second.error, gradient.error);
    }
  }
  RecordUnseenGradients(context, call, record);
}

}  // namespace msprobe::analysis::compare
