// Infers the spreads of both sides of a tensor.
//
// Along each axis of a side's grid the pieces are whole (copies or summands) or parts along one of
// the dimensions. All combinations of both sides whose wholes have one shape are candidates; each
// has a cost: what contradicts an expectation or a record, parts that are equal to each other
// although they are not constant, and all the more so if those of the other side are not, wholes
// that are not equal although they are called copies, and statistics of the wholes that are apart.
// The cheapest one is taken. Summands are set apart from copies last: pieces that are not equal,
// whose means add up to the mean of the other side's whole. All axes of both sides are decided
// together; where several ways fit as well, what they do not agree in is unknown.
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
constexpr double kCostOfOtherParts = 1.5;  // equal on one side alone
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
  uint64_t repeats = 0;  // dimensions along which the whole repeats equal parts, one bit each
  uint64_t varies = 0;   // and those along which its parts are not equal
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
  const std::optional<Shape> recorded =
      pieces.record == nullptr && pieces.whole != nullptr ? *pieces.whole : RecordedShape(pieces);
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
          const uint64_t bit = uint64_t{1} << std::min<size_t>(choice - 1, 63);
          next.repeats |= equal[axis] && !constant ? bit : 0;
          next.varies |= equal[axis] ? 0 : bit;
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

// A way to take copies that are not equal for summands, and the mean of what they make.
struct Sums {
  Placement placement;
  std::optional<double> mean;
  bool any = false;
};

// Each axis along which copies are not equal is a digit: copies, a sum, over shares of the data a
// mean. The first one leaves them as they are.
std::vector<Sums> SumsOf(const Pieces& pieces, Placement placement) {
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
  std::vector<Sums> all = {{std::move(placement), std::nullopt, false}};
  for (const size_t axis : axes) {
    const size_t known = all.size();
    for (const bool is_mean : {false, true}) {
      for (size_t i = 0; i < known && !(is_mean && static_cast<Axis>(axis) == Axis::kTensor); ++i) {
        Sums& summed = all.emplace_back(all[i]);
        summed.placement.spreads[axis].kind = SpreadKind::kPartial;
        summed.placement.spreads[axis].is_mean = is_mean;
        summed.any = true;
      }
    }
  }
  return all;
}

// How far the sum of the means may be from the mean of the other side's whole, relative: where the
// only question is copies or summands, and no piece is a copy of that whole, as far as its dtype
// rounds.
double AllowedApart(const Pieces& pieces, const std::vector<Sums>& sums,
                    const PieceStatistics& other) {
  const auto& spreads = sums[0].placement.spreads;
  const auto tensor = static_cast<size_t>(Axis::kTensor);
  const bool only_copies =
      sums.size() == 2 && sums[1].placement.spreads[tensor].kind == SpreadKind::kPartial &&
      std::all_of(spreads.begin(), spreads.end(),
                  [](const Spread& spread) { return spread.kind == SpreadKind::kReplicated; });
  double closest_copy = HUGE_VAL;
  double norms = 0;
  for (const PieceStatistics& piece : pieces.statistics) {
    const PieceStatistics copy = Scaled(piece, pieces.scale);
    closest_copy = std::min(closest_copy, StatisticsApart(copy, other).value_or(0));
    norms += std::fabs(copy.values[3].value_or(0));
  }
  const bool may_be_sum =
      other.values[3] && std::fabs(*other.values[3]) <= norms * (1 + pieces.unit);
  return only_copies && may_be_sum ? std::clamp(closest_copy * kShareOfCopy, kApart,
                                                std::max(kApart, kUnitsApart * pieces.unit))
                                   : kApart;
}

// Copies that are not equal along an axis are summands where they add up to the other side's whole,
// which may be a sum, too. The closest way counts. Others that are about as close leave unknown in
// what they differ from it.
void TellSummands(const Pieces& npu, const Pieces& bench, Spreads& spreads) {
  constexpr double kRounding = 1e-6;  // of a mean, relative to the values
  constexpr double kAsClose = 4;
  std::vector<Sums> of_npu = SumsOf(npu, spreads.npu);
  std::vector<Sums> of_bench = SumsOf(bench, spreads.bench);
  spreads.npu = of_npu[0].placement;
  spreads.bench = of_bench[0].placement;
  if (of_npu.size() == 1 && of_bench.size() == 1) {
    return;
  }
  double scale = 0;
  for (const Pieces* side : {&npu, &bench}) {
    for (const PieceStatistics& piece : side->statistics) {
      scale = std::max(scale, RootMeanSquare(piece) * side->scale);
    }
    for (Sums& sums : side == &npu ? of_npu : of_bench) {
      sums.mean =
          Scaled(CombineStatistics(sums.placement, side->statistics), side->scale).values[2];
    }
  }
  const auto apart_of = [](const Sums& n, const Sums& b) {
    return (n.any || b.any) && n.mean && b.mean ? std::fabs(*n.mean - *b.mean) : HUGE_VAL;
  };
  const Sums* closest[2] = {nullptr, nullptr};
  const auto allowed = [](const Pieces& pieces, const std::vector<Sums>& sums, const Pieces& other,
                          const std::vector<Sums>& of_other) {
    return of_other.size() > 1
               ? kApart
               : AllowedApart(pieces, sums,
                              Scaled(CombineStatistics(of_other[0].placement, other.statistics),
                                     other.scale));
  };
  double lowest =
      std::max(allowed(npu, of_npu, bench, of_bench), allowed(bench, of_bench, npu, of_npu)) *
      scale;
  for (const Sums& n : of_npu) {
    for (const Sums& b : of_bench) {
      if (const double apart = apart_of(n, b); apart < lowest) {
        lowest = apart;
        closest[0] = &n;
        closest[1] = &b;
      }
    }
  }
  if (closest[0] == nullptr) {
    return;
  }
  spreads.npu = closest[0]->placement;
  spreads.bench = closest[1]->placement;
  const double as_close = std::max(kAsClose * lowest, kRounding * scale);
  for (const Sums& n : of_npu) {
    for (const Sums& b : of_bench) {
      if (apart_of(n, b) > as_close) {
        continue;
      }
      for (size_t axis = 0; axis < kAxisCount; ++axis) {
        for (const bool is_npu : {true, false}) {
          Spread& spread = (is_npu ? spreads.npu : spreads.bench).spreads[axis];
          if (spread.kind != SpreadKind::kUnknown &&
              spread != (is_npu ? n : b).placement.spreads[axis]) {
            spread = {};
            spread.kind = SpreadKind::kUnknown;
          }
        }
      }
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
      cost += ((n.repeats & b.varies) | (b.repeats & n.varies)) != 0 ? kCostOfOtherParts : 0;
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
  TellSummands(npu, bench, best);
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
