// The walk over the calls of a pair in execution order: for each call, what is asked and what is
// recorded, in this order.
//
// A call whose rows are all identical needs nothing. Otherwise inputs come first: one that differs
// under no known name has entered here. Then every output that differs is held against the error
// that the inputs explain, and the output that exceeds it the most is judged. What is an origin is
// decided by divergence_origins.cpp, what is explained by divergence_bounds.cpp; all that later
// calls need to know of this one is recorded at the end.
#include "src/analysis/compare/divergence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/divergence_thresholds.h"
#include "src/analysis/compare/divergence_walk.h"
#include "src/analysis/compare/error_bound.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {
namespace {

using dump::Direction;
using dump::RowState;

// A row with `agrees`, `stored` and, of a parameter behind a compared step, `update`.
RowView JudgedRow(const WalkContext& context, const WalkHistory& history, const CallView& call,
                  std::string_view argument, RowView view) {
  if (view.bench == nullptr) {
    return view;
  }
  const SideRow& npu = *view.npu;
  const SideRow& bench = *view.bench;
  const auto agrees_as = [&](Provenance provenance) {
    const RowResult& row = context.result.rows[view.result];
    return context.agreement.Agrees(
        npu, bench, view.distance, provenance,
        context.views.PairedByName(row) ? LargestRelativeOf(row, context.result.mode) : 0);
  };
  view.stored =
      npu.state == RowState::kParameters || (npu.is_tensor && call.layer_state.Has(argument));
  if (view.distance.identical) {
    return view;
  }
  if (!view.stored && npu.is_tensor && IsInput(npu)) {
    view.stored = context.parameters.Contains(view.fingerprint);
    if (view.stored && history.explained_parameters.Contains(view.fingerprint)) {
      // Only its layer tells what may move it: a call of the optimizer does not say of which layer
      // the parameter is.
      view.agrees = true;
      return view;
    }
  }
  if (!view.stored) {
    // Before anything was computed, inputs are what was fed: checksums that differ are other data,
    // in another order perhaps, which statistics do not show.
    const bool fed_otherwise =
        context.has_checksums && IsInput(npu) && !history.seen_output && npu.dtype == bench.dtype;
    view.agrees = !fed_otherwise && agrees_as(Provenance::kComputed);
    return view;
  }
  if (history.any_unequal && IsRunningStatistic(call.name, argument)) {
    // An earlier forward of this step has updated it.
    view.stored = false;
    view.agrees = agrees_as(Provenance::kComputed);
    return view;
  }
  // A weight of the first step is loaded, so it is exactly equal; later it is what an optimizer
  // made of it.
  if (context.previous == nullptr) {
    const bool trained_before = context.input.step.value_or(0) > 0;
    view.agrees = agrees_as(trained_before ? Provenance::kComputed : Provenance::kStored);
    return view;
  }
  const UpdateVerdict update = JudgeUpdate(*context.previous, context.update_rule,
                                           UpdateKeysOf(call.entry_name, argument, npu),
                                           context.CancellationOf(npu), npu, bench);
  view.is_update = true;
  view.update = update.judgement;
  view.hidden = context.result.mode == CompareMode::kRealData ? 0 : update.hidden;
  view.agrees =
      update.judgement == UpdateJudgement::kExplained ||
      agrees_as(context.previous->identical ? Provenance::kStored : Provenance::kComputed);
  return view;
}

// Whether this row of a call is uninitialised memory, or was moved from there: no difference. If a
// value of it is used, it is an input of the call that uses it. `moves_memory`: an earlier row of
// the call is.
bool IsUninitialised(const WalkHistory& history, const CallView& call, const RowView& row,
                     bool moves_memory) {
  if (call.is_uninitialised || call.name.is_module || call.name.direction != Direction::kForward ||
      row.stored) {
    return false;
  }
  if (!call.is_moving && call.family != OperatorFamily::kExact) {
    return false;
  }
  return IsInput(*row.npu) ? history.memory.Contains(row) : moves_memory && row.npu->is_tensor;
}

// Sharded training (FSDP) cuts memory into parts, and asks for its layout, before a collective
// fills it: of memory that was there before the capture only the difference shows.
bool LeavesValuesUnused(const WalkHistory& history, const CallView& call) {
  return call.is_moving &&
         std::any_of(call.inputs.begin(), call.inputs.end(), [&](const RowView& input) {
           return !input.distance.identical && !input.stored &&
                  (!input.agrees || !std::isfinite(input.distance.relative)) &&
                  !history.known.Contains(input.fingerprint);
         });
}

// The call recorded indices or flags, and they are equal.
bool MadeSameChoice(const Agreement& agreement, const CallView& call) {
  bool any = false;
  for (const RowView& output : call.outputs) {
    if (output.npu->is_tensor && !agreement.IsFloating(*output.npu)) {
      if (!output.distance.identical) {
        return false;
      }
      any = true;
    }
  }
  return any;
}

// Parts of a bias may differ by chance (JudgeUpdate) while statistics hardly do. The call that adds
// the bias and copies and views of its result carry that on; what sums over it (a product of
// matrices) shows it.
void CarryHidden(CallView& call) {
  if (call.family != OperatorFamily::kContraction && call.family != OperatorFamily::kExact) {
    return;
  }
  double hidden = 0;
  for (const RowView& input : call.inputs) {
    hidden = std::max(hidden, input.hidden);
  }
  for (RowView& output : call.outputs) {
    output.hidden = std::max(output.hidden, hidden);
  }
}

// Orders the origins at one call; the lowest number comes first: the inputs of a call come before
// its results.
int Precedence(OriginKind kind) {
  switch (kind) {
    case OriginKind::kReplica:
      return 0;
    case OriginKind::kDType:
      return 1;
    case OriginKind::kParameter:
    case OriginKind::kOptimizer:
      return 2;
    case OriginKind::kUnmatchedCall:
      return 3;
    case OriginKind::kInput:
      return 4;
    case OriginKind::kComputation:
      break;
  }
  return 5;
}

class CallWalk {
 public:
  explicit CallWalk(const DivergenceInput& input) : context_(input), history_(context_) {
    report_.rows.resize(context_.result.rows.size(), RowStatus::kNotCompared);
    record_.step = input.step;
    record_.shows_bits = context_.result.mode != CompareMode::kStatistics;
    record_.identical = true;
    FindReplicas();
  }

