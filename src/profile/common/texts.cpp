#include "src/profile/common/texts.h"

#include <algorithm>

namespace msprobe::profile {

std::string WithoutAddresses(std::string_view name) {
  constexpr std::string_view kAddress = " at 0x";
  std::string result;
  for (size_t at = name.find(kAddress); at != std::string_view::npos; at = name.find(kAddress)) {
    result += name.substr(0, at);
    name.remove_prefix(at + kAddress.size());
    name.remove_prefix(std::min(name.find_first_not_of("0123456789abcdefABCDEF"), name.size()));
  }
  result += name;
  return result;
}

TextId Texts::Intern(std::string_view text) {
  if (text.empty()) {
    return kNoText;
  }
  if (const auto found = index_.find(text); found != index_.end()) {
    return found->second;
  }
  const std::string_view kept = arena_.Keep(text);
  const auto id = static_cast<TextId>(texts_.size());
  texts_.push_back(kept);
  index_.emplace(kept, id);
  return id;
}

TextId Texts::Find(std::string_view text) const {
  const auto found = index_.find(text);
  return found == index_.end() ? kNoText : found->second;
}

}  // namespace msprobe::profile
