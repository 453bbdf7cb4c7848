// Compares two accuracy checks, one of an NPU and one of a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/report/document.h"
#include "src/report/table.h"

namespace msprobe::analysis::accuracy {

// An accuracy_checking_details_*.csv, read back.

class DetailsFile {
 public:
  // Columns are found by their names, in Chinese or English, in any order. An error names
  // those that are missing.
  static Result<DetailsFile> Read(const std::filesystem::path& path);
  // The same for a text in memory.
  static Result<DetailsFile> ReadText(std::string_view text);

  size_t row_count() const { return table_.row_count(); }
  // Texts are borrowed from this object. Columns that the file lacks are blank.
  std::array<std::string_view, detail_column::kCount> row(size_t index) const;

 private:
  static Result<DetailsFile> Make(report::Table table);

  report::Table table_;
  std::array<size_t, detail_column::kCount> places_ = {};
};

struct PrecisionOptions {
  std::filesystem::path npu_file;  // accuracy_checking_details_*.csv
  std::filesystem::path gpu_file;
  std::filesystem::path output = ".";
  std::filesystem::path standards_file;  // empty: the built-in limits
  StandardVersion version = StandardVersion::k811;
  bool english = false;  // headers, algorithms and messages of the results
  bool strict = false;   // judge and tell what the Python tool leaves out
  size_t worst = 10;     // outputs to name
};

// One output of an operator on both devices against its standard.

// A row of a details file.
using DetailCells = std::array<std::string_view, detail_column::kCount>;

struct OutputJudgement {
  std::array<std::string, precision_column::kCount> cells;  // kBlank where there is nothing
  Outcome outcome = Outcome::kSkip;
  // A cell that the standard needs is empty or no number: the message says which.
  bool is_unusable = false;
  double excess = 0;  // times beyond the limit that is missed most
};

// dtypes that benchmarks are not made for: such outputs are skipped.
bool IsUnsupportedDType(std::string_view dtype);

struct JudgeOptions {
  StandardVersion version = StandardVersion::k811;
  bool english = false;
  bool strict = false;
};

// `name` is that of the NPU's row, taken apart.
OutputJudgement JudgeOutput(const OutputName& name, const DetailCells& npu, const DetailCells& gpu,
                            const Standards& standards, const JudgeOptions& options);

// The judgement of an output that is not looked at.
OutputJudgement SkippedOutput(std::string_view name, std::string_view message);

struct WorstOutput {
  std::string name;       // "Torch.mul.2.forward.output.0"
  std::string algorithm;  // in English
  std::string reason;     // in English, one line
  double excess = 0;      // how many times beyond its limit; comparable within an algorithm only
};

struct JudgedOperator {
  std::string name;
  Outcome outcome = Outcome::kPass;  // the worse one of both directions
  std::string reason;
};

struct PrecisionComparison {
  OutcomeCounts outputs;
  OutcomeCounts operators;
  std::vector<JudgedOperator> judged;   // in file order
  std::vector<WorstOutput> worst;       // the worst first
  std::vector<std::string> unmatched;   // outputs of the NPU that the GPU's file lacks
  std::vector<std::string> duplicated;  // outputs with several rows in a file
  uint64_t gpu_only = 0;                // outputs that only the GPU's file has
  std::string limits;                   // which were used
  std::vector<std::filesystem::path> files;
};

// msprobe api_precision_compare: whether an NPU is no less accurate than a GPU, operator by
// operator, from the details files of both accuracy checks.

Result<PrecisionComparison> Run(const PrecisionOptions& options);

// One operator by its rows in the details files of both sides; writes
// nothing.
struct ComparedOperator {
  std::string details;  // rows of api_precision_compare_details, as CSV
  std::string results;  // the row of api_precision_compare_result
  Outcome outcome = Outcome::kSkip;
  std::string reason;  // of an error, the first one, in English
};
ComparedOperator CompareOperator(std::span<const DetailCells> npu, std::span<const DetailCells> gpu,
                                 const Standards& standards, const PrecisionOptions& options);

inline constexpr std::array<report::GateLevel, 2> kPrecisionGateLevels = {
    {{"error", "an operator that is less accurate than its standard allows"},
     {"skip", "also an operator that could not be judged"}}};

report::Document MakeDocument(const PrecisionComparison& comparison);

}  // namespace msprobe::analysis::accuracy
