// Where a process stands among all, as monitor.json beside its tables tells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/monitor/settings.h"

namespace msprobe::monitor {

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

}  // namespace msprobe::monitor
