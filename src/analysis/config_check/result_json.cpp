#include "src/analysis/config_check/result_json.h"

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/json/document.h"
#include "src/report/cell_document.h"

namespace msprobe::analysis::config_check {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const CheckResult& check) {
  Json rows = Json::array();
  const std::vector<std::string>& columns = check.table.columns();
  for (size_t row = 0; row < check.table.row_count(); ++row) {
    Json& cells = rows.emplace_back(Json::object());
    for (size_t column = 0; column < columns.size(); ++column) {
      cells.emplace(columns[column], report::CellDocument(check.table.row(row)[column]));
    }
  }
  return {{"check", PartName(check.part)},
          {"pass_check", check.passed},
          {"errors", check.errors},
          {"warnings", check.warnings},
          {"rows", std::move(rows)}};
}

Json ToJson(const Finding& finding) {
  return {{"level", SeverityName(finding.severity)},
          {"check", PartName(finding)},
          {"what", finding.what},
          {"examples", finding.examples},
          {"why", finding.why},
          {"fix", finding.fix}};
}

}  // namespace

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kSameInPart:
      return "same_in_part";
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
  Json findings = Json::array();
  for (const Finding& finding : run.findings) {
    findings.push_back(ToJson(finding));
  }
  Json checks = Json::array();
  for (const CheckResult& check : run.checks) {
    checks.push_back(ToJson(check));
  }
  const Json json = {{"bench", options.bench_pack.string()},
                     {"cmp", options.cmp_pack.string()},
                     {"verdict", VerdictName(VerdictOf(run))},
                     {"findings", std::move(findings)},
                     {"gaps", run.gaps},
                     {"checks", std::move(checks)}};
  return json::DocumentText(json, 1, json::Writer::NonFinite::kText) + '\n';
}

}  // namespace msprobe::analysis::config_check
