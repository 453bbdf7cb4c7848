// What the parameters of both sides tell of other rows, before these are made: gradients have the
// whole shape of their parameter, a module whose parameters are copies expects whole values, and a
// vocabulary that is padded is so in all that is computed from it.
#include <algorithm>

#include <fmt/format.h>

#include "src/analysis/compare/layouts/joined_rows.h"

namespace msprobe::analysis::compare::layouts {
namespace {

// The dimension along which the wholes of a padded row differ, and their sizes.
std::optional<Padding> PaddingOf(const RowPieces& npu, const RowPieces& bench,
                                 const layout::Spreads& spreads) {
  const std::optional<Shape> n = layout::WholeShape(spreads.npu, npu.pieces.shapes);
  const std::optional<Shape> b = layout::WholeShape(spreads.bench, bench.pieces.shapes);
  for (size_t axis = 0; n && b && axis < n->size() && axis < b->size(); ++axis) {
    if ((*n)[axis] != (*b)[axis]) {
      return Padding{axis, std::max((*n)[axis], (*b)[axis]), std::min((*n)[axis], (*b)[axis])};
    }
  }
  return std::nullopt;
}

std::string_view NameIn(std::string_view suffix) { return suffix.substr(suffix.rfind('.') + 1); }

}  // namespace

void ParameterFacts::Find(const std::vector<CallPair>& pairs, const PieceGatherer& gatherer) {
  constexpr auto kTensor = static_cast<size_t>(layout::Axis::kTensor);
  for (const CallPair& pair : pairs) {
    if (!pair.calls[0] || !pair.calls[1] || !pair.calls[0]->call->is_module ||
        pair.calls[0]->direction != dump::Direction::kForward) {
      continue;
    }
    std::array<bool, 2> replicated = {true, true};
    std::array<bool, 2> any = {false, false};
    gatherer.ForRows(pair, [&](std::string_view suffix, RowPieces& npu, RowPieces& bench) {
      if (npu.rows[0]->state != dump::RowState::kParameters || !npu.is_grid || !bench.is_grid ||
          !npu.has_shapes || !bench.has_shapes || !npu.rows[0]->is_tensor) {
        return;
      }
      const layout::Spreads spreads = layout::InferSpreads(npu.pieces, bench.pieces);
      for (size_t side = 0; side < 2 && spreads.fits; ++side) {
        const RowPieces& pieces = side == 0 ? npu : bench;
        const layout::Placement& placement = side == 0 ? spreads.npu : spreads.bench;
        any[side] = any[side] || placement.grid[kTensor] > 1;
        replicated[side] = replicated[side] && pieces.pieces.AreEqualAlong(layout::Axis::kTensor) &&
                           placement.spreads[kTensor].kind == layout::SpreadKind::kReplicated;
        const std::optional<Shape> whole = layout::WholeShape(placement, pieces.pieces.shapes);
        if (whole && !spreads.is_doubtful) {
          wholes_[side].emplace(fmt::format("{}.{}", pair.calls[side]->call->path, NameIn(suffix)),
                                *whole);
        }
      }
      if (spreads.fits && spreads.is_padded) {
        AddPadding(npu, bench, spreads);
      }
    });
    for (size_t side = 0; side < 2; ++side) {
      if (any[side] && replicated[side]) {
        replicated_[side].insert(pair.calls[side]->call->path);
      }
    }
  }
}

void ParameterFacts::AddPadding(const RowPieces& npu, const RowPieces& bench,
                                const layout::Spreads& spreads) {
  const std::optional<Padding> padding = PaddingOf(npu, bench, spreads);
  if (!padding) {
    return;
  }
  int64_t& vocabulary =
      vocabularies_.emplace(std::pair(padding->larger, padding->smaller), padding->smaller)
          .first->second;
  for (const RowPieces* side : {&npu, &bench}) {
    if (side->pieces.record != nullptr && side->pieces.record->padded_from &&
        *side->pieces.record->padded_from > 0) {
      vocabulary = std::min(vocabulary, *side->pieces.record->padded_from);
    }
  }
}

const Shape* ParameterFacts::WholeOf(size_t side, const std::string& path,
                                     std::string_view suffix) const {
  const auto found = wholes_[side].find(fmt::format("{}.{}", path, NameIn(suffix)));
  return found == wholes_[side].end() ? nullptr : &found->second;
}

bool ParameterFacts::MayBePadded(const RowPieces& npu, const RowPieces& bench,
                                 const layout::Spreads& spreads) const {
  const dump::RowState state = npu.rows[0]->state;
  if (!IsFloating(*npu.rows[0])) {
    return false;
  }
  if (state == dump::RowState::kParameters || state == dump::RowState::kParametersGrad) {
    return true;
  }
  const std::optional<Padding> padding = PaddingOf(npu, bench, spreads);
  return padding && vocabularies_.contains({padding->larger, padding->smaller});
}

bool ParameterFacts::HasPaddedSize(const Shape& shape, int64_t parts) const {
  return std::any_of(shape.begin(), shape.end(), [&](int64_t size) {
    return std::any_of(vocabularies_.begin(), vocabularies_.end(), [&](const auto& known) {
      const int64_t larger = known.first.first;
      return size > 1 && (size == larger || size * parts == larger);
    });
  });
}

Shape ParameterFacts::MakePadded(const RowPieces& npu, const RowPieces& bench,
                                 const layout::Spreads& spreads, NewRow& n, NewRow& b) const {
  const Padding padding = *PaddingOf(npu, bench, spreads);
  Shape shape = *layout::WholeShape(spreads.npu, npu.pieces.shapes);
  const auto known = vocabularies_.find({padding.larger, padding.smaller});
  shape[padding.dimension] = known == vocabularies_.end() ? padding.smaller : known->second;
  const bool both = shape[padding.dimension] < padding.smaller;
  for (NewRow* row : {&n, &b}) {
    row->row.stats.fill(StatValue());  // of which padding may be a part
    row->row.md5 = "N/A";
    row->joined.padding = padding;
    if (row->joined.placement.padded_to || both) {
      row->joined.cut = shape;
      row->joined.placement.padded_to = row->joined.placement.padded_to.value_or(padding.smaller);
    }
  }
  return shape;
}

}  // namespace msprobe::analysis::compare::layouts
