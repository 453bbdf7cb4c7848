#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/dump/call_facts.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

using dump::Direction;
using dump::EntryName;
using dump::RowState;

namespace {

constexpr size_t kAmplifierCount = 10;
// From this relative error on no digit of a value is the same on both sides: nothing is left that a
// call could amplify.
constexpr double kNoDigitLeft = 0.1;
// Checksums: this many calls in front of a divergence the first unequal bits are its start.
constexpr size_t kDirectlyBefore = 3;
// Once noise has changed a choice, whole rows of tensors may be others.
constexpr uint32_t kFewUnmatched = 8;
constexpr uint32_t kMostArguments = 64;  // of a call that are looked at
constexpr double kNarrowNoiseFrom = 1e-3;
constexpr double kLikelyFlips =
    0.3;  // elements times error, from which on unrecorded choices may have changed

// Every element is as large as the largest: the gradient of an absolute error, a hinge.
bool IsOfSigns(const SideRow& gradient) {
  const double largest =
      std::max(std::abs(gradient.stats[kMax].number), std::abs(gradient.stats[kMin].number));
  return !(RootMeanSquare(gradient) < 0.9 * largest);
}

bool IsRunningMean(const EntryName& call, std::string_view argument) {
  return dump::IsRunningStatistic(call, argument) &&
         (argument.ends_with(".1") || argument.ends_with(".running_mean"));
}

// Names of devices, dtypes, groups and generators differ between machines that compute the same.
bool NamesAPlace(const SideRow& row) {
  constexpr std::array<std::string_view, 8> kPlaces = {"torch.", "cuda", "npu",    "cpu",
                                                       "meta",   "<",    "device", "mindspore."};
  const StatValue& value = row.stats[kMax];
  return value.kind == StatKind::kText &&
         std::any_of(kPlaces.begin(), kPlaces.end(),
                     [&](std::string_view place) { return value.text.starts_with(place); });
}

// As Python shows it.
std::string ValueText(const SideRow& row) {
  const StatValue& value = row.stats[kMax];
  switch (value.kind) {
    case StatKind::kNumber:
      return fmt::format("{}", value.number);
    case StatKind::kInteger:
      return fmt::format("{}", value.integer);
    case StatKind::kBool:
      return value.boolean ? "True" : "False";
    case StatKind::kText:
      return std::string(value.text);
    case StatKind::kNone:
      break;
  }
  return "None";
}

double FewerDigits(const SideRow& npu, const SideRow& bench) {
  return npu.digits < 0     ? std::max(0.0F, bench.digits)
         : bench.digits < 0 ? npu.digits
                            : std::min(npu.digits, bench.digits);
}

}  // namespace

std::string Walk::OwnNoiseText(const Candidate& candidate, double distance) {
  if (!(candidate.own_noise > 0) || !std::isfinite(distance)) {
    return {};
  }
  return fmt::format("; apart by {:.3g} x this call's own noise ({:.1f} significant digits)",
                     distance / candidate.own_noise, candidate.digits);
}

void Walk::ProposeDType(uint32_t entry, const EntryState& state) {
  if (firsts_[static_cast<size_t>(OriginKind::kDType)]) {
    return;
  }
  for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
    for (const RowView& row : *rows) {
      if (!HasUnusualDType(row)) {
        continue;
      }
      Candidate candidate = CandidateOf(OriginKind::kDType, entry, state, row);
      candidate.confidence = Confidence::kCertain;
      candidate.reason = fmt::format(
          "{} here and {} on the reference side, {} and {} in most of the run", row.npu->dtype,
          row.bench->dtype, usual_dtypes_->first, usual_dtypes_->second);
      Propose(std::move(candidate));
      return;
    }
  }
}

