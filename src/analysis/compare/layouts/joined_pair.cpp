// The joined pair: all ranks of both sides are read, their calls joined and paired (joined_side.h),
// rows of the whole model made of them, and the two wholes compared as any pair is. Tensors come
// from a loader that assembles pieces. Behind the comparison the pieces tell which ranks a
// difference concerns.
#include "src/analysis/compare/layouts/joined_pair.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/layouts/joined_side.h"
#include "src/analysis/compare/layouts/piece_loader.h"
#include "src/analysis/compare/pairing.h"
#include "src/base/progress.h"
#include "src/layout/whole_tensor.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::compare::layouts {
namespace {

using layout::Axis;
using layout::kAxisCount;
using layout::SpreadKind;

int64_t StageCount(const JoinedSide& side) {
  std::set<int64_t> stages;
  for (const auto& rank : side.ranks) {
    stages.insert(rank->about.place.stage);
  }
  return static_cast<int64_t>(stages.size());
}

size_t ReplicaCount(const JoinedSide& side) {
  std::set<int64_t> replicas;
  for (const auto& rank : side.ranks) {
    replicas.insert(rank->about.place.data);
  }
  return replicas.size();
}

// Other numbers of replicas share the data out in another way: the n-th micro-batch of both sides
// has other samples, and only all of them together are the same. How often most modules are called.
void JoinMicroBatches(JoinedSide& npu, JoinedSide& bench) {
  if (ReplicaCount(npu) == ReplicaCount(bench)) {
    return;
  }
  std::map<int64_t, size_t> votes;
  for (const auto& [letter, count] : CallCounts(npu)) {
    if (count % npu.micro_batches == 0) {
      ++votes[count / npu.micro_batches];
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end() && most->first > 1) {
    npu.micro_batches *= most->first;
    bench.micro_batches *= most->first;
    npu.joins_all_batches = bench.joins_all_batches = true;
  }
}

// Whether the gradients that the backward pass computes are those of the last micro-batch alone,
// because a framework adds them up elsewhere: they are not all one multiple of what the optimizer
// is given.
bool KeepsLastBatch(const JoinedSide& side) {
  constexpr double kSameRatio = 1e-2;
  constexpr double kMostRows = 0.75;
  if (side.micro_batches < 2 || side.reduced.empty() || ReplicaCount(side) > 1) {
    return false;
  }
  const auto norms = [&](const JoinedCall& call) {
    std::map<std::string_view, double> found;  // by the name of the parameter
    const Side& read = side.ranks[call.members[0].rank]->side;
    const SideEntry& entry = read.entries[call.members[0].entry];
    for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
      const SideRow& row = read.rows[i];
      if (row.is_tensor && row.stats[kNorm].is_numeric()) {
        found[row.name.substr(row.name.rfind('.') + 1)] = row.stats[kNorm].number;
      }
    }
    return found;
  };
  std::vector<double> ratios;
  for (const auto& [path, call] : side.gradients) {
    const auto given = side.reduced.find(path);
    if (given == side.reduced.end() || given->second.members[0].rank != call.members[0].rank) {
      continue;
    }
    const auto of_given = norms(given->second);
    for (const auto& [name, norm] : norms(call)) {
      const auto other = of_given.find(name);
      if (other != of_given.end() && norm > 0) {
        ratios.push_back(other->second / norm);
      }
    }
  }
  if (ratios.empty()) {
    return false;
  }
  std::sort(ratios.begin(), ratios.end());
  const double median = ratios[ratios.size() / 2];
  const auto close = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
    return std::fabs(ratio - median) <= kSameRatio * median;
  });
  return static_cast<double>(close) < kMostRows * static_cast<double>(ratios.size());
}

