// Inside of the room: the small parts of a workbook, and which sheets it has.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/report/sheet_xml.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::report::internal {

// Cuts tables into sheets and gives them names that spreadsheets accept: at most 31 UTF-16 units,
// none of []:*?/\, no apostrophe at either end, unique without regard to case.
std::vector<Sheet> PlanWorkbook(std::span<const Table* const> tables, size_t rows_per_sheet);

std::string ContentTypesXml(size_t sheets);
std::string PackageRelationsXml();
std::string WorkbookXml(std::span<const Sheet> sheets, const XlsxOptions& options);
std::string WorkbookRelationsXml(size_t sheets);
std::string StylesXml();
std::string SheetPath(size_t index);  // of the archive; counted from 0

}  // namespace msprobe::report::internal
