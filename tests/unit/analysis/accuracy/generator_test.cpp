#include <array>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/accuracy/check/tensor_record.h"
#include "tests/unit/analysis/accuracy/golden_tensors.h"

namespace msprobe::analysis::accuracy {
namespace {

namespace fs = std::filesystem;
using testing_support::GoldenTensors;
using testing_support::TextAt;

TEST(TorchGenerator, IsTheMersenneTwister) {
  TorchGenerator ours(1234);
  std::mt19937 theirs(1234);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(ours.Draw32(), theirs());
  }
}

class GoldenGenerator : public ::testing::Test {
 protected:
  // The bytes of the tensor, or the error.
  static Result<std::vector<std::byte>> Draw(const dump::EntryTree& tree, uint32_t info,
                                             TorchGenerator& generator) {
    EXPECT_TRUE(IsTensorRecord(tree, info));
    MSP_ASSIGN_OR_RETURN(const TensorRecord record, ReadTensorRecord(tree, info));
    const size_t size = record.dtype ? DTypeSize(*record.dtype) : 0;
    std::vector<std::byte> bytes(static_cast<size_t>(ElementCount(record.shape)) * size);
    MSP_RETURN_IF_ERROR(DrawTensor(record, generator, bytes.data()));
    return bytes;
  }

  const fs::path folder_ = fs::path(MSPROBE_TEST_DATA) / "accuracy/generate";
  const dump::EntryTree tree_ = testing_support::ReadJson(folder_ / "generate.json");
};

TEST_F(GoldenGenerator, DrawsTheBitsOfThePythonTool) {
  const GoldenTensors tensors(folder_ / "tensors.npz");
  size_t cases = 0;
  tree_.ForEachChild(tree_.Find(0, "cases"), [&](uint32_t place) {
    TorchGenerator generator(static_cast<uint32_t>(tree_[tree_.Find(0, "seed")].integer));
    const uint32_t expected = tree_.Find(place, "expected");
    const Result<std::vector<std::byte>> drawn = Draw(tree_, tree_.Find(place, "info"), generator);
    SCOPED_TRACE("case " + std::to_string(cases++));
    if (const std::string error = TextAt(tree_, expected, "error"); !error.empty()) {
      ASSERT_FALSE(drawn.ok());
      EXPECT_THAT(error, ::testing::HasSubstr(drawn.status().message()));
      return;
    }
    ASSERT_TRUE(drawn.ok()) << drawn.status().message();
    const TensorView view = tensors.Get(TextAt(tree_, expected, "tensor"));
    ASSERT_EQ(drawn->size(), view.bytes().size());
    EXPECT_EQ(drawn->empty() ? 0 : std::memcmp(drawn->data(), view.bytes().data(), drawn->size()),
              0);
  });
  EXPECT_EQ(cases, 39U);
}

TEST_F(GoldenGenerator, GoesOnFromTensorToTensor) {
  TorchGenerator generator;
  const uint32_t stream = tree_.Find(0, "stream");
  std::vector<uint32_t> infos;
  std::vector<uint32_t> values;
  tree_.ForEachChild(tree_.Find(stream, "infos"), [&](uint32_t item) { infos.push_back(item); });
  tree_.ForEachChild(tree_.Find(stream, "values"), [&](uint32_t item) { values.push_back(item); });
  ASSERT_EQ(infos.size(), 4U);
  const auto middle = [&](size_t tensor) { return tree_[values[tensor] + 2].number; };
  const auto drawn = [&](size_t tensor) { return *Draw(tree_, infos[tensor], generator); };
  float single = 0;
  std::memcpy(&single, drawn(0).data() + 4, 4);
  EXPECT_EQ(static_cast<double>(single), middle(0));
  int64_t whole = 0;
  std::memcpy(&whole, drawn(1).data() + 8, 8);
  EXPECT_EQ(static_cast<double>(whole), middle(1));
  double wide = 0;
  std::memcpy(&wide, drawn(2).data() + 8, 8);
  EXPECT_EQ(wide, middle(2));
  uint16_t half = 0;
  std::memcpy(&half, drawn(3).data() + 2, 2);
  EXPECT_EQ(half, 0x2380);  // 0.0146484375
  EXPECT_EQ(middle(3), 0.0146484375);
}

TEST(UniformTensor, IsThatOfNumPy) {
  TensorRecord record;
  record.dtype = DType::kFloat64;
  record.shape = {3};
  record.least = RecordedNumber{true, 0, 0};
  record.most = RecordedNumber{true, 1, 1};
  std::array<double, 3> drawn = {};
  ASSERT_TRUE(DrawUniformTensor(record, reinterpret_cast<std::byte*>(drawn.data())).ok());
  // numpy.random.RandomState(42).uniform(0, 1, 3)
  EXPECT_EQ(drawn[0], 0.3745401188473625);
  EXPECT_EQ(drawn[1], 0.9507143064099162);
  EXPECT_EQ(drawn[2], 0.7319939418114051);
  std::array<uint8_t, 3> truth = {};
  record.dtype = DType::kBool;
  ASSERT_TRUE(DrawUniformTensor(record, reinterpret_cast<std::byte*>(truth.data())).ok());
  EXPECT_EQ(truth, (std::array<uint8_t, 3>{0, 1, 1}));
  record.dtype = DType::kComplex64;
  EXPECT_FALSE(DrawUniformTensor(record, nullptr).ok());
}

TEST(TensorRecord, RefusesShapesThatCannotBe) {
  for (const char* shape :
       {"[-1]", "[1.5]", "[9223372036854775807, 4]", "[100000000, 100000000]"}) {
    const Result<dump::EntryTree> tree =
        dump::ParseEntry(R"({"dtype": "torch.float32", "shape": )" + std::string(shape) + "}");
    ASSERT_TRUE(tree.ok());
    EXPECT_FALSE(ReadTensorRecord(*tree, 0).ok()) << shape;
  }
}

}  // namespace
}  // namespace msprobe::analysis::accuracy
