// Infers the spreads of both sides of a tensor.
//
// Along each axis of a side's grid the pieces are whole (copies or summands) or parts along one of
// the dimensions. All combinations of both sides whose wholes have one shape are candidates; each
// has a cost: what contradicts an expectation or a record, parts that are equal to each other
// although they are not constant, wholes that are not equal although they are called copies, and
// statistics of the wholes that are apart. The cheapest one is taken. Summands are set apart from
// copies last: pieces that are not equal, whose means add up to the mean of the other side's whole.
#include "src/layout/inference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace msprobe::layout {
namespace {

constexpr double kCostOfOtherSpread = 5;  // than the one expected
constexpr double kCostOfOtherShape = 8;   // than the recorded one
constexpr double kCostOfUnequalCopies = 2;
constexpr double kCostOfEqualParts = 1.5;  // that are not constant
constexpr double kCostOfConstantParts = 0.25;
constexpr double kCostOfSharedDimension = 0.5;
constexpr double kCostOfPadding = 3;
constexpr double kMostCostOfValues = 1.5;
constexpr double kDoubtful = kCostOfEqualParts + kMostCostOfValues;  // parts that are copies
constexpr double kApart = 1e-3;
// Rounding to a narrow dtype moves the mean of a sum by more: allowed are this many units, where no
// piece is a copy of the other side's whole, and no more than a share of what the closest one is
// apart.
constexpr double kUnitsApart = 4;
constexpr double kShareOfCopy = 1.0 / 16;
constexpr size_t kMostCandidates = 4096;

bool SameNumber(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || *a == *b || (std::isnan(*a) && std::isnan(*b)));
}

bool SameStatistics(const PieceStatistics& a, const PieceStatistics& b) {
  return a.elements == b.elements && SameNumber(a.values[0], b.values[0]) &&
         SameNumber(a.values[1], b.values[1]) && SameNumber(a.values[2], b.values[2]) &&
         SameNumber(a.values[3], b.values[3]);
}

size_t StrideOf(const GridSize& grid, size_t axis) {
  size_t stride = 1;
  for (size_t inner = axis + 1; inner < kAxisCount; ++inner) {
    stride *= static_cast<size_t>(grid[inner]);
  }
  return stride;
}

double RootMeanSquare(const PieceStatistics& statistics) {
  return statistics.values[3] && statistics.elements > 0
             ? std::fabs(*statistics.values[3]) / std::sqrt(statistics.elements)
             : 0;
}

bool IsConstant(const Pieces& pieces) {
  return std::all_of(
      pieces.statistics.begin(), pieces.statistics.end(), [](const PieceStatistics& piece) {
        return piece.values[0] && piece.values[1] && *piece.values[0] == *piece.values[1];
      });
}

// One way to spread the pieces of a side.
struct Candidate {
  Placement placement;
  Shape shape;
  double cost = 0;
};

// The shape of the whole by the record; nullopt: it tells nothing.
std::optional<Shape> RecordedShape(const Pieces& pieces) {
  const ParameterRecord* const record = pieces.record;
  if (record == nullptr) {
    return std::nullopt;
  }
  if (!record->global_shape.empty()) {
    return record->global_shape;
  }
  Shape shape = pieces.shapes[0];
  if (record->kind == ParameterKind::kShard) {
    if (!record->parts) {
      return std::nullopt;
    }
    const int64_t axes = static_cast<int64_t>(shape.size());
    const int64_t dimension = record->dimension + (record->dimension < 0 ? axes : 0);
    if (dimension < 0 || dimension >= axes ||
        __builtin_mul_overflow(shape[static_cast<size_t>(dimension)], *record->parts,
                               &shape[static_cast<size_t>(dimension)])) {
      return std::nullopt;
    }
  }
  return shape;
}

// The order of the parts as recorded, or as expected, of a shard along this dimension.
void TakeOrder(const Pieces& pieces, size_t axis, Spread& spread) {
  const std::optional<Spread>& expected = pieces.expected[axis];
  if (expected && expected->kind == SpreadKind::kShard && expected->dimension == spread.dimension) {
    spread.order = expected->order;
    spread.blocks = expected->blocks;
    spread.block_sizes = expected->block_sizes;
  }
  const ParameterRecord* const record = pieces.record;
  if (record == nullptr || record->kind != ParameterKind::kShard) {
    return;
  }
  if (record->blocks.size() > 1) {
    spread.order = PartOrder::kBlocks;
    spread.blocks = static_cast<int64_t>(record->blocks.size());
    spread.block_sizes = record->blocks;
  } else if (record->stride > 1) {
    spread.order = PartOrder::kBlocks;
    spread.blocks = record->stride;
  }
}

