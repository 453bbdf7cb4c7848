// Every operator judged by itself, without looking at others: which level of overflow it shows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/nan/rank_dump.h"
#include "src/base/threads.h"
#include "src/dump/json_source.h"

namespace msprobe::analysis::nan {

enum class Level : uint8_t { kMedium, kHigh, kCritical };
std::string_view LevelName(Level level);  // "medium", "high", "critical"

enum class Scene : uint8_t {
  kOutputOnly,   // good inputs, bad output: critical
  kInputOutput,  // both bad: high
  kInputOnly,    // bad input, good output: medium
  kMutation,     // all good, but the output's norm is 100 times the inputs': high
};
std::string_view SceneName(Scene scene);

struct LevelFinding {
  int64_t rank = 0;
  std::string name;
  Level level = Level::kMedium;
  Scene scene = Scene::kInputOnly;
  std::vector<uint32_t> bad_arguments;  // positions in input_args (or input)
  std::vector<std::string> bad_keywords;
  std::vector<uint32_t> bad_outputs;
};

struct LevelSummary {
  std::vector<LevelFinding> findings;  // by rank, then in the file's order
  std::array<uint64_t, 3> counts{};    // by Level
};

// Nothing where the operator is as it should be, or where its bad values are those that calls of
// its kind may have: what torch.empty returns, buffers that are filled by a collective.
std::optional<LevelFinding> JudgeEntry(std::string_view name, const dump::EntryTree& entry);

Result<LevelSummary> JudgeRanks(std::span<const RankDump> ranks, base::ThreadPool& pool);

std::string LevelsJson(const LevelSummary& summary);

}  // namespace msprobe::analysis::nan
