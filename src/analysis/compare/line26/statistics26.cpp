#include "src/analysis/compare/line26/statistics26.h"

#include <cmath>

#include "src/analysis/compare/distance.h"
#include "src/analysis/compare/line26/value_text.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

enum class ValueKind : uint8_t { kNumber, kNan, kInf, kNegativeInf, kDevice, kMissing, kOther };

ValueKind KindOfNumber(double number) {
  if (std::isnan(number)) {
    return ValueKind::kNan;
  }
  if (std::isinf(number)) {
    return number > 0 ? ValueKind::kInf : ValueKind::kNegativeInf;
  }
  return ValueKind::kNumber;
}

ValueKind KindOfText(std::string_view text) {
  if (text == kNoValue) {
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
  if (stat.is_numeric()) {
    return KindOfNumber(stat.number);
  }
  return stat.kind == StatKind::kText ? KindOfText(stat.text) : ValueKind::kOther;
}

// The word for a pair that is no pair of numbers; the same for difference and relative error.
std::string_view PairWord(ValueKind npu, ValueKind bench) {
  const auto either = [&](ValueKind kind) { return npu == kind || bench == kind; };
  if (either(ValueKind::kMissing) || (npu == ValueKind::kDevice && bench == ValueKind::kDevice)) {
    return kNoValue;
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

void CompareStatistics26(const SideRow& npu, const SideRow& bench, RowResult& result) {
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

}  // namespace msprobe::analysis::compare