void Walk::Enter(uint32_t entry, const EntryState& state, const RowView& input) {
  const EntryName& name = plan_.names[entry];
  if (HasUnusualDType(input)) {
    return;  // told as a dtype
  }
  Candidate candidate = CandidateOf(OriginKind::kInput, entry, state, input);
  if (input.stored) {
    EnterParameter(input, candidate);
    return;
  }
  const bool is_floating = agreement_.IsFloating(*input.npu);
  const bool shape_differs = input.bench == nullptr;

  // Noise moves floating values; choices (indices, masks, how many were chosen) only where
  // something jumped.
  if (noisy_ && is_floating && !HasOrigin() && IsUpdateCall(name) && !MadeByUnmatchedCall(input)) {
    NoteDrift(candidate);  // gradients summed over several passes, states of an optimizer
    return;
  }
  const bool may_be_noise =
      HasOrigin() ? any_divergence_
                  : noisy_ && seen_output_ && (shape_differs || is_floating || jumped_);
  if (may_be_noise) {
    const double noise = shape_differs ? 0.0 : agreement_.Noise(*input.npu, *input.bench);
    // Of 16 bits, whose noise is large, twice the noise proves something; statistics of 32 bits
    // hide more.
    const bool is_narrow = noise > kNarrowNoiseFrom;
    const double hidden = !UpdatedByChance() || is_narrow || just_normalised_ ? 0.0
                          : result_.mode == CompareMode::kRealData
                              ? kSingleUnitsByChance * usual_epsilon_
                              : kHiddenUnitsByChance * usual_epsilon_;
    double known_error = std::max(kEntersAfresh * std::max(recent_error_, hidden),
                                  (is_narrow ? kBeyondNoise : kEntersAfresh) * noise);
    // Only where noise is likely to have changed a choice on an unrecorded way: which part of a
    // ReLU a gradient passes, how many tokens an expert gets. An unmatched call explains better.
    // Where functions are recorded, such a choice is in a call of its own.
    const double elements = ElementCount(input.npu->shape);
    const bool may_jump = !records_functions_ && recent_error_ * elements >= kLikelyFlips;
    const bool is_backward = name.direction == Direction::kBackward;
    // The loss's own gradient has passed no such choice, unless the loss is made of signs.
    const bool is_of_loss = last_was_forward_ && !IsOfSigns(*input.npu);
    double jump = passed_unmatched_ || !may_jump || !is_backward || is_of_loss
                      ? 0.0
                      : (is_narrow ? 2 : 1) * std::sqrt(FlippedShare(recent_error_, elements));
    double error = input.distance.relative;
    if (IsRunningMean(name, dump::ArgumentOf(npu_.entries[entry].name, input.npu->name))) {
      // It is subtracted from values beside which it may be small, such as a bias that moves by
      // chance.
      for (const RowView& values : inputs_) {
        if (!values.stored && values.bench != nullptr &&
            ElementCount(values.npu->shape) > ElementCount(input.npu->shape)) {
          error = std::min(error, input.distance.absolute / RootMeanSquare(*values.bench));
        }
      }
    } else if (const std::optional<double> factor = FactorOf(input)) {
      // A scale that nothing before has: of what is known, only what it moves a Norm by explains
      // it.
      error = std::abs(*factor);
      const double share = NormShare(OperandOf(input, 0));
      known_error =
          std::max(known_error * share, kEntersAfresh * std::max(recent_scale_error_, noise));
      jump *= share;
    }
    if ((name.direction == Direction::kBackward && HasOrigin()) || jumped_ ||
        (shape_differs && (may_jump || usual_epsilon_ > kNarrowNoiseFrom)) ||
        error <= std::max(known_error, jump)) {
      jumped_ = jumped_ || shape_differs;
      NoteDrift(candidate);
      return;
    }
    candidate.confidence = Confidence::kLow;
    candidate.note =
        "larger than the differences before it, but it may have come through an unrecorded call";
    candidate.reason = fmt::format(
        "no recorded call produced this value, and its error is {:.1e} where calls before it have "
        "{:.1e}",
        input.distance.relative, recent_error_);
  } else {
    candidate.confidence = is_floating ? Confidence::kHigh : Confidence::kCertain;
    candidate.reason = "no recorded call produced this value, and nothing before it differs";
  }
  const bool is_argument = !input.npu->is_tensor && input.bench != nullptr;
  // What precedes in unequal bits has not made an argument.
  if (StartsAtUnequalBits() && !is_argument) {
    unequal_bits_->reason += ", and the values after it differ";
    Propose(*unequal_bits_);
    return;
  }
  if (passed_unmatched_ && !HasOrigin()) {
    BlameUnmatchedCall(candidate);
  } else if (is_argument) {
    BlameArgument({std::string(dump::ArgumentOf(npu_.entries[entry].name, input.npu->name)),
                   ValueText(*input.npu), ValueText(*input.bench)},
                  candidate);
  }
  Propose(std::move(candidate));
}

