#include "src/analysis/compare/divergence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/analysis/compare/error_bound.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xFF51AFD7ED558CCDULL;
  return hash ^ (hash >> 32U);
}

uint64_t StatPrint(const StatValue& value) {
  switch (value.kind) {
    case StatKind::kNone:
      return 1;
    case StatKind::kNumber:
    case StatKind::kInteger:
      return std::bit_cast<uint64_t>(value.number);
    case StatKind::kBool:
      return value.boolean ? 3 : 2;
    case StatKind::kText:
      return std::hash<std::string_view>()(value.text);
  }
  return 0;
}

uint64_t ExtremesPrint(const SideRow& row) {
  return Mix(StatPrint(row.stats[kMax]), StatPrint(row.stats[kMin]));
}

// The leading bits of Norm: the order of summation changes only the last ones.
uint64_t CoarseNorm(const SideRow& row) { return StatPrint(row.stats[kNorm]) >> 40U; }

}  // namespace

RowPrints PrintsOf(const RowView& row, bool has_checksums) {
  RowPrints prints;
  const uint64_t npu = ExtremesPrint(*row.npu);
  prints.extremes = Mix(17, npu);
  if (row.bench != nullptr) {
    const uint64_t bench = ExtremesPrint(*row.bench);
    prints.extremes = Mix(prints.extremes, bench);
    prints.same_extremes = npu == bench;
    if (prints.same_extremes) {
      prints.extremes = Mix(Mix(prints.extremes, CoarseNorm(*row.npu)), CoarseNorm(*row.bench));
    }
  }
  if (row.npu->stats[kMax].kind == StatKind::kNone) {
    prints.extremes = Mix(Mix(prints.extremes, std::bit_cast<uint64_t>(row.distance.relative)),
                          std::bit_cast<uint64_t>(row.distance.absolute));
  }
  if (has_checksums) {
    prints.checksums = Mix(29, std::hash<std::string_view>()(row.npu->md5));
    if (row.bench != nullptr) {
      prints.checksums = Mix(prints.checksums, std::hash<std::string_view>()(row.bench->md5));
    }
  }
  return prints;
}

void DifferingRows::PrintSet::Insert(uint64_t print) {
  print += print == 0 ? 1 : 0;
  if ((used_ + 1) * 2 > places_.size()) {
    Grow();
  }
  const size_t mask = places_.size() - 1;
  size_t place = print & mask;
  while (places_[place] != 0) {
    if (places_[place] == print) {
      return;
    }
    place = (place + 1) & mask;
  }
  places_[place] = print;
  ++used_;
}

bool DifferingRows::PrintSet::Contains(uint64_t print) const {
  if (places_.empty()) {
    return false;
  }
  print += print == 0 ? 1 : 0;
  const size_t mask = places_.size() - 1;
  for (size_t place = print & mask; places_[place] != 0; place = (place + 1) & mask) {
    if (places_[place] == print) {
      return true;
    }
  }
  return false;
}

void DifferingRows::PrintSet::Grow() {
  std::vector<uint64_t> old(std::max<size_t>(1024, places_.size() * 4), 0);
  old.swap(places_);
  used_ = 0;
  for (const uint64_t print : old) {
    if (print != 0) {
      Insert(print);
    }
  }
}

void DifferingRows::Remember(const RowPrints& prints) {
  if (has_checksums_) {
    prints_.Insert(prints.checksums);
  }
  if (!has_checksums_ || !prints.same_extremes) {
    prints_.Insert(prints.extremes);
  }
}

bool DifferingRows::IsKnown(const RowPrints& prints) const {
  return (has_checksums_ && prints_.Contains(prints.checksums)) ||
         ((!has_checksums_ || !prints.same_extremes) && prints_.Contains(prints.extremes));
}

double RootMeanSquare(const SideRow& row) {
  const StatValue& norm = row.stats[kNorm];
  return norm.is_numeric() && std::isfinite(norm.number)
             ? std::abs(norm.number) / std::sqrt(ElementCount(row.shape))
             : 0;
}

using dump::Direction;

using dump::EntryName;

using dump::RowState;

