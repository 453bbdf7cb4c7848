// Pieces that should be equal and are not.
#include <algorithm>
#include <cmath>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/layouts/joined_rows.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::Placement;
using layout::SpreadKind;

// Shares of the data: gradients are summands before they are reduced, a loss is a mean of means.
void JudgeUnequalData(bool is_gradient, const RowPieces& pieces, layout::Spread& spread) {
  const bool is_number = pieces.pieces.statistics[0].elements == 1;
  if (spread.kind == SpreadKind::kPartial && !is_gradient && is_number) {
    return;  // a count, or a loss
  }
  if (!IsFloating(*pieces.rows[0])) {
    spread.kind = SpreadKind::kUnknown;
  } else if (is_gradient) {
    spread.kind = SpreadKind::kPartial;
    spread.is_mean = false;
  } else if (is_number) {
    spread.kind = SpreadKind::kPartial;
    spread.is_mean = true;
  } else {
    spread.kind = SpreadKind::kUnknown;
  }
}

// How the reduced pieces make the whole: copies, or parts along the one dimension that is
// smaller.
std::optional<Placement> PlacementOfReduced(const RowPieces& pieces, const RowPieces& reduced,
                                            const Placement& placement) {
  const auto tensor = static_cast<size_t>(Axis::kTensor);
  const Shape& before = pieces.pieces.shapes[0];
  const Shape& after = reduced.pieces.shapes[0];
  Placement made = placement;
  made.spreads[tensor] = {};
  if (before != after) {
    if (before.size() != after.size()) {
      return std::nullopt;
    }
    made.spreads[tensor].kind = SpreadKind::kShard;
    for (size_t axis = 0; axis < before.size(); ++axis) {
      if (before[axis] != after[axis]) {
        made.spreads[tensor].dimension = static_cast<int64_t>(axis);
      }
    }
  }
  return made;
}

}  // namespace

void UnequalPieces::FindUnreduced(const std::vector<CallPair>& pairs) {
  std::array<std::set<std::string_view>, 2> modules;
  for (const CallPair& pair : pairs) {
    if (!pair.calls[0] || !pair.calls[1] || !pair.calls[0]->is_reduced) {
      continue;
    }
    gatherer_.ForRows(pair, [&](std::string_view, RowPieces& npu, RowPieces& bench) {
      if (!npu.is_grid || !bench.is_grid || !npu.has_shapes || !bench.has_shapes) {
        return;
      }
      const layout::Spreads spreads = layout::InferSpreads(npu.pieces, bench.pieces);
      constexpr auto kTensor = static_cast<size_t>(Axis::kTensor);
      for (size_t side = 0; side < 2 && spreads.fits; ++side) {
        const Placement& placement = side == 0 ? spreads.npu : spreads.bench;
        if (placement.grid[kTensor] > 1 &&
            placement.spreads[kTensor].kind == SpreadKind::kPartial) {
          modules[side].insert(pair.calls[side]->call->path);
        }
      }
    });
  }
  for (size_t side = 0; side < 2; ++side) {
    for (const CallPair& pair : pairs) {
      const std::optional<DirectedCall>& call = pair.calls[side];
      if (!call || call->direction != dump::Direction::kBackward || !call->call->is_module ||
          !modules[side].contains(call->call->path)) {
        continue;
      }
      for (const CallMember& member : call->members) {
        const SideEntry& entry = gatherer_.EntryOf(side, member);
        for (uint32_t i = 0; i < entry.row_count; ++i) {
          const SideRow& row = sides_[side]->ranks[member.rank]->side.rows[entry.first_row + i];
          if (row.is_tensor && IsInput(row)) {
            unreduced_[side].emplace(member.rank, ValueUses::FingerprintOf(row));
          }
        }
      }
    }
  }
}

