#include "src/analysis/recheck/step_ranks.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::analysis::recheck {
namespace {

// The ranks below the key "group_ranks", wherever it stands.
std::vector<int64_t> GroupOf(const dump::EntryTree& tree) {
  std::vector<int64_t> ranks;
  for (uint32_t index = 0; index < tree.size(); ++index) {
    if (tree[index].key == "group_ranks" && tree[index].kind == dump::NodeKind::kList) {
      tree.ForEachChild(index, [&](uint32_t rank) { ranks.push_back(tree[rank].integer); });
      return ranks;
    }
  }
  return ranks;
}

}  // namespace

Result<StepRanks::Rank*> StepRanks::Open(int64_t rank) {
  const auto file = files_.find(rank);
  if (file == files_.end()) {
    return NotFoundError(fmt::format("rank {} is not in the dump", rank));
  }
  std::optional<Rank>& opened = ranks_[rank];
  if (!opened) {
    MSP_ASSIGN_OR_RETURN(DumpEntries entries, DumpEntries::Open(file->second, files_.size()));
    opened.emplace(Rank{std::move(entries), {}, {}});
  }
  return &*opened;
}

Result<const StepRanks::CallsOfApi*> StepRanks::CallsOf(Rank& rank, std::string_view api) {
  const auto known = rank.calls.find(api);
  if (known != rank.calls.end()) {
    return &known->second;
  }
  CallsOfApi calls;
  std::map<Group, int64_t> counts;
  for (const std::string& name : rank.entries.calls()) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (parsed.kind == "Distributed" && parsed.subject == api &&
        parsed.direction == dump::Direction::kForward) {
      MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, rank.entries.Read(name), name);
      Group group = GroupOf(tree);
      const int64_t number = counts[group]++;
      const Place place = {std::move(group), number};
      calls.names.emplace(place, name);
      calls.places.emplace(name, place);
    }
  }
  return &rank.calls.emplace(std::string(api), std::move(calls)).first->second;
}

Result<PeerCalls> StepRanks::PeersOf(int64_t rank, std::string_view name) {
  const std::string_view api = dump::ParseEntryName(name).subject;
  MSP_ASSIGN_OR_RETURN(Rank * own, Open(rank));
  MSP_ASSIGN_OR_RETURN(const CallsOfApi* calls, CallsOf(*own, api));
  const auto call = calls->places.find(name);
  if (call == calls->places.end()) {
    return NotFoundError("the call is not in its own dump");
  }
  const Place& place = call->second;
  const Group& group = place.first;
  if (std::set<int64_t>(group.begin(), group.end()).size() != group.size()) {
    return BadFormatError("a rank stands twice in its group");
  }
  Group ranks = group;
  if (ranks.empty()) {  // the group of all ranks
    for (const auto& [other, file] : files_) {
      ranks.push_back(other);
    }
  }
  PeerCalls peers;
  peers.group_is_told = !group.empty();
  for (const int64_t other : ranks) {
    MSP_ASSIGN_OR_RETURN(Rank * peer, Open(other));
    MSP_ASSIGN_OR_RETURN(const CallsOfApi* its_calls, CallsOf(*peer, api));
    const auto partner = its_calls->names.find(place);
    if (partner == its_calls->names.end()) {
      return NotFoundError(fmt::format("rank {} of its group did not record this call", other));
    }
    if (other == rank) {
      peers.own = peers.trees.size();
    }
    MSP_ASSIGN_OR_RETURN(dump::EntryTree tree, peer->entries.Read(partner->second),
                         partner->second);
    peers.trees.push_back(std::move(tree));
    peers.ranks.push_back(other);
    peers.names.push_back(partner->second);
    peers.tensors.push_back(peer->entries.tensors());
  }
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    return NotFoundError("the rank is none of its group");
  }
  return peers;
}