void Walk::BlameArgument(ArgumentDifference argument, Candidate& candidate) {
  candidate.kind = OriginKind::kInput;
  candidate.confidence = Confidence::kCertain;
  candidate.note = "an argument of the call";
  candidate.reason = fmt::format("{} here, {} on the reference side", argument.npu, argument.bench);
  candidate.argument = std::move(argument);
}

std::optional<ArgumentDifference> Walk::DifferingArgument(uint32_t entry,
                                                          uint32_t bench_entry) const {
  if (npu_.framework != input_.bench.framework) {
    return std::nullopt;  // they name and order arguments in their own ways
  }
  const auto find = [](const Side& side, uint32_t of, std::string_view argument) {
    const SideEntry& rows = side.entries[of];
    const SideRow* const begin = side.rows.data() + rows.first_row;
    const SideRow* const end = begin + rows.row_count;
    const SideRow* const row = std::find_if(begin, end, [&](const SideRow& candidate) {
      return dump::ArgumentOf(rows.name, candidate.name) == argument;
    });
    return row == end ? nullptr : row;
  };
  const auto differing = [&](const Side& side, uint32_t of, const Side& other, uint32_t other_of) {
    std::optional<ArgumentDifference> found;
    const SideEntry& rows = side.entries[of];
    for (uint32_t i = 0; !found && i < std::min(rows.row_count, kMostArguments); ++i) {
      const SideRow& row = side.rows[rows.first_row + i];
      if (!IsInput(row) || row.is_tensor || NamesAPlace(row)) {
        continue;
      }
      const std::string_view argument = dump::ArgumentOf(rows.name, row.name);
      const SideRow* const partner = find(other, other_of, argument);
      const std::string here = ValueText(row);
      const std::string there = partner == nullptr   ? "not given"
                                : partner->is_tensor ? "a tensor"
                                                     : ValueText(*partner);
      if (here != there) {
        found = {std::string(argument), here, there};
      }
    }
    return found;
  };
  std::optional<ArgumentDifference> found = differing(npu_, entry, input_.bench, bench_entry);
  if (!found) {
    found = differing(input_.bench, bench_entry, npu_, entry);
    if (found) {
      std::swap(found->npu, found->bench);
    }
  }
  return found;
}

bool Walk::IsUpdateCall(const EntryName& name) const {
  return seen_backward_ && !name.is_module && name.direction == Direction::kForward &&
         name.subject.ends_with('_') && !name.subject.ends_with("__");
}

