#include "src/analysis/perf/perf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/analysis/perf/pair_comparison.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/processes.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/document.h"
#include "src/report/document.h"
#include "src/report/table.h"
#include "src/report/writers.h"

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
                     : !base              ? "the reference does not"
                                          : "the test does not",
                     what);
}

// A side that lacks `what` leaves nothing to compare.
Status Lacks(bool base, bool comparison, std::string_view verb, std::string_view verbs) {
  return base && comparison
             ? Status()
             : MismatchError(SidesWithout(base, comparison, !base && !comparison ? verbs : verb));
}

// The values that a gate compares, or why it cannot.
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

namespace {

// The parts of the time, a row per side: the table that the Python tool prints.

constexpr std::string_view kTitle = "Model Profiling Time Distribution";

std::string Seconds(double seconds) { return fmt::format("{:.3f}s", seconds); }

std::string Counted(double ms, int64_t count) {
  return fmt::format("{:.3f}s({})", ms / kMsPerS, count);
}

struct Column {
  std::string header;
  std::array<std::string, 2> cells;
};

// Matrix units: matrix products, what else runs there, and kernels that compute and communicate;
// those have no count of their own.
Bucket Cube(const OverallTimes& times) {
  Bucket cube = times.matmul() + times.other_cube;
  cube.ms += times.combined_ms();
  return cube;
}

class Columns {
 public:
  Columns(const OverallTimes& base, const OverallTimes& comparison)
      : base_(base), comparison_(comparison) {}

  using Text = std::function<std::string(const OverallTimes&)>;
  using Value = std::function<double(const OverallTimes&)>;
  using Part = std::function<Bucket(const OverallTimes&)>;

  void Add(const std::string& header, const Text& text) {
    columns_.push_back({header, {text(base_), text(comparison_)}});
  }
  // Only where either side has any of it.
  void AddNonZero(const std::string& header, const Value& value, const Text& text) {
    if (value(base_) != 0 || value(comparison_) != 0) {
      Add(header, text);
    }
  }
  void AddCounted(const std::string& header, const Part& part, bool always = false) {
    const auto text = [&](const OverallTimes& times) {
      const Bucket bucket = part(times);
      return Counted(bucket.ms, bucket.count);
    };
    if (always) {
      Add(header, text);
    } else {
      AddNonZero(
          header, [&](const OverallTimes& times) { return part(times).ms; }, text);
    }
  }
  void AddCells(const std::string& header, std::string base, std::string comparison) {
    columns_.push_back({header, {std::move(base), std::move(comparison)}});
  }

  std::vector<Column> Take() { return std::move(columns_); }

