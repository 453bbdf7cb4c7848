// A cell of a table as a JSON value.
#pragma once

#include "src/json/writer.h"
#include "src/report/table.h"

namespace msprobe::report {

void PutCell(json::Writer& writer, const Cell& cell);

}  // namespace msprobe::report
