// Inside of the room: the XML members of a workbook that hold its content.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/report/readers.h"
#include "src/report/table.h"

namespace msprobe::report::internal {

// The texts that cells name by number.
struct SharedStrings {
  std::shared_ptr<TextArena> texts = std::make_shared<TextArena>();
  std::vector<std::string_view> items;
};

Result<SharedStrings> ParseSharedStrings(std::string_view xml);
Result<Table> ParseSheet(std::string_view xml, std::string name, const SharedStrings& shared,
                         ReadLimits& left);

}  // namespace msprobe::report::internal