 private:
  const OverallTimes& base_;
  const OverallTimes& comparison_;
  std::vector<Column> columns_;
};

std::vector<Column> MakeColumns(const PairComparison& comparison) {
  using Times = OverallTimes;
  const Times& base = *comparison.base_times;
  const Times& other = *comparison.comparison_times;
  const auto device = [](profile::Device kind) {
    return std::string(kind == profile::Device::kGpu ? "GPU" : "NPU");
  };
  Columns columns(base, other);
  columns.AddCells("", device(comparison.base_device), device(comparison.comparison_device));
  if (base.has_kernel_metrics && other.has_kernel_metrics) {
    columns.AddCounted("Cube Time(Num)", Cube, true);
    columns.AddCounted(
        "Vector Time(Num)", [](const Times& times) { return times.vector(); }, true);
  }
  columns.AddCounted("Conv Time(Forward)(Num)",
                     [](const Times& times) { return times.conv_forward(); });
  columns.AddCounted("Conv Time(Backward)(Num)",
                     [](const Times& times) { return times.conv_backward(); });
  columns.AddCounted("Flash Attention Time(Forward)(Num)",
                     [](const Times& times) { return times.flash_forward(); });
  columns.AddCounted("Flash Attention Time(Backward)(Num)",
                     [](const Times& times) { return times.flash_backward(); });
  columns.AddCounted("Paged Attention Time(Num)",
                     [](const Times& times) { return times.paged_attention; });
  columns.AddCounted("Lccl Time(Num)", [](const Times& times) { return times.lccl; });
  columns.AddNonZero(
      "Other Time", [](const Times& times) { return times.other_s; },
      [](const Times& times) { return Seconds(times.other_s); });
  columns.Add("Computing Time", [](const Times& times) { return Seconds(times.computing_s); });
  columns.AddNonZero(
      "Mem Usage", [](const Times& times) { return times.memory_gb; },
      [](const Times& times) { return fmt::format("{:.2f}G", times.memory_gb); });
  columns.AddCells("Uncovered Communication Time(Wait Time)",
                   fmt::format(" {:.3f}s{}", base.uncovered_s,
                               base.wait_s == 0 ? "( / )" : fmt::format("({:.3f}s)", base.wait_s)),
                   fmt::format(" {:.3f}s({:.3f}s)", other.uncovered_s, other.wait_s));
  columns.AddNonZero(
      "RDMA Bandwidth", [](const Times& times) { return times.rdma_gbps; },
      [](const Times& times) { return fmt::format("{:.3f}GB/s", times.rdma_gbps); });
  columns.AddNonZero(
      "SDMA Bandwidth", [](const Times& times) { return times.sdma_gbps; },
      [](const Times& times) { return fmt::format("{:.3f}GB/s", times.sdma_gbps); });
  columns.AddCounted("SDMA Time(Num)",
                     [](const Times& times) { return times.tensor_move + times.stream_copies; });
  columns.Add("Free Time", [](const Times& times) { return Seconds(times.free_s); });
  const bool any_npu = comparison.base_device == profile::Device::kNpu ||
                       comparison.comparison_device == profile::Device::kNpu;
  columns.Add(any_npu ? "E2E Time(Not minimal profiling)" : "E2E Time",
              [](const Times& times) { return Seconds(times.end_to_end_s); });
  return columns.Take();
}

// Columns that are zero on both sides are left out.
report::Table OverallColumns(const PairComparison& comparison) {
  const std::vector<Column> columns = MakeColumns(comparison);
  std::vector<std::string> headers;
  for (const Column& column : columns) {
    headers.push_back(column.header);
  }
  report::Table table(std::string(kTitle), std::move(headers));
  for (const size_t side : {0, 1}) {
    std::vector<report::Cell> cells;
    for (const Column& column : columns) {
      cells.push_back(table.KeepText(column.cells[side]));
    }
    table.AddRow(cells);
  }
  return table;
}

std::string DeviceName(profile::Device device) {
  return device == profile::Device::kGpu ? "GPU" : "NPU";
}

SideTimes TimesOf(const TimeSplit& split, const std::optional<OverallTimes>& times) {
  SideTimes side;
  side.end_to_end_ms = split.end_to_end;
  side.computing_ms = split.computing;
  side.uncovered_communication_ms = split.communication;
  side.copies_ms = split.copies;
  side.free_ms = split.copies + split.idle;
  if (times.has_value()) {
    side.wait_ms = times->wait_s * kMsPerS;
    side.memory_gb = times->memory_gb;
  }
  return side;
}

}  // namespace

RankSummary Summarize(const PairComparison& comparison) {
  RankSummary summary;
  summary.base_device = DeviceName(comparison.base_device);
  summary.comparison_device = DeviceName(comparison.comparison_device);
  summary.verdict = comparison.verdict;
  summary.has_times = comparison.base_split.has_value() && comparison.comparison_split.has_value();
  if (summary.has_times) {
    summary.of_host = comparison.base_split->of_host;
    summary.base = TimesOf(*comparison.base_split, comparison.base_times);
    summary.comparison = TimesOf(*comparison.comparison_split, comparison.comparison_times);
  }
  summary.has_unowned =
      comparison.base_unowned.has_value() && comparison.comparison_unowned.has_value();
  if (summary.has_unowned) {
    summary.base_unowned = *comparison.base_unowned;
    summary.comparison_unowned = *comparison.comparison_unowned;
  }
  summary.kernel_families = comparison.kernel_families;
  summary.kernels = comparison.kernel_changes;
  summary.findings = comparison.findings;
  summary.collectives = comparison.collectives;
  summary.warnings = comparison.warnings;
  return summary;
}

