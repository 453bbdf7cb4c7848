// v26 judges rows call by call, by rules of the Python tool: an output is an error where it is far
// off while the inputs are near, where one side alone is not finite, or where the sides are
// different kinds of values; it is a warning where errors grow from the inputs to it. Calls that
// return raw memory are not judged, and inputs that a communication fills are left out
// (dump/call_facts.h).
#include "src/analysis/compare/judging_v26.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/result_table.h"
#include "src/analysis/compare/statistics.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/json/writer.h"

namespace msprobe::analysis::compare {
namespace {

// Whether both read the same as texts: 1 and 1.0 differ, so do 0.0 and -0.0; NaN equals NaN.
bool SameText(const StatValue& a, const StatValue& b) {
  if (a.kind == StatKind::kNumber && b.kind == StatKind::kNumber) {
    return std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) ||
           (std::isnan(a.number) && std::isnan(b.number));
  }
  return a.kind == StatKind::kInteger && b.kind == StatKind::kInteger ? a.integer() == b.integer()
                                                                      : StatText(a) == StatText(b);
}

enum class ValueKind : uint8_t { kNumber, kNan, kInf, kNegativeInf, kDevice, kMissing, kOther };

ValueKind KindOfText(std::string_view text) {
  if (text == kNotApplicable) {
    return ValueKind::kMissing;
  }
  const std::string lower = base::AsciiLower(text);
  if (lower == "nan") {
    return ValueKind::kNan;
  }
  if (lower == "inf" || lower == "-inf") {
    return lower == "inf" ? ValueKind::kInf : ValueKind::kNegativeInf;
  }
  for (const std::string_view device : {"npu", "cpu", "cuda"}) {
    if (lower.find(device) != std::string::npos) {
      return ValueKind::kDevice;
    }
  }
  return ValueKind::kOther;
}

ValueKind KindOf(const StatValue& stat) {
  if (!stat.is_numeric()) {
    return stat.kind == StatKind::kText ? KindOfText(stat.text()) : ValueKind::kOther;
  }
  return std::isnan(stat.number)    ? ValueKind::kNan
         : !std::isinf(stat.number) ? ValueKind::kNumber
         : stat.number > 0          ? ValueKind::kInf
                                    : ValueKind::kNegativeInf;
}

// The word for a pair that is not a pair of numbers; the same for difference and relative error.
std::string_view PairWord(ValueKind npu, ValueKind bench) {
  const auto either = [&](ValueKind kind) { return npu == kind || bench == kind; };
  if (either(ValueKind::kMissing) || (npu == ValueKind::kDevice && bench == ValueKind::kDevice)) {
    return kNotApplicable;
  }
  if (either(ValueKind::kDevice) || either(ValueKind::kOther)) {
    return "Diff";
  }
  if (either(ValueKind::kNan)) {
    return "Nan";
  }
  // inf with anything smaller, or a number with the opposite of the infinity it is taken from.
  const bool up =
      npu == ValueKind::kInf || (npu == ValueKind::kNumber && bench == ValueKind::kNegativeInf);
  return up ? "inf" : "-inf";
}

}  // namespace

void CompareStatisticsV26(const SideRow& npu, const SideRow& bench, RowResult& result) {
  for (size_t i = 0; i < kStatCount; ++i) {
    Metric& difference = result.metrics[kMaxDiff + i];
    Metric& relative = result.metrics[kMaxRel + i];
    const StatValue& n = npu.stats[i];
    const StatValue& b = bench.stats[i];
    if (SameText(n, b)) {
      difference = relative = Metric::Text("0");
      continue;
    }
    const ValueKind npu_kind = KindOf(n);
    const ValueKind bench_kind = KindOf(b);
    if (npu_kind != ValueKind::kNumber || bench_kind != ValueKind::kNumber) {
      difference = relative = Metric::Text(PairWord(npu_kind, bench_kind));
      continue;
    }
    const double apart = n.number - b.number;
    difference = Metric::Number(apart);
    relative =
        b.number == 0 ? Metric::Text("inf") : Metric::Percent(std::fabs(apart / b.number * 100));
  }
  result.distance = StatisticsDistance(npu, bench);
}

