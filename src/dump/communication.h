// Finds which calls of different ranks belong to one communication.
//
// Ranks share no clock, and a dump numbers the calls of each rank for itself. What belongs together
// follows from two things that a dump does hold: what the calls have in common, which is called a
// channel here (a collective's API, group and root; a transfer's sender, receiver and tag), and the
// order in which each rank made its calls. Libraries of communication count alike on all ranks, so
// the n-th call on a channel on one rank is the n-th on that channel on the others.
//
// The way from entries to communications has three steps, and commands enter where they need to:
// 1. ReadCommunication: what one entry says (nodes of the entry's tree, no values).
// 2. RankCommunications: the calls of one rank as endpoints on channels, in the file's order.
// 3. MatchCommunications, where all ranks are in memory, or CommunicationIndex, which finds the
//    other end of one endpoint and asks for no more ranks than take part.
//
// MatchRules say what calls must have in common. Commands whose results must equal those of the
// Python tool follow its rules:
// - kLibraries (nan_analyze, recheck, repro), as PyTorch's back ends do: a send meets any receive
//   with its tag, and of its group where both name it; a collective has an API, the ranks of a
//   group and a root.
// - kPythonGraph (graph_visualize): a send meets a recv, an isend an irecv, and in batches both
//   those of their group; a collective has an API and the id of a group. Ranks are looked for in
//   one argument per API (CommunicationApi::graph_rank), groups in the keyword only.
// - kPythonDifference (compare -da): a send meets a recv, an isend an irecv; a batch counts as a
//   collective; a collective has an API, a direction and the ranks of a group.
// By any of them object lists (send_object_list) do not meet tensors.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/dump/call_facts.h"
#include "src/dump/json_source.h"
#include "src/dump/names.h"

namespace msprobe::dump {

enum class MatchRules : uint8_t { kLibraries, kPythonGraph, kPythonDifference };

// ---- what one entry says ----

struct ProcessGroup {
  std::vector<int64_t> ranks;  // global, as listed; empty: not recorded, or all
  std::string id;              // "group_id", a checksum of the list
  std::string name;            // what MindSpore calls it; where the ranks are not recorded
};

// One message from a rank to another.
struct Transfer {
  bool sends = false;
  std::string_view api;  // of the sender, in the table; empty: not known
  int64_t peer = -1;     // global rank; -1: not recorded (a receive from any rank)
  int64_t tag = 0;
  std::string group_id;
  // Nodes of the entry. The tensor, kNone where there is none; of a batch the operation before and
  // after the call, kNone for other transfers.
  uint32_t tensor = EntryTree::kNone;
  uint32_t input = EntryTree::kNone;
  uint32_t output = EntryTree::kNone;
};

struct Communication {
  std::string api;  // "all_reduce"
  Direction direction = Direction::kForward;
  ProcessGroup group;
  std::optional<int64_t> root;  // of a collective: global rank
  // One for a point-to-point call; any number, also none, for a batch.
  std::vector<Transfer> transfers;
  bool is_point_to_point = false;
  bool is_incomplete = false;  // kPythonGraph: the tool finds too little to match it
  // Node of the argument that the call fills without reading it, kNone: none.
  uint32_t buffer = EntryTree::kNone;
};

// Parses the text of a list of ranks, "[0, 1]"; any other text but "None" is a name.
ProcessGroup ParseProcessGroup(std::string_view text);

// "all_reduce" of "Distributed.all_reduce.0.forward".
std::string_view CommunicationApiOf(std::string_view entry_name);

// `is_mindspore`: the entry is one of mindspore.communication, whose calls return their results
// instead of filling buffers.
Communication ReadCommunication(std::string_view api, const EntryTree& entry, MatchRules rules,
                                bool is_mindspore = false);

// The same where only arguments are known: `integer` gets the name of one ("dst", or "1" for the
// second positional one) and returns its value where it is there and an integer.
using IntegerArguments = std::function<std::optional<int64_t>(std::string_view argument)>;
Communication DescribeCommunication(std::string_view api, ProcessGroup group,
                                    const IntegerArguments& integer, MatchRules rules);

// ---- the calls of one rank ----

// The properties that calls of different ranks share. Equal channels are one channel.
struct Channel {
  bool is_transfer = false;
  std::string api;  // of transfers: what must agree about the API, mostly empty
  Direction direction = Direction::kForward;
  std::vector<int64_t> group;  // rising; empty: all ranks, unless there is a name
  std::string group_name;      // where ranks do not tell: a name, or an id
  int64_t root = -1;           // of a collective; -1: none
  int64_t sender = -1;         // of a transfer
  int64_t receiver = -1;
  int64_t tag = 0;
  bool of_any_group = false;  // of transfers, whatever their groups: see CommunicationIndex

