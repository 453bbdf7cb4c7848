#include "src/base/hash_index.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::base {
namespace {

TEST(HashIndex, FindsWhatWasAddedAmongManyAndGrows) {
  std::vector<uint64_t> keys;
  HashIndex index;
  for (uint64_t i = 0; i < 10'000; ++i) {
    keys.push_back(i * 7 % 5000);  // each twice
    const auto entry = static_cast<uint32_t>(i);
    const uint32_t first =
        index.FindOrAdd(keys.back(), entry, [&](uint32_t known) { return keys[known] == keys[i]; });
    EXPECT_EQ(first, static_cast<uint32_t>(i < 5000 ? i : i - 5000)) << i;
  }
  for (uint64_t key = 0; key < 6000; ++key) {
    const uint32_t found = index.Find(key, [&](uint32_t known) { return keys[known] == key; });
    if (key < 5000) {
      ASSERT_NE(found, HashIndex::kNone) << key;
      EXPECT_EQ(keys[found], key);
    } else {
      EXPECT_EQ(found, HashIndex::kNone) << key;
    }
  }
}

TEST(HashIndex, TellsKeysOfOneHashApart) {
  const std::vector<std::string> keys = {"a", "b", "c", "a"};
  HashIndex index(2);
  std::vector<uint32_t> found;
  for (uint32_t entry = 0; entry < keys.size(); ++entry) {
    found.push_back(
        index.FindOrAdd(42, entry, [&](uint32_t known) { return keys[known] == keys[entry]; }));
  }
  EXPECT_EQ(found, (std::vector<uint32_t>{0, 1, 2, 0}));
  EXPECT_EQ(index.Find(42, [](uint32_t) { return false; }), HashIndex::kNone);
}

}  // namespace
}  // namespace msprobe::base
