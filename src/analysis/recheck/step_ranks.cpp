#include "src/analysis/recheck/step_ranks.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/json/config.h"

namespace msprobe::analysis::recheck {

std::string ModuleOf(const dump::EntryName& name) {
  return name.is_module ? fmt::format("{}.{}.{}", name.kind, name.subject, name.class_name)
                        : std::string();
}

Result<DumpEntries> DumpEntries::Open(const std::filesystem::path& json_path, size_t readers) {
  DumpEntries entries;
  entries.loads_ = std::make_shared<reference::TensorLoads>(readers);
  entries.json_path_ = json_path;
  MSP_ASSIGN_OR_RETURN(
      const dump::EntryScanOutcome outcome,
      dump::ScanEntries(
          json_path, [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
            const auto [place, is_new] = entries.places_.emplace(std::string(entry.name), Place());
            place->second = {entry.offset, entry.text.size()};
            const dump::EntryName name = dump::ParseEntryName(entry.name);
            if (is_new && name.direction != dump::Direction::kNone) {
              entries.calls_.emplace_back(entry.name);
            }
            return true;
          }));
  if (!outcome.has_data) {
    return BadFormatError(
        fmt::format("{} holds no calls: it has no object \"data\"", json_path.string()));
  }
  entries.task_ = outcome.task.value_or("");
  entries.framework_ = outcome.framework.value_or("");
  entries.truncated_ = outcome.truncated;
  entries.size_bytes_ = outcome.size_bytes;
  MSP_ASSIGN_OR_RETURN(entries.access_, dump::EntryAccess::Open(json_path));
  entries.ReadRemarks();
  return entries;
}

// Without a manifest, as in dumps of the Python tool, nothing was remarked.
void DumpEntries::ReadRemarks() {
  const Result<json::Config> manifest =
      json::LoadJsonConfig(json_path_.parent_path() / dump::kManifestFileName);
  if (!manifest.ok()) {
    return;
  }
  if (const json::Json* altered = json::Find(manifest->root(), "altered_modules")) {
    for (const auto& [module, why] : altered->items()) {
      altered_modules_.emplace(module, json::TextOf(why));
    }
  }
  if (const json::Json* own = json::Find(manifest->root(), "own_gradients")) {
    for (const json::Json& parameter : json::ItemsOf(*own)) {
      own_gradients_.insert(json::TextOf(parameter));
    }
  }
}

reference::Remarks DumpEntries::RemarksOf(std::string_view call) const {
  reference::Remarks remarks;
  const std::string module = ModuleOf(dump::ParseEntryName(call));
  if (module.empty()) {
    return remarks;
  }
  if (const auto altered = altered_modules_.find(module); altered != altered_modules_.end()) {
    remarks.alteration = altered->second;
  }
  for (auto own = own_gradients_.lower_bound(module + ".");
       own != own_gradients_.end() && own->starts_with(module + "."); ++own) {
    remarks.own_gradients.insert(own->substr(module.size() + 1));
  }
  return remarks;
}

std::filesystem::path DumpEntries::tensor_folder() const {
  return json_path_.parent_path() / dump::kTensorFolderName;
}

Result<dump::EntryTree> DumpEntries::Read(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    return NotFoundError(fmt::format("{} has no entry {}", json_path_.string(), name));
  }
  return access_->Read(found->second.offset, found->second.bytes);
}

namespace {

// A rank has all its messages in one count, whatever the API.
std::string_view CountOf(std::string_view api) {
  const dump::CommunicationApi* facts = dump::FindCommunicationApi(api);
  return facts == nullptr || facts->kind == dump::CommunicationKind::kCollective
             ? api
             : std::string_view();
}

}  // namespace

StepRanks::StepRanks(std::map<int64_t, std::filesystem::path> files) : files_(std::move(files)) {
  for (const auto& [rank, file] : files_) {
    all_ranks_.push_back(rank);
  }
}

Result<StepRanks::Rank*> StepRanks::Open(int64_t rank) {
  const auto file = files_.find(rank);
  if (file == files_.end()) {
    return NotFoundError(fmt::format("rank {} is not in the dump", rank));
  }
  std::optional<Rank>& opened = ranks_[rank];
  if (!opened) {
    MSP_ASSIGN_OR_RETURN(DumpEntries entries, DumpEntries::Open(file->second, files_.size()));
    opened.emplace(Rank{std::move(entries), {}});
  }
  return &*opened;
}

