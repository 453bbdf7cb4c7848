// The pieces of a row: what every member of a joined call has under its name, on the grid of ranks
// and micro-batches.
#include <algorithm>

#include <fmt/format.h>

#include "msprobe/dtype.h"

#include "src/analysis/compare/layouts/joined_rows.h"
#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::SpreadKind;

// Weights of fused projections lie one below the other, their results side by side. They take one
// value, whose gradient is the sum of theirs.
void ExpectFused(const DirectedCall& call, dump::RowState state, RowPieces& pieces) {
  const bool is_parameter = state == dump::RowState::kParameters || call.is_gradient;
  const bool backward = call.direction == dump::Direction::kBackward;
  const bool is_result = state == (backward ? dump::RowState::kInput : dump::RowState::kOutput);
  layout::Spread expected;
  if ((is_parameter || is_result) && !pieces.pieces.shapes[0].empty()) {
    expected.kind = SpreadKind::kShard;
    expected.dimension =
        is_parameter ? 0 : static_cast<int64_t>(pieces.pieces.shapes[0].size()) - 1;
  } else if (backward) {
    expected.kind = SpreadKind::kPartial;
  }
  pieces.pieces.expected[static_cast<size_t>(Axis::kTensor)] = expected;
}

}  // namespace

std::string_view SuffixOf(const SideEntry& entry, const SideRow& row) {
  return row.name.starts_with(entry.name) ? row.name.substr(entry.name.size()) : row.name;
}

layout::PieceStatistics PieceStatisticsOf(const SideRow& row, const std::optional<Shape>& shape) {
  layout::PieceStatistics statistics;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const StatValue& value = row.stats[stat];
    if (value.is_numeric()) {
      statistics.values[stat] = value.number;
    } else if (value.kind == StatKind::kBool) {
      statistics.values[stat] = value.boolean ? 1 : 0;
    }
  }
  statistics.elements = shape ? static_cast<double>(msprobe::ElementCount(*shape)) : 1;
  return statistics;
}

void MakeUncomparable(SideRow& row) {
  row.stats.fill(StatValue());
  row.data_name = "-1";
  row.md5 = "N/A";
}

bool IsFloating(const SideRow& row) {
  return row.dtype.find("loat") != std::string_view::npos ||
         row.dtype.find("complex") != std::string_view::npos;
}

namespace {

// The values are few and mostly come in order.
void AddValue(std::vector<int64_t>& values, int64_t value) {
  if (values.empty() || values.back() < value) {
    values.push_back(value);
    return;
  }
  const auto place = std::lower_bound(values.begin(), values.end(), value);
  if (place == values.end() || *place != value) {
    values.insert(place, value);
  }
}

}  // namespace

const SideEntry& PieceGatherer::EntryOf(size_t side, const CallMember& member) const {
  return sides_[side]->ranks[member.rank]->side.entries[member.entry];
}

const SideRow* PieceGatherer::RowAt(size_t side, const CallMember& member, std::string_view suffix,
                                    uint32_t place) const {
  const Side& read = sides_[side]->ranks[member.rank]->side;
  const SideEntry& entry = read.entries[member.entry];
  const auto is_row = [&](uint32_t i) {
    const std::string_view name = read.rows[entry.first_row + i].name;
    return (name.size() == entry.name.size() + suffix.size() && name.ends_with(suffix)) ||
           SuffixOf(entry, read.rows[entry.first_row + i]) == suffix;
  };
  if (place < entry.row_count && is_row(place)) {
    return &read.rows[entry.first_row + place];
  }
  for (uint32_t i = 0; i < entry.row_count; ++i) {
    if (is_row(i)) {
      return &read.rows[entry.first_row + i];
    }
  }
  return nullptr;
}

bool PieceGatherer::Counts(size_t side, const DirectedCall& call, const CallMember& member,
                           dump::RowState state) const {
  if (call.call->first_stage == call.call->last_stage) {
    return true;
  }
  const int64_t stage = sides_[side]->ranks[member.rank]->about.place.stage;
  const bool enters = state == dump::RowState::kInput || state == dump::RowState::kKwargs;
  const bool of_last = enters == (call.direction == dump::Direction::kBackward);
  return state == dump::RowState::kParameters || state == dump::RowState::kParametersGrad ||
         stage == (of_last ? call.call->last_stage : call.call->first_stage);
}

