// The ranks of one step, for calls whose results are made of the inputs of several ranks, and the
// steps of a dump, for calls whose results only the next step tells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/recheck/dump_entries.h"
#include "src/dump/communication.h"
#include "src/dump/layout.h"
#include "src/reference/call.h"

namespace msprobe::analysis::recheck {

// A call of one rank.
struct RankCall {
  int64_t rank = 0;
  std::string call;
};

class StepRanks {
 public:
  // dump.json by rank. Files are opened when a call asks for them.
  explicit StepRanks(std::map<int64_t, std::filesystem::path> files);

  // The calls that belong to entry `name` of rank `rank`: of the same API and the same group, as
  // many calls after the first one, on every rank of the group and in its order. kNotFound: a rank
  // of the group was not captured, or made fewer calls.
  Result<reference::PeerCalls> PeersOf(int64_t rank, std::string_view name);
  // What call `name` of rank `rank` received from other ranks, in the order of its receives: the
  // n-th message from a rank, with a tag, is the n-th that it sent with it. kNotFound: the sender
  // was not captured, or not as many messages.
  Result<std::vector<reference::SentTensor>> SentTo(int64_t rank, std::string_view name);
  // The calls of all ranks that a communication needs, its own included: those of its group, in the
  // group's order, or, of messages, those that they were exchanged with, and so on, by rank.
  // kUnsupported: two calls of one rank would have to be made at once.
  Result<std::vector<RankCall>> CallsTogether(int64_t rank, std::string_view name);

 private:
  // Communications of a rank: all its messages, or its calls of one collective.
  struct Calls {
    explicit Calls(int64_t rank) : communications(rank, dump::MatchRules::kLibraries) {}

    dump::RankCommunications communications;
    std::vector<std::string_view> names;  // of the entries; by call
    std::map<std::string_view, uint32_t> places;
    std::vector<uint32_t> tensors;  // of messages: nodes of their calls' entries; by endpoint
    std::optional<dump::CommunicationIndex> index;
  };
  struct Rank {
    DumpEntries entries;
    std::map<std::string, Calls, std::less<>> calls;  // by API, messages by ""; once asked for
  };
  // An endpoint of a communication, and the call that it is of.
  struct End {
    const Calls* calls = nullptr;
    uint32_t endpoint = 0;

    std::string_view call() const {
      return calls->names[calls->communications.endpoints()[endpoint].call];
    }
  };

  Result<Rank*> Open(int64_t rank);
  // Those of a rank that are matched with calls of `api`.
  Result<const Calls*> CallsOf(int64_t rank, std::string_view api);
  // The other end of a message; `peer` becomes the rank that has it.
  Result<End> PartnerOf(const End& own, int64_t& peer);

  std::map<int64_t, std::filesystem::path> files_;
  std::vector<int64_t> all_ranks_;  // of files_
  std::map<int64_t, std::optional<Rank>> ranks_;
};

class DumpSteps {
 public:
  // The layout must outlive this.
  explicit DumpSteps(const dump::DumpLayout& layout) : layout_(layout) {}

  // What other calls tell of call `name` of one rank of one step; `place` and this must outlive
  // what is returned. Files are read when it is asked.
  reference::OtherCalls OthersOf(const dump::RankFolder& place, const std::string& name);
  StepRanks& RanksOf(const std::optional<int64_t>& step);

 private:
  Result<reference::LaterCall> LaterOf(const dump::RankFolder& place, const std::string& name);

  const dump::DumpLayout& layout_;
  std::optional<StepRanks> ranks_;  // of the step that was asked for last
  std::optional<int64_t> step_;
  std::optional<DumpEntries> later_;  // of the folder that was asked for last
  std::filesystem::path later_folder_;
};

}  // namespace msprobe::analysis::recheck
