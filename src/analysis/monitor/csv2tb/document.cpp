#include "src/analysis/monitor/csv2tb/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/analysis/monitor/common/document_parts.h"
#include "src/base/strings.h"

namespace msprobe::analysis::monitor {

report::Document MakeDocument(const Csv2TbResult& result) {
  report::Document document;
  document.command = "monitor csv2tb";
  document.verdict = internal::Written(
      fmt::format("{} of {} in {}", base::Plural(result.scalars, "number"),
                  base::Plural(result.ranks, "rank"), base::Plural(result.files, "event file")),
      result.scalars, "numbers");
  internal::TellUnread(result.unread_files, document.verdict);
  document.sections.push_back(
      internal::FiguresSection({{"ranks", static_cast<double>(result.ranks)},
                                {"files", static_cast<double>(result.files)}}));
  document.files.push_back({result.output / "", "event files"});
  document.warnings = result.warnings;
  return document;
}

}  // namespace msprobe::analysis::monitor
