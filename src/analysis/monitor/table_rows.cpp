#include "src/analysis/monitor/table_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::monitor::internal {
namespace {

constexpr size_t kMostColumns = 256;
constexpr size_t kShownText = 60;  // of a broken cell
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The cells of one line. False when a quote does not end or text follows it. `joined` keeps texts
// whose quotes were doubled and must not move.
bool SplitLine(std::string_view line, std::vector<std::string_view>& cells,
               std::vector<std::string>& joined) {
  cells.clear();
  joined.clear();
  joined.reserve(4);
  size_t at = 0;
  while (true) {
    if (at < line.size() && line[at] == '"') {
      size_t end = line.find('"', at + 1);
      if (end == std::string_view::npos) {
        return false;
      }
      if (end + 1 < line.size() && line[end + 1] == '"') {
        std::string text;
        size_t begin = at + 1;
        while (end + 1 < line.size() && line[end + 1] == '"') {
          text += line.substr(begin, end + 1 - begin);
          begin = end + 2;
          end = line.find('"', begin);
          if (end == std::string_view::npos) {
            return false;
          }
        }
        text += line.substr(begin, end - begin);
        if (joined.size() == joined.capacity()) {
          return false;  // no table of a monitor has as many quoted texts
        }
        joined.push_back(std::move(text));
        cells.push_back(joined.back());
      } else {
        cells.push_back(line.substr(at + 1, end - at - 1));
      }
      at = end + 1;
      if (at < line.size() && line[at] != ',') {
        return false;
      }
    } else {
      const size_t end = std::min(line.find(',', at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end;
    }
    if (at >= line.size()) {
      return true;
    }
    ++at;  // the comma
    if (cells.size() > kMostColumns) {
      return false;
    }
  }
}

std::optional<double> CellNumber(std::string_view cell) {
  double value = 0;
  const char* end = cell.data() + cell.size();
  const std::from_chars_result read = std::from_chars(cell.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end) {
    return value;
  }
  if (cell.empty() || cell == "None") {
    return kNone;
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

std::string Shown(std::string_view text) {
  return base::Printable(text.substr(0, kShownText)) + (text.size() > kShownText ? "..." : "");
}

// Reads one line after another into `rows`.
class RowReader {
 public:
  RowReader(const TableHead& head, TableRows& rows) : head_(head), rows_(rows) {
    bad_cells_.resize(head.ops.size());
  }

  void Read(std::string_view line);
  // Complains about cells that are no numbers, once per column.
  void Finish();

 private:
  void Complain(uint64_t line, std::string text);
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
  std::vector<std::string_view> cells_;
  std::vector<std::string> joined_;
  std::vector<BadCells> bad_cells_;
  bool went_back_ = false;
};

void RowReader::Complain(uint64_t line, std::string text) {
  if (rows_.complaints.size() < TableRows::kMostComplaints) {
    rows_.complaints.push_back({line, std::move(text)});
  } else {
    ++rows_.more_complaints;
  }
}

uint32_t RowReader::NameIndex(int32_t stage, int32_t micro_step, std::string_view name) {
  const auto found = index_.find(Key{name, stage, micro_step});
  if (found != index_.end()) {
    return found->second;
  }
  const auto index = static_cast<uint32_t>(rows_.names.size());
  if (!joined_.empty()) {  // the name may be a text put together for this line only
    owned_names_.push_back(std::make_unique<std::string>(name));
    name = *owned_names_.back();
  }
  rows_.names.push_back({stage, micro_step, std::string(name), 0});
  index_.emplace(Key{name, stage, micro_step}, index);
  return index;
}

void RowReader::Read(std::string_view line) {
  const uint64_t line_number = ++rows_.lines;
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  if (line.empty()) {
    return;
  }
  if (!SplitLine(line, cells_, joined_)) {
    Complain(line_number, "a quoted cell does not end: " + Shown(line));
    return;
  }
  if (cells_.size() != head_.columns) {
    Complain(line_number,
             fmt::format("{} where the head has {}: {}", base::Plural(cells_.size(), "cell"),
                         head_.columns, Shown(line)));
    return;
  }
  const auto cell = [this](int column) { return cells_[static_cast<size_t>(column)]; };
  int64_t step = 0;
  int32_t stage = 0;
  int32_t micro_step = -1;
  if (!CellInteger(cell(head_.step), step)) {
    Complain(line_number, "the step is no whole number: " + Shown(cell(head_.step)));
    return;
  }
  if (head_.stage != TableHead::kNoColumn && !CellInteger(cell(head_.stage), stage)) {
    Complain(line_number, "vpp_stage is no whole number: " + Shown(cell(head_.stage)));
    return;
  }
  if (head_.micro_step != TableHead::kNoColumn &&
      !(CellInteger(cell(head_.micro_step), micro_step) && micro_step >= 0)) {
    Complain(line_number, "micro_step is no count: " + Shown(cell(head_.micro_step)));
    return;
  }
  if (!went_back_ && !rows_.steps.empty() && step < rows_.steps.back()) {
    went_back_ = true;
    Complain(line_number, fmt::format("the steps go back from {} to {}: was the training started "
                                      "again?",
                                      rows_.steps.back(), step));
  }
  const uint32_t name = NameIndex(stage, micro_step, cell(head_.name));
  ++rows_.names[name].rows;
  rows_.name_of.push_back(name);
  rows_.steps.push_back(step);
  for (size_t column = 0; column < cells_.size(); ++column) {
    if (head_.op_of[column] == TableHead::kNoColumn) {
      continue;
    }
    const auto op = static_cast<size_t>(head_.op_of[column]);
    const std::optional<double> number = CellNumber(cells_[column]);
    rows_.values.push_back(number.value_or(kNone));
    if (!number.has_value() && ++bad_cells_[op].count == 1) {
      bad_cells_[op].first_line = line_number;
      bad_cells_[op].text = Shown(cells_[column]);
    }
  }
}

void RowReader::Finish() {
  for (size_t op = 0; op < bad_cells_.size(); ++op) {
    const BadCells& bad = bad_cells_[op];
    if (bad.count > 0) {
      Complain(bad.first_line,
               fmt::format("{} in column {} is no number ({}); taken as nan", bad.text,
                           head_.ops[op], base::Plural(bad.count, "such cell")));
    }
  }
}

}  // namespace

Result<TableHead> ReadTableHead(std::string_view line, const std::vector<std::string>& wanted) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  std::vector<std::string_view> cells;
  std::vector<std::string> joined;
  TableHead head;
  if (!SplitLine(line, cells, joined)) {
    return BadFormatError("its first line is no head of a table: " + Shown(line));
  }
  head.columns = cells.size();
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view cell = cells[i];
    int* place = cell == "vpp_stage"    ? &head.stage
                 : cell == "name"       ? &head.name
                 : cell == "step"       ? &head.step
                 : cell == "micro_step" ? &head.micro_step
                                        : nullptr;
    head.op_of.push_back(TableHead::kNoColumn);
    if (place != nullptr) {
      *place = static_cast<int>(i);
    } else if (cell != "shape" && cell != "dtype" && !cell.empty() &&
               (wanted.empty() || std::find(wanted.begin(), wanted.end(), cell) != wanted.end()) &&
               std::find(head.ops.begin(), head.ops.end(), cell) == head.ops.end()) {
      head.op_of.back() = static_cast<int>(head.ops.size());
      head.ops.emplace_back(cell);
    }
  }
  if (head.name == TableHead::kNoColumn || head.step == TableHead::kNoColumn) {
    return BadFormatError("its first line has no columns name and step: " + Shown(line));
  }
  return head;
}

TableRows ReadTableRows(std::string_view text, const TableHead& head) {
  TableRows rows;
  RowReader reader(head, rows);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    reader.Read(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  reader.Finish();
  return rows;
}

}  // namespace msprobe::monitor::internal