// How many times as often one side makes each of its calls: micro-batches that the other side does
// in one. The ratio that most calls have.
void FindMicroBatches(JoinedSide& npu, JoinedSide& bench) {
  const auto of_npu = CallCounts(npu);
  const auto of_bench = CallCounts(bench);
  std::map<std::pair<int64_t, int64_t>, size_t> votes;
  for (const auto& [letter, count] : of_npu) {
    const auto other = of_bench.find(letter);
    if (other == of_bench.end()) {
      continue;
    }
    if (count % other->second == 0) {
      ++votes[{count / other->second, 1}];
    } else if (other->second % count == 0) {
      ++votes[{1, other->second / count}];
    }
  }
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end()) {
    npu.micro_batches = most->first.first;
    bench.micro_batches = most->first.second;
    JoinMicroBatches(npu, bench);
  }
}

// Ranks that share tensors are fed the same. Where a record says so of ranks that are not, the
// values count: they are replicas of the data.
void CheckPlaces(JoinedSide& side, bool of_npu, LayoutFacts& facts,
                 std::vector<std::string>& notes) {
  std::map<std::array<int64_t, 2>, std::vector<uint64_t>> fed;
  int64_t sharing = 1;
  for (const auto& rank : side.ranks) {
    const RankPlace& place = rank->about.place;
    if (place.stage == 0) {
      fed[{place.data, place.context}].push_back(TraitsOf(rank->side).fed);
    }
    sharing = std::max(sharing, place.tensor + 1);
  }
  const bool contradicts =
      sharing > 1 && !fed.empty() && std::all_of(fed.begin(), fed.end(), [](const auto& cell) {
        return std::set<uint64_t>(cell.second.begin(), cell.second.end()).size() ==
                   cell.second.size() &&
               cell.second.size() > 1;
      });
  if (!contradicts) {
    return;
  }
  std::vector<JoinedRank*> ranks;
  std::vector<RankTraits> traits;
  for (const auto& rank : side.ranks) {
    ranks.push_back(&rank->about);
    traits.push_back(TraitsOf(rank->side));
  }
  if (!PlaceByTraits(ranks, traits, facts)) {
    for (JoinedRank* const rank : ranks) {
      rank->place.data = rank->place.data * sharing + rank->place.tensor;
      rank->place.tensor = 0;
    }
    facts.data *= facts.tensor;
    facts.tensor = 1;
  }
  facts.source = LayoutFacts::Source::kInferred;
  notes.push_back(
      fmt::format("the layout of the {} side says that its ranks share tensors, but each is fed "
                  "other data: what the dumps tell is taken",
                  of_npu ? "test" : "reference"));
}

Result<JoinedSide> LoadJoinedSide(const std::vector<JoinedRank>& ranks, const SideOptions& options,
                                  base::ThreadPool& pool) {
  JoinedSide side;
  side.ranks.resize(ranks.size());
  std::vector<Status> errors(ranks.size());
  pool.ParallelFor(ranks.size(), [&](size_t i, size_t) {
    Result<std::unique_ptr<LoadedRank>> loaded = LoadRank(ranks[i], options);
    if (loaded.ok()) {
      side.ranks[i] = *std::move(loaded);
    } else {
      errors[i] = std::move(loaded).status();
    }
  });
  for (Status& error : errors) {
    MSP_RETURN_IF_ERROR(std::move(error));
  }
  side.stages = StageCount(side);
  return side;
}

std::vector<ReplicaDifference> ReplicasOf(const PairLayout& layout, const LoadedPair& loaded,
                                          const PieceLoader& loader) {
  std::vector<ReplicaDifference> replicas;
  for (const bool of_bench : {false, true}) {
    const Side& side = of_bench ? loaded.bench : loaded.npu;
    const std::vector<JoinedRank>& ranks = of_bench ? layout.bench : layout.npu;
    for (uint32_t row = 0; row < side.rows.size(); ++row) {
      const JoinedRow& joined = loader.RowOf(!of_bench, side.rows[row]);
      if (joined.suspicion != Suspicion::kReplicasDiffer) {
        continue;
      }
      ReplicaDifference& replica = replicas.emplace_back();
      replica.of_bench = of_bench;
      replica.row = row;
      replica.ranks = joined.suspects;
      replica.error = joined.error;
      std::set<int64_t> group;
      for (const Piece& piece : joined.pieces) {
        group.insert(ranks[piece.rank].rank);
      }
      replica.group.assign(group.begin(), group.end());
    }
  }
  return replicas;
}

