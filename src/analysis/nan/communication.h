// What an entry of a dump says about a call that moves data between ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/nan/bad_values.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::nan {

// Whether the entry of this name moves data between ranks; "barrier" and the like do not.
bool IsCommunication(std::string_view entry_name);

// Whose data reaches the others.
enum class Contributors : uint8_t { kAll, kRoot };

enum class TransferKind : uint8_t { kSend, kReceive };

// One end of a transfer between two ranks.
struct Transfer {
  TransferKind kind = TransferKind::kSend;
  int64_t peer = 0;    // global rank
  BadValues data = 0;  // a sender's data; a receiver has none
  BadValues output = 0;
};

// What calls of a collective must have in common to be one collective.
struct Channel {
  std::string api;  // "all_reduce", and so on
  Contributors contributors = Contributors::kAll;
  int64_t root = -1;           // global rank; -1: none
  std::vector<int64_t> group;  // sorted global ranks; empty: all
  std::string group_name;      // where the dump tells only a name

  auto operator<=>(const Channel&) const = default;
};

struct CommunicationCall {
  bool is_point_to_point = false;
  Channel channel;                  // of a collective
  std::vector<Transfer> transfers;  // of a point-to-point call; several for batch_isend_irecv
  BadValues data = 0;               // of the inputs that are data, not buffers to be filled
  BadValues output = 0;
};

// `is_mindspore` chooses the signatures of mindspore.communication, whose calls return results
// instead of filling buffers.
CommunicationCall ReadCommunication(std::string_view entry_name, const dump::EntryTree& entry,
                                    bool is_mindspore, double threshold);

}  // namespace msprobe::analysis::nan
