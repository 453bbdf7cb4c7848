#include "src/analysis/config_check/result_json.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/document.h"
#include "src/analysis/config_check/parameters.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/json/document.h"
#include "src/report/advice.h"
#include "src/report/cell_document.h"
#include "src/report/writers.h"
#include "src/report/xlsx_writer.h"

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

namespace {

// The folder of a comparison: bench/, cmp/, result.xlsx, result.json. Everything else in it is
// somebody else's and stays.

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kPackFolders = {"bench", "cmp"};
constexpr std::string_view kWorkbook = "result.xlsx";
constexpr std::string_view kJsonFile = "result.json";
constexpr std::string_view kPage = "result.html";  // written by the command

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

// The same; an error where it cannot be determined.
Result<bool> IsThere(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::none) {
    return IoError(fmt::format("cannot look at {}: {}", path.string(), error.message()))
        .WithHint("name another folder with -o");
  }
  return type != fs::file_type::not_found;
}

// The first thing in a pack's folder that no pack holds; empty when it is an extracted pack.
std::string FindForeign(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) {
    return folder.string();
  }
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().lexically_relative(folder).string();
    const fs::file_type type = at->symlink_status(error).type();
    const bool known =
        type == fs::file_type::directory ? IsPackMember(name + "/") : IsPackMember(name);
    if (!known || (type != fs::file_type::directory && type != fs::file_type::regular)) {
      return at->path().string();
    }
  }
  return error ? folder.string() : std::string();
}

Status MoveInto(const fs::path& from, const fs::path& target) {
  std::error_code error;
  if (Exists(target)) {
    fs::remove_all(target, error);
    if (error) {
      return IoError(fmt::format("cannot remove {}: {}", target.string(), error.message()));
    }
  }
  fs::rename(from, target, error);
  if (error) {
    return IoError(fmt::format("cannot create {}: {}", target.string(), error.message()));
  }
  return {};
}

report::Table SummaryTable(const CompareRun& run) {
  report::Table table("summary", {"filename", "pass_check"});
  for (const CheckResult& check : run.checks) {
    const std::array<report::Cell, 2> cells = {report::Cell::Text(PartName(check.part)),
                                               report::Cell::Boolean(check.passed)};
    table.AddRow(cells);
  }
  return table;
}

// A sheet of 1,048,576 rows or more becomes NAME_part_0, NAME_part_1, ... of equal size.
void AppendSheet(const report::Table& table, std::deque<report::Table>& parts,
                 std::vector<const report::Table*>& sheets) {
  if (table.row_count() <= report::kMaxSheetRows) {
    sheets.push_back(&table);
    return;
  }
  for (report::Table& part : report::SplitIntoParts(table, report::kMaxSheetRows)) {
    sheets.push_back(&parts.emplace_back(std::move(part)));
  }
}

Status WriteWorkbook(const fs::path& path, const CompareRun& run) {
  const report::Table summary = SummaryTable(run);
  std::deque<report::Table> parts;
  std::vector<const report::Table*> sheets = {&summary};
  for (const CheckResult& check : run.checks) {
    AppendSheet(check.table, parts, sheets);
  }
  report::XlsxOptions options;
  options.styled_header = true;
  base::ThreadPool pool(1);
  return report::WriteXlsx(path, sheets, options, pool);
}

// Whether the results may be written there; touches nothing. An earlier result needs --force, and
// a bench/ or cmp/ that holds anything but extracted packs is refused even then.
Status CheckResultFolder(const CompareOptions& options) {
  const fs::path& folder = options.output_folder;
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  MSP_ASSIGN_OR_RETURN(const bool exists, IsThere(folder));
  if (!exists) {
    return {};
  }
  std::string earlier;
  for (const std::string_view name :
       {kPackFolders[0], kPackFolders[1], kWorkbook, kJsonFile, kPage}) {
    MSP_ASSIGN_OR_RETURN(const bool is_there, IsThere(folder / name));
    if (is_there) {
      earlier += fmt::format("{}{}", earlier.empty() ? "" : ", ", name);
    }
  }
  if (!earlier.empty() && base::ExistingFiles() == base::Existing::kRefuse) {
    return UsageError(fmt::format("{} already holds {}", folder.string(), earlier))
        .WithHint("--force replaces them and nothing else; or choose another folder with -o");
  }
  for (const std::string_view name : kPackFolders) {
    MSP_ASSIGN_OR_RETURN(const bool is_there, IsThere(folder / name));
    if (!is_there) {
      continue;
    }
    if (const std::string foreign = FindForeign(folder / name); !foreign.empty()) {
      return UsageError(fmt::format("{} is not a result of config_check: {} would be deleted",
                                    (folder / name).string(), base::Printable(foreign)))
          .WithHint("name another folder with -o");
    }
  }
  for (const std::string_view name : {kWorkbook, kJsonFile, kPage}) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(folder / name));
  }
  return {};
}