// ---- what only pieces tell of the points that are reported ----

// A whole of which each element is the place of the piece that holds it. `numbers`: one of each
// piece, which outlive it.
Result<layout::WholeTensor> OwnersOf(const JoinedRow& joined, const std::vector<double>& numbers) {
  const layout::OpenPiece open = [&](size_t piece) -> Result<TensorView> {
    TensorView same;
    same.dtype = DType::kFloat64;
    same.shape = joined.shapes[piece];
    same.strides.assign(same.shape.size(), 0);
    same.data = reinterpret_cast<const std::byte*>(&numbers[piece]);
    same.extent_bytes = sizeof(double);
    return same;
  };
  return layout::WholeTensor::Make(joined.placement, open, 1, joined.cut);
}

// The whole is made of one of the copies of a piece: this one.
size_t FirstCopyOf(const layout::Placement& placement, size_t piece) {
  size_t first = 0;
  size_t stride = 1;
  for (size_t axis = kAxisCount; axis-- > 0;) {
    const auto size = static_cast<size_t>(placement.grid[axis]);
    const size_t place = piece / stride % size;
    first += placement.spreads[axis].kind == SpreadKind::kReplicated ? 0 : place * stride;
    stride *= size;
  }
  return first;
}

// The ranks of the NPU side whose pieces differ from the reference, by elements; empty: all, or not
// known.
std::vector<int64_t> DifferingRanks(const PairLayout& layout, const ComparedPair& pair,
                                    const PieceLoader& loader, const RowPair& rows) {
  constexpr uint64_t kMostElements = uint64_t{1} << 26U;
  const SideRow& row = pair.npu.rows[rows.npu];
  const JoinedRow& joined = loader.RowOf(true, row);
  if (joined.placement.HasPartial() || joined.pieces.size() < 2 || row.data_name == "-1" ||
      rows.bench == kNoRow || pair.bench.rows[rows.bench].data_name == "-1" ||
      ElementCount(row.shape) > static_cast<double>(kMostElements)) {
    return {};
  }
  std::vector<double> numbers(joined.pieces.size());
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const Result<layout::WholeTensor> owners = OwnersOf(joined, numbers);
  std::vector<bool> differs(joined.pieces.size());
  std::vector<bool> holds(joined.pieces.size());
  const bool compared = loader.Compare(
      row, pair.bench.rows[rows.bench],
      [&](const layout::WholeTensor& npu, const layout::WholeTensor& bench) {
        if (!owners.ok() || !AreComparable(npu, bench) ||
            owners->element_count() != npu.element_count()) {
          return false;
        }
        double largest = 0;
        ForEachRunOf(bench, bench, [&](std::span<const double> values, const auto&, size_t) {
          for (const double value : values) {
            largest = std::isfinite(value) ? std::max(largest, std::fabs(value)) : largest;
          }
          return true;
        });
        std::vector<double> owner(tensor::kCopyBlockElements);
        ForEachRunOf(npu, bench,
                     [&](std::span<const double> x, std::span<const double> y, size_t first) {
                       owners->Read(static_cast<int64_t>(first), std::span(owner).first(x.size()));
                       for (size_t i = 0; i < x.size(); ++i) {
                         const auto piece = static_cast<size_t>(owner[i]);
                         holds[piece] = true;
                         differs[piece] = differs[piece] || std::fabs(x[i] - y[i]) > 1e-5 * largest;
                       }
                       return true;
                     });
        return true;
      });
  if (!compared) {
    return {};
  }
  std::set<int64_t> ranks;
  bool all = true;
  for (size_t piece = 0; piece < differs.size(); ++piece) {
    all = all && (differs[piece] || !holds[piece]);
    if (differs[FirstCopyOf(joined.placement, piece)]) {
      ranks.insert(layout.npu[joined.pieces[piece].rank].rank);
    }
  }
  return all ? std::vector<int64_t>() : std::vector<int64_t>(ranks.begin(), ranks.end());
}

