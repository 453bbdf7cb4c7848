#include "src/analysis/compare/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/call_traits.h"
#include "src/analysis/compare/code_line.h"
#include "src/analysis/compare/containment.h"
#include "src/analysis/compare/differing_rows.h"
#include "src/analysis/compare/distance.h"
#include "src/analysis/compare/execution_order.h"

namespace msprobe::analysis {
namespace {

using dump::Direction;
using dump::EntryName;
using dump::RowState;

constexpr size_t kAmplifierCount = 10;
// A call whose inputs already differ inside the noise is an origin only if its outputs differ this
// many times more; less is the piling up of noise.
constexpr double kOriginGrowth = 4;
constexpr double kOriginGrowthMixed = 8;  // where the sides round to different dtypes
// Once something has diverged, an input that no recorded output explains may have come through an
// unrecorded call. It is an origin of its own only if it is off by this many times the largest
// error seen so far.
constexpr double kEntersAfresh = 8;

class Walk {
 public:
  Walk(const CompareOptions& options, const Side& npu, const Side& bench,
       const CompareResult& result, const dump::StackFile* stack,
       const dump::ConstructFile* construct)
      : npu_(npu),
        bench_(bench),
        result_(result),
        stack_(stack),
        has_checksums_(result.mode == CompareMode::kMd5),
        agreement_(options, result.mode),
        plan_(PlanExecution(npu)),
        containment_(npu, plan_, construct),
        parameters_(has_checksums_),
        known_(has_checksums_) {}

  DivergenceReport Run() {
    states_.resize(npu_.entries.size());
    modules_.resize(plan_.module_count);
    GroupRows();
    NoteDifferingParameters();
    for (const uint32_t entry : plan_.order) {
      Visit(entry);
    }
    return Finish();
  }

 private:
  struct EntryState {
    double input_error = 0;
    double output_error = 0;
    bool diverges = false;
  };
  struct ModuleState {
    double error = 0;
    bool diverges = false;
    double gradient_rms = 0;  // of the gradients that entered its last backward
    double gradient_elements = 0;
  };
  struct Candidate {
    OriginKind kind = OriginKind::kComputation;
    uint32_t entry = 0;
    uint32_t row = 0;
    double input_error = 0;
    double output_error = 0;
    double amplification = 0;
    std::string_view note;
    bool from_other_rank = false;
    bool is_saved_value = false;
    size_t place = 0;  // in execution order
  };

  // Result rows by entry; within one entry their order is kept.
  void GroupRows() {
    first_row_.assign(npu_.entries.size() + 1, 0);
    for (const RowResult& row : result_.rows) {
      ++first_row_[npu_.rows[row.pair.npu].entry + 1];
    }
    for (size_t i = 1; i < first_row_.size(); ++i) {
      first_row_[i] += first_row_[i - 1];
    }
    grouped_rows_.resize(result_.rows.size());
    std::vector<uint32_t> next(first_row_.begin(), first_row_.end() - 1);
    for (uint32_t i = 0; i < result_.rows.size(); ++i) {
      grouped_rows_[next[npu_.rows[result_.rows[i].pair.npu].entry]++] = i;
    }
  }

  RowView View(uint32_t index) {
    const RowResult& row = result_.rows[index];
    RowView view;
    view.result = index;
    view.npu = &npu_.rows[row.pair.npu];
    view.bench = row.pair.bench == kNoRow ? nullptr : &bench_.rows[row.pair.bench];
    view.distance = row.distance;
    if (view.bench == nullptr) {
      view.distance = Distance{};
      if (row.pair.outcome == MatchOutcome::kShapeDiffers) {
        view.distance.comparable = true;
        view.distance.nonfinite_differs = true;
        view.distance.relative = std::numeric_limits<double>::infinity();
        view.agrees = false;
        view.prints = PrintsOf(view, has_checksums_);
      }
      return view;
    }
    if (!view.distance.comparable && !has_checksums_) {
      view.distance = StatisticsDistance(*view.npu, *view.bench);
    }
    // Values that are texts name devices, dtypes or groups: no numbers, and expected to differ
    // between machines.
    if (!view.npu->is_tensor && !view.npu->stats[kMax].is_numeric() &&
        view.npu->stats[kMax].kind != StatKind::kBool) {
      view.distance.comparable = false;
    }
    if (view.distance.comparable && !view.distance.identical) {
      view.prints = PrintsOf(view, has_checksums_);
    }
    return view;
  }