Spread SpreadOf(const RunSummary& run, SideTimes RankSummary::*side, double SideTimes::*time) {
  Spread spread;
  size_t count = 0;
  for (const RankSummary& rank : run.ranks) {
    if (!rank.has_times) {
      continue;
    }
    const double ms = rank.*side.*time;
    if (count == 0 || ms > spread.slowest_ms) {
      spread.slowest_ms = ms;
      spread.slowest_rank = rank.rank;
    }
    spread.mean_ms += ms;
    ++count;
  }
  if (count > 0) {
    spread.mean_ms /= static_cast<double>(count);
  }
  return spread;
}

std::optional<Growth> LargestGrowth(const RunSummary& run, double SideTimes::*time) {
  std::optional<Growth> largest;
  for (const RankSummary& rank : run.ranks) {
    const double ms = rank.comparison.*time - rank.base.*time;
    if (rank.has_times && (!largest.has_value() || ms > largest->ms)) {
      largest = Growth{rank.rank, ms};
    }
  }
  return largest;
}

bool AnyRankFailed(const RunSummary& run) {
  return !run.missing.empty() ||
         std::any_of(run.ranks.begin(), run.ranks.end(),
                     [](const RankSummary& rank) { return !rank.error.empty(); });
}

namespace {

using json::Json;

constexpr int kSchemaVersion = 1;

// The members of each structure under the names that they have in the text, for both directions.
template <typename Visit>
void VisitMembers(SideTimes& times, Visit&& visit) {
  visit("end_to_end_ms", times.end_to_end_ms);
  visit("computing_ms", times.computing_ms);
  visit("uncovered_communication_ms", times.uncovered_communication_ms);
  visit("wait_ms", times.wait_ms);
  visit("free_ms", times.free_ms);
  visit("memory_gb", times.memory_gb);
  visit("copies_ms", times.copies_ms);
}

template <typename Visit>
void VisitMembers(UnattributedTime& unowned, Visit&& visit) {
  visit("device_ms", unowned.device);
  visit("graphs_ms", unowned.graphs);
  visit("copies_ms", unowned.copies);
  visit("earlier_ms", unowned.earlier);
  visit("outside_ms", unowned.outside);
  visit("unknown_ms", unowned.unknown);
}

template <typename Visit>
void VisitMembers(Verdict& verdict, Visit&& visit) {
  visit("word", verdict.word);
  visit("percent", verdict.percent);
  visit("text", verdict.text);
}

template <typename Visit>
void VisitMembers(KernelChange& kernel, Visit&& visit) {
  visit("family", kernel.family);
  visit("name", kernel.name);
  visit("base_ms", kernel.base_ms);
  visit("comparison_ms", kernel.comparison_ms);
  visit("base_calls", kernel.base_calls);
  visit("comparison_calls", kernel.comparison_calls);
  visit("added", kernel.added);
  visit("removed", kernel.removed);
}

template <typename Visit>
void VisitMembers(Finding& finding, Visit&& visit) {
  visit("where", finding.where);
  visit("metric", finding.metric);
  visit("note", finding.note);
  visit("base", finding.base);
  visit("comparison", finding.comparison);
  visit("base_calls", finding.base_calls);
  visit("comparison_calls", finding.comparison_calls);
  visit("call_stack", finding.call_stack);
}

template <typename Visit>
void VisitMembers(Collective& collective, Visit&& visit) {
  visit("kind", collective.kind);
  visit("base_ms", collective.base_ms);
  visit("comparison_ms", collective.comparison_ms);
  visit("base_calls", collective.base_calls);
  visit("comparison_calls", collective.comparison_calls);
}

template <typename Visit>
void VisitMembers(GateOutcome& gate, Visit&& visit) {
  visit("gate", gate.gate);
  visit("failed", gate.failed);
  visit("explanation", gate.explanation);
}

template <typename Visit>
void VisitMembers(RankSummary& rank, Visit&& visit) {
  visit("rank", rank.rank);
  visit("base_path", rank.base_path);
  visit("comparison_path", rank.comparison_path);
  visit("base_device", rank.base_device);
  visit("comparison_device", rank.comparison_device);
  visit("error", rank.error);
  visit("verdict", rank.verdict);
  visit("has_times", rank.has_times);
  visit("of_host", rank.of_host);
  visit("base", rank.base);
  visit("comparison", rank.comparison);
  visit("has_unowned", rank.has_unowned);
  visit("base_unowned", rank.base_unowned);
  visit("comparison_unowned", rank.comparison_unowned);
  visit("findings", rank.findings);
  visit("collectives", rank.collectives);
  visit("kernel_families", rank.kernel_families);
  visit("kernels", rank.kernels);
  visit("gates", rank.gates);
  visit("warnings", rank.warnings);
  visit("files", rank.files);
  visit("seconds", rank.seconds);
}

Json ToJson(const std::optional<int64_t>& number) { return json::NumberOrNull(number); }
Json ToJson(double number) { return number; }
Json ToJson(int64_t number) { return number; }
Json ToJson(bool value) { return value; }
Json ToJson(const std::string& text) { return text; }

template <typename Item>
Json ToJson(const std::vector<Item>& items);

template <typename Structure>
requires std::is_class_v<Structure> Json ToJson(const Structure& structure) {
  Json json = Json::object();
  Structure copy = structure;  // one visitor serves reading, too
  VisitMembers(copy, [&](const char* key, const auto& member) { json[key] = ToJson(member); });
  return json;
}

template <typename Item>
Json ToJson(const std::vector<Item>& items) {
  Json list = Json::array();
  for (const Item& item : items) {
    list.push_back(ToJson(item));
  }
  return list;
}

void Take(const Json& value, std::optional<int64_t>& number) {
  if (value.is_number_integer()) {
    number = json::IntOf(value);
  }
}
void Take(const Json& value, double& number) { number = json::NumberOf(value); }
void Take(const Json& value, int64_t& number) { number = json::IntOf(value); }
void Take(const Json& value, bool& flag) { flag = json::BoolOf(value); }
void Take(const Json& value, std::string& text) { text = json::TextOf(value); }

template <typename Item>
void Take(const Json& value, std::vector<Item>& items);

template <typename Structure>
requires std::is_class_v<Structure>
void Take(const Json& value, Structure& structure) {
  VisitMembers(structure, [&](std::string_view key, auto& member) {
    if (const Json* child = json::Find(value, key)) {
      Take(*child, member);
    }
  });
}

template <typename Item>
void Take(const Json& value, std::vector<Item>& items) {
  for (const Json& item : json::ItemsOf(value)) {
    Take(item, items.emplace_back());
  }
}

Json ToJson(const Spread& spread) {
  return {{"slowest_rank", ToJson(spread.slowest_rank)},
          {"slowest_ms", spread.slowest_ms},
          {"mean_ms", spread.mean_ms},
          {"imbalance", spread.imbalance()}};
}

Json TimeJson(const RunSummary& run, double SideTimes::*time) {
  const std::optional<Growth> growth = LargestGrowth(run, time);
  return {{"base", ToJson(SpreadOf(run, &RankSummary::base, time))},
          {"comparison", ToJson(SpreadOf(run, &RankSummary::comparison, time))},
          {"grew_most_rank", ToJson(growth.has_value() ? growth->rank : std::nullopt)},
          {"grew_most_ms", growth.has_value() ? growth->ms : 0.0}};
}

bool AnyGateFailed(const RankSummary& rank) {
  return std::any_of(rank.gates.begin(), rank.gates.end(),
                     [](const GateOutcome& gate) { return gate.failed; });
}

}  // namespace