namespace {

// Each call behind an error counts it for this much less, when it comes to what an unrecorded call
// may have been given.
constexpr double kForgetting = 0.7;
constexpr size_t kRecentRows = 64;
// A normalisation that brings an error down by this factor has taken it out of the run: a bias in
// front of it moves by chance, and what moves by chance has no effect on the loss.
constexpr double kAbsorbed = 8;
// Every output that differs is held against every tensor that the call was given: of a call of more
// pairs than these, the first outputs are.
constexpr uint64_t kMostHeldAgainst = uint64_t{1} << 26U;

}  // namespace

Walk::Walk(const DivergenceInput& input)
    : input_(input),
      npu_(input.npu),
      result_(input.result),
      has_checksums_(input.result.mode == CompareMode::kMd5),
      agreement_(input.options, input.result.mode),
      plan_(PlanExecution(input.npu)),
      kinds_(SharedKindsOf(input.npu, input.bench)),
      alignment_(PairsCallsByName(input) ? CallAlignment{}
                                         : AlignCalls(input.npu, plan_, input.bench)),
      views_(input.npu, input.bench, input.result, alignment_),
      containment_(input.npu, plan_, input.construct),
      parameters_(has_checksums_),
      explained_parameters_(has_checksums_),
      known_(has_checksums_),
      carried_(std::make_shared<DifferingRows>(has_checksums_)),
      by_chance_(std::make_shared<DifferingRows>(has_checksums_)) {}

DivergenceOutput Walk::Run() {
  states_.resize(npu_.entries.size());
  modules_.resize(plan_.module_count);
  report_.rows.resize(result_.rows.size(), RowStanding::kNotCompared);
  record_.step = input_.step;
  record_.shows_bits = result_.mode != CompareMode::kStatistics;
  if (input_.previous != nullptr && !input_.previous->identical) {
    noisy_ = true;
  }
  records_functions_ =
      std::any_of(plan_.names.begin(), plan_.names.end(), [](const EntryName& name) {
        return !name.is_module && !name.is_debug && !name.is_parameters_grad;
      });
  NoteDTypes();
  NoteParameters();
  for (const uint32_t entry : plan_.order) {
    if (kinds_.Has(plan_.names[entry])) {
      Visit(entry);
    }
  }
  return Finish();
}

bool Walk::PairsCallsByName(const DivergenceInput& input) {
  const Options& options = input.options;
  return options.fuzzy || options.data_mapping.given || options.cell_mapping.given ||
         options.api_mapping.given || options.layer_mapping.given ||
         input.npu.framework != input.bench.framework || input.npu.is_debug ||
         !options.name_filter.empty();
}

void Walk::Visit(uint32_t entry) {
  const EntryName& name = plan_.names[entry];
  const std::string_view entry_name = npu_.entries[entry].name;
  PassUnmatchedCalls(entry);
  inputs_.clear();
  outputs_.clear();
  bool compared = false;
  bool identical = true;
  moves_memory_ = false;
  for (auto it = views_.Begin(entry); it != views_.End(entry); ++it) {
    RowView view = views_.View(*it);
    if (!view.distance.comparable) {
      if (view.bench == nullptr) {
        record_identical_ = false;
      }
      continue;
    }
    const std::string_view argument = dump::ArgumentOf(entry_name, view.npu->name);
    Judge(name, entry_name, argument, view);
    compared = true;
    identical = identical && view.distance.identical;
    const bool is_input = IsInput(*view.npu) || view.npu->state == RowState::kParameters;
    if (IsAsFound(name, view) && !view.distance.identical) {
      Stand(view, RowStanding::kAgrees);
      continue;
    }
    if (is_input && !view.agrees && IsReceiveBuffer(name, argument)) {
      known_.Remember(view.prints);
      Stand(view, RowStanding::kAgrees);
      continue;
    }
    (is_input ? inputs_ : outputs_).push_back(view);
  }
  const auto is_choice = [&](const RowView& v) {
    return v.npu->is_tensor && !agreement_.IsFloating(*v.npu);
  };
  states_[entry].made_same_choice =
      std::any_of(outputs_.begin(), outputs_.end(), is_choice) &&
      std::all_of(outputs_.begin(), outputs_.end(),
                  [&](const RowView& v) { return !is_choice(v) || v.distance.identical; });
  ++place_;
  if (name.direction == Direction::kBackward && plan_.module_of[entry] != kNoEntry) {
    modules_[plan_.module_of[entry]].backward = entry;
  }
  if (!compared) {
    return;
  }
  ++report_.compared_entry_count;
  report_.identical_entry_count += identical ? 1 : 0;
  if (identical) {
    ++report_.agreeing_entry_count;
    StandAll(RowStanding::kIdentical);
  } else if (IsUninitialisedCall(name)) {
    ++report_.agreeing_entry_count;
    RememberRows();  // what memory held is not an error that later calls may have been given
    StandAll(RowStanding::kAgrees);
  } else if (LeavesUnused(name)) {
    ++report_.agreeing_entry_count;
    for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
      std::for_each(rows->begin(), rows->end(), [&](const RowView& row) { memory_.Note(row); });
    }
    StandAll(RowStanding::kAgrees);
  } else {
    record_identical_ = false;
    Analyse(entry);
    noisy_ = true;
  }
  just_normalised_ =
      FamilyOfEntry(entry) == OperatorFamily::kNormalisation &&
      name.direction == Direction::kForward &&
      std::all_of(outputs_.begin(), outputs_.end(), [](const RowView& v) { return v.agrees; });
  last_was_forward_ = name.direction == Direction::kForward;
  seen_output_ = seen_output_ || !outputs_.empty();
  seen_backward_ = seen_backward_ || name.direction == Direction::kBackward;
  RecordParameters(entry);
}

