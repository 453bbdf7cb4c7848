// Tables of one run, a rank after the other -> wrong outputs in order of execution, counts, reasons
// -> the answer.
#include "src/analysis/compile_check/compile_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/report/advice.h"
#include "src/report/readers.h"
#include "src/report/table.h"

namespace msprobe::analysis::compile_check {
namespace {

namespace fs = std::filesystem;
using report::Cell;
using report::List;
using report::ListKind;

constexpr std::string_view kTableName = "compile_check.csv";
constexpr std::string_view kRankFolder = "rank";
constexpr std::string_view kGraphKernel = "graph";  // a row about outputs of a whole graph
constexpr std::string_view kScriptName = "run.py";  // of a kernel alone
constexpr size_t kShownReasons = 6;

// tools/python/msprobe/pytorch/compile_check/rows.py writes them.
enum TableColumn : size_t {
  kGraphColumn,
  kKernelColumn,
  kNodesColumn,
  kModuleColumn,
  kCodeColumn,
  kOutputColumn,
  kDtypeColumn,
  kErrorColumn,
  kBoundColumn,
  kVerdictColumn,
  kReasonColumn,
  kColumnCount
};

Output OutputOf(std::span<const Cell> row) {
  const auto text = [&row](size_t column) { return std::string(row[column].text()); };
  return {text(kGraphColumn), text(kKernelColumn),  text(kNodesColumn), text(kModuleColumn),
          text(kCodeColumn),  text(kOutputColumn),  text(kDtypeColumn), text(kErrorColumn),
          text(kBoundColumn), text(kVerdictColumn), text(kReasonColumn)};
}

// The graph, the module and the line of code: "0/0 forward, layers.0.act (model.py:12)".
std::string PlaceText(const Output& output) {
  std::string place = output.graph;
  if (!output.module.empty()) place += fmt::format(", {}", output.module);
  if (!output.code.empty()) place += fmt::format(" ({})", output.code);
  return place;
}

std::string WrongText(const Output& output) {
  const std::string place = PlaceText(output);
  const bool is_graph = output.kernel == kGraphKernel;
  if (output.error.empty()) {
    return is_graph ? fmt::format("what graph {} returns: {}", place, output.reason)
                    : fmt::format("{} of graph {}: {}", output.kernel, place, output.reason);
  }
  return is_graph ? fmt::format("what graph {} returns: {} is off by {}, the bound is {}", place,
                                output.output, output.error, output.bound)
                  : fmt::format("{} of graph {}: {} is off by {}, the bound is {}", output.kernel,
                                place, output.output, output.error, output.bound);
}

// The folder itself, and those of ranks below it in their order.
std::vector<fs::path> PartsOf(const fs::path& folder) {
  std::map<int64_t, fs::path> ranks;
  for (const std::string& name : base::NamesIn(folder)) {
    if (!name.starts_with(kRankFolder)) continue;
    const std::optional<int64_t> rank = base::ParseInt(name.substr(kRankFolder.size()));
    if (rank) ranks.emplace(*rank, folder / name);
  }
  std::vector<fs::path> parts = {folder};
  for (auto& [rank, path] : ranks) parts.push_back(std::move(path));
  return parts;
}

report::Verdict MakeVerdict(const Verdicts& verdicts) {
  report::Verdict verdict;
  verdict.number = static_cast<double>(verdicts.wrong.size());
  verdict.unit = "outputs";
  if (!verdicts.wrong.empty()) {
    verdict.Say("WRONG", WrongText(verdicts.wrong.front()), report::Tone::kBad,
                report::AnswerOutcome::kFindings);
  } else if (verdicts.right == 0) {
    verdict.Say("NOTHING CHECKED", "no result of a compiled graph was held against its operators",
                report::Tone::kCaution, report::AnswerOutcome::kNothingCompared);
  } else {
    verdict.Say("ALL RIGHT",
                fmt::format("{} of {} within the bounds of their arithmetic",
                            base::Plural(verdicts.right, "output"),
                            base::Plural(verdicts.kernels, "kernel")),
                report::Tone::kGood);
  }
  return verdict;
}

// `with_verdict`: of outputs of every kind.
report::DataTable OutputTable(const std::vector<Output>& outputs, bool with_verdict) {
  std::vector<std::string> columns = {"Graph", "Kernel", "Module", "Code",   "Output",
                                      "Dtype", "Error",  "Bound",  "Reason", "Nodes"};
  if (with_verdict) columns.insert(columns.begin(), "Verdict");
  report::Table table(with_verdict ? "outputs" : "wrong", std::move(columns));
  for (const Output& output : outputs) {
    const auto number = [&table](const std::string& text) {
      const std::optional<double> value = base::ParseDouble(text);
      return value ? Cell::Number(*value) : table.KeepText(text);
    };
    std::vector<Cell> row = {table.KeepText(output.graph),  table.KeepText(output.kernel),
                             table.KeepText(output.module), table.KeepText(output.code),
                             table.KeepText(output.output), table.KeepText(output.dtype),
                             number(output.error),          number(output.bound),
                             table.KeepText(output.reason), table.KeepText(output.nodes)};
    if (with_verdict) row.insert(row.begin(), table.KeepText(output.verdict));
    table.AddRow(std::move(row));
  }
  report::DataTable rows{std::move(table)};
  rows.names_rows = true;
  rows.digits = 3;
  return rows;
}

// Kernels of libraries are named as the generated code calls them: "extern_kernels.mm".
bool IsGenerated(const Output& output) { return output.kernel.find('.') == std::string::npos; }

void AdviseOn(const Verdicts& verdicts, report::Document& document) {
  if (!verdicts.alone.empty()) {
    document.Advise(
        report::Advice("compile_check.run", {(verdicts.alone.front() / kScriptName).string()}));
  } else if (!verdicts.wrong.empty()) {
    const Output& first = verdicts.wrong.front();
    document.Advise(first.kernel == kGraphKernel
                        ? report::Advice("compile_check.graph", {first.graph})
                    : IsGenerated(first) ? report::Advice("compile_check.generated", {first.kernel})
                                         : report::Advice("compile_check.library", {first.kernel}));
  }
}

report::PageView PageOf(const Verdicts& verdicts) {
  report::PageView page;
  page.facts = {{base::FormatCount(verdicts.right), "right"},
                {base::FormatCount(verdicts.wrong.size()), "wrong"},
                {base::FormatCount(verdicts.skipped), "not checked"},
                {base::FormatCount(verdicts.kernels), "kernels"}};
  if (!verdicts.wrong.empty()) {
    page.Add("Beyond their bounds, in order of execution", "", OutputTable(verdicts.wrong, false));
  }
  page.Add("Every output", "in order of execution", OutputTable(verdicts.all, true));
  return page;
}

}  // namespace

std::vector<fs::path> TablesIn(const fs::path& folder) {
  std::vector<fs::path> tables;
  std::error_code ignored;
  for (const fs::path& part : PartsOf(folder)) {
    if (fs::is_regular_file(part / kTableName, ignored)) tables.push_back(part / kTableName);
  }
  return tables;
}

std::vector<fs::path> KernelsAloneIn(const fs::path& folder) {
  std::vector<fs::path> kernels;
  std::error_code ignored;
  for (const fs::path& part : PartsOf(folder)) {
    for (const std::string& name : base::NamesIn(part)) {
      if (fs::is_regular_file(part / name / kScriptName, ignored)) kernels.push_back(part / name);
    }
  }
  return kernels;
}

Result<Verdicts> ReadTables(const fs::path& folder) {
  Verdicts verdicts;
  std::map<std::string, uint64_t> reasons;
  std::set<std::string> kernels;
  for (const fs::path& path : TablesIn(folder)) {
    MSP_ASSIGN_OR_RETURN(const report::Table table, report::ReadCsv(path));
    if (table.columns().size() != kColumnCount || table.columns()[kVerdictColumn] != "verdict") {
      return BadFormatError(fmt::format("{} is not a table of compile_check", path.string()));
    }
    for (size_t i = 0; i < table.row_count(); ++i) {
      const std::span<const Cell> row = table.row(i);
      const std::string_view verdict = row[kVerdictColumn].text();
      verdicts.all.push_back(OutputOf(row));
      if (verdict == "wrong") verdicts.wrong.push_back(verdicts.all.back());
      if (verdict == "right") ++verdicts.right;
      if (verdict != "right" && verdict != "wrong") {
        ++verdicts.skipped;
        ++reasons[std::string(row[kReasonColumn].text())];
      } else if (row[kKernelColumn].text() != kGraphKernel) {
        kernels.insert(fmt::format("{} {}", row[kGraphColumn].text(), row[kKernelColumn].text()));
      }
    }
    verdicts.tables.push_back(path);
  }
  verdicts.kernels = kernels.size();
  verdicts.not_checked.assign(reasons.begin(), reasons.end());
  std::stable_sort(verdicts.not_checked.begin(), verdicts.not_checked.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return verdicts;
}

report::Document MakeDocument(const Verdicts& verdicts) {
  report::Document document;
  document.command = "compile_check";
  document.verdict = MakeVerdict(verdicts);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "wrong", !verdicts.wrong.empty());
  document.warnings = verdicts.warnings;
  if (!verdicts.wrong.empty()) {
    report::Section& section = document.sections.emplace_back();
    section.title = "Beyond their bounds, in order of execution";
    section.blocks.emplace_back(OutputTable(verdicts.wrong, false));
  }
  List counts{ListKind::kFacts, {}};
  counts.items.push_back(
      {"outputs",
       fmt::format("{} right, {} wrong, {} not checked", base::FormatCount(verdicts.right),
                   base::FormatCount(verdicts.wrong.size()), base::FormatCount(verdicts.skipped))});
  counts.items.push_back({"kernels", base::FormatCount(verdicts.kernels)});
  report::Section& section = document.sections.emplace_back();
  section.title = "Counts";
  section.blocks.emplace_back(std::move(counts));
  if (!verdicts.not_checked.empty()) {
    List reasons{ListKind::kNamed, {}};
    reasons.display_limit.items = kShownReasons;
    for (const auto& [reason, count] : verdicts.not_checked) {
      reasons.items.push_back({base::Plural(count, "output"), reason});
    }
    report::Section& left_out = document.sections.emplace_back();
    left_out.title = "Not checked";
    left_out.blocks.emplace_back(std::move(reasons));
  }
  for (const fs::path& path : verdicts.tables) document.files.push_back({path});
  for (const fs::path& path : verdicts.alone) document.files.push_back({path, "a kernel alone"});
  AdviseOn(verdicts, document);
  document.page = PageOf(verdicts);
  return document;
}

}  // namespace msprobe::analysis::compile_check
