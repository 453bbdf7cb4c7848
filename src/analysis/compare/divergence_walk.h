// Parts of FindDivergence; private to its five sources. A walk visits the calls of a pair in
// execution order (CallWalk in divergence.cpp). For each call it
//   1. reads the rows and decides which of them agree        RowViews, divergence_rows.cpp
//   2. asks how large an error each output may have          BoundOf, divergence_bounds.cpp
//   3. asks whether an input or output is an origin          rules, divergence_origins.cpp
//   4. records what was seen                                 WalkHistory, divergence_history.cpp
// Steps 1 to 3 are functions of three things that they do not change: WalkContext (the pair),
// WalkHistory (the calls before) and CallView (the call). Only step 4 changes the history.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/call_alignment.h"
#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/error_bound.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/compare/step_record.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare {

// ---- Rows (divergence_rows.cpp) ----

// Recognises a differing row when its values are met again under another name.
struct Fingerprint {
  uint64_t extremes = 0;  // Max and Min of both sides; Norm too when both have the same Max and Min
  uint64_t checksums = 0;
  bool same_extremes = false;
};

// One result row while divergences are sought.
struct RowView {
  uint32_t result = 0;  // index into PairResult::rows
  const SideRow* npu = nullptr;
  const SideRow* bench = nullptr;  // null: shapes differ, so there is no pair
  Distance distance;
  Fingerprint fingerprint;  // of rows that are not identical
  bool agrees = true;
  bool forgiven = false;   // agrees although its relative error is large: a gradient that cancels
  bool stored = false;     // a weight or running statistic
  bool is_update = false;  // stored: judged by what the step before left
  UpdateJudgement update = UpdateJudgement::kUnknown;
  double hidden = 0;  // how far single elements may be apart although the statistics hardly are
};

// Both sides' values take part: that two different tensors differ in the same way by chance is out
// of the question. Views keep the checksum; transposed copies keep Max and Min, while Mean and Norm
// may be summed in another order.
Fingerprint FingerprintOf(const RowView& row, bool has_checksums);

class DifferingRows {
 public:
  explicit DifferingRows(bool has_checksums) : has_checksums_(has_checksums) {}

  void Record(const Fingerprint& fingerprint);
  bool Contains(const Fingerprint& fingerprint) const;

 private:
  // Open addressing; 0 marks a free place. Several times faster than std::unordered_set when every
  // row differs.
  class HashSet {
   public:
    void Insert(uint64_t hash);
    bool Contains(uint64_t hash) const;

   private:
    void Grow();
    std::vector<uint64_t> places_;  // a power of two
    size_t used_ = 0;
  };

  const bool has_checksums_;
  HashSet hashes_;
};

// Recognises uninitialised memory: the results of a call such as torch.empty, and what was cut or
// copied from them, until something is written there. Frameworks that share out a model (FSDP,
// DeepSpeed, Megatron) cut such memory into parts while a collective fills it: the values that a
// dump saw there are chance.
class UninitialisedMemory {
 public:
  // Both sides' values of this row are uninitialised.
  void Record(const RowView& row);
  // One of the sides has such a value here: the other side's may have been filled meanwhile.
  bool Contains(const RowView& row) const;

 private:
  std::unordered_set<uint64_t> npu_;
  std::unordered_set<uint64_t> bench_;
};

// The rows of every call with their partners. Borrows everything it is given. For one thread at a
// time.
class RowViews {
 public:
  RowViews(const Side& npu, const Side& bench, const PairResult& result,
           const CallAlignment& alignment);

  // Result rows of an entry, as indices into PairResult::rows.
  std::vector<uint32_t>::const_iterator Begin(uint32_t entry) const;
  std::vector<uint32_t>::const_iterator End(uint32_t entry) const;

  // `agrees` and `stored` are not decided yet. Rows that are only looked at need no fingerprint.
  RowView View(uint32_t result_row, bool with_fingerprint = true) const;

