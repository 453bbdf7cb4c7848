#include "src/analysis/compare/summary_json.h"

#include "msprobe/version.h"

#include "src/analysis/compare/run_verdict.h"
#include "src/json/writer.h"

namespace msprobe::analysis {
namespace {

using json::Writer;

constexpr int kSchemaVersion = 1;

// Keys of RowCounts::by_verdict; the table's empty verdict (statistics: nothing to complain about)
// needs a name here.
std::string_view VerdictKey(size_t verdict) {
  const std::string_view text = VerdictText(static_cast<Verdict>(verdict));
  return text.empty() ? "unremarkable" : text;
}

}  // namespace

void PutNumber(Writer& writer, std::string_view key, const std::optional<int64_t>& value) {
  writer.Key(key);
  if (value) {
    writer.Int(*value);
  } else {
    writer.Null();
  }
}

void PutCounts(Writer& writer, std::string_view key, const RowCounts& counts) {
  writer.Key(key);
  writer.BeginObject();
  writer.Member("rows", counts.rows);
  writer.Member("matched", counts.matched);
  writer.Member("npu_only", counts.npu_only);
  writer.Member("bench_only", counts.bench_only);
  writer.Member("shape_mismatch", counts.shape_mismatch);
  writer.Member("dtype_mismatch", counts.dtype_mismatch);
  writer.Member("identical", counts.identical);
  writer.Member("agreeing", counts.agreeing);
  writer.Member("drifting", counts.drifting);
  writer.Member("differing", counts.differing);
  writer.Member("not_compared", counts.not_compared);
  writer.Member("red", counts.red);
  writer.Member("yellow", counts.yellow);
  writer.Key("verdicts");
  writer.BeginObject();
  for (size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    writer.Member(VerdictKey(verdict), counts.by_verdict[verdict]);
  }
  writer.EndObject();
  writer.EndObject();
}

namespace {

void PutPoint(Writer& writer, const DivergencePoint& point) {
  writer.BeginObject();
  writer.Member("kind", OriginKindName(point.kind));
  writer.Member("call", point.entry_name);
  writer.Member("row", point.row_name);
  writer.Member("layer", point.layer);
  writer.Member("parent_module", point.parent_module);
  writer.Member("code", point.code_line);
  writer.Member("note", point.note);
  writer.Member("from_other_rank", point.from_other_rank);
  writer.Member("is_saved_value", point.is_saved_value);
  writer.Member("input_error", point.input_error);
  writer.Member("output_error", point.output_error);
  writer.Member("explained_error", point.explained_error);
  writer.Member("amplification", point.amplification);
  writer.Member("confidence", ConfidenceName(point.confidence));
  writer.Member("reason", point.reason);
  writer.Member("stack", point.stack);
  writer.EndObject();
}

void PutPoint(Writer& writer, std::string_view key, const std::optional<DivergencePoint>& point) {
  writer.Key(key);
  if (point) {
    PutPoint(writer, *point);
  } else {
    writer.Null();
  }
}

}  // namespace

void PutDivergence(Writer& writer, const DivergenceReport& report) {
  writer.Key("calls");
  writer.BeginObject();
  writer.Member("compared", report.compared_entry_count);
  writer.Member("identical", report.identical_entry_count);
  writer.Member("agreeing", report.agreeing_entry_count);
  writer.Member("diverging", report.diverging_entry_count);
  writer.EndObject();
  PutPoint(writer, "first_divergence", report.first_origin);
  writer.Key("first_by_kind");
  writer.BeginObject();
  for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
    PutPoint(writer, OriginKindName(static_cast<OriginKind>(kind)), report.first_of_kind[kind]);
  }
  writer.EndObject();
  PutPoint(writer, "first_drift", report.first_drift);
  PutPoint(writer, "first_unequal_bits", report.first_unequal_bits);
  writer.Key("amplifiers");
  writer.BeginArray();
  for (const DivergencePoint& point : report.amplifiers) {
    PutPoint(writer, point);
  }
  writer.EndArray();
}

namespace {

void PutPair(Writer& writer, const PairSummary& pair) {
  writer.BeginObject();
  writer.Member("name", PairName(pair));
  writer.Member("verdict", PairVerdictName(VerdictOf(pair)));
  writer.Key("error");
  if (pair.error.empty()) {
    writer.Null();
  } else {
    writer.Text(pair.error);
  }
  writer.Member("hint", NothingComparedHint(pair));
  writer.Member("npu_path", pair.npu_path);
  writer.Member("bench_path", pair.bench_path);
  PutNumber(writer, "step", pair.step);
  PutNumber(writer, "rank", pair.rank);
  writer.Member("is_debug", pair.is_debug);
  writer.Member("task", pair.task);
  writer.Member("level", pair.level);
  writer.Member("npu_framework", pair.npu_framework);
  writer.Member("bench_framework", pair.bench_framework);
  writer.Member("mode", CompareModeName(pair.mode));
  PutCounts(writer, "counts", pair.counts);
  writer.Member("compared_bytes", pair.compared_bytes);
  PutDivergence(writer, pair.divergence);
  writer.Key("files");
  writer.BeginArray();
  for (const std::filesystem::path& file : pair.files) {
    writer.Text(file.string());
  }
  writer.EndArray();
  writer.Key("timings");
  writer.BeginObject();
  writer.Member("load_seconds", pair.timings.load_seconds);
  writer.Member("compare_seconds", pair.timings.compare_seconds);
  writer.Member("write_seconds", pair.timings.write_seconds);
  writer.EndObject();
  writer.EndObject();
}

}  // namespace

std::string SummaryJson(const RunSummary& summary, int exit_code) {
  std::string text;
  Writer writer(text, 1, Writer::NonFinite::kNull);
  writer.BeginObject();
  writer.Member("schema_version", kSchemaVersion);
  writer.Member("tool", "msprobe");
  writer.Member("version", MSPROBE_VERSION);
  writer.Member("command", "compare");
  writer.Member("exit_code", exit_code);
  writer.Member("verdict", PairVerdictName(VerdictOf(summary)));
  writer.Member("seconds", summary.seconds);
  writer.Member("threads", static_cast<uint64_t>(summary.threads));
  PutCounts(writer, "totals", summary.totals);
  writer.Member("failed_pairs", summary.failed_pairs);
  const auto put_index = [&](std::string_view key, const std::optional<size_t>& index) {
    PutNumber(writer, key,
              index ? std::optional<int64_t>(static_cast<int64_t>(*index)) : std::nullopt);
  };
  put_index("worst_pair", summary.worst_pair);
  put_index("first_divergence_pair", LeadingPair(summary));
  writer.Member("npu_only", summary.npu_only);
  writer.Member("bench_only", summary.bench_only);
  writer.Key("pairs");
  writer.BeginArray();
  for (const PairSummary& pair : summary.pairs) {
    PutPair(writer, pair);
  }
  writer.EndArray();
  writer.EndObject();
  text += '\n';
  return text;
}

}  // namespace msprobe::analysis
