// What the sheets of a comparison have in common: a title over each side's columns, cells that are
// green but for the comparison's, ratios told by their names.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "src/analysis/perf/options.h"
#include "src/profile/common/texts.h"
#include "src/profile/profile.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

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
