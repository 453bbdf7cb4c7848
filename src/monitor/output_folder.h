// Folders of a monitored run: "<stamp>-rank<R>-<id>", one per rank and start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/settings.h"

namespace msprobe::monitor {

// Where a process stands among all, as monitor.json beside its tables tells.

struct RankTopology {
  bool is_distributed = false;  // alone: rank 0 of 1
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t pipeline_stage = 0;
  std::vector<int64_t> pipeline_ranks = {0};                        // of the pipeline group
  std::optional<std::vector<int64_t>> tensor_ranks = std::nullopt;  // shards of the same parameters
  std::optional<std::vector<int64_t>> data_ranks = std::nullopt;    // copies of the same parameters
};

inline constexpr std::string_view kTopologyFileName = "monitor.json";
Status WriteTopologyFile(const std::filesystem::path& folder, const RankTopology& topology,
                         const Settings& settings, std::string_view framework);

struct OutputFolderName {
  std::string stamp;  // "Nov21_09-58-35"
  int64_t rank = 0;
  std::string id;
};
// nullopt: no folder of a run. The Python tool asks for no more than the start, up to the hyphen
// behind the rank.
std::optional<OutputFolderName> ParseOutputFolderName(std::string_view name);

// Seconds within a year of 366 days; nullopt when it is not a time stamp.
std::optional<int64_t> StampOrder(std::string_view stamp);
// The stamp of a time in seconds since 1970, in Asia/Shanghai (UTC+8 all year round).
std::string StampOf(int64_t unix_seconds);
// A stamp in the time zone of this process, "Nov29 10:50:32"; empty when it is none. Stamps have no
// year: taken is the last one before a day after `now`.
std::string LocalTimeOf(std::string_view stamp, int64_t now);

// Makes a new folder in `root`, which is made too; no other process gets the same one.
Result<std::filesystem::path> MakeOutputFolder(const std::filesystem::path& root, int64_t rank);
// The folder of `rank` whose stamp lies from stamps[0] to stamps[1]; the latest one of several. An
// error when there is none.
Result<std::filesystem::path> FindOutputFolder(const std::filesystem::path& root, int64_t rank,
                                               const std::vector<std::string>& stamps);

}  // namespace msprobe::monitor
