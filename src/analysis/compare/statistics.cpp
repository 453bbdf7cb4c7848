// Metrics, verdicts and colours of v8 for rows with statistics or checksums.
//
// A row with statistics gets the four differences of Max, Min, Mean and Norm and their relative
// errors; a row with checksums is equal or not. Highlighting then looks at the rows of one call
// together (a batch): rules on single cells (NaN, infinities, large errors) give reasons, rules
// on inputs against outputs of the call (an error that grows within it) add more. A row's colour
// is that of its most serious reason; its message lists all reasons in a fixed order. The limits
// are in thresholds of statistics.h.
#include "src/analysis/compare/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"

namespace msprobe::analysis::compare {
namespace {

Metric DifferenceCell(double difference) {
  if (std::isinf(difference)) {
    return Metric::Text(difference > 0 ? "inf\t" : "-inf\t");
  }
  return Metric::Number(difference);
}

}  // namespace

void CompareStatistics(const SideRow& npu, const SideRow& bench, RowResult& result) {
  bool warning = false;
  for (size_t i = 0; i < kStatCount; ++i) {
    Metric& difference_cell = result.metrics[kMaxDiff + i];
    Metric& relative_cell = result.metrics[kMaxRel + i];
    if (!npu.stats[i].is_numeric() || !bench.stats[i].is_numeric()) {
      difference_cell = relative_cell = Metric::Text(kNotApplicable);
      continue;
    }
    const double n = npu.stats[i].number;
    const double b = bench.stats[i].number;
    const double difference = n - b;
    if (std::isnan(difference)) {
      difference_cell = relative_cell = Metric::Text("Nan");
      continue;
    }
    difference_cell = DifferenceCell(difference);
    relative_cell =
        b == 0 ? Metric::Text(kNotApplicable) : Metric::Percent(std::fabs(difference / b * 100.0));
    // The larger signed value, then its magnitude: a NaN quotient (inf / inf) is not a warning.
    const double magnitude = std::fabs(std::max(n, b)) + statistics_warning::kMagnitudeFloor;
    warning = warning || std::fabs(difference) / magnitude > statistics_warning::kShare;
  }
  result.verdict = warning ? Verdict::kWarning : Verdict::kEmpty;
  if (warning) {
    result.message = "A statistic differs by more than half of its value: look at this call. ";
  }
  result.distance = StatisticsDistance(npu, bench);
}

void CompareChecksums(const SideRow& npu, const SideRow& bench, RowResult& result) {
  result.verdict = npu.md5 == bench.md5 ? Verdict::kPass : Verdict::kDifferent;
  result.distance = Md5Distance(npu, bench);
}

namespace {

// One bit per reason; red ones first, each group in the order in which the rules are looked at.
enum Reason : uint32_t {
  kInfiniteRange = 1U << 0U,
  kErrorHuge = 1U << 1U,
  kRelativeErrorLarge = 1U << 2U,
  kRatioCollapsed = 1U << 3U,
  kErrorGrewTenfold = 1U << 4U,
  kRelativeErrorAppeared = 1U << 5U,
  kRatioDropped = 1U << 6U,
  kCosineDropped = 1U << 7U,
};
constexpr uint32_t kRedReasons =
    kInfiniteRange | kErrorHuge | kRelativeErrorLarge | kRatioCollapsed;

struct ReasonText {
  Reason reason;
  std::string text;
};

std::vector<ReasonText> MakeReasonTexts() {
  using namespace highlight;  // NOLINT(google-build-using-namespace): the limits that the texts
                              // name
  return {
      {kInfiniteRange, "The maximum or minimum is infinite."},
      {kErrorHuge, fmt::format("The maximum absolute error is above {:.0e}.", kHugeError)},
      {kRelativeErrorLarge,
       fmt::format("The relative error of the maximum is above {}.", kRelativeError)},
      {kRatioCollapsed, fmt::format("More than {:.0f} % of an input is within one thousandth, but "
                                    "less than {:.0f} % of the output.",
                                    kGoodInputRatio * 100, kBadOutputRatio * 100)},
      {kErrorGrewTenfold, "The maximum absolute error is above 1 and ten times that of an input."},
      {kRelativeErrorAppeared,
       fmt::format("The relative error of the maximum is above {}, that of an input below {}.",
                   kAppearedRelativeError, kSmallInputRelativeError)},
      {kRatioDropped,
       fmt::format("The share within one thousandth is more than {} lower than that of an input.",
                   kRatioLoss)},
      {kCosineDropped,
       fmt::format("The cosine is more than {} lower than that of an input.", kCosineLoss)},
  };
}

// The numbers that the in/out rules use; nullopt where the cell holds text.
struct RowNumbers {
  bool usable = false;  // NPU maximum, bench maximum and difference are all numbers
  double bench_max = 0;
  double difference = 0;
  std::optional<double> one_thousandth;
  std::optional<double> cosine;
};

std::optional<double> StatNumber(const StatValue& stat) {
  if (stat.kind == StatKind::kBool) {
    return stat.boolean ? 1.0 : 0.0;
  }
  return stat.is_numeric() && std::isfinite(stat.number) ? std::optional<double>(stat.number)
                                                         : std::nullopt;
}

std::optional<double> MetricNumber(const Metric& metric) {
  return metric.kind == MetricKind::kNumber ? std::optional<double>(metric.number()) : std::nullopt;
}

// The difference of the maxima in statistics, the largest difference of elements in real data.
const Metric& DifferenceOf(const PairResult& result, const RowResult& row) {
  return row.metrics[result.mode == CompareMode::kRealData ? static_cast<size_t>(kMaxAbsErr)
                                                           : static_cast<size_t>(kMaxDiff)];
}

double OrderOfMagnitude(double value) {
  return std::fabs(value) < 1 ? 0.0 : std::log10(std::fabs(value));
}

class Highlighter {
 public:
  Highlighter(const Side& npu, const Side& bench, PairResult& result)
      : npu_(npu), bench_(bench), result_(result) {}

