// What hooks describe, and the text that stands in dump.json for it.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "msprobe/capture.h"

#include "tests/unit/capture/test_capture.h"

namespace msprobe::capture {
namespace {

using ::testing::HasSubstr;

class EntryOfAStep : public ::testing::Test {
 protected:
  std::string Finish() {
    capture_.Step();
    return DataOf(folder_ / "dump/step0/rank/dump.json");
  }

  test_support::TemporaryFolder folder_;
  TestCapture capture_{folder_ / "dump"};
};

TEST_F(EntryOfAStep, StandsInDumpJsonAsPythonWouldSpellIt) {
  capture_.Start();
  msprobe_entry* const entry = capture_.Begin("Torch.foo.0.forward");
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_null(entry);
  msprobe_open_typed(entry, Text("float"));
  msprobe_put_float(entry, 1e-05);
  msprobe_close(entry);
  msprobe_open_typed(entry, Text("slice"));
  msprobe_open_array(entry, MSPROBE_NOT_IN_FILE_NAME);
  msprobe_put_int(entry, -1);
  msprobe_put_null(entry);
  msprobe_put_digits(entry, Text("123456789012345678901234567890"));
  msprobe_close(entry);
  msprobe_close(entry);
  msprobe_close(entry);
  msprobe_put_member(entry, Text("input_kwargs"), Text("kwargs"));
  msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_key(entry, Text("schl\xC3\xBCssel"));
  msprobe_put_bool(entry, 1);
  msprobe_put_key(entry, Text("empty"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  msprobe_close(entry);
  msprobe_close(entry);
  msprobe_put_member(entry, Text("is_recompute"), Text(""));
  msprobe_put_bool(entry, 0);
  Commit(entry);

  EXPECT_EQ(Finish(), R"({
  "Torch.foo.0.forward": {
   "input_args": [
    null,
    {
     "type": "float",
     "value": 1e-05
    },
    {
     "type": "slice",
     "value": [
      -1,
      null,
      123456789012345678901234567890
     ]
    }
   ],
   "input_kwargs": {
    "schl\u00fcssel": true,
    "empty": []
   },
   "is_recompute": false
  }
 })");
}

TEST_F(EntryOfAStep, DescribesATensorWithItsStatistics) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> shape = {2, 3};
  capture_.Start();
  msprobe_tensor tensor = FloatTensor(values.data(), shape);
  tensor.requires_grad = 1;
  EXPECT_EQ(capture_.Record("Tensor.add.0.forward", tensor), MSPROBE_OK);
  EXPECT_EQ(Finish(), R"({
  "Tensor.add.0.forward": {
   "output": [
    {
     "type": "torch.Tensor",
     "dtype": "torch.float32",
     "shape": [
      2,
      3
     ],
     "Max": 5.0,
     "Min": 0.0,
     "Mean": 2.5,
     "Norm": 7.416198253631592,
     "requires_grad": true
    }
   ]
  }
 })");
}

TEST_F(EntryOfAStep, KeepsThePlaceOfTheFirstPieceAndTheValueOfTheLast) {
  capture_.Start();
  for (const int value : {1, 2}) {
    for (const char* name : {"A.a.0.forward", "B.b.0.forward"}) {
      msprobe_entry* const entry = capture_.Begin(name);
      msprobe_put_member(entry, Text("output"), Text("output"));
      msprobe_put_int(entry, value);
      Commit(entry);
    }
  }
  msprobe_entry* const late = capture_.Begin("A.a.0.forward");
  msprobe_put_member(late, Text("is_recompute"), Text(""));
  msprobe_put_bool(late, 0);
  Commit(late);
  EXPECT_EQ(Finish(), R"({
  "A.a.0.forward": {
   "output": 2,
   "is_recompute": false
  },
  "B.b.0.forward": {
   "output": 2
  }
 })");
}

TEST_F(EntryOfAStep, IsInvisibleUntilItsCommit) {
  capture_.Start();
  msprobe_entry* const dropped = capture_.Begin("Torch.dropped.0.forward");
  msprobe_put_member(dropped, Text("output"), Text("output"));
  msprobe_put_int(dropped, 1);
  msprobe_entry_discard(dropped);
  EXPECT_EQ(Finish(), "{}");
}