std::vector<Candidate> CandidatesOf(const Pieces& pieces) {
  const size_t dimensions = pieces.shapes[0].size();
  const std::optional<Shape> recorded = RecordedShape(pieces);
  const bool constant = IsConstant(pieces);
  std::array<bool, kAxisCount> equal{};
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    equal[axis] = pieces.AreEqualAlong(static_cast<Axis>(axis));
  }
  std::vector<Candidate> candidates = {Candidate()};
  candidates[0].placement.grid = pieces.grid;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    if (pieces.grid[axis] == 1) {
      continue;
    }
    std::vector<Candidate> longer;
    for (const Candidate& candidate : candidates) {
      for (size_t choice = 0; choice <= dimensions && longer.size() < kMostCandidates; ++choice) {
        Candidate next = candidate;
        Spread& spread = next.placement.spreads[axis];
        if (choice == 0) {
          next.cost += equal[axis] ? 0 : kCostOfUnequalCopies;
        } else {
          spread.kind = SpreadKind::kShard;
          spread.dimension = static_cast<int64_t>(choice) - 1;
          TakeOrder(pieces, axis, spread);
          next.cost += !equal[axis] ? 0 : constant ? kCostOfConstantParts : kCostOfEqualParts;
          for (size_t other = 0; other < axis; ++other) {
            const Spread& before = next.placement.spreads[other];
            // Micro-batches and replicas of the data both have samples, along one dimension.
            const bool are_samples = static_cast<Axis>(axis) == Axis::kData;
            next.cost += before.kind == SpreadKind::kShard && pieces.grid[other] > 1 &&
                                 (before.dimension == spread.dimension) != are_samples
                             ? kCostOfSharedDimension
                             : 0;
          }
        }
        if (const std::optional<Spread>& expected = pieces.expected[axis]) {
          const bool as_expected = (expected->kind == SpreadKind::kShard) == (choice > 0) &&
                                   (choice == 0 || expected->dimension == spread.dimension);
          next.cost += as_expected ? 0 : kCostOfOtherSpread;
        }
        longer.push_back(std::move(next));
      }
    }
    candidates = std::move(longer);
  }
  std::erase_if(candidates, [&](Candidate& candidate) {
    std::optional<Shape> shape = WholeShape(candidate.placement, pieces.shapes);
    if (!shape) {  // an order that does not fit the sizes
      for (Spread& spread : candidate.placement.spreads) {
        spread.order = PartOrder::kContiguous;
        spread.blocks = 1;
        spread.block_sizes.clear();
      }
      shape = WholeShape(candidate.placement, pieces.shapes);
    }
    if (!shape) {
      return true;
    }
    candidate.shape = *std::move(shape);
    candidate.cost += recorded && *recorded != candidate.shape ? kCostOfOtherShape : 0;
    return false;
  });
  return candidates;
}

PieceStatistics Scaled(PieceStatistics statistics, double scale) {
  for (std::optional<double>& value : statistics.values) {
    if (value) {
      *value *= scale;
    }
  }
  return statistics;
}

// The dimension along which alone the shapes differ.
std::optional<size_t> PaddedDimension(const Shape& a, const Shape& b) {
  std::optional<size_t> padded;
  if (a.size() != b.size()) {
    return std::nullopt;
  }
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis] != b[axis]) {
      if (padded) {
        return std::nullopt;
      }
      padded = axis;
    }
  }
  return padded;
}

// A vocabulary is padded by less than half.
bool IsPadded(const Shape& a, const Shape& b) {
  const std::optional<size_t> dimension = PaddedDimension(a, b);
  if (!dimension) {
    return false;
  }
  const int64_t larger = std::max(a[*dimension], b[*dimension]);
  const int64_t smaller = std::min(a[*dimension], b[*dimension]);
  return smaller > 1 && larger - smaller < (smaller + 1) / 2;
}

// How far the sum of the means may be from the mean of the other side's whole, relative.
double AllowedApart(const Pieces& pieces, const PieceStatistics& other,
                    const std::vector<size_t>& axes, const Placement& placement) {
  double closest_copy = HUGE_VAL;
  double norms = 0;
  for (const PieceStatistics& piece : pieces.statistics) {
    const PieceStatistics copy = Scaled(piece, pieces.scale);
    closest_copy = std::min(closest_copy, StatisticsApart(copy, other).value_or(0));
    norms += std::fabs(copy.values[3].value_or(0));
  }
  const bool only_copies =
      axes.size() == 1 && static_cast<Axis>(axes[0]) == Axis::kTensor &&
      std::all_of(placement.spreads.begin(), placement.spreads.end(),
                  [](const Spread& spread) { return spread.kind == SpreadKind::kReplicated; });
  const bool may_be_sum =
      other.values[3] && std::fabs(*other.values[3]) <= norms * (1 + pieces.unit);
  return only_copies && may_be_sum ? std::clamp(closest_copy * kShareOfCopy, kApart,
                                                std::max(kApart, kUnitsApart * pieces.unit))
                                   : kApart;
}