  void Run() {
    for (size_t begin = 0; begin < result_.rows.size();) {
      const size_t end = BatchEnd(begin);
      reasons_.clear();
      numbers_.clear();
      for (size_t i = begin; i < end; ++i) {
        reasons_.push_back(ReasonsOfRow(result_.rows[i]));
        numbers_.push_back(NumbersOf(result_.rows[i]));
      }
      JudgeBatch(begin);
      for (size_t i = begin; i < end; ++i) {
        Apply(i, reasons_[i - begin]);
      }
      begin = end;
    }
  }

 private:
  const SideRow& NpuRow(size_t index) const { return npu_.rows[result_.rows[index].pair.npu]; }

  uint32_t ReasonsOfRow(const RowResult& row) const {
    const SideRow& npu_row = npu_.rows[row.pair.npu];
    for (const Stat stat : {kMax, kMin}) {
      const StatValue& value = npu_row.stats[stat];
      // NaN alone does not turn a row red: default tables stay equal to the reference's.
      if ((value.is_numeric() && std::isinf(value.number)) ||
          (value.kind == StatKind::kText &&
           (value.text() == "inf" || value.text() == "-inf" || value.text() == "nan"))) {
        return kInfiniteRange;
      }
    }
    const Metric& difference = DifferenceOf(result_, row);
    if (difference.kind == MetricKind::kNumber &&
        std::fabs(difference.number()) > highlight::kHugeError) {
      return kErrorHuge;
    }
    return difference.text() == "inf\t" || difference.text() == "-inf\t" ? kErrorHuge : 0U;
  }

  RowNumbers NumbersOf(const RowResult& row) const {
    RowNumbers numbers;
    if (row.pair.bench == kNoRow) {
      return numbers;
    }
    const std::optional<double> npu_max = StatNumber(npu_.rows[row.pair.npu].stats[kMax]);
    const std::optional<double> bench_max = StatNumber(bench_.rows[row.pair.bench].stats[kMax]);
    const std::optional<double> difference = MetricNumber(DifferenceOf(result_, row));
    if (!npu_max || !bench_max || !difference) {
      return numbers;
    }
    numbers.usable = true;
    numbers.bench_max = *bench_max;
    numbers.difference = *difference;
    if (result_.mode == CompareMode::kRealData) {
      numbers.one_thousandth = MetricNumber(row.metrics[kOneThousandth]);
      numbers.cosine = MetricNumber(row.metrics[kCosine]);
    }
    return numbers;
  }

  // Consecutive rows of one call; parameter gradients join the call right before them.
  size_t BatchEnd(size_t begin) const {
    const std::string_view api = NpuRow(begin).api_name;
    size_t end = begin + 1;
    for (; end < result_.rows.size(); ++end) {
      const std::string_view next = NpuRow(end).api_name;
      if (next == api) {
        continue;
      }
      const bool without_direction = next.find(".forward.") == std::string_view::npos &&
                                     next.find(".backward.") == std::string_view::npos;
      if (!without_direction || api.find(next) == std::string_view::npos) {
        break;
      }
    }
    return end;
  }

