// Sums up a comparison.
//
// Every row of a pair has a status (identical, within noise, differing, on one side only, ...),
// and the counts by status decide the verdict of the pair: the worst status that occurs, in the
// order of PairVerdict. The worst pair decides the verdict of the run. A dump pair keeps counts,
// origins and amplifiers as texts, so that its rows can be released before the next pair is
// compared. summary.json is written from the same structs as the screen, the page and the JUnit
// report.
#include "src/analysis/compare/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/relation.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/json/document.h"

namespace msprobe::analysis::compare {
namespace {

struct RowCountName {
  const char* key;  // in summary.json and the page
  uint64_t RowCounts::*member;
};
constexpr RowCountName kRowCounts[] = {{"rows", &RowCounts::rows},
                                       {"matched", &RowCounts::matched},
                                       {"npu_only", &RowCounts::npu_only},
                                       {"bench_only", &RowCounts::bench_only},
                                       {"other_level", &RowCounts::other_level},
                                       {"shape_mismatch", &RowCounts::shape_mismatch},
                                       {"dtype_mismatch", &RowCounts::dtype_mismatch},
                                       {"identical", &RowCounts::identical},
                                       {"agreeing", &RowCounts::agreeing},
                                       {"drifting", &RowCounts::drifting},
                                       {"differing", &RowCounts::differing},
                                       {"not_compared", &RowCounts::not_compared},
                                       {"unreadable", &RowCounts::unreadable},
                                       {"red", &RowCounts::red},
                                       {"yellow", &RowCounts::yellow},
                                       {"failing", &RowCounts::failing},
                                       {"suspicious", &RowCounts::suspicious}};

std::string FrameworkName(Framework framework) {
  switch (framework) {
    case Framework::kPyTorch:
      return "pytorch";
    case Framework::kMindSpore:
      return "mindspore";
    case Framework::kUnknown:
      break;
  }
  return "";
}

constexpr std::array<std::string_view, 3> kNonFiniteTexts = {"inf", "-inf", "nan"};

bool IsNonFinite(const StatValue& value) {
  return value.kind == StatKind::kText ? base::IsOneOf(value.text(), kNonFiniteTexts)
                                       : value.is_numeric() && !std::isfinite(value.number);
}

// Infinities and NaNs among the statistics, the same ones on both sides.
bool SharesNonFinite(const SideRow& npu, const SideRow& bench) {
  bool any = false;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const StatValue& n = npu.stats[stat];
    const StatValue& b = bench.stats[stat];
    if (!IsNonFinite(n) && !IsNonFinite(b)) {
      continue;
    }
    const bool same = n.kind == b.kind &&
                      (n.kind == StatKind::kText ? n.text() == b.text()
                                                 : n.number == b.number || (std::isnan(n.number) &&
                                                                            std::isnan(b.number)));
    if (!same) {
      return false;
    }
    any = true;
  }
  return any;
}

RowCounts CountRows(const Side& npu, const Side& bench, const PairFindings& findings) {
  RowCounts counts;
  counts.rows = findings.result.rows.size();
  counts.bench_only = findings.result.bench_only_count;
  const SharedKinds kinds = SharedKindsOf(npu, bench);
  const auto is_recorded_by_both = [&](const RowResult& row) {
    return kinds.HasAll() ||
           kinds.Has(dump::ParseEntryName(npu.entries[npu.rows[row.pair.npu].entry].name));
  };
  counts.shape_mismatch = findings.result.shape_mismatch_count;
  counts.dtype_mismatch = findings.result.dtype_mismatch_count;
  counts.unreadable = findings.result.unreadable_count;
  for (size_t i = 0; i < findings.result.rows.size(); ++i) {
    const RowResult& row = findings.result.rows[i];
    counts.red += row.fill == report::Fill::kRed ? 1 : 0;
    counts.yellow += row.fill == report::Fill::kYellow ? 1 : 0;
    ++counts.by_verdict[static_cast<size_t>(row.verdict)];
    if (row.pair.bench == kNoRow && !is_recorded_by_both(row)) {
      ++counts.other_level;
      continue;
    }
    const RowConcern concern = ConcernOf(npu, bench, row, findings.divergence.rows[i]);
    counts.failing += concern == RowConcern::kError ? 1 : 0;
    counts.suspicious += concern == RowConcern::kWarning ? 1 : 0;
    if (row.pair.bench == kNoRow) {
      counts.npu_only += row.pair.outcome == MatchOutcome::kNoBenchRow ? 1 : 0;
      continue;
    }
    ++counts.matched;
    switch (findings.divergence.rows[i]) {
      case RowStatus::kNotCompared:
        ++counts.not_compared;
        break;
      case RowStatus::kIdentical:
        ++counts.identical;
        ++counts.agreeing;
        break;
      case RowStatus::kAgrees:
        ++counts.agreeing;
        break;
      case RowStatus::kDrifts:
        ++counts.drifting;
        break;
      case RowStatus::kDiffers:
        ++counts.differing;
        break;
    }
  }
  return counts;
}

}  // namespace