void UnequalPieces::Judge(size_t side, const DirectedCall& call, const RowPieces& pieces,
                          const RowPieces& others, const Placement& other, NewRow& made) {
  Placement& placement = made.joined.placement;
  const bool is_gradient = call.direction == dump::Direction::kBackward || call.is_gradient;
  const bool is_parameter = made.row.state == dump::RowState::kParameters;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    layout::Spread& spread = placement.spreads[axis];
    if (placement.grid[axis] == 1 || spread.kind == SpreadKind::kShard ||
        pieces.pieces.AreEqualAlong(static_cast<Axis>(axis))) {
      continue;
    }
    if (pieces.is_fused && static_cast<Axis>(axis) == Axis::kTensor) {
      spread = {};
      spread.kind = SpreadKind::kPartial;  // gradients of what several modules take
      continue;
    }
    if ((is_parameter || call.is_reduced) && calls_.IsExpert(side, call) &&
        !sides_[side]->knows_experts) {
      spread.kind = SpreadKind::kUnknown;  // other ranks may have other experts
      continue;
    }
    if (is_parameter || call.is_reduced) {
      if (call.is_reduced && spread.kind == SpreadKind::kPartial) {
        made.joined.suspicion = Suspicion::kNotReduced;
      } else {
        Suspect(side, pieces, others, other, made);
      }
      spread = {};
      continue;
    }
    if (static_cast<Axis>(axis) != Axis::kTensor) {
      JudgeUnequalData(is_gradient, pieces, spread);
      continue;
    }
    const bool is_floating = IsFloating(*pieces.rows[0]);
    if (!is_floating) {
      spread = {};
      spread.kind = SpreadKind::kUnknown;  // places in a part, masks of a range
      continue;
    }
    if (call.is_gradient) {
      spread = {};
      spread.kind = SpreadKind::kPartial;  // each rank has seen a part of the sequence
      continue;
    }
    if (call.direction == dump::Direction::kBackward && calls_.IsBesideCommunication(side, call)) {
      spread = {};
      spread.kind = SpreadKind::kUnknown;
      continue;
    }
    bool used = false;
    const SideRow* const reduction =
        is_floating ? uses_[side].ReductionOf(pieces.ranks[0],
                                              ValueUses::FingerprintOf(*pieces.rows[0]), 0, &used)
                    : nullptr;
    used =
        used ||
        unreduced_[side].contains({pieces.ranks[0], ValueUses::FingerprintOf(*pieces.rows[0])}) ||
        (spread.kind == SpreadKind::kPartial && IsTakenUnreduced(side, pieces));
    if (reduction != nullptr) {
      spread = {};
      spread.kind = SpreadKind::kPartial;
    } else if (spread.kind == SpreadKind::kPartial && used) {
      spread = {};
      made.joined.suspicion = Suspicion::kNotReduced;
    } else if (spread.kind != SpreadKind::kPartial && calls_.IsBesideCommunication(side, call)) {
      spread.kind = SpreadKind::kUnknown;
    } else if (spread.kind == SpreadKind::kReplicated) {
      Suspect(side, pieces, others, other, made);
    }
  }
}

bool UnequalPieces::IsTakenUnreduced(size_t side, const RowPieces& pieces) {
  const JoinedSide& joined = *sides_[side];
  const uint32_t rank = pieces.ranks[0];
  const LoadedRank& loaded = *joined.ranks[rank];
  const uint64_t value = ValueUses::FingerprintOf(*pieces.rows[0]);
  return uses_[side].IsTakenBy(rank, value, [&](uint32_t by) {
    if (!loaded.names[by].is_module || !parameters_.IsReplicated(side, loaded.paths[by])) {
      return false;
    }
    const SideEntry& entry = loaded.side.entries[by];
    return std::any_of(pieces.ranks.begin(), pieces.ranks.end(), [&](uint32_t other) {
      const LoadedRank& second = *joined.ranks[other];
      const auto same = second.entry_of.find(entry.name);
      if (other == rank || same == second.entry_of.end() ||
          second.side.entries[same->second].row_count != entry.row_count) {
        return false;
      }
      bool differs = false;
      for (uint32_t i = 0; i < entry.row_count; ++i) {
        const SideRow& own = loaded.side.rows[entry.first_row + i];
        const SideRow& row = second.side.rows[second.side.entries[same->second].first_row + i];
        differs = differs || (own.state == dump::RowState::kOutput && own.is_tensor &&
                              ValueUses::FingerprintOf(own) != ValueUses::FingerprintOf(row));
      }
      return differs;
    });
  }) || IsNextUnequal(side, pieces);
}

