// Recorded kernel dumps against each other, and against the dump of the calls above them.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/analysis/compare/compare.h"
#include "src/analysis/compare/folders/kernels.h"
#include "src/analysis/compare/summary.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::compare {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kDumps = fs::path(MSPROBE_TEST_DATA) / "kernel_dump" / "dumps";
const fs::path kOverflow = fs::path(MSPROBE_TEST_DATA) / "../../docs/example/overflow/dump";
const fs::path kKernels = kOverflow / "step0/20251120100000/0";
const std::string kMatMul = "MatMul.MatMul_nz.4.1.1700000000001004";

// A folder for results, and a copy of the dumps to do something to.
struct KernelScene {
  KernelScene() {
    fs::create_directories(folder / "dumps");
    for (const auto& entry : fs::directory_iterator(kDumps)) {
      Spill(copy(entry.path().filename().string()), Slurp(entry.path()));
    }
  }
  fs::path copy(const std::string& name) const { return folder / "dumps" / name; }
  Result<Comparison> Compare(const fs::path& npu, const fs::path& bench,
                             const std::string& call = "", size_t threads = 2) const {
    Options options;
    options.npu_path = npu;
    options.bench_path = bench;
    options.folders.kernel_call = call;
    options.output.folder = folder / "out";
    options.quiet = true;
    options.threads = threads;
    return Run(options);
  }

  TemporaryFolder folder;
};

PairVerdict VerdictOfKernels(const Result<Comparison>& run) {
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? VerdictOf(run->summary) : PairVerdict::kFailed;
}

// Sets four bytes of the first output: 64 as a float32.
void ChangeOutput(const fs::path& matmul) {
  std::string bytes = Slurp(matmul);
  constexpr size_t kOutputAt = 8 + 227 + 3072 + 6144 + 3072 + 4608;
  bytes.replace(kOutputAt + 400, 4, std::string("\0\0\x80\x42", 4));
  Spill(matmul, bytes);
}

TEST(KernelCompare, EqualDumpsAreIdentical) {
  const KernelScene scene;
  const Result<Comparison> run = scene.Compare(scene.folder / "dumps", kDumps);
  EXPECT_EQ(VerdictOfKernels(run), PairVerdict::kIdentical);
  // All tensors of eight kernels but an empty one; overflow records are none.
  EXPECT_EQ(run->summary.totals.rows, 36U);
  EXPECT_EQ(run->summary.totals.identical, 35U);
}

TEST(KernelCompare, TheFirstKernelWithOtherOutputsIsNamed) {
  const KernelScene scene;
  ChangeOutput(scene.copy(kMatMul));
  std::string tables;
  for (const size_t threads : {1U, 3U}) {
    const Result<Comparison> run = scene.Compare(scene.folder / "dumps", kDumps, "", threads);
    ASSERT_EQ(VerdictOfKernels(run), PairVerdict::kDiffers);
    const DivergencePoint& origin = *run->summary.pairs[0].divergence.first_origin;
    EXPECT_EQ(origin.kind, OriginKind::kComputation);
    EXPECT_EQ(origin.row_name, "MatMul.Default/net/MatMul_nz.0.forward.output.0");
    EXPECT_EQ(run->summary.totals.differing, 1U);
  }
}

TEST(KernelCompare, KernelsOfOneNamePairInTheOrderInWhichTheyRan) {
  const TemporaryFolder folder;
  const std::string matmul = Slurp(kDumps / kMatMul);
  const fs::path npu = folder.Write("npu/0/MatMul.x.9.1.200", matmul);
  ChangeOutput(npu);
  folder.Write("npu/0/MatMul.x.30.1.100", matmul);
  folder.Write("bench/0/MatMul.x.5.1.1000", matmul);
  folder.Write("bench/0/MatMul.x.6.1.2000", matmul);
  const KernelScene scene;
  const Result<Comparison> run = scene.Compare(folder / "npu", folder / "bench");
  ASSERT_EQ(VerdictOfKernels(run), PairVerdict::kDiffers);
  EXPECT_EQ(run->summary.pairs[0].divergence.first_origin->entry_name,
            "MatMul.Default/net/MatMul_nz.1.forward");
  EXPECT_EQ(run->summary.totals.matched, 12U);
}