bool Walk::MadeByUnmatchedCall(const RowView& input) const {
  if (!passed_unmatched_ || input.bench == nullptr) {
    return false;
  }
  const auto puts_out = [](const Side& side, uint32_t entry, const SideRow& value) {
    const SideEntry& rows = side.entries[entry];
    const SideRow* const begin = side.rows.data() + rows.first_row;
    return std::any_of(begin, begin + std::min(rows.row_count, kMostArguments),
                       [&](const auto& row) {
                         return !IsInput(row) && row.is_tensor && row.shape == value.shape &&
                                StatisticsDistance(row, value).identical;
                       });
  };
  const UnmatchedCalls& run = alignment_.unmatched[*passed_unmatched_];
  const auto first_of_last = [](uint32_t begin, uint32_t end) {
    return end - std::min<uint32_t>(end - begin, kFewUnmatched);
  };
  for (uint32_t i = first_of_last(run.npu_begin, run.npu_end); i < run.npu_end; ++i) {
    if (puts_out(npu_, alignment_.forward_npu[i], *input.npu)) {
      return true;
    }
  }
  for (uint32_t i = first_of_last(run.bench_begin, run.bench_end); i < run.bench_end; ++i) {
    if (puts_out(input_.bench, alignment_.forward_bench[i], *input.bench)) {
      return true;
    }
  }
  return false;
}

void Walk::EnterParameter(const RowView& input, Candidate candidate) {
  candidate.kind = OriginKind::kParameter;
  candidate.confidence = Confidence::kCertain;
  if (input_.previous != nullptr) {
    if (input.update == UpdateJudgement::kEcho ||
        (input.update == UpdateJudgement::kUnknown && !input_.previous->identical)) {
      NoteDrift(candidate);
      return;
    }
    candidate.kind = OriginKind::kOptimizer;
    candidate.confidence = input_.previous->identical ? Confidence::kCertain : Confidence::kMedium;
    candidate.reason =
        input_.previous->identical
            ? fmt::format("everything in step {} was equal, this parameter is not afterwards",
                          input_.previous->step.value_or(0))
            : fmt::format("it differs by more than its gradient's error in step {} explains",
                          input_.previous->step.value_or(0));
  } else if (input_.step.value_or(0) > 0) {
    candidate.confidence = Confidence::kMedium;
    candidate.reason = "it differs by more than rounding, and no earlier step was compared";
  } else if (input.bench != nullptr && agreement_.RoundsDifferently(*input.npu, *input.bench)) {
    candidate.confidence = Confidence::kHigh;
    candidate.reason =
        "weights of the first step must be equal up to one rounding to the coarser dtype";
  } else {
    candidate.reason = "weights of the first step must be exactly equal";
  }
  Propose(std::move(candidate));
}

void Walk::BlameUnmatchedCall(Candidate& candidate) const {
  const UnmatchedCalls& run = alignment_.unmatched[*passed_unmatched_];
  candidate.kind = OriginKind::kUnmatchedCall;
  candidate.confidence = Confidence::kHigh;
  if (run.npu_end > run.npu_begin) {
    candidate.entry = alignment_.forward_npu[run.npu_begin];
    candidate.other_call = npu_.entries[candidate.entry].name;
    candidate.note =
        run.bench_end > run.bench_begin
            ? fmt::format("replaces {} of the reference side",
                          input_.bench.entries[alignment_.forward_bench[run.bench_begin]].name)
            : "only the tested side made this call";
  } else {
    candidate.other_call = input_.bench.entries[alignment_.forward_bench[run.bench_begin]].name;
    candidate.note = "only the reference side made this call";
  }
  candidate.reason =
      "both sides made the same calls in the same order up to here, and the values after it differ";
  if (IsCast(dump::ParseEntryName(candidate.other_call))) {
    candidate.kind = OriginKind::kDType;
  }
}

