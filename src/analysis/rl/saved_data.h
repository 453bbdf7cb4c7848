// What SingleSave wrote: <folder>/data/<key>/step<S>/rank<R>/[micro_step<M>/]<key>[.<member>].npy
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::rl {

struct ArrayLocation {
  int64_t step = 0;
  int64_t rank = 0;
  int64_t micro_step = 0;  // 0 where there are no micro steps
  std::string member;      // of a list its number, of a dict its key; empty for a single tensor

  // Numbers among the members stand in numerical order.
  std::strong_ordering operator<=>(const ArrayLocation& other) const;
  bool operator==(const ArrayLocation& other) const = default;
};

using LocatedFiles = std::map<ArrayLocation, std::filesystem::path>;

struct SavedData {
  std::map<std::string, LocatedFiles> keys;
  std::vector<std::string> warnings;  // folders whose names are not understood
};

Result<SavedData> FindSavedData(const std::filesystem::path& folder);

// The files of one location on both sides, at least one of them.
struct FilePair {
  ArrayLocation location;
  std::optional<std::filesystem::path> first;
  std::optional<std::filesystem::path> second;
};
// In the order of their locations.
std::vector<FilePair> PairFiles(const LocatedFiles& first, const LocatedFiles& second);

std::string LocationText(const ArrayLocation& location);  // "step 0, rank 0, micro step 1, name"

}  // namespace msprobe::analysis::rl
