// Tensor files of captures: their names, their content, and what equal ones share.
#include "src/capture/tensor_files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "msprobe/tensor_file.h"

#include "tests/unit/capture/test_capture.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<float> Ramp(size_t count, float first = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = first + static_cast<float>(i % 1000);
  }
  return values;
}

std::vector<float> ReadFloats(const fs::path& path) {
  const Result<TensorFile> file = TensorFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  const Result<const NamedTensor*> tensor = file->Single();
  EXPECT_TRUE(tensor.ok());
  const auto bytes = (*tensor)->view.bytes();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

uint64_t FileNumber(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_ino;
}

TEST(TensorFileName, IsThePathToTheTensor) {
  EXPECT_EQ(TensorFileName("Torch.cat.0.forward.input.0.1", TensorFileKind::kPt),
            "Torch.cat.0.forward.input.0.1.pt");
  EXPECT_EQ(TensorFileName("Cell.a.B.forward.0.output.0", TensorFileKind::kNpy),
            "Cell.a.B.forward.0.output.0.npy");
}

TEST(TensorFileName, NeverLeavesItsFolder) {
  const std::string name = TensorFileName("loss.0.debug.../../etc/passwd", TensorFileKind::kPt);
  EXPECT_EQ(name.find('/'), std::string::npos);
  EXPECT_NE(TensorFileName("a.b/c", TensorFileKind::kPt),
            TensorFileName("a.b_c", TensorFileKind::kPt));
  EXPECT_NE(TensorFileName("", TensorFileKind::kPt).front(), '.');
  EXPECT_NE(TensorFileName("..", TensorFileKind::kPt).front(), '.');
}

TEST(TensorFileName, StaysDifferentWhenCut) {
  const std::string head(400, 'x');
  const std::string a = TensorFileName(head + "a", TensorFileKind::kPt);
  const std::string b = TensorFileName(head + "b", TensorFileKind::kPt);
  EXPECT_EQ(a.size(), 255U);
  EXPECT_NE(a, b);
  EXPECT_THAT(a, ::testing::EndsWith(".pt"));
}

TEST(TensorFiles, HoldWhatWasDescribed) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor", "summary_mode": "md5")");
  capture.Start();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{100'000}, size_t{1'000'000}}) {
    const std::vector<float> values = Ramp(count);
    const std::vector<int64_t> shape = {static_cast<int64_t>(count)};
    EXPECT_EQ(capture.Record("Torch.a" + std::to_string(count) + ".0.forward",
                             FloatTensor(values.data(), shape)),
              MSPROBE_OK);
  }
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{100'000}, size_t{1'000'000}}) {
    EXPECT_EQ(ReadFloats(tensors / ("Torch.a" + std::to_string(count) + ".0.forward.output.0.pt")),
              Ramp(count));
  }
}

TEST(TensorFiles, AreNamedByThePlaceOfTheTensor) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  const float value = 1;
  const msprobe_tensor tensor = FloatTensor(&value, {});
  capture.Start();
  msprobe_entry* const entry = capture.Begin("Module.m.Multi.forward.0");
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_tensor(entry, &tensor);
  msprobe_put_null(entry);
  msprobe_open_object(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_key(entry, Text("a"));
  msprobe_put_null(entry);
  msprobe_put_key(entry, Text("b"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_tensor(entry, &tensor);
  msprobe_close(entry);
  msprobe_close(entry);
  msprobe_put_tensor(entry, &tensor);
  msprobe_close(entry);
  Commit(entry);
  msprobe_entry* const gradient = capture.Begin("Module.m.Multi.parameters_grad");
  msprobe_put_member(gradient, Text("weight"), Text("weight"));
  msprobe_open_array(gradient, MSPROBE_NOT_IN_FILE_NAME);
  msprobe_put_tensor(gradient, &tensor);
  msprobe_close(gradient);
  Commit(gradient);
  capture.Step();
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder / "dump/step0/rank/dump_tensor_data")) {
    names.push_back(file.path().filename());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("Module.m.Multi.forward.0.input.0.pt",
                                                     "Module.m.Multi.forward.0.input.2.b.0.pt",
                                                     "Module.m.Multi.forward.0.input.3.pt",
                                                     "Module.m.Multi.parameters_grad.weight.pt"));
}

