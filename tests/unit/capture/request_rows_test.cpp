// Parts of tensors, the rows of a request, and what risk_level leaves out.
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/capture/filters.h"
#include "src/capture/manifest.h"
#include "src/capture/tensor_values.h"
#include "tests/unit/capture/test_capture.h"

namespace msprobe::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TensorSlice Part(int64_t dimension, int64_t begin, std::optional<int64_t> end = {},
                 std::optional<int64_t> size = {}) {
  TensorSlice slice;
  slice.dimension = dimension;
  slice.begin = begin;
  slice.end = end;
  slice.size = size;
  return slice;
}

// A tensor of floats 0, 1, 2, ... after the parts were taken.
struct Taken {
  Taken(Shape shape, const std::vector<TensorSlice>& slices) : values(1000) {
    std::iota(values.begin(), values.end(), 0.0F);
    tensor.dtype = DType::kFloat32;
    tensor.shape = std::move(shape);
    tensor.data = values.data();
    TakeSlices(slices, tensor);
  }
  int64_t first() const { return static_cast<const float*>(tensor.data) - values.data(); }

  std::vector<float> values;
  TensorDescription tensor;
};

TEST(TensorParts, AreCountedAsPythonCounts) {
  EXPECT_THAT(Taken({10, 6}, {Part(0, 2, 5), Part(1, -2)}).tensor.shape, ElementsAre(3, 2));
  EXPECT_EQ(Taken({10, 6}, {Part(0, 2, 5), Part(1, -2)}).first(), 2 * 6 + 4);
  EXPECT_THAT(Taken({10}, {Part(0, -3, -1)}).tensor.shape, ElementsAre(2));
  EXPECT_THAT(Taken({10}, {Part(0, -99, 99)}).tensor.shape, ElementsAre(10));
  EXPECT_THAT(Taken({10}, {Part(0, 5, 2)}).tensor.shape, ElementsAre(0));
  EXPECT_THAT(Taken({10}, {Part(0, 12)}).tensor.shape, ElementsAre(0));
  EXPECT_THAT(Taken({}, {Part(0, 1)}).tensor.shape, ElementsAre());
  EXPECT_THAT(Taken({3, 4}, {Part(2, 1)}).tensor.shape, ElementsAre(3, 4));
}

TEST(TensorParts, OfASizeAreTakenOfNoOtherAndTheLastOneCounts) {
  EXPECT_THAT(Taken({8, 6}, {Part(0, 2, 5, 10)}).tensor.shape, ElementsAre(8, 6));
  EXPECT_THAT(Taken({10, 6}, {Part(0, 2, 5, 10)}).tensor.shape, ElementsAre(3, 6));
  EXPECT_THAT(Taken({10}, {Part(0, 2, 5), Part(0, 1, 2)}).tensor.shape, ElementsAre(1));
  EXPECT_EQ(Taken({10}, {Part(0, 2, 5), Part(0, 1, 2)}).first(), 1);
  EXPECT_THAT(Taken({10}, {Part(0, 2, 5), Part(0, 1, 2, 9)}).tensor.shape, ElementsAre(3));
}

TEST(TensorParts, FollowTheStrides) {
  Taken taken({4, 5}, {});
  taken.tensor.strides = {1, 10};
  TakeSlices({Part(0, 1, 3), Part(1, 2)}, taken.tensor);
  EXPECT_THAT(taken.tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(taken.first(), 1 + 2 * 10);
  // Strides beyond any memory are left to the check that refuses them.
  Taken far({4, 5}, {});
  far.tensor.strides = {int64_t{1} << 62U, 1};
  TakeSlices({Part(0, 2)}, far.tensor);
  EXPECT_THAT(far.tensor.shape, ElementsAre(4, 5));
  EXPECT_EQ(far.first(), 0);
}

TEST(TensorParts, AreWhatADumpHolds) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump",
                      R"("task": "tensor", "slice": [{"dim": 0, "begin": 1, "end": 3}])");
  const std::vector<float> values = {1, 2, 3, 4};
  capture.Start();
  EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(values.data(), {4})), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.b.0.forward", FloatTensor(values.data(), {1})), MSPROBE_OK);
  capture.Step();
  const std::filesystem::path rank = folder / "dump/step0/rank";
  const std::string data = DataOf(rank / "dump.json");
  EXPECT_THAT(data, HasSubstr("\"Max\": 3.0"));
  EXPECT_THAT(data, HasSubstr("\"Min\": 2.0"));
  EXPECT_THAT(data, HasSubstr("\"Max\": null")) << "of the one of which nothing is left";
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"begin\": 1"));
}

// ---- requests ----

int SetBatch(const TestCapture& capture, const std::vector<msprobe_request>& requests) {
  return msprobe_capture_set_batch(capture.get(), requests.data(), requests.size());
}

TEST(Requests, HaveTheRowsThatTheirOrderGivesThem) {
  const std::vector<RequestRows> batch = {{"a", 0, 10}, {"b", 10, 25}};
  const std::optional<TensorSlice> rows = RowsOf(batch, "b");
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->size, 25);
  EXPECT_EQ(rows->begin, 10);
  EXPECT_EQ(rows->end, 25);
  EXPECT_FALSE(RowsOf(batch, "c").has_value());
}

