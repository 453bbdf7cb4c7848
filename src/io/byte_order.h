// Unaligned little- and big-endian loads from bytes that the caller has already checked to be
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace msprobe::io {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "msprobe runs on little-endian hosts");

template <typename Integer>
Integer LoadLittle(const std::byte* bytes) {
  static_assert(std::is_integral_v<Integer>);
  Integer value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename Integer>
Integer LoadBig(const std::byte* bytes) {
  std::make_unsigned_t<Integer> value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value = static_cast<std::make_unsigned_t<Integer>>((static_cast<uint64_t>(value) << 8U) |
                                                       std::to_integer<uint64_t>(bytes[i]));
  }
  return static_cast<Integer>(value);
}

inline std::string_view AsText(const std::byte* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// a + b and a * b; false when the result does not fit.
template <typename Integer>
[[nodiscard]] bool CheckedAdd(Integer a, Integer b, Integer* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <typename Integer>
[[nodiscard]] bool CheckedMultiply(Integer a, Integer b, Integer* out) {
  return !__builtin_mul_overflow(a, b, out);
}

}  // namespace msprobe::io