// A module, or a call directly inside of one, whose weight is cut along its inputs: its output is
// summed over the tensor-parallel ranks.
bool SumsOverRanks(const ComparedPair& pair, const PieceLoader& loader, const SideRow& row,
                   std::string_view parent) {
  const auto around =
      std::find_if(pair.npu.entries.begin(), pair.npu.entries.end(),
                   [&](const SideEntry& known) { return !parent.empty() && known.name == parent; });
  const bool is_inside =
      dump::ParseEntryName(pair.npu.entries[row.entry].name).is_module == false &&
      around != pair.npu.entries.end();
  const SideEntry& entry = is_inside ? *around : pair.npu.entries[row.entry];
  for (uint32_t i = entry.first_row; i < entry.first_row + entry.row_count; ++i) {
    const layout::Placement& placement = loader.RowOf(true, pair.npu.rows[i]).placement;
    const layout::Spread& spread = placement.spreads[static_cast<size_t>(layout::Axis::kTensor)];
    if (pair.npu.rows[i].state == dump::RowState::kParameters &&
        spread.kind == layout::SpreadKind::kShard && spread.dimension == 1) {
      return true;
    }
  }
  return false;
}

// What a relation between whole values is where ranks hold parts of them: a factor that is the size
// of the group that sums the value, and parts in each other's place.
void ExplainByRanks(const PairLayout& layout, const ComparedPair& pair, const PieceLoader& loader,
                    const RowPair& rows, std::string_view parent, Relation& relation) {
  const SideRow& row = pair.npu.rows[rows.npu];
  const layout::Placement& placement = loader.RowOf(true, row).placement;
  const LayoutFacts& facts = layout.npu_facts;
  if (relation.kind == RelationKind::kScale && relation.factor) {
    const bool is_gradient = row.state == dump::RowState::kParametersGrad;
    const int64_t group = is_gradient                                ? facts.data * facts.context
                          : SumsOverRanks(pair, loader, row, parent) ? facts.tensor
                                                                     : 1;
    if (group > 1 && *relation.factor == static_cast<double>(group)) {
      relation.kind = RelationKind::kReducedTwice;
      relation.cause = "reduced twice?";
    }
    return;
  }
  const auto axis = static_cast<size_t>(layout::Axis::kTensor);
  const layout::Spread& spread = placement.spreads[axis];
  const int64_t parts = placement.grid[axis];
  if (relation.kind == RelationKind::kPermutation && spread.kind == layout::SpreadKind::kShard &&
      (row.state == dump::RowState::kParameters || row.state == dump::RowState::kParametersGrad) &&
      parts > 1 && relation.dimension == static_cast<size_t>(spread.dimension) &&
      relation.blocks > 1 &&
      (parts % relation.blocks == 0 || relation.blocks == parts * spread.blocks)) {
    relation.kind = RelationKind::kWrongPart;
    relation.cause = "a rank holds another rank's part?";
  }
}

// A call that one side alone made has a number that no dump has. Where the module around it is such
// a call, too, it is named in its place.
void NameByModule(const ComparedPair& pair, DivergencePoint& point) {
  const dump::EntryName name = dump::ParseEntryName(point.entry_name);
  if (name.is_module || name.call.value_or(0) < kFreshNumber || point.parent_module.empty()) {
    return;
  }
  const auto has = [&](const Side& side) {
    return std::any_of(side.entries.begin(), side.entries.end(),
                       [&](const SideEntry& entry) { return entry.name == point.parent_module; });
  };
  if (has(pair.npu) != has(pair.bench)) {
    point.entry_name = point.parent_module;
  }
}

