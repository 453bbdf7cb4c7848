#include "src/analysis/compare/divergence_walk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/error_bound.h"
#include "src/dump/call_facts.h"

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

using dump::Direction;

using dump::EntryName;

using dump::RowState;

namespace {

// How many units in the last place the statistics of two tensors may hide once anything differs.
constexpr double kHiddenUnits = 8;
constexpr double kHiddenNarrowUnits =
    0.25;  // of 16 bits: rounded once, in the root mean square by a quarter unit
// Gradients of 16 bits are rounded once more than the call that made them.
constexpr double kNarrowGradientSlack = 3.5;
constexpr double kMixedGradientSlack = 2;  // on top of kMixedSlack
// An origin is beyond noise by this factor: what lies between agrees no more, but proves nothing.
constexpr double kMixedSlack = 2.5;  // gradients of sides that round to different dtypes
// A gradient this many times its own rounding or less is nothing but rounding.
constexpr double kCancelled = 16;
constexpr double kJumped = 0.3;
// A common factor of all statistics: further from 1 it may be another remainder of what cancels;
// powers of what enters have a multiple of its factor.
constexpr double kLargestFactor = 0.25;
constexpr double kFactorSlack = 4;
// Elements of one row or channel share errors: however many there are, no more are independent.
constexpr double kLeastShare = 0.125;
// Sums of products with a gradient cancel: they are further apart than what they are made of.
constexpr double kUnseenSlack = 4;
// The dtypes that this share of the floating rows has are the usual ones.
constexpr double kMostDTypes = 0.6;

}  // namespace

void Walk::NoteDTypes() {
  std::map<std::pair<std::string_view, std::string_view>, size_t> counts;
  size_t floating = 0;
  for (uint32_t i = 0; i < result_.rows.size(); ++i) {
    const RowView view = views_.View(i);
    if (view.bench != nullptr && agreement_.IsFloating(*view.npu) &&
        agreement_.IsFloating(*view.bench)) {
      ++floating;
      ++counts[{view.npu->dtype, view.bench->dtype}];
      if (2 * counts[{view.npu->dtype, view.bench->dtype}] > floating) {
        usual_epsilon_ = CoarserEpsilon(view);
      }
    }
  }
  for (const auto& [dtypes, count] : counts) {
    if (static_cast<double>(count) >= kMostDTypes * static_cast<double>(floating)) {
      usual_dtypes_ = dtypes;
    }
  }
  if (npu_.framework != input_.bench.framework) {
    usual_dtypes_.reset();
  }
}

bool Walk::HasUnusualDType(const RowView& row) {
  if (!usual_dtypes_ || row.bench == nullptr || !agreement_.IsFloating(*row.npu) ||
      !agreement_.IsFloating(*row.bench)) {
    return false;
  }
  const std::pair dtypes(row.npu->dtype, row.bench->dtype);
  if (dtypes == *usual_dtypes_) {
    return false;
  }
  // Sides of different precision may well have values of one dtype here and there (a loss in
  // float32), but not weights.
  return row.npu->dtype != row.bench->dtype ||
         (row.stored && usual_dtypes_->first != usual_dtypes_->second);
}

void Walk::NoteParameters() {
  size_t identical = 0;
  size_t sums_apart = 0;
  for (uint32_t i = 0; i < result_.rows.size(); ++i) {
    const SideRow& npu = npu_.rows[result_.rows[i].pair.npu];
    const bool in_module = npu.state == RowState::kParameters;
    if (!in_module &&
        !(npu.is_tensor &&
          IsLayerStateArgument(plan_.names[npu.entry],
                               dump::ArgumentOf(npu_.entries[npu.entry].name, npu.name)))) {
      continue;
    }
    const RowView view = views_.View(i);
    if (view.bench == nullptr || !view.distance.comparable) {
      continue;
    }
    if (input_.previous != nullptr &&
        !IsRunningStatistic(plan_.names[npu.entry],
                            dump::ArgumentOf(npu_.entries[npu.entry].name, npu.name))) {
      const std::string_view entry_name = npu_.entries[npu.entry].name;
      update_rule_.Add(*input_.previous,
                       UpdateKeysOf(entry_name, dump::ArgumentOf(entry_name, npu.name), npu),
                       CancellationOf(npu), *view.npu, *view.bench);
    }
    if (view.distance.identical) {
      ++identical;
    } else {
      sums_apart += SameExtremes(*view.npu, *view.bench) ? 1 : 0;
      if (in_module) {
        parameters_.Remember(view.prints);
      }
    }
  }
  agreement_.SetSumsAreExact(identical >= sums_apart);
}

