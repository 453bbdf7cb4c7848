#include "src/analysis/nan/result_files.h"

#include <chrono>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::analysis::nan {
namespace {

namespace fs = std::filesystem;
using json::Writer;

// The members of the entry that say what went in and what came out; empty ones where it has none.
void PutData(Writer& json, const Finding& finding) {
  const auto put = [&](std::string_view key, bool is_list) {
    json.Key(key);
    const bool has_members =
        finding.entry.size() > 0 && finding.entry[0].kind == dump::NodeKind::kObject;
    const uint32_t at = has_members ? finding.entry.Find(0, key) : dump::EntryTree::kNone;
    if (at != dump::EntryTree::kNone) {
      json::WriteTree(finding.entry, at, json);
    } else if (is_list) {
      json.BeginArray();
      json.EndArray();
    } else {
      json.BeginObject();
      json.EndObject();
    }
  };
  json.BeginObject();
  if (finding.name.find("forward") != std::string::npos) {
    put("input_args", true);
    put("input_kwargs", false);
  } else {
    put("input", true);
  }
  put("output", false);
  json.EndObject();
}

void PutFinding(Writer& json, const Finding& finding) {
  json.Member("op_name", finding.name);
  json.Key("data_info");
  PutData(json, finding);
  json.Member("construct_info", finding.modules);
  if (finding.stack.empty()) {
    json.Key("stack_info");
    json.BeginObject();
    json.EndObject();
  } else {
    json.Member("stack_info", finding.stack);
  }
}

int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void PutOperator(Writer& json, const StepAnswer& answer, const Consequence& consequence) {
  const RankDump& rank = answer.ranks[consequence.rank_place];
  const Operator& at = rank.operators[consequence.operator_place];
  json.BeginObject();
  json.Member("rank", rank.rank);
  json.Member("op_name", at.name);
  json.Member("index", uint64_t{at.index});
  json.Member("output", BadValuesText(at.output));
  json.EndObject();
}

void PutChain(Writer& json, const StepAnswer& answer) {
  json.Key("chain");
  json.BeginArray();
  for (const Arrival& arrival : answer.propagation.chain) {
    const RankDump& from = answer.ranks[arrival.from_rank];
    const RankDump& to = answer.ranks[arrival.to_rank];
    json.BeginObject();
    json.Member("clock", arrival.clock);
    json.Member("from_rank", from.rank);
    json.Member("from_op", from.operators[arrival.from_operator].name);
    json.Member("to_rank", to.rank);
    json.Member("to_op", to.operators[arrival.to_operator].name);
    json.EndObject();
  }
  json.EndArray();
  for (const auto& [key, list] : {std::pair{"consequences", &answer.propagation.consequences},
                                  std::pair{"first_bad_gradients", &answer.propagation.backward}}) {
    json.Key(key);
    json.BeginArray();
    for (const Consequence& consequence : *list) {
      PutOperator(json, answer, consequence);
    }
    json.EndArray();
  }
}

}  // namespace

std::string AnomalyJson(const StepAnswer& answer) {
  std::string text;
  Writer json(text, 2);
  json.BeginObject();
  for (const RankDump& rank : answer.ranks) {
    bool is_open = false;
    for (const Finding& finding : answer.findings) {
      if (finding.rank != rank.rank || !finding.reported) {
        continue;
      }
      if (!is_open) {
        json.Key(fmt::format("rank_{}", rank.rank));
        json.BeginArray();
        is_open = true;
      }
      json.BeginObject();
      PutFinding(json, finding);
      if (IsWeak(finding.kind)) {
        json.Member("origin_kind", OriginKindName(finding.kind));
      }
      json.EndObject();
    }
    if (is_open) {
      json.EndArray();
    }
  }
  json.EndObject();
  return text;
}

std::string AnswerJson(const Answer& whole, int exit_code) {
  const StepAnswer& answer = whole.step;
  std::string text;
  Writer json(text, 2, Writer::NonFinite::kText);
  json.BeginObject();
  json.Member("outcome", OutcomeName(answer.outcome));
  json.Member("exit_code", exit_code);
  json.Member("folder", answer.folder.string());
  json.Key("step");
  if (answer.step) {
    json.Int(*answer.step);
  } else {
    json.Null();
  }
  json.Member("good_steps", whole.good_steps);
  json.Key("origins");
  json.BeginArray();
  for (const Finding& finding : answer.findings) {
    json.BeginObject();
    json.Member("rank", finding.rank);
    json.Member("kind", OriginKindName(finding.kind));
    json.Member("made", BadValuesText(finding.made));
    json.Member("reported", finding.reported);
    json.Member("index", finding.index);
    json.Member("clock", finding.clock);
    json.Member("note", finding.note);
    PutFinding(json, finding);
    json.Member("forward_stack_info", finding.forward_stack);
    json.EndObject();
  }
  json.EndArray();
  json.Member("origin_count",
              uint64_t{answer.outcome == Outcome::kFound ? answer.search.origins.size()
                                                         : answer.search.weak.size()});
  PutChain(json, answer);
  json.Key("ranks");
  json.BeginArray();
  for (size_t place = 0; place < answer.ranks.size(); ++place) {
    const RankDump& rank = answer.ranks[place];
    json.BeginObject();
    json.Member("rank", rank.rank);
    json.Member("operators", rank.operator_count);
    json.Member("truncated", rank.truncated);
    json.Key("bad_from_clock");
    if (answer.search.bad_from[place]) {
      json.Int(*answer.search.bad_from[place]);
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Member("matched_communications", answer.search.matched_events);
  json.Member("unmatched_calls", answer.search.unmatched_calls);
  json.Key("device_overflows");
  json.BeginArray();
  for (const overflow::Overflow& noted : answer.device.overflows) {
    json.BeginObject();
    json.Member("op_type", noted.op_type);
    json.Member("op_name", noted.op_name);
    json.Member("stream_id", noted.stream_id);
    json.Member("task_id", noted.task_id);
    json.Member("call", noted.call ? noted.call->name : std::string());
    json.Member("code", noted.call ? noted.call->code_line : std::string());
    json.Member("record", noted.record.string());
    json.EndObject();
  }
  json.EndArray();
  json.Member("warnings", answer.warnings);
  json.Key("files");
  json.BeginArray();
  for (const fs::path& file : answer.files) {
    json.Text(file.string());
  }
  json.EndArray();
  json.EndObject();
  text += '\n';
  return text;
}

Status WriteResultFiles(const Options& options, StepAnswer& answer) {
  const int64_t stamp = Nanoseconds();
  const auto write = [&](std::string_view stem, std::string_view ending,
                         const std::string& text) -> Status {
    MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
    const fs::path path = options.output / fmt::format("{}_{}{}", stem, stamp, ending);
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(path, text));
    answer.files.push_back(path);
    return {};
  };
  if (answer.outcome == Outcome::kFound || answer.outcome == Outcome::kEntered) {
    MSP_RETURN_IF_ERROR(write("anomaly_analyze", ".json", AnomalyJson(answer)));
    if (options.graph) {
      MSP_RETURN_IF_ERROR(write("anomaly_graph", ".json",
                                GraphJson(answer.ranks, answer.reported, answer.propagation)));
      MSP_RETURN_IF_ERROR(write("anomaly_graph", ".mmd",
                                GraphMermaid(answer.ranks, answer.reported, answer.propagation)));
    }
  }
  if (options.levels && !answer.levels.findings.empty()) {
    MSP_RETURN_IF_ERROR(write("anomaly_levels", ".json", LevelsJson(answer.levels)));
  }
  return {};
}

}  // namespace msprobe::analysis::nan
