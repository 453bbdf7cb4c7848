// Result rows as the search for the first divergence sees them.
//
// A row gets its partner by name, or by the order of calls where the sides did not make the same
// calls, and a distance from it. A row that differs gets a fingerprint: values travel through
// views, copies and functions under many names, and a difference is to be named where it begins
// only.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  hash *= 0xFF51AFD7ED558CCDULL;
  return hash ^ (hash >> 32U);
}

uint64_t StatHash(const StatValue& value) {
  switch (value.kind) {
    case StatKind::kNone:
      return 1;
    case StatKind::kNumber:
    case StatKind::kInteger:
      return std::bit_cast<uint64_t>(value.number);
    case StatKind::kBool:
      return value.boolean ? 3 : 2;
    case StatKind::kText:
      return std::hash<std::string_view>()(value.text());
  }
  return 0;
}

uint64_t ExtremesHash(const SideRow& row) {
  return Mix(StatHash(row.stats[kMax]), StatHash(row.stats[kMin]));
}

// The leading bits of Norm: the order of summation changes only the last ones.
uint64_t CoarseNorm(const SideRow& row) { return StatHash(row.stats[kNorm]) >> 40U; }

// Fingerprint of one side's value by dtype, number of elements (views have other shapes) and
// statistics; 0 if it is ambiguous.
uint64_t ValueHash(const SideRow& row) {
  const double elements = ElementCount(row.shape);
  if (!row.is_tensor || row.stats[kMax].kind == StatKind::kNone || !(elements > 0)) {
    return 0;
  }
  uint64_t hash = std::hash<std::string_view>()(row.dtype);
  const auto add = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 29U;
  };
  add(std::bit_cast<uint64_t>(elements));
  for (const StatValue& value : row.stats) {
    add(value.kind == StatKind::kText ? std::hash<std::string_view>()(value.text())
                                      : std::bit_cast<uint64_t>(value.number));
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace

Fingerprint FingerprintOf(const RowView& row, bool has_checksums) {
  Fingerprint fingerprint;
  const uint64_t npu = ExtremesHash(*row.npu);
  fingerprint.extremes = Mix(17, npu);
  if (row.bench != nullptr) {
    const uint64_t bench = ExtremesHash(*row.bench);
    fingerprint.extremes = Mix(fingerprint.extremes, bench);
    fingerprint.same_extremes = npu == bench;
    if (fingerprint.same_extremes) {
      fingerprint.extremes =
          Mix(Mix(fingerprint.extremes, CoarseNorm(*row.npu)), CoarseNorm(*row.bench));
    }
  }
  if (row.npu->stats[kMax].kind == StatKind::kNone) {
    fingerprint.extremes =
        Mix(Mix(fingerprint.extremes, std::bit_cast<uint64_t>(row.distance.relative)),
            std::bit_cast<uint64_t>(row.distance.absolute));
  }
  if (has_checksums) {
    fingerprint.checksums = Mix(29, std::hash<std::string_view>()(row.npu->md5));
    if (row.bench != nullptr) {
      fingerprint.checksums =
          Mix(fingerprint.checksums, std::hash<std::string_view>()(row.bench->md5));
    }
  }
  return fingerprint;
}

void DifferingRows::HashSet::Insert(uint64_t hash) {
  hash += hash == 0 ? 1 : 0;
  if ((used_ + 1) * 2 > places_.size()) {
    Grow();
  }
  const size_t mask = places_.size() - 1;
  size_t place = hash & mask;
  while (places_[place] != 0) {
    if (places_[place] == hash) {
      return;
    }
    place = (place + 1) & mask;
  }
  places_[place] = hash;
  ++used_;
}

bool DifferingRows::HashSet::Contains(uint64_t hash) const {
  if (places_.empty()) {
    return false;
  }
  hash += hash == 0 ? 1 : 0;
  const size_t mask = places_.size() - 1;
  for (size_t place = hash & mask; places_[place] != 0; place = (place + 1) & mask) {
    if (places_[place] == hash) {
      return true;
    }
  }
  return false;
}

void DifferingRows::HashSet::Grow() {
  std::vector<uint64_t> old(std::max<size_t>(1024, places_.size() * 4), 0);
  old.swap(places_);
  used_ = 0;
  for (const uint64_t hash : old) {
    if (hash != 0) {
      Insert(hash);
    }
  }
}

void DifferingRows::Record(const Fingerprint& fingerprint) {
  if (has_checksums_) {
    hashes_.Insert(fingerprint.checksums);
  }
  if (!has_checksums_ || !fingerprint.same_extremes) {
    hashes_.Insert(fingerprint.extremes);
  }
}

bool DifferingRows::Contains(const Fingerprint& fingerprint) const {
  return (has_checksums_ && hashes_.Contains(fingerprint.checksums)) ||
         ((!has_checksums_ || !fingerprint.same_extremes) &&
          hashes_.Contains(fingerprint.extremes));
}

void UninitialisedMemory::Record(const RowView& row) {
  if (row.bench == nullptr) {
    return;
  }
  if (const uint64_t hash = ValueHash(*row.npu); hash != 0) {
    npu_.insert(hash);
  }
  if (const uint64_t hash = ValueHash(*row.bench); hash != 0) {
    bench_.insert(hash);
  }
}

bool UninitialisedMemory::Contains(const RowView& row) const {
  return !npu_.empty() && row.bench != nullptr &&
         (npu_.contains(ValueHash(*row.npu)) || bench_.contains(ValueHash(*row.bench)));
}

RowViews::RowViews(const Side& npu, const Side& bench, const PairResult& result,
                   const CallAlignment& alignment)
    : npu_(npu), bench_(bench), result_(result), alignment_(alignment) {
  // Grouped by entry; within one entry the result's order is kept.
  first_.assign(npu_.entries.size() + 1, 0);
  for (const RowResult& row : result_.rows) {
    ++first_[npu_.rows[row.pair.npu].entry + 1];
  }
  for (size_t i = 1; i < first_.size(); ++i) {
    first_[i] += first_[i - 1];
  }
  grouped_.resize(result_.rows.size());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  for (uint32_t i = 0; i < result_.rows.size(); ++i) {
    const RowPair& pair = result_.rows[i].pair;
    grouped_[next[npu_.rows[pair.npu].entry]++] = i;
    if (pair.outcome == MatchOutcome::kDTypeDiffers ||
        pair.outcome == MatchOutcome::kShapeDiffers) {
      unmatched_.emplace(npu_.rows[pair.npu].name, kNoRow);
    }
  }
  if (!unmatched_.empty()) {
    for (uint32_t i = 0; i < bench_.rows.size(); ++i) {
      if (const auto found = unmatched_.find(bench_.rows[i].name); found != unmatched_.end()) {
        found->second = i;
      }
    }
  }
}

std::vector<uint32_t>::const_iterator RowViews::Begin(uint32_t entry) const {
  return grouped_.begin() + first_[entry];
}

std::vector<uint32_t>::const_iterator RowViews::End(uint32_t entry) const {
  return grouped_.begin() + first_[entry + 1];
}

bool RowViews::PairedByName(const RowResult& row) const {
  if (!alignment_.differs) {
    return true;
  }
  const uint32_t entry = alignment_.bench_of[npu_.rows[row.pair.npu].entry];
  return row.pair.bench == kNoRow ? entry == kNoEntry : bench_.rows[row.pair.bench].entry == entry;
}

const SideRow* RowViews::AlignedBench(const SideRow& npu) const {
  const uint32_t entry = alignment_.bench_of[npu.entry];
  if (entry == kNoEntry) {
    return nullptr;
  }
  if (indexed_ != entry) {
    IndexArguments(entry);
  }
  const auto row = row_of_argument_.find(dump::ArgumentOf(npu_.entries[npu.entry].name, npu.name));
  return row == row_of_argument_.end() ? nullptr : &bench_.rows[row->second];
}

// A search among all rows of a call for each of them would take the square of their number.
void RowViews::IndexArguments(uint32_t bench_entry) const {
  const SideEntry& rows = bench_.entries[bench_entry];
  indexed_ = bench_entry;
  row_of_argument_.clear();
  for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
    row_of_argument_.try_emplace(dump::ArgumentOf(rows.name, bench_.rows[i].name), i);
  }
}

