// Sums of pieces: any tiling, joined parameters, padding, ranks put together.
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/digest/digest.h"

namespace msprobe::digest {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Parameter;
using checkpoint::Piece;
using ::testing::HasSubstr;

std::vector<float> Values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::uniform_real_distribution<float>(-1, 1)(random);
  }
  return values;
}

// Rows and columns [first, first + size) of a row-major matrix.
Piece PieceOf(const std::vector<float>& values, const Shape& whole, const Shape& offset,
              const Shape& size) {
  Piece piece;
  piece.offset = offset;
  piece.view.shape = size;
  piece.view.strides = ContiguousStrides(whole);
  int64_t first = 0;
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    first += offset[axis] * piece.view.strides[axis];
  }
  piece.view.data = reinterpret_cast<const std::byte*>(values.data() + first);
  piece.view.extent_bytes = (values.size() - static_cast<size_t>(first)) * sizeof(float);
  return piece;
}

Checkpoint Declared(std::vector<std::pair<std::string, Shape>> parameters) {
  Checkpoint checkpoint;
  for (auto& [name, shape] : parameters) {
    Parameter parameter;
    parameter.name = name;
    parameter.shape = shape;
    checkpoint.parameters.push_back(std::move(parameter));
  }
  return checkpoint;
}

struct Made {
  Digest digest;
  Status status;
};

Made Digested(const Checkpoint& declared, const std::vector<std::vector<Piece>>& pieces,
              const BuildOptions& options = {}) {
  base::ThreadPool pool(2);
  Result<Builder> builder = Builder::Make(declared, options);
  EXPECT_TRUE(builder.ok());
  Status status;
  for (size_t i = 0; i < pieces.size() && status.ok(); ++i) {
    status = builder->Add(i, pieces[i], true, pool);
  }
  return {builder->Take(), status};
}

const Entry* EntryOf(const Digest& digest, std::string_view part) {
  for (const Entry& entry : digest.entries) {
    if (entry.part == part) {
      return &entry;
    }
  }
  return nullptr;
}

TEST(DigestBuilder, BlocksHoldAtMostASixtyFourthOfTheRows) {
  for (const int64_t rows : {0, 1, 5, 63, 64, 65, 127, 128, 200, 1000, 151936}) {
    EXPECT_TRUE(BlockRows(rows) == 1 || BlockRows(rows) * 64 <= rows) << rows;
    EXPECT_LE(BlockCount(rows), 127U) << rows;
    EXPECT_GE(static_cast<int64_t>(BlockCount(rows)) * BlockRows(rows), rows) << rows;
  }
  EXPECT_EQ(RowsText(200, 0, 0), "0-2");
  EXPECT_EQ(RowsText(200, 66, 66), "198-199");
}

TEST(DigestBuilder, AnyTilingHasTheSameSums) {
  const Shape shape = {150, 37};
  const std::vector<float> values = Values(150 * 37, 1);
  const Checkpoint declared = Declared({{"w", shape}});
  const Entry whole =
      Digested(declared, {{PieceOf(values, shape, {0, 0}, shape)}}).digest.entries.front();
  EXPECT_EQ(whole.blocks.size(), 75U);
  const std::vector<std::vector<Piece>> tilings = {
      {PieceOf(values, shape, {0, 0}, {61, 37}), PieceOf(values, shape, {61, 0}, {89, 37})},
      {PieceOf(values, shape, {0, 20}, {150, 17}), PieceOf(values, shape, {0, 0}, {150, 20})},
      {PieceOf(values, shape, {0, 0}, {3, 37}), PieceOf(values, shape, {3, 0}, {147, 1}),
       PieceOf(values, shape, {3, 1}, {147, 36})},
  };
  for (const std::vector<Piece>& tiling : tilings) {
    const Entry found = Digested(declared, {tiling}).digest.entries.front();
    EXPECT_EQ(found.blocks, whole.blocks);
    EXPECT_EQ(found.total, whole.total);
  }
}

