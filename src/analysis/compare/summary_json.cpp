#include "src/analysis/compare/summary_json.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "msprobe/version.h"

#include "src/analysis/compare/run_verdict.h"
#include "src/json/document.h"

namespace msprobe::analysis::compare {
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
          {"own_noise", point.own_noise},
          {"digits", point.digits},
          {"amplification", point.amplification},
          {"confidence", ConfidenceName(point.confidence)},
          {"reason", point.reason},
          {"wrong_side", opinion ? Json(WrongSideName(opinion->side)) : Json()},
          {"wrong_side_reason", opinion ? Json(opinion->reason) : Json()},
          {"stack", point.stack}};
}

Json ToJson(const std::optional<DivergencePoint>& point) { return point ? ToJson(*point) : Json(); }

Json CountsJson(const RowCounts& counts) {
  Json verdicts = Json::object();
  for (size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    verdicts[std::string(VerdictKey(verdict))] = counts.by_verdict[verdict];
  }
  return {{"rows", counts.rows},
          {"matched", counts.matched},
          {"npu_only", counts.npu_only},
          {"bench_only", counts.bench_only},
          {"other_level", counts.other_level},
          {"shape_mismatch", counts.shape_mismatch},
          {"dtype_mismatch", counts.dtype_mismatch},
          {"identical", counts.identical},
          {"agreeing", counts.agreeing},
          {"drifting", counts.drifting},
          {"differing", counts.differing},
          {"not_compared", counts.not_compared},
          {"unreadable", counts.unreadable},
          {"red", counts.red},
          {"yellow", counts.yellow},
          {"failing", counts.failing},
          {"suspicious", counts.suspicious},
          {"verdicts", std::move(verdicts)}};
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

Json ToJson(const PairSummary& pair) {
  Json json = {{"name", PairName(pair)},
               {"verdict", PairVerdictName(VerdictOf(pair))},
               {"error", pair.error.empty() ? Json() : Json(pair.error)},
               {"hint", NothingComparedHint(pair)},
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