  DivergenceOutput Run() {
    for (const uint32_t entry : context_.plan.order) {
      RecordReplicas(entry);
      if (context_.kinds.Has(context_.plan.names[entry])) {
        Visit(entry);
      }
    }
    history_.RecordFinding(JudgeUnmatchedCalls(context_, history_));
    return Finish();
  }

 private:
  // Result rows that replicas disagree about, by entry. A row of the bench is that of its partner.
  void FindReplicas() {
    const std::span<const ReplicaDifference> replicas = context_.input.replicas;
    if (replicas.empty()) {
      return;
    }
    std::array<std::unordered_map<uint32_t, const ReplicaDifference*>, 2> by_row;  // NPU, bench
    for (const ReplicaDifference& replica : replicas) {
      by_row[replica.of_bench ? 1 : 0].emplace(replica.row, &replica);
    }
    for (uint32_t i = 0; i < context_.result.rows.size(); ++i) {
      const RowPair& pair = context_.result.rows[i].pair;
      for (const auto& [side, row] : {std::pair{size_t{0}, pair.npu}, {size_t{1}, pair.bench}}) {
        const auto found = by_row[side].find(row);
        if (row != kNoRow && found != by_row[side].end()) {
          replicas_[context_.npu.rows[pair.npu].entry].emplace_back(i, found->second);
          break;
        }
      }
    }
  }

  void RecordReplicas(uint32_t entry) {
    const auto found = replicas_.find(entry);
    if (found == replicas_.end()) {
      return;
    }
    const auto& [row, replica] = found->second.front();
    history_.RecordFinding(JudgeReplica(*replica, entry, history_.place + 1, row));
  }

