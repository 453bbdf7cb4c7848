#include "src/report/document_page.h"

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace msprobe::report {
namespace {

struct BlockAdder {
  AnswerPage& page;

  void operator()(const List& list) const {
    if (!list.items.empty()) {
      page.AddList(list);
    }
  }
  void operator()(const Text& text) const { page.AddText(text.text, text.tone); }
  void operator()(const DataTable& table) const {
    if (table.table.row_count() > 0) {
      page.AddTable(table.table, table.amounts);
    }
  }
  void operator()(const Bars& bars) const {
    std::vector<AnswerPage::Bar> shown;
    for (const Bar& bar : bars.items) {
      shown.push_back({bar.label, {bar.value}});
    }
    page.AddBars({bars.unit}, shown, bars.unit);
  }
  void operator()(const Curves& curves) const {
    if (!curves.items.empty() && !curves.positions.empty()) {
      page.AddCurves(curves);
    }
  }
};

// Whether anything of a section would be seen.
bool IsEmpty(const Section& section) {
  for (const Block& block : section.blocks) {
    const bool empty = std::visit(
        [](const auto& part) {
          using Part = std::decay_t<decltype(part)>;
          if constexpr (std::is_same_v<Part, Text>) {
            return part.text.empty();
          } else if constexpr (std::is_same_v<Part, DataTable>) {
            return part.table.row_count() == 0;
          } else {
            return part.items.empty();
          }
        },
        block);
    if (!empty) {
      return false;
    }
  }
  return true;
}

}  // namespace

AnswerPage PageOf(const Document& document, const std::filesystem::path& path) {
  AnswerPage page(document.command);
  page.SetVerdict(document.verdict);
  for (const std::string& next : document.next) {
    page.AddNext(next);
  }
  for (const std::string& warning : document.warnings) {
    page.AddWarning(warning);
  }
  for (const Section& section : document.sections) {
    if (IsEmpty(section)) {
      continue;
    }
    page.BeginSection(section.title);
    for (const Block& block : section.blocks) {
      std::visit(BlockAdder{page}, block);
    }
  }
  page.AddFiles(document.files, path);
  return page;
}

}  // namespace msprobe::report