// Extracts both packs and writes the results, sets `files` of `run`. Everything is made in
// `staging`, inside of run.output_folder, so that a failure leaves the folder as it was.
Status WriteResultFolder(const CompareOptions& options, const PackPair& packs,
                         const base::StagingFolder& staging, CompareRun& run) {
  std::error_code error;
  const fs::path& folder = run.output_folder;
  MSP_RETURN_IF_ERROR(packs.bench.Extract(staging.path() / kPackFolders[0]));
  MSP_RETURN_IF_ERROR(packs.cmp.Extract(staging.path() / kPackFolders[1]));
  if (options.write_xlsx) {
    run.files.push_back(folder / kWorkbook);
    MSP_RETURN_IF_ERROR(WriteWorkbook(staging.path() / kWorkbook, run));
  }
  if (options.write_json) {
    run.files.push_back(folder / kJsonFile);
    MSP_RETURN_IF_ERROR(
        base::WriteFileAtomically(staging.path() / kJsonFile, ResultJson(options, run)));
  }
  for (const std::string_view name :
       {kPackFolders[0], kPackFolders[1], kWorkbook, kJsonFile, kPage}) {
    if (Exists(staging.path() / name)) {
      MSP_RETURN_IF_ERROR(MoveInto(staging.path() / name, folder / name));
    } else if (Exists(folder / name)) {
      fs::remove(folder / name, error);  // a result of the earlier run would contradict this one
    }
  }
  return {};
}

using json::Json;

Result<CheckResult> RunCheck(Part part, const PackPair& packs, const CheckOptions& options) {
  switch (part) {
    case Part::kEnv:
      return CheckEnv(packs, options);
    case Part::kPip:
      return CheckPip(packs, options);
    case Part::kDataset:
      return CheckDataset(packs);
    case Part::kWeights:
      return CheckWeights(packs);
    case Part::kHyperparameters:
      return CheckHyperparameters(packs);
    case Part::kRandom:
      return CheckRandom(packs);
  }
  return InternalError("no such check");
}

void AddGap(const Pack& has, const Pack& lacks, std::string_view what,
            std::vector<std::string>& gaps) {
  gaps.push_back(fmt::format("{}: only in {}, not compared (missing in {})", what, has.label(),
                             lacks.label()));
}

// What the standard sheets leave out without a word.
std::vector<std::string> FindGaps(const PackPair& packs) {
  std::vector<std::string> gaps;
  const Pack* const sides[] = {&packs.bench, &packs.cmp};
  for (const Part part : kParts) {
    for (size_t side = 0; side < 2; ++side) {
      if (sides[side]->Has(part) && !sides[1 - side]->Has(part)) {
        AddGap(*sides[side], *sides[1 - side], PartName(part), gaps);
      }
    }
  }
  if (packs.bench.Has(Part::kHyperparameters) && packs.cmp.Has(Part::kHyperparameters)) {
    for (size_t side = 0; side < 2; ++side) {
      for (const std::string_view member : sides[side]->MembersBelow("hyperparameters/")) {
        if (!sides[1 - side]->HasMember(member)) {
          AddGap(*sides[side], *sides[1 - side], base::Printable(member), gaps);
        }
      }
    }
  }
  for (const Part part : {Part::kDataset, Part::kWeights}) {
    if (!packs.bench.Has(part) || !packs.cmp.Has(part)) {
      continue;
    }
    const std::string_view file = part == Part::kDataset ? "dataset.json" : "";
    const StepFiles files[] = {FindStepFiles(packs.bench, part, file),
                               FindStepFiles(packs.cmp, part, file)};
    for (size_t side = 0; side < 2; ++side) {
      const std::string missing = OnlyIn(files[side].files, files[1 - side].files);
      if (!missing.empty()) {
        AddGap(*sides[side], *sides[1 - side], fmt::format("{} of {}", PartName(part), missing),
               gaps);
      }
    }
  }
  return gaps;
}

