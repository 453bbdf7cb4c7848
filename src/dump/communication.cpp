#include "src/dump/communication.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"

namespace msprobe::dump {
namespace {

constexpr uint32_t kNone = EntryTree::kNone;
// Positions at which a call may name a root: no API has more arguments in front of it.
constexpr std::string_view kPositions[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
// send(tensor, dst, group, tag, group_dst); recv, isend and irecv likewise.
constexpr std::string_view kPeerPosition = "1";
constexpr std::string_view kTagPosition = "3";
constexpr std::string_view kPeerInGroupPosition = "4";

// Ranks that a call gives as numbers of the world or of its group.
class GroupRanks {
 public:
  explicit GroupRanks(const std::vector<int64_t>& ranks) : ranks_(ranks) {}

  int64_t AtPlace(int64_t place) const {
    return place >= 0 && static_cast<uint64_t>(place) < ranks_.size()
               ? ranks_[static_cast<size_t>(place)]
               : place;
  }
  // Given as dst or src: global by the documentation, but callers pass ranks of the group too.
  int64_t Global(int64_t rank) {
    if (members_.empty()) {
      members_.insert(ranks_.begin(), ranks_.end());
    }
    return members_.contains(rank) ? rank : AtPlace(rank);
  }

 private:
  const std::vector<int64_t>& ranks_;
  // Made when it is asked for: a batch may name each rank of a large group, most calls none.
  std::unordered_set<int64_t> members_;
};

// The rank that a call names as its peer or root.
std::optional<int64_t> NamedRank(const CommunicationApi& api, GroupRanks& group,
                                 const IntegerArguments& integer) {
  if (const auto rank = integer(api.rank)) {
    return group.Global(*rank);
  }
  const std::string word(api.rank);
  for (const std::string& in_group : {"group_" + word, word + "_group", word + "_rank"}) {
    if (const auto place = integer(in_group)) {
      return group.AtPlace(*place);
    }
  }
  if (api.IsTransfer()) {
    if (const auto rank = integer(kPeerPosition)) {
      return group.Global(*rank);
    }
    const auto place = integer(kPeerInGroupPosition);
    return place ? std::optional(group.AtPlace(*place)) : std::nullopt;
  }
  for (const std::string_view position : kPositions) {
    if (const auto rank = integer(position)) {
      return group.Global(*rank);
    }
  }
  return std::nullopt;
}

std::optional<int64_t> IntegerOf(const EntryTree& tree, uint32_t index) {
  if (tree[index].kind == NodeKind::kInt) {
    return tree[index].integer;
  }
  if (tree[index].kind != NodeKind::kObject || LeafText(tree, index, "type") != "int") {
    return std::nullopt;
  }
  const uint32_t value = tree.Find(index, "value");
  return value == kNone || tree[value].kind != NodeKind::kInt ? std::nullopt
                                                              : std::optional(tree[value].integer);
}

class EntryReader {
 public:
  EntryReader(const EntryTree& tree, MatchRules rules)
      : tree_(tree),
        rules_(rules),
        arguments_(Member("input_args")),
        keywords_(Member("input_kwargs")),
        output_(Member("output")) {}

  Communication Read(std::string_view api, bool is_mindspore) const {
    bool has_group = false;
    Communication call = DescribeCommunication(
        api, ReadGroup(has_group),
        [this](std::string_view argument) -> std::optional<int64_t> {
          const uint32_t index = Find(argument);
          return index == kNone ? std::nullopt : IntegerOf(tree_, index);
        },
        rules_);
    const CommunicationApi* facts = FindCommunicationApi(api);
    if (call.is_point_to_point && facts->kind == CommunicationKind::kBatch) {
      ReadBatch(call);
    } else if (call.is_point_to_point) {
      const uint32_t first = Find("0");
      const uint32_t tensor = first == kNone ? Find("tensor") : first;
      call.transfers[0].tensor = tensor != kNone && IsTensorLeaf(tree_, tensor) ? tensor : kNone;
    } else {
      call.is_incomplete |= rules_ == MatchRules::kPythonGraph && !has_group;
    }
    if (facts != nullptr && !is_mindspore && !facts->Is(CommunicationApi::kInPlace)) {
      const uint32_t named = Find(facts->buffer);
      call.buffer = named == kNone ? Find(facts->buffer_position) : named;
    }
    return call;
  }

 private:
  uint32_t Member(std::string_view key) const {
    return tree_.size() > 0 ? tree_.Find(0, key) : kNone;
  }

  std::vector<uint32_t> Children(uint32_t index) const {
    std::vector<uint32_t> children;
    if (index != kNone) {
      tree_.ForEachChild(index, [&](uint32_t child) { children.push_back(child); });
    }
    return children;
  }

  // An argument by its keyword or its position.
  uint32_t Find(std::string_view argument) const {
    if (argument.size() != 1 || !base::IsDigit(argument[0])) {
      return keywords_ == kNone || argument.empty() ? kNone : tree_.Find(keywords_, argument);
    }
    const std::vector<uint32_t> items = Children(arguments_);
    const auto place = static_cast<size_t>(argument[0] - '0');
    return place < items.size() ? items[place] : kNone;
  }

  ProcessGroup ReadGroup(bool& has_group) const {
    ProcessGroup group;
    const auto take = [&](uint32_t item) {
      const uint32_t ranks = item == kNone ? kNone : tree_.Find(item, "group_ranks");
      if (ranks == kNone) {
        return false;
      }
      for (const uint32_t rank : Children(ranks)) {
        if (const auto number = IntegerOf(tree_, rank)) {
          group.ranks.push_back(*number);
        }
      }
      group.id = LeafText(tree_, item, "group_id");
      return tree_[ranks].kind == NodeKind::kList;
    };
    const uint32_t named = Find("group");
    if (rules_ == MatchRules::kPythonGraph) {
      has_group = take(named);
      return group;
    }
    for (const uint32_t part : {keywords_, arguments_}) {
      for (const uint32_t item : Children(part)) {
        has_group = has_group || take(item);
      }
    }
    if (!has_group && named != kNone) {
      const uint32_t value =
          tree_[named].kind == NodeKind::kObject ? tree_.Find(named, "value") : named;
      group.name = value == kNone || tree_[value].kind != NodeKind::kText ? std::string_view()
                                                                          : tree_[value].text;
    }
    return group;
  }

  // [{"op", "peer", "tag", "group_id", "tensor"}], at any depth. The outputs are the same
  // operations after the call, and all that the Python tool's graph looks at.
  void ReadBatch(Communication& call) const {
    const bool is_graph = rules_ == MatchRules::kPythonGraph;
    const std::vector<uint32_t> outputs = Operations({output_});
    const std::vector<uint32_t> inputs = is_graph ? outputs : Operations({arguments_, keywords_});
    GroupRanks group(call.group.ranks);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string_view name = LeafText(tree_, inputs[i], "op");
      const CommunicationApi* facts = FindCommunicationApi(name);
      const auto peer = IntegerOf(tree_, tree_.Find(inputs[i], "peer"));
      if (!peer || (is_graph && (facts == nullptr || facts->graph_rank.empty()))) {
        continue;
      }
      Transfer transfer;
      transfer.sends = name.find("send") != std::string_view::npos;
      transfer.api = facts == nullptr ? "" : transfer.sends ? facts->name : facts->pair;
      transfer.peer = group.Global(*peer);
      if (const uint32_t tag = tree_.Find(inputs[i], "tag"); tag != kNone) {
        transfer.tag = IntegerOf(tree_, tag).value_or(0);
      }
      transfer.group_id = LeafText(tree_, inputs[i], "group_id");
      transfer.tensor = tree_.Find(inputs[i], "tensor");
      transfer.input = inputs[i];
      transfer.output = i < outputs.size() ? outputs[i] : kNone;
      call.transfers.push_back(std::move(transfer));
    }
  }

  std::vector<uint32_t> Operations(std::initializer_list<uint32_t> parts) const {
    std::vector<uint32_t> operations;
    for (const uint32_t part : parts) {
      for (uint32_t index = part; part != kNone && index < tree_[part].end; ++index) {
        if (tree_[index].kind == NodeKind::kObject && tree_.Find(index, "op") != kNone &&
            tree_.Find(index, "peer") != kNone) {
          operations.push_back(index);
        }
      }
    }
    return operations;
  }

  const EntryTree& tree_;
  const MatchRules rules_;
  const uint32_t arguments_;
  const uint32_t keywords_;
  const uint32_t output_;
};

Channel ChannelOf(const Communication& call, MatchRules rules) {
  Channel channel;
  channel.api = call.api;
  channel.direction = call.direction;
  if (rules == MatchRules::kPythonGraph) {
    channel.group_name = call.group.id;
    return channel;
  }
  channel.group = call.group.ranks;
  std::sort(channel.group.begin(), channel.group.end());
  if (channel.group.empty()) {
    channel.group_name = call.group.name;
  }
  if (rules == MatchRules::kLibraries) {
    channel.root = call.root.value_or(-1);
  }
  return channel;
}

Channel ChannelOf(const Communication& call, const Transfer& transfer, int64_t rank,
                  MatchRules rules) {
  Channel channel;
  channel.is_transfer = true;
  channel.direction = call.direction;
  channel.sender = transfer.sends ? rank : transfer.peer;
  channel.receiver = transfer.sends ? transfer.peer : rank;
  if (rules == MatchRules::kLibraries) {
    const CommunicationApi* facts = FindCommunicationApi(transfer.api);
    const bool has_objects = facts != nullptr && facts->Is(CommunicationApi::kCarriesObjects);
    channel.api = has_objects ? "objects" : "";
    channel.tag = transfer.tag;
    channel.group_name = transfer.group_id;
    return channel;
  }
  channel.api = transfer.api;
  if (transfer.input != kNone) {
    channel.api = "batch of " + channel.api;
    channel.group_name = transfer.group_id;
  }
  return channel;
}

}  // namespace

ProcessGroup ParseProcessGroup(std::string_view text) {
  ProcessGroup group;
  const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  bool is_known = is_list;
  if (is_list && text.size() > 2) {
    for (const std::string_view part : base::Split(text.substr(1, text.size() - 2), ',')) {
      const std::optional<int64_t> rank = base::ParseInt(base::Trim(part));
      is_known = is_known && rank;
      group.ranks.push_back(rank.value_or(-1));
    }
  }
  if (!is_known) {
    group.ranks.clear();
    group.name = text == "None" ? std::string_view() : text;
  }
  return group;
}

std::string_view CommunicationApiOf(std::string_view entry_name) {
  const std::string_view api = ParseEntryName(entry_name).subject;
  return api.substr(api.rfind('.') + 1);
}

Communication ReadCommunication(std::string_view api, const EntryTree& entry, MatchRules rules,
                                bool is_mindspore) {
  return EntryReader(entry, rules).Read(api, is_mindspore);
}

Communication DescribeCommunication(std::string_view api, ProcessGroup group,
                                    const IntegerArguments& integer, MatchRules rules) {
  Communication call;
  call.api = api;
  call.group = std::move(group);
  const CommunicationApi* facts = FindCommunicationApi(api);
  if (facts == nullptr) {
    return call;
  }
  const bool is_graph = rules == MatchRules::kPythonGraph;
  GroupRanks ranks(call.group.ranks);
  std::optional<int64_t> rank;
  if (const std::string_view argument = is_graph ? facts->graph_rank : facts->rank;
      !argument.empty()) {
    rank = is_graph ? integer(argument) : NamedRank(*facts, ranks, integer);
    call.is_incomplete = is_graph && !rank;
  }
  if (facts->kind == CommunicationKind::kBatch) {
    call.is_point_to_point = rules != MatchRules::kPythonDifference;
  } else if (facts->IsTransfer() && (!is_graph || !facts->graph_rank.empty())) {
    call.is_point_to_point = true;
    Transfer transfer;
    transfer.sends = facts->kind == CommunicationKind::kSend;
    transfer.api = transfer.sends ? facts->name : facts->pair;
    transfer.peer = rank.value_or(-1);
    const auto tag = integer("tag");
    transfer.tag = tag ? *tag : integer(kTagPosition).value_or(0);
    transfer.group_id = call.group.id;
    call.transfers.push_back(std::move(transfer));
  } else if (is_graph) {
    call.root = rank;
  } else if (!facts->rank.empty()) {
    call.root = rank.value_or(ranks.Global(0));
  }
  return call;
}

uint32_t RankCommunications::Add(const Communication& call) {
  const auto number = static_cast<uint32_t>(first_endpoint_.size() - 1);
  if (!call.is_incomplete) {
    for (const Transfer& transfer : call.transfers) {
      endpoints_.push_back(
          {Intern(ChannelOf(call, transfer, rank_, rules_)), number, transfer.sends});
    }
    if (!call.is_point_to_point) {
      endpoints_.push_back({Intern(ChannelOf(call, rules_)), number, false});
    }
  }
  first_endpoint_.push_back(static_cast<uint32_t>(endpoints_.size()));
  return number;
}

uint32_t RankCommunications::Intern(Channel channel) {
  const auto [place, is_new] =
      places_.emplace(std::move(channel), static_cast<uint32_t>(channels_.size()));
  if (is_new) {
    channels_.push_back(place->first);
  }
  return place->second;
}

bool RankCommunications::IndexChannels() {
  places_.clear();
  for (size_t place = 0; place < channels_.size(); ++place) {
    if (!places_.emplace(channels_[place], static_cast<uint32_t>(place)).second) {
      return false;
    }
  }
  if (first_endpoint_.empty() || first_endpoint_.front() != 0 ||
      first_endpoint_.back() != endpoints_.size() ||
      !std::is_sorted(first_endpoint_.begin(), first_endpoint_.end())) {
    return false;
  }
  for (uint32_t call = 0; call < call_count(); ++call) {
    for (uint32_t place = first_endpoint_[call]; place < first_endpoint_[call + 1]; ++place) {
      if (endpoints_[place].call != call || endpoints_[place].channel >= channels_.size()) {
        return false;
      }
    }
  }
  return true;
}

CommunicationIndex::CommunicationIndex(const RankCommunications& rank,
                                       std::span<const int64_t> all_ranks) {
  std::vector<std::pair<Place, Place>> places;  // by channel of the rank
  for (Channel channel : rank.channels()) {
    if (std::equal(channel.group.begin(), channel.group.end(), all_ranks.begin(),
                   all_ranks.end())) {
      channel.group.clear();
    }
    const Place place = channels_.try_emplace(channel).first;
    if (channel.is_transfer && rank.rules() == MatchRules::kLibraries) {
      channel.group_name.clear();
      channel.of_any_group = true;
    }
    places.emplace_back(place, channels_.try_emplace(std::move(channel)).first);
  }
  entries_.reserve(rank.endpoints().size());
  const auto join = [&](Place place, uint32_t endpoint, const Endpoint& end) {
    Ends& ends = channels_.find(place->first)->second;
    Side& side = end.sends ? ends.sending : ends.receiving;
    side.endpoints.push_back(endpoint);
    side.names_all_groups &= !rank.channels()[end.channel].group_name.empty();
    return static_cast<uint32_t>(side.endpoints.size() - 1);
  };
  for (const Endpoint& end : rank.endpoints()) {
    const auto endpoint = static_cast<uint32_t>(entries_.size());
    Entry entry = {places[end.channel].first, places[end.channel].second, 0, 0, end.sends};
    entry.number = join(entry.channel, endpoint, end);
    entry.wide_number =
        entry.wide == entry.channel ? entry.number : join(entry.wide, endpoint, end);
    entries_.push_back(entry);
  }
}

CommunicationIndex::Identity CommunicationIndex::IdentityOf(uint32_t endpoint,
                                                            const CommunicationIndex* peer) const {
  const Entry& entry = entries_[endpoint];
  bool is_of_group = entry.wide == entry.channel;
  if (!is_of_group && peer != nullptr && entry.wide->second.Of(entry.sends).names_all_groups) {
    const Side* all = peer->FindSide(entry.wide->first, !entry.sends);
    is_of_group = all != nullptr && all->names_all_groups &&
                  entry.channel->second.Of(entry.sends).endpoints.size() ==
                      peer->Count(entry.channel->first, !entry.sends);
  }
  return is_of_group ? Identity{&entry.channel->first, entry.number}
                     : Identity{&entry.wide->first, entry.wide_number};
}

const CommunicationIndex::Side* CommunicationIndex::FindSide(const Channel& channel,
                                                             bool sends) const {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? nullptr : &found->second.Of(sends);
}

std::optional<uint32_t> CommunicationIndex::Find(const Channel& channel, bool sends,
                                                 uint32_t number) const {
  const Side* side = FindSide(channel, sends);
  return side == nullptr || number >= side->endpoints.size()
             ? std::nullopt
             : std::optional(side->endpoints[number]);
}

size_t CommunicationIndex::Count(const Channel& channel, bool sends) const {
  const Side* side = FindSide(channel, sends);
  return side == nullptr ? 0 : side->endpoints.size();
}

namespace {

class Matcher {
 public:
  explicit Matcher(std::span<const RankCommunications* const> ranks) : ranks_(ranks) {
    std::vector<int64_t> numbers;
    for (const RankCommunications* rank : ranks) {
      place_of_number_.emplace(rank->rank(), numbers.size());
      numbers.push_back(rank->rank());
    }
    for (const RankCommunications* rank : ranks) {
      indexes_.emplace_back(*rank, numbers);
    }
  }

