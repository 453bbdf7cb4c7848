#include "src/grad_probe/summary_row.h"

#include <fmt/format.h>

#include "src/base/csv.h"
#include "src/base/numbers.h"
#include "src/base/utf8.h"

namespace msprobe::grad_probe {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

}  // namespace

std::string HeaderLine(Level level, std::span<const Bound> bounds) {
  std::string line(base::kByteOrderMark);
  line += "param_name";
  if (level == Level::kL0) {
    line += ",MD5";
  }
  if (level == Level::kL2) {
    std::string before = "(-inf, ";
    for (const Bound& bound : bounds) {
      line += ',';
      base::AppendCsvText(before + bound.text + "]", line);
      before = "(" + bound.text + ", ";
    }
    line += ',';
    base::AppendCsvText(before + "inf)", line);
    line += ",=0";
  }
  line += ",max,min,norm,shape";
  line += kLineEnd;
  return line;
}

void AppendRow(std::string_view name, const Numbers& numbers, const Shape& shape, Level level,
               std::string& out) {
  base::AppendCsvText(name, out);
  if (level == Level::kL0) {
    out += fmt::format(",{:08x}", numbers.crc32);
  }
  const auto share = [&](uint64_t count) {
    out += ',';
    base::AppendPythonFloatRepr(
        numbers.element_count == 0
            ? 0
            : static_cast<double>(count) / static_cast<double>(numbers.element_count),
        out);
  };
  if (level == Level::kL2) {
    for (const uint64_t count : numbers.intervals) {
      share(count);
    }
    share(numbers.zero_count);
  }
  for (const double value : {numbers.max, numbers.min, numbers.norm}) {
    out += ',';
    base::AppendPythonFloatRepr(value, out);
  }
  out += ',';
  base::AppendCsvText(ShapeText(shape), out);
  out += kLineEnd;
}

}  // namespace msprobe::grad_probe
