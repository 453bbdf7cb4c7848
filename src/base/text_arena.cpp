#include "src/base/text_arena.h"

#include <cstring>

namespace msprobe::base {

std::string_view TextArena::Keep(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  if (text.size() > left_) {
    if (text.size() > kChunkBytes / 4) {
      // A chunk of its own; the open one goes on being filled.
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(text.size()));
      std::memcpy(chunks_.back().get(), text.data(), text.size());
      return {chunks_.back().get(), text.size()};
    }
    // Not filled with zeros: what no text reaches takes no memory.
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(kChunkBytes));
    next_ = chunks_.back().get();
    left_ = kChunkBytes;
  }
  char* const kept = next_;
  std::memcpy(kept, text.data(), text.size());
  next_ += text.size();
  left_ -= text.size();
  return {kept, text.size()};
}

}  // namespace msprobe::base