bool Walk::IsAsFound(const EntryName& name, const RowView& row) {
  const bool is_input = IsInput(*row.npu);
  if (IsUninitialisedCall(name)) {
    if (!is_input) {
      memory_.Note(row);
    }
    return false;
  }
  if (name.is_module || name.direction != Direction::kForward || row.stored) {
    return false;
  }
  if (!IsPartingCall(name) && !IsDescribingCall(name) && FamilyOf(name) != OperatorFamily::kExact) {
    return false;
  }
  const bool found = is_input ? memory_.Holds(row) : moves_memory_ && row.npu->is_tensor;
  if (found) {
    moves_memory_ = true;
    memory_.Note(row);
  }
  return found;
}

bool Walk::LeavesUnused(const EntryName& name) const {
  return (IsPartingCall(name) || IsDescribingCall(name)) &&
         std::any_of(inputs_.begin(), inputs_.end(), [&](const RowView& input) {
           return !input.distance.identical && !input.stored &&
                  (!input.agrees || !std::isfinite(input.distance.relative)) &&
                  !known_.IsKnown(input.prints);
         });
}

void Walk::PassUnmatchedCalls(uint32_t entry) {
  while (next_unmatched_ < alignment_.unmatched.size()) {
    const UnmatchedCalls& run = alignment_.unmatched[next_unmatched_];
    // Reached when the walk comes to the call in front of which calls are missing, or to the one
    // that is too many.
    if (run.npu_begin < alignment_.forward_npu.size() &&
        alignment_.forward_npu[run.npu_begin] > entry) {
      return;
    }
    if (run.npu_begin >= alignment_.forward_npu.size() &&
        plan_.names[entry].direction != Direction::kBackward) {
      return;
    }
    passed_unmatched_ = next_unmatched_++;
  }
}