TEST(Requests, AreRecordedAloneWhereOneIsNamed) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("request_id": "b")");
  const std::vector<float> values = {1, 2, 3, 4, 5};
  ASSERT_EQ(SetBatch(capture, {{Text("a"), 2}, {Text("b"), 3}}), MSPROBE_OK);
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(values.data(), {5})), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.b.0.forward", FloatTensor(values.data(), {4})), MSPROBE_OK);
  capture.Step();
  const std::filesystem::path rank = folder / "dump/step0/rank";
  const std::string data = DataOf(rank / "dump.json");
  EXPECT_THAT(data, HasSubstr("\"Min\": 3.0")) << "rows 2 to 5";
  EXPECT_THAT(data, HasSubstr("\"Max\": 4.0")) << "another length: no rows of the batch";
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"request_id\": \"b\""));

  ASSERT_EQ(SetBatch(capture, {{Text("a"), 5}}), MSPROBE_OK);
  EXPECT_EQ(capture.Start(), MSPROBE_START_OFF) << "not in this batch";
  capture.Step();
  EXPECT_FALSE(std::filesystem::exists(folder / "dump/step1"));

  ASSERT_EQ(capture.Start(), MSPROBE_START_ON) << "the batch is not known: everything is recorded";
  EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(values.data(), {5})), MSPROBE_OK);
  capture.Step();
  EXPECT_THAT(DataOf(folder / "dump/step2/rank/dump.json"), HasSubstr("\"Min\": 1.0"));
}

TEST(Requests, StandInTheManifestOfTheirStep) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  ASSERT_EQ(SetBatch(capture, {{Text("a"), 2}, {Text("b"), 3}}), MSPROBE_OK);
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  capture.Step();
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  capture.Step();
  const std::string first = test_support::Slurp(folder / "dump/step0/rank/manifest.json");
  EXPECT_THAT(first, HasSubstr("\"id\": \"b\""));
  EXPECT_THAT(first, HasSubstr("\"begin\": 2"));
  EXPECT_THAT(first, HasSubstr("\"end\": 5"));
  EXPECT_THAT(test_support::Slurp(folder / "dump/step1/rank/manifest.json"),
              Not(HasSubstr("requests")));
}

TEST(Requests, WithoutRowsAreRefused) {
  const test_support::TemporaryFolder folder;
  const TestCapture capture(folder / "dump");
  EXPECT_EQ(SetBatch(capture, {{Text("a"), 0}}), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("request a has 0 rows"));
  EXPECT_EQ(SetBatch(capture, {{Text("a"), INT64_MAX}, {Text("b"), 1}}), MSPROBE_ERROR_USAGE);
  EXPECT_EQ(msprobe_capture_set_batch(capture.get(), nullptr, 1), MSPROBE_ERROR_USAGE);
}

// ---- risk_level ----

TEST(RiskLevels, LeaveOutWhatOnlyMovesElementsOrKeepWhatMultipliesThem) {
  for (const char* api : {"reshape", "cat", "to", "__bool__", "split_with_sizes"}) {
    EXPECT_TRUE(IsAtRisk(RiskLevel::kAll, "Torch", api)) << api;
    EXPECT_FALSE(IsAtRisk(RiskLevel::kFocus, "Torch", api)) << api;
    EXPECT_FALSE(IsAtRisk(RiskLevel::kCore, "Torch", api)) << api;
  }
  for (const char* api : {"relu", "__mul__", "softmax"}) {
    EXPECT_TRUE(IsAtRisk(RiskLevel::kFocus, "Functional", api)) << api;
    EXPECT_FALSE(IsAtRisk(RiskLevel::kCore, "Functional", api)) << api;
  }
  for (const char* api : {"linear", "matmul", "layer_norm", "batch_norm_stats"}) {
    EXPECT_TRUE(IsAtRisk(RiskLevel::kCore, "Functional", api)) << api;
  }
  EXPECT_TRUE(IsAtRisk(RiskLevel::kCore, "Distributed", "all_reduce"));
  EXPECT_TRUE(IsAtRisk(RiskLevel::kCore, "NPU", "npu_rms_norm"));
}

TEST(RiskLevels, HoldForApisWhereNothingElseSelectsThem) {
  const auto wants = [](Settings settings, std::string_view name) {
    settings.risk_level = RiskLevel::kCore;
    Result<Filters> filters = Filters::Create(settings);
    EXPECT_TRUE(filters.ok()) << filters.status().message();
    return filters->Enter(name).input;
  };
  Settings settings;
  settings.level = Level::kMix;
  EXPECT_FALSE(wants(settings, "Torch.relu.0.forward"));
  EXPECT_FALSE(wants(settings, "Torch.relu.0.backward"));
  EXPECT_TRUE(wants(settings, "Torch.matmul.0.forward"));
  EXPECT_TRUE(wants(settings, "Module.act.ReLU.forward.0"));
  settings.list = {"relu"};
  EXPECT_TRUE(wants(settings, "Torch.relu.0.forward"));
}

}  // namespace
}  // namespace msprobe::capture
