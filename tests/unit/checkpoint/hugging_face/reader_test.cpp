#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.h"
#include "tests/unit/checkpoint/elements.h"
#include "tests/unit/io/test_bytes.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::checkpoint {
namespace {

using msprobe::test_support::Slurp;
using msprobe::test_support::TemporaryFolder;
using test_support::ElementsOf;
using test_support::FindParameter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// One safetensors file of uint8 vectors, each filled with its own length.
std::string Safetensors(const std::vector<std::pair<std::string, int>>& tensors) {
  std::string header = "{";
  std::string data;
  for (const auto& [name, size] : tensors) {
    header += (header.size() > 1 ? ",\"" : "\"") + name + R"(":{"dtype":"U8","shape":[)" +
              std::to_string(size) + R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + static_cast<size_t>(size)) + "]}";
    data.append(static_cast<size_t>(size), static_cast<char>(size));
  }
  header += "}";
  std::string bytes;
  io::test_support::PutLittle<uint64_t>(bytes, header.size());
  return bytes + header + data;
}

std::string Index(const std::string& second = kSecond) {
  return std::string(R"({"metadata":{"total_size":9},"weight_map":{"model.a":")") + kFirst +
         R"(","model.b":")" + kFirst + R"(","lm_head":")" + second + R"("}})";
}

void WriteShards(const TemporaryFolder& folder) {
  folder.Write(kFirst, Safetensors({{"model.a", 2}, {"model.b", 3}}));
  folder.Write(kSecond, Safetensors({{"lm_head", 4}}));
  folder.Write("model.safetensors.index.json", Index());
}

TEST(HuggingFace, OfManyMissingShardsTheFirstOnesAreNamedAndTheRestCounted) {
  const TemporaryFolder folder;
  folder.Write(kFirst, Safetensors({{"model.a", 2}}));
  std::string index = std::string(R"({"weight_map":{"model.a":")") + kFirst + '"';
  for (int i = 0; i < 100; ++i) {
    index += ",\"w" + std::to_string(i) + R"(":"lost)" + std::to_string(i) + R"(.safetensors")";
  }
  folder.Write("model.safetensors.index.json", index + "}}");
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->parameters.size(), 101U);
  EXPECT_EQ(checkpoint->warnings.size(), 9U);
  EXPECT_EQ(checkpoint->warnings.back(), "92 more shards are missing or cannot be read");
}

TEST(HuggingFace, ShardsAreReadThroughTheIndex) {
  const TemporaryFolder folder;
  WriteShards(folder);
  folder.Write("config.json", R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,
      "num_attention_heads":8,"num_key_value_heads":4,"head_dim":16,"vocab_size":1000})");
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->kind, Kind::kHuggingFace);
  ASSERT_EQ(checkpoint->parameters.size(), 3U);
  EXPECT_EQ(checkpoint->parameters[0].name, "model.a");
  EXPECT_EQ(ElementsOf(checkpoint->parameters[2]), std::vector<float>({4, 4, 4, 4}));
  EXPECT_EQ(checkpoint->facts.architecture, "llama");
  EXPECT_EQ(checkpoint->facts.layers, 2);
  EXPECT_EQ(checkpoint->facts.query_groups, 4);
  EXPECT_EQ(checkpoint->facts.head_size, 16);
  EXPECT_EQ(checkpoint->facts.vocabulary, 1000);
  EXPECT_FALSE(checkpoint->facts.experts.has_value());
  EXPECT_TRUE(checkpoint->warnings.empty());
}

// What a rank writes with torch.distributed.checkpoint: rows of "a" from the first number of
// `place` on, filled with the rank.
std::string ShardAt(const std::string& place, int rank, int rows) {
  const std::string header =
      R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"a\": {\"saved_offsets\": [)" + place +
      R"(]}}"},"a":{"dtype":"U8","shape":[)" + std::to_string(rows) + R"(,2],"data_offsets":[0,)" +
      std::to_string(2 * rows) + "]}}";
  std::string bytes;
  io::test_support::PutLittle<uint64_t>(bytes, header.size());
  return bytes + header + std::string(static_cast<size_t>(2 * rows), static_cast<char>(rank));
}

std::string ShardOfRank(int rank, int64_t row, int rows) {
  return ShardAt(std::to_string(row) + ", 0", rank, rows);
}