TEST(KernelCompare, WhatCannotBeReadIsNeverEqual) {
  const KernelScene scene;
  const fs::path changed = scene.folder / "dumps";
  const std::string whole = Slurp(scene.copy(kMatMul));
  // On one side: some tensors are missing.
  Spill(scene.copy(kMatMul), whole.substr(0, 9000));
  Result<Comparison> run = scene.Compare(changed, kDumps);
  EXPECT_EQ(VerdictOfKernels(run), PairVerdict::kUnreadable);
  EXPECT_EQ(run->summary.totals.unreadable, 5U);
  // On both sides: the whole file.
  for (const std::string& damage : {std::string("hello"), std::string(), whole.substr(0, 100),
                                    std::string(4096, '\xff'), "\x10" + std::string(7, '\0')}) {
    Spill(scene.copy(kMatMul), damage);
    run = scene.Compare(changed, changed);
    EXPECT_EQ(VerdictOfKernels(run), PairVerdict::kUnreadable);
    EXPECT_EQ(run->summary.totals.unreadable, 1U);
    EXPECT_THAT(run->warnings.front(), HasSubstr(kMatMul));
  }
  // And nothing else beside it.
  const Result<Comparison> alone = scene.Compare(scene.copy(kMatMul), scene.copy(kMatMul));
  EXPECT_EQ(VerdictOfKernels(alone), PairVerdict::kNothingCompared);
}

TEST(KernelCompare, AnotherShapeIsNotEqual) {
  const KernelScene scene;
  const std::string name = "Relu.Relu_no_orig.7.1.1700000000001007";
  std::string bytes = Slurp(scene.copy(name));
  // The shape [2, 3] as a field of two packed sizes; [3, 2] has as many elements.
  const size_t shape = bytes.find(std::string("\x0a\x02\x02\x03", 4));
  ASSERT_NE(shape, std::string::npos);
  bytes.replace(shape, 4, "\x0a\x02\x03\x02");
  Spill(scene.copy(name), bytes);
  const Result<Comparison> run = scene.Compare(scene.folder / "dumps", kDumps);
  EXPECT_EQ(VerdictOfKernels(run), PairVerdict::kUnmatched);
  EXPECT_EQ(run->summary.totals.npu_only, 1U);
  EXPECT_EQ(run->summary.totals.bench_only, 1U);
}

TEST(KernelCompare, KernelsBelongToTheCallWhoseTensorsTheyHold) {
  const KernelScene scene;
  const Result<Comparison> run = scene.Compare(kKernels, kOverflow, "Torch.mul.0.forward");
  EXPECT_EQ(VerdictOfKernels(run), PairVerdict::kIdentical);
  EXPECT_EQ(run->summary.totals.identical, 3U);
  EXPECT_THAT(
      run->calls,
      ElementsAre(
          "The kernels belong to Torch.mul.0.forward "
          "(/home/user/route.py:17 in forward: sharp = torch.mul(scores, self.sharpness)); 3 of "
          "its 3 tensors found"));
}

TEST(KernelCompare, ACallOfSeveralKernelsIsComparedAtItsEnds) {
  const KernelScene scene;
  fs::create_directories(scene.folder / "linear");
  for (const char* name : {"MatMulV2.gate.11.2.1763632800000000",
                           "Add.gate_bias.12.2.17636328000"
                           "00040"}) {
    Spill(scene.folder / "linear" / name, Slurp(kKernels / name));
  }
  // A matrix in blocks on the device, statistics on the other side.
  std::string json = Slurp(kOverflow / "step0/rank/dump.json");
  const size_t task = json.find("\"tensor\"");
  ASSERT_NE(task, std::string::npos);
  json.replace(task, 8, "\"statistics\"");
  const fs::path statistics = scene.folder.Write("api/step0/rank/dump.json", json);
  for (const fs::path& bench : {kOverflow, statistics}) {
    const Result<Comparison> run =
        scene.Compare(scene.folder / "linear", bench, "Functional.linear.0.forward");
    const PairVerdict verdict = VerdictOfKernels(run);
    EXPECT_TRUE(verdict == PairVerdict::kIdentical || verdict == PairVerdict::kAgrees) << bench;
    EXPECT_EQ(run->summary.totals.matched, 4U) << bench;
  }
}