  // True when the row's partner by name is also its partner by the order of calls.
  bool PairedByName(const RowResult& row) const;

 private:
  const SideRow* AlignedBench(const SideRow& npu) const;
  void IndexArguments(uint32_t bench_entry) const;
  const SideRow* BenchOfSameName(const SideRow& npu) const;
  bool SeenElsewhere(const SideRow& npu) const;

  const Side& npu_;
  const Side& bench_;
  const PairResult& result_;
  const CallAlignment& alignment_;
  std::vector<uint32_t> first_;  // by entry: into grouped_
  std::vector<uint32_t> grouped_;
  std::unordered_map<std::string_view, uint32_t>
      unmatched_;  // rows whose bench row of the same name has another shape or dtype
  // A cache of the bench call that was looked at last: its rows by argument.
  mutable uint32_t indexed_ = kNoEntry;
  mutable std::unordered_map<std::string_view, uint32_t> row_of_argument_;
};

// ---- The pair and the call ----

// The pair, prepared: does not change during the walk.
class WalkContext {
 public:
  explicit WalkContext(const DivergenceInput& pair);

  double CoarserEpsilon(const RowView& row) const;
  // A floating row of other dtypes than most of the run.
  bool HasUnusualDType(const RowView& row) const;
  Cancellation CancellationOf(const SideRow& parameter) const;
  // True behind an update that depends on signs: single units of a layer differ.
  bool IsUpdatedByChance() const;
  // CommonFactor where it tells a scale from noise: not in a run of 16 bits, to which a single
  // number may be rounded that scales all others.
  std::optional<double> ScaleFactor(const RowView& row) const;

  const DivergenceInput& input;
  const Side& npu;
  const Side& bench;
  const PairResult& result;
  const StepRecord* const previous;  // null: no step before was compared
  const bool has_checksums;
  const bool leaves_record;  // for the next step: only numbered steps have one
  Agreement agreement;
  const ExecutionPlan& plan;
  const SharedKinds kinds;
  const CallAlignment& alignment;
  const RowViews views;
  bool records_functions = false;  // and not only modules
  double usual_epsilon = 0;        // the coarser of the usual dtypes
  std::optional<std::pair<std::string_view, std::string_view>>
      usual_dtypes;          // of most floating rows: NPU, bench
  DifferingRows parameters;  // differing rows of the section "parameters"
  UpdateRule update_rule;

 private:
  void FindUsualDTypes();
  void FindParameters();

  // A cache: the shapes of the tensors of one entry.
  mutable uint32_t shapes_entry_ = kNoEntry;
  mutable std::unordered_set<std::string_view> shapes_;
};

// The call that is visited.
struct CallView {
  uint32_t entry = 0;
  size_t place = 0;  // in execution order
  dump::EntryName name;
  std::string_view entry_name;
  OperatorFamily family = OperatorFamily::kComposite;
  dump::LayerState layer_state;
  bool is_uninitialised = false;  // IsUninitialisedCall
  bool is_moving = false;         // IsPartingCall or IsDescribingCall
  std::vector<RowView> inputs;    // and parameters
  std::vector<RowView> outputs;
  bool is_compared = false;  // a row was comparable
  bool is_identical = true;  // all comparable rows were
  double input_error = 0;    // as of DivergencePoint
  double output_error = 0;
  bool partner_diverges = false;     // the forward call of a backward call, or the like
  bool contains_divergence = false;  // a module around a call that diverges
  bool has_unknown_weight = false;   // one that cannot be compared

  bool is_backward() const { return name.direction == dump::Direction::kBackward; }
  template <typename Use>
  void ForEachRow(const Use& use) const {
    std::for_each(inputs.begin(), inputs.end(), use);
    std::for_each(outputs.begin(), outputs.end(), use);
  }
  bool InputsDiffer() const;  // beyond noise
  bool InputsAreEqual() const;
};

// ---- What was seen so far (divergence_history.cpp) ----

