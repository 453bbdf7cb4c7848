// For parameters without counterpart: which name of the other side comes nearest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/ckpt/mapping_side.h"

namespace msprobe::analysis::ckpt {

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

}  // namespace msprobe::analysis::ckpt
