// The walk over the calls of a pair in execution order, which FindDivergence takes. Private to its
// three sources: divergence.cpp (the way through a call), divergence_bounds.cpp (what a call's
// inputs explain) and divergence_origins.cpp (what is an origin, and of which kind).
#pragma once

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
#include "src/analysis/compare/containment.h"
#include "src/analysis/compare/differing_rows.h"
#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/error_bound.h"
#include "src/analysis/compare/execution_order.h"
#include "src/analysis/compare/memory_as_found.h"
#include "src/analysis/compare/row_views.h"

namespace msprobe::analysis::compare {

// An input that no recorded output explains may have come through an unrecorded call. It is an
// origin of its own only if it is off by this many times the largest error seen before it.
inline constexpr double kEntersAfresh = 8;
// Units in the last place that statistics hide behind updates by chance.
inline constexpr double kHiddenUnitsByChance = 100;
// Tensors hide nothing, but a product of matrices makes more of single units than of noise.
inline constexpr double kSingleUnitsByChance = 30;
inline constexpr double kBeyondNoise = 1.9;

class Walk {
 public:
  explicit Walk(const DivergenceInput& input);
  DivergenceOutput Run();

 private:
  struct EntryState {
    double input_error = 0;
    double output_error = 0;
    bool diverges = false;
    bool made_same_choice = false;  // recorded indices, and they are equal
  };
  struct ModuleState {
    double error = 0;
    bool diverges = false;
    uint32_t backward = kNoEntry;  // its last backward call
  };
  // What an unrecorded call may have been given.
  struct RecentError {
    uint64_t print = 0;      // RowPrints::extremes
    double error = 0;        // less for each call behind it
    double scale_error = 0;  // Operand::scale_error, likewise
  };
  struct Candidate {
    OriginKind kind = OriginKind::kComputation;
    uint32_t entry = 0;
    uint32_t row = 0;
    double input_error = 0;
    double output_error = 0;
    double explained_error = 0;
    double amplification = 0;
    double own_noise = 0;
    double digits = 0;
    Confidence confidence = Confidence::kMedium;
    std::string reason;
    std::string note;
    std::string other_call;  // kUnmatchedCall: the call that is missing or too many
    bool from_other_rank = false;
    bool is_saved_value = false;
    std::optional<ArgumentDifference> argument;
    size_t place = 0;  // in execution order
  };

  // With a mapping or fuzzy matching the rows' pairs are what the user asked for; frameworks do not
  // make the same calls.
  static bool PairsCallsByName(const DivergenceInput& input);

  // Which dtypes most floating rows have on both sides: what is otherwise is a finding.
  void NoteDTypes();

  bool HasUnusualDType(const RowView& row);

  // So that a weight is known as such when a functional call inside the module, which a dump lists
  // first, takes it; and whether equal weights have equal sums.
  void NoteParameters();
  Cancellation CancellationOf(const SideRow& parameter);

  void Visit(uint32_t entry);

  void PassUnmatchedCalls(uint32_t entry);

  void Judge(const dump::EntryName& name, std::string_view entry_name, std::string_view argument,
             RowView& view);

  double LargestRelative(const RowView& view) const;

  // Whether this row of a call is memory as found, or was moved from there: no difference. What is
  // used of it is an input of the call that uses it. Rows of a call are to be asked in their order.
  bool IsAsFound(const dump::EntryName& name, const RowView& row);

  // Sharded training (FSDP) cuts memory into parts, and asks for its layout, before a collective
  // fills it: of memory that was there before the capture only the difference shows.
  bool LeavesUnused(const dump::EntryName& name) const;

  void Analyse(uint32_t entry);

  static double LargestError(const std::vector<RowView>& rows);

  // Weights and gradients that cancel left aside: their relative errors say nothing of what is
  // computed with them.
  double LargestComputedError() const;

  bool HasOrigin() const;

  void RememberDiffering(uint32_t entry, OperatorFamily family);
  void RememberRows();
  void RememberRecent(OperatorFamily family);

  // Parts of a bias may differ by chance (JudgeUpdate) while statistics hardly do. The call that
  // adds the bias and copies and views of its result carry that on; what sums over it (a product of
  // matrices) shows it.
  bool UpdatedByChance() const;
  bool StartsAtUnequalBits() const;
  void CarryHidden(OperatorFamily family);

  void Stand(const RowView& row, RowStanding standing);

  void StandAll(RowStanding standing);

  // The operands of a recorded call, errors included.
  std::vector<Operand> InputsOf(uint32_t entry);

  double CoarserEpsilon(const RowView& view);

  CallOperands OperandsOf(uint32_t entry);

  OperatorFamily FamilyOfEntry(uint32_t entry) const;

  bool NoiseEnters() const;
  double Explained(uint32_t entry, OperatorFamily family, const CallOperands& operands,
                   const RowView& output);

  // Gradients that cancel to zero in exact arithmetic (of a bias in front of a normalisation, say)
  // are nothing but rounding: their relative error means nothing. What rounding may leave is
  // measured against the gradients that entered: a sum of n numbers of size g is off by up to about
  // 8 u g sqrt(n) whatever it sums up to.
  bool Cancels(uint32_t entry, const RowView& output, const CallOperands& operands);

  // Of an output whose statistics are all the other side's times one factor, or of the Norm of a
  // gradient, of which every call is a linear function of the one that entered: what its operands
  // and noise explain. Empty where they explain it all.
  std::optional<double> ExplainedOfScale(uint32_t entry, OperatorFamily family,
                                         const RowView& output, const CallOperands& operands,
                                         double explained, bool cancels);

  // CommonFactor where it tells noise from a scale that differs: not in a run of 16 bits, to which
  // a single number may be rounded that scales all others.
  std::optional<double> FactorOf(const RowView& row);