TEST(TensorFiles, OfEqualTensorsShareTheirBytes) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  const std::vector<float> values = Ramp(50'000);
  const std::vector<float> others = Ramp(50'000, 1);
  const std::vector<int64_t> shape = {50'000};
  const std::vector<int64_t> square = {250, 200};
  capture.Start();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(capture.Record("Torch.a." + std::to_string(i) + ".forward",
                             FloatTensor(values.data(), shape)),
              MSPROBE_OK);
  }
  EXPECT_EQ(capture.Record("Torch.b.0.forward", FloatTensor(others.data(), shape)), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.c.0.forward", FloatTensor(values.data(), square)), MSPROBE_OK);
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  const auto file = [&](const char* api, int i) {
    return tensors /
           ("Torch." + std::string(api) + "." + std::to_string(i) + ".forward.output.0.pt");
  };
  for (int i = 1; i < 20; ++i) {
    EXPECT_EQ(FileNumber(file("a", i)), FileNumber(file("a", 0)));
  }
  EXPECT_NE(FileNumber(file("b", 0)), FileNumber(file("a", 0)));
  EXPECT_NE(FileNumber(file("c", 0)), FileNumber(file("a", 0)));
  EXPECT_EQ(ReadFloats(file("b", 0)), others);
  EXPECT_EQ(capture.Totals().deduplicated_files, 19U);
  EXPECT_EQ(capture.Totals().tensor_files, 22U);
  EXPECT_EQ(capture.Totals().tensor_bytes, 22U * 200'000U);
  EXPECT_LT(capture.Totals().written_bytes, 3U * 202'000U);
}

TEST(TensorFiles, HoldTheLastTensorGivenForAName) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor", "deduplicate_from_bytes": 0)");
  const std::vector<int64_t> shape = {30'000};
  const std::vector<float> first = Ramp(30'000, 1);
  const std::vector<float> last = Ramp(30'000, 2);
  capture.Start();
  for (int i = 0; i < 50; ++i) {
    const std::string name = "Torch.a." + std::to_string(i) + ".backward";
    EXPECT_EQ(capture.Record(name, FloatTensor(first.data(), shape)), MSPROBE_OK);
    EXPECT_EQ(capture.Record(name, FloatTensor(last.data(), shape)), MSPROBE_OK);
  }
  // Equal to what stood under those names first.
  EXPECT_EQ(capture.Record("Torch.b.0.forward", FloatTensor(first.data(), shape)), MSPROBE_OK);
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(ReadFloats(tensors / ("Torch.a." + std::to_string(i) + ".backward.output.0.pt")),
              last);
  }
  EXPECT_EQ(ReadFloats(tensors / "Torch.b.0.forward.output.0.pt"), first);
  EXPECT_EQ(capture.Totals().tensor_files, 51U);
}

TEST(TensorFiles, AreCompleteWithLittleMemoryAndInOneThread) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump",
                      R"("task": "tensor", "writer_memory_bytes": 1048576, "writer_threads": 1,
                         "deduplicate": false)");
  const std::vector<float> small = Ramp(100'000);
  const std::vector<float> large = Ramp(1'000'000);  // more than there is memory for
  const std::vector<int64_t> small_shape = {100'000};
  const std::vector<int64_t> large_shape = {1'000'000};
  capture.Start();
  msprobe_entry* const entry = capture.Begin("Torch.a.0.forward");
  msprobe_put_member(entry, Text("output"), Text("output"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  const msprobe_tensor tensor = FloatTensor(small.data(), small_shape);
  for (int i = 0; i < 30; ++i) {
    msprobe_put_tensor(entry, &tensor);
  }
  const msprobe_tensor large_tensor = FloatTensor(large.data(), large_shape);
  msprobe_put_tensor(entry, &large_tensor);
  msprobe_close(entry);
  Commit(entry);
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  EXPECT_EQ(capture.Totals().tensor_files, 31U);
  EXPECT_EQ(ReadFloats(tensors / "Torch.a.0.forward.output.29.pt"), small);
  EXPECT_EQ(ReadFloats(tensors / "Torch.a.0.forward.output.30.pt"), large);
}

TEST(TensorFiles, OfMindSporeAreNumpyFilesWithBFloat16Widened) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")", "mindspore");
  const std::vector<uint16_t> ones(8, 0x3F80);
  const std::vector<int64_t> shape = {8};
  msprobe_tensor tensor = FloatTensor(nullptr, shape);
  tensor.type = Text("mindspore.Tensor");
  tensor.dtype = Text("BFloat16");
  tensor.dtype_code = MSPROBE_BFLOAT16;
  tensor.requires_grad = -1;
  tensor.data = ones.data();
  capture.Start();
  EXPECT_EQ(capture.Record("Mint.add.0.forward", tensor), MSPROBE_OK);
  capture.Step();
  EXPECT_EQ(ReadFloats(folder / "dump/step0/rank/dump_tensor_data/Mint.add.0.forward.output.0.npy"),
            std::vector<float>(8, 1.0F));
  EXPECT_THAT(DataOf(folder / "dump/step0/rank/dump.json"),
              ::testing::Not(HasSubstr("requires_grad")));
}

TEST(TensorFiles, ExistForEmptyTensorsButNotForThoseWithoutValues) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor", "summary_mode": "md5")");
  const std::vector<int64_t> empty = {0, 3};
  const std::vector<int64_t> shape = {2};
  capture.Start();
  EXPECT_EQ(capture.Record("Torch.empty.0.forward", FloatTensor(nullptr, empty)), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.meta.0.forward", FloatTensor(nullptr, shape)), MSPROBE_OK);
  msprobe_tensor quantised = FloatTensor(nullptr, shape);
  quantised.dtype = Text("torch.qint8");
  quantised.dtype_code = MSPROBE_DTYPE_UNKNOWN;
  EXPECT_EQ(capture.Record("Torch.quantised.0.forward", quantised), MSPROBE_OK);
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  EXPECT_TRUE(fs::exists(tensors / "Torch.empty.0.forward.output.0.pt"));
  EXPECT_FALSE(fs::exists(tensors / "Torch.meta.0.forward.output.0.pt"));
  const std::string data = DataOf(folder / "dump/step0/rank/dump.json");
  EXPECT_THAT(data, HasSubstr("\"md5\": \"00000000\""));
  EXPECT_THAT(data, HasSubstr("\"dtype\": \"torch.qint8\""));
}

TEST(OverflowCheck, KeepsEntriesThatOverflowAndEndsAfterEnough) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "overflow_check", "overflow_nums": 2)");
  const std::vector<float> finite = {1, 2};
  const std::vector<float> infinite = {1, INFINITY};
  const std::vector<float> undefined = {NAN, 2};
  const std::vector<int64_t> shape = {2};
  capture.Start();
  EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(finite.data(), shape)), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.b.0.forward", FloatTensor(infinite.data(), shape)), MSPROBE_OK);
  EXPECT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(capture.Record("Torch.c.0.forward", FloatTensor(undefined.data(), shape)), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.d.0.forward", FloatTensor(infinite.data(), shape)), MSPROBE_OK);
  EXPECT_EQ(capture.Start(), MSPROBE_START_FINISHED);
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  const std::string data = DataOf(folder / "dump/step0/rank/dump.json");
  EXPECT_THAT(data, HasSubstr("Torch.b.0.forward.output.0.pt"));
  EXPECT_THAT(data, HasSubstr("Torch.c.0.forward.output.0.pt"));
  EXPECT_FALSE(fs::exists(tensors / "Torch.a.0.forward.output.0.pt"));
  EXPECT_TRUE(fs::exists(tensors / "Torch.b.0.forward.output.0.pt"));
  EXPECT_TRUE(fs::exists(tensors / "Torch.c.0.forward.output.0.pt"));
  EXPECT_FALSE(fs::exists(tensors / "Torch.d.0.forward.output.0.pt"));
}

TEST(OverflowCheck, TellsTheFirstHitsAndRecordsThemAll) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "overflow_check", "overflow_nums": -1)");
  const float infinity = INFINITY;
  capture.Start();
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(
        capture.Record("Torch.a." + std::to_string(i) + ".forward", FloatTensor(&infinity, {})),
        MSPROBE_OK);
  }
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 20);
  EXPECT_THAT(told, HasSubstr("later ones are only recorded"));
  EXPECT_EQ(capture.Totals().entries, 100U);
}