const SideRow* RowViews::BenchOfSameName(const SideRow& npu) const {
  const auto found = unmatched_.find(npu.name);
  return found == unmatched_.end() || found->second == kNoRow ? nullptr
                                                              : &bench_.rows[found->second];
}

// A gradient may be seen before or behind a reshape, depending on the dtypes of the run: as many
// elements, another shape.
bool RowViews::SeenElsewhere(const SideRow& npu) const {
  const SideRow* bench = BenchOfSameName(npu);
  return bench != nullptr && npu.state == dump::RowState::kOutput &&
         npu.name.find(".backward") != std::string_view::npos &&
         ElementCount(npu.shape) == ElementCount(bench->shape);
}

RowView RowViews::View(uint32_t index, bool with_fingerprint) const {
  const RowResult& row = result_.rows[index];
  const bool has_checksums = result_.mode == CompareMode::kMd5;
  RowView view;
  view.result = index;
  view.npu = &npu_.rows[row.pair.npu];
  MatchOutcome outcome = row.pair.outcome;
  if (PairedByName(row)) {
    view.bench = row.pair.bench == kNoRow ? nullptr : &bench_.rows[row.pair.bench];
    view.distance = row.distance;
    if (outcome == MatchOutcome::kDTypeDiffers) {
      view.bench = BenchOfSameName(*view.npu);
      if (view.bench != nullptr && view.bench->shape == view.npu->shape) {
        view.distance = StatisticsDistance(*view.npu, *view.bench);
      }
    }
  } else {
    view.bench = AlignedBench(*view.npu);
    outcome = view.bench == nullptr ? MatchOutcome::kNoBenchRow : MatchOutcome::kMatched;
    if (view.bench != nullptr && view.bench->shape != view.npu->shape) {
      view.bench = nullptr;
      outcome = MatchOutcome::kShapeDiffers;
    }
    if (view.bench != nullptr) {
      view.distance = has_checksums ? Md5Distance(*view.npu, *view.bench)
                                    : StatisticsDistance(*view.npu, *view.bench);
    }
  }
  if (view.bench == nullptr) {
    view.distance = Distance{};
    if (outcome == MatchOutcome::kShapeDiffers && !SeenElsewhere(*view.npu)) {
      view.distance.comparable = true;
      view.distance.nonfinite_differs = true;
      view.distance.relative = std::numeric_limits<double>::infinity();
      view.agrees = false;
      view.fingerprint = FingerprintOf(view, has_checksums);
    }
    return view;
  }
  if (!view.distance.comparable && !has_checksums) {
    view.distance = StatisticsDistance(*view.npu, *view.bench);
  }
  // A NaN or infinity on one side only is not a small error, however well the other elements agree.
  if (view.distance.nonfinite_differs) {
    view.distance.relative = std::numeric_limits<double>::infinity();
  }
  // Values that are texts name devices, dtypes or groups: no numbers, and expected to differ
  // between machines.
  if (!view.npu->is_tensor && !view.npu->stats[kMax].is_numeric() &&
      view.npu->stats[kMax].kind != StatKind::kBool) {
    view.distance.comparable = false;
  }
  if (with_fingerprint && view.distance.comparable && !view.distance.identical) {
    view.fingerprint = FingerprintOf(view, has_checksums);
  }
  return view;
}

}  // namespace msprobe::analysis::compare
