// Decides which calls are origins of a divergence: the rules and their texts.
//
// A rule is a row of a table: when it applies, what follows, of which kind the origin is, how sure
// it is and why. Inputs and outputs have a table each, in which the first rule that applies
// decides. Rules look at a case (the call, one of its rows, the calls before) and change nothing.
//
// Inputs: a value that no recorded call has put out comes from outside, or through a call that is
// not recorded. In the first case it is an origin. In the second its error may be one from before,
// larger by what that call made of it, so that it has to exceed recent errors by
// kFreshOriginFactor. Outputs: the call computes something else, unless there is a simpler reason
// (a random state, another rank, another argument, a call inside it that only one side made).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/dump/call_facts.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

using dump::Direction;
using dump::EntryName;

namespace {

// What a rule looks at.
struct Case {
  const WalkContext& context;
  const WalkHistory& history;
  const CallView& call;
  const RowView& row;
  double explained = 0;  // outputs: the bound
  std::optional<size_t> unmatched =
      {};  // index into CallAlignment::unmatched: in front of the call

  bool has_pair() const { return row.bench != nullptr; }
  bool is_floating() const { return context.agreement.IsFloating(*row.npu); }
};

using Outcome = Finding::Kind;

struct Rule {
  std::string_view name;
  bool (*applies)(const Case& c);
  Outcome outcome = Outcome::kNothing;
  OriginKind kind = OriginKind::kInput;
  Confidence confidence = Confidence::kLow;
  std::string_view reason = {};
  std::string_view note = {};
  void (*describe)(const Case& c, DivergencePoint& point) = nullptr;  // adds details of the case
};

// Rows of the tables. Nothing to report; noise; an origin.
constexpr Rule Nothing(std::string_view name, bool (*applies)(const Case& c)) {
  return {name, applies};
}
constexpr Rule Drift(std::string_view name, bool (*applies)(const Case& c), OriginKind kind) {
  return {name,
          applies,
          Outcome::kDrift,
          kind,
          Confidence::kLow,
          "errors before it explain it",
          "rounding noise that accumulated call by call"};
}
constexpr Rule UnequalBits(bool (*applies)(const Case& c)) {
  return {"unequal bits", applies, Outcome::kUnequalBits};
}
constexpr Rule Origin(std::string_view name, bool (*applies)(const Case& c), OriginKind kind,
                      Confidence confidence, std::string_view reason, std::string_view note = {},
                      void (*describe)(const Case& c, DivergencePoint& point) = nullptr) {
  return {name, applies, Outcome::kOrigin, kind, confidence, reason, note, describe};
}

double FewerDigits(const SideRow& npu, const SideRow& bench) {
  return npu.digits < 0     ? std::max(0.0F, bench.digits)
         : bench.digits < 0 ? npu.digits
                            : std::min(npu.digits, bench.digits);
}

// What all points say about a row of a call.
DivergencePoint PointAt(const WalkContext& context, const CallView& call, const RowView& row) {
  DivergencePoint point;
  point.entry = call.entry;
  point.place = call.place;
  point.row = row.result;
  point.input_error = call.input_error;
  point.output_error = call.output_error;
  double noise = 1;
  if (row.bench != nullptr) {
    noise = context.agreement.Noise(*row.npu, *row.bench);
    point.noise_floor = MeasuredNoise(*row.npu, *row.bench);
    point.digits = FewerDigits(*row.npu, *row.bench);
  }
  point.amplification = call.output_error / std::max(call.input_error, noise);
  return point;
}

Finding Apply(const Rule& rule, const Case& c, DivergencePoint point) {
  point.kind = rule.kind;
  point.confidence = rule.confidence;
  point.reason = rule.reason;
  point.note = rule.note;
  if (rule.describe != nullptr) {
    rule.describe(c, point);
  }
  return {rule.outcome, std::move(point)};
}

// ---- Arguments ----

// Names of devices, dtypes, groups and generators differ between machines that compute the same.
bool NamesAPlace(const SideRow& row) {
  constexpr std::array<std::string_view, 8> kPlaces = {"torch.", "cuda", "npu",    "cpu",
                                                       "meta",   "<",    "device", "mindspore."};
  const StatValue& value = row.stats[kMax];
  return value.kind == StatKind::kText &&
         std::any_of(kPlaces.begin(), kPlaces.end(),
                     [&](std::string_view place) { return value.text().starts_with(place); });
}

// As Python shows it.
std::string ValueText(const SideRow& row) {
  const StatValue& value = row.stats[kMax];
  switch (value.kind) {
    case StatKind::kNumber:
      return fmt::format("{}", value.number);
    case StatKind::kInteger:
      return fmt::format("{}", value.integer());
    case StatKind::kBool:
      return value.boolean ? "True" : "False";
    case StatKind::kText:
      return std::string(value.text());
    case StatKind::kNone:
      break;
  }
  return "None";
}

std::span<const SideRow> RowsOf(const Side& side, uint32_t entry) {
  const SideEntry& rows = side.entries[entry];
  return std::span(side.rows).subspan(rows.first_row, rows.row_count);
}

// The first non-tensor argument of a call on `side` that differs from the other side's.
std::optional<ArgumentDifference> FirstDifferingArgument(const Side& side, uint32_t entry,
                                                         const Side& other, uint32_t other_entry) {
  const std::span<const SideRow> rows = RowsOf(side, entry);
  const std::span<const SideRow> partners = RowsOf(other, other_entry);
  for (const SideRow& row : rows.first(std::min<size_t>(rows.size(), kMostArguments))) {
    if (!IsInput(row) || row.is_tensor || NamesAPlace(row)) {
      continue;
    }
    const std::string_view argument = dump::ArgumentOf(side.entries[entry].name, row.name);
    const auto partner = std::find_if(partners.begin(), partners.end(), [&](const SideRow& r) {
      return dump::ArgumentOf(other.entries[other_entry].name, r.name) == argument;
    });
    const std::string here = ValueText(row);
    const std::string there = partner == partners.end() ? "not given"
                              : partner->is_tensor      ? "a tensor"
                                                        : ValueText(*partner);
    if (here != there) {
      return ArgumentDifference{std::string(argument), here, there};
    }
  }
  return std::nullopt;
}

// A constant of the code that the sides did not give alike to the call of an output.
std::optional<ArgumentDifference> DifferingArgument(const Case& c) {
  const WalkContext& context = c.context;
  if (context.npu.framework != context.bench.framework) {
    return std::nullopt;  // they name and order arguments in their own ways
  }
  const uint32_t bench_entry = c.row.bench->entry;
  std::optional<ArgumentDifference> found =
      FirstDifferingArgument(context.npu, c.call.entry, context.bench, bench_entry);
  if (!found) {
    found = FirstDifferingArgument(context.bench, bench_entry, context.npu, c.call.entry);
    if (found) {
      std::swap(found->npu, found->bench);
    }
  }
  return found;
}

void DescribeArgument(ArgumentDifference argument, DivergencePoint& point) {
  point.reason =
      fmt::format("{} on the test side, {} on the reference side", argument.npu, argument.bench);
  point.argument = std::move(argument);
}

constexpr std::string_view kArgumentNote = "an argument of the call";

// ---- Calls that only one side made ----

// The value of an input is an output of the unmatched calls in front of the call.
bool MadeByUnmatchedCall(const Case& c) {
  if (!c.unmatched || !c.has_pair()) {
    return false;
  }
  const CallAlignment& alignment = c.context.alignment;
  const UnmatchedCalls& run = alignment.unmatched[*c.unmatched];
  const auto puts_out = [](const Side& side, const std::vector<uint32_t>& calls, uint32_t begin,
                           uint32_t end, const SideRow& value) {
    for (uint32_t i = end - std::min(end - begin, kFewUnmatched); i < end; ++i) {
      const std::span<const SideRow> rows = RowsOf(side, calls[i]);
      const auto searched = rows.first(std::min<size_t>(rows.size(), kMostArguments));
      if (std::any_of(searched.begin(), searched.end(), [&](const SideRow& row) {
            return !IsInput(row) && row.is_tensor && row.shape == value.shape &&
                   StatisticsDistance(row, value).identical;
          })) {
        return true;
      }
    }
    return false;
  };
  return puts_out(c.context.npu, alignment.forward_npu, run.npu_begin, run.npu_end, *c.row.npu) ||
         puts_out(c.context.bench, alignment.forward_bench, run.bench_begin, run.bench_end,
                  *c.row.bench);
}

// The unmatched calls lie inside this module: between them and the module's own entry, which
// follows what is inside it, are only calls of the same module.
bool ContainsUnmatchedCall(const Case& c) {
  if (!c.unmatched || !c.call.name.is_module) {
    return false;
  }
  const CallAlignment& alignment = c.context.alignment;
  const std::vector<uint32_t>& calls = alignment.forward_npu;
  for (size_t i = alignment.unmatched[*c.unmatched].npu_end;
       i < calls.size() && calls[i] < c.call.entry; ++i) {
    if (!c.history.containment.IsInside(calls[i], c.call.entry)) {
      return false;
    }
  }
  return true;
}

void DescribeUnmatchedCall(const Case& c, DivergencePoint& point) {
  const CallAlignment& alignment = c.context.alignment;
  const UnmatchedCalls& run = alignment.unmatched[*c.unmatched];
  const auto bench_name = [&] {
    return std::string(c.context.bench.entries[alignment.forward_bench[run.bench_begin]].name);
  };
  if (run.npu_end > run.npu_begin) {
    point.entry = alignment.forward_npu[run.npu_begin];
    point.entry_name = c.context.npu.entries[point.entry].name;
    point.note = run.bench_end > run.bench_begin
                     ? fmt::format("replaces {} of the reference side", bench_name())
                     : "only the test side made this call";
  } else {
    point.entry_name = bench_name();
    point.note = "only the reference side made this call";
  }
  if (IsCast(dump::ParseEntryName(point.entry_name))) {
    point.kind = OriginKind::kDType;
  }
}

constexpr std::string_view kSameCallsReason =
    "both sides made the same calls in the same order up to here, and the values after it differ";

// ---- Rules of inputs ----

// Every element is as large as the largest: the gradient of an absolute error, a hinge.
bool IsOfSigns(const SideRow& gradient) {
  const double largest =
      std::max(std::abs(gradient.stats[kMax].number), std::abs(gradient.stats[kMin].number));
  return !(RootMeanSquare(gradient) < kSignsShare * largest);
}

bool IsRunningMean(const EntryName& call, std::string_view argument) {
  return dump::IsRunningStatistic(call, argument) &&
         (argument.ends_with(".1") || argument.ends_with(".running_mean"));
}

// Noise moves floating values; choices (indices, masks, how many were chosen) only where something
// flipped.
bool MayBeNoise(const Case& c) {
  const WalkHistory& history = c.history;
  return history.HasOrigin() ? history.any_divergence
                             : history.any_unequal && history.seen_output &&
                                   (!c.has_pair() || c.is_floating() || history.choice_flipped);
}

// How often a choice on an unrecorded way may have changed: which part of a ReLU a gradient passes,
// how many tokens an expert gets. Where functions are recorded, such a choice is in a call of its
// own.
bool ChoiceMayHaveChanged(const Case& c) {
  return !c.context.records_functions &&
         c.history.recent.largest() * ElementCount(c.row.npu->shape) >= kLikelyFlips;
}

// The error of an input is one from before that came through an unrecorded call.
bool ExplainedByNoise(const Case& c) {
  if (!MayBeNoise(c)) {
    return false;
  }
  const WalkContext& context = c.context;
  const WalkHistory& history = c.history;
  const CallView& call = c.call;
  const RowView& input = c.row;
  const double recent = history.recent.largest();
  const double noise = c.has_pair() ? context.agreement.Noise(*input.npu, *input.bench) : 0.0;
  // For 16-bit types, whose noise is large, twice the noise proves something; statistics of 32-bit
  // types hide more.
  const bool is_narrow = noise > kNarrowNoiseFrom;
  double hidden = 0;
  if (context.IsUpdatedByChance() && !is_narrow && !history.last_was_normalised) {
    hidden = context.usual_epsilon * (context.result.mode == CompareMode::kRealData
                                          ? kSingleUnitsByChance
                                          : kHiddenUnitsByChance);
  }
  double known_error = std::max(kFreshOriginFactor * std::max(recent, hidden),
                                (is_narrow ? kOriginNoiseFactor : kFreshOriginFactor) * noise);
  const double elements = ElementCount(input.npu->shape);
  const bool may_jump = ChoiceMayHaveChanged(c);
  // The loss's own gradient has passed no such choice, unless the loss is made of signs; an
  // unmatched call explains better.
  const bool is_of_loss = history.last_was_forward && !IsOfSigns(*input.npu);
  double jump =
      c.unmatched || !may_jump || !call.is_backward() || is_of_loss
          ? 0.0
          : (is_narrow ? kNarrowFlipFactor : 1) * std::sqrt(FlippedShare(recent, elements));
  double error = input.distance.relative;
  if (IsRunningMean(call.name, dump::ArgumentOf(call.entry_name, input.npu->name))) {
    // It is subtracted from values beside which it may be small, such as a bias that moves by
    // chance.
    for (const RowView& values : call.inputs) {
      if (!values.stored && values.bench != nullptr &&
          ElementCount(values.npu->shape) > ElementCount(input.npu->shape)) {
        error = std::min(error, input.distance.absolute / RootMeanSquare(*values.bench));
      }
    }
  } else if (const std::optional<double> factor = context.ScaleFactor(input)) {
    // A scale that nothing before has: of known errors, only what they move a Norm by explains it.
    error = std::abs(*factor);
    const double share = NormShare(OperandOf(input, 0));
    known_error = std::max(known_error * share,
                           kFreshOriginFactor * std::max(history.recent.largest_scale(), noise));
    jump *= share;
  }
  return (call.is_backward() && history.HasOrigin()) || history.choice_flipped ||
         (!c.has_pair() && (may_jump || context.usual_epsilon > kNarrowNoiseFrom)) ||
         error <= std::max(known_error, jump);
}

bool IsAny(const Case&) { return true; }

bool HasUnusualDType(const Case& c) { return c.context.HasUnusualDType(c.row); }

bool IsArgument(const Case& c) { return !c.row.npu->is_tensor && c.has_pair(); }

bool IsStored(const Case& c) { return c.row.stored; }

bool IsStoredAfterStep(const Case& c) { return c.row.stored && c.context.previous != nullptr; }

bool IsStoredAfterEqualStep(const Case& c) {
  return IsStoredAfterStep(c) && c.context.previous->identical;
}

bool IsEchoOfStep(const Case& c) {
  return IsStoredAfterStep(c) &&
         (c.row.update == UpdateJudgement::kEcho ||
          (c.row.update == UpdateJudgement::kUnknown && !c.context.previous->identical));
}

bool IsStoredInLaterStep(const Case& c) {
  return IsStored(c) && c.context.input.step.value_or(0) > 0;
}

bool IsStoredAndRounded(const Case& c) {
  return IsStored(c) && c.has_pair() &&
         c.context.agreement.RoundsDifferently(*c.row.npu, *c.row.bench);
}

// Gradients summed over several passes, states of an optimizer.
bool IsStateOfOptimizer(const Case& c) {
  return c.history.any_unequal && c.is_floating() && !c.history.HasOrigin() &&
         c.history.IsUpdateCall(c.call.name) && !MadeByUnmatchedCall(c);
}

bool StartsAtUnequalBits(const Case& c) { return c.history.StartsAtUnequalBits(c.call); }

// Unequal bits before it have not changed an argument.
bool FollowsUnequalBits(const Case& c) { return StartsAtUnequalBits(c) && !IsArgument(c); }

bool FollowsUnmatchedCall(const Case& c) { return c.unmatched && !c.history.HasOrigin(); }

void DescribeOptimizer(const Case& c, DivergencePoint& point) {
  const int64_t step = c.context.previous->step.value_or(0);
  point.reason =
      c.context.previous->identical
          ? fmt::format("everything in step {} was equal, this parameter is not afterwards", step)
          : fmt::format("it differs by more than its gradient's error in step {} explains", step);
}

void DescribeInputArgument(const Case& c, DivergencePoint& point) {
  DescribeArgument({std::string(dump::ArgumentOf(c.call.entry_name, c.row.npu->name)),
                    ValueText(*c.row.npu), ValueText(*c.row.bench)},
                   point);
}

void DescribeBeyondNoise(const Case& c, DivergencePoint& point) {
  point.reason = fmt::format(
      "no recorded call produced this value, and its error is {:.1e} where calls before it have "
      "{:.1e}",
      c.row.distance.relative, c.history.recent.largest());
}

void DescribeFromOutside(const Case& c, DivergencePoint& point) {
  point.confidence = c.is_floating() ? Confidence::kHigh : Confidence::kCertain;
}

constexpr Rule kInputRules[] = {
    Nothing("unusual dtype", HasUnusualDType),  // JudgeDType reports it
    Drift("echo of the step before", IsEchoOfStep, OriginKind::kParameter),
    Origin("optimizer, equal step", IsStoredAfterEqualStep, OriginKind::kOptimizer,
           Confidence::kCertain, {}, {}, DescribeOptimizer),
    Origin("optimizer", IsStoredAfterStep, OriginKind::kOptimizer, Confidence::kMedium, {}, {},
           DescribeOptimizer),
    Origin("parameter of a later step", IsStoredInLaterStep, OriginKind::kParameter,
           Confidence::kMedium,
           "it differs by more than rounding, and no earlier step was compared"),
    Origin("parameter, other dtype", IsStoredAndRounded, OriginKind::kParameter, Confidence::kHigh,
           "weights of the first step must be equal up to one rounding to the coarser dtype"),
    Origin("parameter", IsStored, OriginKind::kParameter, Confidence::kCertain,
           "weights of the first step must be exactly equal"),
    Drift("state of an optimizer", IsStateOfOptimizer, OriginKind::kInput),
    Drift("noise", ExplainedByNoise, OriginKind::kInput),
    UnequalBits(FollowsUnequalBits),
    Origin("unmatched call", FollowsUnmatchedCall, OriginKind::kUnmatchedCall, Confidence::kHigh,
           kSameCallsReason, {}, DescribeUnmatchedCall),
    Origin("argument", IsArgument, OriginKind::kInput, Confidence::kCertain, {}, kArgumentNote,
           DescribeInputArgument),
    Origin("beyond noise", MayBeNoise, OriginKind::kInput, Confidence::kLow, {},
           "larger than the differences before it, but it may have come through an unrecorded call",
           DescribeBeyondNoise),
    Origin("from outside", IsAny, OriginKind::kInput, Confidence::kHigh,
           "no recorded call produced this value, and nothing before it differs", {},
           DescribeFromOutside),
};

// ---- Rules of outputs ----

// Behind an origin everything differs: only a call whose inputs agree is another one.
bool FollowsFromOrigin(const Case& c) {
  return c.history.HasOrigin() &&
         (c.call.InputsDiffer() || c.call.partner_diverges || c.call.contains_divergence);
}

std::optional<double> OutputFactor(const Case& c) {
  return c.has_pair() ? CommonFactor(*c.row.npu, *c.row.bench) : std::nullopt;
}

void DescribeComputation(const Case& c, DivergencePoint& point) {
  const double distance = c.row.distance.relative;
  const double excess = distance / std::max(c.explained, std::numeric_limits<double>::min());
  const bool inputs_equal = !c.history.any_unequal && c.call.InputsAreEqual();
  point.confidence = inputs_equal && excess > kHighExcess ? Confidence::kCertain
                     : excess > kHighExcess               ? Confidence::kHigh
                     : excess > kMediumExcess             ? Confidence::kMedium
                                                          : Confidence::kLow;
  point.reason =
      fmt::format("inputs and parameters are {}; rounding explains {:.1e} of the output's error",
                  inputs_equal ? "equal" : fmt::format("at most {:.1e} apart", c.call.input_error),
                  c.explained);
  if (const std::optional<double> factor = OutputFactor(c)) {
    point.reason +=
        fmt::format("; all of its statistics are the reference side's times {:.6g}", 1 + *factor);
  }
  if (point.noise_floor > 0 && std::isfinite(distance)) {
    point.reason +=
        fmt::format("; apart by {:.3g} x this call's own noise ({:.1f} significant digits)",
                    distance / point.noise_floor, point.digits);
  }
}

bool IsSavedValue(const Case& c) { return c.call.name.is_debug; }

bool IsLaterSavedValue(const Case& c) {
  return IsSavedValue(c) && (c.history.any_divergence || c.call.InputsDiffer());
}

bool IsWithinBound(const Case& c) {
  return !IsSavedValue(c) && c.row.distance.relative <= c.explained;
}

bool HasOtherShape(const Case& c) { return !c.has_pair(); }

bool IsCommunication(const Case& c) { return IsCommunicationCall(c.call.name); }

// The same random choices, scaled in another way, are a computation.
bool IsUnscaledRandomCall(const Case& c) { return IsRandomCall(c.call.name) && !OutputFactor(c); }

bool HasOtherArgument(const Case& c) {
  return !IsSavedValue(c) && !IsCommunication(c) && !IsUnscaledRandomCall(c) && c.has_pair() &&
         DifferingArgument(c);
}

bool IsAroundUnmatchedCall(const Case& c) {
  return !c.history.HasOrigin() && ContainsUnmatchedCall(c);
}

void DescribeOtherArgument(const Case& c, DivergencePoint& point) {
  DescribeArgument(DifferingArgument(c).value(), point);
}

void DescribeSavedValue(const Case& c, DivergencePoint& point) {
  DescribeComputation(c, point);
  point.is_saved_value = true;
}

void DescribeOtherRank(const Case& c, DivergencePoint& point) {
  DescribeComputation(c, point);
  point.from_other_rank = true;
}

// DescribeComputation sets confidence and reason.
// A weight that cannot be compared (statistics of a padded one) may have been updated otherwise:
// weights that can be will tell. Nor is a module to blame for such a call inside it.
bool FollowsUnknownWeight(const Case& c) {
  return c.context.previous != nullptr && !c.context.previous->identical &&
         (c.call.has_unknown_weight || (c.call.contains_divergence && !c.history.HasOrigin()));
}

constexpr Rule kOutputRules[] = {
    Nothing("behind an origin", FollowsFromOrigin),
    Nothing("behind an unknown weight", FollowsUnknownWeight),
    Nothing("unusual dtype", HasUnusualDType),  // JudgeDType reports it
    Nothing("saved value behind a difference", IsLaterSavedValue),
    Drift("within its bound", IsWithinBound, OriginKind::kComputation),
    Origin("argument", HasOtherArgument, OriginKind::kInput, Confidence::kCertain, {},
           kArgumentNote, DescribeOtherArgument),
    // Statistics do not show every difference (elements that changed places); checksums do.
    UnequalBits(StartsAtUnequalBits),
    Origin("saved value", IsSavedValue, OriginKind::kComputation, {}, {},
           "what computed it is not recorded", DescribeSavedValue),
    Origin("other rank", IsCommunication, OriginKind::kInput, {}, {}, "data from another rank",
           DescribeOtherRank),
    Origin("random call", IsUnscaledRandomCall, OriginKind::kInput, {}, {},
           "a random call: the random states differ", DescribeComputation),
    Origin("module around an unmatched call", IsAroundUnmatchedCall, OriginKind::kUnmatchedCall,
           Confidence::kHigh, kSameCallsReason, {}, DescribeUnmatchedCall),
    Origin("shapes differ", HasOtherShape, OriginKind::kComputation, {}, {}, "the shapes differ",
           DescribeComputation),
    Origin("computation", IsAny, OriginKind::kComputation, {}, {}, {}, DescribeComputation),
};

// ---- Rules of whole calls ----

// Checksums: an output differs in its statistics, everything before the call is bit-equal, and this
// input is not.
bool IsFirstUnequalInput(const Case& c) {
  return c.context.has_checksums && !c.history.HasOrigin() && !c.history.any_unequal &&
         !c.row.distance.identical;
}

// Checksums: the output of the first call whose inputs are bit-equal and whose outputs are not.
bool IsFirstUnequalOutput(const Case& c) {
  return IsFirstUnequalInput(c) && !c.history.unequal_bits && c.call.InputsAreEqual();
}

void DescribeDType(const Case& c, DivergencePoint& point) {
  point.reason =
      fmt::format("{} on the test side and {} on the reference side, {} and {} in most of the run",
                  c.row.npu->dtype, c.row.bench->dtype, c.context.usual_dtypes->first,
                  c.context.usual_dtypes->second);
}

void DescribeHarmlessUnmatchedCall(const Case& c, DivergencePoint& point) {
  DescribeUnmatchedCall(c, point);
  point.reason =
      fmt::format("both sides made the same calls in the same order up to here; later {}",
                  c.history.drift ? "differences are within rounding noise" : "values agree");
}

constexpr Rule kDTypeRule = Origin("dtype", HasUnusualDType, OriginKind::kDType,
                                   Confidence::kCertain, {}, {}, DescribeDType);
constexpr Rule kUnequalInputRule =
    Origin("unequal input", IsFirstUnequalInput, OriginKind::kInput, Confidence::kCertain,
           "everything before it is bit-equal, this value is not: statistics do not show how");
constexpr Rule kUnequalBitsRule =
    Origin("first unequal bits", IsFirstUnequalOutput, OriginKind::kComputation,
           Confidence::kCertain, "its inputs and parameters are bit-equal, its output is not");
constexpr Rule kUnmatchedCallRule =
    Origin("unmatched call without a difference", IsAny, OriginKind::kUnmatchedCall,
           Confidence::kHigh, {}, {}, DescribeHarmlessUnmatchedCall);

// The finding of the first rule that applies; the last one applies to every case.
template <size_t kCount>
Finding FirstOf(const Rule (&rules)[kCount], const Case& c) {
  const Rule& rule =
      *std::find_if(rules, rules + kCount - 1, [&](const Rule& r) { return r.applies(c); });
  if (rule.outcome == Outcome::kNothing) {
    return {};
  }
  DivergencePoint point = PointAt(c.context, c.call, c.row);
  point.explained_error = c.explained;
  return Apply(rule, c, std::move(point));
}

}  // namespace

