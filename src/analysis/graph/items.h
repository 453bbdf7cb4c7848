// The inputs and outputs of a node as the files hold them: an object per tensor or argument, every
// value a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/graph/model.h"
#include "src/analysis/graph/options.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {

// Facts in the names of nodes.

// Collections of calls between modules: "Apis_Between_Modules.0", and in merged dumps
// "Apis_Between_Modules_Rank1.0" and "Apis_Between_Modules_All_Ranks.0".
inline constexpr std::string_view kCollectionName = "Apis_Between_Modules";

// The dtype of rows that are groups of ranks.
inline constexpr std::string_view kProcessGroup = "torch.ProcessGroup";

NodeType TypeOfName(std::string_view name, Edition edition);
// Names of modules, optimizers and clipping: their one line of a stack is the one with their name.
bool IsModuleName(std::string_view name);

// "<before>.forward.3" -> before, 3.
struct NumberedDirection {
  std::string_view before;
  std::string_view number;
};
std::optional<NumberedDirection> ParseForward(std::string_view name);   // ".forward.<n>" at the end
std::optional<NumberedDirection> ParseBackward(std::string_view name);  // ".backward.<n>"

// The second field: "conv2d" of "Functional.conv2d.0.forward"; empty when there is none.
std::string_view ApiOf(std::string_view name);
// Calls that return memory as they find it: their values say nothing.
bool ReturnsRawMemory(std::string_view name);

// In a merged dump "shape" is that of the whole tensor; this key has the shape of a part.
inline constexpr std::string_view kShapeKey = "shape";
inline constexpr std::string_view kLocalShapeKey = "local_shape";

// The comparison of a node's rows; null pointers where nothing was compared.
struct ComparedRows {
  const compare::Side* bench = nullptr;
  const compare::PairResult* result = nullptr;  // rows by index of the NPU side's rows
};

// Writes the items of one entry after the other. Not thread-safe.
class ItemWriter {
 public:
  // `with_checksums`: the comparison is one of checksums.
  ItemWriter(const RankDump& dump, Edition edition, bool with_checksums)
      : dump_(dump), edition_(edition), with_checksums_(with_checksums) {}

  // Reads the entry from its file again; kNone: no items at all.
  Status Open(uint32_t entry);
  // {"<item>": {"<field>": "<text>"}} of the inputs or the outputs.
  void Write(bool outputs, const ComparedRows& compared, json::Writer& json);
  const dump::EntryTree& tree() const { return tree_; }

 private:
  void WriteItem(const compare::SideRow& row, const ComparedRows& compared, uint32_t index,
                 json::Writer& json);
  void WriteProcessGroup(uint32_t leaf, const compare::SideRow& row, json::Writer& json);
  void WriteFields(uint32_t leaf, const compare::SideRow& row, json::Writer& json);
  void WriteCells(const compare::SideRow& row, const ComparedRows& compared, uint32_t index,
                  json::Writer& json);
  std::string_view TextOf(uint32_t node);
  std::string_view TextOfFloat(double value);
  std::string_view TextOfText(std::string_view text);
  std::string_view TextOfMetric(const compare::Metric& metric, bool is_integer);

  const RankDump& dump_;
  const Edition edition_;
  const bool with_checksums_;
  uint32_t entry_ = kNone;
  bool is_batch_ = false;  // of point-to-point calls
  dump::EntryTree tree_;
  std::string text_;
  std::string scratch_;
};

// A number as Python's float has it.
std::string IndexText(double value);

}  // namespace msprobe::analysis::graph
