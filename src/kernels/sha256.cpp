#include "src/kernels/sha256.h"

#include <algorithm>
#include <bit>

namespace msprobe::kernels {
namespace {

// The first 32 bits behind the point of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr size_t kBlockBytes = 64;

uint32_t BigEndianAt(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24U | std::to_integer<uint32_t>(bytes[1]) << 16U |
         std::to_integer<uint32_t>(bytes[2]) << 8U | std::to_integer<uint32_t>(bytes[3]);
}

}  // namespace

void Sha256::Block(const std::byte* block) {
  std::array<uint32_t, 64> words;
  for (size_t i = 0; i < 16; ++i) {
    words[i] = BigEndianAt(block + 4 * i);
  }
  for (size_t i = 16; i < words.size(); ++i) {
    const uint32_t a = words[i - 15];
    const uint32_t b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3U)) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10U));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
    const uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state_.size(); ++i) {
    state_[i] += added[i];
  }
}

void Sha256::Add(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  if (rest_bytes_ > 0) {
    const size_t taken = std::min(bytes.size(), kBlockBytes - rest_bytes_);
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(rest_bytes_));
    rest_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_bytes_ < kBlockBytes) {
      return;
    }
    Block(rest_.data());
    rest_bytes_ = 0;
  }
  for (; bytes.size() >= kBlockBytes; bytes = bytes.subspan(kBlockBytes)) {
    Block(bytes.data());
  }
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
  rest_bytes_ = bytes.size();
}

Sha256Digest Sha256::Finish() {
  const uint64_t bits = bytes_ * 8;
  std::array<std::byte, 2 * kBlockBytes> end{};
  end[0] = std::byte{0x80};
  const size_t padded = rest_bytes_ < kBlockBytes - 8 ? kBlockBytes : 2 * kBlockBytes;
  const size_t count = padded - rest_bytes_;
  for (size_t i = 0; i < 8; ++i) {
    end[count - 1 - i] = static_cast<std::byte>(bits >> (8 * i));
  }
  Add(std::span<const std::byte>(end).first(count));
  Sha256Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

HmacSha256::HmacSha256(std::span<const std::byte> key) {
  Sha256Digest hashed;
  if (key.size() > kBlockBytes) {
    Sha256 hash;
    hash.Add(key);
    hashed = hash.Finish();
    key = hashed;
  }
  std::array<std::byte, kBlockBytes> inner;
  std::array<std::byte, kBlockBytes> outer;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    const std::byte value = i < key.size() ? key[i] : std::byte{0};
    inner[i] = value ^ std::byte{0x36};
    outer[i] = value ^ std::byte{0x5c};
  }
  inner_.Add(inner);
  outer_.Add(outer);
}

Sha256Digest HmacSha256::Finish() {
  outer_.Add(inner_.Finish());
  return outer_.Finish();
}

bool AreSame(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) {
    return false;
  }
  volatile uint8_t difference = 0;  // volatile: each byte is looked at
  for (size_t i = 0; i < a.size(); ++i) {
    difference = difference | std::to_integer<uint8_t>(a[i] ^ b[i]);
  }
  return difference == 0;
}

}  // namespace msprobe::kernels
