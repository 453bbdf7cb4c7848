#include <vector>

#include <fmt/format.h>

#include "src/report/workbook_file.h"
#include "src/report/writers.h"
#include "src/report/xlsx_parts.h"

namespace msprobe::report {

Status WriteXlsx(const std::filesystem::path& path, std::span<const Table* const> sheets,
                 const XlsxOptions& options, base::ThreadPool& pool) {
  if (sheets.empty()) {
    return InternalError(fmt::format("cannot write {}: no table", path.string()));
  }
  MSP_RETURN_IF_ERROR(internal::CheckColumns(path, sheets));
  const std::vector<internal::Sheet> plan = internal::PlanWorkbook(sheets, options.rows_per_sheet);
  const auto format = [&](const internal::Sheet& sheet, const internal::Block& block,
                          internal::XmlBuffer& out) {
    internal::FormatBlock(sheet, block, options, out);
  };
  return internal::WriteWorkbook(path, plan, internal::WorkbookXml(plan, options),
                                 internal::StylesXml(), format, pool);
}

}  // namespace msprobe::report
