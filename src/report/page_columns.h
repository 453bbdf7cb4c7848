// Columns of a page's table as bytes that compress well and that a browser reads back at once
// (tools/web/common/columns.js).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace msprobe::report {

// Appends one byte with the number of planes, 0 to 4, and per plane one byte of every value, the
// lowest plane first. Planes that would be zero throughout are left out.
void AppendPlanes(std::span<const uint32_t> values, std::string& out);

// Texts that repeat, each kept once; numbered in the order in which they come.
class TextList {
 public:
  uint32_t Add(std::string_view text);
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> number_of_;
};

// Cells of numbers with texts between them, as 32 bits each: a float32 (7 digits), or a NaN that
// carries the number of a text, or nothing.
class CellCodes {
 public:
  static constexpr uint32_t kNothing = 0x7fe00000;

  // Numbers outside of float32's range are kept as texts. `kept_bits` of 23: bits of the fraction
  // that are worth their room.
  uint32_t Number(double value, int kept_bits = 23);
  uint32_t Text(std::string_view text);
  const std::vector<std::string>& texts() const { return texts_.texts(); }

 private:
  TextList texts_;
};

// How far `code` is from `base` in the order of their numbers; small for numbers that are close.
// Exact for any two codes.
uint32_t DifferenceOfCodes(uint32_t code, uint32_t base);

}  // namespace msprobe::report
