#include "src/analysis/monitor/common/table_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "src/base/csv.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor::internal {
namespace {

// The monitor writes a dozen statistics. Each is a column of numbers of every series.
constexpr size_t kMostColumns = 64;
constexpr size_t kShownText = 60;  // of a broken cell
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Rows end with their lines, but for names with a line end in quotes: a file can be read in pieces,
// and what a killed training left half written spoils no other row.
constexpr base::CsvDialect kDialect = {.row_end = base::CsvDialect::RowEnd::kEveryLineFeed,
                                       .most_fields = kMostColumns};

bool IsNothing(std::string_view cell) { return cell.empty() || cell == "nan" || cell == "None"; }

std::optional<double> CellNumber(std::string_view cell) {
  double value = 0;
  const char* end = cell.data() + cell.size();
  const std::from_chars_result read = std::from_chars(cell.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end) {
    return value;
  }
  if (IsNothing(cell)) {
    return kNan;
  }
  if (cell == "True" || cell == "False") {
    return cell == "True" ? 1.0 : 0.0;
  }
  return base::ParseDouble(cell);
}

template <typename Number>
bool CellInteger(std::string_view cell, Number& value) {
  const char* end = cell.data() + cell.size();
  const std::from_chars_result read = std::from_chars(cell.data(), end, value);
  return read.ec == std::errc() && read.ptr == end;
}

// "[2, 0, 4]"
bool HasNoElements(std::string_view shape) {
  for (size_t at = shape.find('0'); at != std::string_view::npos; at = shape.find('0', at + 1)) {
    const bool begins = at > 0 && (shape[at - 1] == '[' || shape[at - 1] == ' ');
    if (begins && at + 1 < shape.size() && (shape[at + 1] == ',' || shape[at + 1] == ']')) {
      return true;
    }
  }
  return false;
}

std::string Shown(std::string_view text) {
  return base::Printable(text.substr(0, kShownText)) + (text.size() > kShownText ? "..." : "");
}

// Reads one row of `text` after another into `rows`.
class RowReader {
 public:
  RowReader(const TableHead& head, std::string_view text, TableRows& rows)
      : head_(head), rows_(rows), tokenizer_(text, kDialect) {
    bad_cells_.resize(head.ops.size());
  }

  void Read();

 private:
  void TakeRow();
  // Whether the NaN of a row are of no tensor, or of one without elements.
  bool IsOfNothing(std::span<const std::string_view> cells) const;
  // Reports cells that are not numbers, once per column.
  void Finish();
  void Report(uint64_t line, std::string text);
  uint32_t NameIndex(int32_t stage, int32_t micro_step, std::string_view name);

  struct Key {
    std::string_view name;
    int32_t stage;
    int32_t micro_step;
    bool operator==(const Key& other) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<std::string_view>()(key.name) ^
             (static_cast<size_t>(static_cast<uint32_t>(key.stage)) * 0x9E3779B97F4A7C15U) ^
             (static_cast<size_t>(static_cast<uint32_t>(key.micro_step)) * 0xC2B2AE3D27D4EB4FU);
    }
  };
  struct BadCells {
    uint64_t first_line = 0;
    uint64_t count = 0;
    std::string text;
  };

  const TableHead& head_;
  TableRows& rows_;
  std::unordered_map<Key, uint32_t, KeyHash> index_;  // views into the text, or into owned_names_
  std::vector<std::unique_ptr<std::string>> owned_names_;
  base::CsvTokenizer tokenizer_;
  std::vector<BadCells> bad_cells_;
  bool went_back_ = false;
};

void RowReader::Report(uint64_t line, std::string text) {
  if (rows_.diagnostics.size() < TableRows::kMostDiagnostics) {
    rows_.diagnostics.push_back({line, std::move(text)});
  } else {
    ++rows_.more_diagnostics;
  }
}

uint32_t RowReader::NameIndex(int32_t stage, int32_t micro_step, std::string_view name) {
  const auto found = index_.find(Key{name, stage, micro_step});
  if (found != index_.end()) {
    return found->second;
  }
  const auto index = static_cast<uint32_t>(rows_.names.size());
  if (tokenizer_.has_copies()) {  // the name may be a text put together for this row only
    owned_names_.push_back(std::make_unique<std::string>(name));
    name = *owned_names_.back();
  }
  rows_.names.push_back({stage, micro_step, std::string(name), 0});
  index_.emplace(Key{name, stage, micro_step}, index);
  return index;
}

void RowReader::Read() {
  using Row = base::CsvTokenizer::Row;
  for (Row row = tokenizer_.Next(); row != Row::kEnd; row = tokenizer_.Next()) {
    rows_.lines = tokenizer_.next_line() - 1;
    if (row != Row::kFields) {
      Report(tokenizer_.line(), "unterminated quoted cell: " + Shown(tokenizer_.row_text()));
    } else if (!tokenizer_.row_text().empty()) {
      TakeRow();
    }
  }
  Finish();
}