RowConcern ConcernOf(const Side& npu, const Side& bench, const RowResult& row, RowStatus standing) {
  const bool is_error = row.fill == report::Fill::kRed || row.verdict == Verdict::kNo ||
                        row.verdict == Verdict::kDifferent || row.verdict == Verdict::kUnmatched ||
                        row.distance.nonfinite_differs;
  // The rows of both sides are asked last: they are far away.
  if (standing == RowStatus::kIdentical ||
      !(is_error || row.fill == report::Fill::kYellow || row.verdict == Verdict::kWarning) ||
      (row.pair.bench != kNoRow && standing <= RowStatus::kAgrees &&
       SharesNonFinite(npu.rows[row.pair.npu], bench.rows[row.pair.bench]))) {
    return RowConcern::kNone;
  }
  return is_error ? RowConcern::kError : RowConcern::kWarning;
}

void RowCounts::Add(const RowCounts& other) {
  for (const RowCountName& count : kRowCounts) {
    this->*count.member += other.*count.member;
  }
  for (size_t i = 0; i < kVerdictCount; ++i) {
    by_verdict[i] += other.by_verdict[i];
  }
}

PairSummary SummarizePair(const PlannedPair& plan, const Side& npu, const Side& bench,
                          const PairFindings& findings) {
  PairSummary summary;
  summary.npu_path = npu.json_path.string();
  summary.bench_path = bench.json_path.string();
  summary.step = plan.input.step;
  summary.rank = plan.input.rank;
  summary.is_debug = plan.is_debug;
  summary.task = npu.header.task.value_or("");
  summary.level = npu.header.level.value_or("");
  summary.bench_level = bench.header.level.value_or("");
  summary.npu_framework = FrameworkName(npu.framework);
  summary.bench_framework = FrameworkName(bench.framework);
  if (plan.layout) {
    summary.npu_layout = plan.layout->npu_facts;
    summary.bench_layout = plan.layout->bench_facts;
  }
  summary.mode = findings.result.mode;
  summary.counts = CountRows(npu, bench, findings);
  summary.compared_bytes = findings.result.compared_bytes;
  summary.divergence = findings.divergence;
  summary.is_joined = !findings.result.relations.empty();
  summary.timings = findings.timings;
  return summary;
}

void FinishSummary(RunSummary& summary) {
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    const PairSummary& pair = summary.pairs[i];
    summary.totals.Add(pair.counts);
    summary.failed_pairs += pair.error.empty() ? 0 : 1;
    const uint64_t worst =
        summary.worst_pair ? summary.pairs[*summary.worst_pair].counts.differing : 0;
    if (pair.counts.differing > worst) {
      summary.worst_pair = i;
    }
  }
}

bool MostlyUnmatched(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  const uint64_t compared = counts.agreeing + counts.drifting + counts.differing;
  return VerdictOf(pair) == PairVerdict::kNothingCompared || counts.npu_only > compared ||
         counts.bench_only > compared;
}

namespace {

struct VerdictName {
  std::string_view name;
  VerdictLook look;
};

constexpr std::array<VerdictName, kPairVerdictCount> kVerdictNames = {{
    {"identical", {"IDENTICAL", report::Tone::kGood}},
    {"agree", {"AGREE", report::Tone::kGood}},
    {"not bit-equal", {"NOT BIT-EQUAL", report::Tone::kCaution}},
    {"unmatched", {"AGREE IN PART", report::Tone::kCaution}},
    {"unreadable", {"AGREE IN PART", report::Tone::kCaution}},
    {"nothing compared", {"NOTHING COMPARED", report::Tone::kBad}},
    {"drift", {"DRIFT", report::Tone::kCaution}},
    {"differ", {"DIFFERENT", report::Tone::kBad}},
    {"failed", {"FAILED", report::Tone::kBad}},
}};

}  // namespace

