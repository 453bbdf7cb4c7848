// Zip archives over bytes that somebody else keeps alive (a mapped file). Stored members are
// borrowed in place, deflated ones inflated on request under limits. Everything is taken from the
// central directory; zip64 is understood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::io {

struct ZipEntry {
  std::string_view name;             // as stored; may hold any bytes
  uint64_t local_header_offset = 0;  // inside the file
  uint64_t compressed_bytes = 0;
  uint64_t size_bytes = 0;  // after inflating
  uint32_t crc32 = 0;       // 0: not recorded
  uint32_t external_attributes = 0;
  uint16_t method = 0;  // 0 stored, 8 deflated; others are refused when read
  uint16_t flags = 0;
  uint8_t host_system = 0;  // 3 is Unix: external_attributes then hold the file mode

  bool stored() const { return method == 0; }
  // A regular file under a relative name that stays inside the folder it is extracted to, on every
  // operating system.
  bool IsSafeToExtract() const;
};

// The content of a member: borrowed from the archive, or owned when it had to be inflated.
struct ZipBytes {
  std::span<const std::byte> bytes;
  std::unique_ptr<std::byte[]> owned;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class ZipArchive {
 public:
  // `file` must outlive the archive, its entries and borrowed members.
  static Result<ZipArchive> Open(std::span<const std::byte> file);

  // The size of the whole file.
  uint64_t size_bytes() const { return file_.size(); }
  // In directory order; names may repeat.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null when there is none; the last one when there are several, as Python's zipfile does.
  const ZipEntry* Find(std::string_view name) const;

  // The bytes of a member as they lie in the file: the content itself when stored. No checksum is
  // looked at.
  Result<std::span<const std::byte>> RawBytes(const ZipEntry& entry) const;
  // The content. Refuses members above `limit_bytes` before allocating; `verify_checksum` compares
  // the CRC-32 unless it is 0.
  Result<ZipBytes> Read(const ZipEntry& entry, uint64_t limit_bytes, bool verify_checksum) const;
  // The same of a deflated member, but only the first bytes of it are inflated; what follows is not
  // initialised, and takes no memory until it is touched.
  Result<ZipBytes> ReadFront(const ZipEntry& entry, uint64_t limit_bytes,
                             uint64_t front_bytes) const;

 private:
  // Room for a deflated member, `raw` being its bytes in the file.
  static Result<ZipBytes> MakeRoom(const ZipEntry& entry, std::span<const std::byte> raw,
                                   uint64_t limit_bytes);
  Status ParseDirectory(uint64_t offset, uint64_t size, uint64_t count);

  std::span<const std::byte> file_;
  uint64_t directory_offset_ = 0;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> index_;  // only for archives of many members
};

// "member \"a/b\": checksum ..." when `bytes` do not have the recorded CRC-32 (0 matches
// everything).
Status CheckMemberChecksum(const ZipEntry& entry, std::span<const std::byte> bytes);

// A zip archive written from front to back, members of any size. All members bear the same date:
// the same content gives the same bytes.

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
