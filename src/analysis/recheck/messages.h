// Messages from one rank to another: what send, recv, isend, irecv and batch_isend_irecv say of
// them in a dump.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/dump/entry_tree.h"

namespace msprobe::analysis::recheck {

struct Message {
  bool is_sent = false;  // received otherwise
  int64_t peer = -1;     // the other rank; -1: the dump does not tell (a receive from any rank)
  int64_t tag = 0;
  std::string group;    // its id; empty: the group of all ranks
  uint32_t tensor = 0;  // its node in the forward entry's arguments
};

// Whether calls of this API of the kind Distributed hand messages over.
bool IsPointToPoint(std::string_view api);
// Those of one call, in its order; empty where the entry is not as the API has it.
std::vector<Message> MessagesOf(std::string_view api, const dump::EntryTree& forward);

}  // namespace msprobe::analysis::recheck