// Copies that are not equal along an axis are summands where they add up to the other side's whole.
// Over shares of the data the whole may be their mean. All such axes are decided together.
void TellSummands(const Pieces& pieces, const PieceStatistics& other, Placement& placement) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    Spread& spread = placement.spreads[axis];
    if (pieces.grid[axis] == 1 || spread.kind != SpreadKind::kReplicated ||
        pieces.AreEqualAlong(static_cast<Axis>(axis))) {
      continue;
    }
    if (pieces.expected[axis] && pieces.expected[axis]->kind == SpreadKind::kPartial) {
      spread = *pieces.expected[axis];
    } else {
      axes.push_back(axis);
    }
  }
  double scale = RootMeanSquare(other);
  for (const PieceStatistics& piece : pieces.statistics) {
    scale = std::max(scale, RootMeanSquare(piece) * pieces.scale);
  }
  // Each axis is a digit: copies, a sum, a mean. The closest one counts, and the first of equal
  // ones.
  const Placement before = placement;
  double closest = AllowedApart(pieces, other, axes, placement) * scale;
  size_t choices = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    choices *= 3;
  }
  for (size_t choice = 1; choice < choices; ++choice) {
    Placement summed = before;
    bool possible = true;
    size_t digits = choice;
    for (const size_t axis : axes) {
      const size_t digit = digits % 3;
      digits /= 3;
      if (digit > 0) {
        summed.spreads[axis].kind = SpreadKind::kPartial;
        summed.spreads[axis].is_mean = digit == 2;
      }
      possible = possible && (digit < 2 || static_cast<Axis>(axis) != Axis::kTensor);
    }
    const PieceStatistics whole =
        Scaled(CombineStatistics(summed, pieces.statistics), pieces.scale);
    if (!possible || !whole.values[2] || !other.values[2]) {
      continue;
    }
    const double apart = std::fabs(*whole.values[2] - *other.values[2]);
    if (apart < closest * (1 - 1e-9)) {
      closest = std::max(apart, 1e-6 * scale);
      placement = summed;
    }
  }
}

// Summands on both sides have equal sums.
void TellSummandsOfBoth(const Pieces& npu, const Pieces& bench, Spreads& spreads) {
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    std::array<Placement, 2> summed = {spreads.npu, spreads.bench};
    const Pieces* const sides[] = {&npu, &bench};
    std::array<PieceStatistics, 2> wholes;
    double scale = 0;
    bool both = true;
    for (size_t side = 0; side < 2; ++side) {
      both = both && sides[side]->grid[axis] > 1 &&
             summed[side].spreads[axis].kind == SpreadKind::kReplicated &&
             !sides[side]->AreEqualAlong(static_cast<Axis>(axis));
      summed[side].spreads[axis].kind = SpreadKind::kPartial;
      wholes[side] =
          Scaled(CombineStatistics(summed[side], sides[side]->statistics), sides[side]->scale);
      for (const PieceStatistics& piece : sides[side]->statistics) {
        scale = std::max(scale, RootMeanSquare(piece) * sides[side]->scale);
      }
    }
    if (both && wholes[0].values[2] && wholes[1].values[2] &&
        std::fabs(*wholes[0].values[2] - *wholes[1].values[2]) <= kApart * scale) {
      spreads.npu = summed[0];
      spreads.bench = summed[1];
    }
  }
}

}  // namespace

bool Pieces::AreEqualAlong(Axis axis) const {
  const auto place = static_cast<size_t>(axis);
  const auto size = static_cast<size_t>(grid[place]);
  const size_t stride = StrideOf(grid, place);
  for (size_t piece = 0; piece < statistics.size() && size > 1; ++piece) {
    const size_t first = piece - piece / stride % size * stride;
    if (!SameStatistics(statistics[piece], statistics[first]) || shapes[piece] != shapes[first]) {
      return false;
    }
  }
  return true;
}

