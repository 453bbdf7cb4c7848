// What one rank's Flight Recorder holds: a ring of its last collectives and point-to-point calls.
// Pickles of protocols 0 to 5 and JSON; both are read as data, nothing in them is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::hang {

inline constexpr uint32_t kNoText = UINT32_MAX;

struct Call {
  uint32_t group = 0;       // index of Recording::groups
  uint32_t kind = 0;        // index of Recording::texts: "all_reduce", without the backend
  uint32_t dtypes = 0;      // the same: of the inputs
  uint32_t code = kNoText;  // the same: "trainer.py:214", the innermost frame of the user
  int64_t record = 0;       // place in the order of this rank's calls
  int64_t sequence = 0;     // of the group; p2p_seq_id of point to point
  uint64_t inputs = 0;      // elements
  uint64_t outputs = 0;
  // Ranks within the group, of a send or a recv.
  int32_t source = -1;
  int32_t target = -1;
  bool is_point_to_point = false;
  bool is_completed = false;
  bool is_retired = false;  // not waited for any more: it ended, or failed
};

struct RecordedGroup {
  std::string name;
  std::string description;          // empty where it says nothing
  std::vector<int64_t> ranks;       // sorted; empty: not recorded
  std::optional<int64_t> enqueued;  // sequence number of the last call, by the group's status
};

struct Recording {
  std::filesystem::path path;
  std::optional<int64_t> rank;  // that the file itself says
  std::vector<RecordedGroup> groups;
  std::vector<Call> calls;  // in their order
  std::vector<std::string> texts;
  bool has_lost = false;  // the ring has dropped earlier calls
};

// The recordings in a folder, or the one that `path` is; other files are left out, unreadable ones
// become warnings. Limits per file: 1 GiB, 4 Mi calls. kNotFound where there is none.
Result<std::vector<Recording>> ReadRecordings(const std::filesystem::path& path, size_t threads,
                                              bool quiet, std::vector<std::string>& warnings);

// The rank of every recording, all different. By what the file says, by a number in its name
// ("rank_3", else the last one of the name where these differ), by the groups that only this rank
// is in, and where nothing tells, by the order of the names; then `guessed` is set.
std::vector<int64_t> RanksOf(const std::vector<Recording>& recordings, bool* guessed);

}  // namespace msprobe::analysis::hang
