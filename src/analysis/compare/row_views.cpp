#include "src/analysis/compare/row_views.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/analysis/compare/distance.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {
namespace {

constexpr uint32_t kMostSearched = 16;  // rows of a call that are looked through one by one

}  // namespace

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
  const SideEntry& rows = bench_.entries[entry];
  const std::string_view argument = dump::ArgumentOf(npu_.entries[npu.entry].name, npu.name);
  if (rows.row_count > kMostSearched) {
    if (indexed_ != entry) {
      IndexArguments(entry);
    }
    const auto row = row_of_argument_.find(argument);
    return row == row_of_argument_.end() ? nullptr : &bench_.rows[row->second];
  }
  for (uint32_t i = 0; i < rows.row_count; ++i) {
    const SideRow& bench = bench_.rows[rows.first_row + i];
    if (dump::ArgumentOf(rows.name, bench.name) == argument) {
      return &bench;
    }
  }
  return nullptr;
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

RowView RowViews::View(uint32_t index) const {
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
      view.prints = PrintsOf(view, has_checksums);
    }
    return view;
  }
  if (!view.distance.comparable && !has_checksums) {
    view.distance = StatisticsDistance(*view.npu, *view.bench);
  }
  // A NaN or infinity on one side only is no small error, however well the other elements agree.
  if (view.distance.nonfinite_differs) {
    view.distance.relative = std::numeric_limits<double>::infinity();
  }
  // Values that are texts name devices, dtypes or groups: no numbers, and expected to differ
  // between machines.
  if (!view.npu->is_tensor && !view.npu->stats[kMax].is_numeric() &&
      view.npu->stats[kMax].kind != StatKind::kBool) {
    view.distance.comparable = false;
  }
  if (view.distance.comparable && !view.distance.identical) {
    view.prints = PrintsOf(view, has_checksums);
  }
  return view;
}

Operand OperandOf(const RowView& row, double epsilon) {
  const SideRow& values = row.bench != nullptr ? *row.bench : *row.npu;
  Operand operand;
  operand.epsilon = epsilon;
  operand.shape = values.shape;
  operand.elements = ElementCount(values.shape);
  operand.rms = RootMeanSquare(values);
  for (const Stat stat : {kMax, kMin}) {
    if (values.stats[stat].is_numeric() && std::isfinite(values.stats[stat].number)) {
      operand.largest = std::max(operand.largest, std::abs(values.stats[stat].number));
    }
  }
  if (values.stats[kMin].is_numeric()) {
    operand.smallest = std::max(0.0, values.stats[kMin].number);
  }
  if (values.stats[kMean].is_numeric() && std::isfinite(values.stats[kMean].number)) {
    operand.mean = values.stats[kMean].number;
  }
  operand.error = row.distance.comparable ? row.distance.relative : 0;
  if (operand.rms > 0 && row.bench != nullptr && operand.error > 0) {
    const StatValue& npu_mean = row.npu->stats[kMean];
    const double mean = npu_mean.is_numeric() ? npu_mean.number - operand.mean : 0;
    operand.scale_error =
        std::max(std::abs(RootMeanSquare(*row.npu) - operand.rms), std::abs(mean)) / operand.rms;
  }
  operand.is_state = row.stored;
  operand.hidden_error = operand.rms > 0 ? row.hidden / operand.rms : 0;
  return operand;
}

}  // namespace msprobe::analysis::compare
