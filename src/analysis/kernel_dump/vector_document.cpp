#include "src/analysis/kernel_dump/vector_document.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "src/analysis/kernel_dump/vector_compare.h"
#include "src/analysis/kernel_dump/vector_side.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/kernels/element_pairs.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr std::string_view kHeader =
    "Index,N C H W,NPUDump,GroundTruth,AbsoluteError,RelativeError\n";
constexpr size_t kLeastCoordinates = 4;  // a tensor of fewer axes has zeros behind
constexpr size_t kFlushBytes = size_t{1} << 20U;

Result<VectorOperator> LastOf(const std::filesystem::path& side, const std::string& name) {
  MSP_ASSIGN_OR_RETURN(std::vector<VectorOperator> operators, FindVectorOperators(side));
  const auto last = std::find_if(operators.rbegin(), operators.rend(),
                                 [&](const VectorOperator& op) { return op.name == name; });
  if (last == operators.rend()) {
    return NotFoundError(fmt::format("{} has no operator \"{}\"", side.string(), name))
        .WithHint("the second field of a dump's name is the name of its operator");
  }
  return std::move(*last);
}

std::string CoordinatesText(uint64_t index, const Shape& shape) {
  std::vector<uint64_t> places(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<uint64_t>(shape[axis]);
    places[axis] = index % extent;
    index /= extent;
  }
  places.resize(std::max(places.size(), kLeastCoordinates));
  return fmt::format("{}", fmt::join(places, " "));
}

// Behind every number a tab, as the vendor's tool has it: spreadsheets then keep all digits.
void AppendLine(const ElementDifference& element, const Shape& shape, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{},{},{:.6f}\t,{:.6f}\t,{:.6f}\t,", element.index,
                 CoordinatesText(element.index, shape), element.mine, element.golden,
                 element.absolute);
  if (element.golden == 0) {
    out += "-\n";
  } else {
    fmt::format_to(std::back_inserter(out), "{:.6f}\t\n", element.relative);
  }
}

// The farthest elements of a walk; of equally far ones the first. NaN is farthest.
class Farthest {
 public:
  Farthest(size_t most, double ElementDifference::*distance) : most_(most), distance_(distance) {}

  void Add(const ElementDifference& element) {
    if (elements_.size() == most_ && !Before(element, elements_.front())) {
      return;
    }
    const auto before = [this](const auto& a, const auto& b) { return Before(a, b); };
    if (elements_.size() == most_) {
      std::pop_heap(elements_.begin(), elements_.end(), before);
      elements_.pop_back();
    }
    elements_.push_back(element);
    std::push_heap(elements_.begin(), elements_.end(), before);
  }

  std::vector<ElementDifference> Take() {
    std::sort(elements_.begin(), elements_.end(),
              [this](const auto& a, const auto& b) { return Before(a, b); });
    return std::move(elements_);
  }

 private:
  double KeyOf(const ElementDifference& element) const {
    const double distance = element.*distance_;
    return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
  }
  bool Before(const ElementDifference& a, const ElementDifference& b) const {
    return KeyOf(a) != KeyOf(b) ? KeyOf(a) > KeyOf(b) : a.index < b.index;
  }

  const size_t most_;
  double ElementDifference::*const distance_;
  std::vector<ElementDifference> elements_;  // a heap, the nearest in front
};

// Lines in files of so many.
class PartWriter {
 public:
  PartWriter(const ElementReportOptions& options, std::string stem)
      : options_(options), stem_(std::move(stem)) {}

  Status Add(const ElementDifference& element, const Shape& shape) {
    if (element.index % options_.lines_per_file == 0) {
      MSP_RETURN_IF_ERROR(Finish());
      paths_.push_back(options_.sides.output / fmt::format("{}_{}.csv", stem_, element.index));
      MSP_ASSIGN_OR_RETURN(file_, base::AtomicFile::Create(paths_.back()));
      is_open_ = true;
      text_ = kHeader;
    }
    AppendLine(element, shape, text_);
    if (text_.size() > kFlushBytes) {
      MSP_RETURN_IF_ERROR(file_.Write(std::string_view(text_)));
      text_.clear();
    }
    return {};
  }

  Status Finish() {
    if (!is_open_) {
      return {};
    }
    is_open_ = false;
    MSP_RETURN_IF_ERROR(file_.Write(std::string_view(text_)));
    text_.clear();
    return file_.Commit();
  }

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  const ElementReportOptions& options_;
  const std::string stem_;
  base::AtomicFile file_;
  bool is_open_ = false;
  std::string text_;
  std::vector<std::filesystem::path> paths_;
};

