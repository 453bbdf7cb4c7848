// The factors of gradients: of each direction, the ratio of both sides' statistics that most rows
// have, where an average over shares of the data can make it.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "src/analysis/compare/layouts/joined_rows.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::Placement;
using layout::SpreadKind;

constexpr double kFactorDigits = 1e-2;  // a factor of gradients is found up to this
constexpr double kFactorShare = 0.75;   // of the rows, at least
constexpr size_t kFactorRows = 400;     // that are looked at

// The median of the ratios where most agree with it.
std::optional<double> CommonRatio(std::vector<double> ratios) {
  if (ratios.empty()) {
    return std::nullopt;
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  const auto close = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
    return std::fabs(ratio / median - 1) < kFactorDigits;
  });
  return static_cast<double>(close) >= kFactorShare * static_cast<double>(ratios.size())
             ? std::optional(median)
             : std::nullopt;
}

std::vector<double> RatiosOf(const std::vector<std::pair<double, double>>& placed) {
  std::vector<double> ratios;
  ratios.reserve(placed.size());
  for (const auto& [place, ratio] : placed) {
    ratios.push_back(ratio);
  }
  return ratios;
}

// A factor that an average makes is there from the loss on; behind a fault further on nothing has
// one. Of pairs with their place in the order of execution.
std::optional<double> CommonRatioFromLoss(std::vector<std::pair<double, double>> placed) {
  constexpr size_t kFewest = 3;
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<double> ratios = RatiosOf(placed);
  std::optional<double> found = CommonRatio(ratios);
  while (!found && ratios.size() > kFewest) {
    ratios.resize(std::max(kFewest, ratios.size() / 4));
    found = CommonRatio(ratios);
  }
  return found;
}

// The factors that averages over shares of the data make.
std::vector<double> PossibleFactors(const Sides& sides) {
  std::vector<double> factors = {1};
  for (size_t side = 0; side < 2; ++side) {
    // Micro-batches that both sides have: each may divide by their number or not.
    const size_t both = side == 0 && sides[0]->rounds == sides[1]->rounds
                            ? static_cast<size_t>(sides[0]->rounds)
                            : 1;
    std::set<int64_t> data;
    std::set<int64_t> context;
    for (const auto& rank : sides[side]->ranks) {
      data.insert(rank->about.place.data);
      context.insert(rank->about.place.context);
    }
    for (const size_t size :
         {data.size(), context.size(), static_cast<size_t>(sides[side]->micro_batches), both}) {
      const size_t known = factors.size();
      for (size_t i = 0; i < known && size > 1 && factors.size() < 4096; ++i) {
        factors.push_back(factors[i] * static_cast<double>(size));
        factors.push_back(factors[i] / static_cast<double>(size));
      }
    }
  }
  return factors;
}

double Nearest(std::optional<double> ratio, const std::vector<double>& factors) {
  for (const double factor : factors) {
    if (ratio && std::fabs(*ratio / factor - 1) < kFactorDigits) {
      return factor;
    }
  }
  return 1;
}

}  // namespace

GradientFactors FindGradientFactors(const Sides& sides, const std::vector<CallPair>& pairs,
                                    const PieceGatherer& gatherer) {
  GradientFactors found;
  found.possible = PossibleFactors(sides);
  const std::vector<double>& factors = found.possible;
  if (factors.size() == 1 && sides[0]->reduced.empty() == sides[1]->reduced.empty()) {
    return found;
  }
  std::vector<std::pair<double, double>> backward;  // with the place in the order of execution
  std::vector<std::pair<double, double>> gradients;
  std::vector<std::pair<double, double>> summed_gradients;
  std::vector<std::pair<double, double>> reduced;
  size_t of_each = 0;
  for (const CallPair& pair : pairs) {
    of_each +=
        pair.calls[0] && pair.calls[1] && pair.calls[0]->direction != dump::Direction::kForward ? 1
                                                                                                : 0;
  }
  const size_t stride = std::max<size_t>(of_each / kFactorRows, 1);
  size_t number = 0;
  for (const CallPair& pair : pairs) {
    if (!pair.calls[0] || !pair.calls[1] || pair.calls[0]->direction == dump::Direction::kForward ||
        number++ % stride != 0) {
      continue;
    }
    const bool is_reduced = pair.calls[0]->is_reduced;
    gatherer.ForRows(pair, [&](std::string_view, RowPieces& npu, RowPieces& bench) {
      if (!npu.is_grid || !bench.is_grid || !npu.has_shapes || !bench.has_shapes ||
          !npu.rows[0]->is_tensor || !IsFloating(*npu.rows[0])) {
        return;
      }
      const layout::Spreads spreads = layout::InferSpreads(npu.pieces, bench.pieces);
      if (!spreads.fits || spreads.is_padded) {
        return;
      }
      std::array<Placement, 2> placements = {spreads.npu, spreads.bench};
      bool summed = false;
      for (size_t side = 0; side < 2; ++side) {
        const layout::Pieces& pieces = side == 0 ? npu.pieces : bench.pieces;
        for (size_t axis = 0; axis < kAxisCount; ++axis) {
          layout::Spread& spread = placements[side].spreads[axis];
          if (!is_reduced && spread.kind != SpreadKind::kShard &&
              !pieces.AreEqualAlong(static_cast<Axis>(axis))) {
            spread.kind = SpreadKind::kPartial;
            spread.is_mean = false;
            summed = true;
          }
        }
      }
      const layout::PieceStatistics n =
          layout::CombineStatistics(placements[0], npu.pieces.statistics);
      const layout::PieceStatistics b =
          layout::CombineStatistics(placements[1], bench.pieces.statistics);
      double rms = 0;
      for (const layout::PieceStatistics& piece : bench.pieces.statistics) {
        rms = std::max(rms, piece.values[3].value_or(0) / std::sqrt(piece.elements));
      }
      const size_t stat = summed ? 2 : 3;
      if (n.elements <= 1 || !n.values[stat] || !b.values[stat] || *b.values[stat] == 0 ||
          *n.values[stat] == 0 || (summed && !(std::fabs(*b.values[2]) >= 0.05 * rms))) {
        return;  // a mean that cancels says little
      }
      const double ratio = *n.values[stat] / *b.values[stat];
      if (!pair.calls[0]->is_gradient) {
        backward.emplace_back(pair.order[1], ratio);
      } else {
        // The module that came last in the forward pass is the first one behind the loss.
        (is_reduced ? reduced
         : summed   ? summed_gradients
                    : gradients)
            .emplace_back(-pair.order[1], ratio);
      }
    });
  }
  const bool any_backward = !backward.empty();
  found.backward = Nearest(CommonRatioFromLoss(std::move(backward)), factors);
  found.summed = any_backward ? found.backward
                              : Nearest(CommonRatioFromLoss(std::move(summed_gradients)), factors);
  found.gradient = Nearest(CommonRatioFromLoss(std::move(gradients)), factors);
  // A side without reduced gradients has not clipped them either: any factor, if all have it.
  found.reduced = sides[0]->reduced.empty() != sides[1]->reduced.empty()
                      ? CommonRatio(RatiosOf(reduced)).value_or(1)
                      : Nearest(CommonRatioFromLoss(std::move(reduced)), factors);
  if (std::fabs(found.reduced - 1) < 1e-5) {
    found.reduced = 1;
  }
  return found;
}

}  // namespace msprobe::analysis::compare::layouts