  auto operator<=>(const Channel&) const = default;
};

// For parts of a shared run (base/packed.h).
template <typename Archive>
void PackMembers(Archive& archive, Channel& channel) {
  archive(channel.is_transfer, channel.api);
  archive.Choice(channel.direction, static_cast<size_t>(Direction::kBackward) + 1);
  archive(channel.group, channel.group_name, channel.root, channel.sender, channel.receiver,
          channel.tag, channel.of_any_group);
}

// A call's part in a collective, or in one transfer.
struct Endpoint {
  uint32_t channel = 0;  // place in RankCommunications::channels()
  uint32_t call = 0;     // place among the calls that were added
  bool sends = false;    // of a transfer
};
template <typename Archive>
void PackMembers(Archive& archive, Endpoint& endpoint) {
  archive(endpoint.channel, endpoint.call, endpoint.sends);
}

// Owns all its texts. Not thread-safe.
class RankCommunications {
 public:
  RankCommunications(int64_t rank, MatchRules rules) : rank_(rank), rules_(rules) {}

  // The next call in the order of the file; returns its place among them. A call that says too
  // little to be matched has no endpoints.
  uint32_t Add(const Communication& call);

  int64_t rank() const { return rank_; }
  MatchRules rules() const { return rules_; }
  const std::vector<Channel>& channels() const { return channels_; }
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  uint32_t call_count() const { return static_cast<uint32_t>(first_endpoint_.size() - 1); }
  // The endpoints of a call are [FirstEndpoint(call), FirstEndpoint(call + 1)).
  uint32_t FirstEndpoint(uint32_t call) const { return first_endpoint_[call]; }

  // `communications` was made with the same rank and rules.
  template <typename Archive>
  friend void PackMembers(Archive& archive, RankCommunications& communications) {
    archive(communications.channels_, communications.endpoints_, communications.first_endpoint_);
    if constexpr (requires { archive.Fail(); }) {
      if (!communications.IndexChannels()) {
        archive.Fail();
      }
    }
  }

 private:
  uint32_t Intern(Channel channel);
  // Behind a reading from a file. False: places lead nowhere.
  bool IndexChannels();

  int64_t rank_;
  MatchRules rules_;
  std::vector<Channel> channels_;  // each once
  std::map<Channel, uint32_t> places_;
  std::vector<Endpoint> endpoints_;
  std::vector<uint32_t> first_endpoint_ = {0};  // by call, and the end
};

// ---- calls of different ranks ----

// The endpoints of one rank by channel and number. Borrows nothing.
//
// Transfers of different groups are matched group by group, but only where all transfers between
// two ranks with a tag name their group and both ranks count as many of this one. Else they are
// matched in their order over all groups: a single call names none where a batch names that of all
// ranks.
class CommunicationIndex {
 public:
  // `all_ranks`: rising. A group of all of them is the same as none.
  CommunicationIndex(const RankCommunications& rank, std::span<const int64_t> all_ranks);
  CommunicationIndex(CommunicationIndex&&) = default;
  CommunicationIndex& operator=(CommunicationIndex&&) = default;
  CommunicationIndex(const CommunicationIndex&) = delete;  // entries point into the map
  CommunicationIndex& operator=(const CommunicationIndex&) = delete;
  ~CommunicationIndex() = default;

  struct Identity {
    const Channel* channel = nullptr;  // of this index
    uint32_t number = 0;               // endpoints of this channel and side before it
  };
  // The key by which both ends of a transfer find each other. `peer`: the rank at the other end of
  // a transfer, null where it is not known; unused for collectives.
  Identity IdentityOf(uint32_t endpoint, const CommunicationIndex* peer) const;

  // The endpoint that has this identity here.
  std::optional<uint32_t> Find(const Channel& channel, bool sends, uint32_t number) const;
  size_t Count(const Channel& channel, bool sends) const;

 private:
  struct Side {
    std::vector<uint32_t> endpoints;  // in order
    bool names_all_groups = true;
  };
  struct Ends {
    Side receiving;  // of a collective: all
    Side sending;

    const Side& Of(bool sends) const { return sends ? sending : receiving; }
  };
  using Place = std::map<Channel, Ends>::const_iterator;
  struct Entry {
    Place channel, wide;  // wide: of any group; the same where groups do not matter
    uint32_t number = 0;
    uint32_t wide_number = 0;
    bool sends = false;
  };

  const Side* FindSide(const Channel& channel, bool sends) const;

  std::map<Channel, Ends> channels_;
  std::vector<Entry> entries_;  // by endpoint
};

// A collective, or one transfer between two ranks.
struct CommunicationEvent {
  uint32_t first_member = 0;
  uint32_t member_count = 0;
  uint32_t expected_members = 0;  // by the group; 0: not known. More than there are where dumps are
                                  // missing or end early
  bool is_transfer = false;
};

struct EventMember {
  uint32_t rank_place = 0;   // among the ranks that were matched
  uint32_t endpoint = 0;     // of the rank
  bool contributes = false;  // its data reaches the others
};

struct CommunicationMatching {
  std::vector<CommunicationEvent> events;  // in the order in which the first rank meets them
  std::vector<EventMember> members;        // by event, then by rank
  std::vector<std::vector<uint32_t>> event_of_endpoint;  // by rank

  std::span<const EventMember> MembersOf(const CommunicationEvent& event) const {
    return std::span(members).subspan(event.first_member, event.member_count);
  }
};

// `ranks` have different numbers, which rise, and were read by the same rules.
CommunicationMatching MatchCommunications(std::span<const RankCommunications* const> ranks);

}  // namespace msprobe::dump
