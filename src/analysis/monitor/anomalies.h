// Entries of anomaly.json, the alerts that one rank wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/json/writer.h"

namespace msprobe::monitor {

struct Anomaly {
  std::string key;
  int64_t rank = 0;
  int64_t step = 0;
  int64_t micro_step = 0;
  int64_t pp_stage = 0;
  int64_t vpp_stage = 0;
  int64_t call_id = 0;
  std::string tag_name;
  std::string message;
  std::vector<int64_t> group_mates;
};

struct AnomalyFile {
  std::vector<Anomaly> entries;       // in file order; of equal keys the last one counts
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
// All <sub folder>/anomaly.json of `folder`, ranks in the order of their numbers. A file that
// cannot be read is a warning of its own.
Result<std::vector<RankAnomalies>> ReadAllAnomalies(const std::filesystem::path& folder);

// `"key": {...}` as the Python tool writes it.
void WriteAnomaly(const Anomaly& anomaly, json::Writer& json);

}  // namespace msprobe::monitor
