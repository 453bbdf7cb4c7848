// What the sheets of a comparison have in common: a title over each side's columns, cells that are
// green but for the comparison's, ratios told by their names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/analysis/perf/options.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// Factors between the units of times: profiles count in nanoseconds, tables show micro- and
// milliseconds.

inline constexpr double kNsPerUs = 1e3;
inline constexpr double kNsPerMs = 1e6;
inline constexpr double kUsPerMs = 1e3;
inline constexpr double kUsPerS = 1e6;
inline constexpr double kMsPerS = 1e3;

// The one rule by which two numbers are set against each other. Sheets are ordered by rounded
// differences, so that rounding in another way than Python does would not only change a last digit
// but move rows.

// As Python's round(value, digits): the nearest decimal of the exact binary value, ties to even.
// Values without decimals, infinities and NaN stay as they are.
double RoundToDigits(double value, int digits);

// Never NaN, so that rows can be sorted by it: what two infinities leave open is 0 and 1.
struct Difference {
  double difference = 0;  // comparison - base, two decimals
  double ratio = 1;       // comparison / base, four decimals; both 0: 1; only base 0: infinite
};
Difference Differ(double base, double comparison);

// The long cells: kernels and allocations of an operator, a line each.

// "sgemm [duration: 12.0]\n"; of an NPU with its task: "MatMul, 1, AI_CORE, [input shapes: ...]
// ...".
void AppendKernelText(const profile::Profile& side, const profile::Kernel& kernel,
                      std::string& out);
// "aten::relu, (1700.060, 1720.060), [duration: 20.0], [size: 128.0]\n".
void AppendAllocationText(const profile::Profile& side, const profile::Allocation& allocation,
                          std::string_view name, std::string& out);

// Collects lines up to what a cell of a workbook can hold: an operator may own millions of kernels.
// For files whose cells have no such limit (`whole`) up to what memory allows.
class DetailText {
 public:
  static constexpr size_t kMaxCharacters = 32767;

  explicit DetailText(bool whole = false) : whole_left_(whole ? kMostWhole : 0) {}

  void Clear() {
    whole_left_ -= std::min(whole_left_, characters_);
    text_.clear();
    characters_ = 0;
  }
  bool full() const { return characters_ >= most(); }
  const std::string& text() const { return text_; }
  // append(out) adds a piece of text, which is cut where the cell is full.
  template <typename Append>
  void Add(const Append& append) {
    if (!full()) {
      const size_t before = text_.size();
      append(text_);
      Count(before);
    }
  }

 private:
  static constexpr size_t kMostWhole = size_t{1} << 29U;  // in all cells of a side

  size_t most() const { return std::max(kMaxCharacters, whole_left_); }
  void Count(size_t from);

  size_t whole_left_;
  std::string text_;
  size_t characters_ = 0;  // of UTF-8
};

// Rows of one side found by their names.

// `Row` has a `name`; of equal names the first row counts. The rows must live as long.
template <typename Row>
class ByName {
 public:
  explicit ByName(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      rows_.emplace(row.name, &row);
    }
  }

  // Null where no row has the name.
  const Row* Find(std::string_view name) const {
    const auto found = rows_.find(name);
    return found == rows_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, const Row*> rows_;
};

struct SheetColumn {
  std::string_view name;
  double width_characters = 20;
  report::NumberFormat format = report::NumberFormat::kGeneral;
  bool bold = false;
};

struct ColumnRange {  // both inclusive
  size_t first = 0;
  size_t last = 0;
};

// An empty sheet whose titles name the two paths of `options`.
report::FormattedTable MakeSheet(std::string_view name, std::span<const SheetColumn> columns,
                                 ColumnRange base, ColumnRange comparison,
                                 const PairOptions& options);

// Text cells of names that occur over and over: each is copied into the table once.
class TextCells {
 public:
  TextCells(const profile::Texts& texts, report::Table& table)
      : texts_(&texts), table_(&table), kept_(texts.size()) {}
  // kNoText: an empty text.
  report::Cell operator()(profile::TextId id);

 private:
  const profile::Texts* texts_;
  report::Table* table_;
  std::vector<std::string_view> kept_;
};

// The same for texts that are made while the table fills, such as call stacks.
class KeptTexts {
 public:
  explicit KeptTexts(report::Table& table) : table_(&table) {}
  report::Cell operator()(std::string_view text);

 private:
  report::Table* table_;
  std::unordered_set<std::string_view> kept_;
};

}  // namespace msprobe::analysis::perf
