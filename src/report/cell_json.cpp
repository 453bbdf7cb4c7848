#include "src/report/cell_json.h"

namespace msprobe::report {

void PutCell(json::Writer& writer, const Cell& cell) {
  switch (cell.kind()) {
    case CellKind::kEmpty:
      writer.Null();
      break;
    case CellKind::kText:
      writer.Text(cell.text());
      break;
    case CellKind::kInteger:
      writer.Int(cell.integer());
      break;
    case CellKind::kNumber:
      writer.Float(cell.number());
      break;
    case CellKind::kBoolean:
      writer.Bool(cell.boolean());
      break;
  }
}

}  // namespace msprobe::report
