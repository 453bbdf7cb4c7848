// Rows of the whole model out of those of ranks: the parts that the joining of rows is made of.
// Private to its sources: joined_rows (which calls and rows are written), row_pieces (a row of all
// members of a call), row_maker (the row of the whole), parameter_facts (what parameters tell of
// other rows), layout_calls (what only the layout makes), gradient_factors, unequal_pieces (copies
// that differ, and summands), piece_ranks (which ranks a difference concerns).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/analysis/compare/layouts/joined_side.h"
#include "src/analysis/compare/layouts/piece_loader.h"
#include "src/analysis/compare/layouts/plan.h"
#include "src/analysis/compare/side.h"
#include "src/dump/names.h"
#include "src/layout/inference.h"
#include "src/layout/placement.h"

namespace msprobe::analysis::compare::layouts {

inline constexpr uint32_t kNoCall = UINT32_MAX;
using Sides = std::array<JoinedSide*, 2>;  // npu, bench

// A row of a call: the rows of its members, in the order of the grid.
struct RowPieces {
  layout::Pieces pieces;
  std::vector<const SideRow*> rows;
  std::vector<uint32_t> ranks;  // by row: place among the loaded ranks
  std::vector<uint32_t> entries;
  bool is_grid = false;
  bool has_shapes = false;
  bool is_fused = false;    // of modules that are one on the other side
  bool is_swapped = false;  // the first two dimensions of each piece
  std::optional<int64_t> stage;
  std::optional<int64_t> only_rank;
};

// One direction of a joined call.
struct DirectedCall {
  const JoinedCall* call = nullptr;
  std::vector<CallMember> members;  // with the entries of this direction
  dump::Direction direction = dump::Direction::kForward;
  bool is_gradient = false;  // parameters_grad
  bool is_reduced = false;   // and as the optimizer is given it
};

// Calls that are written: either side may be missing.
struct CallPair {
  std::array<std::optional<DirectedCall>, 2> calls;
  std::array<double, 2> order = {0, 0};
};

// A row that is to be written.
struct NewRow {
  SideRow row;  // its name is what follows that of the entry
  JoinedRow joined;
};
struct NewEntry {
  double order = 0;
  std::string name;
  std::vector<NewRow> rows;
  bool is_left_out = false;
};
// Values stay to be seen, but nothing is compared.
void MakeUncomparable(SideRow& row);

// What follows the name of the entry: ".input.0". A file may name a row otherwise.
std::string_view SuffixOf(const SideEntry& entry, const SideRow& row);
bool IsFloating(const SideRow& row);
layout::PieceStatistics PieceStatisticsOf(const SideRow& row, const std::optional<Shape>& shape);

// ---- gradient_factors.cpp ----

// By which gradients of the NPU side are larger: a loss averaged over a rank's share scales all.
struct GradientFactors {
  double backward = 1;           // of gradients of values
  double gradient = 1;           // of parameters, as they were computed
  double summed = 1;             // of those that are summands
  double reduced = 1;            // as the optimizer is given them
  std::vector<double> possible;  // that averages may make
};
class PieceGatherer;
GradientFactors FindGradientFactors(const Sides& sides, const std::vector<CallPair>& pairs,
                                    const PieceGatherer& gatherer);

// ---- parameter_facts.cpp ----

// What parameters tell of other rows.
class ParameterFacts {
 public:
  // Before any row is made. The gatherer may not know the facts yet.
  void Find(const std::vector<CallPair>& pairs, const PieceGatherer& gatherer);
  // The shape that a parameter, and its gradient, has as a whole; null: not known. The name is the
  // end of the row's.
  const Shape* WholeOf(size_t side, const std::string& path, std::string_view suffix) const;
  // All parameters of the module are copies on ranks that share tensors.
  bool IsReplicated(size_t side, const std::string& path) const {
    return replicated_[side].contains(path);
  }
  // Parameters of a vocabulary and their gradients, and what has the same sizes.
  bool MayBePadded(const RowPieces& npu, const RowPieces& bench,
                   const layout::Spreads& spreads) const;
  // A shape with the size of a vocabulary that is padded on one side alone, or of a rank's part.
  bool HasPaddedSize(const Shape& shape, int64_t parts) const;
  // Leaves the padding out of both sides. Returns the shape that they have without it.
  Shape MakePadded(const RowPieces& npu, const RowPieces& bench, const layout::Spreads& spreads,
                   NewRow& n, NewRow& b) const;