std::string_view PairVerdictName(PairVerdict verdict) {
  return kVerdictNames[static_cast<size_t>(verdict)].name;
}

std::optional<PairVerdict> PairVerdictByName(std::string_view name) {
  for (size_t i = 0; i < kPairVerdictCount; ++i) {
    if (kVerdictNames[i].name == name) {
      return static_cast<PairVerdict>(i);
    }
  }
  return std::nullopt;
}

VerdictLook LookOf(std::optional<PairVerdict> verdict) {
  return verdict ? kVerdictNames[static_cast<size_t>(*verdict)].look
                 : VerdictLook{"NOT COMPARED", report::Tone::kPlain};
}

PairVerdict VerdictOf(const PairSummary& pair) {
  const RowCounts& counts = pair.counts;
  if (!pair.error.empty()) {
    return PairVerdict::kFailed;
  }
  if (pair.divergence.first_origin || counts.differing > 0) {
    return PairVerdict::kDiffers;
  }
  if (counts.drifting > 0) {
    return PairVerdict::kDrifts;
  }
  if (counts.agreeing == 0) {
    return PairVerdict::kNothingCompared;
  }
  if (counts.unreadable > 0) {
    return PairVerdict::kUnreadable;
  }
  if (counts.npu_only + counts.bench_only + counts.shape_mismatch + counts.dtype_mismatch > 0) {
    return PairVerdict::kUnmatched;
  }
  if (counts.identical == counts.agreeing) {
    return PairVerdict::kIdentical;
  }
  return pair.mode == CompareMode::kMd5 ? PairVerdict::kUnequalBits : PairVerdict::kAgrees;
}

PairVerdict VerdictOf(const RunSummary& summary) {
  if (summary.pairs.empty()) {
    return PairVerdict::kNothingCompared;
  }
  PairVerdict worst = summary.npu_only.empty() && summary.bench_only.empty()
                          ? PairVerdict::kIdentical
                          : PairVerdict::kUnmatched;
  for (const PairSummary& pair : summary.pairs) {
    worst = std::max(worst, VerdictOf(pair));
  }
  return worst;
}

report::Advice NothingComparedHint(const PairSummary& pair) {
  using report::Advice;
  if (VerdictOf(pair) != PairVerdict::kNothingCompared) {
    return {};
  }
  const RowCounts& counts = pair.counts;
  if (counts.rows == 0) {
    return Advice("compare.no_rows");
  }
  if (counts.matched > 0) {
    return Advice("compare.no_values");
  }
  if (counts.shape_mismatch + counts.dtype_mismatch > 0 && counts.npu_only == 0) {
    return Advice("compare.other_shapes");
  }
  const auto takes_one_kind = [](const std::string& level) {
    return level == "L0" || level == "L1";
  };
  if (pair.level != pair.bench_level && takes_one_kind(pair.level) &&
      takes_one_kind(pair.bench_level)) {
    return Advice("compare.other_levels", {pair.level, pair.bench_level});
  }
  return Advice(pair.npu_framework != pair.bench_framework ? "compare.other_frameworks"
                                                           : "compare.no_common_name");
}

std::string PairName(const PairSummary& pair) {
  std::string name;
  if (pair.step) {
    name = fmt::format("step{}", *pair.step);
  }
  if (pair.rank) {
    name += fmt::format("{}rank{}", name.empty() ? "" : "/", *pair.rank);
  }
  if (name.empty()) {
    name = std::filesystem::path(pair.npu_path).filename().string();
  } else if (pair.is_debug) {
    name += " (debug)";
  }
  return name;
}

std::string PointPlace(const DivergencePoint& point) {
  // A module's own entry names its layer; an input is one of that entry.
  if (point.layer.empty() || (point.kind == OriginKind::kInput && point.parent_module.empty())) {
    return point.entry_name;
  }
  if (point.kind == OriginKind::kParameter || point.kind == OriginKind::kOptimizer ||
      point.parent_module.empty()) {
    return point.layer;
  }
  return fmt::format("{} in {}", point.entry_name, point.layer);
}