  void Judge(const EntryName& name, std::string_view argument, RowView& view) {
    if (!view.distance.comparable || view.distance.identical || view.bench == nullptr) {
      return;
    }
    view.stored = view.npu->state == RowState::kParameters ||
                  (view.npu->is_tensor && IsLayerStateArgument(name, argument));
    if (!view.stored && view.npu->is_tensor && IsInput(*view.npu)) {
      view.stored = parameters_.IsKnown(view.prints);
    }
    view.agrees = agreement_.Agrees(*view.npu, *view.bench, view.distance,
                                    view.stored ? Provenance::kStored : Provenance::kComputed,
                                    LargestRelativeOf(result_.rows[view.result], result_.mode));
  }

  static bool IsInput(const SideRow& row) {
    return row.state == RowState::kInput || row.state == RowState::kKwargs;
  }

  // So that a weight is known as such when a functional call inside the module, which a dump lists
  // first, takes it.
  void NoteDifferingParameters() {
    for (uint32_t i = 0; i < result_.rows.size(); ++i) {
      const RowResult& row = result_.rows[i];
      if (npu_.rows[row.pair.npu].state != RowState::kParameters || row.distance.identical) {
        continue;
      }
      const RowView view = View(i);
      if (view.bench != nullptr && view.distance.comparable && !view.distance.identical) {
        parameters_.Remember(view.prints);
      }
    }
  }

  void Visit(uint32_t entry) {
    const EntryName& name = plan_.names[entry];
    const std::string_view entry_name = npu_.entries[entry].name;
    inputs_.clear();
    outputs_.clear();
    bool compared = false;
    bool identical = true;
    for (uint32_t i = first_row_[entry]; i < first_row_[entry + 1]; ++i) {
      RowView view = View(grouped_rows_[i]);
      if (!view.distance.comparable) {
        continue;
      }
      const std::string_view argument = ArgumentOf(entry_name, view.npu->name);
      Judge(name, argument, view);
      compared = true;
      identical = identical && view.distance.identical;
      const bool is_input = IsInput(*view.npu) || view.npu->state == RowState::kParameters;
      if (is_input && !view.agrees && IsReceiveBuffer(name, argument)) {
        known_.Remember(view.prints);
        continue;
      }
      (is_input ? inputs_ : outputs_).push_back(view);
    }
    ++place_;
    if (!compared) {
      return;
    }
    ++report_.compared_entry_count;
    report_.identical_entry_count += identical ? 1 : 0;
    if (identical) {
      ++report_.agreeing_entry_count;
      NoteGradientScale(entry);
      return;
    }
    if (IsUninitialisedCall(name)) {
      ++report_.agreeing_entry_count;
      RememberDiffering();
      return;
    }
    Analyse(entry);
  }

  void Analyse(uint32_t entry) {
    const EntryName& name = plan_.names[entry];
    EntryState& state = states_[entry];
    NoteGradientScale(entry);
    ForgiveCancelledGradients(entry);
    state.input_error = LargestError(inputs_);
    state.output_error = LargestError(outputs_);
    const bool inputs_differ =
        std::any_of(inputs_.begin(), inputs_.end(), [](const RowView& v) { return !v.agrees; });
    const auto bad_output =
        std::find_if(outputs_.begin(), outputs_.end(), [](const RowView& v) { return !v.agrees; });
    const bool explained_before = ExplainedByPartner(entry, state);
    const bool contains_divergence = containment_.ContainsDiverging(entry);

    for (const RowView& input : inputs_) {
      if (!input.agrees && !known_.IsKnown(input.prints)) {
        Enter(entry, state, input);
      }
    }
    if (bad_output != outputs_.end()) {
      if (!inputs_differ && !explained_before && !contains_divergence) {
        Compute(entry, state, *bad_output);
      }
      if (!contains_divergence && !name.is_debug) {
        NoteAmplifier(entry, state, *bad_output);
      }
    }
    state.diverges = inputs_differ || bad_output != outputs_.end();
    ++(state.diverges ? report_.diverging_entry_count : report_.agreeing_entry_count);
    if (plan_.module_of[entry] != kNoEntry) {
      ModuleState& module = modules_[plan_.module_of[entry]];
      module.error = std::max({module.error, state.input_error, state.output_error});
      module.diverges = module.diverges || state.diverges;
    }
    if (state.diverges) {
      RememberDiffering();
      containment_.MarkDiverging(entry);
      any_divergence_ = true;
    }
  }

  static double LargestError(const std::vector<RowView>& rows) {
    double largest = 0;
    for (const RowView& row : rows) {
      largest = std::max(largest, row.distance.relative);
    }
    return largest;
  }

  void RememberDiffering() {
    for (const std::vector<RowView>* rows : {&inputs_, &outputs_}) {
      for (const RowView& row : *rows) {
        if (!row.agrees) {
          known_.Remember(row.prints);
          if (std::isfinite(row.distance.relative)) {
            largest_error_ = std::max(largest_error_, row.distance.relative);
          }
        }
      }
    }
  }

