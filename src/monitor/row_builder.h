// The numbers of a step as batches of rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/monitor/batch.h"
#include "src/monitor/measure.h"
#include "src/monitor/settings.h"

namespace msprobe::monitor {

// The one list of the tables that a monitored step is written to.

// In the order in which they are written at the end of a step.
enum class Table : uint8_t {
  kActv,
  kActvGrad,
  kGradUnreduced,
  kGradReduced,
  kExpAvg,
  kExpAvgSq,
  kParamOrigin,
  kParamUpdated,
  kUpdateRatio,
  kAttentionHook,  // these four: of settings.h
  kLinearHook,
  kRouterWeightHook,
  kRouterLogitHook,
  kOther
};
inline constexpr size_t kTableCount = 14;
std::string_view TableName(Table table);
// nullopt: the table holds no features of layers.
std::optional<FeatureHook> FeatureHookOf(Table table);

// The measurements of one step, as numbers; the names stay with the slots.

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

// Keeps its memory between steps. One thread at a time.
class RowBuilder {
 public:
  using Visit = std::function<void(const Batch&)>;
  // All batches in the order of the tables; those of kActv one per module, in the order in which
  // modules first ran in this step. The batch is valid during the call.
  void Build(const StepBuffer& step, const Visit& visit);
  void BuildTable(const StepBuffer& step, Table table, const Visit& visit);

 private:
  // Emits the rows of the table's records_.
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
