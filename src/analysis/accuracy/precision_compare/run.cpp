#include "src/analysis/accuracy/precision_compare/run.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/accuracy/common/details_file.h"
#include "src/analysis/accuracy/precision_compare/judge.h"
#include "src/base/files.h"
#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/report/writers.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnsupportedMessage =
    "This data type does not support benchmark compare.";
constexpr ColumnName kTopkHint = {
    "在NPU上topk的sorted=False不生效，输出总是有序；CPU上的输出无序。",
    "On the NPU sorted=False of topk has no effect, its output is sorted; that of the CPU is not."};
constexpr ColumnName kNoGpuRow = {"GPU结果中没有该输出。",
                                  "The file of the GPU lacks this output."};

// The rows of a file that count, by name: the last one of several, as a resumed check leaves them.
struct Rows {
  std::vector<size_t> order;  // by first appearance
  std::unordered_map<std::string_view, size_t> last;
};
Rows RowsOf(const DetailsFile& file, std::vector<std::string>& duplicated) {
  Rows rows;
  for (size_t row = 0; row < file.row_count(); ++row) {
    const std::string_view name = file.row(row)[detail_column::kApiName];
    const auto [place, is_new] = rows.last.emplace(name, row);
    if (is_new) {
      rows.order.push_back(row);
    } else {
      place->second = row;
      duplicated.emplace_back(name);
    }
  }
  return rows;
}

// One line: without the line ends and the word that messages begin with.
std::string OneLine(std::string_view message) {
  std::string line;
  for (const std::string_view part : base::Split(message, '\n')) {
    if (!base::Trim(part).empty()) {
      line += (line.empty() ? "" : "; ") + std::string(base::Trim(part));
    }
  }
  return base::ReplaceAll(base::ReplaceAll(line, "ERROR: the ", ""), "ERROR: ", "");
}

class Comparison {
 public:
  Comparison(const PrecisionOptions& options, const Standards& standards)
      : options_(options),
        standards_(standards),
        judge_{options.version, options.english, options.strict} {}

  void AddHeaders() {
    std::vector<std::string_view> header;
    for (const ColumnName& column : kPrecisionColumns) {
      header.push_back(column.In(options_.english));
    }
    details_ = results_ = base::kByteOrderMark;
    report::AppendCsvRow(header, details_);
    report::AppendCsvRow(kPrecisionResultColumns, results_);
  }

  PrecisionComparison Compare(const DetailsFile& npu, const DetailsFile& gpu) {
    const Rows npu_rows = RowsOf(npu, out_.duplicated);
    const Rows gpu_rows = RowsOf(gpu, out_.duplicated);
    for (const size_t first : npu_rows.order) {
      const std::string_view name = npu.row(first)[detail_column::kApiName];
      const DetailCells cells = npu.row(npu_rows.last.at(name));
      const auto partner = gpu_rows.last.find(name);
      if (partner == gpu_rows.last.end()) {
        out_.unmatched.emplace_back(name);
        if (!options_.strict) {
          continue;
        }
      }
      Take(cells, partner == gpu_rows.last.end() ? std::optional<DetailCells>()
                                                 : gpu.row(partner->second));
    }
    EndOperator();
    out_.gpu_only = gpu_rows.order.size() - (npu_rows.order.size() - out_.unmatched.size());
    std::stable_sort(
        out_.worst.begin(), out_.worst.end(),
        [](const WorstOutput& a, const WorstOutput& b) { return a.excess > b.excess; });
    out_.worst.resize(std::min(out_.worst.size(), options_.worst));
    return std::move(out_);
  }

  // Rows of one operator.
  PrecisionComparison CompareRows(std::span<const DetailCells> npu,
                                  std::span<const DetailCells> gpu) {
    std::unordered_map<std::string_view, const DetailCells*> by_name;  // the first one each
    for (const DetailCells& row : gpu) {
      by_name.emplace(row[detail_column::kApiName], &row);
    }
    for (const DetailCells& cells : npu) {
      const auto partner = by_name.find(cells[detail_column::kApiName]);
      Take(cells, partner == by_name.end() ? std::optional<DetailCells>() : *partner->second);
    }
    EndOperator();
    return std::move(out_);
  }