  // Gradients that cancel to zero in exact arithmetic (of a bias in front of a normalisation, say)
  // are nothing but rounding: their relative error means nothing. What sums may leave is measured
  // against the gradients that entered.
  void NoteGradientScale(uint32_t entry) {
    if (plan_.names[entry].direction != Direction::kBackward) {
      return;
    }
    gradient_rms_ = 0;
    gradient_elements_ = 0;
    for (const RowView& input : inputs_) {
      if (input.bench != nullptr && input.npu->is_tensor) {
        gradient_rms_ = std::max(gradient_rms_, RootMeanSquare(*input.bench));
        gradient_elements_ = std::max(gradient_elements_, ElementCount(input.npu->shape));
      }
    }
    if (plan_.module_of[entry] != kNoEntry) {
      ModuleState& module = modules_[plan_.module_of[entry]];
      module.gradient_rms = gradient_rms_;
      module.gradient_elements = gradient_elements_;
    }
  }

  void ForgiveCancelledGradients(uint32_t entry) {
    const EntryName& name = plan_.names[entry];
    double rms = gradient_rms_;
    double elements = gradient_elements_;
    if (name.is_parameters_grad) {
      const ModuleState& module = modules_[plan_.module_of[entry]];
      rms = module.gradient_rms;
      elements = module.gradient_elements;
    } else if (name.direction != Direction::kBackward) {
      return;
    }
    for (RowView& output : outputs_) {
      if (output.agrees || output.bench == nullptr) {
        continue;
      }
      const double summed = std::max(1.0, elements / ElementCount(output.npu->shape));
      const double floor = agreement_.Noise(*output.npu, *output.bench) * rms * std::sqrt(summed);
      if (output.distance.absolute <= floor) {
        known_.Remember(output.prints);
        output.agrees = true;
        output.distance.relative = 0;
      }
    }
  }

  // A backward call works on what its forward call kept, a parameter gradient on its module's
  // forward and backward.
  bool ExplainedByPartner(uint32_t entry, EntryState& state) {
    const EntryName& name = plan_.names[entry];
    if (name.is_parameters_grad) {
      const ModuleState& module = modules_[plan_.module_of[entry]];
      state.input_error = std::max(state.input_error, module.error);
      return module.diverges || (plan_.partner[entry] == kNoEntry && any_divergence_);
    }
    const uint32_t forward = plan_.partner[entry];
    if (forward == kNoEntry) {
      // A gradient call without its forward: nothing tells what it worked on.
      return name.direction == Direction::kBackward && any_divergence_;
    }
    state.input_error =
        std::max({state.input_error, states_[forward].input_error, states_[forward].output_error});
    return states_[forward].diverges;
  }

  void Enter(uint32_t entry, const EntryState& state, const RowView& input) {
    const EntryName& name = plan_.names[entry];
    Candidate candidate = CandidateOf(OriginKind::kInput, entry, state, input);
    if (input.stored) {
      candidate.kind = OriginKind::kParameter;
    } else if (any_divergence_) {
      if (name.direction == Direction::kBackward ||
          input.distance.relative <= kEntersAfresh * largest_error_) {
        return;
      }
      candidate.note =
          "larger than every difference before it, but it may have come through an unrecorded call";
    } else if (!input.npu->is_tensor) {
      candidate.note = "an argument of the call";
    }
    Propose(candidate);
  }

  void Compute(uint32_t entry, const EntryState& state, const RowView& output) {
    const EntryName& name = plan_.names[entry];
    Candidate candidate = CandidateOf(OriginKind::kComputation, entry, state, output);
    if (IsCommunicationCall(name)) {
      candidate.kind = OriginKind::kInput;
      candidate.from_other_rank = true;
      candidate.note = "data from another rank";
    } else if (IsRandomCall(name)) {
      candidate.kind = OriginKind::kInput;
      candidate.note = "a random call: the random states differ";
    } else if (name.is_debug) {
      candidate.is_saved_value = true;
      candidate.note = "what computed it is not recorded";
    } else if (output.bench == nullptr) {
      candidate.note = "the shapes differ";
    } else {
      const double growth = agreement_.RoundsDifferently(*output.npu, *output.bench)
                                ? kOriginGrowthMixed
                                : kOriginGrowth;
      if (state.output_error < growth * state.input_error) {
        if (!drift_ && !any_divergence_) {
          drift_ = candidate;
          drift_->note = "rounding noise that piled up call by call";
        }
        return;
      }
    }
    Propose(candidate);
  }