std::string SummaryJson(const RunSummary& run, int exit_code) {
  const Json json = {
      {"schema_version", kSchemaVersion},
      {"tool", "msprobe"},
      {"version", MSPROBE_VERSION},
      {"command", "perf_compare"},
      {"command_line", report::ThisRun().command_line},
      {"exit_code", exit_code},
      {"gates_failed", std::any_of(run.ranks.begin(), run.ranks.end(), AnyGateFailed)},
      {"seconds", run.seconds},
      {"base_only_ranks", run.base_only},
      {"comparison_only_ranks", run.comparison_only},
      {"missing_ranks", run.missing},
      {"over_ranks",
       {{"end_to_end", TimeJson(run, &SideTimes::end_to_end_ms)},
        {"computing", TimeJson(run, &SideTimes::computing_ms)},
        {"uncovered_communication", TimeJson(run, &SideTimes::uncovered_communication_ms)}}},
      {"ranks", ToJson(run.ranks)}};
  return json::DocumentText(json, 1, json::Writer::NonFinite::kNull) + '\n';
}

// By the reader of dumps: a path that is not UTF-8 is written as half surrogate pairs.
Result<std::vector<RankSummary>> ParseRanks(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const Json summary, json::ParseDocument(text));
  if (!summary.is_object()) {
    return BadFormatError("a summary is a JSON object");
  }
  const Json& list = json::Member(summary, "ranks");
  if (!list.is_array()) {
    return BadFormatError("a summary has a list of ranks");
  }
  std::vector<RankSummary> ranks;
  Take(list, ranks);
  return ranks;
}

