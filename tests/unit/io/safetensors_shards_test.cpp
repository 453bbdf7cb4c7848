#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/io/safetensors.h"
#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<std::unordered_map<std::string, Shape>> ShardOffsets(const std::string& header) {
  std::string bytes;
  test_support::PutLittle<uint64_t>(bytes, header.size());
  return ReadShardOffsets(test_support::Bytes(bytes + header));
}

std::string Sharded(const std::string& sharding) {
  return R"({"__metadata__":{"format":"pt","DCP_SHARDING_INFO":")" + sharding +
         R"(","DCP_VERSION":"1.0"},"a":{"dtype":"U8","shape":[0,4],"data_offsets":[0,0]}})";
}

TEST(SafetensorsShards, EveryTensorsPlaceIsRead) {
  const auto offsets = ShardOffsets(Sharded(
      R"({\"a\": {\"x\": [1, \"y\"], \"saved_offsets\": [6, 0], \"z\": {\"w\": 1}}, \"b\": {\"saved_offsets\": []}, \"c\": {}, \"d\": 3})"));
  ASSERT_TRUE(offsets.ok()) << offsets.status().message();
  ASSERT_EQ(offsets->size(), 2U);
  EXPECT_THAT(offsets->at("a"), ElementsAre(6, 0));
  EXPECT_THAT(offsets->at("b"), IsEmpty());
}

TEST(SafetensorsShards, FilesThatSayNothingOfItHaveNone) {
  for (const char* header :
       {"{}", R"({"__metadata__":{"format":"pt"}})",
        R"({"DCP_SHARDING_INFO":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"}) {
    const auto offsets = ShardOffsets(header);
    ASSERT_TRUE(offsets.ok()) << offsets.status().message();
    EXPECT_THAT(*offsets, IsEmpty());
  }
}

TEST(SafetensorsShards, PlacesThatCannotBeAreRefused) {
  for (const char* sharding :
       {R"({\"a\":{\"saved_offsets\":[-6,0]}})", R"({\"a\":{\"saved_offsets\":[0.5,0]}})",
        R"({\"a\":{\"saved_offsets\":[[0,0]]}})", R"({\"a\":{\"saved_offsets\":[{}]}})",
        R"({\"a\":{\"saved_offsets\":3}})", R"({\"a\":{\"saved_offsets\":null}})",
        R"({\"a\":{\"saved_offsets\":[0,0)", "[1]", "7",
        R"({\"a\":{\"saved_offsets\":[0,0],\"saved_offsets\":[0,0]}})"}) {
    const auto offsets = ShardOffsets(Sharded(sharding));
    ASSERT_FALSE(offsets.ok()) << sharding;
    EXPECT_THAT(offsets.status().message(), HasSubstr("DCP_SHARDING_INFO"));
  }
}

}  // namespace
}  // namespace msprobe::io
