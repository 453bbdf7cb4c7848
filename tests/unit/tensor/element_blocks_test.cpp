#include "src/tensor/element_blocks.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msprobe::tensor {
namespace {

using ::testing::ElementsAre;

class ElementBlocks : public ::testing::Test {
 protected:
  ElementBlocks() : values_(12) { std::iota(values_.begin(), values_.end(), 0); }

  TensorView View(Shape shape, Shape strides) {
    TensorView view;
    view.dtype = DType::kInt32;
    view.shape = std::move(shape);
    view.strides = std::move(strides);
    view.data = reinterpret_cast<const std::byte*>(values_.data());
    view.extent_bytes = values_.size() * sizeof(int32_t);
    return view;
  }

  static std::vector<int32_t> Values(std::span<const std::byte> block) {
    std::vector<int32_t> values(block.size() / sizeof(int32_t));
    std::memcpy(values.data(), block.data(), block.size());
    return values;
  }

  std::vector<int32_t> values_;
  std::vector<std::byte> scratch_;
};

TEST_F(ElementBlocks, GiveElementsInRowMajorOrder) {
  std::vector<std::vector<int32_t>> blocks;
  std::vector<size_t> firsts;
  ForEachBlock(View({3, 4}, {1, 3}), 5, scratch_,
               [&](std::span<const std::byte> block, size_t first) {
                 blocks.push_back(Values(block));
                 firsts.push_back(first);
               });
  EXPECT_THAT(blocks, ElementsAre(ElementsAre(0, 3, 6, 9, 1), ElementsAre(4, 7, 10, 2, 5),
                                  ElementsAre(8, 11)));
  EXPECT_THAT(firsts, ElementsAre(0, 5, 10));
}

TEST_F(ElementBlocks, LeavePlainTensorsWhereTheyLie) {
  const TensorView view = View({12}, {1});
  ForEachBlock(view, 8, scratch_, [&](std::span<const std::byte> block, size_t first) {
    EXPECT_EQ(block.data(), view.data + first * sizeof(int32_t));
  });
  EXPECT_TRUE(scratch_.empty());
}

TEST_F(ElementBlocks, ComeNotAtAllFromEmptyTensors) {
  ForEachBlock(View({0, 4}, {4, 1}), 8, scratch_,
               [](std::span<const std::byte>, size_t) { FAIL(); });
}

TEST_F(ElementBlocks, EndWithTheFirstError) {
  int calls = 0;
  const Status status = ForEachBlock(View({12}, {1}), 4, scratch_,
                                     [&](std::span<const std::byte>, size_t first) -> Status {
                                       ++calls;
                                       return first == 4 ? BadFormatError("no") : Status();
                                     });
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(calls, 2);
}

TEST_F(ElementBlocks, AreCopiedOnTheWay) {
  const std::vector<TensorView> views = {View({3, 4}, {1, 3}), View({3, 4}, {4, 1})};
  for (const TensorView& view : views) {
    BlockReader reader(view, scratch_);
    std::vector<std::byte> copy(5 * sizeof(int32_t));
    const std::vector<int32_t> read = Values(reader.ReadAndCopy(4, 5, copy.data()));
    EXPECT_EQ(read, Values(copy));
    EXPECT_EQ(read, Values(reader.Read(4, 5)));
  }
}

}  // namespace
}  // namespace msprobe::tensor
