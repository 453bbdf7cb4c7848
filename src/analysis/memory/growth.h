// Two memory snapshots joined by stack, or the largest of one; and the answer.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/memory/snapshot.h"
#include "src/report/document.h"

namespace msprobe::analysis::memory {

struct Options {
  std::filesystem::path before;
  std::optional<std::filesystem::path> after;  // none: `before` alone
  std::filesystem::path output = "./";
  size_t top = 10;  // stacks that a screen shows
};

// A row of memory.csv.
struct StackGrowth {
  std::string stack;
  std::string code;
  Amount before;
  Amount after;
  Amount unfreed;  // of the later snapshot

  int64_t change() const {
    return static_cast<int64_t>(after.bytes) - static_cast<int64_t>(before.bytes);
  }
};

struct Growth {
  // One snapshot alone is the later one.
  std::optional<Snapshot> before;
  Snapshot after;
  std::vector<StackGrowth> rows;  // the largest change first; of one alone the largest
  std::filesystem::path csv;
};

// Reads, joins and writes memory.csv.
Result<Growth> Run(const Options& options);

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"grown", "more memory is allocated than before", false}}};

report::Document MakeDocument(const Growth& growth, size_t top);

}  // namespace msprobe::analysis::memory
