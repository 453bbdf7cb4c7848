// Explains differences of weights from one step to the next.
//
// A step leaves the statistics of every parameter and the relative distance of its gradients. In
// the next step, a parameter that is not identical is held against them: if its gradients agreed
// within noise, the update may differ by the movement of the parameter times that noise (twice
// the movement for updates that depend on signs only, as Adam's first steps). A difference
// beyond that bound has another cause: the optimizer, if the parameter was equal before, or
// another weight to start with.
#include "src/analysis/compare/step_record.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"

namespace msprobe::analysis::compare {
namespace {

// How far a parameter of one side moved between the steps, by its statistics; Norm counts per
// element.
double Movement(const std::array<double, kStatCount>& before, const SideRow& now) {
  const double root = std::sqrt(ElementCount(now.shape));
  double movement = 0;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    if (now.stats[stat].is_numeric() && std::isfinite(before[stat]) &&
        std::isfinite(now.stats[stat].number)) {
      movement = std::max(movement, std::abs(now.stats[stat].number - before[stat]) *
                                        (stat == kNorm ? 1 / root : 1));
    }
  }
  return movement;
}

// Whether one side alone has the value of the step before, in all statistics, while the other's
// Norm moved by more than rounding: an update was lost. Elements without a gradient may hold the
// extremes.
bool IsLostUpdate(const StepRecord::Parameter& before, const SideRow& npu, const SideRow& bench) {
  const auto has_moved = [](const std::array<double, kStatCount>& then, const SideRow& now) {
    return std::fabs(now.stats[kNorm].number - then[kNorm]) >
           kUpdateRoundingUnits * kUnitRoundoff * std::fabs(then[kNorm]);
  };
  const auto is_kept = [](const std::array<double, kStatCount>& then, const SideRow& now) {
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      if (now.stats[stat].number != then[stat]) {
        return false;
      }
    }
    return true;
  };
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    if (!npu.stats[stat].is_numeric() || !bench.stats[stat].is_numeric()) {
      return false;
    }
  }
  return npu.dtype.ends_with("32") && bench.dtype.ends_with("32") &&
         ((is_kept(before.npu, npu) && has_moved(before.bench, bench)) ||
          (is_kept(before.bench, bench) && has_moved(before.npu, npu)));
}

// What rounding of a gradient that is off by `error` leaves of a parameter that moved so far.
double AllowedApart(double before, double share, double movement, double magnitude) {
  return 2 * before + share * movement + kUpdateRoundingUnits * kUnitRoundoff * magnitude;
}

double Magnitude(const SideRow& row) {
  double largest = 0;
  for (const Stat stat : {kMax, kMin}) {
    if (row.stats[stat].is_numeric() && std::isfinite(row.stats[stat].number)) {
      largest = std::max(largest, std::abs(row.stats[stat].number));
    }
  }
  return largest;
}

bool IsWide(std::string_view dtype) { return dtype.ends_with("32") || dtype.ends_with("64"); }

// The distance from 1 to the next number of the coarser dtype, or more.
double UnitOf(const SideRow& npu, const SideRow& bench) {
  return IsWide(npu.dtype) && IsWide(bench.dtype) ? 2 * kUnitRoundoff : 0x1p-7;
}

bool IsClose(const StepRecord::Gradient& gradient, const SideRow& npu, const SideRow& bench) {
  return !gradient.cancelled && gradient.error <= kCloseGradient && npu.dtype == bench.dtype &&
         npu.dtype.ends_with("32");
}

// How many extremes of a parameter whose gradient agreed are further apart than its error explains.
int ExtremesMovedApart(const StepRecord::Parameter& before, const StepRecord::Gradient& gradient,
                       const SideRow& npu, const SideRow& bench) {
  const double movement = std::max(Movement(before.npu, npu), Movement(before.bench, bench));
  const double share = kUpdateSlack * std::max(gradient.error, 16 * kUnitRoundoff);
  int count = 0;
  for (const Stat stat : {kMax, kMin}) {
    if (!npu.stats[stat].is_numeric() || !bench.stats[stat].is_numeric()) {
      continue;
    }
    const double apart = std::abs(npu.stats[stat].number - bench.stats[stat].number);
    const double apart_before = std::abs(before.npu[stat] - before.bench[stat]);
    count += apart > AllowedApart(apart_before, share, movement, Magnitude(bench)) ? 1 : 0;
  }
  return count;
}

}  // namespace