  const std::string& details() const { return details_; }
  const std::string& results() const { return results_; }

 private:
  // Of the operator whose rows are being read.
  struct Direction {
    OutcomeCounts counts;
    std::string last_message;  // of the NPU's rows
    Outcome outcome() const {
      return counts.Of(Outcome::kError) > 0                ? Outcome::kError
             : counts.Of(Outcome::kWarning) > 0            ? Outcome::kWarning
             : counts.Of(Outcome::kSkip) == counts.total() ? Outcome::kSkip
                                                           : Outcome::kPass;
    }
    std::string_view text() const { return counts.total() == 0 ? kBlank : OutcomeText(outcome()); }
  };

  void Take(const DetailCells& npu, const std::optional<DetailCells>& gpu) {
    const std::string_view row_name = npu[detail_column::kApiName];
    const std::optional<OutputName> name = ParseOutputName(row_name);
    if (!name) {
      const std::string message = fmt::format("The API name {} is invalid.", row_name);
      AddDetails(SkippedOutput(row_name, message));
      AddResult(row_name, OutcomeText(Outcome::kSkip), OutcomeText(Outcome::kSkip), message);
      Count(row_name, Outcome::kSkip, message);
      return;
    }
    OutputJudgement judgement = gpu ? JudgeOutput(*name, npu, *gpu, standards_, judge_)
                                    : SkippedOutput(row_name, kNoGpuRow.In(options_.english));
    const std::string message = judgement.cells[precision_column::kMessage];
    NoteWorst(*name, npu, gpu, judgement);
    if (judgement.is_unusable && !options_.strict) {
      AddDetails(judgement);
      AddResult(row_name, OutcomeText(Outcome::kSkip), OutcomeText(Outcome::kSkip), message);
      Count(row_name, Outcome::kSkip, message);
      return;
    }
    if (name->whole != whole_) {
      EndOperator();
      whole_ = name->whole;
      api_ = name->parts.api;
    }
    Direction& direction = directions_[name->is_backward ? 1 : 0];
    direction.counts.Add(judgement.outcome);
    const bool is_own = judgement.is_unusable || !gpu;
    direction.last_message = is_own ? message : std::string(npu[detail_column::kMessage]);
    last_dtype_ = npu[detail_column::kDeviceDtype];
    AddDetails(judgement);
  }

  void EndOperator() {
    if (whole_.empty()) {
      return;
    }
    const auto& [forward, backward] = directions_;
    if (IsUnsupportedDType(last_dtype_)) {
      AddResult(whole_, OutcomeText(Outcome::kSkip), OutcomeText(Outcome::kSkip),
                kUnsupportedMessage);
      Count(whole_, Outcome::kSkip, kUnsupportedMessage);
    } else {
      std::string message;
      const bool has_forward = forward.counts.total() > 0;
      if (has_forward && forward.outcome() == Outcome::kSkip) {
        message = forward.last_message;
      } else if (has_forward && forward.outcome() == Outcome::kError && api_ == "topk") {
        message = kTopkHint.In(options_.english);
      } else if (options_.strict && backward.counts.total() > 0 &&
                 backward.outcome() == Outcome::kSkip) {
        message = backward.last_message;
      }
      AddResult(whole_, forward.text(), backward.text(), message);
      Count(whole_, WorseOutcome(), message);
    }
    directions_ = {};
    whole_ = {};
  }

  // Skipped only where nothing was judged.
  Outcome WorseOutcome() const {
    Direction both = directions_[0];
    for (const Outcome outcome :
         {Outcome::kPass, Outcome::kWarning, Outcome::kError, Outcome::kSkip}) {
      for (uint64_t i = 0; i < directions_[1].counts.Of(outcome); ++i) {
        both.counts.Add(outcome);
      }
    }
    return both.outcome();
  }