// A value that a communicating layer takes behind its communication is its own result: it computes
// something else.
void NameCommunication(const ComparedPair& pair, const PieceLoader& loader,
                       DivergencePoint& point) {
  if (point.kind != OriginKind::kInput || point.row >= pair.result.rows.size() ||
      !loader.RowOf(true, pair.npu.rows[pair.result.rows[point.row].pair.npu]).is_communicated) {
    return;
  }
  point.kind = OriginKind::kComputation;
  point.confidence = Confidence::kMedium;
  point.reason =
      "the module communicates, and what it takes of that differs; what it was given does not";
  point.note.clear();
}

// Parts of a padded vocabulary in another order: what is compared, the leading part, has padding in
// it then, and real values are behind it.
std::optional<Relation> OrderOfPadded(const ComparedPair& pair, const PieceLoader& loader,
                                      const RowPair& rows, const DivergencePoint& point) {
  const SideRow& row = pair.npu.rows[rows.npu];
  const SideRow& other = pair.bench.rows[rows.bench];
  std::optional<Relation> found;
  if (!loader.RowOf(true, row).cut || row.data_name == "-1" || other.data_name == "-1") {
    return found;
  }
  const auto elements_of = [](const layout::WholeTensor& whole) {
    Elements elements;
    elements.shape = whole.shape();
    elements.read = [&whole](int64_t first, std::span<double> values) {
      whole.Read(first, values);
      return true;
    };
    return elements;
  };
  RelationRequest request;
  request.tolerance = std::max(point.explained_error, 1e-5);
  loader.CompareUncut(
      row, other, [&](const layout::WholeTensor& npu, const layout::WholeTensor& bench) {
        found = FindReorderedAmongMore(elements_of(npu), elements_of(bench), request);
        return true;
      });
  return found;
}

Relation StaleRelation() {
  return {RelationKind::kStale, std::nullopt, "the value of an earlier micro-batch, not that of",
          "a value is used again?"};
}

void CompletePoint(const PairLayout& layout, const ComparedPair& pair, const PieceLoader& loader,
                   DivergencePoint& point) {
  if (point.row >= pair.result.rows.size() || point.kind == OriginKind::kReplica) {
    return;
  }
  if (point.kind == OriginKind::kUnmatchedCall) {
    NameByModule(pair, point);
  }
  const RowPair& rows = pair.result.rows[point.row].pair;
  const JoinedRow& npu = loader.RowOf(true, pair.npu.rows[rows.npu]);
  const bool of_bench =
      rows.bench != kNoRow &&
      loader.RowOf(false, pair.bench.rows[rows.bench]).suspicion == Suspicion::kNotReduced;
  if (npu.suspicion == Suspicion::kNotReduced || of_bench) {
    point.relation =
        Relation{RelationKind::kPartialSum, std::nullopt,
                 of_bench ? "the sum over the ranks of"
                          : fmt::format("one of {} parts that sum up to", npu.pieces.size()),
                 "a reduction is missing?"};
    return;
  }
  const SideRow& row = pair.npu.rows[rows.npu];
  if (pair.result.mode == CompareMode::kRealData) {
    if (const std::vector<size_t> repeated = loader.RepeatedPieces(row); !repeated.empty()) {
      point.relation = StaleRelation();
      std::set<int64_t> ranks;
      for (const size_t piece : repeated) {
        ranks.insert(layout.npu[npu.pieces[piece].rank].rank);
      }
      point.ranks.assign(ranks.begin(), ranks.end());
      return;
    }
    const bool is_stored =
        row.state == dump::RowState::kParameters || row.state == dump::RowState::kParametersGrad;
    const auto exchanged = is_stored && rows.bench != kNoRow
                               ? loader.ExchangedParts(row, pair.bench.rows[rows.bench])
                               : std::nullopt;
    if (exchanged) {
      point.relation = Relation{RelationKind::kWrongPart, std::nullopt, "other parts of",
                                "a rank holds another rank's part?"};
      const auto parts =
          static_cast<size_t>(npu.placement.grid[static_cast<size_t>(Axis::kTensor)]);
      std::set<int64_t> ranks;
      for (size_t piece = 0; piece < npu.pieces.size() && parts > 2; ++piece) {
        if (piece % parts == exchanged->first || piece % parts == exchanged->second) {
          ranks.insert(layout.npu[npu.pieces[piece].rank].rank);
        }
      }
      point.ranks.assign(ranks.begin(), ranks.end());
      return;
    }
  }
  if (!point.relation && rows.bench != kNoRow && pair.result.mode == CompareMode::kRealData) {
    point.relation = OrderOfPadded(pair, loader, rows, point);
  }
  if (point.relation) {
    ExplainByRanks(layout, pair, loader, rows, point.parent_module, *point.relation);
  }
  if (npu.suspicion == Suspicion::kPartIsZero || npu.suspicion == Suspicion::kOutOfPlace ||
      npu.suspicion == Suspicion::kRepeats) {
    point.ranks = npu.suspects;
    if (npu.suspicion == Suspicion::kRepeats) {
      point.relation = StaleRelation();
    } else if (npu.suspicion == Suspicion::kPartIsZero) {
      point.relation = Relation{RelationKind::kMissingPart, std::nullopt,
                                "with zeros in a part, otherwise equal to"};
    }
  }
  if (point.ranks.empty() && pair.result.mode == CompareMode::kRealData) {
    point.ranks = DifferingRanks(layout, pair, loader, rows);
  }
}

}  // namespace