UpdateKeys UpdateKeysOf(std::string_view entry_name, std::string_view argument,
                        const SideRow& row) {
  const auto joined = [&](size_t front, std::string_view back) {
    return front == std::string_view::npos
               ? std::string()
               : fmt::format("{}|{}", entry_name.substr(0, front), back);
  };
  const size_t dot = argument.find('.');
  const std::string_view below =
      dot == std::string_view::npos ? std::string_view() : argument.substr(dot + 1);
  switch (row.state) {
    case dump::RowState::kParameters: {
      // "Module.fc.Linear.forward.0", "parameters.weight"
      const std::string key = joined(entry_name.rfind(".forward"), below);
      return {key, key};
    }
    case dump::RowState::kParametersGrad: {
      // "Module.fc.Linear.parameters_grad", "weight"; newer dumps number them: "parameters_grad.0"
      const std::string key = joined(entry_name.rfind(".parameters_grad"), argument);
      return {key, key};
    }
    case dump::RowState::kInput:
    case dump::RowState::kKwargs:
    case dump::RowState::kOutput: {
      const size_t direction = entry_name.rfind('.');
      return {joined(direction, below),
              joined(direction, fmt::format("{:.0f} elements", ElementCount(row.shape)))};
    }
    case dump::RowState::kDebug:
      break;
  }
  return {};
}

void UpdateRule::Add(const StepRecord& previous, const UpdateKeys& keys, Cancellation cancellation,
                     const SideRow& npu, const SideRow& bench) {
  const auto parameter = previous.parameters.find(keys.parameter);
  if (parameter == previous.parameters.end()) {
    return;
  }
  const double npu_movement = Movement(parameter->second.npu, npu);
  const double bench_movement = Movement(parameter->second.bench, bench);
  shared_movement_ = std::max(shared_movement_, std::min(npu_movement, bench_movement));
  const auto gradient = previous.gradients.find(keys.gradient);
  if (gradient == previous.gradients.end() || gradient->second.cancelled) {
    return;
  }
  if (cancellation == Cancellation::kNever && IsClose(gradient->second, npu, bench)) {
    ++close_;
    const int extremes = ExtremesMovedApart(parameter->second, gradient->second, npu, bench);
    apart_ += extremes > 0 ? 1 : 0;
    wholly_apart_ += extremes == 2 && ElementCount(npu.shape) > 1 ? 1 : 0;
  }
  // What 16 bits keep of a small movement is as coarse as they are.
  const double movement = IsWide(npu.dtype) && !IsWide(bench.dtype) ? npu_movement : bench_movement;
  const double scale = gradient->second.scale;
  if (!(movement > 0) || !(scale > 0)) {
    return;
  }
  const double moved = std::log(movement);
  const double quotient = moved - std::log(scale);
  movement_.sum += moved;
  movement_.square_sum += moved * moved;
  quotient_.sum += quotient;
  quotient_.square_sum += quotient * quotient;
  ++count_;
}

bool UpdateRule::FollowsGradients() const {
  const auto variance = [&](const Spread& spread) {
    return spread.square_sum / count_ - spread.sum * spread.sum / (count_ * count_);
  };
  return count_ >= 3 && variance(movement_) > kMovesAlike &&
         variance(quotient_) < variance(movement_);
}

bool UpdateRule::Differs() const {
  return wholly_apart_ >= kFewestWhollyApart ||
         (apart_ >= kFewestApart && kShareApart * apart_ >= close_);
}

