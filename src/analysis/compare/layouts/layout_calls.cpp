// Which calls and values only the layout makes.
#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "src/analysis/compare/layouts/joined_rows.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare::layouts {
namespace {

// Whether a module, or one below it, has parameters: what has none and is on one side alone moves
// values of a parallel layer.
bool HasParameters(const JoinedSide& side, const std::string& path) {
  return std::any_of(side.gradients.begin(), side.gradients.end(), [&](const auto& known) {
    return known.first == path || known.first.starts_with(path + ".");
  });
}

// A module that the other side calls, too, but not as often: a layer that is repeated.
bool IsRepeat(const JoinedSide& side, const JoinedCall& call, const JoinedSide& opposite) {
  return call.is_module && HasParameters(side, call.path) &&
         opposite.module_call.contains(fmt::format("{}#0", call.path));
}

// Only around modules that both sides have, and the other side has none of its name.
bool IsContainer(const JoinedSide& side, const JoinedCall& call, const JoinedSide& opposite,
                 const std::unordered_set<std::string_view>& around) {
  return (call.path.empty() || around.contains(call.path)) && !side.gradients.contains(call.path) &&
         !opposite.module_call.contains(fmt::format("{}#0", call.path));
}

// By the statistics of both wholes; nullopt where nothing can be compared.
std::optional<bool> AreEqual(const SideRow& npu, const SideRow& bench) {
  constexpr double kWide = 2e-5;
  constexpr double kNarrow = 2e-2;  // 16 bits
  if (npu.shape != bench.shape) {
    return false;
  }
  const std::optional<Shape> shape = ParseShape(npu.shape);
  const std::optional<double> apart =
      layout::StatisticsApart(PieceStatisticsOf(npu, shape), PieceStatisticsOf(bench, shape));
  const bool is_narrow = npu.dtype.find("16") != std::string_view::npos ||
                         bench.dtype.find("16") != std::string_view::npos;
  return apart ? std::optional(*apart <= (is_narrow ? kNarrow : kWide)) : std::nullopt;
}

NewRow* RowOf(NewEntry& entry, std::string_view name) {
  const auto found = std::find_if(entry.rows.begin(), entry.rows.end(),
                                  [&](const NewRow& row) { return row.row.name == name; });
  return found == entry.rows.end() ? nullptr : &*found;
}

// All floating results of a module agree, and there is one.
bool HasEqualResults(const WrittenPair& pair) {
  bool any = false;
  for (NewRow& row : pair.npu->rows) {
    NewRow* const other = RowOf(*pair.bench, row.row.name);
    if (row.row.state != dump::RowState::kOutput || !row.row.is_tensor || !IsFloating(row.row) ||
        other == nullptr) {
      continue;
    }
    const std::optional<bool> equal = AreEqual(row.row, other->row);
    if (equal && !*equal) {
      return false;
    }
    any = any || equal.has_value();
  }
  return any;
}

}  // namespace

void LeaveOutInnerDifferences(const Sides& sides, const std::vector<WrittenPair>& written) {
  std::set<std::pair<std::string, dump::Direction>> equal;  // by the key of the bucket inside
  bool has_modules = false;
  for (const WrittenPair& pair : written) {
    if (pair.npu == nullptr || pair.bench == nullptr) {
      continue;
    }
    const JoinedCall& call = *pair.calls->calls[1]->call;
    has_modules = has_modules || call.is_module;
    if (call.is_module && HasEqualResults(pair)) {
      equal.emplace(fmt::format("{}#{}#{}", call.path, call.number,
                                static_cast<int>(dump::Direction::kForward)),
                    pair.calls->calls[1]->direction);
    }
  }
  for (const WrittenPair& pair : written) {
    const size_t side = pair.bench != nullptr ? 1 : 0;
    const DirectedCall& directed = *pair.calls->calls[side];
    const JoinedCall& call = *directed.call;
    if (call.is_module || directed.is_gradient || directed.direction == dump::Direction::kNone ||
        call.bucket >= sides[side]->buckets.size()) {
      continue;
    }
    const std::string& key = sides[side]->buckets[call.bucket].key;
    const bool is_outside = key.empty() || key.ends_with("##");
    if (!(is_outside && has_modules) && !equal.contains({key, directed.direction})) {
      continue;
    }
    if (pair.npu == nullptr || pair.bench == nullptr) {
      (side == 0 ? pair.npu : pair.bench)->is_left_out = true;
      continue;
    }
    for (NewRow& row : pair.npu->rows) {
      NewRow* const other = RowOf(*pair.bench, row.row.name);
      const bool is_suspected = row.joined.suspicion != Suspicion::kNone ||
                                (other != nullptr && other->joined.suspicion != Suspicion::kNone);
      if (other != nullptr && (is_suspected || !AreEqual(row.row, other->row).value_or(true))) {
        row.joined.suspicion = other->joined.suspicion = Suspicion::kNone;
        MakeUncomparable(row.row);
        MakeUncomparable(other->row);
        row.row.shape = other->row.shape;
      } else if (other != nullptr) {
        // In which order the elements are inside of it does not show outside.
        row.row.data_name = other->row.data_name = "-1";
        for (const Stat stat : {kMean, kNorm}) {  // of which parts are summed otherwise
          if (row.row.stats[stat].is_numeric() && other->row.stats[stat].is_numeric()) {
            row.row.stats[stat] = other->row.stats[stat];
          }
        }
      }
    }
  }
}

