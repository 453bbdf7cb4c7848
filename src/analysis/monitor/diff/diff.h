// What a comparison of two monitored runs answers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::monitor {

// The two runs that are compared, and when two of their numbers count as different.

struct DiffOptions {
  std::filesystem::path a;
  std::filesystem::path b;
  // Two numbers differ when they are further apart than atol + rtol * the larger magnitude; NaN
  // differs from everything but NaN.
  double rtol = 1e-3;
  double atol = 1e-5;
  std::vector<std::string> tables;  // empty: all
  std::vector<std::string> ops;     // empty: all
  // Values of all ranks become one before they are compared, also where the ranks are the same.
  bool reduce = false;
  size_t threads = 0;
};

// Where two runs diverge: by statistic, and first of all.

struct Divergence {
  int64_t step = 0;
  int32_t stage = 0;
  std::string name;
  int32_t micro_step = -1;
  int32_t rank = -1;  // -1: of all ranks together
  double a = 0;
  double b = 0;
  double relative = 0;  // |a - b| / the larger magnitude; NaN or infinite where one of them is
};

// One statistic of one table.
struct DiffLine {
  std::string table;
  std::string op;
  uint64_t compared = 0;
  uint64_t divergent = 0;
  uint64_t unequal = 0;             // also those that are near enough
  uint64_t nan = 0;                 // NaN in both runs
  std::optional<Divergence> first;  // in the order of steps, then as the names first ran
  std::optional<Divergence> worst;  // by relative difference
};

struct DiffResult {
  std::vector<DiffLine> lines;   // by table in the order of a step, op in the order of columns
  size_t first_line = SIZE_MAX;  // whose first divergence came before all others
  bool reduced = false;
  size_t ranks_a = 0;
  size_t ranks_b = 0;
  size_t unread_files = 0;  // tables of both runs that are left out or end early
  uint64_t only_a = 0;      // rows without a partner
  uint64_t only_b = 0;
  std::vector<std::string> notes;  // what could not be compared, and why
  std::vector<std::string> warnings;

  const DiffLine* first() const { return first_line < lines.size() ? &lines[first_line] : nullptr; }
};

// Two monitored runs of the same training: the first step and module where they diverge.

// With different ranks on both sides values of all ranks become one per name and step: norms as the
// root of the sum of squares over shards, min, max and amax as themselves, counts as sums, means,
// zeros and entropies of experts as averages. A rank whose statistics of a name are digit for digit
// those of another is a copy and counts once; of parameters, moments and reduced gradients so do
// ranks of one data-parallel group (monitor.json). Pipeline stages are kept apart.
Result<DiffResult> RunDiff(const DiffOptions& options);

// The answer of a comparison of two monitored runs as its own JSON, for `--json`.

// One JSON object.
std::string DiffJson(const DiffOptions& options, const DiffResult& result);

inline constexpr std::array<report::GateLevel, 1> kDiffLevels = {
    {{"different", "a step at which the runs diverge"}}};

report::Document MakeDocument(const DiffResult& result);

}  // namespace msprobe::analysis::monitor