Finding JudgeDType(const WalkContext& context, const WalkHistory& history, const CallView& call) {
  for (const std::vector<RowView>* rows : {&call.inputs, &call.outputs}) {
    for (const RowView& row : *rows) {
      const Case c{context, history, call, row};
      if (kDTypeRule.applies(c)) {
        return Apply(kDTypeRule, c, PointAt(context, call, row));
      }
    }
  }
  return {};
}

Finding JudgeInput(const WalkContext& context, const WalkHistory& history, const CallView& call,
                   const RowView& input) {
  const Case c{context, history, call, input, 0, history.passed_unmatched};
  Finding finding = FirstOf(kInputRules, c);
  // Another number of elements behind noise: something was chosen otherwise.
  finding.flips_choice =
      finding.kind == Outcome::kDrift && !c.has_pair() && !IsStored(c) && !IsStateOfOptimizer(c);
  return finding;
}

Finding JudgeOutput(const WalkContext& context, const WalkHistory& history, const CallView& call,
                    const RowView& output, double explained) {
  for (const RowView& input : call.inputs) {
    const Case c{context, history, call, input};
    if (kUnequalInputRule.applies(c)) {
      return Apply(kUnequalInputRule, c, PointAt(context, call, input));
    }
  }
  return FirstOf(kOutputRules,
                 {context, history, call, output, explained, history.passed_unmatched});
}