  // Behind the walk, in which a joined value may have agreed with the other side's.
  void MarkReplicas() {
    for (const auto& [entry, rows] : replicas_) {
      for (const auto& [row, replica] : rows) {
        report_.rows[row] = RowStatus::kDiffers;
      }
    }
  }

  void Visit(uint32_t entry) {
    history_.AdvanceUnmatchedCalls(entry);
    Read(entry);
    CallView& call = call_;
    history_.calls[entry].made_same_choice = MadeSameChoice(context_.agreement, call);
    if (!call.is_compared) {
      return;
    }
    ++report_.compared_entry_count;
    if (call.is_identical) {
      ++report_.identical_entry_count;
      ++report_.agreeing_entry_count;
      MarkAll(call, RowStatus::kIdentical);
    } else if (call.is_uninitialised) {
      ++report_.agreeing_entry_count;
      history_.RecordRows(call);  // not as errors that later calls may have consumed
      MarkAll(call, RowStatus::kAgrees);
    } else if (LeavesValuesUnused(history_, call)) {
      ++report_.agreeing_entry_count;
      call.ForEachRow([&](const RowView& row) { history_.memory.Record(row); });
      MarkAll(call, RowStatus::kAgrees);
    } else {
      record_.identical = false;
      Analyse(call);
    }
    history_.RecordVisited(call);
    RecordParameters(context_, history_, call, record_);
  }

  // Rows that cannot be compared, uninitialised memory and buffers to be filled are left out.
  void Read(uint32_t entry) {
    CallView& call = call_;
    std::vector<RowView> inputs = std::move(call.inputs);  // their memory is used again
    std::vector<RowView> outputs = std::move(call.outputs);
    inputs.clear();
    outputs.clear();
    call = {};
    call.inputs = std::move(inputs);
    call.outputs = std::move(outputs);
    call.entry = entry;
    call.place = ++history_.place;
    call.name = context_.plan.names[entry];
    call.entry_name = context_.npu.entries[entry].name;
    call.family = FamilyOf(call.name);
    call.layer_state = dump::LayerState(call.name);
    call.is_uninitialised = IsUninitialisedCall(call.name);
    call.is_moving = IsPartingCall(call.name) || IsDescribingCall(call.name);
    bool moves_memory = false;
    for (auto it = context_.views.Begin(entry); it != context_.views.End(entry); ++it) {
      RowView row = context_.views.View(*it);
      const std::string_view argument = dump::ArgumentOf(call.entry_name, row.npu->name);
      if (!row.distance.comparable) {
        record_.identical = record_.identical && row.bench != nullptr;
        call.has_unknown_weight =
            call.has_unknown_weight || row.npu->state == RowState::kParameters ||
            (IsInput(*row.npu) && row.npu->is_tensor && call.layer_state.Has(argument));
        continue;
      }
      row = JudgedRow(context_, history_, call, argument, row);
      if (row.is_update && row.agrees) {
        history_.explained_parameters.Record(row.fingerprint);
      }
      call.is_compared = true;
      call.is_identical = call.is_identical && row.distance.identical;
      const bool is_uninitialised = IsUninitialised(history_, call, row, moves_memory);
      moves_memory = moves_memory || is_uninitialised;
      if (is_uninitialised || (call.is_uninitialised && !IsInput(*row.npu))) {
        history_.memory.Record(row);
      }
      if (is_uninitialised && !row.distance.identical) {
        Mark(row, RowStatus::kAgrees);
        continue;
      }
      const bool is_input = IsInput(*row.npu) || row.npu->state == RowState::kParameters;
      if (is_input && !row.agrees && IsReceiveBuffer(call.name, argument)) {
        history_.known.Record(row.fingerprint);
        Mark(row, RowStatus::kAgrees);
        continue;
      }
      (is_input ? call.inputs : call.outputs).push_back(row);
    }
  }