  void JudgeBatch(size_t begin) {
    Extremes extremes;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      // The first row counts as an input whatever it is.
      const SideRow& row = NpuRow(begin + i);
      if (numbers_[i].usable &&
          (i == 0 || IsInput(row) || row.state == dump::RowState::kParameters)) {
        extremes.Add(numbers_[i]);
      }
    }
    for (size_t i = 1; i < numbers_.size() && extremes.any; ++i) {
      if (numbers_[i].usable && NpuRow(begin + i).state == dump::RowState::kOutput) {
        reasons_[i] |= ReasonsOfOutput(extremes, numbers_[i]);
      }
    }
  }

  // A reason holds for an output beside some input of the call if it holds beside the most telling
  // one: looking at every pair would take the square of a call's rows.
  struct Extremes {
    bool any = false;
    std::optional<double> difference;      // the smallest magnitude
    std::optional<double> relative;        // the smallest
    std::optional<double> one_thousandth;  // the largest
    std::optional<double> below_good;      // the largest that is not a good ratio
    std::optional<double> cosine;          // the largest

    void Add(const RowNumbers& in) {
      any = true;
      TakeLess(std::fabs(in.difference), difference);
      TakeLess(RelativeOf(in), relative);
      if (in.one_thousandth) {
        TakeMore(*in.one_thousandth, one_thousandth);
        if (!(*in.one_thousandth > highlight::kGoodInputRatio)) {
          TakeMore(*in.one_thousandth, below_good);
        }
      }
      if (in.cosine) {
        TakeMore(*in.cosine, cosine);
      }
    }

   private:
    // No reason holds beside a NaN.
    static void TakeLess(double value, std::optional<double>& extreme) {
      if (!std::isnan(value) && (!extreme || value < *extreme)) {
        extreme = value;
      }
    }
    static void TakeMore(double value, std::optional<double>& extreme) {
      if (!std::isnan(value) && (!extreme || value > *extreme)) {
        extreme = value;
      }
    }
  };

  static double RelativeOf(const RowNumbers& row) {
    return std::fabs(row.difference /
                     std::max(std::numeric_limits<double>::epsilon(), row.bench_max));
  }

  uint32_t ReasonsOfOutput(const Extremes& in, const RowNumbers& out) const {
    uint32_t reasons = 0;
    if (in.difference && *in.difference <= std::fabs(out.difference) &&
        OrderOfMagnitude(out.difference) - OrderOfMagnitude(*in.difference) >=
            highlight::kErrorGrowthDecades) {
      reasons |= kErrorGrewTenfold;
    }
    if (result_.mode == CompareMode::kStatistics) {
      const double relative_out = RelativeOf(out);
      if (relative_out > highlight::kRelativeError) {
        reasons |= kRelativeErrorLarge;
      } else if (relative_out > highlight::kAppearedRelativeError && in.relative &&
                 *in.relative < highlight::kSmallInputRelativeError) {
        reasons |= kRelativeErrorAppeared;
      }
      return reasons;
    }
    if (out.one_thousandth) {
      // An output that collapsed beside one input may have dropped beside another.
      const bool is_bad = *out.one_thousandth < highlight::kBadOutputRatio;
      if (is_bad && in.one_thousandth && *in.one_thousandth > highlight::kGoodInputRatio) {
        reasons |= kRatioCollapsed;
      }
      const std::optional<double>& before = is_bad ? in.below_good : in.one_thousandth;
      if (before && *before - *out.one_thousandth > highlight::kRatioLoss) {
        reasons |= kRatioDropped;
      }
    }
    if (in.cosine && out.cosine && *in.cosine - *out.cosine > highlight::kCosineLoss) {
      reasons |= kCosineDropped;
    }
    return reasons;
  }

  void Apply(size_t index, uint32_t reasons) {
    if (reasons == 0) {
      return;
    }
    RowResult& row = result_.rows[index];
    row.fill = (reasons & kRedReasons) != 0 ? report::Fill::kRed : report::Fill::kYellow;
    if (row.fill == report::Fill::kRed) {
      reasons &= kRedReasons;
    }
    std::string message(row.message);
    for (const ReasonText& known : reason_texts_) {
      if ((reasons & known.reason) != 0) {
        if (!message.empty()) {
          message += '\n';
        }
        message += known.text;
      }
    }
    row.message = result_.arena->Keep(message);
  }

  const Side& npu_;
  const Side& bench_;
  PairResult& result_;
  const std::vector<ReasonText> reason_texts_ = MakeReasonTexts();
  std::vector<uint32_t> reasons_;  // of the rows of one batch
  std::vector<RowNumbers> numbers_;
};

}  // namespace

void HighlightRows(const Side& npu, const Side& bench, PairResult& result) {
  if (result.mode != CompareMode::kMd5 && !npu.is_debug) {
    Highlighter(npu, bench, result).Run();
  }
}

}  // namespace msprobe::analysis::compare