void Walk::Judge(const EntryName& name, std::string_view entry_name, std::string_view argument,
                 RowView& view) {
  if (view.bench == nullptr) {
    return;
  }
  view.stored = view.npu->state == RowState::kParameters ||
                (view.npu->is_tensor && IsLayerStateArgument(name, argument));
  if (view.distance.identical) {
    return;
  }
  if (!view.stored && view.npu->is_tensor && IsInput(*view.npu)) {
    view.stored = parameters_.IsKnown(view.prints);
    if (view.stored && explained_parameters_.IsKnown(view.prints)) {
      // Only its layer tells what may move it: a call of the optimizer does not say of which layer
      // the parameter is.
      view.agrees = true;
      return;
    }
  }
  if (!view.stored) {
    // Before anything was computed, inputs are what was fed: checksums that differ are other data,
    // in another order perhaps, which statistics do not show.
    const bool fed_otherwise = has_checksums_ && IsInput(*view.npu) && !seen_output_ &&
                               view.npu->dtype == view.bench->dtype;
    view.agrees = !fed_otherwise && agreement_.Agrees(*view.npu, *view.bench, view.distance,
                                                      Provenance::kComputed, LargestRelative(view));
    return;
  }
  if (noisy_ && IsRunningStatistic(name, argument)) {
    // An earlier forward of this step has updated it.
    view.stored = false;
    view.agrees = agreement_.Agrees(*view.npu, *view.bench, view.distance, Provenance::kComputed,
                                    LargestRelative(view));
    return;
  }
  // A weight of the first step is loaded, so it is exactly equal; later it is what an optimizer
  // made of it.
  view.update = UpdateJudgement::kUnknown;
  if (input_.previous != nullptr) {
    const UpdateVerdict update =
        JudgeUpdate(*input_.previous, update_rule_, UpdateKeysOf(entry_name, argument, *view.npu),
                    CancellationOf(*view.npu), *view.npu, *view.bench);
    view.update = update.judgement;
    view.hidden = result_.mode == CompareMode::kRealData ? 0 : update.hidden;
    view.agrees =
        view.update == UpdateJudgement::kExplained ||
        agreement_.Agrees(*view.npu, *view.bench, view.distance,
                          input_.previous->identical ? Provenance::kStored : Provenance::kComputed,
                          LargestRelative(view));
    if (view.agrees) {
      explained_parameters_.Remember(view.prints);
    }
    return;
  }
  const bool trained_before = input_.step.value_or(0) > 0;
  view.agrees = agreement_.Agrees(*view.npu, *view.bench, view.distance,
                                  trained_before ? Provenance::kComputed : Provenance::kStored,
                                  LargestRelative(view));
}

double Walk::LargestRelative(const RowView& view) const {
  const RowResult& row = result_.rows[view.result];
  return views_.PairedByName(row) ? LargestRelativeOf(row, result_.mode) : 0;
}

