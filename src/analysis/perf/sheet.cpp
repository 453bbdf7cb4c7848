#include "src/analysis/perf/sheet.h"

#include <string>
#include <utility>

namespace msprobe::analysis::perf {
namespace {

bool IsRatio(std::string_view name) {
  return name.substr(0, 5) == "Diff " && name.size() >= 10 &&
         name.substr(name.size() - 5) == "Ratio";
}

}  // namespace

report::FormattedTable MakeSheet(std::string_view name, std::span<const SheetColumn> columns,
                                 ColumnRange base, ColumnRange comparison,
                                 const PairOptions& options) {
  report::FormattedTable sheet;
  std::vector<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i) {
    const SheetColumn& column = columns[i];
    names.emplace_back(column.name);
    report::ColumnLayout layout;
    layout.width_characters = column.width_characters;
    layout.format = column.format;
    layout.bold = column.bold;
    const bool of_comparison = i >= comparison.first && i <= comparison.last;
    layout.header = of_comparison ? report::Shade::kYellow : report::Shade::kGreen;
    layout.is_ratio = IsRatio(column.name);
    sheet.columns.push_back(layout);
  }
  sheet.table = report::Table(std::string(name), std::move(names));
  sheet.titles.push_back(
      {base.first, base.last, "Base Profiling: " + options.base.string(), report::Shade::kGreen});
  sheet.titles.push_back({comparison.first, comparison.last,
                          "Comparison Profiling: " + options.comparison.string(),
                          report::Shade::kYellow});
  return sheet;
}

report::Cell TextCells::operator()(profile::TextId id) {
  std::string_view& kept = kept_[id];
  if (kept.data() == nullptr) {
    kept = table_->Keep((*texts_)[id]);
  }
  return report::Cell::Text(kept);
}

report::Cell KeptTexts::operator()(std::string_view text) {
  auto found = kept_.find(text);
  if (found == kept_.end()) {
    found = kept_.insert(table_->Keep(text)).first;
  }
  return report::Cell::Text(*found);
}

}  // namespace msprobe::analysis::perf