LayoutCalls::LayoutCalls(const Sides& sides, const PieceGatherer& gatherer)
    : sides_(sides), gatherer_(gatherer) {
  for (size_t side = 0; side < 2; ++side) {
    FindPlaces(side);
    Mark(side);
  }
}

void LayoutCalls::FindPlaces(size_t side) {
  const JoinedSide& joined = *sides_[side];
  place_[side].resize(joined.calls.size());
  for (const Bucket& bucket : joined.buckets) {
    size_t& first = communication_[side].emplace_back(SIZE_MAX);
    for (size_t i = 0; i < bucket.calls.size(); ++i) {
      const JoinedCall& call = joined.calls[bucket.calls[i]];
      place_[side][bucket.calls[i]] = i;
      if (call.is_communication && call.partner == kNoCall) {
        first = std::min(first, i);
      }
    }
  }
}

LayoutCalls::PlaceInBucket LayoutCalls::PlaceOf(size_t side, const DirectedCall& call) const {
  const JoinedSide& joined = *sides_[side];
  if (call.call->is_module || call.is_gradient || call.direction == dump::Direction::kNone ||
      call.call->bucket >= joined.buckets.size() || joined.buckets[call.call->bucket].key.empty()) {
    return {};
  }
  return {place_[side][static_cast<size_t>(call.call - joined.calls.data())],
          communication_[side][call.call->bucket]};
}

void LayoutCalls::Mark(size_t side) {
  const JoinedSide& joined = *sides_[side];
  // Modules around those that both sides have: chunks of virtual stages lack what is around all.
  std::unordered_set<std::string_view> around;
  for (const JoinedCall& call : joined.calls) {
    std::string_view path = call.path;
    for (size_t dot = path.rfind('.'); call.partner != kNoCall && dot != std::string_view::npos;
         dot = path.rfind('.')) {
      path = path.substr(0, dot);
      around.insert(path);
    }
  }
  for (const JoinedCall& call : joined.calls) {
    if (joined.has_other_names && !HoldsParameters(joined, call.members[0])) {
      of_layout_.insert(&call);  // of another implementation: what it is made of
    }
  }
  for (const Bucket& bucket : joined.buckets) {
    // All that a parallel layer does around its communication.
    const auto communicates_alone = [](const JoinedSide& of, const Bucket& calls) {
      return std::any_of(calls.calls.begin(), calls.calls.end(), [&](uint32_t i) {
        return of.calls[i].partner == kNoCall && of.calls[i].is_communication;
      });
    };
    const JoinedSide& opposite = *sides_[1 - side];
    const auto same = opposite.bucket_of.find(bucket.key);
    const bool communicates_around =
        !bucket.key.empty() && (communicates_alone(joined, bucket) ||
                                (same != opposite.bucket_of.end() &&
                                 communicates_alone(opposite, opposite.buckets[same->second])));
    size_t first = 0;
    while (first < bucket.calls.size()) {
      if (joined.calls[bucket.calls[first]].partner != kNoCall) {
        ++first;
        continue;
      }
      size_t end = first;
      bool communicates = communicates_around;
      for (; end < bucket.calls.size() && joined.calls[bucket.calls[end]].partner == kNoCall;
           ++end) {
        communicates = communicates || joined.calls[bucket.calls[end]].is_communication;
      }
      for (; first < end; ++first) {
        const JoinedCall& call = joined.calls[bucket.calls[first]];
        const LoadedRank& rank = *joined.ranks[call.members[0].rank];
        const dump::EntryName& name = rank.names[call.members[0].entry];
        if ((communicates && !IsRepeat(joined, call, opposite)) || call.is_communication ||
            MovesData(name) || (call.is_module && !HasParameters(joined, call.path)) ||
            (call.is_module && IsContainer(joined, call, opposite, around))) {
          of_layout_.insert(&call);
        }
      }
    }
  }
}

