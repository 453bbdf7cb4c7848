// Inside of the room: sheets to the file of a workbook, formatted and compressed in blocks on all
// threads.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "msprobe/status.h"

#include "src/base/threads.h"
#include "src/report/sheet_xml.h"

namespace msprobe::report::internal {

// Replaces `out` by the XML of one block of a sheet; called on any thread.
using BlockFormatter = std::function<void(const Sheet&, const Block&, XmlBuffer& out)>;

// Fails where a table has more columns than a sheet can hold.
Status CheckColumns(const std::filesystem::path& path, std::span<const Table* const> tables);

// `workbook_xml` names the sheets, `styles_xml` the formats that their cells refer to.
Status WriteWorkbook(const std::filesystem::path& path, std::span<const Sheet> sheets,
                     const std::string& workbook_xml, const std::string& styles_xml,
                     const BlockFormatter& format, base::ThreadPool& pool);

}  // namespace msprobe::report::internal
