// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), where no OpenSSL can be counted on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace msprobe::kernels {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  void Add(std::span<const std::byte> bytes);
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text.data(), text.size()))); }
  Sha256Digest Finish();  // nothing is added after it

 private:
  void Block(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};
  size_t rest_bytes_ = 0;
  uint64_t bytes_ = 0;
};

class HmacSha256 {
 public:
  explicit HmacSha256(std::span<const std::byte> key);
  void Add(std::span<const std::byte> bytes) { inner_.Add(bytes); }
  void Add(std::string_view text) { inner_.Add(text); }
  Sha256Digest Finish();

 private:
  Sha256 inner_;
  Sha256 outer_;
};

// In a time that does not depend on where they differ.
bool AreSame(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace msprobe::kernels