void Walk::Compute(uint32_t entry, const EntryState& state, const RowView& output, double explained,
                   bool inputs_differ) {
  const EntryName& name = plan_.names[entry];
  Candidate candidate = CandidateOf(OriginKind::kComputation, entry, state, output);
  candidate.explained_error = explained;
  const bool first = !any_divergence_ && !inputs_differ;
  if (HasUnusualDType(output)) {
    return;  // told as a dtype
  }
  const double excess =
      output.distance.relative / std::max(explained, std::numeric_limits<double>::min());
  const bool inputs_equal = !NoiseEnters();
  const std::optional<double> factor =
      output.bench == nullptr ? std::nullopt : CommonFactor(*output.npu, *output.bench);
  candidate.confidence = inputs_equal && excess > 10 ? Confidence::kCertain
                         : excess > 10               ? Confidence::kHigh
                         : excess > 2                ? Confidence::kMedium
                                                     : Confidence::kLow;
  candidate.reason = fmt::format(
      "inputs and parameters are {}; rounding explains {:.1e} of the output's error",
      inputs_equal ? "equal" : fmt::format("at most {:.1e} apart", state.input_error), explained);
  if (factor) {
    candidate.reason +=
        fmt::format("; all of its statistics are the reference side's times {:.6g}", 1 + *factor);
  }
  candidate.reason += OwnNoiseText(candidate, output.distance.relative);
  if (name.is_debug) {
    if (!first) {
      return;
    }
    candidate.is_saved_value = true;
    candidate.note = "what computed it is not recorded";
  } else if (output.distance.relative <= explained) {
    NoteDrift(candidate);
    return;
  } else if (IsCommunicationCall(name)) {
    candidate.kind = OriginKind::kInput;
    candidate.from_other_rank = true;
    candidate.note = "data from another rank";
  } else if (IsRandomCall(name) && !factor) {
    candidate.kind = OriginKind::kInput;
    candidate.note = "a random call: the random states differ";
  } else if (output.bench == nullptr) {
    candidate.note = "the shapes differ";
  } else if (std::optional<ArgumentDifference> argument =
                 DifferingArgument(entry, output.bench->entry)) {
    BlameArgument(*std::move(argument), candidate);
  }
  if (StartsAtUnequalBits() && !candidate.argument) {
    // Statistics do not show every difference (elements that changed places); checksums do.
    unequal_bits_->reason += ", and the values after it differ";
    Propose(*unequal_bits_);
    return;
  }
  if (passed_unmatched_ && !HasOrigin() && candidate.kind == OriginKind::kComputation &&
      ContainsUnmatchedCall(entry)) {
    BlameUnmatchedCall(candidate);
  }
  Propose(std::move(candidate));
}

bool Walk::ContainsUnmatchedCall(uint32_t entry) const {
  if (!plan_.names[entry].is_module) {
    return false;
  }
  const UnmatchedCalls& run = alignment_.unmatched[*passed_unmatched_];
  for (size_t i = run.npu_end;
       i < alignment_.forward_npu.size() && alignment_.forward_npu[i] < entry; ++i) {
    if (!containment_.IsInside(alignment_.forward_npu[i], entry)) {
      return false;
    }
  }
  return true;
}

void Walk::NoteDrift(Candidate candidate) {
  if (!drift_ && !HasOrigin()) {
    candidate.note = "rounding noise that accumulated call by call";
    candidate.confidence = Confidence::kLow;
    candidate.reason = "errors before it explain it";
    drift_ = std::move(candidate);
  }
}

// Statistics do not show elements that changed places, checksums do: the first unequal bits are the
// start where they stand directly in front, or where nothing else has shown in a statistic since.
bool Walk::StartsAtUnequalBits() const {
  return unequal_bits_ && !HasOrigin() &&
         (place_ - unequal_bits_->place <= kDirectlyBefore || error_since_unequal_ == 0);
}

void Walk::NoteUnequalBits(uint32_t entry, const EntryState& state) {
  if (unequal_bits_ || noisy_) {
    return;
  }
  const bool inputs_equal = std::all_of(inputs_.begin(), inputs_.end(),
                                        [](const RowView& v) { return v.distance.identical; });
  const auto unequal = std::find_if(outputs_.begin(), outputs_.end(),
                                    [](const RowView& v) { return !v.distance.identical; });
  if (inputs_equal && unequal != outputs_.end()) {
    unequal_bits_ = CandidateOf(OriginKind::kComputation, entry, state, *unequal);
    unequal_bits_->reason = "its inputs and parameters are bit-equal, its output is not";
    unequal_bits_->confidence = Confidence::kCertain;
  }
}