 private:
  void AddPadding(const RowPieces& npu, const RowPieces& bench, const layout::Spreads& spreads);

  std::array<std::unordered_map<std::string, Shape>, 2> wholes_;  // by path and name
  std::array<std::unordered_set<std::string>, 2> replicated_;     // modules
  // By the sizes of both sides: how many rows are real, where records say so.
  std::map<std::pair<int64_t, int64_t>, int64_t> vocabularies_;
};

// ---- row_pieces.cpp ----

class PieceGatherer {
 public:
  explicit PieceGatherer(const Sides& sides) : sides_(sides) {}
  // Borrowed.
  void SetParameters(const ParameterFacts* facts) { parameters_ = facts; }
  void SetFactors(GradientFactors factors) { factors_ = std::move(factors); }

  const SideEntry& EntryOf(size_t side, const CallMember& member) const;
  // The members whose row counts: of a module around several stages the inputs of the first one,
  // and the results of the last.
  bool Counts(size_t side, const DirectedCall& call, const CallMember& member,
              dump::RowState state) const;
  // The pieces of a row; `place`: where the row stands in the first member.
  RowPieces Gather(size_t side, const DirectedCall& call, std::string_view suffix, uint32_t place,
                   dump::RowState state) const;
  // Calls use(suffix, npu, bench) for the rows that both sides of a pair have.
  template <typename Use>
  void ForRows(const CallPair& pair, const Use& use) const {
    const CallMember& first = pair.calls[0]->members.front();
    const Side& read = sides_[0]->ranks[first.rank]->side;
    const SideEntry& entry = read.entries[first.entry];
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = read.rows[entry.first_row + i];
      const std::string_view suffix = SuffixOf(entry, row);
      RowPieces bench = Gather(1, *pair.calls[1], suffix, i, row.state);
      if (!bench.rows.empty()) {
        RowPieces npu = Gather(0, *pair.calls[0], suffix, i, row.state);
        if (!npu.rows.empty()) {
          use(suffix, npu, bench);
        }
      }
    }
  }

 private:
  const SideRow* RowAt(size_t side, const CallMember& member, std::string_view suffix,
                       uint32_t place) const;
  size_t StageSize(size_t side, int64_t stage) const;
  const layout::ParameterRecord* RecordOf(size_t side, const DirectedCall& call,
                                          std::string_view suffix, dump::RowState state) const;

  Sides sides_;
  const ParameterFacts* parameters_ = nullptr;
  GradientFactors factors_;
};

// ---- layout_calls.cpp ----

// A call, and what is written of it; null where a side did not make it.
struct WrittenPair {
  const CallPair* calls = nullptr;
  NewEntry* npu = nullptr;
  NewEntry* bench = nullptr;
};
// How a module computes its result is its layout's business, and so is what a training loop does
// around the model: where the result is equal, calls directly inside that are not are not compared,
// and those that one side alone made are left out. Gradients and parameters show what a loop does.
void LeaveOutInnerDifferences(const Sides& sides, const std::vector<WrittenPair>& written);

// What only the layout makes: calls that no whole model has, and values that are a rank's own.
class LayoutCalls {
 public:
  // Borrows the sides, whose calls are paired.
  LayoutCalls(const Sides& sides, const PieceGatherer& gatherer);

