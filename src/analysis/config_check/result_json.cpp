#include "src/analysis/config_check/result_json.h"

#include "src/json/writer.h"

namespace msprobe::analysis::config_check {
namespace {

void PutCell(json::Writer& json, const report::Cell& cell) {
  switch (cell.kind()) {
    case report::CellKind::kEmpty:
      json.Null();
      break;
    case report::CellKind::kText:
      json.Text(cell.text());
      break;
    case report::CellKind::kInteger:
      json.Int(cell.integer());
      break;
    case report::CellKind::kNumber:
      json.Float(cell.number());
      break;
    case report::CellKind::kBoolean:
      json.Bool(cell.boolean());
      break;
  }
}

void PutCheck(json::Writer& json, const CheckResult& check) {
  json.BeginObject();
  json.Member("check", PartName(check.part));
  json.Member("pass_check", check.passed);
  json.Member("errors", static_cast<uint64_t>(check.errors));
  json.Member("warnings", static_cast<uint64_t>(check.warnings));
  json.Key("rows");
  json.BeginArray();
  const std::vector<std::string>& columns = check.table.columns();
  for (size_t row = 0; row < check.table.row_count(); ++row) {
    json.BeginObject();
    for (size_t column = 0; column < columns.size(); ++column) {
      json.Key(columns[column]);
      PutCell(json, check.table.row(row)[column]);
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

void PutFinding(json::Writer& json, const Finding& finding) {
  json.BeginObject();
  json.Member("level", SeverityName(finding.severity));
  json.Member("check", PartName(finding));
  json.Member("what", finding.what);
  json.Key("examples");
  json.BeginArray();
  for (const std::string& example : finding.examples) {
    json.Text(example);
  }
  json.EndArray();
  json.Member("why", finding.why);
  json.Member("fix", finding.fix);
  json.EndObject();
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kSameButNan:
      return "same_but_nan";
    case Verdict::kWarnings:
      return "warnings";
    case Verdict::kDifferent:
      return "different";
    case Verdict::kNothingCompared:
      return "nothing_compared";
  }
  return "";
}

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "";
}

std::string ResultJson(const CompareOptions& options, const CompareRun& run) {
  std::string text;
  json::Writer json(text, 1, json::Writer::NonFinite::kText);
  json.BeginObject();
  json.Member("bench", options.bench_pack.string());
  json.Member("cmp", options.cmp_pack.string());
  json.Member("verdict", VerdictName(VerdictOf(run)));
  json.Key("findings");
  json.BeginArray();
  for (const Finding& finding : run.findings) {
    PutFinding(json, finding);
  }
  json.EndArray();
  json.Key("gaps");
  json.BeginArray();
  for (const std::string& gap : run.gaps) {
    json.Text(gap);
  }
  json.EndArray();
  json.Key("checks");
  json.BeginArray();
  for (const CheckResult& check : run.checks) {
    PutCheck(json, check);
  }
  json.EndArray();
  json.EndObject();
  text += '\n';
  return text;
}

}  // namespace msprobe::analysis::config_check
