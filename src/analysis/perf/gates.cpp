#include "src/analysis/perf/gates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/units.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::perf {
namespace {

constexpr double kMbPerGb = 1024;
constexpr std::string_view kOperatorPrefix = "op:";

struct MetricName {
  std::string_view name;
  GateMetric metric;
};
constexpr std::array<MetricName, 5> kMetricNames = {{{"e2e", GateMetric::kEndToEnd},
                                                     {"computing", GateMetric::kComputing},
                                                     {"communication", GateMetric::kCommunication},
                                                     {"free", GateMetric::kFree},
                                                     {"memory", GateMetric::kMemory}}};

constexpr const char* kHint =
    "slower, or METRIC>GROWTH with e2e, computing, communication, free, memory or op:GLOB, and a "
    "growth in %, "
    "ms, s, MB or GB: 'e2e>5%', 'op:*matmul*>2ms', 'memory>1GB'";

struct Unit {
  std::string_view name;
  double factor;
  bool is_memory;
};
constexpr std::array<Unit, 4> kUnits = {
    {{"ms", 1, false}, {"s", kMsPerS, false}, {"MB", 1 / kMbPerGb, true}, {"GB", 1, true}}};

Status Wrong(std::string_view text, std::string_view why) {
  return UsageError(fmt::format("--fail-on {}: {}", text, why)).WithHint(kHint);
}

Status ParseMetric(std::string_view name, Gate& gate) {
  if (name.starts_with(kOperatorPrefix)) {
    gate.metric = GateMetric::kOperator;
    gate.pattern = name.substr(kOperatorPrefix.size());
    return gate.pattern.empty() ? Wrong(gate.text, "op: needs a name or pattern") : Status();
  }
  for (const MetricName& known : kMetricNames) {
    if (base::EqualsIgnoringCase(known.name, name)) {
      gate.metric = known.metric;
      return {};
    }
  }
  return Wrong(gate.text, fmt::format("there is no metric \"{}\"", name));
}

Status ParseGrowth(std::string_view text, Gate& gate) {
  double factor = 1;
  gate.is_percent = text.ends_with('%');
  if (gate.is_percent) {
    text.remove_suffix(1);
  } else {
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                   [&](const Unit& known) { return text.ends_with(known.name); });
    if (unit == kUnits.end()) {
      return Wrong(gate.text, "the growth has no unit");
    }
    if (unit->is_memory != (gate.metric == GateMetric::kMemory)) {
      return Wrong(gate.text, "the unit does not fit the metric");
    }
    text.remove_suffix(unit->name.size());
    factor = unit->factor;
  }
  const std::optional<double> number = base::ParseDouble(base::Trim(text));
  if (!number.has_value() || !std::isfinite(*number) || *number < 0) {
    return Wrong(gate.text, "the growth is not a number");
  }
  gate.threshold = *number * factor;
  return {};
}

struct BothSides {
  double base = 0;
  double comparison = 0;
};

std::string SidesWithout(bool base, bool comparison, std::string_view what) {
  return fmt::format("{} {}",
                     !base && !comparison ? "neither side"
                     : !base              ? "the base does not"
                                          : "the comparison does not",
                     what);
}

// A side that lacks `what` leaves nothing to compare.
Status Lacks(bool base, bool comparison, std::string_view verb, std::string_view verbs) {
  return base && comparison
             ? Status()
             : MismatchError(SidesWithout(base, comparison, !base && !comparison ? verbs : verb));
}