bool HaveOtherMicroBatches(const Side& npu, const Side& bench) {
  const auto few = static_cast<double>(std::min(npu.entries.size(), bench.entries.size()));
  const auto many = static_cast<double>(std::max(npu.entries.size(), bench.entries.size()));
  if (many < few * 1.4) {
    return false;
  }
  std::unordered_map<std::string, std::array<int64_t, 2>> counts;
  for (size_t side = 0; side < 2; ++side) {
    for (const SideEntry& entry : (side == 0 ? npu : bench).entries) {
      const dump::EntryName name = dump::ParseEntryName(entry.name);
      if (name.direction == dump::Direction::kForward && !name.is_debug) {
        ++counts[fmt::format("{}.{}", name.kind, name.subject)][side];
      }
    }
  }
  std::map<double, size_t> ratios;
  for (const auto& [name, count] : counts) {
    if (count[0] > 0 && count[1] > 0) {
      ++ratios[static_cast<double>(count[0]) / static_cast<double>(count[1])];
    }
  }
  for (const auto& [ratio, share] : ratios) {
    const double times = std::max(ratio, 1 / ratio);
    if (times >= 2 && times == std::floor(times) &&
        static_cast<double>(share) >= 0.6 * static_cast<double>(counts.size())) {
      return true;
    }
  }
  return false;
}