RowPieces PieceGatherer::Gather(size_t side, const DirectedCall& call, std::string_view suffix,
                                uint32_t place, dump::RowState state) const {
  const JoinedSide& joined = *sides_[side];
  struct Found {
    std::array<int64_t, kAxisCount> at;
    const SideRow* row;
    CallMember member;
  };
  std::vector<Found> found;
  found.reserve(call.members.size());
  std::array<std::vector<int64_t>, kAxisCount> values;
  std::vector<int64_t> stages;
  for (const CallMember& member : call.members) {
    if (!Counts(side, call, member, state) ||
        (state == dump::RowState::kParameters && member.micro_batch > 0)) {
      continue;
    }
    const SideRow* const row = RowAt(side, member, suffix, place);
    if (row == nullptr) {
      continue;
    }
    const RankPlace& at = joined.ranks[member.rank]->about.place;
    constexpr int64_t kPartStride = int64_t{1} << 32U;  // beyond all ranks
    found.push_back({{member.micro_batch, at.data, at.context,
                      at.tensor + kPartStride * static_cast<int64_t>(member.part)},
                     row,
                     member});
    AddValue(stages, at.stage);
    for (size_t axis = 0; axis < kAxisCount; ++axis) {
      AddValue(values[axis], found.back().at[axis]);
    }
  }
  const auto is_before = [](const Found& a, const Found& b) { return a.at < b.at; };
  if (!std::is_sorted(found.begin(), found.end(), is_before)) {
    std::stable_sort(found.begin(), found.end(), is_before);
  }
  RowPieces pieces;
  size_t cells = 1;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    pieces.pieces.grid[axis] = static_cast<int64_t>(values[axis].size());
    cells *= values[axis].size();
  }
  pieces.is_grid = cells == found.size() && stages.size() == 1 &&
                   std::adjacent_find(
                       found.begin(), found.end(),
                       [](const Found& a, const Found& b) { return a.at == b.at; }) == found.end();
  pieces.has_shapes = true;
  pieces.pieces.shapes.reserve(found.size());
  pieces.pieces.statistics.reserve(found.size());
  pieces.rows.reserve(found.size());
  pieces.ranks.reserve(found.size());
  pieces.entries.reserve(found.size());
  bool one_rank = true;
  std::optional<Shape> shape;
  std::string_view text;  // of which the shape is
  for (const Found& piece : found) {
    if (!piece.row->is_tensor) {
      shape = Shape();
    } else if (!shape || piece.row->shape != text) {
      shape = ParseShape(piece.row->shape);
    }
    text = piece.row->is_tensor ? piece.row->shape : std::string_view();
    pieces.has_shapes = pieces.has_shapes && shape.has_value();
    pieces.is_fused = pieces.is_fused || piece.member.parts > 1;
    pieces.pieces.statistics.push_back(PieceStatisticsOf(*piece.row, shape));
    Shape& own = pieces.pieces.shapes.emplace_back(shape.value_or(Shape()));
    if (side == 0 && joined.swaps_axes && own.size() >= 3 && state != dump::RowState::kParameters &&
        !call.is_gradient) {
      std::swap(own[0], own[1]);
      pieces.is_swapped = true;
    }
    pieces.rows.push_back(piece.row);
    pieces.ranks.push_back(piece.member.rank);
    pieces.entries.push_back(piece.member.entry);
    one_rank = one_rank && piece.member.rank == found.front().member.rank;
  }
  const std::optional<DType> dtype =
      found.empty() ? std::nullopt : ParseDType(found.front().row->dtype);
  pieces.pieces.unit = dtype ? tensor::FormatOf(*dtype).unit : 0;
  if (joined.stages > 1 && stages.size() == 1) {
    pieces.stage = stages.front();
  }
  if (one_rank && !found.empty() && StageSize(side, stages.front()) > 1) {
    pieces.only_rank = joined.ranks[found.front().member.rank]->about.rank;
  }
  if (!pieces.is_fused) {
    pieces.pieces.record = RecordOf(side, call, suffix, state);
  } else {
    ExpectFused(call, state, pieces);
    // In a fused projection query, key and value take turns by heads: equal parts are understood.
    pieces.is_grid =
        pieces.is_grid &&
        (found[0].member.parts == 2 ||
         (values[kAxisCount - 1].size() == found[0].member.parts &&
          std::set<Shape>(pieces.pieces.shapes.begin(), pieces.pieces.shapes.end()).size() == 1));
  }
  if (state == dump::RowState::kParametersGrad && parameters_ != nullptr && !pieces.is_fused) {
    pieces.pieces.whole = parameters_->WholeOf(side, call.call->path, suffix);
  }
  pieces.pieces.scale = side == 0 && (call.direction == dump::Direction::kBackward)
                            ? 1 / factors_.backward
                        : side == 0 && call.is_reduced  ? 1 / factors_.reduced
                        : side == 0 && call.is_gradient ? 1 / factors_.gradient
                                                        : 1;
  return pieces;
}

size_t PieceGatherer::StageSize(size_t side, int64_t stage) const {
  size_t size = 0;
  for (const auto& rank : sides_[side]->ranks) {
    size += rank->about.place.stage == stage ? 1 : 0;
  }
  return size;
}

const layout::ParameterRecord* PieceGatherer::RecordOf(size_t side, const DirectedCall& call,
                                                       std::string_view suffix,
                                                       dump::RowState state) const {
  if (state != dump::RowState::kParameters && state != dump::RowState::kParametersGrad) {
    return nullptr;
  }
  const CallMember& member = call.members.front();
  const LoadedRank& rank = *sides_[side]->ranks[member.rank];
  if (!rank.about.record) {
    return nullptr;
  }
  const std::string_view name = suffix.substr(suffix.rfind('.') + 1);
  const std::string_view local = rank.names[member.entry].subject;
  for (const std::string_view path : {local, std::string_view(rank.paths[member.entry])}) {
    const std::string full = path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
    if (const layout::ParameterRecord* const record = rank.about.record->Find(full)) {
      return record;
    }
  }
  return nullptr;
}

}  // namespace msprobe::analysis::compare::layouts
