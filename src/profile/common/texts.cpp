#include "src/profile/common/texts.h"

namespace msprobe::profile {

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
