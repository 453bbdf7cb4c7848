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

struct Place {
  int64_t step = 0;
  int64_t rank = 0;
  int64_t micro_step = 0;  // 0 where there are no micro steps
  std::string member;      // of a list its number, of a dict its key; empty for a lone tensor

  // Numbers among the members stand in numerical order.
  std::strong_ordering operator<=>(const Place& other) const;
  bool operator==(const Place& other) const = default;
};

using PlacedFiles = std::map<Place, std::filesystem::path>;

struct SavedData {
  std::map<std::string, PlacedFiles> keys;
  std::vector<std::string> warnings;  // folders whose names are not understood
};

Result<SavedData> FindSavedData(const std::filesystem::path& folder);

// The files of one place on both sides, at least one of them.
struct FilePair {
  Place place;
  std::optional<std::filesystem::path> first;
  std::optional<std::filesystem::path> second;
};
// In the order of their places.
std::vector<FilePair> PairFiles(const PlacedFiles& first, const PlacedFiles& second);

std::string PlaceText(const Place& place);  // "step 0, rank 0, micro step 1, name"

}  // namespace msprobe::analysis::rl