// Errors of rows computed by the last calls, noise included: an unrecorded call may have consumed
// them.
class RecentErrors {
 public:
  void Record(const CallView& call, const Agreement& agreement);
  double largest() const { return largest_; }
  double largest_scale() const { return largest_scale_; }  // of Operand::scale_error
  double largest_ever() const { return largest_ever_; }    // without the decay

 private:
  struct RecentError {
    uint64_t extremes = 0;   // of the fingerprint
    double error = 0;        // less for each call behind it
    double scale_error = 0;  // Operand::scale_error, likewise
  };
  static bool IsLarger(const RecentError& a, const RecentError& b);
  void Absorb(const std::vector<RowView>& inputs, double output_error);
  void Add(const RowView& row);

  std::vector<RecentError> errors_;  // the largest first, which the decay leaves so
  double largest_ = 0;
  double largest_scale_ = 0;
  double largest_ever_ = 0;
};

// The outcome of a rule (divergence_origins.cpp).
struct Finding {
  enum class Kind : uint8_t {
    kNothing,
    kDrift,  // errors before it explain it
    kOrigin,
    kUnequalBits,  // it started at the first unequal bits
  };
  Kind kind = Kind::kNothing;
  DivergencePoint point;
  bool flips_choice = false;  // drift: noise has changed a discrete choice
};

// State of the walk. Functions that are const ask, the ones named Record... change.
struct WalkHistory {
  struct CallErrors {
    double input_error = 0;
    double output_error = 0;
    bool diverges = false;
    bool made_same_choice = false;  // recorded indices, and they are equal
  };
  struct ModuleErrors {
    double error = 0;
    bool diverges = false;
  };

  explicit WalkHistory(const WalkContext& context);

  bool HasOrigin() const;
  bool HasOrigin(OriginKind kind) const {
    return first_of_kind[static_cast<size_t>(kind)].has_value();
  }
  // Statistics do not show elements that changed places, checksums do: a divergence starts at the
  // first unequal bits where they are directly in front, or no statistic has differed since.
  bool StartsAtUnequalBits(const CallView& call) const;
  // What is furthest apart among the inputs is a gradient that cancels, or what an optimizer made
  // of such: nothing but rounding, whose relative error, however large, no call has amplified.
  bool IsByChance(const CallView& call) const;
  // In-place arithmetic behind a backward pass: an optimizer at work.
  bool IsUpdateCall(const dump::EntryName& name) const;
  // A value of the step before that comes back: the state of an optimizer, say. Parameters are
  // judged on their own.
  bool IsCarriedOver(const RowView& input) const;
  // A backward call works on what its forward call kept, a parameter gradient on its module's
  // forward and backward: the error there, and whether it diverges.
  double PartnerError(const CallView& call) const;
  bool PartnerDiverges(const CallView& call) const;

  // Moves to the last run of unmatched calls in front of this entry.
  void AdvanceUnmatchedCalls(uint32_t entry);
  void RecordFinding(Finding finding);
  void RecordUnequalBits(DivergencePoint point) { unequal_bits = std::move(point); }
  void RecordAmplifier(DivergencePoint point);
  void RecordByChance(const CallView& call);
  void RecordHidden(const CallView& call);
  // Rows that differ, to recognise them again.
  void RecordRows(const CallView& call);
  // Errors of an analysed call: of the call itself, its module and the modules around it.
  void RecordErrors(const CallView& call, bool diverges);
  // The call is left: what the next one has in front of it.
  void RecordVisited(const CallView& call);