  void NoteWorst(const OutputName& name, const DetailCells& npu,
                 const std::optional<DetailCells>& gpu, const OutputJudgement& judgement) {
    out_.outputs.Add(judgement.outcome);
    if (judgement.outcome != Outcome::kError) {
      return;
    }
    JudgeOptions english = judge_;
    english.english = true;
    const OutputJudgement told = JudgeOutput(name, npu, *gpu, standards_, english);
    out_.worst.push_back({std::string(npu[detail_column::kApiName]),
                          told.cells[precision_column::kAlgorithm],
                          OneLine(told.cells[precision_column::kMessage]), judgement.excess});
  }

  void Count(std::string_view name, Outcome outcome, std::string_view reason) {
    out_.operators.Add(outcome);
    out_.judged.push_back({std::string(name), outcome, OneLine(reason)});
  }

  void AddDetails(const OutputJudgement& judgement) {
    const std::vector<std::string_view> cells(judgement.cells.begin(), judgement.cells.end());
    report::AppendCsvRow(cells, details_);
  }
  void AddResult(std::string_view name, std::string_view forward, std::string_view backward,
                 std::string_view message) {
    const std::string_view cells[] = {name, forward, backward, message};
    report::AppendCsvRow(cells, results_);
  }

  const PrecisionOptions& options_;
  const Standards& standards_;
  const JudgeOptions judge_;
  PrecisionComparison out_;
  std::string details_;
  std::string results_;
  std::string_view whole_;
  std::string_view api_;
  std::string_view last_dtype_;
  std::array<Direction, 2> directions_;  // forward, backward
};

Result<DetailsFile> ReadSide(const fs::path& path, std::string_view side) {
  Result<DetailsFile> file = DetailsFile::Read(path);
  if (!file.ok()) {
    return std::move(file).status().AddContext(fmt::format("the {} file", side));
  }
  return file;
}

}  // namespace

ComparedOperator CompareOperator(std::span<const DetailCells> npu, std::span<const DetailCells> gpu,
                                 const Standards& standards, const PrecisionOptions& options) {
  Comparison comparison(options, standards);
  const PrecisionComparison found = comparison.CompareRows(npu, gpu);
  ComparedOperator compared{comparison.details(), comparison.results(), Outcome::kSkip, {}};
  if (!found.judged.empty()) {
    compared.outcome = found.judged.front().outcome;
    compared.reason =
        found.worst.empty() ? found.judged.front().reason : found.worst.front().reason;
  }
  return compared;
}

Result<PrecisionComparison> Run(const PrecisionOptions& options) {
  Standards standards = Standards::BuiltIn();
  if (!options.standards_file.empty()) {
    MSP_ASSIGN_OR_RETURN(standards, Standards::Load(options.standards_file));
  }
  MSP_ASSIGN_OR_RETURN(const DetailsFile npu, ReadSide(options.npu_file, "NPU"));
  MSP_ASSIGN_OR_RETURN(const DetailsFile gpu, ReadSide(options.gpu_file, "GPU"));
  Comparison comparison(options, standards);
  comparison.AddHeaders();
  PrecisionComparison answer = comparison.Compare(npu, gpu);
  answer.limits = fmt::format("{}, {}", options.version == StandardVersion::k26 ? "26.x" : "8.1.1",
                              standards.source());
  MSP_ASSIGN_OR_RETURN(const base::RunStamp stamp,
                       base::RunStamp::Take(options.output, base::TimestampNow()));
  answer.files = {
      options.output / fmt::format("api_precision_compare_result_{}.csv", stamp.text()),
      options.output / fmt::format("api_precision_compare_details_{}.csv", stamp.text())};
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(answer.files[0], comparison.results()));
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(answer.files[1], comparison.details()));
  return answer;
}

}  // namespace msprobe::analysis::accuracy