std::string PointTitle(const DivergencePoint& point) {
  switch (point.kind) {
    case OriginKind::kParameter:
      return fmt::format("a parameter of {}", PointPlace(point));
    case OriginKind::kInput: {
      if (point.from_other_rank) {
        return fmt::format("data from another rank in {}", PointPlace(point));
      }
      const std::string_view argument = point.argument
                                            ? point.argument->name
                                            : dump::ArgumentOf(point.entry_name, point.row_name);
      return fmt::format("{} of {}", argument.empty() ? "a value" : argument, PointPlace(point));
    }
    case OriginKind::kOptimizer:
      return fmt::format("the optimizer's update of a parameter of {}", PointPlace(point));
    case OriginKind::kDType:
      return fmt::format("another dtype in {}", PointPlace(point));
    case OriginKind::kUnmatchedCall:
      return fmt::format("the call {}, {}", point.entry_name, point.note);
    case OriginKind::kReplica: {
      const std::string_view argument = dump::ArgumentOf(point.entry_name, point.row_name);
      return fmt::format("replicas of {} of {} that are not equal",
                         argument.empty() ? "a value" : argument, PointPlace(point));
    }
    case OriginKind::kComputation:
      break;
  }
  return fmt::format("{} {}", point.is_saved_value ? "the saved value" : "the computation of",
                     PointPlace(point));
}

std::string PointSentence(const DivergencePoint& point, bool is_joined) {
  if (!point.relation || !point.relation->is_telling()) {
    return fmt::format("it starts with {}", PointTitle(point));
  }
  const Relation& relation = *point.relation;
  const std::string subject = relation.subject.empty() ? point.row_name : relation.subject;
  const std::string ranks = !point.ranks.empty() ? " on " + RanksText(point.ranks)
                            : is_joined          ? " on all ranks"
                                                 : "";
  return relation.cause.empty()
             ? fmt::format("{} is {} the reference{}", subject, relation.what, ranks)
             : fmt::format("{} is {} the reference{} ({})", subject, relation.what, ranks,
                           relation.cause);
}

std::optional<size_t> LeadingPair(const RunSummary& summary) {
  std::optional<size_t> leading;
  const auto rank_of = [&](size_t index) {
    const PairSummary& pair = summary.pairs[index];
    const DivergencePoint& origin = *pair.divergence.first_origin;
    return std::tuple(pair.step.value_or(0), origin.from_other_rank,
                      UINT64_MAX - pair.counts.differing);
  };
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    if (summary.pairs[i].divergence.first_origin && (!leading || rank_of(i) < rank_of(*leading))) {
      leading = i;
    }
  }
  return leading;
}

std::vector<PairGroup> GroupPairs(const RunSummary& summary) {
  // What pairs of a group share; of one that failed the reason.
  using Key = std::tuple<std::optional<int64_t>, bool, PairVerdict, std::string>;
  std::map<Key, PairGroup> groups;
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    const PairSummary& pair = summary.pairs[i];
    const std::optional<DivergencePoint>& origin = pair.divergence.first_origin;
    groups[{pair.step, pair.is_debug, VerdictOf(pair), origin ? PointTitle(*origin) : pair.error}]
        .pairs.push_back(i);
  }
  std::vector<std::pair<std::tuple<PairVerdict, uint64_t>, PairGroup>> ordered;
  for (auto& [key, group] : groups) {
    uint64_t most = 0;
    for (const size_t pair : group.pairs) {
      most = std::max(most, summary.pairs[pair].counts.differing);
    }
    ordered.emplace_back(std::tuple(std::get<PairVerdict>(key), most), std::move(group));
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.pairs.front() < b.second.pairs.front();
  });
  std::vector<PairGroup> sorted;
  for (auto& [order, group] : ordered) {
    sorted.push_back(std::move(group));
  }
  return sorted;
}