// What a gate compares, or why it cannot.
Result<BothSides> ValuesOf(const Gate& gate, const PairComparison& comparison) {
  if (gate.metric == GateMetric::kOperator) {
    const auto watched =
        std::find_if(comparison.watched.begin(), comparison.watched.end(),
                     [&](const Watched& known) { return known.pattern == gate.pattern; });
    if (watched == comparison.watched.end()) {
      return MismatchError("operators were not compared");
    }
    MSP_RETURN_IF_ERROR(Lacks(watched->base_calls > 0, watched->comparison_calls > 0,
                              "hold an operator of such a name",
                              "holds an operator of such a name"));
    return BothSides{watched->base_ms, watched->comparison_ms};
  }
  if (gate.metric == GateMetric::kMemory) {
    const auto memory = [](const std::optional<OverallTimes>& times) {
      return times.has_value() ? times->memory_gb : 0;
    };
    const BothSides pair = {memory(comparison.base_times), memory(comparison.comparison_times)};
    MSP_RETURN_IF_ERROR(
        Lacks(pair.base > 0, pair.comparison > 0, "record memory", "records memory"));
    return pair;
  }
  const auto known = [](const std::optional<TimeSplit>& split) {
    return split.has_value() && split->end_to_end > 0;
  };
  MSP_RETURN_IF_ERROR(Lacks(known(comparison.base_split), known(comparison.comparison_split),
                            "record times", "records times"));
  const TimeSplit& base = *comparison.base_split;
  const TimeSplit& other = *comparison.comparison_split;
  if (gate.metric == GateMetric::kEndToEnd) {
    return BothSides{base.end_to_end, other.end_to_end};
  }
  if (base.of_host || other.of_host) {
    return MismatchError("no device was profiled, and of the host only e2e is known");
  }
  if (gate.metric == GateMetric::kCommunication) {
    MSP_RETURN_IF_ERROR(Lacks(comparison.base_communicates, comparison.comparison_communicates,
                              "hold a collective", "holds a collective"));
    return BothSides{base.communication, other.communication};
  }
  return gate.metric == GateMetric::kComputing
             ? BothSides{base.computing, other.computing}
             : BothSides{base.copies + base.idle, other.copies + other.idle};
}

std::string_view NameOf(const Gate& gate) {
  return std::string_view(gate.text).substr(0, gate.text.rfind('>'));
}

}  // namespace

Result<Gate> ParseGate(std::string_view text) {
  Gate gate;
  gate.text = base::Trim(text);
  const size_t sign = gate.text.rfind('>');
  if (sign == std::string::npos) {
    return Wrong(text, "there is no '>'");
  }
  const std::string_view whole = gate.text;
  MSP_RETURN_IF_ERROR(ParseMetric(base::Trim(whole.substr(0, sign)), gate));
  MSP_RETURN_IF_ERROR(ParseGrowth(base::Trim(whole.substr(sign + 1)), gate));
  return gate;
}

GateOutcome Judge(const Gate& gate, const PairComparison& comparison) {
  GateOutcome outcome;
  outcome.gate = gate.text;
  const Result<BothSides> values = ValuesOf(gate, comparison);
  if (!values.ok()) {
    outcome.failed = true;
    outcome.explanation =
        fmt::format("{} cannot be judged: {}", NameOf(gate), values.status().message());
    return outcome;
  }
  const double growth = values->comparison - values->base;
  const std::string_view unit = gate.metric == GateMetric::kMemory ? "GB" : "ms";
  const std::string sides =
      fmt::format("{} {:.3f} -> {:.3f} {}", NameOf(gate), values->base, values->comparison, unit);
  if (!gate.is_percent) {
    outcome.failed = growth > gate.threshold;
    outcome.explanation =
        fmt::format("{}: {:+.3f} {}, allowed {:g} {}", sides, growth, unit, gate.threshold, unit);
  } else if (values->base > 0) {
    const double percent = growth / values->base * 100;
    outcome.failed = percent > gate.threshold;
    outcome.explanation =
        fmt::format("{}: {:+.1f} %, allowed {:g} %", sides, percent, gate.threshold);
  } else {
    outcome.failed = growth > 0;
    outcome.explanation = fmt::format("{}: grew from nothing", sides);
  }
  return outcome;
}

}  // namespace msprobe::analysis::perf
