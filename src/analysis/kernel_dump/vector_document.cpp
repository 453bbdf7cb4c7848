#include "src/analysis/kernel_dump/vector_document.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::kernel_dump {
namespace {

using base::Plural;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefRows = 20;

std::string MeasuresText(const VectorMeasures& measures) {
  return fmt::format(
      "cosine {}, largest difference {}, mean relative {}", MeasureText(measures, Measure::kCosine),
      MeasureText(measures, Measure::kMaxAbsolute), MeasureText(measures, Measure::kMeanRelative));
}

// What --fail-on may ask about, and the case of the JUnit report.
void Judge(const std::string& name, bool differs, report::Document& document) {
  report::TestCase test;
  test.name = name;
  if (document.verdict.standing != Standing::kClean) {
    test.outcome = report::CaseOutcome::kFailed;
    test.level = kVectorGateLevels[0].word;
    test.type = document.verdict.word;
    test.message = document.verdict.text;
  }
  document.cases.push_back(std::move(test));
  document.levels = report::OutcomesOf(kVectorGateLevels);
  report::SetFound(document.levels, kVectorGateLevels[0].word, differs);
}

report::Verdict MakeVerdict(const VectorFindings& findings) {
  report::Verdict verdict;
  verdict.unit = "tensors";
  verdict.number = static_cast<double>(findings.compared());
  const std::string rest = findings.failed() == 0 ? ""
                                                  : fmt::format("; {} could not be compared",
                                                                Plural(findings.failed(), "row"));
  if (std::none_of(findings.rows.begin(), findings.rows.end(), [](const VectorRow& row) {
        return row.measures && row.measures->elements > 0;
      })) {
    verdict.word = "NOTHING COMPARED";
    verdict.text =
        fmt::format("NOTHING COMPARED: no two tensors with elements could be compared{}", rest);
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kNothingCompared;
    return verdict;
  }
  if (const VectorRow* bad = findings.FirstBad(); bad != nullptr) {
    verdict.word = "DIFFERENT";
    verdict.text = fmt::format("DIFFERENT: it starts with {} ({}){}", base::Printable(bad->tensor),
                               base::Printable(bad->op_type), rest);
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
    return verdict;
  }
  verdict.word = findings.failed() == 0 ? "AGREE" : "AGREE IN PART";
  verdict.text = fmt::format("{}: {} of {} within the limits of every measure{}", verdict.word,
                             Plural(findings.compared(), "tensor"),
                             Plural(findings.operators, "operator"), rest);
  verdict.tone = findings.failed() == 0 ? Tone::kGood : Tone::kCaution;
  verdict.standing = findings.failed() == 0 ? Standing::kClean : Standing::kFindings;
  return verdict;
}

}  // namespace

report::Document MakeDocument(const VectorFindings& findings) {
  report::Document document;
  document.command = "msaccucmp compare";
  document.verdict = MakeVerdict(findings);
  List far{ListKind::kNamed, {}, {kBriefRows}};
  List failed{ListKind::kNamed, {}, {kBriefRows}};
  for (const VectorRow& row : findings.rows) {
    if (row.measures && !IsGood(*row.measures)) {
      far.items.push_back({base::Printable(row.tensor), MeasuresText(*row.measures), Tone::kBad});
    } else if (!row.measures) {
      const std::string& name =
          !row.tensor.empty() ? row.tensor
                              : (row.mine.op_name == "*" ? row.golden.op_name : row.mine.op_name);
      failed.items.push_back(
          {base::Printable(name), base::Printable(row.status.message()), Tone::kCaution});
    }
  }
  for (auto& [title, list] : {std::pair("Beyond the limits, in the order in which they ran", &far),
                              std::pair("Not compared", &failed)}) {
    if (!list->items.empty()) {
      Section section{title, {}};
      section.blocks.emplace_back(std::move(*list));
      document.sections.push_back(std::move(section));
    }
  }
  Judge("kernels", findings.FirstBad() != nullptr || findings.failed() > 0, document);
  document.files.push_back({findings.table});
  document.deed = "compared";
  return document;
}

