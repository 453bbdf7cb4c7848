// Where two runs diverge: by statistic, and first of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msprobe::analysis::monitor {

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

}  // namespace msprobe::analysis::monitor
