// One checkpoint as the mapping sees it: its parameters after the user's rules, the dialect its
// names are written in, and the parts that every parameter consists of.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/ckpt/mapping_layout.h"
#include "src/analysis/ckpt/mapping_rules.h"
#include "src/checkpoint/checkpoint.h"

namespace msprobe::analysis::ckpt {

// How one parameter is made of parts.
struct Reading {
  const Rule* rule = nullptr;  // none: the only part is the parameter itself
  bool transpose = false;
  std::vector<std::string> parts;
};

struct Item {
  std::string name;                 // what it is matched by
  std::string label;                // what results call it
  checkpoint::Parameter parameter;  // its name is the stored one
  std::vector<std::string> notes;   // what the user's rules did
  Reading reading;
  bool used = false;  // belongs to a pair
};

struct PartLocation {
  size_t item = 0;
  size_t part = 0;
};

struct MappedCheckpoint {
  std::vector<Item> items;
  HeadCounts heads;
  SliceBudget slices;
  bool gated = false;
  const Dialect* dialect = nullptr;  // none: no family fits
  std::unordered_map<std::string, PartLocation> parts;
  std::unordered_set<const Rule*> rules_in_use;  // of the dialect

  Result<checkpoint::Parameter> TakePart(const PartLocation& location);

  // The item that was taken apart last: its parts are asked for one after the other.
  std::optional<size_t> split_item;
  std::vector<checkpoint::Parameter> split_parts;
};

MappedCheckpoint MakeSide(const checkpoint::Checkpoint& checkpoint);

// Applies the user's rules in their order; `fitted` counts, rule by rule, how often one did.
// Parameters that a rule fits but cannot handle stay, with a warning. An error, with the rule's
// line, where the rules make more of a checkpoint than one can have.
Status ApplyRules(const RuleSet& rules, RuleSide which, MappedCheckpoint& side,
                  std::vector<size_t>& fitted, std::vector<std::string>& warnings);

// The family whose rules fit most names, if there is one worth the name.
void ChooseDialect(const BuiltInMapping& mapping, MappedCheckpoint& side);
// Fills in every item's reading and the index of parts.
void ReadParts(const BuiltInMapping& mapping, MappedCheckpoint& side);

// Why the parameter may lack a counterpart, or nothing.
const std::string* IgnoredBecause(const BuiltInMapping& mapping, const RuleSet& rules,
                                  const MappedCheckpoint& side, std::string_view name);
// What the side would call a part: as it calls the like of it, if it has any.
std::string NameOfPart(const MappedCheckpoint& side, std::string_view part);

}  // namespace msprobe::analysis::ckpt
