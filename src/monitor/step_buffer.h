// Inside of the room: what was measured in one step, as numbers; names stay where the slots are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/monitor/measure.h"
#include "src/monitor/settings.h"
#include "src/monitor/tables.h"

namespace msprobe::monitor {

// A place for values; never changes once made.
struct SlotInfo {
  Table table = Table::kOther;
  int32_t stage = 0;
  std::string name;  // without stage
  std::string task;
  // Rows of one group are typed together: those of a module in kActv, those of a table elsewhere.
  uint32_t group = 0;
  bool is_call = false;  // of communication: the task is part of the row's name
};

constexpr int32_t kNone = -1;

struct Record {
  const SlotInfo* slot = nullptr;
  const std::string* dtype_text = nullptr;  // null: written as nan
  int32_t index = kNone;
  int32_t micro_step = kNone;
  int64_t call_id = kNone;
  uint32_t shape_begin = 0;  // in StepBuffer::shapes
  uint32_t dimensions = 0;
  // Numbers reduced elsewhere instead of `numbers`, in StepBuffer::reduced.
  bool is_reduced = false;
  uint32_t reduced_begin = 0;
  uint32_t reduced_count = 0;
  TensorNumbers numbers;
};

// Its memory is used again, step after step.
struct StepBuffer {
  int64_t step = 0;
  int64_t rank = 0;
  std::shared_ptr<const Settings> settings;
  std::vector<Record> records;
  std::vector<int64_t> shapes;
  std::vector<double> reduced;
  std::vector<Statistic> reduced_ops;  // settings->ops without shape and dtype

  void Clear() {
    records.clear();
    shapes.clear();
    reduced.clear();
  }
};

MeasureRules RulesOf(const Settings& settings);

}  // namespace msprobe::monitor