Walk::Candidate Walk::CandidateOf(OriginKind kind, uint32_t entry, const EntryState& state,
                                  const RowView& row) {
  Candidate candidate;
  candidate.kind = kind;
  candidate.entry = entry;
  candidate.row = row.result;
  candidate.input_error = state.input_error;
  candidate.output_error = state.output_error;
  const double noise = row.bench == nullptr ? 1.0 : agreement_.Noise(*row.npu, *row.bench);
  candidate.amplification = state.output_error / std::max(state.input_error, noise);
  if (row.bench != nullptr) {
    candidate.own_noise = OwnNoise(*row.npu, *row.bench);
    candidate.digits = FewerDigits(*row.npu, *row.bench);
  }
  candidate.place = place_;
  return candidate;
}

void Walk::Propose(Candidate candidate) {
  std::optional<Candidate>& first = firsts_[static_cast<size_t>(candidate.kind)];
  if (!first) {
    first = std::move(candidate);
  }
}

bool Walk::IsByChance() const {
  const RowView* worst = nullptr;
  for (const RowView& input : inputs_) {
    if (!input.stored && !input.distance.identical &&
        (worst == nullptr || input.distance.relative > worst->distance.relative)) {
      worst = &input;
    }
  }
  return worst != nullptr &&
         (by_chance_->IsKnown(worst->prints) ||
          (input_.previous != nullptr && input_.previous->by_chance != nullptr &&
           input_.previous->by_chance->IsKnown(worst->prints)));
}

void Walk::RememberByChance() {
  const bool is_by_chance = IsByChance();
  for (const RowView& output : outputs_) {
    if (!output.distance.identical && (output.forgiven || is_by_chance)) {
      by_chance_->Remember(output.prints);
    }
  }
}

void Walk::NoteAmplifier(uint32_t entry, const EntryState& state, const RowView& output) {
  Candidate candidate = CandidateOf(OriginKind::kComputation, entry, state, output);
  const bool has_digits = candidate.input_error < kNoDigitLeft;
  if (has_digits && candidate.amplification > 1 && std::isfinite(candidate.amplification) &&
      !IsByChance()) {
    amplifiers_.push_back(std::move(candidate));
  }
}

DivergencePoint Walk::PointOf(const Candidate& candidate) const {
  DivergencePoint point;
  point.kind = candidate.kind;
  point.entry = candidate.entry;
  point.row = candidate.row;
  point.input_error = candidate.input_error;
  point.output_error = candidate.output_error;
  point.explained_error = candidate.explained_error;
  point.own_noise = candidate.own_noise;
  point.digits = candidate.digits;
  point.amplification = candidate.amplification;
  point.confidence = candidate.confidence;
  point.reason = candidate.reason;
  point.entry_name = candidate.other_call.empty() ? std::string(npu_.entries[candidate.entry].name)
                                                  : candidate.other_call;
  point.row_name = npu_.rows[result_.rows[candidate.row].pair.npu].name;
  if (candidate.other_call.empty()) {
    if (const SideRow* partner = views_.View(candidate.row).bench; partner != nullptr) {
      point.bench_entry_name = input_.bench.entries[partner->entry].name;
    }
  }
  point.note = candidate.note;
  point.argument = candidate.argument;
  point.from_other_rank = candidate.from_other_rank;
  point.is_saved_value = candidate.is_saved_value;
  point.parent_module = containment_.ParentOf(candidate.entry);
  point.layer = containment_.LayerOf(candidate.entry);
  if (const std::vector<std::string>* frames =
          input_.stack != nullptr ? input_.stack->Find(npu_.entries[candidate.entry].name)
                                  : nullptr) {
    point.stack = *frames;
    point.code_line = dump::UserCodeLine(*frames);
  }
  return point;
}

