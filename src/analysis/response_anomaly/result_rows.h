// A judged request as a row: of result files, and of the lines of a running service.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/response_anomaly/judge.h"
#include "src/report/table.h"

namespace msprobe::analysis::response_anomaly {

// What became of one line of the input.
struct Row {
  uint64_t line = 0;  // counted from 1
  std::string name;   // of the request, "" when it has none or cannot be read
  std::string model;
  Judgement judgement;
  std::string error;  // why it could not be judged; empty: it was
};

// The columns of every form; the first five are what the Python tool tells.
const std::vector<std::string>& RowColumns();
void AddRow(const Row& row, report::Table& table);
report::Table NewTable();

}  // namespace msprobe::analysis::response_anomaly
