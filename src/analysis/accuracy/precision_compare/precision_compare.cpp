#include "src/analysis/accuracy/precision_compare/precision_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/report/readers.h"
#include "src/report/writers.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr size_t kMissing = SIZE_MAX;

// Columns that a comparison needs.
constexpr size_t kRequired[] = {
    detail_column::kApiName,      detail_column::kDeviceDtype, detail_column::kSmallValue,
    detail_column::kRmse,         detail_column::kMaxRelative, detail_column::kMeanRelative,
    detail_column::kErrorBalance, detail_column::kErrorRate,   detail_column::kInfNan,
    detail_column::kRelative,     detail_column::kAbsolute,    detail_column::kUlpMean,
    detail_column::kUlpShare,     detail_column::kThousandth};

}  // namespace

Result<DetailsFile> DetailsFile::Make(report::Table table) {
  DetailsFile file;
  const std::vector<std::string>& names = table.columns();
  for (size_t column = 0; column < detail_column::kCount; ++column) {
    const ColumnName& name = kDetailColumns[column];
    const auto place = std::find_if(names.begin(), names.end(), [&](const std::string& text) {
      return text == name.chinese || text == name.english;
    });
    file.places_[column] =
        place == names.end() ? kMissing : static_cast<size_t>(place - names.begin());
  }
  std::string missing;
  for (const size_t column : kRequired) {
    if (file.places_[column] == kMissing) {
      missing += (missing.empty() ? "" : ", ") + std::string(kDetailColumns[column].chinese);
    }
  }
  if (!missing.empty()) {
    return BadFormatError(fmt::format("it lacks columns: {}", missing))
        .WithHint("give an accuracy_checking_details_*.csv, not a result file");
  }
  file.table_ = std::move(table);
  return file;
}

Result<DetailsFile> DetailsFile::Read(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(report::Table table, report::ReadCsv(path));
  Result<DetailsFile> file = Make(std::move(table));
  if (!file.ok()) {
    return std::move(file).status().AddContext(base::Printable(path.string()));
  }
  return file;
}

Result<DetailsFile> DetailsFile::ReadText(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(report::Table table, report::ReadCsvText(text, "details"));
  return Make(std::move(table));
}

std::array<std::string_view, detail_column::kCount> DetailsFile::row(size_t index) const {
  std::array<std::string_view, detail_column::kCount> cells;
  cells.fill(kBlank);
  const std::span<const report::Cell> row = table_.row(index);
  for (size_t column = 0; column < detail_column::kCount; ++column) {
    if (places_[column] < row.size() && row[places_[column]].kind() == report::CellKind::kText) {
      cells[column] = row[places_[column]].text();
    }
  }
  return cells;
}

namespace {

// The messages in both languages. Line ends are part of the texts: results of the Python tool
// have them here and not there.
constexpr ColumnName kBothBad = {"同为同号inf或nan\n", " is inf or NaN of the same sign on both\n"};
constexpr ColumnName kOneBad = {"inf或nan不一致\n", " is inf or NaN on one side\n"};
constexpr ColumnName kBinaryError = {"ERROR: 二进制一致错误率超过阈值\n",
                                     "ERROR: the error rate is above its limit\n"};
constexpr ColumnName kInfNanError = {"ERROR: inf/nan错误率超过阈值",
                                     "ERROR: the inf/NaN error ratio is above its limit"};
constexpr ColumnName kRelativeError = {"ERROR: 相对误差错误率超过阈值",
                                       "ERROR: the relative error ratio is above its limit"};
constexpr ColumnName kAbsoluteError = {"ERROR: 绝对误差错误率超过阈值",
                                       "ERROR: the absolute error ratio is above its limit"};
constexpr ColumnName kUlpError = {"ERROR: ULP误差不满足标准\n",
                                  "ERROR: the ULP error is above its limit\n"};
constexpr ColumnName kThousandthError = {"ERROR: 双千指标不达标\n",
                                         "ERROR: too few elements within 1/1000\n"};
constexpr ColumnName kBalanceError = {"ERROR: 误差均衡性超过阈值\n",
                                      "ERROR: the error balance is above its limit\n"};

// The five ratios of the benchmark standard. The last one is shown and not judged.
struct RatioRule {
  size_t detail;     // column of the details
  size_t precision;  // column of the ratio; its result follows
  LevelLimit Limits::*limit;
  ColumnName message;
  bool is_judged;
};
constexpr RatioRule kRatios[] = {
    {detail_column::kSmallValue,
     precision_column::kSmallValue,
     &Limits::ratio_small_value,
     {"ERROR: 小值域错误比值超过阈值\n",
      "ERROR: the ratio of small value errors is above its limit\n"},
     true},
    {detail_column::kRmse,
     precision_column::kRmse,
     &Limits::ratio_rmse,
     {"ERROR: 均方根误差比值超过阈值\n", "ERROR: the ratio of RMSEs is above its limit\n"},
     true},
    {detail_column::kMaxRelative,
     precision_column::kMaxRelative,
     &Limits::ratio_max_relative,
     {"ERROR: 相对误差最大值比值超过阈值\n",
      "ERROR: the ratio of max relative errors is above its limit\n"},
     true},
    {detail_column::kMeanRelative,
     precision_column::kMeanRelative,
     &Limits::ratio_mean_relative,
     {"ERROR: 相对误差平均值比值超过阈值\n",
      "ERROR: the ratio of mean relative errors is above its limit\n"},
     true},
    {detail_column::kErrorBalance,
     precision_column::kErrorBalance,
     &Limits::ratio_error_balance,
     {},
     false},
};

std::string Number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.14f}", value);
}

