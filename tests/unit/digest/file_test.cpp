// Files of digests: what is written is read again, and nothing in a file is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/digest/digest.h"

namespace msprobe::digest {
namespace {

using ::testing::HasSubstr;

Digest SmallDigest() {
  Digest digest;
  digest.rank = 1;
  digest.world_size = 4;
  digest.cast = kernels::DigestCast::kBFloat16;
  digest.source = "live model";
  Entry entry;
  entry.part = "decoder.layers.0.mlp.linear_up.weight";
  entry.name = "model.layers.0.mlp.up_proj.weight";
  entry.stored = "model.layers.0.mlp.gate_up_proj.weight";
  entry.shape = {200, 8};
  entry.padded_to = 256;
  entry.dtype = DType::kBFloat16;
  entry.format = "bf16";
  entry.boxes = {{{30, 0}, {60, 4}}, {{30, 4}, {60, 4}}};
  entry.blocks.assign(BlockCount(200), 0);
  for (size_t block = 10; block < 30; ++block) {
    entry.blocks[block] = 0x0123456789ABCDEFU * (block + 1);
  }
  entry.total = 0xFEDCBA9876543210U;
  digest.entries.push_back(entry);
  Entry scalar;
  scalar.part = scalar.name = scalar.stored = "logit_scale";
  scalar.boxes = {{{}, {}}};
  scalar.blocks = {42};
  scalar.format = "f32";
  digest.entries.push_back(scalar);
  Entry broken = entry;
  broken.part = "other";
  broken.problem = "its ranks hold summands, not values";
  broken.blocks.assign(broken.blocks.size(), 0);
  digest.entries.push_back(broken);
  return digest;
}

TEST(DigestFile, WhatIsWrittenIsReadAgain) {
  const Digest written = SmallDigest();
  const Result<Digest> read = ParseDigest(DigestJson(written), "digest.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->rank, 1);
  EXPECT_EQ(read->world_size, 4);
  EXPECT_EQ(read->cast, kernels::DigestCast::kBFloat16);
  ASSERT_EQ(read->entries.size(), 3U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->entries[i].part, written.entries[i].part);
    EXPECT_EQ(read->entries[i].name, written.entries[i].name);
    EXPECT_EQ(read->entries[i].shape, written.entries[i].shape);
    EXPECT_EQ(read->entries[i].boxes, written.entries[i].boxes);
    EXPECT_EQ(read->entries[i].blocks, written.entries[i].blocks);
    EXPECT_EQ(read->entries[i].total, written.entries[i].total);
  }
  EXPECT_EQ(read->entries[0].padded_to, 256);
  EXPECT_EQ(read->entries[2].problem, written.entries[2].problem);
}

struct Damage {
  const char* what;
  const char* with;
  const char* complaint;
};

TEST(DigestFile, DamageIsNamedWithItsParameter) {
  const std::string good = DigestJson(SmallDigest());
  constexpr Damage kDamages[] = {
      {"[[30, 0, 60, 4]", "[[180, 0, 60, 4]", "lies outside of [200, 8]"},
      {"[[30, 0, 60, 4]", "[[30, 0, 60]", "an offset and a size per dimension"},
      {"[[30, 0, 60, 4]", "[[-1, 0, 60, 4]", "is -1"},
      {"\"shape\": [200, 8]", "\"shape\": [9007199254740992, 9007199254740992]",
       "more elements than any memory"},
      {"\"shape\": [200, 8]", "\"shape\": [2e2, 8]", "must be an integer"},
      {"\"world_size\": 4", "\"world_size\": 0", "world_size is 0"},
      {"\"rank\": 1", "\"rank\": 7", "rank is 7"},
      {"\"dtype\": \"bfloat16\", \"source\"", "\"dtype\": \"int4\", \"source\"", "is none of"},
      {"fedcba98", "fedcbaz8", "base64 text of 20 blocks"},
      {"\"blocks\": \"", "\"blocks\": \"AAAA", "base64 text of 20 blocks"},
      {"\"schema_version\": 1", "\"schema_version\": 2", "newer msprobe"},
      {"msprobe_digest", "something", "is not a digest"},
  };
  for (const Damage& damage : kDamages) {
    std::string text = good;
    const size_t at = text.find(damage.what);
    ASSERT_NE(at, std::string::npos) << damage.what;
    text.replace(at, std::string_view(damage.what).size(), damage.with);
    const Result<Digest> read = ParseDigest(text, "digest.json");
    ASSERT_FALSE(read.ok()) << damage.with;
    EXPECT_THAT(read.status().message(), HasSubstr(damage.complaint));
    EXPECT_THAT(read.status().message(), HasSubstr("digest.json"));
  }
}

TEST(DigestFile, EveryCutOfAFileIsAnErrorOrReads) {
  const std::string good = DigestJson(SmallDigest());
  for (size_t size = 0; size < good.size(); size += 3) {
    EXPECT_FALSE(ParseDigest(std::string_view(good).substr(0, size), "digest.json").ok() &&
                 size + 3 < good.size());
  }
}

}  // namespace
}  // namespace msprobe::digest
