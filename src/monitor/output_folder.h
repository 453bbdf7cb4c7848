// Folders of a monitored run: "<stamp>-rank<R>-<id>", one per rank and start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::monitor {

struct OutputFolderName {
  std::string stamp;  // "Nov21_09-58-35"
  int64_t rank = 0;
  std::string id;
};
// nullopt: no folder of a run. The Python tool asks for no more than the start, up to the hyphen
// behind the rank.
std::optional<OutputFolderName> ParseOutputFolderName(std::string_view name);

// Seconds within a year of 366 days; nullopt when it is no time stamp.
std::optional<int64_t> StampOrder(std::string_view stamp);
// Of a time in seconds since 1970, in Asia/Shanghai (UTC+8 all year round).
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