TEST(DigestBuilder, JoinedParametersAreTakenApart) {
  const std::vector<float> values = Values(32 * 8, 2);
  Checkpoint apart = Declared({{"model.layers.0.self_attn.q_proj.weight", {16, 8}},
                               {"model.layers.0.self_attn.k_proj.weight", {8, 8}},
                               {"model.layers.0.self_attn.v_proj.weight", {8, 8}}});
  const Made split = Digested(apart, {{PieceOf(values, {32, 8}, {0, 0}, {16, 8})},
                                      {PieceOf(values, {32, 8}, {16, 0}, {8, 8})},
                                      {PieceOf(values, {32, 8}, {24, 0}, {8, 8})}});
  // Pieces lie at 0 in their own parameter.
  Checkpoint joined = Declared({{"model.layers.0.self_attn.qkv_proj.weight", {32, 8}}});
  joined.facts.attention_heads = 4;
  joined.facts.query_groups = 2;
  const Made fused = Digested(joined, {{PieceOf(values, {32, 8}, {0, 0}, {32, 8})}});
  ASSERT_EQ(fused.digest.entries.size(), 3U);
  const Entry* key = EntryOf(fused.digest, "decoder.layers.0.self_attention.linear_k.weight");
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(key->name, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(key->stored, "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_FALSE(split.status.ok());  // the piece of k at row 16 does not lie in k
  EXPECT_THAT(split.status.message(), HasSubstr("does not lie in"));
  const std::vector<float> own(values.begin() + 16 * 8, values.begin() + 24 * 8);
  const Made alone = Digested(Declared({{"model.layers.0.self_attn.k_proj.weight", {8, 8}},
                                        {"model.layers.0.self_attn.q_proj.weight", {16, 8}}}),
                              {{PieceOf(own, {8, 8}, {0, 0}, {8, 8})}});
  const Entry* same = EntryOf(alone.digest, key->part);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->blocks, key->blocks);
  EXPECT_EQ(same->total, key->total);
  // Without the number of heads it stays as it is, and says so.
  joined.facts.attention_heads.reset();
  joined.facts.query_groups.reset();
  const Made whole = Digested(joined, {{PieceOf(values, {32, 8}, {0, 0}, {32, 8})}});
  ASSERT_EQ(whole.digest.entries.size(), 1U);
  EXPECT_EQ(whole.digest.entries.front().fused.size(), 3U);
}

TEST(DigestBuilder, RowsOfPaddingAreLeftOut) {
  const std::vector<float> values = Values(80 * 4, 3);
  const Checkpoint declared =
      Declared({{"model.embed_tokens.weight", {80, 4}}, {"model.norm.weight", {4}}});
  BuildOptions options;
  options.vocabulary = 70;
  const Made cut = Digested(declared, {{PieceOf(values, {80, 4}, {0, 0}, {80, 4})}}, options);
  const Made own =
      Digested(Declared({{"model.embed_tokens.weight", {70, 4}}, {"model.norm.weight", {4}}}),
               {{PieceOf(values, {80, 4}, {0, 0}, {70, 4})}});
  EXPECT_EQ(cut.digest.entries.front().blocks, own.digest.entries.front().blocks);
  EXPECT_EQ(cut.digest.entries.front().padded_to, 80);
}

Digest OfRank(int64_t rank, int64_t world, const std::vector<float>& values, Shape offset,
              Shape size) {
  Made made = Digested(Declared({{"w", {64, 4}}}), {{PieceOf(values, {64, 4}, offset, size)}});
  made.digest.rank = rank;
  made.digest.world_size = world;
  return std::move(made.digest);
}

TEST(DigestRanks, PartsAddUpCopiesMustAgreeAndWhatIsMissingHasRows) {
  const std::vector<float> values = Values(64 * 4, 4);
  const Entry whole = OfRank(0, 1, values, {0, 0}, {64, 4}).entries.front();
  Result<Model> joined =
      JoinRanks({OfRank(0, 3, values, {0, 0}, {30, 4}), OfRank(1, 3, values, {30, 0}, {34, 4}),
                 OfRank(2, 3, values, {30, 0}, {34, 4})});
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->wholes.front().entry.blocks, whole.blocks);
  EXPECT_FALSE(joined->wholes.front().missing_blocks);
  EXPECT_FALSE(joined->wholes.front().unequal_blocks);

  std::vector<float> other = values;
  other[40 * 4] += 1;
  joined = JoinRanks({OfRank(0, 3, values, {0, 0}, {30, 4}), OfRank(1, 3, values, {30, 0}, {34, 4}),
                      OfRank(2, 3, other, {30, 0}, {34, 4})});
  EXPECT_EQ(joined->wholes.front().unequal_blocks, (std::pair<size_t, size_t>(40, 40)));

  joined = JoinRanks({OfRank(0, 2, values, {0, 0}, {30, 4})});
  EXPECT_EQ(joined->missing_ranks, std::vector<int64_t>{1});
  EXPECT_EQ(joined->wholes.front().missing_blocks, (std::pair<size_t, size_t>(30, 63)));

  joined =
      JoinRanks({OfRank(0, 2, values, {0, 0}, {31, 4}), OfRank(1, 2, values, {30, 0}, {34, 4})});
  EXPECT_THAT(joined->wholes.front().entry.problem, HasSubstr("overlap"));
  EXPECT_FALSE(
      JoinRanks({OfRank(0, 2, values, {0, 0}, {30, 4}), OfRank(0, 2, values, {30, 0}, {34, 4})})
          .ok());
}

}  // namespace
}  // namespace msprobe::digest