// Biases of contractions; a projection with three times as many outputs as inputs is fused from
// queries, keys and values.
Cancellation Walk::CancellationOf(const SideRow& parameter) {
  if (FamilyOfEntry(parameter.entry) != OperatorFamily::kContraction ||
      parameter.shape.find(',') != std::string_view::npos) {
    return Cancellation::kNever;
  }
  const double outputs = ElementCount(parameter.shape);
  if (shapes_entry_ != parameter.entry) {
    shapes_entry_ = parameter.entry;
    shapes_.clear();
    const SideEntry& rows = npu_.entries[parameter.entry];
    for (uint32_t i = rows.first_row; i < rows.first_row + rows.row_count; ++i) {
      if (npu_.rows[i].is_tensor) {
        shapes_.insert(npu_.rows[i].shape);
      }
    }
  }
  return shapes_.contains(fmt::format("[{:.0f}, {:.0f}]", outputs, outputs / 3))
             ? Cancellation::kInPart
             : Cancellation::kWhole;
}

// Behind an update that depends on signs, single units of a layer differ.
bool Walk::UpdatedByChance() const {
  return input_.previous != nullptr && !input_.previous->identical &&
         !update_rule_.FollowsGradients();
}

void Walk::CarryHidden(OperatorFamily family) {
  double hidden = 0;
  for (const RowView& input : inputs_) {
    hidden = std::max(hidden, input.hidden);
  }
  if (hidden == 0 || (family != OperatorFamily::kContraction && family != OperatorFamily::kExact)) {
    return;
  }
  for (RowView& output : outputs_) {
    output.hidden = hidden;
    if (!output.distance.identical) {
      hidden_[output.prints.extremes] = hidden;
    }
  }
}

std::vector<Operand> Walk::InputsOf(uint32_t entry) {
  std::vector<Operand> operands;
  if (entry == kNoEntry) {
    return operands;
  }
  const std::string_view entry_name = npu_.entries[entry].name;
  for (auto it = views_.Begin(entry); it != views_.End(entry); ++it) {
    RowView view = views_.View(*it);
    if (!IsInput(*view.npu) && view.npu->state != RowState::kParameters) {
      continue;
    }
    view.stored =
        view.npu->state == RowState::kParameters ||
        IsLayerStateArgument(plan_.names[entry], dump::ArgumentOf(entry_name, view.npu->name));
    operands.push_back(OperandOf(view, CoarserEpsilon(view)));
  }
  return operands;
}

double Walk::CoarserEpsilon(const RowView& view) {
  const double npu = agreement_.Epsilon(*view.npu);
  return view.bench == nullptr ? npu : std::max(npu, agreement_.Epsilon(*view.bench));
}

CallOperands Walk::OperandsOf(uint32_t entry) {
  const EntryName& name = plan_.names[entry];
  CallOperands operands;
  operands.inner_error = containment_.InnerError(entry);
  if (name.is_parameters_grad) {
    const uint32_t backward = plan_.partner[entry];
    operands.inputs = InputsOf(backward);
    operands.forward_inputs = InputsOf(backward == kNoEntry ? kNoEntry : plan_.partner[backward]);
    return operands;
  }
  for (const RowView& input : inputs_) {
    operands.inputs.push_back(OperandOf(input, CoarserEpsilon(input)));
  }
  if (name.direction == Direction::kBackward) {
    operands.forward_inputs = InputsOf(plan_.partner[entry]);
  }
  return operands;
}

OperatorFamily Walk::FamilyOfEntry(uint32_t entry) const {
  const EntryName& name = plan_.names[entry];
  return FamilyOf(name);
}

// Something before this call, or an input of it, is not equal, be it by one unit in the last place.
bool Walk::NoiseEnters() const {
  return noisy_ || std::any_of(inputs_.begin(), inputs_.end(),
                               [](const RowView& v) { return !v.distance.identical; });
}

