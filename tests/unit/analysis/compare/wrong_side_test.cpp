// Which side computed the first diverging call wrong, over small tensor dumps made on the spot.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/compare.h"
#include "src/analysis/compare/compare_pair.h"
#include "tests/unit/analysis/compare/dump_fixture.h"

namespace msprobe::analysis::compare {
namespace {

using test_support::CallText;
using test_support::DumpText;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;

const std::vector<float> kInput = {0.5F, 1.5F, 3.0F, 1.0F};

// One side: calls one after the other, each with the files of its input and its output.
class SideFiles {
 public:
  explicit SideFiles(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_ / "dump_tensor_data");
  }

  void Add(const std::string& name, const std::vector<float>& input,
           const std::vector<float>& output) {
    calls_ += (calls_.empty() ? "" : ", ") + CallText(name, Leaf(name + ".input.0.npy", input),
                                                      Leaf(name + ".output.0.npy", output));
  }

  std::filesystem::path Finish(std::string_view task = "tensor") const {
    msprobe::test_support::Spill(folder_ / "dump.json", DumpText(calls_, task));
    return folder_ / "dump.json";
  }

 private:
  std::string Leaf(const std::string& file, const std::vector<float>& values) const {
    TensorView view;
    view.dtype = DType::kFloat32;
    view.shape = {static_cast<int64_t>(values.size())};
    view.strides = {1};
    view.data = reinterpret_cast<const std::byte*>(values.data());
    EXPECT_TRUE(WriteNpyFile(folder_ / "dump_tensor_data" / file, view).ok());
    std::string leaf = test_support::TensorText(values[0], "[4]");
    leaf.insert(leaf.size() - 1, ", \"data_name\": \"" + file + "\"");
    return leaf;
  }

  std::filesystem::path folder_;
  std::string calls_;
};

std::vector<float> Exp(float factor = 1) {
  std::vector<float> values;
  for (const float x : kInput) {
    values.push_back(std::exp(x) * factor);
  }
  return values;
}

ComparedPair Compare(const SideFiles& npu, const SideFiles& bench,
                     std::string_view task = "tensor") {
  base::ThreadPool pool(1);
  Result<ComparedPair> pair = ComparePair({}, {npu.Finish(task), bench.Finish(task), {}, {}}, pool);
  EXPECT_TRUE(pair.ok()) << pair.status().message();
  return pair.ok() ? *std::move(pair) : ComparedPair();
}

std::optional<SideOpinion> OpinionOn(ComparedPair pair) {
  base::ThreadPool pool(1);
  const bool asked = NameWrongSide(pair, pool);
  EXPECT_EQ(asked, pair.divergence.first_origin && pair.divergence.first_origin->wrong_side);
  return asked ? pair.divergence.first_origin->wrong_side : std::nullopt;
}

class WrongSideTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  SideFiles npu_{folder_ / "npu"};
  SideFiles bench_{folder_ / "bench"};
};

TEST_F(WrongSideTest, IsTheOneBeyondItsBound) {
  npu_.Add("Torch.exp.0.forward", kInput, Exp(1.01F));
  bench_.Add("Torch.exp.0.forward", kInput, Exp());
  const std::optional<SideOpinion> opinion = OpinionOn(Compare(npu_, bench_));
  ASSERT_TRUE(opinion);
  EXPECT_EQ(opinion->side, WrongSide::kNpu);
  EXPECT_THAT(opinion->reason, HasSubstr("the test side, off by"));
  EXPECT_THAT(opinion->reason, HasSubstr("; the reference is within its error bound"));

  const std::optional<SideOpinion> swapped = OpinionOn(Compare(bench_, npu_));
  ASSERT_TRUE(swapped);
  EXPECT_EQ(swapped->side, WrongSide::kBench);
}

TEST_F(WrongSideTest, MayBeBoth) {
  npu_.Add("Torch.exp.0.forward", kInput, Exp(1.01F));
  bench_.Add("Torch.exp.0.forward", kInput, Exp(0.98F));
  const std::optional<SideOpinion> opinion = OpinionOn(Compare(npu_, bench_));
  ASSERT_TRUE(opinion);
  EXPECT_EQ(opinion->side, WrongSide::kBoth);
}

TEST_F(WrongSideTest, IsNotKnownOfAnOperatorThatIsNotKnown) {
  npu_.Add("Torch.mystery.0.forward", kInput, Exp(1.01F));
  bench_.Add("Torch.mystery.0.forward", kInput, Exp());
  const std::optional<SideOpinion> opinion = OpinionOn(Compare(npu_, bench_));
  ASSERT_TRUE(opinion);
  EXPECT_EQ(opinion->side, WrongSide::kUnknown);
  EXPECT_EQ(opinion->reason, "not known, the call is not checkable (the operator is not known)");
}

// The bench made a call before it, so that its own has another number.
TEST_F(WrongSideTest, IsFoundWhereCallsOfOtherNumbersArePartners) {
  npu_.Add("Torch.neg.0.forward", kInput, {-0.5F, -1.5F, -3.0F, -1.0F});
  bench_.Add("Torch.neg.0.forward", kInput, {-0.5F, -1.5F, -3.0F, -1.0F});
  bench_.Add("Torch.exp.0.forward", {0, 0, 0, 0}, {1, 1, 1, 1});
  for (int i = 0; i < 12; ++i) {
    const std::string call = "Torch.abs." + std::to_string(i) + ".forward";
    npu_.Add(call, kInput, kInput);
    bench_.Add(call, kInput, kInput);
  }
  npu_.Add("Torch.exp.0.forward", kInput, Exp(1.01F));
  bench_.Add("Torch.exp.1.forward", kInput, Exp());
  ComparedPair pair = Compare(npu_, bench_);
  base::ThreadPool pool(1);
  ASSERT_TRUE(NameWrongSide(pair, pool));
  const DivergencePoint& point =
      *pair.divergence.first_of_kind[static_cast<size_t>(OriginKind::kComputation)];
  EXPECT_EQ(point.entry_name, "Torch.exp.0.forward");
  EXPECT_EQ(point.bench_entry_name, "Torch.exp.1.forward");
  EXPECT_EQ(point.wrong_side->side, WrongSide::kNpu);
}

TEST_F(WrongSideTest, IsNotAskedOfStatisticsOrOfInputs) {
  npu_.Add("Torch.exp.0.forward", kInput, Exp(1.5F));
  bench_.Add("Torch.exp.0.forward", kInput, Exp());
  EXPECT_FALSE(OpinionOn(Compare(npu_, bench_, "statistics")));

  SideFiles fed(folder_ / "fed");
  fed.Add("Torch.exp.0.forward", {2, 2, 2, 2}, Exp());
  ComparedPair pair = Compare(fed, bench_);
  base::ThreadPool pool(1);
  EXPECT_FALSE(NameWrongSide(pair, pool));
}

}  // namespace
}  // namespace msprobe::analysis::compare
