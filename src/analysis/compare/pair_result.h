// The result of comparing two jsons row by row, before a table is made of it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/side.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

enum class CompareMode : uint8_t { kRealData, kStatistics, kMd5 };
constexpr std::string_view CompareModeName(CompareMode mode) {
  return mode == CompareMode::kRealData ? "real data"
         : mode == CompareMode::kMd5    ? "md5"
                                        : "statistics";
}

inline constexpr std::string_view kNotApplicable = "N/A";  // a cell without a value

inline constexpr uint32_t kNoRow = UINT32_MAX;

enum class MatchOutcome : uint8_t { kMatched, kNoBenchRow, kShapeDiffers, kDTypeDiffers };

struct RowPair {
  uint32_t npu = 0;         // index into Side::rows
  uint32_t bench = kNoRow;  // kNoRow: unmatched
  MatchOutcome outcome = MatchOutcome::kMatched;
};

// A metric as a cell will show it.
enum class MetricKind : uint8_t { kNumber, kText, kPercent };
struct Metric {
  MetricKind kind = MetricKind::kText;

  // kNumber, kPercent (already times 100)
  double number() const { return As<double>(); }
  // "N/A", "Nan", "unsupported", ...
  std::string_view text() const {
    return kind == MetricKind::kText ? std::string_view(As<const char*>(), text_bytes_)
                                     : std::string_view();
  }

  static Metric Number(double value) { return Metric(MetricKind::kNumber, value); }
  static Metric Percent(double value) { return Metric(MetricKind::kPercent, value); }
  // A word in static storage, of no more than 255 bytes.
  static Metric Text(std::string_view word) {
    Metric metric(MetricKind::kText, word.data());
    metric.text_bytes_ = static_cast<uint8_t>(word.size());
    return metric;
  }

  Metric() : Metric(MetricKind::kText, static_cast<const char*>(nullptr)) {}

 private:
  template <typename Value>
  Metric(MetricKind own_kind, Value value) : kind(own_kind) {
    static_assert(sizeof(value) == sizeof(value_));
    std::memcpy(value_, &value, sizeof(value));
  }
  template <typename Value>
  Value As() const {
    Value value;
    std::memcpy(&value, value_, sizeof(value));
    return value;
  }

  // Bytes, so that the metrics of a row, of which a result has a million, stand without gaps.
  uint8_t text_bytes_ = 0;
  unsigned char value_[8];
};
static_assert(sizeof(Metric) == 10);

// Metric slots per mode. Columns and headers: result_table.cpp.
enum RealMetric : uint8_t {
  kCosine,
  kEucDist,
  kMaxAbsErr,
  kMaxRelativeErr,
  kOneThousandth,
  kFiveThousandths
};
enum StatMetric : uint8_t {
  kMaxDiff,
  kMinDiff,
  kMeanDiff,
  kNormDiff,
  kMaxRel,
  kMinRel,
  kMeanRel,
  kNormRel
};
inline constexpr size_t kMetricSlots = 8;

enum class Verdict : uint8_t {
  kEmpty,  // statistics: nothing to complain about
  kYes,    // real data: accuracy reached
  kNo,
  kWarning,    // statistics
  kPass,       // md5
  kDifferent,  // md5
  kUnmatched,  // real data: shapes differ
  kNone,       // real data: no metrics
  kNotAvailable,
};
inline constexpr size_t kVerdictCount = 9;

// As the table of v8 spells it.
constexpr std::string_view VerdictText(Verdict verdict) {
  constexpr std::array<std::string_view, kVerdictCount> kTexts = {
      "", "Yes", "No", "Warning", "pass", "Different", "Unmatched", "None", kNotApplicable};
  return kTexts[static_cast<size_t>(verdict)];
}

// As that of v26 does: "pass", "warning", "error".
constexpr std::string_view ResultWord(Verdict verdict) {
  return verdict == Verdict::kNo || verdict == Verdict::kDifferent ? "error"
         : verdict == Verdict::kWarning                            ? "warning"
                                                                   : "pass";
}

// How far apart a row's two sides really are, for finding where a divergence starts. Verdict
// thresholds play no part.
struct Distance {
  bool comparable = false;         // both sides had values
  bool identical = false;          // equal bits, checksums or statistics
  bool nonfinite_differs = false;  // NaN or inf on one side only
  // Real data: ||n-b|| / ||b|| (||n|| when b is all zero). Statistics: the largest |n-b| /
  // max(|Max|, |Min|, RMS scale) of the four.
  double relative = 0;
  double absolute = 0;  // largest |n - b|
};

struct RowResult {
  RowPair pair;
  Verdict verdict = Verdict::kEmpty;
  report::Fill fill = report::Fill::kNone;
  std::array<Metric, kMetricSlots> metrics;
  std::string_view message;  // kept by PairResult
  Distance distance;
};

// A cell of a column that the user defined.
struct UserCell {
  enum class Kind : uint8_t { kText, kNumber, kInteger };
  Kind kind = Kind::kText;
  double number = 0;
  int64_t integer = 0;
  std::string_view text = "unsupported";  // static, or kept by PairResult
  std::string own_text = {};              // until it is kept there
};

// A bench row without partner that the table shows, too.
struct BenchOnlyRow {
  uint32_t before = 0;  // index into PairResult::rows: the row it stands in front of
  uint32_t bench = 0;   // index into Side::rows
};

// One json against one json.
struct PairResult {
  CompareMode mode = CompareMode::kStatistics;
  Edition edition = Edition::kV8;
  std::vector<RowResult> rows;  // in NPU order
  uint64_t bench_only_count = 0;
  std::vector<BenchOnlyRow> shown_bench_only;  // training against inference; ascending
  uint64_t shape_mismatch_count = 0;
  uint64_t dtype_mismatch_count = 0;
  uint64_t compared_bytes = 0;    // tensor bytes read on both sides
  uint64_t unreadable_count = 0;  // rows that name two files of which one cannot be read
  // Mean and Norm of a side were made of those of several ranks: equal values may differ in their
  // last digits.
  bool sums_are_joined = false;
  // How each row's pieces are spread, by row of the sides, where ranks were joined.
  std::vector<std::string_view> npu_layouts;
  std::vector<std::string_view> bench_layouts;
  // By what each row of the test side was paired, where the sides name their modules differently.
  std::vector<std::string_view> paired_by;
  std::string_view first_unreadable;  // the message of the first of them, in row order
  // The column Relation by row, kept by the arena; where layouts differ. Empty: no such column.
  std::vector<std::string_view> relations;
  // Behind the metrics of tensors, by row; empty: none.
  std::vector<std::string> user_columns;
  std::vector<std::vector<UserCell>> user_cells;
  std::unique_ptr<report::TextArena> arena = std::make_unique<report::TextArena>();
};

}  // namespace msprobe::analysis::compare