  // Communication, moves of data, and unpaired calls next to communication.
  bool IsOfLayout(const JoinedCall& call) const { return of_layout_.contains(&call); }
  bool IsExpert(size_t side, const DirectedCall& call) const;
  // Made inside of a layer that communicates in the middle: what it has before is a part of
  // something, masked perhaps.
  bool IsBesideCommunication(size_t side, const DirectedCall& call) const;
  bool IsBesideAny(const CallPair& pair) const;
  // A forward call made behind the communication: what it takes may have come through that.
  bool IsBehindCommunication(const CallPair& pair) const;
  // A parallel layer adds its bias behind the reduction, where the layer of one rank gives it to
  // the product: one side's call has a tensor more.
  bool TakesOtherTensors(const CallPair& pair) const;
  // Values that say where something is in a rank's own part, and those of experts where no record
  // tells which ones a rank has.
  bool IsOfParts(const CallPair& pair, const RowPieces& npu, const RowPieces& bench) const;
  // Tokens reach an expert in any order, which statistics do not see.
  bool MayBeReordered(const CallPair& pair, const SideRow& row) const;

 private:
  // Where the first communication that this side alone makes stands in a bucket.
  struct PlaceInBucket {
    size_t own = 0;                   // of the call
    size_t communication = SIZE_MAX;  // none
  };
  PlaceInBucket PlaceOf(size_t side, const DirectedCall& call) const;
  void FindPlaces(size_t side);
  void Mark(size_t side);

  Sides sides_;
  const PieceGatherer& gatherer_;
  std::unordered_set<const JoinedCall*> of_layout_;
  std::array<std::vector<size_t>, 2> place_;          // in its bucket, by call
  std::array<std::vector<size_t>, 2> communication_;  // the first of a bucket, by bucket
};

// ---- unequal_pieces.cpp ----

// Pieces that should be equal and are not: copies that differ, or summands. Whether these are
// reduced later the way of the value through its rank tells; they are read behind the reduction.
class UnequalPieces {
 public:
  UnequalPieces(const Sides& sides, const LayoutCalls& calls, const PieceGatherer& gatherer,
                const ParameterFacts& parameters)
      : sides_(sides),
        calls_(calls),
        gatherer_(gatherer),
        parameters_(parameters),
        uses_{ValueUses(*sides[0]), ValueUses(*sides[1])} {}

  // Where the gradient that an optimizer is given is a summand, a reduction is missing: what came
  // into the module's backward was one already. Before any call is judged.
  void FindUnreduced(const std::vector<CallPair>& pairs);
  // Decides along which axes unequal pieces are summands, and what is wrong with those that are
  // neither that nor copies.
  void Judge(size_t side, const DirectedCall& call, const RowPieces& pieces,
             const RowPieces& others, const layout::Placement& other, NewRow& made);
  // Summands of a gradient add up to what the backward pass computes, whose factor they share: by
  // the chain rule. Gradients that are reduced already have one of their own.
  void ScaleGradient(double summed_factor, NewRow& npu, NewRow& bench, RowPieces& pieces,
                     const std::string& path) const;
  // Summands are judged by what the reduction behind them makes of them, where that is recorded:
  // the rows that are read in their place, and how they make the whole.
  std::optional<std::pair<RowPieces, layout::Placement>> Reduced(
      size_t side, const RowPieces& pieces, const layout::Placement& placement);

 private:
  void Suspect(size_t side, const RowPieces& pieces, const RowPieces& others,
               const layout::Placement& other, NewRow& made) const;
  bool IsFullySharded(size_t side, const std::string& path) const;
  // A module whose parameters are copies takes the value as it is, and what it makes of it differs
  // between the ranks, too: nothing reduces it.
  bool IsTakenUnreduced(size_t side, const RowPieces& pieces);
  bool IsNextUnequal(size_t side, const RowPieces& pieces) const;

  Sides sides_;
  const LayoutCalls& calls_;
  const PieceGatherer& gatherer_;
  const ParameterFacts& parameters_;
  std::array<ValueUses, 2> uses_;
  std::array<std::set<std::pair<uint32_t, uint64_t>>, 2> unreduced_;  // values of ranks
};

// ---- piece_ranks.cpp ----