std::optional<DivergencePoint> FindUnequalBits(const WalkContext& context,
                                               const WalkHistory& history, const CallView& call) {
  for (const RowView& output : call.outputs) {
    const Case c{context, history, call, output};
    if (kUnequalBitsRule.applies(c)) {
      return Apply(kUnequalBitsRule, c, PointAt(context, call, output)).point;
    }
  }
  return std::nullopt;
}

std::optional<DivergencePoint> FindAmplifier(const WalkContext& context, const WalkHistory& history,
                                             const CallView& call, const RowView& output) {
  DivergencePoint point = PointAt(context, call, output);
  const bool amplifies = call.input_error < kNoDigitLeft && point.amplification > 1 &&
                         std::isfinite(point.amplification) && !history.IsByChance(call);
  return amplifies ? std::optional(std::move(point)) : std::nullopt;
}

Finding JudgeUnmatchedCalls(const WalkContext& context, const WalkHistory& history) {
  const CallAlignment& alignment = context.alignment;
  if (history.HasOrigin() || alignment.unmatched.empty() || history.place == 0) {
    return {};
  }
  // Sides that recorded other parts of the model, or run other code altogether, are not a finding.
  size_t count = 0;
  for (const UnmatchedCalls& run : alignment.unmatched) {
    count += (run.npu_end - run.npu_begin) + (run.bench_end - run.bench_begin);
  }
  if (count > kFewUnmatched || count * kUnmatchedPerCalls > alignment.forward_npu.size()) {
    return {};
  }
  const UnmatchedCalls& run = alignment.unmatched.front();
  const size_t next = std::min<size_t>(run.npu_end > run.npu_begin ? run.npu_begin : run.npu_end,
                                       alignment.forward_npu.size() - 1);
  DivergencePoint point;
  point.entry = alignment.forward_npu[next];
  if (context.views.Begin(point.entry) == context.views.End(point.entry)) {
    return {};
  }
  point.row = *context.views.Begin(point.entry);
  return Apply(kUnmatchedCallRule, {context, history, CallView{}, RowView{}, 0, 0},
               std::move(point));
}