double Walk::Explained(uint32_t entry, OperatorFamily family, const CallOperands& operands,
                       const RowView& output) {
  const EntryName& name = plan_.names[entry];
  if (output.bench == nullptr && family == OperatorFamily::kExact &&
      name.direction == Direction::kBackward) {
    return std::numeric_limits<double>::infinity();  // a cast that does nothing on one side hands
                                                     // other gradients on
  }
  if (output.bench == nullptr) {
    const bool shapes_enter = std::any_of(inputs_.begin(), inputs_.end(),
                                          [](const RowView& v) { return v.bench == nullptr; });
    const uint32_t forward =
        name.direction == Direction::kBackward ? plan_.partner[entry] : kNoEntry;
    const bool forward_differs = forward != kNoEntry && states_[forward].diverges;
    return shapes_enter || forward_differs ? std::numeric_limits<double>::infinity() : 0;
  }
  const double largest_input = std::max(LargestError(inputs_), states_[entry].input_error);
  if (!std::isfinite(output.distance.relative) && std::isfinite(largest_input)) {
    return 0;  // finite errors do not explain a NaN or infinity on one side only
  }
  if (family == OperatorFamily::kDiscrete && name.direction == Direction::kBackward &&
      plan_.partner[entry] != kNoEntry && states_[plan_.partner[entry]].made_same_choice) {
    family = OperatorFamily::kExact;  // gradients go back to where they were chosen from
  }
  BoundOptions options;
  const bool is_narrow = usual_epsilon_ > kNarrowFrom;
  if (NoiseEnters() && result_.mode != CompareMode::kRealData) {
    options.hidden_error = is_narrow           ? kHiddenNarrowUnits * usual_epsilon_
                           : UpdatedByChance() ? kHiddenUnitsByChance * usual_epsilon_
                                               : kHiddenUnits * usual_epsilon_;
  }
  if (is_narrow && (name.direction == Direction::kBackward || name.is_parameters_grad)) {
    options.slack = agreement_.RoundsDifferently(*output.npu, *output.bench) ? kMixedGradientSlack
                                                                             : kNarrowGradientSlack;
  }
  double explained =
      ExplainedError(name, family, operands, OperandOf(output, CoarserEpsilon(output)), options);
  if (name.direction != Direction::kForward &&
      agreement_.RoundsDifferently(*output.npu, *output.bench)) {
    explained *= kMixedSlack;
  }
  if (name.is_parameters_grad) {
    // Gradients of several calls and shared weights add up: the last backward call does not tell
    // all of them.
    explained = std::max(explained, 8 * modules_[plan_.module_of[entry]].error);
  }
  if (family == OperatorFamily::kExact && noisy_) {
    // A part of a tensor may hold all of an error that the statistics of the whole do not show.
    explained = std::max(explained, kEntersAfresh * recent_error_);
  }
  if (jumped_) {
    explained = std::max(explained, kJumped);
  }
  return std::max(explained, kBeyondNoise * agreement_.Noise(*output.npu, *output.bench));
}

bool Walk::Cancels(uint32_t entry, const RowView& output, const CallOperands& operands) {
  const EntryName& name = plan_.names[entry];
  if (!name.is_parameters_grad && name.direction != Direction::kBackward) {
    return false;
  }
  double rms = 0;
  double elements = 1;
  for (const Operand& gradient : operands.inputs) {
    rms = std::max(rms, gradient.rms);
    elements = std::max(elements, gradient.elements);
  }
  // Kernels of 16 bits sum in float32: what they leave is the rounding of the gradients.
  const double epsilon = CoarserEpsilon(output);
  double error = epsilon > kNarrowFrom ? kHiddenNarrowUnits * epsilon
                                       : agreement_.DTypeNoise(*output.npu, *output.bench);
  for (const Operand& gradient : operands.inputs) {
    error = std::max(error, gradient.error);
  }
  const double summed = std::max(1.0, elements / ElementCount(output.npu->shape));
  const double scale = rms * std::sqrt(summed);
  return RootMeanSquare(*output.bench) <= kCancelled * error * scale &&
         output.distance.absolute <= 16 * error * scale;
}

std::optional<double> Walk::ExplainedOfScale(uint32_t entry, OperatorFamily family,
                                             const RowView& output, const CallOperands& operands,
                                             double explained, bool cancels) {
  // What only hands values on may hand on a part of a tensor that was scaled before.
  if (output.bench == nullptr || family == OperatorFamily::kExact) {
    return std::nullopt;
  }
  const EntryName& name = plan_.names[entry];
  const bool is_linear = name.direction == Direction::kBackward && !jumped_ && !cancels;
  const Operand result = OperandOf(output, 0);
  const std::optional<double> factor = FactorOf(output);
  if (!factor && !is_linear) {
    return std::nullopt;
  }
  // Of a parameter's gradient several calls have a part.
  double entering = name.is_parameters_grad ? modules_[plan_.module_of[entry]].error : 0.0;
  double share = NormShare(result);
  for (const std::vector<Operand>* of : {&operands.inputs, &operands.forward_inputs}) {
    for (const Operand& operand : *of) {
      entering += operand.scale_error;
      if (operand.elements > 1 && operand.epsilon > 0 && operand.rms > 0 && !operand.is_state) {
        share = std::max(share, NormShare(operand));
      }
    }
  }
  // What rounding leaves where sums cancel has no scale at all: another order of the sum leaves
  // other remainders, not the same ones scaled.
  const double allowed = std::max(kFactorSlack * entering + (cancels ? 0.0 : explained * share),
                                  agreement_.Noise(*output.npu, *output.bench));
  const double off =
      factor ? std::abs(*factor) : std::abs(RootMeanSquare(*output.npu) / result.rms - 1);
  return off > allowed ? std::optional(allowed) : std::nullopt;
}