Result<const StepRanks::Calls*> StepRanks::CallsOf(int64_t rank, std::string_view api) {
  MSP_ASSIGN_OR_RETURN(Rank * opened, Open(rank));
  const std::string_view count = CountOf(api);
  const auto known = opened->calls.find(count);
  if (known != opened->calls.end()) {
    return &known->second;
  }
  Calls calls(rank);
  for (const std::string& name : opened->entries.calls()) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (parsed.kind == "Distributed" && CountOf(parsed.subject) == count &&
        parsed.direction == dump::Direction::kForward) {
      MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, opened->entries.Read(name), name);
      const dump::Communication call =
          dump::ReadCommunication(parsed.subject, tree, dump::MatchRules::kLibraries);
      for (const dump::Transfer& message : call.transfers) {
        calls.tensors.push_back(message.tensor);
      }
      calls.places.emplace(name, calls.communications.Add(call));
      calls.names.push_back(name);
    }
  }
  calls.index.emplace(calls.communications, all_ranks_);
  return &opened->calls.emplace(std::string(count), std::move(calls)).first->second;
}

Result<reference::PeerCalls> StepRanks::PeersOf(int64_t rank, std::string_view name) {
  const std::string_view api = dump::ParseEntryName(name).subject;
  MSP_ASSIGN_OR_RETURN(const Calls* calls, CallsOf(rank, api));
  const auto call = calls->places.find(name);
  if (call == calls->places.end()) {
    return NotFoundError("the call is not in its own dump");
  }
  MSP_ASSIGN_OR_RETURN(const dump::EntryTree own, ranks_[rank]->entries.Read(name), name);
  const std::vector<int64_t> group =
      dump::ReadCommunication(api, own, dump::MatchRules::kLibraries).group.ranks;
  if (std::set<int64_t>(group.begin(), group.end()).size() != group.size()) {
    return BadFormatError("a rank stands twice in its group");
  }
  const dump::CommunicationIndex::Identity identity =
      calls->index->IdentityOf(calls->communications.FirstEndpoint(call->second), nullptr);
  reference::PeerCalls peers;
  peers.group_is_told = !group.empty();
  peers.ranks = group.empty() ? all_ranks_ : group;
  const auto own_place = std::find(peers.ranks.begin(), peers.ranks.end(), rank);
  for (const int64_t other : peers.ranks) {
    MSP_ASSIGN_OR_RETURN(const Calls* its_calls, CallsOf(other, api));
    const std::optional<uint32_t> partner =
        its_calls->index->Find(*identity.channel, false, identity.number);
    if (!partner) {
      return NotFoundError(fmt::format("rank {} of its group did not record this call", other));
    }
    const std::string_view its_name = End{its_calls, *partner}.call();
    const DumpEntries& entries = ranks_[other]->entries;
    MSP_ASSIGN_OR_RETURN(dump::EntryTree tree, entries.Read(its_name), its_name);
    peers.trees.push_back(std::move(tree));
    peers.names.emplace_back(its_name);
    peers.tensors.push_back(entries.tensors());
  }
  if (own_place == peers.ranks.end()) {
    return NotFoundError("the rank is none of its group");
  }
  peers.own = static_cast<size_t>(own_place - peers.ranks.begin());
  return peers;
}

Result<StepRanks::End> StepRanks::PartnerOf(const End& own, int64_t& peer) {
  const dump::Endpoint& end = own.calls->communications.endpoints()[own.endpoint];
  const dump::Channel& channel = own.calls->communications.channels()[end.channel];
  peer = end.sends ? channel.receiver : channel.sender;
  if (peer < 0) {
    return NotFoundError("the dump does not tell which rank it came from");
  }
  MSP_ASSIGN_OR_RETURN(const Calls* there, CallsOf(peer, ""));
  const dump::CommunicationIndex::Identity identity =
      own.calls->index->IdentityOf(own.endpoint, &*there->index);
  const size_t ours = own.calls->index->Count(*identity.channel, end.sends);
  const size_t theirs = there->index->Count(*identity.channel, !end.sends);
  if (ours != theirs) {
    return NotFoundError(fmt::format("rank {} sent {} messages to rank {}, which received {}",
                                     channel.sender, end.sends ? ours : theirs, channel.receiver,
                                     end.sends ? theirs : ours));
  }
  return End{there, *there->index->Find(*identity.channel, !end.sends, identity.number)};
}