// Which ranks of the NPU side a difference would concern, where statistics of pieces tell: sets
// suspicion and suspects of the row. `other`: how the other side's pieces make the whole.
void NotePieces(const JoinedSide& side, const RowPieces& pieces, const RowPieces& others,
                const layout::Placement& other, NewRow& made);

// ---- row_maker.cpp ----

// Makes the rows of the whole model out of the pieces of both sides.
class RowMaker {
 public:
  // Borrows all. Texts of new shapes are kept by `made`, the sides that the rows become part of.
  RowMaker(const Sides& sides, const PieceGatherer& gatherer, const ParameterFacts& parameters,
           const LayoutCalls& calls, UnequalPieces& unequal, std::array<Side, 2>& made)
      : sides_(sides),
        gatherer_(gatherer),
        parameters_(parameters),
        calls_(calls),
        unequal_(unequal),
        made_(made) {}

  void SetFactors(GradientFactors factors) { factors_ = std::move(factors); }
  // Rows come call by call: inputs in front of outputs, the forward pass in front of the backward.
  void StartCall() { has_unknown_input_ = false; }
  // The whole of what one side alone has.
  NewRow MakeAlone(size_t side, const RowPieces& pieces);
  // The wholes of both.
  std::pair<NewRow, NewRow> MakeBoth(const CallPair& pair, RowPieces& npu, RowPieces& bench);

 private:
  struct ForwardRow {
    std::string_view suffix;
    std::array<Shape, 2> shapes;  // of a piece
    std::array<layout::Placement, 2> placements;
  };

  std::pair<NewRow, NewRow> MakeTensors(const CallPair& pair, RowPieces& npu, RowPieces& bench);
  NewRow Start(size_t side, const RowPieces& pieces, layout::Placement placement);
  static layout::Placement Unknown(const RowPieces& pieces);
  void FillWhole(size_t side, const RowPieces& pieces, const std::optional<Shape>& shape,
                 NewRow& made);
  void TakeRoundingOfSummands(const CallPair& pair, SideRow& npu, SideRow& bench) const;
  bool IsOfLastBatch(const CallPair& pair) const;
  std::string_view SuffixIn(const RowPieces& npu) const;
  void KeepForward(const CallPair& pair, const RowPieces& npu, const RowPieces& bench,
                   const layout::Spreads& spreads);
  void ExpectAsForward(const CallPair& pair, RowPieces& npu, RowPieces& bench) const;
  void ScaleOne(RowPieces& npu, const RowPieces& bench) const;
  void TakeBlocks(size_t side, const DirectedCall& call, const RowPieces& pieces,
                  layout::Placement& placement) const;
  void FinishRow(size_t side, const RowPieces& pieces, NewRow& made);
  void FillPaddedGradient(const RowPieces& npu, const RowPieces& bench, const Shape& real,
                          NewRow& n, NewRow& b);
  void FillSmallerPadded(const RowPieces& npu, const RowPieces& bench, NewRow& n, NewRow& b);
  std::pair<NewRow, NewRow> MakePadded(const CallPair& pair, RowPieces& npu, const RowPieces& bench,
                                       layout::Spreads spreads);
  std::pair<NewRow, NewRow> MakeUnknown(const RowPieces& npu, const RowPieces& bench);
  std::pair<NewRow, NewRow> MakeArguments(const CallPair& pair, const RowPieces& npu,
                                          const RowPieces& bench);
  bool IsOfSizes(const SideRow& a, const SideRow& b) const;

  Sides sides_;
  const PieceGatherer& gatherer_;
  const ParameterFacts& parameters_;
  const LayoutCalls& calls_;
  UnequalPieces& unequal_;
  std::array<Side, 2>& made_;
  GradientFactors factors_;
  const JoinedCall* forward_call_ = nullptr;
  std::vector<ForwardRow> forward_;  // of this call
  bool has_unknown_input_ = false;   // the call that is written: a tensor that cannot be compared
  std::set<std::pair<size_t, uint64_t>> unknown_choices_;  // by bucket, with their fingerprints
};

}  // namespace msprobe::analysis::compare::layouts