void RowReader::TakeRow() {
  const uint64_t line_number = tokenizer_.line();
  const std::span<const std::string_view> cells = tokenizer_.fields();
  if (tokenizer_.field_count() != head_.columns) {
    Report(line_number, fmt::format("{} where the header has {}: {}",
                                    base::Plural(tokenizer_.field_count(), "cell"), head_.columns,
                                    Shown(tokenizer_.row_text())));
    return;
  }
  const auto cell = [cells](int column) { return cells[static_cast<size_t>(column)]; };
  int64_t step = 0;
  int32_t stage = 0;
  int32_t micro_step = -1;
  if (!CellInteger(cell(head_.step), step)) {
    Report(line_number, "the step is not an integer: " + Shown(cell(head_.step)));
    return;
  }
  if (head_.stage != TableHead::kNoColumn && !CellInteger(cell(head_.stage), stage)) {
    Report(line_number, "vpp_stage is not an integer: " + Shown(cell(head_.stage)));
    return;
  }
  if (head_.micro_step != TableHead::kNoColumn &&
      !(CellInteger(cell(head_.micro_step), micro_step) && micro_step >= 0)) {
    Report(line_number,
           "micro_step is not a non-negative integer: " + Shown(cell(head_.micro_step)));
    return;
  }
  if (!went_back_ && !rows_.steps.empty() && step < rows_.steps.back()) {
    went_back_ = true;
    Report(line_number, fmt::format("steps decrease from {} to {}: was the training restarted?",
                                    rows_.steps.back(), step));
  }
  const uint32_t name = NameIndex(stage, micro_step, cell(head_.name));
  ++rows_.names[name].rows;
  rows_.name_of.push_back(name);
  rows_.steps.push_back(step);
  std::optional<bool> is_of_nothing;  // looked at where it matters
  for (size_t column = 0; column < cells.size(); ++column) {
    if (head_.op_of[column] == TableHead::kNoColumn) {
      continue;
    }
    const auto op = static_cast<size_t>(head_.op_of[column]);
    const std::optional<double> number = CellNumber(cells[column]);
    double value = number.value_or(kNan);
    if (number.has_value() && std::isnan(value)) {
      is_of_nothing = is_of_nothing.has_value() ? is_of_nothing : IsOfNothing(cells);
      const bool has_none = head_.ops[op] == "dynamic_range" ||
                            (head_.ops[op] == "id" && head_.shape != TableHead::kNoColumn &&
                             cell(head_.shape) != "[]");
      value = *is_of_nothing || has_none ? kNoNumber : value;
    }
    rows_.values.push_back(value);
    if (!number.has_value() && ++bad_cells_[op].count == 1) {
      bad_cells_[op].first_line = line_number;
      bad_cells_[op].text = Shown(cells[column]);
    }
  }
}

bool RowReader::IsOfNothing(std::span<const std::string_view> cells) const {
  const auto cell = [cells](int column) { return cells[static_cast<size_t>(column)]; };
  if (head_.shape != TableHead::kNoColumn && HasNoElements(cell(head_.shape))) {
    return true;
  }
  // A collective has numbers but neither shape nor dtype, hence all cells.
  for (size_t column = 0; head_.tells_absence && column < cells.size(); ++column) {
    const auto at = static_cast<int>(column);
    const bool is_key =
        at == head_.stage || at == head_.name || at == head_.step || at == head_.micro_step;
    if (!is_key && !IsNothing(cells[column])) {
      return false;
    }
  }
  return head_.tells_absence;
}

void RowReader::Finish() {
  for (size_t op = 0; op < bad_cells_.size(); ++op) {
    const BadCells& bad = bad_cells_[op];
    if (bad.count > 0) {
      Report(bad.first_line,
             fmt::format("{} in column {} is not a number ({}); taken as nan", bad.text,
                         head_.ops[op], base::Plural(bad.count, "such cell")));
    }
  }
}

}  // namespace