TEST_F(EntryOfAStep, StaysValidJsonWhateverIsCalled) {
  capture_.Start();
  msprobe_entry* const entry = capture_.Begin("Torch.bad.0.forward");
  msprobe_close(entry);  // there is no open container
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  msprobe_put_int(entry, 1);
  msprobe_put_int(entry, 2);              // one value too many
  msprobe_open_array(entry, 0);           // has no place either
  msprobe_put_key(entry, Text("ghost"));  // inside what has no place
  msprobe_close(entry);
  msprobe_put_member(entry, Text("input_kwargs"), Text("kwargs"));
  msprobe_open_object(entry, 0);
  msprobe_put_int(entry, 3);  // without a key
  msprobe_put_key(entry, Text("a"));
  msprobe_put_key(entry, Text("b"));
  msprobe_open_typed(entry, Text("int"));
  msprobe_put_member(entry, Text("output"), Text("output"));  // with all this open
  EXPECT_EQ(msprobe_entry_commit(entry), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("there is no open container"));
  EXPECT_EQ(Finish(), R"({
  "Torch.bad.0.forward": {
   "input_args": 1,
   "input_kwargs": {
    "a": null,
    "b": {
     "type": "int",
     "value": null
    }
   },
   "output": null
  }
 })");
  EXPECT_THAT(test_support::Slurp(folder_ / "dump/step0/rank/dump_error_info.log"),
              HasSubstr("[ERROR] Torch.bad.0.forward: there is no open container"));
}

TEST_F(EntryOfAStep, CutsValuesThatNestWithoutEnd) {
  capture_.Start();
  msprobe_entry* const entry = capture_.Begin("Torch.deep.0.forward");
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  constexpr int kDepth = 100000;
  for (int i = 0; i < kDepth; ++i) {
    msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  }
  for (int i = 0; i < kDepth; ++i) {
    msprobe_close(entry);
  }
  msprobe_put_member(entry, Text("is_recompute"), Text(""));
  msprobe_put_bool(entry, 0);
  EXPECT_NE(msprobe_entry_commit(entry), MSPROBE_OK);
  const std::string data = Finish();
  EXPECT_THAT(data, HasSubstr("null"));
  EXPECT_THAT(data, HasSubstr("\"is_recompute\": false"));
}

TEST_F(EntryOfAStep, IsUsableWhereNothingIsRecorded) {
  msprobe_entry* const entry = capture_.Begin("Torch.foo.0.forward");  // before any start
  ASSERT_NE(entry, nullptr);
  msprobe_put_member(entry, Text("output"), Text("output"));
  const float value = 1;
  const msprobe_tensor tensor = FloatTensor(&value, {});
  msprobe_put_tensor(entry, &tensor);
  EXPECT_EQ(msprobe_put_pending(entry), 0U);
  Commit(entry);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "dump"));
}

TEST_F(EntryOfAStep, MayComeBetweenStopAndStep) {
  capture_.Start();
  EXPECT_EQ(msprobe_capture_stop(capture_.get()), MSPROBE_OK);
  EXPECT_EQ(DataOf(folder_ / "dump/step0/rank/dump.json"), "{}");
  const float value = 1;
  EXPECT_EQ(capture_.Record("Torch.foo.0.backward", FloatTensor(&value, {})), MSPROBE_OK);
  EXPECT_THAT(Finish(), HasSubstr("Torch.foo.0.backward"));
}

TEST_F(EntryOfAStep, IsToldWhenItComesTooLate) {
  capture_.Start();
  msprobe_entry* const entry = capture_.Begin("Torch.foo.0.forward");
  msprobe_put_member(entry, Text("output"), Text("output"));
  msprobe_put_int(entry, 1);
  capture_.Step();
  EXPECT_EQ(msprobe_entry_commit(entry), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("step 0 has ended"));
}