std::string GroupName(const RunSummary& summary, const PairGroup& group) {
  std::vector<int64_t> ranks;
  for (const size_t pair : group.pairs) {
    if (summary.pairs[pair].rank) {
      ranks.push_back(*summary.pairs[pair].rank);
    }
  }
  const PairSummary& first = summary.pairs[group.pairs.front()];
  if (ranks.size() < group.pairs.size() || ranks.size() == 1) {
    return group.pairs.size() == 1
               ? PairName(first)
               : fmt::format("{} and {} more", PairName(first), group.pairs.size() - 1);
  }
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("{}{}{}", first.step ? fmt::format("step{}/", *first.step) : "",
                     RanksText(ranks), first.is_debug ? " (debug)" : "");
}

std::vector<size_t> LeadingPairs(const RunSummary& summary) {
  constexpr size_t kMostGroups = 16;
  std::vector<size_t> leading;
  for (const PairGroup& group : GroupPairs(summary)) {
    const PairVerdict verdict = VerdictOf(summary.pairs[group.pairs.front()]);
    if (verdict > PairVerdict::kAgrees && verdict != PairVerdict::kFailed &&
        leading.size() < kMostGroups) {
      leading.push_back(group.pairs.front());
    }
  }
  return leading;
}

std::string ErrorText(double error) {
  return std::isfinite(error) ? fmt::format("{:.1e}", error) : std::string("not finite");
}

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

// Keys of RowCounts::by_verdict; the table's empty verdict (statistics: nothing to complain about)
// needs a name here.
std::string_view VerdictKey(size_t verdict) {
  const std::string_view text = VerdictText(static_cast<Verdict>(verdict));
  return text.empty() ? "unremarkable" : text;
}

Json PathTexts(const std::vector<std::filesystem::path>& paths) {
  Json texts = Json::array();
  for (const std::filesystem::path& path : paths) {
    texts.push_back(path.string());
  }
  return texts;
}

Json RelationJson(const std::optional<Relation>& relation) {
  return relation ? Json{{"kind", RelationKindName(relation->kind)},
                         {"factor", relation->factor ? Json(*relation->factor) : Json()},
                         {"text", relation->text()}}
                  : Json();
}

Json ToJson(const DivergencePoint& point) {
  const std::optional<SideOpinion>& opinion = point.wrong_side;
  return {{"kind", OriginKindName(point.kind)},
          {"call", point.entry_name},
          {"row", point.row_name},
          {"layer", point.layer},
          {"parent_module", point.parent_module},
          {"code", point.code_line},
          {"note", point.note},
          {"argument", point.argument ? Json{{"name", point.argument->name},
                                             {"npu", point.argument->npu},
                                             {"bench", point.argument->bench}}
                                      : Json()},
          {"from_other_rank", point.from_other_rank},
          {"is_saved_value", point.is_saved_value},
          {"input_error", point.input_error},
          {"output_error", point.output_error},
          {"explained_error", point.explained_error},
          {"own_noise", point.noise_floor},
          {"digits", point.digits},
          {"amplification", point.amplification},
          {"confidence", ConfidenceName(point.confidence)},
          {"reason", point.reason},
          {"wrong_side", opinion ? Json(WrongSideName(opinion->side)) : Json()},
          {"wrong_side_reason", opinion ? Json(opinion->reason) : Json()},
          {"relation", RelationJson(point.relation)},
          {"ranks", point.ranks},
          {"stack", point.stack}};
}

Json ToJson(const std::optional<DivergencePoint>& point) { return point ? ToJson(*point) : Json(); }

Json CountsJson(const RowCounts& counts) {
  Json verdicts = Json::object();
  for (size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    verdicts[std::string(VerdictKey(verdict))] = counts.by_verdict[verdict];
  }
  Json json = Json::object();
  for (const RowCountName& count : kRowCounts) {
    json[count.key] = counts.*count.member;
  }
  json["verdicts"] = std::move(verdicts);
  return json;
}

Json DivergenceJson(const DivergenceReport& report) {
  Json first_by_kind = Json::object();
  for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
    first_by_kind[std::string(OriginKindName(static_cast<OriginKind>(kind)))] =
        ToJson(report.first_of_kind[kind]);
  }
  Json amplifiers = Json::array();
  for (const DivergencePoint& point : report.amplifiers) {
    amplifiers.push_back(ToJson(point));
  }
  return {{"calls",
           {{"compared", report.compared_entry_count},
            {"identical", report.identical_entry_count},
            {"agreeing", report.agreeing_entry_count},
            {"diverging", report.diverging_entry_count}}},
          {"first_divergence", ToJson(report.first_origin)},
          {"first_by_kind", std::move(first_by_kind)},
          {"first_drift", ToJson(report.first_drift)},
          {"first_unequal_bits", ToJson(report.first_unequal_bits)},
          {"amplifiers", std::move(amplifiers)}};
}