  const WalkContext& context;
  size_t place = 0;                   // of the call visited last, in execution order
  bool any_unequal = false;           // something before was not identical
  bool choice_flipped = false;        // noise has changed a discrete choice
  bool any_divergence = false;        // a row before did not agree
  bool seen_output = false;           // a call before this one has recorded outputs
  bool seen_backward = false;         // a backward call was before this one
  bool last_was_forward = false;      // the call visited before this one
  bool last_was_normalised = false;   // it is a normalisation, and its output agrees
  std::vector<CallErrors> calls;      // by entry
  std::vector<ModuleErrors> modules;  // by ExecutionPlan::module_of
  Containment containment;
  RecentErrors recent;
  DifferingRows known;                 // rows that did not agree
  DifferingRows explained_parameters;  // differing parameters that the step before explains
  UninitialisedMemory memory;
  std::shared_ptr<DifferingRows> carried;       // rows that are not identical, for the next step
  std::shared_ptr<DifferingRows> by_chance;     // those of them that IsByChance
  std::unordered_map<uint64_t, double> hidden;  // RowView::hidden by Fingerprint::extremes
  size_t next_unmatched = 0;                    // index into CallAlignment::unmatched
  std::optional<size_t> passed_unmatched;       // the last one in front of this call

  std::array<std::optional<DivergencePoint>, kOriginKindCount> first_of_kind;
  std::optional<DivergencePoint> drift;
  std::optional<DivergencePoint> unequal_bits;
  std::vector<DivergencePoint> amplifiers;  // the strongest, strongest first
};

// Adds the parameters and gradients of a call to what the step leaves to the next one.
void RecordParameters(const WalkContext& context, const WalkHistory& history, const CallView& call,
                      StepRecord& record);

// ---- What inputs and rounding explain (divergence_bounds.cpp) ----

// What an error bound needs of a row. `epsilon`: of the coarser dtype, 0 for exact types.
Operand OperandOf(const RowView& row, double epsilon);
CallOperands OperandsOf(const WalkContext& context, const WalkHistory& history,
                        const CallView& call);

// The scale of a tensor's elements: Norm / sqrt(elements); 0 when unknown.
double RootMeanSquare(const SideRow& row);
// Errors in random directions cancel in Norm: of as many elements as large as the largest as make
// up Norm, the root.
double NormShare(const Operand& values);
double LargestError(const std::vector<RowView>& rows);

struct OutputBound {
  double explained = 0;       // the relative error that inputs and rounding explain
  bool is_rounding = false;   // a gradient that cancels: nothing but rounding, so it agrees
  bool flips_choice = false;  // noise may have changed the discrete choice that this call makes
};
// The error bound of an output that does not agree.
OutputBound BoundOf(const WalkContext& context, const WalkHistory& history, const CallView& call,
                    const CallOperands& operands, const RowView& output);

// ---- Origins (divergence_origins.cpp) ----

// A row of another dtype than most of the run.
Finding JudgeDType(const WalkContext& context, const WalkHistory& history, const CallView& call);
// An input that does not agree and that no call before has put out.
Finding JudgeInput(const WalkContext& context, const WalkHistory& history, const CallView& call,
                   const RowView& input);
// The output that exceeds its bound the most.
Finding JudgeOutput(const WalkContext& context, const WalkHistory& history, const CallView& call,
                    const RowView& output, double explained);
// Checksums: the first output that is not bit-equal although the inputs are.
std::optional<DivergencePoint> FindUnequalBits(const WalkContext& context,
                                               const WalkHistory& history, const CallView& call);
// A call that increases the error of its inputs.
std::optional<DivergencePoint> FindAmplifier(const WalkContext& context, const WalkHistory& history,
                                             const CallView& call, const RowView& output);
// At the end: calls that only one side made, though values agree behind them.
Finding JudgeUnmatchedCalls(const WalkContext& context, const WalkHistory& history);
// Ranks that must hold the same value do not, at this call; `row`: of the result.
Finding JudgeReplica(const ReplicaDifference& replica, uint32_t entry, size_t place, uint32_t row);
// Adds names, layer, stack and line of code to a point that is reported.
DivergencePoint WithNames(const WalkContext& context, const WalkHistory& history,
                          DivergencePoint point);

}  // namespace msprobe::analysis::compare