Result<std::filesystem::path> WriteSummary(const Options& options, const RunResult& run,
                                           int exit_code) {
  return base::WriteSummary(options.output, run.stamp, SummaryJson(run.summary, exit_code));
}

namespace {

namespace fs = std::filesystem;

std::string UtcStamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y%m%d%H%M%S", &parts);
  return {text.data(), length};
}

fs::path With(const fs::path& stem, std::string_view ending) {
  fs::path path = stem;
  path += ending;
  return path;
}

// In a workbook a row of titles names the sides; here the columns do, where they repeat.
std::vector<std::string> PlainColumns(const report::FormattedTable& sheet) {
  constexpr std::array<std::string_view, 2> kSides = {"Base ", "Comparison "};
  std::vector<std::string> columns = sheet.table.columns();
  for (size_t side = 0; side < std::min(kSides.size(), sheet.titles.size()); ++side) {
    const report::TitleCell& title = sheet.titles[side];
    for (size_t column = title.first_column; column <= title.last_column; ++column) {
      if (column < columns.size() && !columns[column].starts_with(kSides[side])) {
        columns[column].insert(0, kSides[side]);
      }
    }
  }
  return columns;
}

// Borrows the texts of `sheet`.
report::Table PlainTable(const report::FormattedTable& sheet) {
  report::Table plain(sheet.table.name(), PlainColumns(sheet));
  plain.Reserve(sheet.table.row_count());
  std::vector<report::Cell> cells;
  for (size_t row = 0; row < sheet.table.row_count(); ++row) {
    const std::span<const report::Cell> source = sheet.table.row(row);
    cells.assign(source.begin(), source.end());
    for (report::Cell& cell : cells) {
      if (cell.kind() == report::CellKind::kNumber && !std::isfinite(cell.number())) {
        cell = report::Cell::Text("INF");
      }
    }
    plain.AddRow(cells);
  }
  return plain;
}

}  // namespace

fs::path ResultStem(const fs::path& folder, const std::string& stamp,
                    const std::optional<int64_t>& rank) {
  return folder / fmt::format("performance_comparison_result_{}{}", stamp,
                              rank.has_value() ? fmt::format("_rank{}", *rank) : "");
}

Result<std::vector<fs::path>> WriteResultFiles(const PairComparison& comparison,
                                               const fs::path& stem, const ResultFormats& formats,
                                               base::ThreadPool& pool) {
  std::vector<fs::path> written;
  if (formats.xlsx && !comparison.sheets.empty()) {
    std::vector<const report::FormattedTable*> sheets;
    for (const report::FormattedTable& sheet : comparison.sheets) {
      sheets.push_back(&sheet);
    }
    written.push_back(With(stem, ".xlsx"));
    MSP_RETURN_IF_ERROR(report::WriteFormattedXlsx(written.back(), sheets, pool));
  }
  // The workbook holds the Python tool's sheets and no more.
  if (comparison.kernel_table.table.row_count() > 0 && (formats.xlsx || formats.csv)) {
    written.push_back(With(stem, "_Kernels.csv"));
    MSP_RETURN_IF_ERROR(report::WriteCsv(written.back(), PlainTable(comparison.kernel_table)));
  }
  if (comparison.kernel_table.table.row_count() > 0 && formats.json) {
    written.push_back(With(stem, "_Kernels.jsonl"));
    MSP_RETURN_IF_ERROR(
        report::WriteJsonLines(written.back(), PlainTable(comparison.kernel_table)));
  }
  if (!formats.csv && !formats.json) {
    return written;
  }
  for (const report::FormattedTable& sheet : comparison.sheets) {
    const report::Table plain = PlainTable(sheet);
    const fs::path sheet_stem = With(stem, "_" + plain.name());
    if (formats.csv) {
      written.push_back(With(sheet_stem, ".csv"));
      MSP_RETURN_IF_ERROR(report::WriteCsv(written.back(), plain));
    }
    if (formats.json) {
      written.push_back(With(sheet_stem, ".jsonl"));
      MSP_RETURN_IF_ERROR(report::WriteJsonLines(written.back(), plain));
    }
  }
  return written;
}

