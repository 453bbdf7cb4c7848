// The ranks of one step, for calls whose results are made of the inputs of several ranks, and the
// steps of a dump, for calls whose results only the next step tells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/recheck/call.h"
#include "src/analysis/recheck/dump_entries.h"
#include "src/analysis/recheck/messages.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::recheck {

// A call of one rank.
struct RankCall {
  int64_t rank = 0;
  std::string call;
};

class StepRanks {
 public:
  // dump.json by rank. Files are opened when a call asks for them.
  explicit StepRanks(std::map<int64_t, std::filesystem::path> files) : files_(std::move(files)) {}

  // The calls that belong to entry `name` of rank `rank`: of the same API and the same group, as
  // many calls after the first one, on every rank of the group and in its order. kNotFound: a rank
  // of the group was not captured, or made fewer calls.
  Result<PeerCalls> PeersOf(int64_t rank, std::string_view name);
  // What call `name` of rank `rank` received from other ranks, in the order of its receives: the
  // n-th message from a rank, with a tag, is the n-th that it sent with it. kNotFound: the sender
  // was not captured, or not as many messages.
  Result<std::vector<SentTensor>> SentTo(int64_t rank, std::string_view name);
  // The calls of all ranks that a communication needs, its own included: those of its group, in the
  // group's order, or, of messages, those that they were exchanged with, and so on, by rank.
  // kUnsupported: two calls of one rank would have to be made at once.
  Result<std::vector<RankCall>> CallsTogether(int64_t rank, std::string_view name);

 private:
  using Group = std::vector<int64_t>;       // empty: not in the dump
  using Place = std::pair<Group, int64_t>;  // which of the calls of a group, from 0
  struct CallsOfApi {
    std::map<std::string, Place, std::less<>> places;  // by name
    std::map<Place, std::string> names;
  };
  struct MessageOfCall {
    Message message;
    std::string_view call;  // of the entries' calls
    // Among the messages of its stream, and of its stream in all groups.
    size_t place = 0;
    size_t place_in_all = 0;
  };
  // What belongs together: sent or received, the other rank, the tag; and the group, or none where
  // it does not matter.
  using Stream = std::tuple<bool, int64_t, int64_t, std::optional<std::string>>;
  struct Messages {
    std::vector<MessageOfCall> all;  // in file order
    std::map<Stream, std::vector<size_t>> streams;
    std::map<std::string_view, std::vector<size_t>> of_call;
  };
  struct Rank {
    DumpEntries entries;
    std::map<std::string, CallsOfApi, std::less<>> calls;  // by API, once asked for
    std::optional<Messages> messages;                      // once asked for
  };

  Result<Rank*> Open(int64_t rank);
  Result<const CallsOfApi*> CallsOf(Rank& rank, std::string_view api);
  Result<const Messages*> MessagesOfRank(Rank& rank);
  // The other end of a message of `rank`.
  Result<const MessageOfCall*> PartnerOf(int64_t rank, const MessageOfCall& own);

  std::map<int64_t, std::filesystem::path> files_;
  std::map<int64_t, std::optional<Rank>> ranks_;
};

class DumpSteps {
 public:
  // The layout must outlive this.
  explicit DumpSteps(const dump::DumpLayout& layout) : layout_(layout) {}

  // What other calls tell of call `name` of one rank of one step; `place` and this must outlive
  // what is returned. Files are read when it is asked.
  OtherCalls OthersOf(const dump::RankFolder& place, const std::string& name);
  StepRanks& RanksOf(const std::optional<int64_t>& step);

 private:
  Result<LaterCall> LaterOf(const dump::RankFolder& place, const std::string& name);

  const dump::DumpLayout& layout_;
  std::optional<StepRanks> ranks_;  // of the step that was asked for last
  std::optional<int64_t> step_;
  std::optional<DumpEntries> later_;  // of the folder that was asked for last
  std::filesystem::path later_folder_;
};

}  // namespace msprobe::analysis::recheck