Status WriteFarthest(const std::filesystem::path& path,
                     const std::vector<ElementDifference>& elements, ElementReport& report) {
  std::string text(kHeader);
  for (const ElementDifference& element : elements) {
    AppendLine(element, report.shape, text);
  }
  report.files.push_back(path);
  return base::WriteFileAtomically(path, text);
}

Status Walk(const ElementReportOptions& options, const std::string& stem, const TensorView& mine,
            const TensorView& golden, ElementReport& report) {
  Farthest absolute(options.most_shown, &ElementDifference::absolute);
  Farthest relative(options.most_shown, &ElementDifference::relative);
  PartWriter parts(options, stem);
  kernels::NumberReader<double> mine_numbers(mine);
  kernels::NumberReader<double> golden_numbers(golden);
  std::optional<double> least_absolute;
  std::optional<double> least_relative;
  for (uint64_t first = 0; first < report.elements; first += tensor::kCopyBlockElements) {
    const size_t here = std::min<uint64_t>(tensor::kCopyBlockElements, report.elements - first);
    const std::span<const double> m = mine_numbers.Read(first, here);
    const std::span<const double> g = golden_numbers.Read(first, here);
    for (size_t i = 0; i < here; ++i) {
      ElementDifference element{first + i, m[i], g[i], std::fabs(m[i] - g[i]), 0};
      if (g[i] != 0) {
        // fabs: the sign of a NaN is the machine's.
        element.relative = std::fabs(element.absolute / g[i]);
        least_relative = SmallerOrNaN(least_relative.value_or(element.relative), element.relative);
        report.most_relative = LargerOrNaN(report.most_relative, element.relative);
      }
      least_absolute = SmallerOrNaN(least_absolute.value_or(element.absolute), element.absolute);
      report.most_absolute = LargerOrNaN(report.most_absolute, element.absolute);
      absolute.Add(element);
      relative.Add(element);
      if (!options.only_farthest) {
        MSP_RETURN_IF_ERROR(parts.Add(element, report.shape));
      }
    }
  }
  MSP_RETURN_IF_ERROR(parts.Finish());
  report.least_absolute = least_absolute.value_or(0);
  report.least_relative = least_relative.value_or(0);
  report.files.insert(report.files.end(), parts.paths().begin(), parts.paths().end());
  report.by_absolute = absolute.Take();
  report.by_relative = relative.Take();
  return {};
}

}  // namespace

Result<ElementReport> ReportElements(const ElementReportOptions& options) {
  MSP_ASSIGN_OR_RETURN(const VectorOperator mine_op, LastOf(options.sides.mine, options.op_name));
  MSP_ASSIGN_OR_RETURN(const VectorOperator golden_op,
                       LastOf(options.sides.golden, options.op_name));
  MSP_ASSIGN_OR_RETURN(const OpenOperator mine, OpenOperator::Open(mine_op));
  MSP_ASSIGN_OR_RETURN(const OpenOperator golden, OpenOperator::Open(golden_op));
  const std::string what = options.is_input ? "input" : "output";
  for (const auto& [side, path] :
       {std::pair(&mine, &options.sides.mine), std::pair(&golden, &options.sides.golden)}) {
    if (!side->has(!options.is_input, options.number)) {
      return UsageError(fmt::format("{} {} of \"{}\" is not in {}, which has {} of them", what,
                                    options.number, options.op_name, path->string(),
                                    side->count(!options.is_input)));
    }
  }
  MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer left,
                       mine.AsFrameworkKnows(!options.is_input, options.number));
  MSP_ASSIGN_OR_RETURN(const tensor::TensorBuffer right,
                       golden.AsFrameworkKnows(!options.is_input, options.number));
  MSP_RETURN_IF_ERROR(mine.Check());
  MSP_RETURN_IF_ERROR(golden.Check());
  if (left.view().shape != right.view().shape) {
    return MismatchError(fmt::format("{} {} of \"{}\": the shapes differ, {} and {}", what,
                                     options.number, options.op_name, ShapeText(left.view().shape),
                                     ShapeText(right.view().shape)));
  }
  MSP_RETURN_IF_ERROR(CheckMeasurable(left.view(), right.view()));
  ElementReport report;
  report.shape = left.view().shape;
  report.elements = static_cast<uint64_t>(left.view().element_count());
  const std::string stem = fmt::format("{}_{}_{}", options.op_name, what, options.number);
  const std::filesystem::path& folder = options.sides.output;
  MSP_RETURN_IF_ERROR(base::CreateFolders(folder));
  report.files.push_back(folder / (stem + ".npy"));
  MSP_RETURN_IF_ERROR(WriteArray(report.files.back(), ArrayFile::kNpy, left.view()));
  MSP_RETURN_IF_ERROR(Walk(options, stem, left.view(), right.view(), report));
  MSP_RETURN_IF_ERROR(
      WriteFarthest(folder / (stem + "_absolute_error_topn.csv"), report.by_absolute, report));
  MSP_RETURN_IF_ERROR(
      WriteFarthest(folder / (stem + "_relative_error_topn.csv"), report.by_relative, report));
  report.files.push_back(folder / (stem + "_summary.txt"));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
      report.files.back(),
      fmt::format("TotalCount:{}\nNPUDump:{}\nGroundTruth:{}\nFormat:N C H W\n"
                  "MinAbsoluteError:{:.6f}\nMaxAbsoluteError:{:.6f}\n"
                  "MinRelativeError:{:.6f}\nMaxRelativeError:{:.6f}\n",
                  report.elements, options.op_name, options.op_name, report.least_absolute,
                  report.most_absolute, report.least_relative, report.most_relative)));
  return report;
}

