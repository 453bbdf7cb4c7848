#include "src/analysis/compare/differing_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string_view>

#include "src/analysis/compare/distance.h"

namespace msprobe::analysis::compare {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xFF51AFD7ED558CCDULL;
  return hash ^ (hash >> 32U);
}

uint64_t StatPrint(const StatValue& value) {
  switch (value.kind) {
    case StatKind::kNone:
      return 1;
    case StatKind::kNumber:
    case StatKind::kInteger:
      return std::bit_cast<uint64_t>(value.number);
    case StatKind::kBool:
      return value.boolean ? 3 : 2;
    case StatKind::kText:
      return std::hash<std::string_view>()(value.text);
  }
  return 0;
}

uint64_t ExtremesPrint(const SideRow& row) {
  return Mix(StatPrint(row.stats[kMax]), StatPrint(row.stats[kMin]));
}

// The leading bits of Norm: the order of summation changes only the last ones.
uint64_t CoarseNorm(const SideRow& row) { return StatPrint(row.stats[kNorm]) >> 40U; }

}  // namespace

RowPrints PrintsOf(const RowView& row, bool has_checksums) {
  RowPrints prints;
  const uint64_t npu = ExtremesPrint(*row.npu);
  prints.extremes = Mix(17, npu);
  if (row.bench != nullptr) {
    const uint64_t bench = ExtremesPrint(*row.bench);
    prints.extremes = Mix(prints.extremes, bench);
    prints.same_extremes = npu == bench;
    if (prints.same_extremes) {
      prints.extremes = Mix(Mix(prints.extremes, CoarseNorm(*row.npu)), CoarseNorm(*row.bench));
    }
  }
  if (row.npu->stats[kMax].kind == StatKind::kNone) {
    prints.extremes = Mix(Mix(prints.extremes, std::bit_cast<uint64_t>(row.distance.relative)),
                          std::bit_cast<uint64_t>(row.distance.absolute));
  }
  if (has_checksums) {
    prints.checksums = Mix(29, std::hash<std::string_view>()(row.npu->md5));
    if (row.bench != nullptr) {
      prints.checksums = Mix(prints.checksums, std::hash<std::string_view>()(row.bench->md5));
    }
  }
  return prints;
}

void DifferingRows::PrintSet::Insert(uint64_t print) {
  print += print == 0 ? 1 : 0;
  if ((used_ + 1) * 2 > places_.size()) {
    Grow();
  }
  const size_t mask = places_.size() - 1;
  size_t place = print & mask;
  while (places_[place] != 0) {
    if (places_[place] == print) {
      return;
    }
    place = (place + 1) & mask;
  }
  places_[place] = print;
  ++used_;
}

bool DifferingRows::PrintSet::Contains(uint64_t print) const {
  if (places_.empty()) {
    return false;
  }
  print += print == 0 ? 1 : 0;
  const size_t mask = places_.size() - 1;
  for (size_t place = print & mask; places_[place] != 0; place = (place + 1) & mask) {
    if (places_[place] == print) {
      return true;
    }
  }
  return false;
}

void DifferingRows::PrintSet::Grow() {
  std::vector<uint64_t> old(std::max<size_t>(1024, places_.size() * 4), 0);
  old.swap(places_);
  used_ = 0;
  for (const uint64_t print : old) {
    if (print != 0) {
      Insert(print);
    }
  }
}

void DifferingRows::Remember(const RowPrints& prints) {
  if (has_checksums_) {
    prints_.Insert(prints.checksums);
  }
  if (!has_checksums_ || !prints.same_extremes) {
    prints_.Insert(prints.extremes);
  }
}

bool DifferingRows::IsKnown(const RowPrints& prints) const {
  return (has_checksums_ && prints_.Contains(prints.checksums)) ||
         ((!has_checksums_ || !prints.same_extremes) && prints_.Contains(prints.extremes));
}

double RootMeanSquare(const SideRow& row) {
  const StatValue& norm = row.stats[kNorm];
  return norm.is_numeric() && std::isfinite(norm.number)
             ? std::abs(norm.number) / std::sqrt(ElementCount(row.shape))
             : 0;
}

}  // namespace msprobe::analysis::compare