Result<ComparedPair> CompareJoined(const Options& options, const PlannedPair& planned,
                                   PairLayout& layout, base::ThreadPool& pool,
                                   const StepRecord* previous) {
  const base::Stopwatch watch;
  SideOptions side_options;
  side_options.allow_truncated = options.allow_truncated;
  side_options.edition = options.edition();
  MSP_ASSIGN_OR_RETURN(JoinedSide npu, LoadJoinedSide(layout.npu, side_options, pool));
  MSP_ASSIGN_OR_RETURN(JoinedSide bench, LoadJoinedSide(layout.bench, side_options, pool));
  std::vector<std::string> notes;
  CheckPlaces(npu, true, layout.npu_facts, notes);
  CheckPlaces(bench, false, layout.bench_facts, notes);
  for (const bool of_npu : {true, false}) {
    JoinedSide& own = of_npu ? npu : bench;
    const JoinedSide& other = of_npu ? bench : npu;
    LayoutFacts& facts = of_npu ? layout.npu_facts : layout.bench_facts;
    const LayoutFacts& other_facts = of_npu ? layout.bench_facts : layout.npu_facts;
    if (facts.source == LayoutFacts::Source::kInferred && facts.data > 1 && facts.context == 1 &&
        other_facts.data == 1) {
      std::vector<JoinedRank*> ranks;
      for (const auto& rank : own.ranks) {
        ranks.push_back(&rank->about);
      }
      TellContext(ranks, own.ranks[0]->side, other.ranks[0]->side, facts);
    }
    own.stages = StageCount(own);
  }
  NumberParts(npu, bench);
  NumberParts(bench, npu);
  PairNames(npu, bench);
  FindMicroBatches(npu, bench);
  JoinCalls(npu, bench);
  PairCalls(npu, bench);
  npu.keeps_last_batch = KeepsLastBatch(npu);
  bench.keeps_last_batch = KeepsLastBatch(bench);
  JoinedRows joined = JoinRows(npu, bench, layout);
  LoadedPair loaded = std::move(joined.loaded);
  PairSource source;
  source.warnings = std::move(joined.warnings);
  source.warnings.insert(source.warnings.end(), notes.begin(), notes.end());
  if (loaded.npu.has_md5 || loaded.bench.has_md5) {
    return UnsupportedError("checksums of parts do not tell that of the whole")
        .WithHint("dump both sides with statistics or tensors to compare other layouts");
  }
  const std::map<std::string, std::string> paired_by = std::move(npu.paired_by);
  npu = {};
  bench = {};
  PieceLoader loader(layout, loaded.npu, loaded.bench, std::move(joined.rows));
  loader.ChooseOrder(loaded.npu, loaded.bench);
  loader.ChooseSequenceOrder(loaded.npu, loaded.bench);
  loader.ChooseVocabulary(loaded.npu, loaded.bench);
  loader.FillPadded(loaded.npu, loaded.bench, pool);
  source.loader = &loader;
  source.sums_are_joined = true;
  source.replicas = ReplicasOf(layout, loaded, loader);
  source.load_seconds = watch.seconds();
  MSP_ASSIGN_OR_RETURN(ComparedPair pair, CompareLoaded(options, planned.input, std::move(loaded),
                                                        std::move(source), pool, previous));
  for (size_t side = 0; side < 2; ++side) {
    const Side& rows = side == 0 ? pair.npu : pair.bench;
    std::vector<std::string_view>& texts =
        side == 0 ? pair.result.npu_layouts : pair.result.bench_layouts;
    for (const SideRow& row : rows.rows) {
      texts.push_back(
          (side == 0 ? pair.npu : pair.bench).Intern(loader.RowOf(side == 0, row).Text()));
    }
  }
  if (!paired_by.empty()) {
    for (const SideRow& row : pair.npu.rows) {
      const dump::EntryName name = dump::ParseEntryName(pair.npu.entries[row.entry].name);
      const auto known = paired_by.find(std::string(name.subject));
      pair.result.paired_by.push_back(known == paired_by.end() ? std::string_view()
                                                               : pair.npu.Intern(known->second));
    }
  }
  auto& of_kind = pair.divergence.first_of_kind;
  for (std::optional<DivergencePoint>& point : of_kind) {
    if (point) {
      NameCommunication(pair, loader, *point);
      CompletePoint(layout, pair, loader, *point);
    }
  }
  auto& input = of_kind[static_cast<size_t>(OriginKind::kInput)];
  auto& computation = of_kind[static_cast<size_t>(OriginKind::kComputation)];
  if (input && input->kind == OriginKind::kComputation) {
    if (!computation || input->place <= computation->place) {
      computation = std::move(input);
    }
    input.reset();
  }
  if (pair.divergence.first_origin) {
    NameCommunication(pair, loader, *pair.divergence.first_origin);
    CompletePoint(layout, pair, loader, *pair.divergence.first_origin);
  }
  return pair;
}

}  // namespace msprobe::analysis::compare::layouts
