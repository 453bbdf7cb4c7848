// Which ranks a difference concerns, as far as the statistics of pieces tell.
//
// Four numbers of a whole do not say where it differs. Three things do: a part that is nothing but
// zeros while the other side's whole is larger than all the other parts, consecutive numbers
// (positions in a sequence) of which a rank has others than its place gives it in any order that
// parts of a sequence may have, and a micro-batch that is the one before once more. Tensors tell it
// of every row (joined_pair.cpp); this is for rows without.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "src/analysis/compare/layouts/joined_rows.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::PieceStatistics;
using layout::SpreadKind;

constexpr double kEqualNumbers = 1e-5;

bool IsZeroPiece(const PieceStatistics& piece) {
  return piece.values[kMax] == 0.0 && piece.values[kMin] == 0.0 && piece.elements > 0;
}

bool IsCutBy(const layout::Placement& placement, Axis axis) {
  const auto place = static_cast<size_t>(axis);
  return placement.spreads[place].kind == SpreadKind::kShard && placement.grid[place] > 1;
}

// The pieces that are zero, where others are not and the whole is smaller than the other side's.
std::vector<size_t> ZeroParts(const layout::Placement& placement, const layout::Pieces& pieces,
                              const PieceStatistics& whole, const PieceStatistics& other) {
  if (!IsCutBy(placement, Axis::kTensor) || !whole.values[kNorm] || !other.values[kNorm] ||
      !(*whole.values[kNorm] < (1 - kEqualNumbers) * *other.values[kNorm])) {
    return {};
  }
  std::vector<size_t> zero;
  for (size_t i = 0; i < pieces.statistics.size(); ++i) {
    if (IsZeroPiece(pieces.statistics[i])) {
      zero.push_back(i);
    }
  }
  return zero.size() < pieces.statistics.size() ? zero : std::vector<size_t>();
}

// Numbers that follow each other, each as often as the others.
struct Consecutive {
  double first = 0;
  double count = 0;
};

// Sums of the numbers that a part has, and of their squares.
struct PartSums {
  double least = 0;
  double largest = 0;
  double mean = 0;
  double squares = 0;  // mean
};

PartSums SumsOfRuns(const std::vector<Consecutive>& runs) {
  PartSums sums{HUGE_VAL, -HUGE_VAL, 0, 0};
  double count = 0;
  for (const Consecutive& run : runs) {
    const double n = run.count;
    const double last = run.first + n - 1;
    const double mean = (run.first + last) / 2;
    sums.least = std::min(sums.least, run.first);
    sums.largest = std::max(sums.largest, last);
    sums.mean += n * mean;
    sums.squares += n * (mean * mean + (n * n - 1) / 12);
    count += n;
  }
  sums.mean /= count;
  sums.squares /= count;
  return sums;
}

bool HasSums(const PieceStatistics& piece, const PartSums& sums) {
  const auto near = [&](const std::optional<double>& value, double expected) {
    return value &&
           std::fabs(*value - expected) <=
               kEqualNumbers * std::max({1.0, std::fabs(sums.least), std::fabs(sums.largest)});
  };
  return near(piece.values[kMax], sums.largest) && near(piece.values[kMin], sums.least) &&
         near(piece.values[kMean], sums.mean) && piece.values[kNorm] &&
         near(*piece.values[kNorm] / std::sqrt(piece.elements), std::sqrt(sums.squares));
}

std::optional<Consecutive> ConsecutiveOf(const PieceStatistics& whole) {
  if (!whole.values[kMax] || !whole.values[kMin]) {
    return std::nullopt;
  }
  const Consecutive numbers{*whole.values[kMin], *whole.values[kMax] - *whole.values[kMin] + 1};
  if (numbers.count < 4 || numbers.count > whole.elements ||
      numbers.count != std::floor(numbers.count) || numbers.first != std::floor(numbers.first) ||
      std::fmod(whole.elements, numbers.count) != 0 || !HasSums(whole, SumsOfRuns({numbers}))) {
    return std::nullopt;
  }
  return numbers;
}

