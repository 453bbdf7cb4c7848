// The files of a shared folder: rank<r>.<session>.<what>, each a whole frame that appears by a
// rename.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/online/frame.h"

namespace msprobe::online {

struct FolderFile {
  int64_t rank = 0;
  uint64_t session = 0;
  uint64_t sequence = 0;              // of calls
  FrameKind kind = FrameKind::kCall;  // hello, call or end
};

// rank3.5f3a9c0112345678.start, rank3.5f3a9c0112345678.00000017.call, rank3.5f3a9c0112345678.end
std::string FolderFileName(const FolderFile& file);
// nullopt: not one of ours.
std::optional<FolderFile> ParseFolderFileName(std::string_view name);

}  // namespace msprobe::online