  // Errors in random directions cancel in Norm: of as many elements as large as the largest as make
  // up Norm, the root.
  static double NormShare(const Operand& values);

  // Whether a choice among these inputs may fall otherwise when they are this far apart.
  bool MayJump(double error, const std::vector<RowView>& inputs) const;

  // A backward call works on what its forward call kept, a parameter gradient on its module's
  // forward and backward.
  bool ExplainedByPartner(uint32_t entry, EntryState& state);

  // A value of the step before that comes back: the state of an optimizer, say. Parameters are
  // judged on their own.
  bool CarriedOver(const RowView& input) const;

  // One side computes in another dtype where the rest of the sides does not.
  void ProposeDType(uint32_t entry, const EntryState& state);

  void Enter(uint32_t entry, const EntryState& state, const RowView& input);

  // A constant of the code: what the sides gave to a call, the first that is not the same. Where
  // the call's output is not explained, it is the cause.
  std::optional<ArgumentDifference> DifferingArgument(uint32_t entry, uint32_t bench_entry) const;
  static void BlameArgument(ArgumentDifference argument, Candidate& candidate);

  // In-place arithmetic behind a backward pass: an optimizer at work.
  bool IsUpdateCall(const dump::EntryName& name) const;

  // The value is what the calls that only one side made put out.
  bool MadeByUnmatchedCall(const RowView& input) const;

  void EnterParameter(const RowView& input, Candidate candidate);

  void BlameUnmatchedCall(Candidate& candidate) const;

  void Compute(uint32_t entry, const EntryState& state, const RowView& output, double explained,
               bool inputs_differ);

  // The last unmatched calls lie inside this module: between them and the module's own entry, which
  // follows what is inside it, are only calls of the same module.
  bool ContainsUnmatchedCall(uint32_t entry) const;

  void NoteDrift(Candidate candidate);

  void NoteUnequalBits(uint32_t entry, const EntryState& state);

  // What repetitions of the call say about `distance`; empty where none are recorded.
  static std::string OwnNoiseText(const Candidate& candidate, double distance);
  Candidate CandidateOf(OriginKind kind, uint32_t entry, const EntryState& state,
                        const RowView& row);

  void Propose(Candidate candidate);

  // What is furthest apart among the inputs is a gradient that cancels, or what an optimizer made
  // of such: nothing but rounding, whose relative error, however large, no call has amplified.
  bool IsByChance() const;
  void RememberByChance();
  void NoteAmplifier(uint32_t entry, const EntryState& state, const RowView& output);

  void RecordParameters(uint32_t entry);
  void RecordUnseenGradients(uint32_t entry);

  DivergencePoint PointOf(const Candidate& candidate) const;

  // Calls that only one side made, though values agree behind them: nothing else is found, so it is
  // told.
  void ProposeHarmlessUnmatchedCall();

  void NoteCallStandings();

  DivergenceOutput Finish();

  // Of one call: what it was given comes before what it made of it.
  static int Precedence(OriginKind kind);

  const DivergenceInput& input_;
  const Side& npu_;
  const PairResult& result_;
  const bool has_checksums_;
  Agreement agreement_;

  const ExecutionPlan plan_;
  const SharedKinds kinds_;
  const CallAlignment alignment_;
  const RowViews views_;
  Containment containment_;
  DifferingRows parameters_;            // differing rows of the section "parameters"
  DifferingRows explained_parameters_;  // those that the step before explains
  DifferingRows known_;                 // differing rows met so far
  MemoryAsFound memory_;
  bool moves_memory_ = false;                 // the call being visited was given memory as found
  std::shared_ptr<DifferingRows> carried_;    // rows that are not identical, for the next step
  std::shared_ptr<DifferingRows> by_chance_;  // of those that IsByChance
  std::vector<EntryState> states_;            // by entry
  std::vector<ModuleState> modules_;          // by ExecutionPlan::module_of
  std::vector<RowView> inputs_;               // of the entry being visited
  std::vector<RowView> outputs_;

  uint32_t shapes_entry_ = kNoEntry;  // of which shapes_ are the shapes of tensors
  std::unordered_set<std::string_view> shapes_;

  UpdateRule update_rule_;
  double usual_epsilon_ = 0;  // the coarser of them
  std::optional<std::pair<std::string_view, std::string_view>>
      usual_dtypes_;     // of most floating rows: NPU, bench
  bool noisy_ = false;   // something before was not identical
  bool jumped_ = false;  // noise has changed a choice
  bool any_divergence_ = false;
  bool records_functions_ = false;  // and not only modules
  bool seen_backward_ = false;      // a backward call was before this one
  bool last_was_forward_ = false;   // the call visited before this one
  bool seen_output_ = false;        // a call before this one has recorded outputs
  bool record_identical_ = true;
  double error_since_unequal_ = 0;  // checksums: the largest behind unequal_bits_
  double recent_error_ = 0;         // the largest of recent_
  double recent_scale_error_ = 0;
  bool just_normalised_ = false;     // the call before was a normalisation, and its output agrees
  std::vector<RecentError> recent_;  // computed rows of the last calls, noise included
  std::unordered_map<uint64_t, double>
      hidden_;  // RowView::hidden of tensors that carry it, by their values
  size_t place_ = 0;
  size_t next_unmatched_ = 0;
  std::optional<size_t> passed_unmatched_;  // the last one in front of the entry being visited

  std::array<std::optional<Candidate>, kOriginKindCount> firsts_;
  std::optional<Candidate> drift_;
  std::optional<Candidate> unequal_bits_;
  std::vector<Candidate> amplifiers_;
  DivergenceReport report_;
  StepRecord record_;
};

}  // namespace msprobe::analysis::compare
