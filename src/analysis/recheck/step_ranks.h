// The calls of one rank of a dump, each with its place in the file: an entry is read when it is
// looked at, so that memory does not grow with the dump.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/communication.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/reference/call.h"

namespace msprobe::analysis::recheck {

// "Module.net.fc.Linear" for every call of that module; empty if the entry is not a module call.
std::string ModuleOf(const dump::EntryName& name);

class DumpEntries {
 public:
  // `json_path` is the dump.json, whose calls so many ranks read. Entries that are not calls
  // (debug, parameters_grad) are known by their names, but not listed.
  static Result<DumpEntries> Open(const std::filesystem::path& json_path, size_t readers = 1);

  const std::vector<std::string>& calls() const { return calls_; }  // in file order
  const std::string& task() const { return task_; }
  const std::string& framework() const { return framework_; }  // may be empty
  bool truncated() const { return truncated_; }
  std::filesystem::path tensor_folder() const;
  // Its files; how often each was read is counted for all calls together.
  reference::TensorSource tensors() const { return reference::TensorsOf(tensor_folder(), loads_); }
  uint64_t size_bytes() const { return size_bytes_; }
  // The remarks about the module of a call; empty for other calls, and for dumps that msprobe did
  // not capture.
  reference::Remarks RemarksOf(std::string_view call) const;

  bool Has(std::string_view name) const { return places_.find(name) != places_.end(); }
  // kNotFound where there is no entry of this name.
  Result<dump::EntryTree> Read(std::string_view name) const;

 private:
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  void ReadRemarks();

  std::filesystem::path json_path_;
  std::vector<std::string> calls_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::string, std::string, std::less<>> altered_modules_;
  std::set<std::string, std::less<>> own_gradients_;
  std::string task_;
  std::string framework_;
  bool truncated_ = false;
  uint64_t size_bytes_ = 0;
  std::shared_ptr<reference::TensorLoads> loads_;
  std::optional<dump::EntryAccess> access_;
};

// The ranks of one step, for calls whose results are made of the inputs of several ranks, and the
// steps of a dump, for calls whose results only the next step tells.

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
  // The calls of a rank that are matched with calls of `api`.
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