Result<Checkpoint> OpenShards(const std::vector<std::string>& files) {
  const TemporaryFolder folder;
  for (size_t rank = 0; rank < files.size(); ++rank) {
    folder.Write("shard-0000" + std::to_string(rank + 1) + "-model-00001-of-00001.safetensors",
                 files[rank]);
  }
  return OpenCheckpoint(folder.path(), Options());
}

TEST(HuggingFace, PartsOfATensorThatRanksWroteAreJoined) {
  const Result<Checkpoint> checkpoint =
      OpenShards({ShardOfRank(1, 2, 1), ShardOfRank(2, 0, 2), ShardOfRank(3, 3, 0)});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  ASSERT_EQ(checkpoint->parameters.size(), 1U);
  const Parameter& whole = checkpoint->parameters[0];
  ASSERT_TRUE(whole.status.ok()) << whole.status.message();
  EXPECT_THAT(whole.shape, ElementsAre(3, 2));
  EXPECT_EQ(ElementsOf(whole), std::vector<float>({2, 2, 2, 2, 1, 1}));
  EXPECT_TRUE(checkpoint->warnings.empty());
}

TEST(HuggingFace, PartsThatOverlapOrLeaveAGapMarkTheirTensor) {
  const int64_t largest = std::numeric_limits<int64_t>::max();
  for (const auto& [files, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{ShardOfRank(1, 0, 2), ShardOfRank(2, 1, 2)},
            "parameter a of shape [3, 2]: its pieces overlap"},
           {{ShardOfRank(1, 0, 2), ShardOfRank(2, 3, 1)}, "missing"},
           {{ShardOfRank(1, 0, 2), ShardOfRank(2, largest, 1)}, "lies at"},
           {{ShardOfRank(1, 0, 2), ShardOfRank(2, largest - 1, 1)}, ""},
           {{ShardOfRank(1, 0, 2), ShardAt("2", 2, 1)}, "cannot lie"}}) {
    const Result<Checkpoint> checkpoint = OpenShards(files);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    ASSERT_EQ(checkpoint->parameters.size(), 1U);
    EXPECT_FALSE(checkpoint->parameters[0].status.ok());
    EXPECT_THAT(checkpoint->parameters[0].status.message(), HasSubstr(why));
    const Shape& shape = checkpoint->parameters[0].shape;
    EXPECT_TRUE(std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size < 9; }));
  }
}

// Without it the others would pass for a smaller tensor.
TEST(HuggingFace, APartThatCannotBeReadMarksItsTensor) {
  const std::string header =
      R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"a\": {\"saved_offsets\": [2, 0]}}"},)"
      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("a":{"dtype":"U8","shape":[1,2],"data_offsets":[1,3]}})";
  std::string cut;
  io::test_support::PutLittle<uint64_t>(cut, header.size());
  cut += header + "12";
  for (const auto& files : {std::vector<std::string>{ShardOfRank(1, 0, 2), cut},
                            std::vector<std::string>{cut, ShardOfRank(1, 0, 2)}}) {
    const Result<Checkpoint> checkpoint = OpenShards(files);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    ASSERT_EQ(checkpoint->parameters.size(), 2U);
    const Parameter* whole = FindParameter(checkpoint->parameters, "a");
    EXPECT_THAT(whole->status.message(), HasSubstr("bytes 1 to 3 are not in the data"));
    EXPECT_TRUE(whole->pieces.empty());
  }
}

TEST(HuggingFace, AShardThatCannotBeOpenedMarksEveryTensorThatMayHaveAPartInIt) {
  for (const std::string& damaged : {std::string("?"), std::string()}) {
    const Result<Checkpoint> checkpoint =
        OpenShards({ShardOfRank(1, 0, 2), damaged, ShardOfRank(3, 2, 1)});
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    ASSERT_EQ(checkpoint->parameters.size(), 1U);
    const Parameter& whole = checkpoint->parameters[0];
    EXPECT_THAT(whole.status.message(), HasSubstr("a part of it may be missing"));
    EXPECT_THAT(whole.status.message(), HasSubstr("shard-00002"));
    EXPECT_TRUE(whole.pieces.empty());
    EXPECT_EQ(checkpoint->warnings.size(), 1U);
  }
}