Result<const StepRanks::Messages*> StepRanks::MessagesOfRank(Rank& rank) {
  if (!rank.messages) {
    Messages messages;
    for (const std::string& name : rank.entries.calls()) {
      const dump::EntryName parsed = dump::ParseEntryName(name);
      if (parsed.kind == "Distributed" && IsPointToPoint(parsed.subject) &&
          parsed.direction == dump::Direction::kForward) {
        MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, rank.entries.Read(name), name);
        for (Message& message : MessagesOf(parsed.subject, tree)) {
          const size_t number = messages.all.size();
          MessageOfCall one{std::move(message), name, 0, 0};
          const auto add = [&](std::optional<std::string> group) {
            std::vector<size_t>& stream = messages.streams[{one.message.is_sent, one.message.peer,
                                                            one.message.tag, std::move(group)}];
            stream.push_back(number);
            return stream.size() - 1;
          };
          one.place = add(one.message.group);
          one.place_in_all = add(std::nullopt);
          messages.of_call[name].push_back(number);
          messages.all.push_back(std::move(one));
        }
      }
    }
    rank.messages = std::move(messages);
  }
  return &*rank.messages;
}

Result<const StepRanks::MessageOfCall*> StepRanks::PartnerOf(int64_t rank,
                                                             const MessageOfCall& own) {
  const Message& message = own.message;
  if (message.peer < 0) {
    return NotFoundError("the dump does not tell which rank it came from");
  }
  MSP_ASSIGN_OR_RETURN(Rank * here, Open(rank));
  MSP_ASSIGN_OR_RETURN(Rank * there, Open(message.peer));
  MSP_ASSIGN_OR_RETURN(const Messages* own_messages, MessagesOfRank(*here));
  MSP_ASSIGN_OR_RETURN(const Messages* its_messages, MessagesOfRank(*there));
  static const std::vector<size_t> kNoMessages;
  const auto stream = [&](const Messages& messages, bool is_sent, int64_t peer,
                          const std::optional<std::string>& group) -> const std::vector<size_t>& {
    const auto found = messages.streams.find({is_sent, peer, message.tag, group});
    return found == messages.streams.end() ? kNoMessages : found->second;
  };
  const std::vector<size_t>* ours = nullptr;
  const std::vector<size_t>* theirs = nullptr;
  // Of one group or, where both sides name their groups differently, of all.
  for (const bool of_group : {true, false}) {
    const auto group = of_group ? std::optional(message.group) : std::nullopt;
    ours = &stream(*own_messages, message.is_sent, message.peer, group);
    theirs = &stream(*its_messages, !message.is_sent, rank, group);
    if (ours->size() == theirs->size()) {
      return &its_messages->all[(*theirs)[of_group ? own.place : own.place_in_all]];
    }
  }
  const bool sent = message.is_sent;
  return NotFoundError(fmt::format("rank {} sent {} messages to rank {}, which received {}",
                                   sent ? rank : message.peer, sent ? ours->size() : theirs->size(),
                                   sent ? message.peer : rank,
                                   sent ? theirs->size() : ours->size()));
}

Result<std::vector<SentTensor>> StepRanks::SentTo(int64_t rank, std::string_view name) {
  MSP_ASSIGN_OR_RETURN(Rank * own, Open(rank));
  MSP_ASSIGN_OR_RETURN(const Messages* messages, MessagesOfRank(*own));
  std::vector<SentTensor> sent;
  const auto of_call = messages->of_call.find(name);
  if (of_call == messages->of_call.end()) {
    return sent;
  }
  // A batch of messages comes from few calls.
  std::map<std::pair<int64_t, std::string_view>, std::shared_ptr<const dump::EntryTree>> trees;
  for (const size_t number : of_call->second) {
    const MessageOfCall& received = messages->all[number];
    if (received.message.is_sent) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const MessageOfCall* partner, PartnerOf(rank, received));
    MSP_ASSIGN_OR_RETURN(Rank * sender, Open(received.message.peer));
    std::shared_ptr<const dump::EntryTree>& tree = trees[{received.message.peer, partner->call}];
    if (tree == nullptr) {
      MSP_ASSIGN_OR_RETURN(dump::EntryTree read, sender->entries.Read(partner->call),
                           partner->call);
      tree = std::make_shared<const dump::EntryTree>(std::move(read));
    }
    sent.push_back({tree, partner->message.tensor, sender->entries.tensors()});
  }
  return sent;
}