  void Analyse(CallView& call) {
    call.input_error = LargestError(call.inputs);
    call.output_error = LargestError(call.outputs);
    for (RowView& input : call.inputs) {
      const auto hidden = history_.hidden.find(input.fingerprint.extremes);
      if (!input.stored && !input.distance.identical && hidden != history_.hidden.end()) {
        input.hidden = hidden->second;
      }
    }

    if (!history_.HasOrigin(OriginKind::kDType)) {
      history_.RecordFinding(JudgeDType(context_, history_, call));
    }
    for (const RowView& input : call.inputs) {
      if (!input.agrees && !history_.known.Contains(input.fingerprint) &&
          !history_.IsCarriedOver(input)) {
        history_.RecordFinding(JudgeInput(context_, history_, call, input));
      }
    }

    call.input_error = std::max(call.input_error, history_.PartnerError(call));
    call.partner_diverges = history_.PartnerDiverges(call);
    call.contains_divergence = history_.containment.ContainsDiverging(call.entry);
    const auto [bad_output, explained] = WorstOutput(call);
    CarryHidden(call);
    call.output_error = LargestError(call.outputs);
    history_.RecordHidden(call);
    history_.RecordByChance(call);
    if (bad_output != nullptr) {
      history_.RecordFinding(JudgeOutput(context_, history_, call, *bad_output, explained));
      if (!call.contains_divergence && !call.name.is_debug) {
        if (auto amplifier = FindAmplifier(context_, history_, call, *bad_output)) {
          history_.RecordAmplifier(*std::move(amplifier));
        }
      }
    }
    // The first output that is not bit-equal behind bit-equal inputs is named in any case: where
    // the statistics are too close to prove an origin as well.
    if (auto unequal = FindUnequalBits(context_, history_, call)) {
      history_.RecordUnequalBits(*std::move(unequal));
    }

    const bool diverges = call.InputsDiffer() || bad_output != nullptr;
    ++(diverges ? report_.diverging_entry_count : report_.agreeing_entry_count);
    const RowStatus status = history_.HasOrigin() ? RowStatus::kDiffers : RowStatus::kDrifts;
    call.ForEachRow([&](const RowView& row) {
      Mark(row, row.distance.identical ? RowStatus::kIdentical
                : row.agrees           ? RowStatus::kAgrees
                                       : status);
    });
    history_.RecordErrors(call, diverges);
    history_.RecordRows(call);
  }

  struct BoundedOutput {
    const RowView* row = nullptr;
    double explained = 0;
  };

  // The output that exceeds its bound the most. Gradients that turn out to be rounding agree from
  // now on.
  BoundedOutput WorstOutput(CallView& call) {
    BoundedOutput worst;
    if (std::all_of(call.outputs.begin(), call.outputs.end(),
                    [](const RowView& v) { return v.agrees; })) {
      return worst;
    }
    const CallOperands operands = OperandsOf(context_, history_, call);
    uint64_t left =
        1 + kMostHeldAgainst / (1 + operands.inputs.size() + operands.forward_inputs.size());
    double worst_excess = 0;
    for (RowView& output : call.outputs) {
      if (output.agrees) {
        continue;
      }
      if (left-- == 0) {
        break;
      }
      const OutputBound bound = BoundOf(context_, history_, call, operands, output);
      history_.choice_flipped = history_.choice_flipped || bound.flips_choice;
      if (bound.is_rounding) {
        history_.known.Record(output.fingerprint);
        output.agrees = true;
        output.forgiven = true;
        continue;
      }
      const double excess = bound.explained > 0 ? output.distance.relative / bound.explained
                                                : std::numeric_limits<double>::infinity();
      if (worst.row == nullptr || excess > worst_excess) {
        worst = {&output, bound.explained};
        worst_excess = excess;
      }
    }
    return worst;
  }

  void Mark(const RowView& row, RowStatus status) { report_.rows[row.result] = status; }

