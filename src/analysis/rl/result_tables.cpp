#include "src/analysis/rl/result_tables.h"

#include <cmath>

#include "src/base/numbers.h"
#include "src/report/writers.h"

namespace msprobe::analysis::rl {

using report::Cell;

std::vector<std::string> NamesOf(std::span<const ColumnName> columns, Language language) {
  std::vector<std::string> names = {"step", "rank", "micro_step", "id"};
  for (const ColumnName& column : columns) {
    names.emplace_back(language == Language::kChinese ? column.chinese : column.english);
  }
  return names;
}

std::vector<Cell> LocationCells(report::Table& table, const ArrayLocation& location) {
  const bool is_number = location.member.find_first_not_of("0123456789") == std::string::npos;
  return {Cell::Integer(location.step), Cell::Integer(location.rank),
          Cell::Integer(location.micro_step),
          is_number ? Cell::Integer(base::ParseInt(location.member).value_or(0))
                    : table.KeepText(location.member)};
}

Cell CountCell(uint64_t count) { return Cell::Integer(static_cast<int64_t>(count)); }

Cell NumberCell(double value) { return std::isfinite(value) ? Cell::Number(value) : Cell(); }

Cell NoteCell(report::Table& table, std::string_view note) {
  return note.empty() ? Cell() : table.KeepText(note);
}

std::string_view PartnerNote(const FilePair& files, Language language) {
  const bool chinese = language == Language::kChinese;
  return files.first ? (chinese ? "仅存在于第一次运行" : "only in the first run")
                     : (chinese ? "仅存在于第二次运行" : "only in the second run");
}

std::string_view ShapesNote(Language language) {
  return language == Language::kChinese ? "形状不同，仅比较公共部分"
                                        : "shapes differ: only the common part is compared";
}

std::string_view EndingOf(FileFormat format) {
  return format == FileFormat::kXlsx ? ".xlsx" : format == FileFormat::kCsv ? ".csv" : ".jsonl";
}

Status WriteTable(const report::Table& table, const std::filesystem::path& stem,
                  std::span<const FileFormat> formats, bool plain, base::ThreadPool& pool,
                  std::vector<std::filesystem::path>& files) {
  for (const FileFormat format : formats) {
    std::filesystem::path path = stem;
    path += EndingOf(format);
    switch (format) {
      case FileFormat::kXlsx: {
        report::XlsxOptions xlsx;
        xlsx.freeze_header = xlsx.autofilter = !plain;
        xlsx.styled_header = true;
        const report::Table* const sheets[] = {&table};
        MSP_RETURN_IF_ERROR(report::WriteXlsx(path, sheets, xlsx, pool));
        break;
      }
      case FileFormat::kCsv:
        MSP_RETURN_IF_ERROR(report::WriteCsv(path, table));
        break;
      case FileFormat::kJson:
        MSP_RETURN_IF_ERROR(report::WriteJsonLines(path, table));
        break;
    }
    files.push_back(path);
  }
  return {};
}

}  // namespace msprobe::analysis::rl
