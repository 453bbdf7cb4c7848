#include "src/grad_probe/probe.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::grad_probe {
namespace {

namespace fs = std::filesystem;

class GradProbe : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("grad_probe_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Settings At(Level level) const {
    Settings settings;
    settings.dump_path = folder_.string();
    settings.level = level;
    return settings;
  }

  static TensorView ViewOf(const std::vector<float>& values) {
    TensorView view;
    view.shape = {static_cast<int64_t>(values.size())};
    view.strides = {1};
    view.data = reinterpret_cast<const std::byte*>(values.data());
    view.extent_bytes = values.size() * sizeof(float);
    return view;
  }

  fs::path folder_;
};

TEST_F(GradProbe, StepsAndRanksAreSelectedAndTheLastStepIsTheEnd) {
  Settings settings = At(Level::kL1);
  settings.steps = {1, 4};
  settings.ranks = {0, 2};
  const Probe probe(settings);
  bool finished = false;
  EXPECT_FALSE(probe.Selects(0, 0, finished));
  EXPECT_FALSE(finished);
  EXPECT_TRUE(probe.Selects(2, 1, finished));
  EXPECT_TRUE(probe.Selects(-1, 4, finished));
  EXPECT_FALSE(probe.Selects(0, 5, finished));
  EXPECT_TRUE(finished);
  EXPECT_FALSE(probe.Selects(1, 1, finished));
  EXPECT_TRUE(finished);
}

TEST_F(GradProbe, FilesAreThereWhenItIsFlushed) {
  Probe probe(At(Level::kL1));
  const std::vector<float> values(1000, 1.0F);
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(probe.BeginStep(3, step).ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(probe.Put("layer/" + std::to_string(i), ViewOf(values)).ok());
    }
    ASSERT_TRUE(probe.EndStep().ok());
  }
  ASSERT_TRUE(probe.Flush().ok());
  EXPECT_TRUE(fs::exists(folder_ / "rank3/grad_summary_2.csv"));
  EXPECT_EQ(fs::file_size(folder_ / "rank3/step2/layer_19.npy"), 128U + 1000U);
}

TEST_F(GradProbe, AFileThatCannotBeWrittenIsToldOnceAndTheOthersAreThere) {
  Probe probe(At(Level::kL1));
  ASSERT_TRUE(probe.BeginStep(0, 0).ok());
  fs::create_directories(folder_ / "rank0/step0/a.npy");
  ASSERT_TRUE(probe.Put("a", ViewOf({1})).ok());
  ASSERT_TRUE(probe.Put("b", ViewOf({1})).ok());
  const Status ended = probe.EndStep();
  const Status flushed = probe.Flush();
  EXPECT_NE(ended.ok(), flushed.ok());
  EXPECT_TRUE(fs::is_regular_file(folder_ / "rank0/step0/b.npy"));
  EXPECT_TRUE(fs::is_regular_file(folder_ / "rank0/grad_summary_0.csv"));
  EXPECT_TRUE(probe.Flush().ok());
}

TEST_F(GradProbe, ANameTooLongForAFileIsAnErrorOfThatGradient) {
  Probe probe(At(Level::kL1));
  ASSERT_TRUE(probe.BeginStep(0, 0).ok());
  EXPECT_FALSE(probe.Put(std::string(300, 'x'), ViewOf({1})).ok());
  EXPECT_TRUE(probe.Put("b", ViewOf({1})).ok());
  EXPECT_TRUE(probe.EndStep().ok());
}

}  // namespace
}  // namespace msprobe::grad_probe