void Walk::Analyse(uint32_t entry) {
  const EntryName& name = plan_.names[entry];
  EntryState& state = states_[entry];
  state.input_error = LargestError(inputs_);
  state.output_error = LargestError(outputs_);
  const bool inputs_differ =
      std::any_of(inputs_.begin(), inputs_.end(), [](const RowView& v) { return !v.agrees; });
  const bool had_origin = HasOrigin();
  const OperatorFamily family = FamilyOfEntry(entry);
  if (!hidden_.empty()) {
    for (RowView& input : inputs_) {
      if (const auto found = hidden_.find(input.prints.extremes);
          !input.stored && !input.distance.identical && found != hidden_.end()) {
        input.hidden = found->second;
      }
    }
  }

  ProposeDType(entry, state);
  for (const RowView& input : inputs_) {
    if (!input.agrees && !known_.IsKnown(input.prints) && !CarriedOver(input)) {
      Enter(entry, state, input);
    }
  }
  const bool explained_before = ExplainedByPartner(entry, state);
  const bool contains_divergence = containment_.ContainsDiverging(entry);
  const RowView* bad_output = nullptr;
  double worst = 0;
  double explained = 0;
  if (std::any_of(outputs_.begin(), outputs_.end(), [](const RowView& v) { return !v.agrees; })) {
    const CallOperands operands = OperandsOf(entry);
    uint64_t left =
        1 + kMostHeldAgainst / (1 + operands.inputs.size() + operands.forward_inputs.size());
    for (RowView& output : outputs_) {
      if (output.agrees) {
        continue;
      }
      if (left-- == 0) {
        break;
      }
      double allowed = Explained(entry, family, operands, output);
      if (noisy_ && !agreement_.IsFloating(*output.npu) && MayJump(state.input_error, inputs_)) {
        // Choices (topk, comparisons) jump where noise decides them, and what they select with
        // them.
        allowed = std::numeric_limits<double>::infinity();
        jumped_ = true;
      }
      const bool cancels = output.bench != nullptr && Cancels(entry, output, operands);
      if (const std::optional<double> of_scale =
              ExplainedOfScale(entry, family, output, operands, allowed, cancels)) {
        allowed = *of_scale;
      } else if (cancels) {
        known_.Remember(output.prints);
        output.agrees = true;
        output.forgiven = true;
        continue;
      }
      const double excess = allowed > 0 ? output.distance.relative / allowed
                                        : std::numeric_limits<double>::infinity();
      if (bad_output == nullptr || excess > worst) {
        bad_output = &output;
        worst = excess;
        explained = allowed;
      }
    }
  }
  CarryHidden(family);
  RememberByChance();
  state.output_error = LargestError(outputs_);
  if (bad_output != nullptr) {
    const bool settled = had_origin || HasOrigin();
    // Behind an origin everything differs: only a call whose inputs agree is another one.
    const auto unequal = std::find_if(inputs_.begin(), inputs_.end(),
                                      [](const RowView& v) { return !v.distance.identical; });
    if (has_checksums_ && !settled && !noisy_ && unequal != inputs_.end()) {
      Candidate candidate = CandidateOf(OriginKind::kInput, entry, state, *unequal);
      candidate.confidence = Confidence::kCertain;
      candidate.reason =
          "everything before it is bit-equal, this value is not: statistics do not show how";
      Propose(std::move(candidate));
    } else if (!settled || (!inputs_differ && !explained_before && !contains_divergence)) {
      Compute(entry, state, *bad_output, explained, inputs_differ);
    }
    if (!contains_divergence && !name.is_debug) {
      NoteAmplifier(entry, state, *bad_output);
    }
  }
  // The first output that is not bit-equal behind bit-equal inputs is named in any case: where the
  // statistics are too close to prove an origin as well.
  if (has_checksums_ && !HasOrigin()) {
    NoteUnequalBits(entry, state);
  }
  state.diverges = inputs_differ || bad_output != nullptr;
  ++(state.diverges ? report_.diverging_entry_count : report_.agreeing_entry_count);
  if (plan_.module_of[entry] != kNoEntry) {
    ModuleState& module = modules_[plan_.module_of[entry]];
    module.error = std::max({module.error, state.input_error, state.output_error});
    module.diverges = module.diverges || state.diverges;
  }
  for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
    for (const RowView& row : *rows) {
      Stand(row, row.distance.identical ? RowStanding::kIdentical
                 : row.agrees           ? RowStanding::kAgrees
                 : HasOrigin()          ? RowStanding::kDiffers
                                        : RowStanding::kDrifts);
    }
  }
  containment_.NoteError(entry, LargestComputedError());
  if (state.diverges) {
    containment_.MarkDiverging(entry);
  }
  RememberDiffering(entry, family);
}

double Walk::LargestError(const std::vector<RowView>& rows) {
  double largest = 0;
  for (const RowView& row : rows) {
    if (!row.forgiven) {
      largest = std::max(largest, row.distance.relative);
    }
  }
  return largest;
}

double Walk::LargestComputedError() const {
  double largest = 0;
  for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
    for (const RowView& row : *rows) {
      if (!row.forgiven && !row.stored) {
        largest = std::max(largest, row.distance.relative);
      }
    }
  }
  return largest;
}

bool Walk::HasOrigin() const {
  return std::any_of(firsts_.begin(), firsts_.end(),
                     [](const std::optional<Candidate>& c) { return c.has_value(); });
}