namespace {

bool ReadsNonFinite(const StatValue& stat) {
  const ValueKind kind =
      stat.kind == StatKind::kText ? KindOfText(base::Trim(stat.text())) : KindOf(stat);
  return kind == ValueKind::kNan || kind == ValueKind::kInf || kind == ValueKind::kNegativeInf;
}

bool HasNonFiniteExtreme(const SideRow& row) {
  return ReadsNonFinite(row.stats[kMax]) || ReadsNonFinite(row.stats[kMin]);
}

bool IsText(const Metric& metric, std::string_view text) {
  return metric.kind == MetricKind::kText && metric.text() == text;
}

// A relative error as a fraction; words count as nothing.
double FractionOf(const Metric& metric) {
  return metric.kind == MetricKind::kPercent ? metric.number() / 100 : 0.0;
}

// The shape text without its axes of size 1: "[1, 5, 4]" -> {"5", "4"}.
std::vector<std::string_view> LongAxes(std::string_view shape) {
  std::vector<std::string_view> axes;
  if (shape.size() < 2) {
    return axes;
  }
  for (const std::string_view axis : base::Split(shape.substr(1, shape.size() - 2), ',')) {
    const std::string_view size = base::Trim(axis);
    if (size != "1" && !size.empty()) {
      axes.push_back(size);
    }
  }
  return axes;
}

std::optional<double> AxisSize(std::string_view text) {
  double size = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    size = size * 10 + (c - '0');
  }
  return size;
}

struct Row {
  RowResult* result = nullptr;
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;
  bool is_output = false;
  std::vector<std::string> reasons;
};

class CallJudge {
 public:
  CallJudge(const JudgeRules& rules, PairResult& result)
      : rules_(rules), result_(result), mode_(result.mode) {}

  void Judge(std::span<Row> rows) {
    for (Row& row : rows) {
      row.result->verdict = Verdict::kPass;
    }
    const std::string_view api = ApiOf(rows[0]);
    const bool starts_with_input = !rows[0].is_output;
    if (starts_with_input && dump::HasFact(api, dump::kToolUnjudged)) {
      NoteRows(rows);
      return;
    }
    const dump::CommunicationApi* facts = dump::FindCommunicationApi(api);
    const bool fills = starts_with_input && facts != nullptr &&
                       facts->Is(dump::CommunicationApi::kToolFillsInputs);
    if (mode_ == CompareMode::kMd5) {
      JudgeChecksums(rows, fills);
    } else {
      JudgeValues(rows, fills);
    }
    NoteRows(rows);
  }