namespace {

using base::Plural;
using report::AnswerOutcome;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownRows = 20;

std::string MeasuresText(const VectorMeasures& measures) {
  return fmt::format(
      "cosine {}, largest difference {}, mean relative {}", MeasureText(measures, Measure::kCosine),
      MeasureText(measures, Measure::kMaxAbsolute), MeasureText(measures, Measure::kMeanRelative));
}

// The levels of --fail-on, and the case of the JUnit report.
void Judge(const std::string& name, bool differs, report::Document& document) {
  report::TestCase test;
  test.name = name;
  if (document.verdict.outcome != AnswerOutcome::kClean) {
    test.Fail(kVectorGateLevels[0].word, document.verdict.word, document.verdict.text);
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
    verdict.Say("NOTHING COMPARED",
                fmt::format("no two tensors with elements could be compared{}", rest), Tone::kBad,
                AnswerOutcome::kNothingCompared);
    return verdict;
  }
  if (const VectorRow* bad = findings.FirstBad(); bad != nullptr) {
    verdict.Say("DIFFERENT",
                fmt::format("it starts with {} ({}){}", base::Printable(bad->tensor),
                            base::Printable(bad->op_type), rest),
                Tone::kBad, AnswerOutcome::kFindings);
    return verdict;
  }
  verdict.word = findings.failed() == 0 ? "AGREE" : "AGREE IN PART";
  verdict.text = fmt::format("{}: {} of {} within the limits of every measure{}", verdict.word,
                             Plural(findings.compared(), "tensor"),
                             Plural(findings.operators, "operator"), rest);
  verdict.tone = findings.failed() == 0 ? Tone::kGood : Tone::kCaution;
  verdict.outcome = findings.failed() == 0 ? AnswerOutcome::kClean : AnswerOutcome::kFindings;
  return verdict;
}

}  // namespace

report::Document MakeDocument(const VectorFindings& findings) {
  report::Document document;
  document.command = "msaccucmp compare";
  document.verdict = MakeVerdict(findings);
  List far{ListKind::kNamed, {}, {kShownRows}};
  List failed{ListKind::kNamed, {}, {kShownRows}};
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
      document.Add(title, std::move(*list));
    }
  }
  Judge("kernels", findings.FirstBad() != nullptr || findings.failed() > 0, document);
  document.files.push_back({findings.table});
  document.action = "compared";
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
  document.verdict.outcome = !compared ? AnswerOutcome::kNothingCompared
                             : good    ? AnswerOutcome::kClean
                                       : AnswerOutcome::kFindings;
  if (compared) {
    List list{ListKind::kAligned, {}};
    for (const Measure measure : kFileMeasures) {
      list.items.push_back({std::string(MeasureName(measure)), MeasureText(measures, measure)});
    }
    document.Add("", std::move(list));
  }
  Judge(names, compared && !good, document);
  if (!comparison.file.empty()) {
    document.files.push_back({comparison.file});
  }
  document.action = "compared";
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
  document.verdict.outcome = report.elements == 0 ? AnswerOutcome::kNothingCompared
                             : differs            ? AnswerOutcome::kFindings
                                                  : AnswerOutcome::kClean;
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
      document.Add(title, report::DataTable{std::move(table)});
    }
  }
  Judge(options.op_name, differs, document);
  document.AddFiles(report.files);
  document.action = "compared";
  return document;
}

}  // namespace msprobe::analysis::kernel_dump