bool IsFloat8(std::string_view dtype) {
  return dtype.starts_with("torch.float8") || dtype.starts_with("torch.hifloat8") ||
         dtype.starts_with("torch_npu.hifloat8");
}

// The relation of two numbers of which one is inf or NaN.
enum class BadPair : uint8_t { kNone, kSame, kDifferent };
BadPair BadPairOf(double npu, double gpu) {
  if (std::isfinite(npu) && std::isfinite(gpu)) {
    return BadPair::kNone;
  }
  return (std::isnan(npu) && std::isnan(gpu)) || npu == gpu ? BadPair::kSame : BadPair::kDifferent;
}

class OutputJudge {
 public:
  OutputJudge(const OutputName& name, const DetailCells& npu, const DetailCells& gpu,
              const Standards& standards, const JudgeOptions& options)
      : npu_(npu),
        gpu_(gpu),
        limits_(standards.limits()),
        options_(options),
        dtype_(ParseDType(npu[detail_column::kDeviceDtype])),
        level_(options.version == StandardVersion::k26 ? standards.LevelOf(name.parts.api) : 0) {
    out_.cells.fill(std::string(kBlank));
    out_.cells[precision_column::kApiName] = npu[detail_column::kApiName];
    standard_ = Choose(name, standards);
  }

  OutputJudgement Judge() {
    out_.outcome = Outcome::kPass;
    switch (standard_) {
      case Standard::kBinary:
        JudgeBinary();
        break;
      case Standard::kAbsolute:
        message_ = base::Join(JudgeAbsolute(), "");
        break;
      case Standard::kUlp:
        JudgeUlp();
        break;
      case Standard::kThousandth:
        JudgeThousandth();
        break;
      case Standard::kBenchmark:
        JudgeBenchmark();
        break;
      case Standard::kAccumulative:
        JudgeAccumulative();
        break;
    }
    if (out_.is_unusable) {
      OutputJudgement skipped = SkippedOutput(npu_[detail_column::kApiName], why_unusable_);
      skipped.is_unusable = true;
      return skipped;
    }
    out_.cells[precision_column::kStatus] = OutcomeText(out_.outcome);
    out_.cells[precision_column::kAlgorithm] = AlgorithmName(standard_, options_.english);
    out_.cells[precision_column::kMessage] = std::move(message_);
    return std::move(out_);
  }

 private:
  Standard Choose(const OutputName& name, const Standards& standards) const {
    const std::string_view dtype = npu_[detail_column::kDeviceDtype];
    if (options_.version == StandardVersion::k811) {
      return standards.Of(name.parts.api, dtype);
    }
    // 26.x goes by the dtype: only inputs of 8-bit floats fill the relative error ratio.
    if (IsFloat8(dtype)) {
      return Standard::kUlp;
    }
    if (!base::Trim(npu_[detail_column::kRelative]).empty()) {
      return Standard::kAbsolute;
    }
    const bool is_float = dtype_ && GetDTypeInfo(*dtype_).kind == DTypeKind::kFloat;
    return is_float ? Standard::kBenchmark : Standard::kBinary;
  }

