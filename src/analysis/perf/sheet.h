// What the sheets have in common. A sheet is one list of columns (name, width, format, member of a
// row) and a struct for its rows; the cells, the title over each side's columns and the colours are
// made from the list. Also here: the rule of differences and ratios, the long cells, and lookups by
// name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
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

// Items by key, in the order in which the keys first appeared.
template <typename Key, typename Item, typename Hash = std::hash<Key>>
class Ordered {
 public:
  // The place of a key's item; a new one is `make()`.
  template <typename Make>
  size_t PlaceOf(const Key& key, const Make& make) {
    const auto [place, is_new] = places_.try_emplace(key, items_.size());
    if (is_new) {
      // Many large items grow by a quarter: twice their room would be half unused.
      constexpr size_t kMany = 4096;
      if (items_.size() >= kMany && items_.size() == items_.capacity()) {
        items_.reserve(items_.size() + items_.size() / 4);
      }
      items_.push_back(make());
    }
    return place->second;
  }
  template <typename Make>
  Item& At(const Key& key, const Make& make) {
    return items_[PlaceOf(key, make)];
  }
  Item& At(const Key& key) {
    return At(key, [] { return Item(); });
  }
  // Null where the key never appeared.
  const Item* Find(const Key& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &items_[found->second];
  }

  Item& operator[](size_t place) { return items_[place]; }
  std::vector<Item>& items() { return items_; }
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
  std::unordered_map<Key, size_t, Hash> places_;
};

// The answer of a test for every name of a profile, asked once each.
template <typename Test>
std::vector<bool> NamesThat(const profile::Texts& texts, const Test& test) {
  std::vector<bool> answers(texts.size());
  for (profile::TextId name = 0; name < answers.size(); ++name) {
    answers[name] = test(texts[name]);
  }
  return answers;
}

// Numbers of the names of two profiles that are equal for equal names: of the base those that it
// has itself, of the comparison the base's where that has the name, else one beyond all of these.
class SharedNames {
 public:
  SharedNames(const profile::Texts& base, const profile::Texts& comparison)
      : base_(base), comparison_(comparison), numbers_(comparison.size(), kUnknown) {}

  // For a name of the comparison; each is looked up once.
  uint32_t operator()(profile::TextId name) {
    uint32_t& number = numbers_[name];
    if (number == kUnknown) {
      const profile::TextId same = base_.Find(comparison_[name]);
      number = same != profile::kNoText || name == profile::kNoText
                   ? same
                   : static_cast<uint32_t>(base_.size()) + name;
    }
    return number;
  }
  // Numbers are below this.
  size_t size() const { return base_.size() + comparison_.size(); }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  const profile::Texts& base_;
  const profile::Texts& comparison_;
  std::vector<uint32_t> numbers_;
};

// A column of a sheet: how it looks, and the member of a row that fills its cells. Texts are copied
// into the table; cells are taken as they are; kRowNumber counts the rows from 1.
struct RowNumber {};
inline constexpr RowNumber kRowNumber;

template <typename Row>
struct SheetColumn {
  std::string_view name;
  double width_characters;
  report::NumberFormat format;
  std::variant<RowNumber, double Row::*, int64_t Row::*, std::string_view Row::*,
               std::string Row::*, report::Cell Row::*>
      member;
  bool bold = false;
};

// The columns of a sheet: some in front, those of a side once for the base and once for the
// comparison, some behind. A Row has `std::array<Side, 2> sides`.
template <typename Row>
struct SheetColumns {
  using Side = typename decltype(Row::sides)::value_type;

  std::vector<SheetColumn<Row>> front;
  std::vector<SheetColumn<Side>> side;
  std::vector<SheetColumn<Row>> back;
  // Widths of the comparison's columns where they are not the base's; their names say then whose
  // they are.
  std::vector<double> comparison_widths = {};
};

// A sheet without rows, whose titles name the two paths of `options`.
report::FormattedTable MakeSheet(std::string_view name, std::vector<std::string> columns,
                                 std::vector<report::ColumnLayout> layouts, size_t front_columns,
                                 size_t side_columns, const PairOptions& options);

template <typename Row>
class Sheet {
 public:
  Sheet(std::string_view name, SheetColumns<Row> columns, const PairOptions& options)
      : columns_(std::move(columns)) {
    std::vector<std::string> names;
    std::vector<report::ColumnLayout> layouts;
    const auto add = [&](const auto& added) {
      for (const auto& column : added) {
        names.emplace_back(column.name);
        layouts.push_back({column.width_characters, column.format, column.bold});
      }
    };
    add(columns_.front);
    add(columns_.side);
    add(columns_.side);
    add(columns_.back);
    const size_t front = columns_.front.size();
    const size_t side = columns_.side.size();
    for (size_t i = 0; i < columns_.comparison_widths.size(); ++i) {
      names[front + i].insert(0, "Base ");
      names[front + side + i].insert(0, "Comparison ");
      layouts[front + side + i].width_characters = columns_.comparison_widths[i];
    }
    sheet_ = MakeSheet(name, std::move(names), std::move(layouts), front, side, options);
  }

  report::FormattedTable& formatted() { return sheet_; }
  report::Table& table() { return sheet_.table; }
  void Add(const Row& row) {
    cells_.clear();
    AddCells(row, columns_.front);
    for (const auto& side : row.sides) {
      AddCells(side, columns_.side);
    }
    AddCells(row, columns_.back);
    sheet_.table.AddRow(cells_);
  }
  report::FormattedTable Take() { return std::move(sheet_); }

 private:
  template <typename Part>
  void AddCells(const Part& part, const std::vector<SheetColumn<Part>>& columns) {
    for (const SheetColumn<Part>& column : columns) {
      cells_.push_back(
          std::visit([&](auto member) { return CellOf(part, member); }, column.member));
    }
  }
  template <typename Part, typename Member>
  report::Cell CellOf(const Part& part, Member member) {
    if constexpr (std::is_same_v<Member, RowNumber>) {
      return report::Cell::Integer(static_cast<int64_t>(sheet_.table.row_count()) + 1);
    } else if constexpr (std::is_same_v<Member, report::Cell Part::*>) {
      return part.*member;
    } else if constexpr (std::is_same_v<Member, double Part::*>) {
      return report::Cell::Number(part.*member);
    } else if constexpr (std::is_same_v<Member, int64_t Part::*>) {
      return report::Cell::Integer(part.*member);
    } else {
      return sheet_.table.KeepText(part.*member);
    }
  }

  SheetColumns<Row> columns_;
  report::FormattedTable sheet_;
  std::vector<report::Cell> cells_;  // of one row
};

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