namespace {

using Clock = std::chrono::steady_clock;
using profile::RankPath;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct PlannedPair {
  std::optional<int64_t> rank;
  fs::path base;
  fs::path comparison;
};

struct Plan {
  std::vector<PlannedPair> pairs;
  std::vector<int64_t> base_only;
  std::vector<int64_t> comparison_only;
};

Result<std::vector<RankPath>> FindSide(const fs::path& path, const std::optional<int64_t>& rank) {
  MSP_ASSIGN_OR_RETURN(std::vector<RankPath> found, profile::FindProfiles(path));
  if (!rank.has_value()) {
    return found;
  }
  const auto chosen = std::find_if(found.begin(), found.end(),
                                   [&](const RankPath& known) { return known.rank == rank; });
  if (chosen == found.end()) {
    std::vector<std::string> ranks;
    ranks.reserve(found.size());
    for (const RankPath& known : found) {
      ranks.push_back(known.rank.has_value() ? std::to_string(*known.rank) : "unknown");
    }
    return UsageError(fmt::format("{} holds no rank {}", path.string(), *rank))
        .WithHint(fmt::format("its ranks: {}", base::Join(ranks, ", ")));
  }
  return std::vector<RankPath>{*chosen};
}

// A folder's only profile, or a file, is compared whatever its rank; of several those of equal
// rank.
Result<Plan> PlanPairs(const PairOptions& options) {
  MSP_ASSIGN_OR_RETURN(const auto base, FindSide(options.base, options.base_rank));
  MSP_ASSIGN_OR_RETURN(const auto comparison,
                       FindSide(options.comparison, options.comparison_rank));
  Plan plan;
  if (base.size() == 1 && comparison.size() == 1) {
    // Results name the paths as typed, unless it is a folder with one trace.
    plan.pairs.push_back({std::nullopt, base[0].path, comparison[0].path});
    return plan;
  }
  for (const auto& [single, several, path] :
       {std::tuple{&base, &comparison, &options.base},
        std::tuple{&comparison, &base, &options.comparison}}) {
    if (single->size() == 1 && !(*single)[0].rank.has_value()) {
      return UsageError(fmt::format("{} is one profile of unknown rank, the other path holds {}",
                                    path->string(), base::Plural(several->size(), "profile")))
          .WithHint("choose one with --base-rank or --comparison-rank");
    }
  }
  size_t left = 0;
  size_t right = 0;
  while (left < base.size() || right < comparison.size()) {
    if (right == comparison.size() ||
        (left < base.size() && *base[left].rank < *comparison[right].rank)) {
      plan.base_only.push_back(*base[left++].rank);
    } else if (left == base.size() || *comparison[right].rank < *base[left].rank) {
      plan.comparison_only.push_back(*comparison[right++].rank);
    } else {
      plan.pairs.push_back({base[left].rank, base[left].path, comparison[right].path});
      ++left;
      ++right;
    }
  }
  if (plan.pairs.empty()) {
    return MismatchError(fmt::format("{} and {} have no rank in common", options.base.string(),
                                     options.comparison.string()));
  }
  return plan;
}

// The rank's summary, and, of a single pair, the table of its times in `overall`.
Result<RankSummary> RunPair(const Options& options, const PlannedPair& pair, bool is_single,
                            const base::RunStamp& stamp, base::ThreadPool& pool,
                            std::optional<report::Table>& overall) {
  const Clock::time_point start = Clock::now();
  PairOptions compare = options.pair;
  compare.base = pair.base;
  compare.comparison = pair.comparison;
  compare.base_rank.reset();
  compare.comparison_rank.reset();
  compare.whole_texts = options.formats.csv || options.formats.json;
  MSP_ASSIGN_OR_RETURN(const PairComparison comparison, ComparePair(compare, pool));
  RankSummary summary = Summarize(comparison);
  summary.rank = is_single ? std::nullopt : pair.rank;
  summary.base_path = pair.base.string();
  summary.comparison_path = pair.comparison.string();
  for (const Gate& gate : options.gates) {
    summary.gates.push_back(Judge(gate, comparison));
  }
  MSP_ASSIGN_OR_RETURN(
      const std::vector<fs::path> files,
      WriteResultFiles(comparison, ResultStem(options.output, stamp.text(), summary.rank),
                       options.formats, pool));
  for (const fs::path& file : files) {
    summary.files.push_back(file.string());
  }
  if (is_single && comparison.base_times && comparison.comparison_times &&
      (comparison.base_times->end_to_end_s > 0 || comparison.comparison_times->end_to_end_s > 0)) {
    overall = OverallColumns(comparison);
  }
  summary.seconds = SecondsSince(start);
  return summary;
}

// The pairs; under a launcher each process takes its share, and the first one has those of all.
Status RunShare(const Options& options, const std::vector<PlannedPair>& pairs,
                base::SharedRun& shared, base::ThreadPool& pool, RunResult& run) {
  std::vector<base::WorkUnit> units;
  for (const PlannedPair& pair : pairs) {
    units.push_back(base::UnitOfFiles({pair.base, pair.comparison}));
  }
  std::vector<std::optional<RankSummary>> found;
  MSP_RETURN_IF_ERROR(shared.ShareOut(
      units,
      [&](std::span<const size_t> mine, const auto& give) -> Status {
        base::Progress progress("comparing", mine.size(), "ranks", options.quiet);
        for (const size_t place : mine) {
          const PlannedPair& pair = pairs[place];
          Result<RankSummary> summary =
              RunPair(options, pair, /*is_single=*/false, run.stamp, pool, run.overall);
          if (summary.ok()) {
            give(place, *std::move(summary));
          } else if (!base::ConcernsOneInput(summary.status()) &&
                     summary.status().code() != StatusCode::kUsage) {
            return std::move(summary).status();
          } else {
            RankSummary failed;
            failed.rank = pair.rank;
            failed.base_path = pair.base.string();
            failed.comparison_path = pair.comparison.string();
            failed.error = summary.status().message();
            give(place, std::move(failed));
          }
          progress.Add();
        }
        return {};
      },
      found));
  for (size_t place = 0; place < found.size() && run.reports; ++place) {
    if (found[place]) {
      run.summary.ranks.push_back(*std::move(found[place]));
    } else {
      run.summary.missing.push_back(*pairs[place].rank);
    }
  }
  return {};
}

}  // namespace

