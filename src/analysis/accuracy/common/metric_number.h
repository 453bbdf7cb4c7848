// A figure of a results cell, and how it is spelled: as the Python tool's arithmetic would leave
// it.
#pragma once

#include <cstdint>
#include <string>

namespace msprobe::analysis::accuracy {

inline constexpr int kDefaultDecimals = 14;

struct MetricNumber {
  // What computed it.
  enum class Form : uint8_t {
    kNone,    // no value: a blank cell
    kWhole,   // an exact 0 of a ratio of nothing: "0"
    kHalf,    // float16: the fewest digits that read back the same
    kSingle,  // float32: the same
    kDouble,  // float64: a fixed number of decimals
  };
  double value = 0;
  Form form = Form::kNone;

  static MetricNumber Double(double value) { return {value, Form::kDouble}; }
  static MetricNumber Zero() { return {0, Form::kWhole}; }
};

// `decimals` of Form::kDouble, 0 to 20.
std::string CellOf(const MetricNumber& number, int decimals);

}  // namespace msprobe::analysis::accuracy