Result<TableHead> ReadTableHead(std::string_view line, const std::vector<std::string>& wanted) {
  base::CsvTokenizer tokenizer(base::WithoutByteOrderMark(line), kDialect);
  const base::CsvTokenizer::Row row = tokenizer.Next();
  const std::span<const std::string_view> cells = tokenizer.fields();
  const bool is_broken =
      row == base::CsvTokenizer::Row::kOpenQuote || row == base::CsvTokenizer::Row::kTextAfterQuote;
  if (!is_broken && tokenizer.field_count() > kMostColumns) {
    return BadFormatError(
        fmt::format("its first line names {} columns; a table of the monitor has "
                    "{} at most",
                    tokenizer.field_count(), kMostColumns));
  }
  if (is_broken) {
    return BadFormatError("its first line is not a table header: " + Shown(tokenizer.row_text()));
  }
  TableHead head;
  head.columns = cells.size();
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view cell = cells[i];
    int* place = cell == "vpp_stage"    ? &head.stage
                 : cell == "name"       ? &head.name
                 : cell == "step"       ? &head.step
                 : cell == "micro_step" ? &head.micro_step
                 : cell == "shape"      ? &head.shape
                                        : nullptr;
    head.op_of.push_back(TableHead::kNoColumn);
    head.tells_absence |= cell == "shape" || cell == "dtype" || cell == "nans";
    if (place != nullptr) {
      *place = static_cast<int>(i);
    } else if (cell != "dtype" && !cell.empty() &&
               (wanted.empty() || std::find(wanted.begin(), wanted.end(), cell) != wanted.end()) &&
               std::find(head.ops.begin(), head.ops.end(), cell) == head.ops.end()) {
      head.op_of.back() = static_cast<int>(head.ops.size());
      head.ops.emplace_back(cell);
    }
  }
  if (head.name == TableHead::kNoColumn || head.step == TableHead::kNoColumn) {
    return BadFormatError("its first line has no columns name and step: " +
                          Shown(tokenizer.row_text()));
  }
  return head;
}

bool BeginsWithRow(std::string_view text, const TableHead& head) {
  base::CsvTokenizer tokenizer(text, kDialect);
  const base::CsvTokenizer::Row row = tokenizer.Next();
  int64_t number = 0;
  const auto is_whole = [&](int column) {
    return column == TableHead::kNoColumn ||
           CellInteger(tokenizer.fields()[static_cast<size_t>(column)], number);
  };
  return row == base::CsvTokenizer::Row::kFields && tokenizer.field_count() == head.columns &&
         is_whole(head.step) && is_whole(head.stage);
}

TableRows ReadTableRows(std::string_view text, const TableHead& head) {
  TableRows rows;
  RowReader(head, text, rows).Read();
  return rows;
}

}  // namespace msprobe::analysis::monitor::internal

namespace msprobe::analysis::monitor {
namespace {

constexpr double kDeviationsPerMad = 1.4826;  // of normally distributed values
constexpr double kSmallestShare = 1e-3;       // of the median, see the header
constexpr double kSpreadOfZeros = 1e-6;       // where all else is 0: six decimals, as written
constexpr int kMostDigits = 15;               // beyond, numbers are not rounded
constexpr size_t kFewestValues = 3;

struct Usual {
  double median = 0;
  double spread = 0;
};

double UpperMedian(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Replaces the values by their distances from the median.
Usual UsualOf(std::vector<double>& values, double unit) {
  Usual usual;
  usual.median = UpperMedian(values);
  for (double& value : values) {
    value = std::abs(value - usual.median);
  }
  usual.spread = std::max(
      {kDeviationsPerMad * UpperMedian(values), kSmallestShare * std::abs(usual.median), unit});
  usual.spread = usual.spread > 0 ? usual.spread : kSpreadOfZeros;
  return usual;
}

void KeepFinite(std::span<const double> values, std::vector<double>& out) {
  out.clear();
  std::copy_if(values.begin(), values.end(), std::back_inserter(out),
               [](double value) { return std::isfinite(value); });
}

}  // namespace

void RoundingSeen::Take(double value) {
  constexpr double kExactBelow = 4503599627370496.0;  // 2^52: units are whole there
  while (digits_ <= kMostDigits && std::abs(value * scale_) < kExactBelow &&
         std::rint(value * scale_) / scale_ != value) {
    scale_ = std::pow(10.0, ++digits_);
  }
}

double RoundingSeen::unit() const { return digits_ <= kMostDigits ? 1 / scale_ : 0; }

SeriesScore ScoreSeries(std::span<const double> values, std::vector<double>& scratch, double unit) {
  SeriesScore result;
  KeepFinite(values, scratch);
  if (scratch.size() < values.size()) {
    const auto is_bad = [](double value) { return !std::isfinite(value) && !IsNoNumber(value); };
    result.non_finite = static_cast<uint64_t>(std::count_if(values.begin(), values.end(), is_bad));
    result.first_non_finite =
        static_cast<size_t>(std::find_if(values.begin(), values.end(), is_bad) - values.begin());
  }
  if (scratch.size() < kFewestValues) {
    return result;
  }
  const Usual usual = UsualOf(scratch, unit);
  for (size_t i = 0; i < values.size(); ++i) {
    const double score = std::abs(values[i] - usual.median) / usual.spread;
    if (std::isfinite(values[i]) && score > result.score) {
      result.score = score;
      result.at = i;
    }
  }
  return result;
}

double ScoreAgainst(double value, std::span<const double> history, std::vector<double>& scratch,
                    double unit) {
  KeepFinite(history, scratch);
  if (!std::isfinite(value) || scratch.size() < kFewestValues) {
    return 0;
  }
  const Usual usual = UsualOf(scratch, unit);
  return std::abs(value - usual.median) / usual.spread;
}

}  // namespace msprobe::analysis::monitor
