#include "src/analysis/perf/summary_json.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/json/document.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::perf {
namespace {

using json::ValueKind;
using json::ValueTree;
using Json = nlohmann::ordered_json;

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
void VisitMembers(UnownedTime& unowned, Visit&& visit) {
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

void Take(const ValueTree& tree, uint32_t at, std::optional<int64_t>& number) {
  if (tree[at].kind == ValueKind::kInt) {
    number = tree[at].integer;
  }
}
void Take(const ValueTree& tree, uint32_t at, double& number) { number = tree[at].number; }
void Take(const ValueTree& tree, uint32_t at, int64_t& number) { number = tree[at].integer; }
void Take(const ValueTree& tree, uint32_t at, bool& value) { value = tree[at].boolean; }
void Take(const ValueTree& tree, uint32_t at, std::string& text) { text = tree[at].text; }

template <typename Item>
void Take(const ValueTree& tree, uint32_t at, std::vector<Item>& items);

template <typename Structure>
requires std::is_class_v<Structure>
void Take(const ValueTree& tree, uint32_t at, Structure& structure) {
  if (tree[at].kind != ValueKind::kObject) {
    return;
  }
  VisitMembers(structure, [&](std::string_view key, auto& member) {
    if (const uint32_t child = tree.Find(at, key); child != ValueTree::kNone) {
      Take(tree, child, member);
    }
  });
}

template <typename Item>
void Take(const ValueTree& tree, uint32_t at, std::vector<Item>& items) {
  if (tree[at].kind != ValueKind::kList) {
    return;
  }
  tree.ForEachChild(at, [&](uint32_t child) { Take(tree, child, items.emplace_back()); });
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

// By the reader of dumps: a path that is no UTF-8 stands there as half surrogate pairs.
Result<std::vector<RankSummary>> ParseRanks(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const ValueTree tree, json::ParseValueTree(text));
  if (tree.size() == 0 || tree[0].kind != ValueKind::kObject) {
    return BadFormatError("a summary is a JSON object");
  }
  const uint32_t list = tree.Find(0, "ranks");
  if (list == ValueTree::kNone || tree[list].kind != ValueKind::kList) {
    return BadFormatError("a summary has a list of ranks");
  }
  std::vector<RankSummary> ranks;
  Take(tree, list, ranks);
  return ranks;
}

Result<std::filesystem::path> WriteSummary(const Options& options, const RunResult& run,
                                           int exit_code) {
  return base::WriteSummary(options.output, run.stamp, SummaryJson(run.summary, exit_code));
}

}  // namespace msprobe::analysis::perf