  void MarkAll(const CallView& call, RowStatus status) {
    call.ForEachRow([&](const RowView& row) { Mark(row, status); });
  }

  DivergenceOutput Finish() {
    MarkReplicas();
    report_.calls.resize(history_.calls.size());
    for (size_t entry = 0; entry < report_.calls.size(); ++entry) {
      report_.calls[entry].input_error = history_.calls[entry].input_error;
      report_.calls[entry].output_error = history_.calls[entry].output_error;
    }
    for (size_t row = 0; row < report_.rows.size(); ++row) {
      const uint32_t entry = context_.npu.rows[context_.result.rows[row].pair.npu].entry;
      RowStatus& worst = report_.calls[entry].status;
      worst = std::max(worst, report_.rows[row]);
    }
    for (size_t kind = 0; kind < kOriginKindCount; ++kind) {
      if (!history_.first_of_kind[kind]) {
        continue;
      }
      report_.first_of_kind[kind] = Named(*history_.first_of_kind[kind]);
      const DivergencePoint& point = *report_.first_of_kind[kind];
      const std::optional<DivergencePoint>& earliest = report_.first_origin;
      if (!earliest || point.place < earliest->place ||
          (point.place == earliest->place && Precedence(point.kind) < Precedence(earliest->kind))) {
        report_.first_origin = point;
      }
    }
    PreferReplicatedParameter();
    if (history_.drift) {
      report_.first_drift = Named(*history_.drift);
    }
    if (history_.unequal_bits) {
      report_.first_unequal_bits = Named(*history_.unequal_bits);
    }
    for (const DivergencePoint& amplifier : history_.amplifiers) {
      report_.amplifiers.push_back(Named(amplifier));
    }
    const bool any_compared = report_.compared_entry_count > 0;
    record_.differing = history_.carried;
    record_.by_chance = history_.by_chance;
    record_.has_origin = report_.first_origin.has_value();
    record_.identical = record_.identical && any_compared;
    record_.agrees = !report_.first_origin && !report_.first_drift && any_compared;
    return {std::move(report_), std::move(record_)};
  }

  // A module's entry follows the calls inside of it: its parameters, of which ranks have unequal
  // copies, come before what is computed with them.
  void PreferReplicatedParameter() {
    const std::optional<DivergencePoint>& replica =
        report_.first_of_kind[static_cast<size_t>(OriginKind::kReplica)];
    if (!replica || !report_.first_origin || report_.first_origin->kind == OriginKind::kReplica ||
        context_.npu.rows[context_.result.rows[replica->row].pair.npu].state !=
            RowState::kParameters) {
      return;
    }
    if (history_.containment.IsInside(report_.first_origin->entry, replica->entry)) {
      report_.first_origin = replica;
    }
  }

  DivergencePoint Named(const DivergencePoint& point) const {
    return WithNames(context_, history_, point);
  }

  const WalkContext context_;
  WalkHistory history_;
  CallView call_;
  // By entry: rows of the result.
  std::unordered_map<uint32_t, std::vector<std::pair<uint32_t, const ReplicaDifference*>>>
      replicas_;
  DivergenceReport report_;
  StepRecord record_;
};

}  // namespace

std::string_view OriginKindName(OriginKind kind) {
  constexpr std::array<std::string_view, kOriginKindCount> kNames = {
      "parameter", "input", "computation", "optimizer", "dtype", "unmatched call", "replica"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view RowStatusName(RowStatus status) {
  constexpr std::array<std::string_view, 5> kNames = {"not compared", "identical", "agrees",
                                                      "drifts", "differs"};
  return kNames[static_cast<size_t>(status)];
}

std::string_view ConfidenceName(Confidence confidence) {
  constexpr std::array<std::string_view, 4> kNames = {"low", "medium", "high", "certain"};
  return kNames[static_cast<size_t>(confidence)];
}

DivergenceOutput FindDivergence(const DivergenceInput& input) { return CallWalk(input).Run(); }

}  // namespace msprobe::analysis::compare
