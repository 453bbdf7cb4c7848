// What the engine hands to its writers: the rows of one table and step, as values, not text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/monitor/statistics.h"

namespace msprobe::monitor {

// Min and max of integers stay integers, those of bool stay bool; monostate: none (written "nan").
using Value = std::variant<std::monostate, bool, int64_t, double, std::string>;

// What is no number: nullopt for none and for texts; a bool is 0 or 1.
std::optional<double> NumberOf(const Value& value);

struct Row {
  int32_t stage = 0;
  std::string name;  // with "_<index>", without stage and micro step: "0.norm1.output_1"
  std::string tag;   // "<stage>:<name>[:<micro step>]/rank<R>/<task>"
  std::optional<int32_t> micro_step;
  int64_t call_id = -1;       // running number of the values within the step; -1: of the parameters
  std::vector<Value> values;  // as many as the batch has columns
};

struct Batch {
  std::string table;  // "actv", "grad_reduced", ..., the stem of the file
  int64_t step = 0;
  bool has_micro_step = false;  // the column exists
  std::vector<Statistic> columns;
  std::vector<Row> rows;
};

}  // namespace msprobe::monitor
