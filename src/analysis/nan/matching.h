// Which calls of different ranks are one communication. Dumps hold no common clock: what belongs
// together is told by the kind of call, the group of ranks and the number of the call among its
// like, which all ranks of a group count alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/analysis/nan/rank_dump.h"

namespace msprobe::analysis::nan {

// One call's part in an event.
struct EventMember {
  uint32_t rank_place = 0;
  uint32_t operator_place = 0;  // in the rank's operators
  bool contributes = true;      // its data reaches the others
  BadValues data = 0;           // of its data going in
  BadValues output = 0;
};

// A collective, or one transfer between two ranks.
struct Event {
  uint32_t first_member = 0;
  uint32_t member_count = 0;
  uint32_t expected_members = 0;  // by the group; more than are there when dumps are missing or end
  bool is_transfer = false;
};

struct Matching {
  std::vector<Event> events;
  std::vector<EventMember> members;  // by event, then by rank
  // Per rank: the events of its calls, one after the other; call c has events
  // [first_event[c], first_event[c + 1]).
  std::vector<std::vector<uint32_t>> events_of_rank;
  std::vector<std::vector<uint32_t>> first_event_of_call;

  std::span<const EventMember> MembersOf(const Event& event) const {
    return std::span(members).subspan(event.first_member, event.member_count);
  }
};

// The n-th call of a kind (api, group and root; or sender and receiver) on one rank belongs to the
// n-th one on the others, as their library counts them. `ranks` are sorted by number.
Matching MatchCalls(std::span<const RankDump> ranks);

}  // namespace msprobe::analysis::nan
