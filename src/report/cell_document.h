// A cell of a table as a value of a small document. In its header, because few files pay for
// including nlohmann/json.
#pragma once

#include <nlohmann/json.hpp>

#include "src/report/table.h"

namespace msprobe::report {

inline nlohmann::ordered_json CellDocument(const Cell& cell) {
  switch (cell.kind()) {
    case CellKind::kEmpty:
      return nullptr;
    case CellKind::kText:
      return cell.text();
    case CellKind::kInteger:
      return cell.integer();
    case CellKind::kNumber:
      return cell.number();
    case CellKind::kBoolean:
      return cell.boolean();
  }
  return nullptr;
}

}  // namespace msprobe::report