  Candidate CandidateOf(OriginKind kind, uint32_t entry, const EntryState& state,
                        const RowView& row) {
    Candidate candidate;
    candidate.kind = kind;
    candidate.entry = entry;
    candidate.row = row.result;
    candidate.input_error = state.input_error;
    candidate.output_error = state.output_error;
    const double noise = row.bench == nullptr ? 1.0 : agreement_.Noise(*row.npu, *row.bench);
    candidate.amplification = state.output_error / std::max(state.input_error, noise);
    candidate.place = place_;
    return candidate;
  }

  void Propose(const Candidate& candidate) {
    std::optional<Candidate>& first = firsts_[static_cast<size_t>(candidate.kind)];
    if (!first) {
      first = candidate;
    }
  }

  void NoteAmplifier(uint32_t entry, const EntryState& state, const RowView& output) {
    const Candidate candidate = CandidateOf(OriginKind::kComputation, entry, state, output);
    if (candidate.amplification > 1 && std::isfinite(candidate.amplification)) {
      amplifiers_.push_back(candidate);
    }
  }

  DivergencePoint PointOf(const Candidate& candidate) const {
    DivergencePoint point;
    point.kind = candidate.kind;
    point.entry = candidate.entry;
    point.row = candidate.row;
    point.input_error = candidate.input_error;
    point.output_error = candidate.output_error;
    point.amplification = candidate.amplification;
    point.entry_name = npu_.entries[candidate.entry].name;
    point.row_name = npu_.rows[result_.rows[candidate.row].pair.npu].name;
    point.note = candidate.note;
    point.from_other_rank = candidate.from_other_rank;
    point.is_saved_value = candidate.is_saved_value;
    point.parent_module = containment_.ParentOf(candidate.entry);
    point.layer = containment_.LayerOf(candidate.entry);
    if (const std::vector<std::string>* frames =
            stack_ != nullptr ? stack_->Find(point.entry_name) : nullptr) {
      point.stack = *frames;
      point.code_line = UserCodeLine(*frames);
    }
    return point;
  }

  DivergenceReport Finish() {
    const std::optional<Candidate>* earliest = nullptr;
    for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
      if (firsts_[kind]) {
        report_.first_of_kind[kind] = PointOf(*firsts_[kind]);
        earliest = earliest == nullptr || firsts_[kind]->place < (*earliest)->place ? &firsts_[kind]
                                                                                    : earliest;
      }
    }
    if (earliest != nullptr) {
      report_.first_origin = report_.first_of_kind[static_cast<size_t>((*earliest)->kind)];
    }
    if (drift_) {
      report_.first_drift = PointOf(*drift_);
    }
    const size_t kept = std::min(amplifiers_.size(), kAmplifierCount);
    std::partial_sort(amplifiers_.begin(), amplifiers_.begin() + static_cast<std::ptrdiff_t>(kept),
                      amplifiers_.end(), [](const Candidate& a, const Candidate& b) {
                        return a.amplification != b.amplification
                                   ? a.amplification > b.amplification
                                   : a.place < b.place;
                      });
    for (size_t i = 0; i < kept; ++i) {
      report_.amplifiers.push_back(PointOf(amplifiers_[i]));
    }
    return std::move(report_);
  }

  const Side& npu_;
  const Side& bench_;
  const CompareResult& result_;
  const dump::StackFile* stack_;
  const bool has_checksums_;
  Agreement agreement_;

  const ExecutionPlan plan_;
  Containment containment_;
  DifferingRows parameters_;          // differing rows of the section "parameters"
  DifferingRows known_;               // differing rows met so far
  std::vector<EntryState> states_;    // by entry
  std::vector<ModuleState> modules_;  // by ExecutionPlan::module_of
  std::vector<uint32_t> first_row_;   // by entry: into grouped_rows_
  std::vector<uint32_t> grouped_rows_;
  std::vector<RowView> inputs_;  // of the entry being visited
  std::vector<RowView> outputs_;
  double gradient_rms_ = 0;
  double gradient_elements_ = 0;

  double largest_error_ = 0;
  bool any_divergence_ = false;
  size_t place_ = 0;

  std::array<std::optional<Candidate>, kOriginKindCount> firsts_;
  std::optional<Candidate> drift_;
  std::vector<Candidate> amplifiers_;
  DivergenceReport report_;
};

}  // namespace

std::string_view OriginKindName(OriginKind kind) {
  switch (kind) {
    case OriginKind::kParameter:
      return "parameter";
    case OriginKind::kInput:
      return "input";
    case OriginKind::kComputation:
      return "computation";
  }
  return "computation";
}

DivergenceReport FindDivergence(const CompareOptions& options, const Side& npu, const Side& bench,
                                const CompareResult& result, const dump::StackFile* stack,
                                const dump::ConstructFile* construct) {
  return Walk(options, npu, bench, result, stack, construct).Run();
}

}  // namespace msprobe::analysis