// Software that is not a Python package: CANN, drivers. The Python tool writes no such member.
Status CompareVersions(const PackPair& packs, std::vector<Finding>& findings) {
  if (!packs.bench.HasMember(kVersionsMember) || !packs.cmp.HasMember(kVersionsMember)) {
    return {};
  }
  MSP_ASSIGN_OR_RETURN(const Json bench, packs.bench.ReadJsonObject(kVersionsMember));
  MSP_ASSIGN_OR_RETURN(const Json cmp, packs.cmp.ReadJsonObject(kVersionsMember));
  const Members bench_members(bench);
  const Members cmp_members(cmp);
  Finding finding;
  finding.severity = Severity::kWarning;
  for (const Members::Member& member : bench_members) {
    const Json* const other = cmp_members.Find(member.key);
    // Where the interpreter lies says nothing about what it computes.
    if (member.key != "python_path" && other != nullptr && !PythonEqual(*member.value, *other)) {
      AddExample(finding,
                 fmt::format("{}: {} / {}", Shown(member.key), Shown(json::PythonStr(*other)),
                             Shown(json::PythonStr(*member.value))));
    }
  }
  if (!finding.examples.empty()) {
    finding.what = "versions of the stack below the packages differ (not in the workbook)";
    finding.why = report::AdviceText("config_check.other_release");
    finding.fix = report::AdviceText("config_check.same_release");
    findings.push_back(std::move(finding));
  }
  return {};
}

// Wrong data or weights explain everything behind them; a version rarely explains anything.
size_t Importance(const Finding& finding) {
  if (!finding.part || finding.consequence) {
    return kParts.size();
  }
  switch (*finding.part) {
    case Part::kWeights:
      return 0;
    case Part::kDataset:
      return 1;
    case Part::kHyperparameters:
      return 2;
    case Part::kRandom:
      return 3;
    case Part::kEnv:
      return 4;
    case Part::kPip:
      return 5;
  }
  return kParts.size();
}

void AddForeign(const Pack& pack, std::vector<Finding>& findings) {
  if (pack.foreign_member_count() > 0) {
    Finding finding;
    finding.severity = Severity::kNote;
    finding.what = fmt::format("{}: {} member{} of the zip skipped: not part of a pack",
                               pack.label(), base::FormatCount(pack.foreign_member_count()),
                               pack.foreign_member_count() == 1 ? "" : "s");
    findings.push_back(std::move(finding));
  }
}

// A script, a config or a folder of them in the place of a pack, collected into one. Files of a
// folder that cannot be read are left out, and counted as not compared.
Result<fs::path> CollectSide(const CompareOptions& options, const fs::path& input, bool inputs_only,
                             const fs::path& pack, CompareRun& run) {
  CollectOptions collect;
  const bool is_folder = base::IsFolder(input);
  collect.inputs = is_folder ? CollectableFiles(input) : std::vector<fs::path>{input};
  collect.output = pack;
  collect.python = options.python;
  collect.compat = options.check.compat;
  collect.inputs_only = inputs_only;
  MSP_ASSIGN_OR_RETURN(const CollectSummary summary, Run(collect));
  const bool any_read = std::any_of(summary.inputs.begin(), summary.inputs.end(),
                                    [](const CollectedInput& one) { return one.problem.empty(); });
  if (!summary.complete && !(is_folder && any_read)) {
    return BadFormatError(summary.inputs[0].problem.empty() ? summary.warnings.at(0)
                                                            : summary.inputs[0].problem)
        .WithHint(
            "a side is a pack, a script (.sh, .py), a config (.yaml, .yml, .json) or a folder of "
            "them");
  }
  run.warnings.insert(run.warnings.end(), summary.warnings.begin(), summary.warnings.end());
  for (const CollectedInput& one : summary.inputs) {
    if (is_folder && !one.problem.empty()) {
      run.missing.push_back(fmt::format("{} (cannot be read)", base::Printable(one.path.string())));
      run.gate_needs_missing = true;  // what it says may differ
    }
  }
  return pack;
}