void Walk::RememberRecent(OperatorFamily family) {
  for (RecentError& recent : recent_) {
    recent.error *= kForgetting;
    recent.scale_error *= kForgetting;
  }
  const bool may_absorb = family == OperatorFamily::kNormalisation && !outputs_.empty();
  double output_error = 0;
  for (const RowView& row : outputs_) {
    if (!row.forgiven && agreement_.IsFloating(*row.npu)) {
      output_error = std::max(output_error, row.distance.relative);
    }
  }
  for (const RowView& input : inputs_) {
    if (!may_absorb || input.stored || input.distance.identical) {
      continue;
    }
    for (RecentError& recent : recent_) {
      if (recent.print == input.prints.extremes && kAbsorbed * output_error <= recent.error) {
        recent.error = output_error;
        recent.scale_error = std::min(recent.scale_error, output_error);
      }
    }
  }
  const auto remember = [&](const RowView& row) {
    if (!row.distance.identical && std::isfinite(row.distance.relative) && !row.forgiven &&
        !row.stored && agreement_.IsFloating(*row.npu)) {
      recent_.push_back(
          {row.prints.extremes, row.distance.relative, OperandOf(row, 0).scale_error});
      error_since_unequal_ = std::max(error_since_unequal_, row.distance.relative);
    }
  };
  for (const RowView& row : inputs_) {
    if (!may_absorb || kAbsorbed * output_error > row.distance.relative) {
      remember(row);
    }
  }
  std::for_each(outputs_.begin(), outputs_.end(), remember);
  if (recent_.size() > kRecentRows) {
    std::nth_element(recent_.begin(), recent_.begin() + kRecentRows, recent_.end(),
                     [](const RecentError& a, const RecentError& b) { return a.error > b.error; });
    recent_.resize(kRecentRows);
  }
  recent_error_ = 0;
  recent_scale_error_ = 0;
  for (const RecentError& recent : recent_) {
    recent_error_ = std::max(recent_error_, recent.error);
    recent_scale_error_ = std::max(recent_scale_error_, recent.scale_error);
  }
}

void Walk::RememberDiffering(uint32_t entry, OperatorFamily family) {
  if (!plan_.names[entry].is_parameters_grad) {  // no call before the optimizer's is given those
    RememberRecent(family);
  }
  RememberRows();
}

void Walk::RememberRows() {
  for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
    for (const RowView& row : *rows) {
      if (row.distance.identical) {
        continue;
      }
      if (!row.agrees) {
        known_.Remember(row.prints);
        any_divergence_ = true;
      }
      carried_->Remember(row.prints);
    }
  }
}

void Walk::Stand(const RowView& row, RowStanding standing) { report_.rows[row.result] = standing; }

void Walk::StandAll(RowStanding standing) {
  for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
    for (const RowView& row : *rows) {
      Stand(row, standing);
    }
  }
}

bool Walk::ExplainedByPartner(uint32_t entry, EntryState& state) {
  const EntryName& name = plan_.names[entry];
  if (name.is_parameters_grad) {
    const ModuleState& module = modules_[plan_.module_of[entry]];
    state.input_error = std::max(state.input_error, module.error);
    return module.diverges || (plan_.partner[entry] == kNoEntry && any_divergence_);
  }
  const uint32_t forward = plan_.partner[entry];
  if (forward == kNoEntry) {
    // A gradient call without its forward: nothing tells what it worked on.
    return name.direction == Direction::kBackward && any_divergence_;
  }
  state.input_error =
      std::max({state.input_error, states_[forward].input_error, states_[forward].output_error});
  return states_[forward].diverges;
}

bool Walk::CarriedOver(const RowView& input) const {
  return !input.stored && input_.previous != nullptr && input_.previous->differing != nullptr &&
         input_.previous->differing->IsKnown(input.prints);
}

std::string_view OriginKindName(OriginKind kind) {
  switch (kind) {
    case OriginKind::kParameter:
      return "parameter";
    case OriginKind::kInput:
      return "input";
    case OriginKind::kComputation:
      return "computation";
    case OriginKind::kOptimizer:
      return "optimizer";
    case OriginKind::kDType:
      return "dtype";
    case OriginKind::kUnmatchedCall:
      return "unmatched call";
  }
  return "computation";
}

std::string_view RowStandingName(RowStanding standing) {
  switch (standing) {
    case RowStanding::kNotCompared:
      return "not compared";
    case RowStanding::kIdentical:
      return "identical";
    case RowStanding::kAgrees:
      return "agrees";
    case RowStanding::kDrifts:
      return "drifts";
    case RowStanding::kDiffers:
      return "differs";
  }
  return "not compared";
}

std::string_view ConfidenceName(Confidence confidence) {
  switch (confidence) {
    case Confidence::kLow:
      return "low";
    case Confidence::kMedium:
      return "medium";
    case Confidence::kHigh:
      return "high";
    case Confidence::kCertain:
      return "certain";
  }
  return "medium";
}

DivergenceOutput FindDivergence(const DivergenceInput& input) { return Walk(input).Run(); }

}  // namespace msprobe::analysis::compare
