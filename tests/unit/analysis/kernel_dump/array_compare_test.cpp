#include "src/analysis/kernel_dump/array_compare.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/kernel_dump/call_record.h"
#include "src/analysis/kernel_dump/numbers.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::TemporaryFolder;

fs::path Array(const TemporaryFolder& folder, const std::string& name,
               const std::vector<float>& values) {
  const fs::path path = folder / name;
  fs::create_directories(path.parent_path());
  TensorView view;
  view.dtype = DType::kFloat32;
  view.shape = {static_cast<int64_t>(values.size())};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  view.extent_bytes = values.size() * sizeof(float);
  EXPECT_TRUE(WriteNpyFile(path, view).ok());
  return path;
}

TEST(CompareArrays, TellsWhichElementsAreTooFarApart) {
  const TemporaryFolder scratch;
  const fs::path left = Array(scratch, "a.npy", {1, 2, 3, 4});
  const fs::path right = Array(scratch, "b.npy", {1, 2.5F, 3});
  const Result<ArrayPair> pair = CompareArrays({left, right, 1});
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(pair->elements, 4U);
  EXPECT_EQ(pair->errors, 2U);  // the shorter side goes on with zeros
  EXPECT_FALSE(pair->all_close);
  ASSERT_EQ(pair->first_errors.size(), 1U);
  EXPECT_EQ(pair->first_errors[0].index, 1U);
  EXPECT_EQ(pair->first.size(), 1U);
  EXPECT_NEAR(pair->cosine, (1 + 5 + 9) / (std::sqrt(30.0) * std::sqrt(16.25)), 1e-12);
  const Result<ArrayPair> same = CompareArrays({left, left, 20});
  EXPECT_TRUE(same->all_close);
  EXPECT_EQ(same->error_ratio(), 0);
}

TEST(CompareArrays, NanIsAnErrorAndZerosHaveNoAngle) {
  const TemporaryFolder scratch;
  const fs::path left = Array(scratch, "a.npy", {NAN, INFINITY});
  const fs::path right = Array(scratch, "b.npy", {NAN, INFINITY});
  EXPECT_EQ(CompareArrays({left, right, 5})->errors, 1U);
  const fs::path zeros = Array(scratch, "z.npy", {0, 0});
  EXPECT_TRUE(std::isnan(CompareArrays({zeros, zeros, 5})->cosine));
  const fs::path empty = Array(scratch, "e.npy", {});
  EXPECT_EQ(CompareArrays({empty, empty, 5})->error_ratio(), 0);
}

TEST(CompareArrayFolders, PairsCallsInTheirOrder) {
  const TemporaryFolder scratch;
  Array(scratch, "a/Add/17/x.npy", {1, 2});
  Array(scratch, "a/Add/18/x.npy", {0, 2});
  Array(scratch, "b/Add/27/x.npy", {1, 2});
  Array(scratch, "b/Add/28/x.npy", {0, 4});
  EXPECT_TRUE(HoldsOnlyArrays(scratch / "a"));
  const Result<BatchComparison> comparison =
      CompareArrayFolders(scratch / "a", scratch / "b", scratch / "out");
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  ASSERT_EQ(comparison->rows.size(), 2U);
  EXPECT_TRUE(comparison->rows[0].same_bytes);
  EXPECT_EQ(comparison->rows[1].max_absolute, 2);
  EXPECT_EQ(comparison->rows[1].max_relative, 0.5);
  EXPECT_TRUE(Slurp(comparison->table)
                  .starts_with("NPU File Name,Bench File Name,Mean,Bench Mean,Md5 Consistency,"));
  Array(scratch, "b/Mul/27/x.npy", {1, 2});
  EXPECT_EQ(CompareArrayFolders(scratch / "a", scratch / "b", scratch / "out").status().code(),
            StatusCode::kMismatch);
}

TEST(WriteArrayText, WritesNoFileThatDwarfsItsSource) {
  const TemporaryFolder scratch;
  const fs::path source = Array(scratch, "a.npy", {1});
  const Result<TensorFile> file = TensorFile::Open(source);
  ASSERT_TRUE(file.ok());
  NamedTensor array = file->tensors()[0];
  const uint64_t most = kFreeTextElements + kTimesFileOfText * file->size_bytes();
  array.view.shape = {static_cast<int64_t>(most + kTimesFileOfText)};
  array.view.strides = {0};
  const Status status = WriteArrayText(scratch / "a.txt", *file, array);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_FALSE(fs::exists(scratch / "a.txt"));
  array.view.shape = {1000};
  EXPECT_TRUE(WriteArrayText(scratch / "a.txt", *file, array).ok());
  EXPECT_EQ(Slurp(scratch / "a.txt").size(), 4000U);
}

TEST(ViewArray, ShowsTheFirstElementsAndWritesAll) {
  const TemporaryFolder scratch;
  const Result<ArrayView> view = ViewArray(Array(scratch, "a.npy", {0.1F, 2, -3}));
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->facts, "[Shape: (3,)] [Dtype: float32] [Max: 2.0] [Min: -3.0] [Mean: -0.3]");
  EXPECT_EQ(Slurp(view->text_file), "0.1\n2.0\n-3.0\n");
  EXPECT_EQ(view->table.row_count(), 1U);
}

TEST(DescribeCalls, ShowsStackAndTensorsOfACall) {
  const TemporaryFolder scratch;
  const fs::path record = scratch.Write(
      "calls.pkl",
      "[\"Functional_relu_0_forward_stack_info\", 1, [\"File b.py\", \"File a.py\"], null, null]\n"
      "[\"Functional_relu_0_forward_input.0\", 1, [], \"torch.float32\", [2, 3], [1.5, -1.0, "
      "0.25]]\n"
      "not json\n");
  const Result<std::vector<std::string>> lines = DescribeCalls(record, "Functional_relu_0");
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  ASSERT_EQ(lines->size(), 3U);
  EXPECT_EQ((*lines)[0], "  File a.py");
  EXPECT_EQ((*lines)[2],
            "  [Functional_relu_0_forward_input.0][dtype: torch.float32][shape: [2, 3]]"
            "[max: 1.5][min: -1.0][mean: 0.25]");
  EXPECT_EQ(DescribeCalls(record, "Torch_add").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace msprobe::analysis::kernel_dump