// Checks that had nothing to compare. Hyperparameters always belong to an experiment; data, weights
// and the rest only where a side has them.
void FindMissing(const PackPair& packs, CompareRun& run) {
  for (const Part part : kParts) {
    const auto check = std::find_if(run.checks.begin(), run.checks.end(),
                                    [part](const CheckResult& done) { return done.part == part; });
    // An environment without variables is one in which everything has its default.
    if (check != run.checks.end() &&
        (check->compared || (part == Part::kEnv && !run.sides_are_scripts))) {
      ++run.compared_checks;
      continue;
    }
    const bool in_bench = packs.bench.Has(part);
    const bool in_cmp = packs.cmp.Has(part);
    if (!in_bench && !in_cmp && part != Part::kHyperparameters) {
      continue;
    }
    if (part == Part::kEnv && in_bench && in_cmp && run.sides_are_scripts) {
      continue;  // neither sets a variable
    }
    run.missing.push_back(fmt::format(
        "{} ({})", PartName(part),
        !in_bench && !in_cmp   ? "in neither pack"
        : !in_bench || !in_cmp ? fmt::format("none in the {}", in_bench ? "test" : "reference")
                               : "nothing on both sides"));
    // Somebody has looked for them.
    run.gate_needs_missing =
        run.gate_needs_missing || (part == Part::kHyperparameters && (in_bench || in_cmp));
  }
}

}  // namespace

Result<CompareRun> Run(const CompareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CompareRun run;
  run.output_folder = options.output_folder.lexically_normal();  // files are reported as it was
  base::StagingFolder staging(run.output_folder);
  fs::path paths[] = {options.bench_pack, options.cmp_pack};
  const bool collects[] = {IsCollectable(paths[0]), IsCollectable(paths[1])};
  // Two scripts say what they say; what else there is here is the same for both.
  run.sides_are_scripts = collects[0] && collects[1];
  for (size_t side = 0; side < 2; ++side) {
    if (!collects[side]) {
      MSP_RETURN_IF_ERROR(Pack::Open(paths[side], side == 0 ? "reference" : "test").status());
    }
  }
  if (collects[0] || collects[1]) {
    MSP_RETURN_IF_ERROR(CheckResultFolder(options));
    MSP_RETURN_IF_ERROR(staging.Create());
    for (size_t side = 0; side < 2; ++side) {
      if (collects[side]) {
        MSP_ASSIGN_OR_RETURN(
            paths[side], CollectSide(options, paths[side], run.sides_are_scripts,
                                     staging.path() / (side == 0 ? "bench.zip" : "cmp.zip"), run));
      }
    }
  }
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pack> bench, Pack::Open(paths[0], "reference"));
  MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Pack> cmp, Pack::Open(paths[1], "test"));
  MSP_RETURN_IF_ERROR(CheckResultFolder(options));
  const PackPair packs = {*bench, *cmp};
  for (const Part part : kParts) {
    if (!bench->Has(part) || !cmp->Has(part)) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(CheckResult check, RunCheck(part, packs, options.check));
    for (Finding& finding : check.findings) {
      run.findings.push_back(std::move(finding));
    }
    check.findings.clear();
    run.checks.push_back(std::move(check));
  }
  MSP_RETURN_IF_ERROR(CompareVersions(packs, run.findings));
  AddForeign(*bench, run.findings);
  AddForeign(*cmp, run.findings);
  std::stable_sort(
      run.findings.begin(), run.findings.end(), [](const Finding& a, const Finding& b) {
        return a.severity != b.severity ? a.severity < b.severity : Importance(a) < Importance(b);
      });
  run.gaps = FindGaps(packs);
  for (const CheckResult& check : run.checks) {
    if ((check.part == Part::kDataset || check.part == Part::kWeights) && !check.compared) {
      run.gaps.push_back(
          fmt::format("{}: nothing compared, no name of a step and rank is on both "
                      "sides",
                      PartName(check.part)));
    }
  }
  FindMissing(packs, run);
  if (run.sides_are_scripts) {
    run.missing.emplace_back("pip (scripts do not tell: collect packs with -d)");
  }
  if (!collects[0] && !collects[1]) {
    MSP_RETURN_IF_ERROR(staging.Create());
  }
  MSP_RETURN_IF_ERROR(WriteResultFolder(options, packs, staging, run));
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace msprobe::analysis::config_check
