// The ranks of one step, for calls whose results are made of the inputs of several ranks.
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

#include "src/analysis/recheck/call.h"
#include "src/analysis/recheck/dump_entries.h"

namespace msprobe::analysis::recheck {

class StepRanks {
 public:
  // dump.json by rank. Files are opened when a call asks for them.
  explicit StepRanks(std::map<int64_t, std::filesystem::path> files) : files_(std::move(files)) {}

  // The calls that belong to entry `name` of rank `rank`: of the same API and the same group, as
  // many calls after the first one, on every rank of the group and in its order. kNotFound: a rank
  // of the group was not captured, or made fewer calls.
  Result<PeerCalls> PeersOf(int64_t rank, std::string_view name);

 private:
  using Group = std::vector<int64_t>;       // empty: not in the dump
  using Place = std::pair<Group, int64_t>;  // which of the calls of a group, from 0
  struct CallsOfApi {
    std::map<std::string, Place, std::less<>> places;  // by name
    std::map<Place, std::string> names;
  };
  struct Rank {
    DumpEntries entries;
    std::map<std::string, CallsOfApi, std::less<>> calls;  // by API, once asked for
  };

  Result<Rank*> Open(int64_t rank);
  Result<const CallsOfApi*> CallsOf(Rank& rank, std::string_view api);

  std::map<int64_t, std::filesystem::path> files_;
  std::map<int64_t, std::optional<Rank>> ranks_;
};

}  // namespace msprobe::analysis::recheck