// What lies between modules is not recorded: a residual is added to the value, and the next module
// that expects whole values is given others on each rank.
bool UnequalPieces::IsNextUnequal(size_t side, const RowPieces& pieces) const {
  constexpr uint32_t kMostEntries = 32;
  constexpr double kEqual = 1e-4;
  const LoadedRank& loaded = *sides_[side]->ranks[pieces.ranks[0]];
  const dump::EntryName& own = loaded.names[pieces.entries[0]];
  const uint32_t first = pieces.entries[0] + 1;
  const auto end =
      std::min<uint32_t>(first + kMostEntries, static_cast<uint32_t>(loaded.side.entries.size()));
  for (uint32_t next = first; next < end && own.is_module; ++next) {
    if (!loaded.names[next].is_module || loaded.names[next].direction != own.direction ||
        !parameters_.IsReplicated(side, loaded.paths[next])) {
      continue;
    }
    const SideEntry& entry = loaded.side.entries[next];
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = loaded.side.rows[entry.first_row + i];
      if (!IsInput(row) || row.shape != pieces.rows[0]->shape || !IsFloating(row)) {
        continue;
      }
      return std::any_of(pieces.ranks.begin(), pieces.ranks.end(), [&](uint32_t other) {
        const LoadedRank& second = *sides_[side]->ranks[other];
        const auto same = second.entry_of.find(entry.name);
        if (same == second.entry_of.end() ||
            second.side.entries[same->second].row_count != entry.row_count) {
          return false;
        }
        const SideRow& taken = second.side.rows[second.side.entries[same->second].first_row + i];
        return second.about.place.data == loaded.about.place.data &&
               second.about.place.context == loaded.about.place.context &&
               taken.shape == row.shape &&
               layout::StatisticsApart(PieceStatisticsOf(taken, ParseShape(taken.shape)),
                                       PieceStatisticsOf(row, ParseShape(row.shape)))
                       .value_or(0) > kEqual;
      });
    }
    return false;
  }
  return false;
}

void UnequalPieces::Suspect(size_t side, const RowPieces& pieces, const RowPieces& others,
                            const Placement& other, NewRow& made) const {
  constexpr double kEqual = 1e-5;
  layout::PieceStatistics whole = layout::CombineStatistics(other, others.pieces.statistics);
  std::set<int64_t> wrong;
  std::set<int64_t> right;
  double error = 0;
  for (size_t i = 0; i < pieces.rows.size(); ++i) {
    layout::PieceStatistics piece = pieces.pieces.statistics[i];
    if (pieces.pieces.scale != 1) {
      return;
    }
    const double apart = layout::StatisticsApart(piece, whole).value_or(0);
    const int64_t rank = sides_[side]->ranks[pieces.ranks[i]]->about.rank;
    (apart <= kEqual ? right : wrong).insert(rank);
    error = std::max(error, apart);
  }
  if (right.empty() && made.row.state == dump::RowState::kParameters) {
    const auto like_first = [&](size_t i) {
      return layout::StatisticsApart(pieces.pieces.statistics[i], pieces.pieces.statistics[0])
                 .value_or(0) <= kEqual;
    };
    for (size_t i = 0; i < pieces.rows.size(); ++i) {
      (like_first(i) ? right : wrong).insert(sides_[side]->ranks[pieces.ranks[i]]->about.rank);
    }
  }
  if (right.empty() || wrong.empty()) {
    return;
  }
  made.joined.suspicion = Suspicion::kReplicasDiffer;
  made.joined.suspects.assign(wrong.begin(), wrong.end());
  made.joined.error = error;
}

