// Keys of entries, of which a dump has millions, told apart without a call per word.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace msprobe::dump {

// key == word, for words that the compiler knows: it makes one or two comparisons of numbers.
template <size_t kSize>
bool KeyIs(std::string_view key, const char (&word)[kSize]) {
  return key.size() == kSize - 1 && std::memcmp(key.data(), word, kSize - 1) == 0;
}

}  // namespace msprobe::dump
