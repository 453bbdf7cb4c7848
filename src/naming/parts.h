// One checkpoint as the mapping sees it: its parameters after the user's rules, the dialect its
// names are written in, and the parts that every parameter consists of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "msprobe/status.h"

#include "src/checkpoint/checkpoint.h"
#include "src/naming/rules.h"

namespace msprobe::naming {

// Taking joined parameters apart and putting parts together, as a rule's layout says. Only views
// move.

// More heads than any model has; keeps the work on a forged number small.
inline constexpr int64_t kMaxHeads = 65536;

struct HeadCounts {
  std::optional<int64_t> attention_heads;
  std::optional<int64_t> query_groups;  // key/value heads
};

// How many slices the parameters of a checkpoint may be cut into. The number of heads is written in
// a file; each slice takes some hundred bytes of memory.
class SliceBudget {
 public:
  explicit SliceBudget(uint64_t file_bytes = 0);

  // Ok where `parts` slices per group, of a parameter in `pieces` pieces, are still in proportion.
  Status Take(int64_t groups, size_t parts, size_t pieces);

 private:
  uint64_t slices_left_;
  uint64_t looks_left_;
};

// The whole, turned if `transpose`, cut into `count` parts. A parameter that cannot be read gives
// parts that say so. Errors: lengths that do not divide, unknown heads.
Result<std::vector<checkpoint::Parameter>> SplitParameter(const checkpoint::Parameter& whole,
                                                          const Rule& rule, bool transpose,
                                                          size_t count, const HeadCounts& heads,
                                                          SliceBudget& budget);

// The other way: the parts in the rule's order, turned at the end if `transpose`.
Result<checkpoint::Parameter> JoinParameters(std::span<const checkpoint::Parameter> parts,
                                             const Rule& rule, bool transpose,
                                             const HeadCounts& heads, SliceBudget& budget);

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

// The family whose rules fit most names, if there is one worth the name.
void ChooseDialect(const BuiltInMapping& mapping, MappedCheckpoint& side);
// Fills in every item's reading and the index of parts.
void ReadParts(const BuiltInMapping& mapping, MappedCheckpoint& side);

// Whether a part is the gate of a gated feed-forward, where the checkpoint's facts do not say.
bool HoldsGate(const MappedCheckpoint& side);
// A norm of each head tells the head's size, and separate projections the numbers of heads; nothing
// where the side has neither.
std::optional<HeadCounts> HeadsByShapes(const MappedCheckpoint& side);

// Why the parameter may lack a counterpart, or nothing.
const std::string* IgnoredBecause(const BuiltInMapping& mapping, const RuleSet& rules,
                                  const MappedCheckpoint& side, std::string_view name);
// Whether the index of parts leads here: of several parameters with one name the first counts.
bool IsFirstOf(const MappedCheckpoint& side, const PartLocation& location);
// What a part would be called if its item were not joined of several: as the family names it where
// it is stored apart, with the prefix of the item, else the name that all families share.
std::string UnfusedName(const MappedCheckpoint& side, const Item& item, size_t part);
// What the side would call a part: as it calls the like of it, if it has any.
std::string NameOfPart(const MappedCheckpoint& side, std::string_view part);

// For parameters without counterpart: which name of the other side comes nearest.

class NearestName {
 public:
  // A hundred letters of each pair of names.
  static constexpr size_t kMostLetters = 400'000'000;

  // Looks among the parameters of `other` that belong to no pair.
  explicit NearestName(const MappedCheckpoint& other, size_t most_letters = kMostLetters);

  // Empty where no name resembles it, or where so many were asked for that it would take long.
  std::string Find(std::string_view name);

 private:
  std::vector<std::string_view> candidates_;
  size_t comparisons_left_;
  size_t letters_left_;
};

}  // namespace msprobe::naming
