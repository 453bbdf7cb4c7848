#include "src/analysis/monitor/diff/json.h"

#include "src/json/writer.h"

namespace msprobe::analysis::monitor {
namespace {

void WriteDivergence(const char* key, const std::optional<Divergence>& divergence,
                     json::Writer& json) {
  json.Key(key);
  if (!divergence.has_value()) {
    json.Null();
    return;
  }
  json.BeginObject();
  json.Member("step", divergence->step);
  json.Member("vpp_stage", static_cast<int64_t>(divergence->stage));
  json.Member("name", divergence->name);
  if (divergence->micro_step >= 0) {
    json.Member("micro_step", static_cast<int64_t>(divergence->micro_step));
  }
  if (divergence->rank >= 0) {
    json.Member("rank", static_cast<int64_t>(divergence->rank));
  }
  json.Member("a", divergence->a);
  json.Member("b", divergence->b);
  json.Member("relative", divergence->relative);
  json.EndObject();
}

}  // namespace

std::string DiffJson(const DiffOptions& options, const DiffResult& result) {
  std::string text;
  json::Writer json(text, 1, json::Writer::NonFinite::kText);
  json.BeginObject();
  json.Member("run_a", options.a.string());
  json.Member("run_b", options.b.string());
  json.Member("rtol", options.rtol);
  json.Member("atol", options.atol);
  json.Member("ranks_a", static_cast<uint64_t>(result.ranks_a));
  json.Member("ranks_b", static_cast<uint64_t>(result.ranks_b));
  json.Member("reduced", result.reduced);
  json.Member("rows_only_in_a", result.only_a);
  json.Member("rows_only_in_b", result.only_b);
  const DiffLine* const first = result.first();
  json.Key("first");
  if (first == nullptr) {
    json.Null();
  } else {
    json.BeginObject();
    json.Member("table", first->table);
    json.Member("statistic", first->op);
    WriteDivergence("at", first->first, json);
    json.EndObject();
  }
  json.Key("statistics");
  json.BeginArray();
  for (const DiffLine& line : result.lines) {
    json.BeginObject();
    json.Member("table", line.table);
    json.Member("statistic", line.op);
    json.Member("compared", line.compared);
    json.Member("divergent", line.divergent);
    json.Member("unequal", line.unequal);
    json.Member("nan_in_both", line.nan);
    WriteDivergence("first", line.first, json);
    WriteDivergence("worst", line.worst, json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("notes");
  json.BeginArray();
  for (const std::string& note : result.notes) {
    json.Text(note);
  }
  json.EndArray();
  json.EndObject();
  return text + "\n";
}

}  // namespace msprobe::analysis::monitor