std::optional<std::pair<RowPieces, Placement>> UnequalPieces::Reduced(size_t side,
                                                                      const RowPieces& pieces,
                                                                      const Placement& placement) {
  const auto tensor = static_cast<size_t>(Axis::kTensor);
  if (placement.spreads[tensor].kind != SpreadKind::kPartial) {
    return std::nullopt;
  }
  // Behind the first reduction that makes the ranks equal, or leaves each a part: a further one is
  // over other ranks.
  std::optional<std::pair<RowPieces, Placement>> found;
  for (int most = 1; most <= ValueUses::kMostReductions; ++most) {
    RowPieces reduced = pieces;
    bool further = false;
    for (size_t i = 0; i < pieces.rows.size(); ++i) {
      int made = 0;
      const SideRow* const row =
          uses_[side].ReducedBy(pieces.ranks[i], *pieces.rows[i], most, &made);
      std::optional<Shape> shape = row == nullptr ? std::nullopt : ParseShape(row->shape);
      if (!shape) {
        return std::nullopt;
      }
      if (pieces.is_swapped && shape->size() >= 3) {
        std::swap((*shape)[0], (*shape)[1]);
      }
      further = further || made == most;
      reduced.rows[i] = row;
      reduced.entries[i] = row->entry;
      reduced.pieces.shapes[i] = *shape;
      reduced.pieces.statistics[i] = PieceStatisticsOf(*row, shape);
    }
    std::optional<Placement> made = PlacementOfReduced(pieces, reduced, placement);
    const bool is_done = reduced.pieces.shapes[0] != pieces.pieces.shapes[0] ||
                         reduced.pieces.AreEqualAlong(Axis::kTensor);
    if (!further || !made) {
      break;
    }
    found.emplace(std::move(reduced), *std::move(made));
    if (is_done) {
      return found;
    }
  }
  // Gradients are reduced over the replicas of the data, too, which says nothing of this.
  return pieces.rows[0]->state == dump::RowState::kParametersGrad ? std::nullopt : found;
}

bool UnequalPieces::IsFullySharded(size_t side, const std::string& path) const {
  const auto elements = [&](const std::unordered_map<std::string, JoinedCall>& calls) {
    const auto found = calls.find(path);
    double count = 0;
    if (found != calls.end()) {
      const CallMember& member = found->second.members.front();
      const SideEntry& entry = gatherer_.EntryOf(side, member);
      for (uint32_t i = 0; i < entry.row_count; ++i) {
        const SideRow& row = sides_[side]->ranks[member.rank]->side.rows[entry.first_row + i];
        count += row.is_tensor ? ElementCount(row.shape) : 0;
      }
    }
    return count;
  };
  const double given = elements(sides_[side]->reduced);
  return given > 0 && given < elements(sides_[side]->gradients);
}

void UnequalPieces::ScaleGradient(double summed_factor, NewRow& npu, NewRow& bench,
                                  RowPieces& pieces, const std::string& path) const {
  bool summed = false;
  for (NewRow* const row : {&npu, &bench}) {
    for (size_t axis = 0; axis + 1 < kAxisCount; ++axis) {
      layout::Spread& spread = row->joined.placement.spreads[axis];
      if (spread.kind == SpreadKind::kPartial) {
        spread.is_mean = false;
        summed = true;
      }
    }
  }
  if (!summed) {
    return;
  }
  pieces.pieces.scale = npu.joined.scale = 1 / summed_factor;
  // Sharded training reduces after each micro-batch, and keeps the last one's share.
  for (size_t side = 0; side < 2; ++side) {
    if (sides_[side]->micro_batches > 1 && IsFullySharded(side, path)) {
      for (NewRow* const row : {&npu, &bench}) {
        row->joined.placement.spreads[1].kind = SpreadKind::kUnknown;
        row->joined.placement.grid[1] = std::max<int64_t>(row->joined.placement.grid[1], 2);
      }
    }
  }
}

}  // namespace msprobe::analysis::compare::layouts
