#include "src/analysis/monitor/report/column_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace msprobe::analysis::monitor {
namespace {

constexpr uint8_t kFloat = 16;
constexpr uint8_t kDouble = 17;
constexpr uint8_t kAbsent = 255;
constexpr int kMaxDigits = 15;
// Differences of such integers, doubled and with the three special codes below them, are exact in
// a browser's numbers (2^53).
constexpr double kMaxInteger = 1125899906842624.0;  // 2^50
constexpr uint64_t kSpecialCodes = 3;

constexpr std::array<double, kMaxDigits + 1> kPowersOfTen = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

struct Coded {
  uint8_t kind = kAbsent;
  uint8_t distance = 0;
  uint8_t planes = 0;
  std::vector<uint64_t> codes;
};

bool IsDecimal(double value, double scale) {
  const double scaled = std::rint(value * scale);
  // Minus zero has no integer of its own; shown, it is a zero.
  return std::abs(scaled) <= kMaxInteger && scaled / scale == value;
}

// Digits behind the point with which all finite values are written exactly; -1: more than 15.
int CommonDigits(std::span<const double> values) {
  int digits = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      continue;
    }
    while (!IsDecimal(value, kPowersOfTen[static_cast<size_t>(digits)])) {
      if (++digits > kMaxDigits) {
        return -1;
      }
    }
  }
  // A value that is exact with few digits may be too large with many.
  const double scale = kPowersOfTen[static_cast<size_t>(digits)];
  const bool all = std::all_of(values.begin(), values.end(), [scale](double value) {
    return !std::isfinite(value) || IsDecimal(value, scale);
  });
  return all ? digits : -1;
}

bool FitsFloat(std::span<const double> values) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kSmallest = std::numeric_limits<float>::min();
  return std::all_of(values.begin(), values.end(), [](double value) {
    const double size = std::abs(value);
    return !std::isfinite(value) || value == 0 || (size >= kSmallest && size <= kLargest);
  });
}

int64_t FloatInteger(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto size = static_cast<int64_t>(bits & 0x7FFFFFFFU);
  return (bits >> 31U) != 0 ? -size - 1 : size;
}

uint64_t ZigZag(int64_t value) {
  return value >= 0 ? static_cast<uint64_t>(value) * 2
                    : static_cast<uint64_t>(-(value + 1)) * 2 + 1;
}

uint64_t SpecialCode(double value) { return std::isnan(value) ? 0 : value > 0 ? 1 : 2; }

template <typename ToInteger>
void FillCodes(std::span<const double> values, size_t distance, const ToInteger& to_integer,
               std::vector<int64_t>& integers, std::vector<uint64_t>& codes) {
  integers.resize(values.size());
  codes.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t before = distance != 0 && i >= distance ? integers[i - distance] : 0;
    if (std::isfinite(values[i])) {
      integers[i] = to_integer(values[i]);
      codes[i] = ZigZag(integers[i] - before) + kSpecialCodes;
    } else {
      integers[i] = before;
      codes[i] = SpecialCode(values[i]);
    }
  }
}

// Roughly what an entropy coder would spend.
uint64_t BitsOf(const std::vector<uint64_t>& codes) {
  uint64_t bits = 0;
  for (const uint64_t code : codes) {
    bits += static_cast<uint64_t>(std::bit_width(code));
  }
  return bits;
}

uint8_t PlanesOf(const std::vector<uint64_t>& codes) {
  const uint64_t largest = codes.empty() ? 0 : *std::max_element(codes.begin(), codes.end());
  return static_cast<uint8_t>((std::bit_width(largest) + 7) / 8);
}

class Coder {
 public:
  Coded Code(const ColumnToCode& column) {
    Coded best;
    if (column.values.empty()) {
      return best;
    }
    best_bits_ = std::numeric_limits<uint64_t>::max();
    const int digits = CommonDigits(column.values);
    if (digits >= 0) {
      const double scale = kPowersOfTen[static_cast<size_t>(digits)];
      Try(column, static_cast<uint8_t>(digits), best,
          [scale](double value) { return static_cast<int64_t>(std::rint(value * scale)); });
    }
    if (FitsFloat(column.values)) {
      Try(column, kFloat, best, FloatInteger);
    }
    if (best.kind == kAbsent) {
      best.kind = kDouble;
      for (const double value : column.values) {
        best.codes.push_back(std::bit_cast<uint64_t>(value));
      }
      best.planes = 8;
      return best;
    }
    best.planes = PlanesOf(best.codes);
    return best;
  }

 private:
  template <typename ToInteger>
  void Try(const ColumnToCode& column, uint8_t kind, Coded& best, const ToInteger& to_integer) {
    const std::array<size_t, 3> distances = {0, 1, column.rank_distance};
    for (size_t i = 0; i < distances.size(); ++i) {
      if (i == 2 && (distances[i] <= 1 || distances[i] >= column.values.size())) {
        continue;
      }
      FillCodes(column.values, distances[i], to_integer, integers_, codes_);
      if (const uint64_t bits = BitsOf(codes_); bits < best_bits_) {
        best_bits_ = bits;
        best.kind = kind;
        best.distance = static_cast<uint8_t>(i);
        best.codes.swap(codes_);
      }
    }
  }

  uint64_t best_bits_ = 0;
  std::vector<int64_t> integers_;
  std::vector<uint64_t> codes_;
};

}  // namespace

void AppendColumns(std::span<const ColumnToCode> columns, std::string& out) {
  Coder coder;
  std::vector<Coded> coded;
  coded.reserve(columns.size());
  size_t bytes = 0;
  for (const ColumnToCode& column : columns) {
    coded.push_back(coder.Code(column));
    bytes += coded.back().codes.size() * coded.back().planes;
  }
  out.reserve(out.size() + columns.size() * 4 + bytes);
  for (const Coded& column : coded) {
    for (const uint8_t part : {column.kind, column.distance, column.planes, uint8_t{0}}) {
      out += static_cast<char>(part);
    }
  }
  for (unsigned plane = 0; plane < 8; ++plane) {
    for (const Coded& column : coded) {
      if (column.planes <= plane) {
        continue;
      }
      for (const uint64_t code : column.codes) {
        out += static_cast<char>((code >> (8 * plane)) & 0xFFU);
      }
    }
  }
}

}  // namespace msprobe::analysis::monitor
