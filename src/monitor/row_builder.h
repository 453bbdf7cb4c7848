// Inside of the room: the numbers of a step as batches of rows.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/monitor/batch.h"
#include "src/monitor/step_buffer.h"

namespace msprobe::monitor {

// Keeps its memory between steps. One thread at a time.
class RowBuilder {
 public:
  using Visit = std::function<void(const Batch&)>;
  // All batches in the order of the tables; those of kActv one per module, in the order in which
  // modules first ran in this step. The batch is valid during the call.
  void Build(const StepBuffer& step, const Visit& visit);
  void BuildTable(const StepBuffer& step, Table table, const Visit& visit);

 private:
  // Of the table's records_.
  void EmitTable(const StepBuffer& step, Table table, const Visit& visit);
  void Emit(const StepBuffer& step, Table table, const std::vector<uint32_t>& records,
            const Visit& visit);
  void FillRow(const StepBuffer& step, const Record& record, Row& row);

  Batch batch_;
  std::vector<Row> spare_rows_;  // with the memory of their texts
  std::vector<std::vector<uint32_t>> modules_;
  std::vector<uint32_t> place_of_group_;
  std::array<std::vector<uint32_t>, kTableCount> records_;  // numbers of records, by table
  MeasureRules rules_;
};

}  // namespace msprobe::monitor
