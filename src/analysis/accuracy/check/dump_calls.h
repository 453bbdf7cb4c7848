// The calls of a dump.json that can be checked, in file order: where their records lie.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/entry_scan.h"

namespace msprobe::analysis::accuracy {

struct RecordPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct DumpCall {
  std::string name;  // "Torch.matmul.0"
  RecordPlace forward;
  std::optional<RecordPlace> backward;
};

struct DumpCalls {
  std::vector<DumpCall> calls;
  std::string framework;                // "pytorch"; empty: the dump does not tell
  std::filesystem::path tensor_folder;  // of real data; empty: statistics
  bool truncated = false;
  std::vector<std::string> warnings;
};

// Names that belong to no call are an error, as are files without data.
Result<DumpCalls> ReadDumpCalls(const std::filesystem::path& path);

}  // namespace msprobe::analysis::accuracy