Json ToJson(const LayoutFacts& facts) {
  Json json = {{"ranks", facts.ranks},        {"tp", facts.tensor},
               {"pp", facts.pipeline},        {"dp", facts.data},
               {"cp", facts.context},         {"ep", facts.expert},
               {"fsdp", facts.fully_sharded}, {"source", LayoutSourceName(facts.source)}};
  if (facts.gradient_factor != 1) {
    json["gradient_factor"] = facts.gradient_factor;
  }
  return json;
}

// A pair without a plan of layouts is one rank that has all.
Json LayoutJson(const PairSummary& pair) {
  LayoutFacts alone;
  alone.ranks = {pair.rank.value_or(0)};
  return {{"npu", ToJson(pair.npu_layout.value_or(alone))},
          {"bench", ToJson(pair.bench_layout.value_or(alone))}};
}

Json ToJson(const PairSummary& pair) {
  Json json = {{"name", PairName(pair)},
               {"verdict", PairVerdictName(VerdictOf(pair))},
               {"error", pair.error.empty() ? Json() : Json(pair.error)},
               {"hint", report::AdviceText(NothingComparedHint(pair))},
               {"npu_path", pair.npu_path},
               {"bench_path", pair.bench_path},
               {"step", json::NumberOrNull(pair.step)},
               {"rank", json::NumberOrNull(pair.rank)},
               {"is_debug", pair.is_debug},
               {"task", pair.task},
               {"level", pair.level},
               {"bench_level", pair.bench_level},
               {"npu_framework", pair.npu_framework},
               {"bench_framework", pair.bench_framework},
               {"layout", LayoutJson(pair)},
               {"mode", CompareModeName(pair.mode)},
               {"counts", CountsJson(pair.counts)},
               {"compared_bytes", pair.compared_bytes}};
  json.update(DivergenceJson(pair.divergence));
  json["files"] = PathTexts(pair.files);
  json["timings"] = {{"load_seconds", pair.timings.load_seconds},
                     {"compare_seconds", pair.timings.compare_seconds},
                     {"write_seconds", pair.timings.write_seconds}};
  return json;
}

Json IndexOrNull(const std::optional<size_t>& index) { return index ? Json(*index) : Json(); }

}  // namespace

void PutNumber(json::Writer& writer, std::string_view key, const std::optional<int64_t>& value) {
  writer.Key(key);
  json::WriteDocument(json::NumberOrNull(value), writer);
}

void PutCounts(json::Writer& writer, std::string_view key, const RowCounts& counts) {
  writer.Key(key);
  json::WriteDocument(CountsJson(counts), writer);
}

void PutDivergence(json::Writer& writer, const DivergenceReport& report) {
  json::WriteMembers(DivergenceJson(report), writer);
}

std::string SummaryJson(const RunSummary& summary, int exit_code) {
  Json pairs = Json::array();
  for (const PairSummary& pair : summary.pairs) {
    pairs.push_back(ToJson(pair));
  }
  const Json json = {{"schema_version", kSchemaVersion},
                     {"tool", "msprobe"},
                     {"version", MSPROBE_VERSION},
                     {"command", "compare"},
                     {"command_line", report::ThisRun().command_line},
                     {"exit_code", exit_code},
                     {"verdict", PairVerdictName(VerdictOf(summary))},
                     {"seconds", summary.seconds},
                     {"threads", summary.threads},
                     {"totals", CountsJson(summary.totals)},
                     {"failed_pairs", summary.failed_pairs},
                     {"worst_pair", IndexOrNull(summary.worst_pair)},
                     {"first_divergence_pair", IndexOrNull(LeadingPair(summary))},
                     {"npu_only", summary.npu_only},
                     {"bench_only", summary.bench_only},
                     {"pairs", std::move(pairs)}};
  return json::DocumentText(json, 1, json::Writer::NonFinite::kNull) + '\n';
}

}  // namespace msprobe::analysis::compare