report::Document MakeDocument(const FileComparison& comparison) {
  report::Document document;
  document.command = "msaccucmp file_compare";
  const VectorMeasures& measures = comparison.measures;
  const std::string names = base::Printable(
      fmt::format("{} and {}", comparison.mine.string(), comparison.golden.string()));
  const bool compared = comparison.status.ok() && measures.elements > 0;
  const bool good = compared && IsGood(measures);
  document.verdict.word = !compared ? "NOTHING COMPARED" : good ? "AGREE" : "DIFFERENT";
  document.verdict.text =
      compared ? fmt::format("{}: {} of {}", document.verdict.word,
                             Plural(measures.elements, "element"), names)
               : fmt::format("NOTHING COMPARED: {}",
                             comparison.status.ok() ? names + " have no elements"
                                                    : base::Printable(comparison.status.message()));
  document.verdict.unit = "elements";
  document.verdict.number = static_cast<double>(measures.elements);
  document.verdict.tone = good ? Tone::kGood : Tone::kBad;
  document.verdict.standing = !compared ? Standing::kNothingCompared
                              : good    ? Standing::kClean
                                        : Standing::kFindings;
  if (compared) {
    Section section;
    List list{ListKind::kAligned, {}};
    for (const Measure measure : kFileMeasures) {
      list.items.push_back({std::string(MeasureName(measure)), MeasureText(measures, measure)});
    }
    section.blocks.emplace_back(std::move(list));
    document.sections.push_back(std::move(section));
  }
  Judge(names, compared && !good, document);
  if (!comparison.file.empty()) {
    document.files.push_back({comparison.file});
  }
  document.deed = "compared";
  return document;
}

report::Document MakeDocument(const ElementReportOptions& options, const ElementReport& report) {
  report::Document document;
  document.command = "msaccucmp compare";
  document.verdict.unit = "elements";
  document.verdict.number = static_cast<double>(report.elements);
  const bool differs = report.most_absolute != 0;  // NaN differs
  document.verdict.word = report.elements == 0 ? "NOTHING COMPARED"
                          : differs            ? "DIFFERENT"
                                               : "EQUAL";
  document.verdict.text = fmt::format(
      "{}: {} of {} {} of {}, largest difference {:.6g}, relative {:.6g}", document.verdict.word,
      Plural(report.elements, "element"), options.is_input ? "input" : "output", options.number,
      base::Printable(options.op_name), report.most_absolute, report.most_relative);
  document.verdict.tone = report.elements > 0 && !differs ? Tone::kGood : Tone::kCaution;
  document.verdict.standing = report.elements == 0 ? Standing::kNothingCompared
                              : differs            ? Standing::kFindings
                                                   : Standing::kClean;
  for (const auto& [title, elements] :
       {std::pair("Farthest by difference", &report.by_absolute),
        std::pair("Farthest by relative difference", &report.by_relative)}) {
    report::Table table("elements",
                        {"Index", "NPUDump", "GroundTruth", "AbsoluteError", "RelativeError"});
    for (const ElementDifference& element : *elements) {
      table.AddRow(std::vector<report::Cell>{
          report::Cell::Integer(static_cast<int64_t>(element.index)),
          report::Cell::Number(element.mine), report::Cell::Number(element.golden),
          report::Cell::Number(element.absolute),
          element.golden == 0 ? report::Cell::Text("-") : report::Cell::Number(element.relative)});
    }
    if (table.row_count() > 0) {
      Section section{title, {}};
      section.blocks.emplace_back(report::DataTable{std::move(table)});
      document.sections.push_back(std::move(section));
    }
  }
  Judge(options.op_name, differs, document);
  for (const std::filesystem::path& file : report.files) {
    document.files.push_back({file});
  }
  document.deed = "compared";
  return document;
}

}  // namespace msprobe::analysis::kernel_dump