TEST(OverflowCheck, IsOnlyMadeByItsOwnTask) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  const float infinity = INFINITY;
  capture.Start();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(
        capture.Record("Torch.a." + std::to_string(i) + ".forward", FloatTensor(&infinity, {})),
        MSPROBE_OK);
  }
  EXPECT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(capture.Totals().entries, 5U);
}

TEST(OverflowCheck, KeepsTheInputsAsTheyWereBeforeTheCall) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "overflow_check")");
  std::vector<float> values = {1, 2};
  const std::vector<int64_t> shape = {2};
  capture.Start();
  msprobe_entry* const entry = capture.Begin("Tensor.mul_.0.forward");
  const msprobe_tensor tensor = FloatTensor(values.data(), shape);
  msprobe_put_member(entry, Text("input_args"), Text("input"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_tensor(entry, &tensor);
  msprobe_close(entry);
  values = {INFINITY, INFINITY};
  msprobe_put_member(entry, Text("output"), Text("output"));
  msprobe_open_array(entry, MSPROBE_IN_FILE_NAME);
  msprobe_put_tensor(entry, &tensor);
  msprobe_close(entry);
  Commit(entry);
  capture.Step();
  const fs::path tensors = folder / "dump/step0/rank/dump_tensor_data";
  EXPECT_EQ(ReadFloats(tensors / "Tensor.mul_.0.forward.input.0.pt"), (std::vector<float>{1, 2}));
}

TEST(Capture, TakesRecordsOfSeveralThreads) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  capture.Start();
  constexpr int kThreads = 4;
  constexpr int kEntries = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<float> values = Ramp(100, static_cast<float>(t));
      const std::vector<int64_t> shape = {100};
      for (int i = 0; i < kEntries; ++i) {
        const std::string name =
            "Torch.t" + std::to_string(t) + "." + std::to_string(i) + ".forward";
        EXPECT_EQ(capture.Record(name, FloatTensor(values.data(), shape)), MSPROBE_OK);
        msprobe_capture_construct(capture.get(), Text(name), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  capture.Step();
  EXPECT_EQ(capture.Totals().entries, static_cast<uint64_t>(kThreads * kEntries));
  EXPECT_EQ(capture.Totals().tensor_files, static_cast<uint64_t>(kThreads * kEntries));
  EXPECT_EQ(capture.Totals().errors, 0U);
  EXPECT_THAT(DataOf(folder / "dump/step0/rank/dump.json"), HasSubstr("Torch.t3.199.forward"));
}

}  // namespace
}  // namespace msprobe::capture