Finding JudgeReplica(const ReplicaDifference& replica, uint32_t entry, size_t place, uint32_t row) {
  DivergencePoint point;
  point.kind = OriginKind::kReplica;
  point.entry = entry;
  point.place = place;
  point.row = row;
  point.output_error = replica.error;
  point.confidence = Confidence::kCertain;
  point.reason = fmt::format("{} must hold the same value, {} differ{}", RanksText(replica.group),
                             RanksText(replica.ranks), replica.ranks.size() == 1 ? "s" : "");
  point.note = replica.of_bench ? "ranks of the reference side" : "";
  if (!replica.of_bench) {
    point.ranks = replica.ranks;
  }
  return {Outcome::kOrigin, std::move(point)};
}

DivergencePoint WithNames(const WalkContext& context, const WalkHistory& history,
                          DivergencePoint point) {
  const std::string_view npu_name = context.npu.entries[point.entry].name;
  if (point.entry_name.empty()) {  // not named after an unmatched call
    point.entry_name = npu_name;
    if (const SideRow* partner = context.views.View(point.row).bench; partner != nullptr) {
      point.bench_entry_name = context.bench.entries[partner->entry].name;
    }
  }
  point.row_name = context.npu.rows[context.result.rows[point.row].pair.npu].name;
  point.parent_module = history.containment.ParentOf(point.entry);
  point.layer = history.containment.LayerOf(point.entry);
  const dump::StackFile* stack = context.input.stack;
  if (const std::vector<std::string>* frames = stack != nullptr ? stack->Find(npu_name) : nullptr) {
    point.stack = *frames;
    point.code_line = dump::UserCodeLine(*frames);
  }
  return point;
}

}  // namespace msprobe::analysis::compare
