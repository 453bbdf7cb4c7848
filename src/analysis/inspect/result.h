// What was found in a dump or a file of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/report/table.h"

namespace msprobe::analysis::inspect {

struct Contents {
  report::Table table;  // one row per rank, call argument, tensor or value; a bad one is filled red
  std::vector<std::string> summary;   // what it is and how much, a sentence per line
  std::vector<std::string> warnings;  // what a careful reader wants to know
  uint64_t rows_left_out = 0;         // by row_limit
  bool nothing_readable = false;      // there are tensors or files of them, and all are bad
};

}  // namespace msprobe::analysis::inspect