void Walk::ProposeHarmlessUnmatchedCall() {
  if (HasOrigin() || alignment_.unmatched.empty() || place_ == 0) {
    return;
  }
  // Sides that recorded other parts of the model, or run other code altogether, are not a finding.
  size_t calls = 0;
  for (const UnmatchedCalls& run : alignment_.unmatched) {
    calls += (run.npu_end - run.npu_begin) + (run.bench_end - run.bench_begin);
  }
  if (calls > kFewUnmatched || calls * 10 > alignment_.forward_npu.size()) {
    return;
  }
  passed_unmatched_ = 0;
  Candidate candidate;
  const UnmatchedCalls& run = alignment_.unmatched.front();
  const size_t next = std::min<size_t>(run.npu_end > run.npu_begin ? run.npu_begin : run.npu_end,
                                       alignment_.forward_npu.size() - 1);
  candidate.entry = alignment_.forward_npu[next];
  if (views_.Begin(candidate.entry) == views_.End(candidate.entry)) {
    return;
  }
  candidate.row = *views_.Begin(candidate.entry);
  BlameUnmatchedCall(candidate);
  candidate.reason =
      drift_ ? "both sides made the same calls in the same order up to here; later differences are "
               "within rounding noise"
             : "both sides made the same calls in the same order up to here; later values agree";
  Propose(std::move(candidate));
}

void Walk::NoteCallStandings() {
  report_.calls.resize(states_.size());
  for (size_t entry = 0; entry < states_.size(); ++entry) {
    report_.calls[entry].input_error = states_[entry].input_error;
    report_.calls[entry].output_error = states_[entry].output_error;
  }
  for (size_t row = 0; row < report_.rows.size(); ++row) {
    RowStanding& worst = report_.calls[npu_.rows[result_.rows[row].pair.npu].entry].standing;
    worst = std::max(worst, report_.rows[row]);
  }
}

DivergenceOutput Walk::Finish() {
  ProposeHarmlessUnmatchedCall();
  NoteCallStandings();
  const Candidate* earliest = nullptr;
  for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
    if (firsts_[kind]) {
      report_.first_of_kind[kind] = PointOf(*firsts_[kind]);
      if (earliest == nullptr || firsts_[kind]->place < earliest->place ||
          (firsts_[kind]->place == earliest->place &&
           Precedence(firsts_[kind]->kind) < Precedence(earliest->kind))) {
        earliest = &*firsts_[kind];
      }
    }
  }
  if (earliest != nullptr) {
    report_.first_origin = report_.first_of_kind[static_cast<size_t>(earliest->kind)];
  }
  if (drift_) {
    report_.first_drift = PointOf(*drift_);
  }
  if (unequal_bits_) {
    report_.first_unequal_bits = PointOf(*unequal_bits_);
  }
  const size_t kept = std::min(amplifiers_.size(), kAmplifierCount);
  std::partial_sort(amplifiers_.begin(), amplifiers_.begin() + static_cast<std::ptrdiff_t>(kept),
                    amplifiers_.end(), [](const Candidate& a, const Candidate& b) {
                      return a.amplification != b.amplification ? a.amplification > b.amplification
                                                                : a.place < b.place;
                    });
  for (size_t i = 0; i < kept; ++i) {
    report_.amplifiers.push_back(PointOf(amplifiers_[i]));
  }
  record_.differing = carried_;
  record_.by_chance = by_chance_;
  record_.has_origin = report_.first_origin.has_value();
  record_.identical = record_identical_ && report_.compared_entry_count > 0;
  record_.agrees =
      !report_.first_origin && !report_.first_drift && report_.compared_entry_count > 0;
  return {std::move(report_), std::move(record_)};
}

int Walk::Precedence(OriginKind kind) {
  switch (kind) {
    case OriginKind::kDType:
      return 0;
    case OriginKind::kParameter:
    case OriginKind::kOptimizer:
      return 1;
    case OriginKind::kUnmatchedCall:
      return 2;
    case OriginKind::kInput:
      return 3;
    case OriginKind::kComputation:
      break;
  }
  return 4;
}

}  // namespace msprobe::analysis::compare
