// A zip archive written from front to back, members of any size. All members bear the same date:
// the same content gives the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::io {

class ZipWriter {
 public:
  explicit ZipWriter(base::AtomicFile& file) : file_(file) {}

  // A member whose content fits in one piece.
  Status AddStored(std::string_view name, std::string_view content);
  // The same, compressed; at most 4 GiB.
  Status AddDeflated(std::string_view name, std::string_view content);

  // A deflated member in pieces. `may_be_large` reserves room for sizes of 4 GiB and more; a member
  // that grows so large without it is an error at its end.
  Status Begin(std::string_view name, bool may_be_large);
  Status Append(std::string_view compressed) { return file_.Write(compressed); }
  Status End(uint32_t crc32, uint64_t size_bytes);

  // Writes the directory; nothing may follow.
  Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t offset = 0;
    uint64_t compressed_bytes = 0;
    uint64_t size_bytes = 0;
    uint32_t crc32 = 0;
    uint16_t method = 0;
    bool large = false;
  };
  static std::string LocalHeader(const Member& member);
  static std::string DirectoryEntry(const Member& member);

  base::AtomicFile& file_;
  std::vector<Member> members_;
};

}  // namespace msprobe::io
