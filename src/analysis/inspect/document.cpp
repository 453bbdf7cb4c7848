#include "src/analysis/inspect/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::inspect {
namespace {

using report::List;
using report::ListKind;
using report::Section;
using report::Standing;

bool HasBadRow(const report::Table& table) {
  for (size_t row = 0; row < table.row_count(); ++row) {
    if (table.fill(row) == report::Fill::kRed) {
      return true;
    }
  }
  return false;
}

report::Verdict MakeVerdict(const Contents& result) {
  report::Verdict verdict;
  verdict.word = result.nothing_readable   ? "UNREADABLE"
                 : HasBadRow(result.table) ? "DAMAGED"
                                           : "READABLE";
  verdict.text = result.summary.empty() ? verdict.word : result.summary.front();
  verdict.tone = result.nothing_readable     ? report::Tone::kBad
                 : verdict.word == "DAMAGED" ? report::Tone::kCaution
                                             : report::Tone::kStrong;
  verdict.number = static_cast<double>(result.table.row_count() + result.rows_left_out);
  verdict.unit = "rows";
  verdict.standing = result.nothing_readable     ? Standing::kIncomplete
                     : verdict.word == "DAMAGED" ? Standing::kFindings
                                                 : Standing::kClean;
  return verdict;
}

}  // namespace

report::Document MakeDocument(Contents result, bool filtered, bool summary) {
  report::Document document;
  document.command = "show";
  document.verdict = MakeVerdict(result);
  document.warnings = std::move(result.warnings);
  List sentences{ListKind::kSentences, {}};
  for (size_t i = 1; i < result.summary.size(); ++i) {
    sentences.items.push_back({"", result.summary[i]});
  }
  if (result.table.row_count() == 0) {
    sentences.items.push_back({"", filtered ? "nothing matches the filter" : "nothing in it"});
  }
  Section section;
  if (summary) {
    section.blocks.emplace_back(std::move(sentences));
  } else {
    document.verdict.text.clear();
  }
  report::DataTable rows{std::move(result.table)};
  rows.names_rows = true;
  section.blocks.emplace_back(std::move(rows));
  if (result.rows_left_out > 0) {
    section.blocks.emplace_back(
        List{ListKind::kSentences,
             {{"", fmt::format("{} more rows; --limit 0 shows all, --filter some of them",
                               base::FormatCount(result.rows_left_out))}}});
  }
  document.sections.push_back(std::move(section));
  return document;
}

}  // namespace msprobe::analysis::inspect