UpdateVerdict JudgeUpdate(const StepRecord& previous, const UpdateRule& rule,
                          const UpdateKeys& keys, Cancellation cancellation, const SideRow& npu,
                          const SideRow& bench) {
  if (previous.has_origin) {
    return {UpdateJudgement::kEcho, 0};
  }
  const auto parameter = previous.parameters.find(keys.parameter);
  if (parameter == previous.parameters.end()) {
    return {previous.identical ? UpdateJudgement::kOptimizer : UpdateJudgement::kUnknown, 0};
  }
  const StepRecord::Parameter& before = parameter->second;
  const auto gradient = previous.gradients.find(keys.gradient);
  if (gradient == previous.gradients.end()) {
    if (previous.identical) {
      return {UpdateJudgement::kOptimizer, 0};
    }
  } else if (gradient->second.identical && before.identical && previous.identical) {
    return {UpdateJudgement::kOptimizer, 0};
  }
  const bool may_cancel = gradient != previous.gradients.end()
                              ? gradient->second.cancelled
                              : cancellation != Cancellation::kNever;
  if (!may_cancel && IsLostUpdate(before, npu, bench)) {
    return {UpdateJudgement::kOptimizer, 0};
  }
  // Without a recorded gradient (running statistics, functional calls of some dumps), as noise of
  // unknown size.
  const double slack = rule.FollowsGradients() ? kUpdateSlackBySize : kUpdateSlack;
  const double error = gradient == previous.gradients.end() ? 1e-3
                       : gradient->second.cancelled && !gradient->second.identical
                           ? 2.0 / slack
                           : std::max(gradient->second.error, 16 * kUnitRoundoff);
  // One element may have a gradient next to zero, and so an update of chance.
  const double elements = ElementCount(npu.shape);
  // Where gradients are equal bit by bit, none is zero on one side only.
  const bool has_equal_bits = previous.shows_bits && !previous.repeats_layers && before.identical &&
                              gradient != previous.gradients.end() && gradient->second.identical;
  // Chance moves single elements: hardly the largest and the smallest of one parameter.
  const bool is_close = cancellation == Cancellation::kNever &&
                        gradient != previous.gradients.end() &&
                        IsClose(gradient->second, npu, bench);
  const bool no_chance =
      has_equal_bits || rule.FollowsGradients() ||
      (is_close && (rule.Differs() || (elements > 1 && ExtremesMovedApart(before, gradient->second,
                                                                          npu, bench) == 2)));
  double share = std::min(2.0, std::max(slack * error, no_chance ? 0.0 : 2 / elements));
  const double npu_movement = Movement(before.npu, npu);
  const double bench_movement = Movement(before.bench, bench);
  const double largest = std::max(npu_movement, bench_movement);
  // A movement that rounding to 16 bits hides on one side is up to a unit on the other.
  const double movement =
      std::min(largest, std::max(std::min(npu_movement, bench_movement), rule.SharedMovement()) +
                            UnitOf(npu, bench) * Magnitude(bench));
  const double least = npu.dtype.ends_with("32") ? kMovementShare32 : kMovementShare;
  const bool both_moved = std::min(npu_movement, bench_movement) > least * largest;
  const bool gradient_is_known = gradient != previous.gradients.end();
  const bool is_noise =
      elements < kFewElements && std::max(error, UnitOf(npu, bench)) > kNarrowError;
  const bool by_chance =
      cancellation == Cancellation::kInPart || is_noise ||
      (cancellation == Cancellation::kWhole && (!gradient_is_known || gradient->second.cancelled));
  if (by_chance && both_moved && !has_equal_bits && !rule.FollowsGradients()) {
    share = 2;
  }
  const Distance now = StatisticsDistance(npu, bench);
  double before_absolute = 0;
  const double root = std::sqrt(ElementCount(npu.shape));
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    if (std::isfinite(before.npu[stat]) && std::isfinite(before.bench[stat])) {
      const double scale = stat == kNorm ? 1 / root : 1;
      before_absolute =
          std::max(before_absolute, std::abs(before.npu[stat] - before.bench[stat]) * scale);
    }
  }
  if (now.absolute > AllowedApart(before_absolute, share, movement, Magnitude(bench))) {
    return {UpdateJudgement::kOptimizer, 0};
  }
  return {UpdateJudgement::kExplained, share >= 1 ? movement : 0};
}

}  // namespace msprobe::analysis::compare