Result<std::vector<RankCall>> StepRanks::CallsTogether(int64_t rank, std::string_view name) {
  std::vector<RankCall> together;
  if (!IsPointToPoint(dump::ParseEntryName(name).subject)) {
    MSP_ASSIGN_OR_RETURN(const PeerCalls peers, PeersOf(rank, name));
    for (size_t i = 0; i < peers.ranks.size(); ++i) {
      together.push_back({peers.ranks[i], peers.names[i]});
    }
    return together;
  }
  together.push_back({rank, std::string(name)});
  for (size_t at = 0; at < together.size(); ++at) {
    const RankCall one = together[at];
    MSP_ASSIGN_OR_RETURN(Rank * own, Open(one.rank));
    MSP_ASSIGN_OR_RETURN(const Messages* messages, MessagesOfRank(*own));
    const auto of_call = messages->of_call.find(one.call);
    if (of_call == messages->of_call.end()) {
      continue;
    }
    for (const size_t number : of_call->second) {
      const MessageOfCall& message = messages->all[number];
      MSP_ASSIGN_OR_RETURN(const MessageOfCall* partner, PartnerOf(one.rank, message));
      const auto known = std::find_if(together.begin(), together.end(), [&](const RankCall& other) {
        return other.rank == message.message.peer;
      });
      if (known == together.end()) {
        together.push_back({message.message.peer, std::string(partner->call)});
      } else if (known->call != partner->call) {
        return UnsupportedError(
            fmt::format("rank {} handed its messages over in several calls", message.message.peer));
      }
    }
  }
  std::sort(together.begin(), together.end(),
            [](const RankCall& a, const RankCall& b) { return a.rank < b.rank; });
  return together;
}

StepRanks& DumpSteps::RanksOf(const std::optional<int64_t>& step) {
  if (!ranks_ || step_ != step) {
    std::map<int64_t, std::filesystem::path> files;
    for (const dump::RankFolder& rank : layout_.ranks) {
      if (rank.step == step && rank.rank && rank.has_dump) {
        files[*rank.rank] = rank.folder / dump::kDumpFileName;
      }
    }
    ranks_.emplace(std::move(files));
    step_ = step;
  }
  return *ranks_;
}

Result<LaterCall> DumpSteps::LaterOf(const dump::RankFolder& place, const std::string& name) {
  const dump::RankFolder* later = nullptr;
  for (const dump::RankFolder& rank : layout_.ranks) {
    if (place.step && rank.step && *rank.step > *place.step && rank.rank == place.rank &&
        rank.process == place.process && rank.has_dump &&
        (later == nullptr || *rank.step < *later->step)) {
      later = &rank;
    }
  }
  if (later == nullptr) {
    return NotFoundError(
        "its results are what the next step begins with, which is not in the dump");
  }
  if (!later_ || later_folder_ != later->folder) {
    MSP_ASSIGN_OR_RETURN(DumpEntries entries,
                         DumpEntries::Open(later->folder / dump::kDumpFileName));
    later_ = std::move(entries);
    later_folder_ = later->folder;
  }
  MSP_ASSIGN_OR_RETURN(dump::EntryTree tree, later_->Read(name), name);
  return LaterCall{std::move(tree), later_->tensors()};
}

OtherCalls DumpSteps::OthersOf(const dump::RankFolder& place, const std::string& name) {
  OtherCalls others;
  if (place.rank) {
    others.group = [this, &place, name] { return RanksOf(place.step).PeersOf(*place.rank, name); };
    others.sent = [this, &place, name] { return RanksOf(place.step).SentTo(*place.rank, name); };
  }
  others.later = [this, &place, name] { return LaterOf(place, name); };
  return others;
}

}  // namespace msprobe::analysis::recheck