  // NaN, and the judgement is unusable, if the value is missing.
  double Value(const DetailCells& row, size_t column) {
    const std::string_view text = base::Trim(row[column]);
    if (text.empty() && options_.version == StandardVersion::k26) {
      return 0;
    }
    const std::optional<double> value = base::ParseDouble(text);
    if (!value && !out_.is_unusable) {
      out_.is_unusable = true;
      why_unusable_ = text.empty() ? "ERROR: Input data is an empty string"
                                   : "ERROR: Input data cannot be converted to float";
    }
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
  }

  std::string Text(const ColumnName& text) const { return std::string(text.In(options_.english)); }

  void Set(size_t column, double value, bool passes) {
    out_.cells[column] = Number(value);
    out_.cells[column + 1] = OutcomeText(passes ? Outcome::kPass : Outcome::kError);
  }
  void Miss(double excess) {
    out_.outcome = Outcome::kError;
    out_.excess = std::max(out_.excess, std::isnan(excess) ? HUGE_VAL : excess);
  }

  void JudgeBinary() {
    const double rate = Value(npu_, detail_column::kErrorRate);
    const bool passes = rate == 0;
    Set(precision_column::kErrorRate, rate, passes);
    if (const std::string_view text = base::Trim(npu_[detail_column::kErrorRate]); !text.empty()) {
      out_.cells[precision_column::kErrorRate] = text;  // as it stands there
    }
    if (!passes) {
      Miss(1 + rate);
      message_ = Text(kBinaryError);
    }
  }

  std::vector<std::string> JudgeAbsolute() {
    struct Rule {
      size_t detail;
      size_t precision;
      const ColumnName& message;
    };
    const Rule rules[] = {{detail_column::kInfNan, precision_column::kInfNan, kInfNanError},
                          {detail_column::kRelative, precision_column::kRelative, kRelativeError},
                          {detail_column::kAbsolute, precision_column::kAbsolute, kAbsoluteError}};
    std::vector<std::string> messages;
    for (const Rule& rule : rules) {
      const double ratio = Value(npu_, rule.detail);
      Set(rule.precision, ratio, ratio == 0);
      if (ratio != 0) {
        Miss(1 + ratio);
        messages.push_back(Text(rule.message));
      }
    }
    return messages;
  }

  void JudgeAccumulative() {
    std::vector<std::string> messages = JudgeAbsolute();
    for (std::string& message : messages) {
      message += '\n';
    }
    const double limit = limits_.accumulative_error_balance.For(dtype_);
    const double balance = Value(npu_, detail_column::kErrorBalance);
    const bool passes = balance <= limit;
    Set(precision_column::kErrorBalance, balance, passes);
    if (!passes) {
      Miss(balance / limit);
      messages.push_back(Text(kBalanceError));
    }
    message_ = base::Join(messages, "\n");
  }

  void JudgeThousandth() {
    const double share = Value(npu_, detail_column::kThousandth);
    const bool passes = share >= limits_.thousandth;
    Set(precision_column::kThousandth, share, passes);
    if (!passes) {
      Miss(1 + limits_.thousandth - share);
      message_ = Text(kThousandthError);
    }
  }

  // Whether the pair must not be divided; with the message.
  BadPair CheckPair(size_t column, double npu, double gpu) {
    const BadPair pair = BadPairOf(npu, gpu);
    if (pair != BadPair::kNone) {
      message_ += kDetailColumns[column].In(options_.english);
      message_ += (pair == BadPair::kSame ? kBothBad : kOneBad).In(options_.english);
    }
    return pair;
  }