// The pieces that have other numbers than those of their place, in the order that most have.
std::vector<size_t> PiecesOutOfPlace(const layout::Placement& placement,
                                     const layout::Pieces& pieces, const PieceStatistics& other) {
  constexpr auto kContext = static_cast<size_t>(Axis::kContext);
  const int64_t parts = placement.grid[kContext];
  const std::optional<Consecutive> numbers = ConsecutiveOf(other);
  if (!IsCutBy(placement, Axis::kContext) || !numbers || pieces.scale != 1 ||
      std::fmod(numbers->count, static_cast<double>(parts)) != 0) {
    return {};
  }
  const double share = numbers->count / static_cast<double>(parts);
  const int64_t inner = placement.grid[static_cast<size_t>(Axis::kTensor)];
  std::optional<std::vector<size_t>> fewest;
  for (const bool zigzag : {false, true}) {
    std::vector<size_t> wrong;
    for (size_t i = 0; i < pieces.statistics.size(); ++i) {
      const int64_t part = static_cast<int64_t>(i) / inner % parts;
      const auto at = [&](int64_t chunk, double size) {
        return Consecutive{numbers->first + static_cast<double>(chunk) * size, size};
      };
      const std::vector<Consecutive> runs =
          zigzag
              ? std::vector<Consecutive>{at(part, share / 2), at(2 * parts - 1 - part, share / 2)}
              : std::vector<Consecutive>{at(part, share)};
      if (!HasSums(pieces.statistics[i], SumsOfRuns(runs))) {
        wrong.push_back(i);
      }
    }
    if (wrong.size() < pieces.statistics.size() && (!fewest || wrong.size() < fewest->size())) {
      fewest = std::move(wrong);
    }
  }
  return fewest.value_or(std::vector<size_t>());
}

// The pieces of a micro-batch that are those of the one before, where the whole is not the other
// side's: a chance of one in many numbers.
std::vector<size_t> RepeatedParts(const layout::Placement& placement, const layout::Pieces& pieces,
                                  const PieceStatistics& whole, const PieceStatistics& other) {
  constexpr double kFewest = 8;
  if (!IsCutBy(placement, Axis::kMicroBatch) ||
      layout::StatisticsApart(whole, other).value_or(0) <= kEqualNumbers) {
    return {};
  }
  const size_t stride = pieces.statistics.size() /
                        static_cast<size_t>(placement.grid[static_cast<size_t>(Axis::kMicroBatch)]);
  std::vector<size_t> repeated;
  for (size_t i = stride; i < pieces.statistics.size(); ++i) {
    const PieceStatistics& now = pieces.statistics[i];
    const PieceStatistics& before = pieces.statistics[i - stride];
    const bool is_known = std::all_of(now.values.begin(), now.values.end(),
                                      [](const auto& value) { return value.has_value(); });
    if (is_known && now.values == before.values && now.elements >= kFewest &&
        now.values[kMax] != now.values[kMin] && pieces.shapes[i] == pieces.shapes[i - stride]) {
      repeated.push_back(i);
    }
  }
  return repeated;
}

}  // namespace

void NotePieces(const JoinedSide& side, const RowPieces& pieces, const RowPieces& others,
                const layout::Placement& other, NewRow& made) {
  const layout::Placement& placement = made.joined.placement;
  if (made.joined.suspicion != Suspicion::kNone || made.row.data_name != "-1" ||
      !placement.IsKnown() || !other.IsKnown() ||
      placement.piece_count() != pieces.pieces.statistics.size()) {
    return;
  }
  const PieceStatistics whole = layout::CombineStatistics(placement, pieces.pieces.statistics);
  const PieceStatistics other_whole = layout::CombineStatistics(other, others.pieces.statistics);
  std::vector<size_t> found = ZeroParts(placement, pieces.pieces, whole, other_whole);
  made.joined.suspicion = Suspicion::kPartIsZero;
  if (found.empty()) {
    found = PiecesOutOfPlace(placement, pieces.pieces, other_whole);
    made.joined.suspicion = Suspicion::kOutOfPlace;
  }
  if (found.empty() && IsInput(made.row)) {
    found = RepeatedParts(placement, pieces.pieces, whole, other_whole);
    made.joined.suspicion = Suspicion::kRepeats;
  }
  if (found.empty()) {
    made.joined.suspicion = Suspicion::kNone;
    return;
  }
  std::set<int64_t> ranks;
  for (const size_t piece : found) {
    ranks.insert(side.ranks[pieces.ranks[piece]]->about.rank);
  }
  made.joined.suspects.assign(ranks.begin(), ranks.end());
}

}  // namespace msprobe::analysis::compare::layouts