  CommunicationMatching Run() {
    for (size_t place = 0; place < ranks_.size(); ++place) {
      AddRank(place);
    }
    PlaceMembers();
    return std::move(matching_);
  }

 private:
  void AddRank(size_t place) {
    const RankCommunications& rank = *ranks_[place];
    std::unordered_map<const Channel*, std::vector<uint32_t>*> known;  // of this rank's index
    std::vector<uint32_t>& event_of = matching_.event_of_endpoint.emplace_back();
    for (uint32_t at = 0; at < rank.endpoints().size(); ++at) {
      const Endpoint& end = rank.endpoints()[at];
      const Channel& own = rank.channels()[end.channel];
      const auto peer = place_of_number_.find(end.sends ? own.receiver : own.sender);
      const CommunicationIndex::Identity identity = indexes_[place].IdentityOf(
          at,
          own.is_transfer && peer != place_of_number_.end() ? &indexes_[peer->second] : nullptr);
      std::vector<uint32_t>*& series = known[identity.channel];
      if (series == nullptr) {
        series = &series_[*identity.channel];
      }
      const uint32_t event = EventOf(*series, identity);
      const CommunicationApi* facts = own.root < 0 ? nullptr : FindCommunicationApi(own.api);
      const bool hands_out = facts == nullptr || !facts->IsFromRoot() || own.root == rank.rank();
      joined_.emplace_back(event, EventMember{static_cast<uint32_t>(place), at,
                                              own.is_transfer ? end.sends : hands_out});
      ++matching_.events[event].member_count;
      event_of.push_back(event);
    }
  }