std::optional<double> Walk::FactorOf(const RowView& row) {
  if (row.bench == nullptr || std::max(CoarserEpsilon(row), usual_epsilon_) > kNarrowFrom ||
      agreement_.RoundsDifferently(*row.npu, *row.bench)) {
    return std::nullopt;
  }
  const std::optional<double> factor = CommonFactor(*row.npu, *row.bench);
  return factor && std::abs(*factor) <= kLargestFactor ? factor : std::nullopt;
}

double Walk::NormShare(const Operand& values) {
  return std::max(kLeastShare, values.largest / (values.rms * std::sqrt(values.elements)));
}

bool Walk::MayJump(double error, const std::vector<RowView>& inputs) const {
  double elements = 1;
  for (const RowView& input : inputs) {
    elements = std::max(elements, ElementCount(input.npu->shape));
  }
  const bool differs_already =
      std::any_of(inputs.begin(), inputs.end(), [](const RowView& v) { return !v.agrees; });
  return jumped_ || differs_already || FlippedShare(std::max(error, recent_error_), elements) > 0;
}

void Walk::RecordParameters(uint32_t entry) {
  const EntryName& name = plan_.names[entry];
  const std::string_view entry_name = npu_.entries[entry].name;
  for (const RowView& row : inputs_) {
    if (!row.stored || row.bench == nullptr || name.direction != Direction::kForward) {
      continue;
    }
    record_.repeats_layers = record_.repeats_layers || (seen_backward_ && !IsUpdateCall(name));
    StepRecord::Parameter parameter;
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      const auto number = [&](const SideRow& side) {
        return side.stats[stat].is_numeric() ? side.stats[stat].number
                                             : std::numeric_limits<double>::quiet_NaN();
      };
      parameter.npu[stat] = number(*row.npu);
      parameter.bench[stat] = number(*row.bench);
    }
    parameter.identical = row.distance.identical;
    parameter.agrees = row.agrees;
    record_.parameters.try_emplace(
        UpdateKeysOf(entry_name, dump::ArgumentOf(entry_name, row.npu->name), *row.npu).parameter,
        parameter);
  }
  if (!name.is_parameters_grad && name.direction != Direction::kBackward) {
    return;
  }
  for (const RowView& row : outputs_) {
    if (!row.npu->is_tensor) {
      continue;
    }
    StepRecord::Gradient gradient;
    gradient.identical = row.distance.identical;
    gradient.cancelled = row.forgiven;
    gradient.error = row.distance.relative;
    gradient.scale = row.bench == nullptr ? 0 : RootMeanSquare(*row.bench);
    const auto [found, is_new] = record_.gradients.try_emplace(
        UpdateKeysOf(entry_name, dump::ArgumentOf(entry_name, row.npu->name), *row.npu).gradient,
        gradient);
    if (!is_new) {  // of several with one shape, the worst
      found->second.identical = found->second.identical && gradient.identical;
      found->second.cancelled = found->second.cancelled || gradient.cancelled;
      found->second.error = std::max(found->second.error, gradient.error);
    }
  }
  RecordUnseenGradients(entry);
}

// Where a dump shows what entered a backward call, but not the gradient that it gave to a weight
// (PyTorch 2 adds it to the parameter elsewhere), that gradient is as far apart as what it is made
// of.
void Walk::RecordUnseenGradients(uint32_t entry) {
  const uint32_t forward = plan_.partner[entry];
  if (plan_.names[entry].is_parameters_grad || plan_.names[entry].is_module ||
      forward == kNoEntry || inputs_.empty()) {
    return;
  }
  double error = LargestError(inputs_);
  std::vector<RowView> weights;
  const std::string_view forward_name = npu_.entries[forward].name;
  for (auto it = views_.Begin(forward); it != views_.End(forward); ++it) {
    RowView view = views_.View(*it);
    if (!IsInput(*view.npu) || view.bench == nullptr || !view.npu->is_tensor) {
      continue;
    }
    if (IsLayerStateArgument(plan_.names[forward],
                             dump::ArgumentOf(forward_name, view.npu->name))) {
      weights.push_back(view);
    } else {
      error = std::max(error, view.distance.relative);
    }
  }
  for (const RowView& weight : weights) {
    if (CancellationOf(*weight.npu) != Cancellation::kNever ||
        IsRunningStatistic(plan_.names[forward],
                           dump::ArgumentOf(forward_name, weight.npu->name))) {
      continue;
    }
    StepRecord::Gradient gradient;
    gradient.error =
        kUnseenSlack * std::max(error, agreement_.DTypeNoise(*weight.npu, *weight.bench));
    record_.gradients.try_emplace(
        UpdateKeysOf(forward_name, dump::ArgumentOf(forward_name, weight.npu->name), *weight.npu)
            .gradient,
        gradient);
  }
}

}  // namespace msprobe::analysis::compare
