// Builds MindSpore checkpoints for tests, field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::io::test_support {

inline std::string Varint(uint64_t value) {
  std::string out;
  while (value >= 0x80U) {
    out.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
    value >>= 7U;
  }
  out.push_back(static_cast<char>(value));
  return out;
}

// A field whose value has a length: text, bytes or a message.
inline std::string Counted(uint32_t number, std::string_view value) {
  return Varint(number << 3U | 2U) + Varint(value.size()) + std::string(value);
}

// One parameter; `more` follows inside of its message.
inline std::string MindSporeValue(std::string_view tag, const std::vector<int64_t>& dims,
                                  std::string_view type, std::string_view content,
                                  std::string_view more = "") {
  std::string tensor;
  for (const int64_t dim : dims) {
    tensor += Varint(1U << 3U) + Varint(static_cast<uint64_t>(dim));
  }
  tensor += Counted(2, type) + Counted(3, content);
  return Counted(1, Counted(1, tag) + Counted(2, tensor) + std::string(more));
}

}  // namespace msprobe::io::test_support