Result<std::vector<reference::SentTensor>> StepRanks::SentTo(int64_t rank, std::string_view name) {
  MSP_ASSIGN_OR_RETURN(const Calls* own, CallsOf(rank, ""));
  std::vector<reference::SentTensor> sent;
  const auto call = own->places.find(name);
  if (call == own->places.end()) {
    return sent;
  }
  // A batch of messages comes from few calls.
  std::map<std::pair<int64_t, std::string_view>, std::shared_ptr<const dump::EntryTree>> trees;
  for (uint32_t at = own->communications.FirstEndpoint(call->second);
       at < own->communications.FirstEndpoint(call->second + 1); ++at) {
    if (own->communications.endpoints()[at].sends) {
      continue;
    }
    int64_t peer = 0;
    MSP_ASSIGN_OR_RETURN(const End partner, PartnerOf({own, at}, peer));
    const uint32_t tensor = partner.calls->tensors[partner.endpoint];
    if (tensor == dump::EntryTree::kNone) {
      return NotFoundError(
          fmt::format("the dump does not hold the tensor that rank {} sent", peer));
    }
    const DumpEntries& sender = ranks_[peer]->entries;
    std::shared_ptr<const dump::EntryTree>& tree = trees[{peer, partner.call()}];
    if (tree == nullptr) {
      MSP_ASSIGN_OR_RETURN(dump::EntryTree read, sender.Read(partner.call()), partner.call());
      tree = std::make_shared<const dump::EntryTree>(std::move(read));
    }
    sent.push_back({tree, tensor, sender.tensors()});
  }
  return sent;
}

Result<std::vector<RankCall>> StepRanks::CallsTogether(int64_t rank, std::string_view name) {
  std::vector<RankCall> together;
  if (!CountOf(dump::ParseEntryName(name).subject).empty()) {
    MSP_ASSIGN_OR_RETURN(const reference::PeerCalls peers, PeersOf(rank, name));
    for (size_t i = 0; i < peers.ranks.size(); ++i) {
      together.push_back({peers.ranks[i], peers.names[i]});
    }
    return together;
  }
  together.push_back({rank, std::string(name)});
  for (size_t at = 0; at < together.size(); ++at) {
    const RankCall one = together[at];
    MSP_ASSIGN_OR_RETURN(const Calls* own, CallsOf(one.rank, ""));
    const auto call = own->places.find(one.call);
    if (call == own->places.end()) {
      continue;
    }
    for (uint32_t end = own->communications.FirstEndpoint(call->second);
         end < own->communications.FirstEndpoint(call->second + 1); ++end) {
      int64_t peer = 0;
      MSP_ASSIGN_OR_RETURN(const End partner, PartnerOf({own, end}, peer));
      const auto known = std::find_if(together.begin(), together.end(),
                                      [&](const RankCall& other) { return other.rank == peer; });
      if (known == together.end()) {
        together.push_back({peer, std::string(partner.call())});
      } else if (known->call != partner.call()) {
        return UnsupportedError(
            fmt::format("rank {} handed its messages over in several calls", peer));
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

Result<reference::LaterCall> DumpSteps::LaterOf(const dump::RankFolder& place,
                                                const std::string& name) {
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
  return reference::LaterCall{std::move(tree), later_->tensors()};
}

reference::OtherCalls DumpSteps::OthersOf(const dump::RankFolder& place, const std::string& name) {
  reference::OtherCalls others;
  if (place.rank) {
    others.group = [this, &place, name] { return RanksOf(place.step).PeersOf(*place.rank, name); };
    others.sent = [this, &place, name] { return RanksOf(place.step).SentTo(*place.rank, name); };
  }
  others.later = [this, &place, name] { return LaterOf(place, name); };
  return others;
}

}  // namespace msprobe::analysis::recheck
