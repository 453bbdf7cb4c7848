// Table rows as the XML of an xlsx sheet.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "src/report/table.h"

namespace msprobe::report {

// Indices into the workbook's list of cell formats.
enum class XlsxStyle : int { kPlain = 0, kYellow = 1, kRed = 2, kHeader = 3 };

// Appends text escaped for XML. Characters XML forbids become '_', bytes that are no UTF-8 the
// replacement character. At most `limit_units` UTF-16 units are written, as spreadsheets count.
void AppendXmlText(std::string_view text, size_t limit_units, std::string& out);

// Appends <row r="number">...</row>; `number` counts from 1.
void AppendXlsxRow(std::span<const Cell> cells, size_t number, XlsxStyle style, std::string& out);

}  // namespace msprobe::report
