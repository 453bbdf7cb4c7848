#include "src/analysis/inspect/inspect.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/inspect/dump_contents.h"
#include "src/analysis/inspect/tensor_contents.h"
#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::inspect {

report::Cell CountCell(uint64_t count) {
  return report::Cell::Integer(static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX)));
}

report::Cell FlagCell(bool value) { return report::Cell::Text(value ? "true" : "false"); }

report::Cell NumberCell(double value) {
  if (std::isnan(value)) {
    return report::Cell::Text("nan");
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return report::Cell::Number(value);
}

std::string Counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", base::FormatCount(count), noun, count == 1 ? "" : "s");
}

bool RowFilter::Matches(std::string_view name) const {
  return options_.name_filter.empty() || base::GlobMatch(options_.name_filter, name);
}

bool RowFilter::TakePlace() {
  if (options_.row_limit > 0 && taken_ >= options_.row_limit) {
    ++result_.rows_left_out;
    return false;
  }
  ++taken_;
  return true;
}

namespace {

namespace fs = std::filesystem;

// JSON by name, or by its first character whatever the name.
Result<bool> LooksLikeJson(const fs::path& path) {
  if (path.extension() == ".json") {
    return true;
  }
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  const size_t first = file.text().substr(0, 64).find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && file.text()[first] == '{';
}

bool MayBeQuantised(const fs::path& name) {
  return name.extension() == ".safetensors" || name.extension() == ".bin";
}

Result<Contents> InspectFolder(const Options& options) {
  Result<dump::DumpLayout> layout = dump::FindDump(options.path);
  if (layout.ok()) {
    return InspectDumpFolder(options, *layout);
  }
  if (layout.status().code() == StatusCode::kNotFound) {
    MSP_ASSIGN_OR_RETURN(std::vector<std::string> names, base::ListFolder(options.path));
    std::erase_if(names, [](const std::string& name) { return !HasTensorFileName(name); });
    if (!names.empty()) {
      // Dumps have thousands of files of other kinds, which are opened once.
      if (!options.offsets && std::any_of(names.begin(), names.end(), MayBeQuantised)) {
        if (std::optional<Contents> quantised = InspectQuantisedFolder(options)) {
          return *std::move(quantised);
        }
      }
      return InspectTensorFolder(options, names);
    }
    MSP_ASSIGN_OR_RETURN(const std::vector<fs::path> tables, UnstableCallsFilesIn(options.path));
    if (!tables.empty()) {
      return RankUnstableCalls(options, tables);
    }
  }
  return std::move(layout).status();
}

Result<Contents> InspectAny(const Options& options) {
  std::error_code error;
  const fs::file_status status = fs::status(options.path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFoundError(fmt::format("{} does not exist", options.path.string()));
  }
  if (fs::is_directory(status)) {
    return InspectFolder(options);
  }
  if (IsUnstableCallsFile(options.path)) {
    return RankUnstableCalls(options, {options.path});
  }
  if (options.path.extension() == ".csv") {
    return InspectTable(options);
  }
  MSP_ASSIGN_OR_RETURN(const bool is_json, LooksLikeJson(options.path));
  return is_json ? InspectDumpFile(options) : InspectTensorFile(options);
}

}  // namespace

Result<Contents> Run(const Options& options) {
  MSP_ASSIGN_OR_RETURN(Contents result, InspectAny(options));
  for (std::string& line : result.summary) {
    line = base::Printable(line);
  }
  for (std::string& line : result.warnings) {
    line = base::Printable(line);
  }
  return result;
}

namespace {

using report::AnswerOutcome;
using report::List;
using report::ListKind;
using report::Section;

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
  verdict.outcome = result.nothing_readable     ? AnswerOutcome::kIncomplete
                    : verdict.word == "DAMAGED" ? AnswerOutcome::kFindings
                                                : AnswerOutcome::kClean;
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
