#include "src/analysis/accuracy/precision_compare/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::analysis::accuracy {
namespace {

// What messages say, in both languages. Line ends are part of the texts: results of the Python tool
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

// How two numbers of which one is inf or NaN stand to each other.
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

  // NaN, and the judgement is unusable, when there is no number.
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

}  // namespace msprobe::analysis::accuracy
