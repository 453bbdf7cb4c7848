#include <array>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/profile/common/event_runs.h"

namespace msprobe::profile {
namespace {

// Bytes that matter and some that resemble them (a bit off, the highest bit set).
std::string RandomText(size_t length, std::string_view bytes, std::mt19937& random) {
  std::string text(length, ' ');
  for (char& c : text) {
    c = bytes[random() % bytes.size()];
  }
  return text;
}

uint64_t BitsOf(std::string_view block, std::string_view wanted) {
  uint64_t bits = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    bits |= uint64_t{wanted.find(block[i]) != std::string_view::npos} << i;
  }
  return bits;
}

TEST(JsonPlaces, AreFoundByWordsAndByVectorsAlike) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::string text =
        RandomText(kJsonBlockBytes, "\"\\[]{};Z|}\xdb\xfb\xa2\x02#!\x5e\x7e\x01 a", random);
    for (const JsonPlaces& places :
         {FindPlaces(text.data()), internal::FindPlacesByWords(text.data())}) {
      ASSERT_EQ(places.quotes, BitsOf(text, "\""));
      ASSERT_EQ(places.backslashes, BitsOf(text, "\\"));
      ASSERT_EQ(places.brackets, BitsOf(text, "[]{}"));
    }
  }
}

// The same byte by byte.
std::vector<bool> BracketsOneByOne(std::string_view text) {
  std::vector<bool> found(text.size());
  bool in_text = false;
  bool escaped = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (escaped) {
      escaped = false;
    } else if (text[i] == '\\') {
      escaped = true;
    } else if (text[i] == '"') {
      in_text = !in_text;
    } else {
      found[i] = !in_text && std::string_view("[]{}").find(text[i]) != std::string_view::npos;
    }
  }
  return found;
}

TEST(JsonPlaces, BracketsInsideTextsDoNotCountWhereverBlocksAreCut) {
  std::mt19937 random(8);
  for (int round = 0; round < 500; ++round) {
    // Many backslashes, so that runs of them cross the ends of blocks.
    const std::string text = RandomText(
        4 * kJsonBlockBytes, round % 2 == 0 ? "\"\\\\\\{}a" : "\"{}[]abcdefghij\\", random);
    const std::vector<bool> wanted = BracketsOneByOne(text);
    TextState state;
    for (size_t block = 0; block < text.size(); block += kJsonBlockBytes) {
      const uint64_t found = BracketsOutsideTexts(FindPlaces(text.data() + block), state);
      for (size_t i = 0; i < kJsonBlockBytes; ++i) {
        // A backslash outside of a text is no JSON: what it does to a bracket does not matter.
        const bool behind_backslash = block + i > 0 && text[block + i - 1] == '\\';
        if (!behind_backslash) {
          ASSERT_EQ((found >> i & 1U) != 0, wanted[block + i]) << text << " at " << block + i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace msprobe::profile