  void JudgeUlp() {
    const double npu_mean = Value(npu_, detail_column::kUlpMean);
    const double gpu_mean = Value(gpu_, detail_column::kUlpMean);
    const double npu_share = Value(npu_, detail_column::kUlpShare);
    const double gpu_share = Value(gpu_, detail_column::kUlpShare);
    const BadPair mean = CheckPair(detail_column::kUlpMean, npu_mean, gpu_mean);
    const BadPair share = CheckPair(detail_column::kUlpShare, npu_share, gpu_share);
    const double ratio = share == BadPair::kNone
                             ? npu_share / std::max(gpu_share, limits_.smallest_divisor.For(dtype_))
                             : std::numeric_limits<double>::quiet_NaN();
    out_.cells[precision_column::kUlpMean] = Number(npu_mean);
    out_.cells[precision_column::kUlpShare] = Number(npu_share);
    out_.cells[precision_column::kUlpShareRatio] = Number(ratio);
    if (mean == BadPair::kDifferent || share == BadPair::kDifferent) {
      Miss(HUGE_VAL);
      message_ += Text(kUlpError);
      return;
    }
    // 8-bit floats have the limit of float16.
    const bool is_float8 = IsFloat8(npu_[detail_column::kDeviceDtype]);
    const double limit = is_float8 ? limits_.ulp_share.half : limits_.ulp_share.For(dtype_);
    const bool passes = share == BadPair::kSame || npu_share < limit ||
                        (!is_float8 && ratio < limits_.ulp_share_ratio) ||
                        (dtype_ == DType::kFloat32 && npu_mean < limits_.ulp_mean_float32);
    out_.cells[precision_column::kUlpStatus] =
        OutcomeText(passes ? Outcome::kPass : Outcome::kError);
    if (!passes) {
      Miss(npu_share / limit);
      message_ += Text(kUlpError);
    }
  }

  void JudgeBenchmark() {
    std::string errors;
    for (const RatioRule& rule : kRatios) {
      const double npu = Value(npu_, rule.detail);
      const double gpu = Value(gpu_, rule.detail);
      const BadPair pair = CheckPair(rule.detail, npu, gpu);
      const double limit = (limits_.*rule.limit)[level_];
      const double ratio =
          pair == BadPair::kNone
              ? std::fabs(npu) / std::max(std::fabs(gpu), limits_.smallest_divisor.For(dtype_))
              : std::numeric_limits<double>::quiet_NaN();
      const bool passes = pair == BadPair::kNone ? ratio <= limit : pair == BadPair::kSame;
      Set(rule.precision, ratio, passes);
      if (!passes && rule.is_judged) {
        Miss(ratio / limit);
        errors += rule.message.In(options_.english);
      }
    }
    message_ += errors;
  }

  const DetailCells& npu_;
  const DetailCells& gpu_;
  const Limits& limits_;
  const JudgeOptions& options_;
  const std::optional<DType> dtype_;
  const size_t level_;
  Standard standard_ = Standard::kBenchmark;
  OutputJudgement out_;
  std::string message_;
  std::string_view why_unusable_;
};

}  // namespace

bool IsUnsupportedDType(std::string_view dtype) {
  return dtype == "torch.float64" || dtype == "torch.complex64" || dtype == "torch.complex128";
}

OutputJudgement SkippedOutput(std::string_view name, std::string_view message) {
  OutputJudgement skipped;
  skipped.cells.fill(std::string(kBlank));
  skipped.cells[precision_column::kApiName] = name;
  skipped.cells[precision_column::kStatus] = OutcomeText(Outcome::kSkip);
  skipped.cells[precision_column::kMessage] = message;
  return skipped;
}

OutputJudgement JudgeOutput(const OutputName& name, const DetailCells& npu, const DetailCells& gpu,
                            const Standards& standards, const JudgeOptions& options) {
  const std::string_view dtype = npu[detail_column::kDeviceDtype];
  const std::string_view shape = npu[detail_column::kShape];
  // The Python tool knows an empty tensor by one spelling.
  const bool is_empty =
      shape == "(0,)" ||
      (options.strict &&
       (shape.find("(0,") == 0 || shape.find(" 0,") != shape.npos || shape.ends_with(" 0)")));
  if (base::Trim(dtype).empty() || IsUnsupportedDType(dtype) || is_empty) {
    return SkippedOutput(npu[detail_column::kApiName], npu[detail_column::kMessage]);
  }
  return OutputJudge(name, npu, gpu, standards, options).Judge();
}

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
  // The operator whose rows are being read.
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