// A look at each kernel for each tensor would be 4 * 10^8 of them.
TEST(CallFinder, FindsKernelsThatAreAlikeInTheirOrder) {
  constexpr uint32_t kCount = 20'000;
  Side kernels;
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    SideRow row;
    row.state = i % 2 == 0 ? dump::RowState::kInput : dump::RowState::kOutput;
    row.dtype = "torch.float32";
    row.shape = i % 3 == 0 ? "[2]" : "[1, 2]";
    row.is_tensor = true;
    row.stats[kMax].kind = StatKind::kNumber;
    row.stats[kMax].number = 1;
    kernels.rows.push_back(row);
  }
  Side calls;
  calls.rows = kernels.rows;
  calls.entries.push_back({"Torch.f.0.forward", 0, 2 * kCount});
  const CallMatch match = CallFinder(kernels, calls).Match(0);
  EXPECT_EQ(match.tensors, 2 * kCount);
  ASSERT_EQ(match.rows.size(), 2 * kCount);
  for (uint32_t i = 0; i < 2 * kCount; ++i) {
    ASSERT_EQ(match.rows[i].kernel, i);
    // Inputs from the first kernel on, outputs from the last one.
    ASSERT_EQ(match.rows[i].call, i % 2 == 0 ? i : 2 * kCount - i);
  }
}

TEST(CallFinder, LooksAtSoManyKernelsOfOneShape) {
  constexpr uint32_t kMost = CallFinder::kMostAlike;
  Side kernels;
  for (uint32_t i = 0; i < kMost + 2; ++i) {
    SideRow row;
    row.state = dump::RowState::kInput;
    row.dtype = "torch.float32";
    row.shape = "[2]";
    row.is_tensor = true;
    row.stats[kMax].kind = StatKind::kNumber;
    row.stats[kMax].number = 1 + i;
    kernels.rows.push_back(row);
  }
  kernels.rows.push_back(kernels.rows.front());  // like one that counts
  Side calls;
  calls.rows = {kernels.rows[kMost - 1], kernels.rows[kMost], kernels.rows[0], kernels.rows[0]};
  calls.entries.push_back({"Torch.f.0.forward", 0, 4});
  const CallFinder finder(kernels, calls);
  EXPECT_EQ(finder.left_out(), 2U);
  EXPECT_THAT(finder.LeftOutText(), HasSubstr("2 kernel tensors are not looked at"));
  const CallMatch match = finder.Match(0);
  ASSERT_EQ(match.rows.size(), 4U);
  EXPECT_EQ(match.rows[0].kernel, 0U);
  EXPECT_EQ(match.rows[0].distance, 0);
  EXPECT_EQ(match.rows[1].kernel, kMost - 2);  // the nearest one that is left
  EXPECT_GT(match.rows[1].distance, 0);
  EXPECT_EQ(match.rows[2].kernel, kMost - 1);
  EXPECT_EQ(match.rows[3].kernel, kMost + 2);
}

TEST(KernelCompare, TheCallMustBeKnown) {
  const KernelScene scene;
  EXPECT_EQ(scene.Compare(kKernels, kOverflow).status().code(), StatusCode::kUsage);
  EXPECT_EQ(scene.Compare(kKernels, kOverflow, "Torch.div.0.forward").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(scene.Compare(kDumps, kOverflow, "Torch.mul.0.forward").status().code(),
            StatusCode::kMismatch);
  // The kernel dump is the side under test.
  EXPECT_EQ(scene.Compare(kOverflow, kKernels).status().code(), StatusCode::kUsage);
  // One kernel alone is found without a name.
  const Result<Comparison> run =
      scene.Compare(kKernels / "Mul.sharpen.14.2.1763632800000120", kOverflow);
  EXPECT_EQ(VerdictOfKernels(run), PairVerdict::kIdentical);
}

}  // namespace
}  // namespace msprobe::analysis::compare