TEST(HuggingFace, AShardThatIsOneNumberHasNoParameters) {
  const TemporaryFolder folder;
  folder.Write("pytorch_model-00001-of-00002.bin",
               io::test_support::MakeZip({{"archive/data.pkl", std::string("\x80\x02K\x03.", 5)}}));
  folder.Write("pytorch_model-00002-of-00002.bin",
               io::test_support::MakeZip({{"archive/data.pkl", std::string("\x80\x02K\x03.", 5)}}));
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_THAT(checkpoint.status().message(), HasSubstr("no parameters"));
}

TEST(HuggingFace, ModelsOfTextAndPicturesKeepTheirFactsOneLevelDown) {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", Safetensors({{"a", 1}}));
  folder.Write("config.json", R"({"model_type":"llava","text_config":{"num_hidden_layers":7}})");
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->facts.layers, 7);
  EXPECT_EQ(checkpoint->facts.architecture, "llava");
}

TEST(HuggingFace, AMissingShardIsNamedAndItsParametersAreMarked) {
  const TemporaryFolder folder;
  WriteShards(folder);
  std::filesystem::remove(folder / kSecond);
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(checkpoint->warnings, ElementsAre(HasSubstr(kSecond)));
  const Parameter* lost = FindParameter(checkpoint->parameters, "lm_head");
  ASSERT_NE(lost, nullptr);
  EXPECT_EQ(lost->status.code(), StatusCode::kNotFound);
  EXPECT_TRUE(FindParameter(checkpoint->parameters, "model.a")->status.ok());
}

TEST(HuggingFace, ATruncatedShardLosesOnlyTheTensorThatWasCut) {
  const TemporaryFolder folder;
  WriteShards(folder);
  const std::string bytes = Slurp(folder / kFirst);
  folder.Write(kFirst, bytes.substr(0, bytes.size() - 1));
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_TRUE(FindParameter(checkpoint->parameters, "model.a")->status.ok());
  EXPECT_FALSE(FindParameter(checkpoint->parameters, "model.b")->status.ok());
  EXPECT_THAT(FindParameter(checkpoint->parameters, "model.b")->shape, ElementsAre(3));
  EXPECT_THAT(checkpoint->warnings, ElementsAre(HasSubstr("truncated")));
}

TEST(HuggingFace, ATensorThatTheIndexPromisesInVainIsMarked) {
  const TemporaryFolder folder;
  WriteShards(folder);
  folder.Write(kSecond, Safetensors({{"other", 4}}));
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(FindParameter(checkpoint->parameters, "lm_head")->status.message(),
              HasSubstr("listed in the index"));
  EXPECT_NE(FindParameter(checkpoint->parameters, "other"), nullptr);
}

TEST(HuggingFace, TheIndexMayNotLeaveTheFolder) {
  for (const char* name : {"../secret.safetensors", "/etc/secret", "", ".."}) {
    const TemporaryFolder folder;
    WriteShards(folder);
    folder.Write("model.safetensors.index.json", Index(name));
    const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
    ASSERT_FALSE(checkpoint.ok()) << name;
    EXPECT_THAT(checkpoint.status().message(), HasSubstr("lm_head"));
  }
}

TEST(HuggingFace, WithoutAnIndexTheNumbersTellWhatIsMissing) {
  const TemporaryFolder folder;
  folder.Write(kSecond, Safetensors({{"lm_head", 4}}));
  Options options;
  const Result<Checkpoint> refused = OpenCheckpoint(folder.path(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("1 of 2 shards"));
  options.allow_missing_ranks = true;
  const Result<Checkpoint> partial = OpenCheckpoint(folder.path(), options);
  ASSERT_TRUE(partial.ok()) << partial.status().message();
  EXPECT_THAT(partial->warnings, ElementsAre(HasSubstr("1 of 2 shards")));
}

TEST(HuggingFace, ABrokenConfigCostsOnlyTheFacts) {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", Safetensors({{"a", 1}}));
  folder.Write("config.json", "{");
  const Result<Checkpoint> checkpoint = OpenCheckpoint(folder.path(), Options());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->warnings.size(), 1U);
}

}  // namespace
}  // namespace msprobe::checkpoint
