// Names that occur over and over, kept once each: events of a profile refer to them by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/strings.h"

namespace msprobe::profile {

using TextId = uint32_t;
inline constexpr TextId kNoText = 0;  // the empty text

// "<built-in method mul_ of Tensor object at 0x7f6f01>": without the address, which is another one
// in every run.
std::string WithoutAddresses(std::string_view name);

class Texts {
 public:
  Texts() : texts_(1) {}

  // Equal texts get equal numbers, counted up from 1 in order of first appearance.
  TextId Intern(std::string_view text);
  // kNoText when it never occurred.
  TextId Find(std::string_view text) const;
  // Stays valid as long as this object.
  std::string_view operator[](TextId id) const { return texts_[id]; }
  // Numbers are below this.
  size_t size() const { return texts_.size(); }

 private:
  base::TextArena arena_;
  std::vector<std::string_view> texts_;
  std::unordered_map<std::string_view, TextId> index_;
};

}  // namespace msprobe::profile
