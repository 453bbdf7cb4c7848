// Many small texts at stable addresses, allocated in chunks.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>

namespace msprobe::base {

class TextArena {
 public:
  std::string_view Keep(std::string_view text);

 private:
  static constexpr size_t kChunkBytes = size_t{1} << 18U;
  std::deque<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace msprobe::base
