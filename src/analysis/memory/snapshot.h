// One memory snapshot of PyTorch's caching allocator (torch.cuda.memory._dump_snapshot) as bytes by
// stack.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::memory {

struct Amount {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

// All blocks that one line of code, called by the same lines, has allocated.
struct StackAmount {
  std::string stack;  // "model.py:43 forward < train.py:12 main"; kNoStack where none was recorded
  std::string code;   // "/a/model.py:43", the innermost line of the user's own code; may be empty
  Amount live;
  // The part that was allocated within the record of events and not freed in it.
  Amount unfreed;
};
inline constexpr std::string_view kBetweenFrames = " < ";
inline constexpr const char* kNoStack = "(no stack recorded)";

struct Snapshot {
  std::filesystem::path path;
  std::vector<StackAmount> stacks;  // by name
  Amount live;
  uint64_t segments = 0;
  uint64_t devices = 0;
  uint64_t reserved = 0;      // by the allocator, in all segments
  uint64_t stuck = 0;         // free, but in segments that live blocks hold
  uint64_t largest_free = 0;  // block
  uint64_t events = 0;        // in the record
  uint64_t out_of_memory = 0;
  // The most that was allocated in each hundredth of the record, one list per device that has one.
  static constexpr size_t kPoints = 100;
  std::vector<std::array<double, kPoints>> curves;
  std::vector<std::string> warnings;
};

// Whether a file is to be read as one: a pickle by its name, or by its first bytes.
bool IsSnapshotFile(const std::filesystem::path& path);

// kBadFormat for what is not a pickle, or a pickle of something else.
Result<Snapshot> ReadSnapshot(const std::filesystem::path& path);
Result<Snapshot> ReadSnapshotBytes(std::span<const std::byte> bytes);

}  // namespace msprobe::analysis::memory
