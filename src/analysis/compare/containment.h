// Which modules contain calls that diverged: their own outputs differ because of what happened
// inside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "src/analysis/compare/execution_order.h"
#include "src/analysis/compare/side.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

// From construct.json, or from module paths ("a.b" contains "a.b.c") when there is none. Borrows
// all three.
class Containment {
 public:
  // `construct` may be null.
  Containment(const Side& side, const ExecutionPlan& plan, const dump::ConstructFile* construct);

  void MarkDiverging(uint32_t entry);
  bool ContainsDiverging(uint32_t entry) const;

  // The largest error of the calls inside a module, as far as they were noted.
  void NoteError(uint32_t entry, double error);
  double InnerError(uint32_t entry) const;

  // True when a call was made inside a module, by construct.json or module paths.
  bool IsInside(uint32_t entry, uint32_t module) const;

  // The parent's name by construct.json; empty if unknown.
  std::string_view ParentOf(uint32_t entry) const;
  // "blocks.0.mlp.fc1 (Linear)": the module itself, or the one around a call; empty if unknown.
  std::string LayerOf(uint32_t entry) const;

 private:
  static uint64_t PathPrint(std::string_view path, dump::Direction direction);

  const Side& side_;
  const ExecutionPlan& plan_;
  const dump::ConstructFile* construct_;
  std::unordered_set<std::string_view> names_;
  std::unordered_set<uint64_t> paths_;
  std::unordered_map<std::string_view, double> name_errors_;
  std::unordered_map<uint64_t, double> path_errors_;
};

}  // namespace msprobe::analysis::compare
