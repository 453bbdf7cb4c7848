// Builds archives and temporary files for tests, byte by byte, so that they can be wrong on
// purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <libdeflate.h>

#include "src/kernels/crc32.h"

namespace msprobe::io::test_support {

inline std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename Integer>
void PutLittle(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>((static_cast<uint64_t>(value) >> (8 * i)) & 0xFFU));
  }
}

struct TestMember {
  std::string name = {};
  std::string content = {};
  bool deflate = false;
  bool zip64 = false;  // sizes and offset in the extra field
  bool wrong_crc = false;
  bool no_crc = false;
  uint16_t flags = 0;
  std::string local_name = {};  // when it differs from `name`
  uint64_t claimed_bytes = 0;   // instead of the true size, when not 0
  uint64_t lies_at = 0;         // inside of another member, when not 0: nothing is written
};

inline std::string Deflate(const std::string& content) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string out(libdeflate_deflate_compress_bound(compressor, content.size()), '\0');
  out.resize(libdeflate_deflate_compress(compressor, content.data(), content.size(), out.data(),
                                         out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

// A zip archive; `zip64_end` adds the zip64 end record and locator as PyTorch always does.
inline std::string MakeZip(const std::vector<TestMember>& members, bool zip64_end = false,
                           const std::string& comment = "") {
  std::string out;
  std::string directory;
  for (const TestMember& member : members) {
    const std::string data = member.deflate ? Deflate(member.content) : member.content;
    const uint64_t size = member.claimed_bytes != 0 ? member.claimed_bytes : member.content.size();
    const uint64_t offset = member.lies_at != 0 ? member.lies_at : out.size();
    uint32_t crc = kernels::Crc32(std::string_view(member.content));
    crc = member.no_crc ? 0 : member.wrong_crc ? crc + 1 : crc;
    const std::string& local_name = member.local_name.empty() ? member.name : member.local_name;
    if (member.lies_at == 0) {
      out += "PK\x03\x04";
      PutLittle<uint16_t>(out, 20);
      PutLittle<uint16_t>(out, member.flags);
      PutLittle<uint16_t>(out, member.deflate ? 8 : 0);
      out.append(16, '\0');  // time, CRC and sizes: readers take them from the directory
      PutLittle(out, static_cast<uint16_t>(local_name.size()));
      PutLittle<uint16_t>(out, 7);
      out += local_name;
      out += std::string("FB\x03\0ZZZ", 7);
      out += data;
    }

    std::string extra;
    if (member.zip64) {
      PutLittle<uint16_t>(extra, 1);
      PutLittle<uint16_t>(extra, 24);
      PutLittle<uint64_t>(extra, size);
      PutLittle<uint64_t>(extra, data.size());
      PutLittle<uint64_t>(extra, offset);
    }
    directory += "PK\x01\x02";
    PutLittle<uint16_t>(directory, 0x0314);  // made on Unix
    PutLittle<uint16_t>(directory, 20);
    PutLittle<uint16_t>(directory, member.flags);
    PutLittle<uint16_t>(directory, member.deflate ? 8 : 0);
    PutLittle<uint32_t>(directory, 0);
    PutLittle<uint32_t>(directory, crc);
    PutLittle(directory, member.zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(data.size()));
    PutLittle(directory, member.zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(size));
    PutLittle(directory, static_cast<uint16_t>(member.name.size()));
    PutLittle(directory, static_cast<uint16_t>(extra.size()));
    directory.append(10, '\0');
    PutLittle(directory, member.zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(offset));
    directory += member.name;
    directory += extra;
  }
  const uint64_t directory_offset = out.size();
  out += directory;
  if (zip64_end) {
    const uint64_t at = out.size();
    out += "PK\x06\x06";
    PutLittle<uint64_t>(out, 44);
    out.append(12, '\0');
    PutLittle<uint64_t>(out, members.size());
    PutLittle<uint64_t>(out, members.size());
    PutLittle<uint64_t>(out, directory.size());
    PutLittle<uint64_t>(out, directory_offset);
    out += "PK\x06\x07";
    PutLittle<uint32_t>(out, 0);
    PutLittle<uint64_t>(out, at);
    PutLittle<uint32_t>(out, 1);
  }
  out += "PK\x05\x06";
  out.append(4, '\0');
  PutLittle(out, static_cast<uint16_t>(members.size()));
  PutLittle(out, static_cast<uint16_t>(members.size()));
  PutLittle(out, static_cast<uint32_t>(directory.size()));
  PutLittle(out, static_cast<uint32_t>(directory_offset));
  PutLittle(out, static_cast<uint16_t>(comment.size()));
  return out + comment;
}

}  // namespace msprobe::io::test_support
