// One rank of one side as it was recorded: its values, its module tree, its stacks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/side.h"
#include "src/dump/entry_scan.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::graph {

inline constexpr uint32_t kNone = UINT32_MAX;

class RankDump {
 public:
  // Reads dump.json, construct.json and stack.json of a folder; all three must be there, and
  // construct.json must name something. `keep_entry`: which entries to read; null: all.
  using KeepEntry = std::function<bool(std::string_view name)>;
  static Result<RankDump> Load(const std::filesystem::path& folder,
                               const KeepEntry& keep_entry = nullptr);

  const std::filesystem::path& folder() const { return folder_; }
  const compare::Side& side() const { return side_; }
  compare::Side& side() { return side_; }
  const dump::ConstructFile& construct() const { return construct_; }
  dump::ConstructFile& construct() { return construct_; }
  const dump::StackFile& stacks() const { return stacks_; }
  dump::StackFile& stacks() { return stacks_; }

  // Whether a row, of those that were read, is one of its node's outputs; parameters and gradients
  // are among the inputs.
  bool IsOutput(uint32_t row) const { return is_output_[row]; }

  uint32_t FindEntry(std::string_view name) const;  // index into side().entries, or kNone
  // The entry as it stands in the file: what SideRow::leaf counts in.
  Result<dump::EntryTree> ReadEntry(uint32_t entry) const;
  // The same in the memory of an earlier tree.
  Status ReadEntry(uint32_t entry, dump::EntryTree& tree) const;

 private:
  RankDump() = default;
  Status FindPlaces(const KeepEntry& keep_entry);

  std::filesystem::path folder_;
  compare::Side side_;
  dump::ConstructFile construct_;
  dump::StackFile stacks_;
  std::vector<bool> is_output_;          // by row
  std::vector<dump::TextPlace> places_;  // by entry
  std::optional<dump::EntryAccess> access_;
  std::unordered_map<std::string_view, uint32_t> entry_of_name_;
};

}  // namespace msprobe::analysis::graph
