// Inside of the room: compresses pieces of one deflate stream independently of each other, so that
// threads can share the work and the pieces can simply be joined.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s;

namespace msprobe::report::internal {

// One per thread; keeps its tables between blocks.
class BlockCompressor {
 public:
  BlockCompressor();
  BlockCompressor(const BlockCompressor&) = delete;
  BlockCompressor& operator=(const BlockCompressor&) = delete;
  ~BlockCompressor();

  // Replaces `out` by the raw deflate form of `text`: whole bytes, not the end of a stream. False
  // when memory ran out.
  bool Compress(std::string_view text, std::string& out);

 private:
  std::unique_ptr<z_stream_s> stream_;
  bool ready_ = false;
};

// What ends a stream of such blocks: an empty last block.
inline constexpr std::string_view kStreamEnd("\x03\x00", 2);

uint32_t Crc32(std::string_view text);
// The CRC-32 of two texts one behind the other, of which the second has `second_bytes`.
uint32_t JoinCrc32(uint32_t first, uint32_t second, uint64_t second_bytes);

}  // namespace msprobe::report::internal
