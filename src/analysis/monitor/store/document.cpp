#include "src/analysis/monitor/store/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor {

report::Document MakeDocument(std::span<const StoreResult> stores) {
  report::Document document;
  document.command = "monitor csv2db";
  uint64_t rows = 0;
  size_t unread_files = 0;
  std::vector<std::string> texts;
  for (const StoreResult& store : stores) {
    rows += store.rows;
    unread_files += store.unread_files;
    texts.push_back(fmt::format("{}: {} of {} and {}", store.file.filename().string(),
                                base::Plural(store.rows, "row"), base::Plural(store.names, "name"),
                                base::Plural(store.ranks, "rank")));
    document.sections.push_back(
        internal::FiguresSection({{"rows", static_cast<double>(store.rows)},
                                  {"names", static_cast<double>(store.names)},
                                  {"ranks", static_cast<double>(store.ranks)}}));
    document.sections.back().title = store.file.filename().string();
    document.files.push_back({store.file});
    document.warnings.insert(document.warnings.end(), store.warnings.begin(), store.warnings.end());
  }
  document.verdict = internal::Written(base::Join(texts, "; "), rows, "rows");
  internal::TellUnread(unread_files, document.verdict);
  return document;
}

}  // namespace msprobe::analysis::monitor