 private:
  static std::string_view ApiOf(const Row& row) {
    const std::string_view name = row.npu->name;
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) {
      return {};
    }
    return name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
  }

  void Error(Row& row, std::string_view reason) {
    row.result->verdict = mode_ == CompareMode::kMd5 ? Verdict::kDifferent : Verdict::kNo;
    row.result->fill = report::Fill::kRed;
    row.reasons.emplace_back(reason);
  }

  static void Warn(Row& row, std::string_view reason) {
    if (row.result->verdict == Verdict::kPass) {
      row.result->verdict = Verdict::kWarning;
      row.result->fill = report::Fill::kYellow;
    }
    row.reasons.emplace_back(reason);
  }

  void JudgeChecksums(std::span<Row> rows, bool fills) {
    for (Row& row : rows) {
      if (fills && !row.is_output) {
        continue;
      }
      const std::string_view npu = row.npu->md5;
      const std::string_view bench = row.bench == nullptr ? kNotApplicable : row.bench->md5;
      if (npu == bench) {
        continue;
      }
      const auto missing = [](std::string_view md5) {
        return md5.empty() || md5 == kNotApplicable || md5 == "Nan";
      };
      if (missing(npu) || missing(bench)) {
        Warn(row, "warning: The parameter of NPU does not match the bench.");
      } else {
        Error(row, "error: The CRC-32 value of NPU differs from that of the bench.");
      }
    }
  }

  void JudgeValues(std::span<Row> rows, bool fills) {
    const auto judged = [&](const Row& row) { return !fills || row.is_output; };
    for (Row& row : rows) {
      const bool bench_too = row.bench != nullptr && HasNonFiniteExtreme(*row.bench);
      if (judged(row) && HasNonFiniteExtreme(*row.npu) && !bench_too) {
        Error(row, "error: There is nan/inf/-inf in the maximum or minimum value of NPU.");
      }
    }
    if (!fills) {
      JudgeErrors(rows);
    }
    for (Row& row : rows) {
      if (judged(row) && row.bench != nullptr) {
        JudgeKind(row, /*scalars_too=*/!fills);
      }
    }
    if (!fills) {
      JudgeGrowth(rows);
    }
    if (rules_.strict) {
      JudgeStrictly(rows);
    }
  }

  // Whether both sides are the same kind of value.
  void JudgeKind(Row& row, bool scalars_too) {
    const SideRow& npu = *row.npu;
    const SideRow& bench = *row.bench;
    const std::string_view npu_grad = RequiresGradText(npu);
    const std::string_view bench_grad = RequiresGradText(bench);
    if (rules_.backend == TrainingBackend::kNone && !npu_grad.empty() && !bench_grad.empty() &&
        npu_grad != bench_grad) {
      Error(row, "error: The Required_Grad of NPU and Bench are inconsistent");
    }
    const auto is_class = [](const SideRow& side) {
      return side.dtype.find("class") != std::string_view::npos;
    };
    if (scalars_too && !row.is_output && is_class(npu) && is_class(bench) && npu.shape == "[]" &&
        !SameText(npu.stats[kMax], bench.stats[kMax])) {
      Error(row, "error: The scalar parameters of NPU and Bench are inconsistent.");
    }
    if (npu.dtype != bench.dtype && !IsFused(row)) {
      Error(row, "error: The dtype of NPU and Bench are inconsistent.");
    }
    if (!SameShape(row)) {
      Error(row, "error: The shape of NPU and Bench are inconsistent.");
    }
  }

  static Row* FirstOutput(std::span<Row> rows) {
    const auto found =
        std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.is_output; });
    return found == rows.end() ? nullptr : &*found;
  }

  static double LargestFraction(std::span<const Row> rows, bool of_outputs) {
    double largest = 0;
    for (const Row& row : rows) {
      if (row.is_output == of_outputs) {
        largest = std::max(largest, FractionOf(row.result->metrics[kNormRel]));
      }
    }
    return largest;
  }

  static double SmallestNumber(std::span<const Row> rows, bool of_outputs, RealMetric metric) {
    double smallest = 1;
    for (const Row& row : rows) {
      const Metric& cell = row.result->metrics[metric];
      if (row.is_output == of_outputs && cell.kind == MetricKind::kNumber) {
        smallest = std::min(smallest, cell.number());
      }
    }
    return smallest;
  }

  // Good inputs, bad outputs.
  void JudgeErrors(std::span<Row> rows) {
    if (mode_ == CompareMode::kStatistics) {
      if (!(LargestFraction(rows, false) < judging_v26::kSmallInputError)) {
        return;
      }
      for (Row& row : rows) {
        const Metric& error = row.result->metrics[kNormRel];
        const bool infinite = IsText(error, "inf") || IsText(error, "-inf");
        if (row.is_output && (infinite || FractionOf(error) > judging_v26::kLargeOutputError)) {
          Error(row, fmt::format("error: The NormRelativeErr of output is greater than {}.",
                                 judging_v26::kLargeOutputError));
        }
      }
      return;
    }
    Row* output = FirstOutput(rows);
    if (output != nullptr &&
        SmallestNumber(rows, false, kOneThousandth) > judging_v26::kGoodInputRatio &&
        SmallestNumber(rows, true, kOneThousandth) < judging_v26::kBadOutputRatio) {
      Error(
          *output,
          fmt::format(
              "error: The input/parameters of One Thousandth Err Ratio > {} while the output < {}.",
              judging_v26::kGoodInputRatio, judging_v26::kBadOutputRatio));
    }
  }

  static bool IsFused(const Row& row) {
    return row.bench->name.find("qkv") != std::string_view::npos ||
           row.bench->name.find("gate_up") != std::string_view::npos;
  }

  bool SameShape(const Row& row) const {
    if (rules_.ignore_shapes) {
      return true;
    }
    if (rules_.backend == TrainingBackend::kNone) {
      return row.npu->shape == row.bench->shape;
    }
    if (rules_.backend == TrainingBackend::kFsdp && IsFused(row)) {
      return true;
    }
    const std::vector<std::string_view> npu = LongAxes(row.npu->shape);
    const std::vector<std::string_view> bench = LongAxes(row.bench->shape);
    if (rules_.backend == TrainingBackend::kMegatron && npu.size() == 3 && bench.size() == 2) {
      // Heads and their width are one axis on the inference side.
      const std::optional<double> heads = AxisSize(npu[1]);
      const std::optional<double> width = AxisSize(npu[2]);
      return npu[0] == bench[0] && heads && width && AxisSize(bench[1]) == *heads * *width;
    }
    return npu == bench;
  }

  // Errors that grow from inputs to outputs.
  void JudgeGrowth(std::span<Row> rows) {
    Row* output = FirstOutput(rows);
    if (output == nullptr) {
      return;
    }
    if (mode_ == CompareMode::kStatistics) {
      const double in = LargestFraction(rows, false);
      const double out = LargestFraction(rows, true);
      if (in == 0 ? out > judging_v26::kErrorFromNothing : out / in > judging_v26::kErrorGrowth) {
        Warn(*output,
             fmt::format("warning: The norm relative error of output is {} times that of input.",
                         judging_v26::kErrorGrowth));
      }
      return;
    }
    const double in = SmallestNumber(rows, false, kCosine);
    if (in > judging_v26::kGoodInputCosine &&
        in - SmallestNumber(rows, true, kCosine) > judging_v26::kCosineLoss) {
      Warn(*output,
           fmt::format(
               "warning: The input/parameters of Cosine > {}, and input/parameters - output > {}",
               judging_v26::kGoodInputCosine, judging_v26::kCosineLoss));
    }
  }

  void JudgeStrictly(std::span<Row> rows) {
    for (Row& row : rows) {
      if (row.bench == nullptr) {
        Warn(row, "warning: No bench row matches this row.");
        continue;
      }
      if (mode_ == CompareMode::kRealData) {
        if (IsUnreadable(row)) {
          Error(row, "error: A tensor of this row cannot be read.");
        } else if (row.result->distance.nonfinite_differs) {
          Error(row, "error: NaN or infinity on one side only.");
        }
        continue;
      }
      const bool inputs_agree = LargestFraction(rows, false) < judging_v26::kSmallInputError;
      for (const StatMetric metric : {kMaxRel, kMinRel, kMeanRel}) {
        const Metric& error = row.result->metrics[metric];
        const bool large = error.kind == MetricKind::kPercent
                               ? FractionOf(error) > judging_v26::kLargeOutputError
                               : !IsText(error, "0") && !IsText(error, kNotApplicable);
        if (row.is_output && inputs_agree && large) {
          Warn(row, "warning: Maximum, minimum or mean of the output differ by more than half.");
          break;
        }
      }
    }
  }

  static bool IsUnreadable(const Row& row) {
    return row.bench != nullptr && row.npu->data_name != "-1" && row.bench->data_name != "-1" &&
           IsText(row.result->metrics[kMaxAbsErr], "unsupported");
  }

  // Why a row could not be compared is worth knowing although no verdict hangs on it.
  bool DeservesNote(const Row& row) const {
    return !row.result->message.empty() &&
           (row.bench == nullptr || (mode_ == CompareMode::kRealData && IsUnreadable(row)));
  }

  void NoteRows(std::span<Row> rows) {
    for (Row& row : rows) {
      const bool noted = DeservesNote(row);
      if (row.reasons.empty() && !noted) {
        row.result->message = "[]";
        continue;
      }
      text_.clear();
      json::Writer list(text_, -1);
      list.BeginArray();
      for (const std::string_view reason : row.reasons) {
        list.Text(reason);
      }
      if (noted) {
        // A word with a colon would read as another verdict.
        std::string note = base::ReplaceAll(base::Trim(row.result->message), "error:", "error,");
        list.Text("note: " + base::ReplaceAll(note, "warning:", "warning,"));
      }
      list.EndArray();
      row.result->message = result_.arena->Keep(text_);
    }
  }

  const JudgeRules& rules_;
  PairResult& result_;
  const CompareMode mode_;
  std::string text_;
};

}  // namespace

void JudgeCalls(const Side& npu, const Side& bench, const JudgeRules& rules, PairResult& result) {
  CallJudge judge(rules, result);
  std::vector<Row> call;
  std::string_view api_name;
  for (RowResult& row : result.rows) {
    const SideRow& npu_row = npu.rows[row.pair.npu];
    if (!call.empty() && npu_row.api_name != api_name) {
      judge.Judge(call);
      call.clear();
    }
    api_name = npu_row.api_name;
    call.push_back({&row,
                    &npu_row,
                    row.pair.bench == kNoRow ? nullptr : &bench.rows[row.pair.bench],
                    npu_row.name.find(".output.") != std::string_view::npos,
                    {}});
  }
  if (!call.empty()) {
    judge.Judge(call);
  }
}

}  // namespace msprobe::analysis::compare
