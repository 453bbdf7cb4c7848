#include "src/analysis/nan/propagation.h"

#include <algorithm>
#include <optional>

#include "src/dump/names.h"

namespace msprobe::analysis::nan {
namespace {

constexpr size_t kConsequencesOfOrigin = 3;

bool IsBackward(const Operator& op) {
  return dump::ParseEntryName(op.name).direction == dump::Direction::kBackward;
}

}  // namespace

Propagation Follow(std::span<const RankDump> ranks, std::span<const Origin> origins,
                   std::span<const Arrival> arrivals) {
  Propagation propagation;
  std::vector<std::optional<uint32_t>> reached(ranks.size());  // by which operator
  std::vector<bool> is_origin(ranks.size(), false);
  for (const Origin& origin : origins) {
    if (!reached[origin.rank_place]) {
      reached[origin.rank_place] = origin.operator_place;
      is_origin[origin.rank_place] = true;
    }
  }
  // Arrivals are in the order of time: who passes on has been reached before.
  for (const Arrival& arrival : arrivals) {
    if (reached[arrival.from_rank] && !reached[arrival.to_rank]) {
      reached[arrival.to_rank] = arrival.to_operator;
      propagation.chain.push_back(arrival);
    }
  }
  for (uint32_t place = 0; place < ranks.size(); ++place) {
    if (!reached[place]) {
      continue;
    }
    ++propagation.reached_ranks;
    const std::vector<Operator>& operators = ranks[place].operators;
    size_t wanted = is_origin[place] ? kConsequencesOfOrigin : 1;
    bool wants_backward = true;
    for (uint32_t at = *reached[place] + 1; at < operators.size(); ++at) {
      const Operator& op = operators[at];
      if (op.input == 0) {
        continue;
      }
      ++propagation.affected_operators;
      if (wanted > 0) {
        --wanted;
        propagation.consequences.push_back({place, at});
      }
      if (wants_backward && IsBackward(op)) {
        wants_backward = false;
        propagation.backward.push_back({place, at});
      }
    }
  }
  const auto is_from_origin = [&](const Consequence& consequence) {
    return is_origin[consequence.rank_place];
  };
  std::stable_partition(propagation.consequences.begin(), propagation.consequences.end(),
                        is_from_origin);
  std::stable_partition(propagation.backward.begin(), propagation.backward.end(), is_from_origin);
  return propagation;
}

}  // namespace msprobe::analysis::nan
