// An earlier dump as the measure of a later one.
#include "src/capture/bench_step.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {
namespace {

using ::testing::HasSubstr;
using Outcome = BenchStep::Outcome;

std::string Leaf(std::string_view crc, std::string_view shape = "[2]") {
  return fmt::format(
      R"({{"type": "torch.Tensor", "dtype": "torch.float32", "shape": {}, "md5": {}}})", shape,
      crc);
}

void WriteDump(const base::Path& folder, const std::string& data) {
  std::filesystem::create_directories(folder);
  const std::string text = R"({"task": "statistics", "level": "L1", "data": {)" + data + "}}";
  ASSERT_TRUE(base::WriteFileAtomically(folder / "dump.json", text).ok());
}

std::string Call() {
  return fmt::format(
      R"("Torch.a.0.forward": {{"input_args": [{}, [{}]], "input_kwargs": {{"k": {{"n": {}}}}},
         "is_recompute": false, "output": [{}, {}]}})",
      Leaf(R"("00000001")"), Leaf(R"("00000002")"), Leaf(R"("0000000a")"), Leaf("null"),
      Leaf(R"("0000000b")"));
}

CheckedCall Same() {
  CheckedCall call;
  for (const uint32_t crc : {1U, 2U, 10U}) {
    call.inputs.push_back({{2}, crc});
  }
  call.outputs.push_back({{2}, std::nullopt});
  call.outputs.push_back({{2}, 11U});
  return call;
}

TEST(BenchStep, FindsTheCallThatDiffers) {
  const test_support::TemporaryFolder folder;
  WriteDump(folder / "step3/rank1", Call());
  const auto bench = BenchStep::Load(folder.path(), 3, 1);
  ASSERT_TRUE(bench.ok()) << bench.status().message();
  const auto judged = [&](const CheckedCall& call, std::string_view name = "Torch.a.0.forward") {
    return (*bench)->Judge(name, call);
  };
  EXPECT_EQ(judged(Same()).outcome, Outcome::kEqual);
  EXPECT_EQ(judged(Same(), "Torch.a.1.forward").outcome, Outcome::kUnknown);

  CheckedCall call = Same();
  call.outputs[1].crc32 = 12;
  EXPECT_EQ(judged(call).outcome, Outcome::kDiffers);
  EXPECT_EQ(judged(call).output, 1U);
  call.inputs[2].crc32 = 3;
  EXPECT_EQ(judged(call).outcome, Outcome::kOtherInputs);
  call = Same();
  call.outputs[1] = {{1, 2}, 12U};
  EXPECT_EQ(judged(call).outcome, Outcome::kUnknown);
  call = Same();
  call.inputs.pop_back();
  EXPECT_EQ(judged(call).outcome, Outcome::kUnknown);
  call = Same();
  call.outputs.clear();
  EXPECT_EQ(judged(call).outcome, Outcome::kUnknown);
}

TEST(BenchStep, TakesTheRanksFolderOrTheOnlyOne) {
  const test_support::TemporaryFolder folder;
  WriteDump(folder / "step0/proc77", Call());
  EXPECT_TRUE(BenchStep::Load(folder.path(), 0, std::nullopt).ok());
  EXPECT_TRUE(BenchStep::Load(folder.path(), 0, 4).ok());
  WriteDump(folder / "step1/rank0", Call());
  WriteDump(folder / "step1/rank1", Call());
  const auto bench = BenchStep::Load(folder.path(), 1, 1);
  ASSERT_TRUE(bench.ok());
  EXPECT_EQ((*bench)->folder().filename(), "rank1");
  for (const std::optional<int64_t> rank : {std::optional<int64_t>(2), std::optional<int64_t>()}) {
    const Status status = BenchStep::Load(folder.path(), 1, rank).status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(status.message(), HasSubstr("bench_path"));
  }
  EXPECT_FALSE(BenchStep::Load(folder.path(), 5, std::nullopt).ok());
}

TEST(BenchStep, RefusesADumpWithoutChecksums) {
  const test_support::TemporaryFolder folder;
  WriteDump(folder / "step0/rank",
            R"("Torch.a.0.forward": {"output": [)" + Leaf(R"("0x00000001")") + "]}");
  const Status status = BenchStep::Load(folder.path(), 0, std::nullopt).status();
  EXPECT_THAT(status.message(), HasSubstr("has no checksums"));
  EXPECT_THAT(status.hint(), HasSubstr("md5"));
}

}  // namespace
}  // namespace msprobe::capture