std::optional<double> StatisticsApart(const PieceStatistics& a, const PieceStatistics& b) {
  std::optional<double> apart;
  double largest = 0;
  for (const PieceStatistics* side : {&a, &b}) {
    for (const size_t stat : {0, 1}) {
      if (side->values[stat] && std::isfinite(*side->values[stat])) {
        largest = std::max(largest, std::fabs(*side->values[stat]));
      }
    }
  }
  const double rms = std::max(RootMeanSquare(a), RootMeanSquare(b));
  const double scales[] = {largest, largest, rms > 0 ? rms : largest,
                           std::max(a.values[3].value_or(0), b.values[3].value_or(0))};
  for (size_t stat = 0; stat < 4; ++stat) {
    if (!a.values[stat] || !b.values[stat]) {
      continue;
    }
    const double difference = std::fabs(*a.values[stat] - *b.values[stat]);
    const double relative = SameNumber(a.values[stat], b.values[stat]) ? 0
                            : std::isnan(difference) || scales[stat] == 0
                                ? std::numeric_limits<double>::infinity()
                                : difference / scales[stat];
    apart = std::max(apart.value_or(0), relative);
  }
  return apart;
}

Spreads InferSpreads(const Pieces& npu, const Pieces& bench) {
  Spreads best;
  const std::vector<Candidate> of_npu = CandidatesOf(npu);
  const std::vector<Candidate> of_bench = CandidatesOf(bench);
  double lowest = HUGE_VAL;
  const Candidate* chosen[2] = {nullptr, nullptr};
  for (const Candidate& n : of_npu) {
    for (const Candidate& b : of_bench) {
      double cost = n.cost + b.cost;
      bool padded = false;
      if (n.shape != b.shape) {
        padded = IsPadded(n.shape, b.shape);
        if (!padded) {
          continue;
        }
        cost += kCostOfPadding;
      }
      if (cost >= lowest) {
        continue;
      }
      // Values cost the most to look at: only where they can still decide.
      if (!padded) {
        const std::optional<double> apart =
            StatisticsApart(Scaled(CombineStatistics(n.placement, npu.statistics), npu.scale),
                            Scaled(CombineStatistics(b.placement, bench.statistics), bench.scale));
        cost += apart ? std::min(kMostCostOfValues, *apart / kApart * kMostCostOfValues) : 0;
      }
      if (cost < lowest) {
        lowest = cost;
        chosen[0] = &n;
        chosen[1] = &b;
        best.is_padded = padded;
      }
    }
  }
  if (chosen[0] == nullptr) {
    best.npu = InferAlone(npu);
    best.bench = InferAlone(bench);
    return best;
  }
  best.fits = true;
  best.is_doubtful = lowest >= kDoubtful;
  best.npu = chosen[0]->placement;
  best.bench = chosen[1]->placement;
  const Pieces* const sides[] = {&npu, &bench};
  Placement* const placements[] = {&best.npu, &best.bench};
  for (size_t side = 0; side < 2; ++side) {
    const std::optional<Shape> recorded = RecordedShape(*sides[side]);
    best.ignores_record[side] = recorded && *recorded != chosen[side]->shape;
  }
  if (best.is_padded) {
    const size_t dimension = *PaddedDimension(chosen[0]->shape, chosen[1]->shape);
    const size_t larger = chosen[0]->shape[dimension] > chosen[1]->shape[dimension] ? 0 : 1;
    placements[larger]->padded_to = chosen[larger]->shape[dimension];
  }
  // One side after the other: summands of both would have nothing to be held against.
  const PieceStatistics whole_npu = Scaled(CombineStatistics(best.npu, npu.statistics), npu.scale);
  TellSummandsOfBoth(npu, bench, best);
  TellSummands(bench, whole_npu, best.bench);
  TellSummands(npu, Scaled(CombineStatistics(best.bench, bench.statistics), bench.scale), best.npu);
  return best;
}

Placement InferAlone(const Pieces& pieces) {
  Placement placement;
  placement.grid = pieces.grid;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    if (pieces.grid[axis] > 1) {
      placement.spreads[axis] =
          pieces.expected[axis] ? *pieces.expected[axis]
          : pieces.AreEqualAlong(static_cast<Axis>(axis))
              ? Spread()
              : Spread{SpreadKind::kUnknown, 0, PartOrder::kContiguous, 1, {}, false};
    }
  }
  if (pieces.record == nullptr) {
    return placement;
  }
  double lowest = HUGE_VAL;
  for (const Candidate& candidate : CandidatesOf(pieces)) {
    if (candidate.cost < lowest) {
      lowest = candidate.cost;
      placement = candidate.placement;
    }
  }
  return placement;
}

}  // namespace msprobe::layout
