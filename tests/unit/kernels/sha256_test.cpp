#include "src/kernels/sha256.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace msprobe::kernels {
namespace {

std::string Hex(const Sha256Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    text += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return text;
}

std::string HashOf(std::string_view text) {
  Sha256 hash;
  hash.Add(text);
  return Hex(hash.Finish());
}

std::string MacOf(const std::string& key, std::string_view text) {
  HmacSha256 mac(std::as_bytes(std::span(key)));
  mac.Add(text);
  return Hex(mac.Finish());
}

TEST(Sha256, MatchesTheExamplesOfFips180) {
  EXPECT_EQ(HashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HashOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Byte i is (7 i + length) modulo 251; the digests are of Python's hashlib.
TEST(Sha256, EndsABlockInEveryWayHoweverTheBytesCome) {
  const std::vector<std::pair<size_t, const char*>> cases = {
      {55, "d604dc83c754bb5890ec011f3fa0552324cb1412205b5a5e83fd17cd4afe57ed"},
      {56, "0371e3fd4911ce4109ac9aaddc0ebdfe28431802ef70a966cb245da585f2a37e"},
      {63, "de8f546e5d44d4fb35d25af2748ed9b6644d200d56b6b0b6e71b095b44348dc6"},
      {64, "35eb8c80b4af970a05040dd151d5edad6172957c1ded27e521fdcf526178feb3"},
      {65, "c96988663bcd3779da5b1c0e499742ff48bf6148d5c044326ce3e5845a80e6ab"},
      {119, "7fb3869648ad8420f2e1a20812a61ba45c3db01dc7b391d48c2a8c1d6f41be35"},
      {120, "9db2bb35e3e98f502b654e82f0051eebfa45015e36ed8c3a28d44586eff7372b"},
      {128, "086e64af3be4bef59202dea267776bbbbe6264ad9ff0b46345743fffc446238e"},
      {1000, "e66c6563e3797f84573ef7dfe3a460d5d579967297ef20150d89f0c6e358221e"}};
  for (const auto& [length, digest] : cases) {
    std::string text;
    for (size_t i = 0; i < length; ++i) {
      text += static_cast<char>((7 * i + length) % 251);
    }
    EXPECT_EQ(HashOf(text), digest) << length;
    for (const size_t piece : {1U, 3U, 64U, 70U}) {
      Sha256 hash;
      for (size_t at = 0; at < length; at += piece) {
        hash.Add(std::string_view(text).substr(at, piece));
      }
      EXPECT_EQ(Hex(hash.Finish()), digest) << length << " in pieces of " << piece;
    }
  }
}

TEST(HmacSha256, MatchesTheCasesOfRfc4231) {
  EXPECT_EQ(MacOf(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(MacOf("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      MacOf(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(AreSame, LooksAtEveryByteAndTheLength) {
  Sha256Digest a{};
  EXPECT_TRUE(AreSame(a, Sha256Digest{}));
  for (const size_t at : {0U, 15U, 31U}) {
    Sha256Digest b = a;
    b[at] = std::byte{1};
    EXPECT_FALSE(AreSame(a, b)) << at;
  }
  EXPECT_FALSE(AreSame(a, std::span<const std::byte>(a).first(31)));
}

}  // namespace
}  // namespace msprobe::kernels
