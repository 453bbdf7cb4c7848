// Entries of anomaly.json, the alerts that one rank wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/alert_judge.h"

namespace msprobe::analysis::monitor {

struct AnomalyFile {
  std::vector<msprobe::monitor::Anomaly>
      entries;                        // in file order; of equal keys the last one counts
  std::vector<std::string> warnings;  // entries that are none, at most 20 and a count
};
// A file that ends within an entry gives those before it, with a warning. One entry at a time is
// parsed.
Result<AnomalyFile> ReadAnomalyFile(const std::filesystem::path& path);
Result<AnomalyFile> ParseAnomalies(std::string_view text, const std::string& name);

struct RankAnomalies {
  int64_t rank = -1;  // of the folder "rank<R>"; -1 for another name
  std::filesystem::path path;
  AnomalyFile file;
};
// All <sub folder>/anomaly.json of `folder`, ranks in the order of their numbers, not read yet.
Result<std::vector<RankAnomalies>> FindAnomalyFiles(const std::filesystem::path& folder);
// Reads the file of a rank. One that cannot be read is a warning of its own.
void ReadAnomalies(RankAnomalies& rank);
// Both.
Result<std::vector<RankAnomalies>> ReadAllAnomalies(const std::filesystem::path& folder);

}  // namespace msprobe::analysis::monitor