namespace {

using base::Plural;
using report::AnswerOutcome;
using report::Cell;
using report::Section;
using report::Tone;

constexpr size_t kNamedInWarnings = 3;

report::Verdict PrecisionVerdict(const PrecisionComparison& comparison) {
  const OutcomeCounts& operators = comparison.operators;
  report::Verdict verdict;
  verdict.unit = "operators";
  verdict.number = static_cast<double>(operators.Of(Outcome::kError));
  const std::string judged = Plural(operators.judged(), "operator");
  if (operators.judged() == 0) {
    verdict.Say("NOTHING COMPARED", "no operator could be judged", Tone::kBad,
                AnswerOutcome::kNothingCompared);
  } else if (operators.Of(Outcome::kError) > 0) {
    verdict.Say("LESS ACCURATE",
                fmt::format("{} of {} that were judged miss their standard",
                            operators.Of(Outcome::kError), judged),
                Tone::kBad, AnswerOutcome::kFindings);
  } else {
    verdict.Say("AS ACCURATE", fmt::format("{} meet their standards", judged), Tone::kGood);
  }
  return verdict;
}

// "a, b, c and 4 more"
std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamedInWarnings; ++i) {
    text += (i > 0 ? ", " : "") + base::Printable(names[i]);
  }
  return names.size() <= kNamedInWarnings
             ? text
             : fmt::format("{} and {} more", text, names.size() - kNamedInWarnings);
}

}  // namespace

report::Document MakeDocument(const PrecisionComparison& comparison) {
  report::Document document;
  document.command = "api_precision_compare";
  document.verdict = PrecisionVerdict(comparison);
  document.levels = report::OutcomesOf(kPrecisionGateLevels);
  const bool has_skips =
      comparison.operators.Of(Outcome::kSkip) > 0 || !comparison.unmatched.empty();
  report::SetFound(document.levels, "error", comparison.operators.Of(Outcome::kError) > 0);
  report::SetFound(document.levels, "skip", has_skips);

  if (!comparison.worst.empty()) {
    report::Table table("worst", {"Output", "Algorithm", "Beyond", "Why"});
    for (const WorstOutput& worst : comparison.worst) {
      table.AddRow({table.KeepText(base::Printable(worst.name)), table.KeepText(worst.algorithm),
                    table.KeepText(std::isinf(worst.excess) ? std::string("inf or NaN")
                                                            : fmt::format("{:.3g}x", worst.excess)),
                    table.KeepText(base::Printable(worst.reason))});
    }
    report::DataTable shown{std::move(table)};
    shown.amounts = {2};
    shown.names_rows = true;
    document.Add("Furthest beyond their limits", std::move(shown));
  }
  report::List facts{report::ListKind::kFacts, {}};
  facts.items.push_back({"operators", CountsText(comparison.operators)});
  facts.items.push_back({"outputs", CountsText(comparison.outputs)});
  facts.items.push_back({"limits", comparison.limits});
  document.Add("Totals", std::move(facts));

  for (const JudgedOperator& judged : comparison.judged) {
    report::TestCase& test = document.cases.emplace_back();
    test.name = judged.name;
    test.message = judged.reason;
    if (judged.outcome == Outcome::kError || judged.outcome == Outcome::kSkip) {
      const bool failed = judged.outcome == Outcome::kError;
      test.outcome = failed ? report::CaseOutcome::kFailed : report::CaseOutcome::kError;
      test.level = failed ? "error" : "skip";
      test.type = failed ? "less accurate" : "not judged";
    }
  }
  if (!comparison.unmatched.empty()) {
    document.warnings.push_back(fmt::format("{} not judged, because the GPU's file lacks {}: {}",
                                            Plural(comparison.unmatched.size(), "output"),
                                            comparison.unmatched.size() == 1 ? "it" : "them",
                                            Names(comparison.unmatched)));
  }
  if (comparison.gpu_only > 0) {
    document.warnings.push_back(fmt::format(
        "{} of the GPU's file not judged, because the NPU's file lacks {}",
        Plural(comparison.gpu_only, "output"), comparison.gpu_only == 1 ? "it" : "them"));
  }
  if (!comparison.duplicated.empty()) {
    document.warnings.push_back(
        fmt::format("{} more than once; the last row counts: {}",
                    comparison.duplicated.size() == 1
                        ? "1 output stands in a file"
                        : Plural(comparison.duplicated.size(), "output") + " stand in a file",
                    Names(comparison.duplicated)));
  }
  document.AddFiles(comparison.files);
  return document;
}

}  // namespace msprobe::analysis::accuracy