  uint32_t EventOf(std::vector<uint32_t>& series, const CommunicationIndex::Identity& identity) {
    if (identity.number >= series.size()) {
      series.resize(size_t{identity.number} + 1, kNone);
    }
    uint32_t& event = series[identity.number];
    if (event == kNone) {
      event = static_cast<uint32_t>(matching_.events.size());
      const Channel& channel = *identity.channel;
      const size_t expected = channel.is_transfer          ? 2
                              : !channel.group.empty()     ? channel.group.size()
                              : channel.group_name.empty() ? ranks_.size()
                                                           : 0;
      matching_.events.push_back({0, 0, static_cast<uint32_t>(expected), channel.is_transfer});
    }
    return event;
  }

  // Members were found rank by rank; now they go event by event.
  void PlaceMembers() {
    uint32_t next = 0;
    std::vector<uint32_t> place;
    place.reserve(matching_.events.size());
    for (CommunicationEvent& event : matching_.events) {
      event.first_member = next;
      place.push_back(next);
      next += event.member_count;
    }
    matching_.members.resize(next);
    for (const auto& [event, member] : joined_) {
      matching_.members[place[event]++] = member;
    }
  }

  const std::span<const RankCommunications* const> ranks_;
  std::unordered_map<int64_t, size_t> place_of_number_;
  std::vector<CommunicationIndex> indexes_;
  std::map<Channel, std::vector<uint32_t>> series_;  // events by number
  std::vector<std::pair<uint32_t, EventMember>> joined_;
  CommunicationMatching matching_;
};

}  // namespace

CommunicationMatching MatchCommunications(std::span<const RankCommunications* const> ranks) {
  return Matcher(ranks).Run();
}

}  // namespace msprobe::dump