Result<RunResult> Run(const Options& options) {
  const Clock::time_point start = Clock::now();
  base::ThreadPool pool(options.threads);
  MSP_ASSIGN_OR_RETURN(Plan plan, PlanPairs(options.pair));
  RunResult run;
  run.reports = base::AnswersHere();
  run.summary.base_only = std::move(plan.base_only);
  run.summary.comparison_only = std::move(plan.comparison_only);
  if (plan.pairs.size() > 1) {
    MSP_ASSIGN_OR_RETURN(base::SharedRun shared,
                         base::SharedRun::Join(options.output, "perf_compare", UtcStamp()));
    MSP_ASSIGN_OR_RETURN(run.stamp, shared.TakeStamp());
    MSP_RETURN_IF_ERROR(RunShare(options, plan.pairs, shared, pool, run));
  } else if (run.reports) {
    MSP_ASSIGN_OR_RETURN(run.stamp, base::RunStamp::Take(options.output, UtcStamp()));
    MSP_ASSIGN_OR_RETURN(RankSummary summary, RunPair(options, plan.pairs[0], /*is_single=*/true,
                                                      run.stamp, pool, run.overall));
    run.summary.ranks.push_back(std::move(summary));
  }
  run.summary.seconds = SecondsSince(start);
  return run;
}

}  // namespace msprobe::analysis::perf
