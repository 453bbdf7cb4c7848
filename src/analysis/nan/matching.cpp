#include "src/analysis/nan/matching.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace msprobe::analysis::nan {
namespace {

class Matcher {
 public:
  explicit Matcher(std::span<const RankDump> ranks) : ranks_(ranks) {
    for (size_t place = 0; place < ranks.size(); ++place) {
      numbers_.push_back(ranks[place].rank);
      place_of_number_.emplace(ranks[place].rank, static_cast<uint32_t>(place));
    }
  }

  Matching Run() {
    matching_.events_of_rank.resize(ranks_.size());
    matching_.first_event_of_call.resize(ranks_.size());
    for (uint32_t place = 0; place < ranks_.size(); ++place) {
      AddRank(place);
    }
    PlaceMembers();
    return std::move(matching_);
  }

 private:
  // The events of one kind of call, in the order in which they happen.
  struct Series {
    std::vector<uint32_t> events;
  };

  void AddRank(uint32_t place) {
    const RankDump& rank = ranks_[place];
    std::vector<uint32_t> series_of_channel;
    for (const Channel& channel : rank.channels) {
      series_of_channel.push_back(SeriesOf(channel));
    }
    std::vector<uint32_t>& events = matching_.events_of_rank[place];
    std::vector<uint32_t>& first_event = matching_.first_event_of_call[place];
    std::unordered_map<uint64_t, uint32_t> counts;  // calls of this rank by series and side
    for (uint32_t at = 0; at < rank.operators.size(); ++at) {
      const Operator& op = rank.operators[at];
      if (op.call == Operator::kNoCall) {
        continue;
      }
      first_event.push_back(static_cast<uint32_t>(events.size()));
      const Call& call = rank.calls[op.call];
      EventMember member;
      member.rank_place = place;
      member.operator_place = at;
      if (call.channel != Call::kNoChannel) {
        const Channel& channel = rank.channels[call.channel];
        member.contributes =
            channel.contributors == Contributors::kAll || channel.root == rank.rank;
        member.data = op.input;
        member.output = op.output;
        const uint32_t series = series_of_channel[call.channel];
        const uint32_t event = EventOf(series, counts[series * uint64_t{2}]++);
        matching_.events[event].expected_members = ExpectedMembers(channel);
        events.push_back(event);
        Join(event, member);
      }
      for (uint32_t i = 0; i < call.transfer_count; ++i) {
        const Transfer& transfer = rank.transfers[call.first_transfer + i];
        const bool sends = transfer.kind == TransferKind::kSend;
        member.contributes = sends;
        member.data = transfer.data;
        member.output = transfer.output;
        const auto ends =
            sends ? std::pair(rank.rank, transfer.peer) : std::pair(transfer.peer, rank.rank);
        const uint32_t series = SeriesOf(ends);
        const uint32_t event = EventOf(series, counts[series * uint64_t{2} + (sends ? 1 : 0)]++);
        matching_.events[event].expected_members = 2;
        matching_.events[event].is_transfer = true;
        events.push_back(event);
        Join(event, member);
      }
    }
    first_event.push_back(static_cast<uint32_t>(events.size()));
  }

  // A group of all ranks that there are is the same as no group.
  uint32_t SeriesOf(const Channel& channel) {
    Channel key = channel;
    if (key.group == numbers_) {
      key.group.clear();
    }
    const auto [found, is_new] =
        collectives_.emplace(std::move(key), static_cast<uint32_t>(series_.size()));
    if (is_new) {
      series_.emplace_back();
    }
    return found->second;
  }

  uint32_t SeriesOf(const std::pair<int64_t, int64_t>& ends) {
    const auto [found, is_new] = transfers_.emplace(ends, static_cast<uint32_t>(series_.size()));
    if (is_new) {
      series_.emplace_back();
    }
    return found->second;
  }

  uint32_t ExpectedMembers(const Channel& channel) const {
    if (!channel.group.empty()) {
      return static_cast<uint32_t>(channel.group.size());
    }
    return channel.group_name.empty() ? static_cast<uint32_t>(ranks_.size()) : 0;
  }

  uint32_t EventOf(uint32_t series, uint32_t number) {
    std::vector<uint32_t>& events = series_[series].events;
    if (number == events.size()) {
      events.push_back(static_cast<uint32_t>(matching_.events.size()));
      matching_.events.emplace_back();
    }
    return events[number];
  }

  void Join(uint32_t event, const EventMember& member) {
    ++matching_.events[event].member_count;
    joined_.emplace_back(event, member);
  }

  // Members were found rank by rank; now they stand event by event.
  void PlaceMembers() {
    uint32_t next = 0;
    std::vector<uint32_t> place;
    place.reserve(matching_.events.size());
    for (Event& event : matching_.events) {
      event.first_member = next;
      place.push_back(next);
      next += event.member_count;
    }
    matching_.members.resize(next);
    for (const auto& [event, member] : joined_) {
      matching_.members[place[event]++] = member;
    }
  }

  const std::span<const RankDump> ranks_;
  std::vector<int64_t> numbers_;
  std::unordered_map<int64_t, uint32_t> place_of_number_;
  std::map<Channel, uint32_t> collectives_;
  std::map<std::pair<int64_t, int64_t>, uint32_t> transfers_;
  std::vector<Series> series_;
  std::vector<std::pair<uint32_t, EventMember>> joined_;
  Matching matching_;
};

}  // namespace

Matching MatchCalls(std::span<const RankDump> ranks) { return Matcher(ranks).Run(); }

}  // namespace msprobe::analysis::nan
