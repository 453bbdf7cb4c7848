#include "src/analysis/compare/memory_as_found.h"

#include <bit>
#include <functional>

#include "src/analysis/compare/distance.h"

namespace msprobe::analysis::compare {
namespace {

// What a value is known by: dtype, number of elements (views have other shapes) and statistics. 0:
// it cannot be told from others.
uint64_t PrintOf(const SideRow& row) {
  const double elements = ElementCount(row.shape);
  if (!row.is_tensor || row.stats[kMax].kind == StatKind::kNone || !(elements > 0)) {
    return 0;
  }
  uint64_t print = std::hash<std::string_view>()(row.dtype);
  const auto add = [&](uint64_t value) {
    print = (print ^ value) * 0x9E3779B97F4A7C15ULL;
    print ^= print >> 29U;
  };
  add(std::bit_cast<uint64_t>(elements));
  for (const StatValue& value : row.stats) {
    add(value.kind == StatKind::kText ? std::hash<std::string_view>()(value.text)
                                      : std::bit_cast<uint64_t>(value.number));
  }
  return print == 0 ? 1 : print;
}

}  // namespace

void MemoryAsFound::Note(const RowView& row) {
  if (row.bench == nullptr) {
    return;
  }
  if (const uint64_t print = PrintOf(*row.npu); print != 0) {
    npu_.insert(print);
  }
  if (const uint64_t print = PrintOf(*row.bench); print != 0) {
    bench_.insert(print);
  }
}

bool MemoryAsFound::Holds(const RowView& row) const {
  return !npu_.empty() && row.bench != nullptr &&
         (npu_.contains(PrintOf(*row.npu)) || bench_.contains(PrintOf(*row.bench)));
}

}  // namespace msprobe::analysis::compare