bool LayoutCalls::IsExpert(size_t side, const DirectedCall& call) const {
  return call.call->path.find("expert") != std::string::npos ||
         (!call.call->is_module && !call.is_gradient &&
          call.call->bucket < sides_[side]->buckets.size() &&
          sides_[side]->buckets[call.call->bucket].key.find("expert") != std::string::npos);
}

bool LayoutCalls::IsBesideCommunication(size_t side, const DirectedCall& call) const {
  return PlaceOf(side, call).communication != SIZE_MAX;
}

bool LayoutCalls::IsBehindCommunication(const CallPair& pair) const {
  for (size_t side = 0; side < 2; ++side) {
    const PlaceInBucket place = PlaceOf(side, *pair.calls[side]);
    if (pair.calls[side]->direction == dump::Direction::kForward &&
        place.communication < place.own) {
      return true;
    }
  }
  return false;
}

bool LayoutCalls::IsBesideAny(const CallPair& pair) const {
  return IsBesideCommunication(0, *pair.calls[0]) || IsBesideCommunication(1, *pair.calls[1]);
}

bool LayoutCalls::TakesOtherTensors(const CallPair& pair) const {
  std::array<size_t, 2> tensors = {0, 0};
  for (size_t side = 0; side < 2; ++side) {
    const CallMember& member = pair.calls[side]->members.front();
    const SideEntry& entry = gatherer_.EntryOf(side, member);
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = sides_[side]->ranks[member.rank]->side.rows[entry.first_row + i];
      tensors[side] += IsInput(row) && row.is_tensor ? 1 : 0;
    }
  }
  return tensors[0] != tensors[1];
}

bool LayoutCalls::IsOfParts(const CallPair& pair, const RowPieces& npu,
                            const RowPieces& bench) const {
  static const std::unordered_set<std::string_view> kPlaces = {
      "nonzero",     "where",        "argwhere",    "arange",      "cumsum",
      "sort",        "argsort",      "unique",      "bincount",    "index_add",
      "index_add_",  "index_select", "scatter_add", "gather",      "index_put_",
      "index_copy_", "scatter",      "topk",        "__setitem__", "take_along_dim"};
  const CallMember& first = pair.calls[0]->members.front();
  const dump::EntryName& name = sides_[0]->ranks[first.rank]->names[first.entry];
  const bool several = npu.rows.size() > 1 || bench.rows.size() > 1;
  const bool places =
      !name.is_module && kPlaces.contains(name.subject) && !IsFloating(*npu.rows[0]) && several;
  for (size_t side = 0; side < 2; ++side) {
    if (IsExpert(side, *pair.calls[side]) && (side == 0 ? npu : bench).rows.size() > 1 &&
        !sides_[side]->knows_experts) {
      return true;
    }
  }
  return places;
}

bool LayoutCalls::MayBeReordered(const CallPair& pair, const SideRow& row) const {
  const DirectedCall& call = *pair.calls[0];
  if (row.state == dump::RowState::kParameters || call.is_gradient) {
    return false;
  }
  const CallMember& member = call.members.front();
  const LoadedRank& rank = *sides_[0]->ranks[member.rank];
  const std::string& path =
      call.call->is_module ? call.call->path : sides_[0]->buckets[call.call->bucket].key;
  constexpr std::string_view kList = "experts.";
  // One expert of several, or a call that deals tokens out to them.
  bool is_one = !call.call->is_module && path.find("expert") != std::string::npos;
  for (size_t at = path.find(kList); at != std::string::npos && !is_one;
       at = path.find(kList, at + 1)) {
    const size_t number = at + kList.size();
    is_one = number < path.size() && path[number] >= '0' && path[number] <= '9';
  }
  return is_one && !dump::LayerState(rank.names[member.entry])
                        .Has(row.name.substr(std::min<size_t>(1, row.name.size())));
}

}  // namespace msprobe::analysis::compare::layouts