TEST_F(EntryOfAStep, FillsStatisticsThatComeLater) {
  const std::vector<float> values = {1, 2};
  const std::vector<int64_t> shape = {2};
  capture_.Start();
  msprobe_entry* const entry = capture_.Begin("Torch.foo.0.forward");
  msprobe_put_member(entry, Text("output"), Text("output"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  const msprobe_tensor tensor = FloatTensor(values.data(), shape);
  const uint64_t ticket = msprobe_put_tensor_deferred(entry, &tensor);
  msprobe_tensor truth = tensor;
  truth.dtype_code = MSPROBE_BOOL;
  truth.data = nullptr;
  const uint64_t truth_ticket = msprobe_put_tensor_deferred(entry, &truth);
  const uint64_t unfilled = msprobe_put_tensor_deferred(entry, &tensor);
  msprobe_close(entry);
  Commit(entry);
  EXPECT_NE(ticket, 0U);
  EXPECT_NE(unfilled, 0U);
  const double statistics[] = {2, 1, 1.5, 2.23606797749979};
  const double any_all[] = {1, 0, 0, 0};
  EXPECT_EQ(msprobe_fill_statistics(capture_.get(), ticket, statistics), MSPROBE_OK);
  EXPECT_EQ(msprobe_fill_statistics(capture_.get(), truth_ticket, any_all), MSPROBE_OK);
  EXPECT_EQ(msprobe_fill_statistics(capture_.get(), 12345, statistics), MSPROBE_ERROR_USAGE);
  const std::string data = Finish();
  EXPECT_THAT(data, HasSubstr("\"Norm\": 2.2360680103302"));
  EXPECT_THAT(data, HasSubstr("\"Max\": true,\n     \"Min\": false,\n     \"Mean\": null"));
  EXPECT_THAT(data, HasSubstr("\"Max\": null"));
}

TEST(DebugEntry, IsOneValueWithPlacesForGradients) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("level": "debug", "task": "tensor")");
  const std::vector<float> values = {1, 2};
  const std::vector<int64_t> shape = {2};
  const msprobe_tensor tensor = FloatTensor(values.data(), shape);
  capture.Start();
  msprobe_entry* const entry = capture.Begin("block.0.debug");
  msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_key(entry, Text("hidden"));
  msprobe_put_tensor(entry, &tensor);
  msprobe_close(entry);
  Commit(entry);
  msprobe_entry* const gradients = capture.Begin("block_grad.0.debug");
  msprobe_open_object(gradients, MSPROBE_IN_FILE_NAME);
  msprobe_put_key(gradients, Text("hidden"));
  const uint64_t ticket = msprobe_put_pending(gradients);
  msprobe_put_key(gradients, Text("unused"));
  EXPECT_NE(msprobe_put_pending(gradients), 0U);
  msprobe_close(gradients);
  Commit(gradients);
  msprobe_entry* const late = msprobe_entry_begin_pending(capture.get(), ticket);
  msprobe_put_tensor(late, &tensor);
  Commit(late);
  capture.Step();

  const auto dump = folder / "dump/step0/rank";
  EXPECT_FALSE(std::filesystem::exists(dump / "dump.json"));
  EXPECT_EQ(DataOf(dump / "debug.json"), R"({
  "block.0.debug": {
   "hidden": {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [
     2
    ],
    "Max": 2.0,
    "Min": 1.0,
    "Mean": 1.5,
    "Norm": 2.2360680103302,
    "requires_grad": false,
    "data_name": "block.0.debug.hidden.pt"
   }
  },
  "block_grad.0.debug": {
   "hidden": {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [
     2
    ],
    "Max": 2.0,
    "Min": 1.0,
    "Mean": 1.5,
    "Norm": 2.2360680103302,
    "requires_grad": false,
    "data_name": "block_grad.0.debug.hidden.pt"
   },
   "unused": null
  }
 })");
  EXPECT_TRUE(std::filesystem::exists(dump / "dump_tensor_data/block_grad.0.debug.hidden.pt"));
}

}  // namespace
}  // namespace msprobe::capture
