// Recorded overflow records, the kernels that they name and the calls above them.
#include "src/analysis/nonfinite/overflow.h"

#include <filesystem>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::analysis::nonfinite {
namespace {

namespace fs = std::filesystem;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const fs::path kDumps = fs::path(MSPROBE_TEST_DATA) / "kernel_dump" / "dumps";
const fs::path kExample = fs::path(MSPROBE_TEST_DATA) / "../../docs/example/overflow/dump/step0";
const fs::path kDevice = "20251120100000/0";
const std::string kRecord = "Opdebug.Node_OpDebug.14.2.1763632800000140";
const std::string kKernel = "Mul.sharpen.14.2.1763632800000120";

OverflowFindings FindIn(const fs::path& dumps, const fs::path& calls = {}, int64_t most = 1) {
  OverflowOptions options;
  options.dumps = dumps;
  options.calls = calls;
  options.most = most;
  Result<OverflowFindings> findings = FindOverflows(options);
  EXPECT_TRUE(findings.ok()) << findings.status().message();
  return findings.ok() ? *std::move(findings) : OverflowFindings();
}

// A step of the example in a folder of its own, to do something to.
struct OverflowScene {
  OverflowScene() {
    for (const fs::path& source : {kExample / kDevice, kExample / "rank"}) {
      const fs::path target = step() / fs::relative(source, kExample);
      fs::create_directories(target);
      for (const auto& entry : fs::directory_iterator(source)) {
        if (entry.is_regular_file()) {
          Spill(target / entry.path().filename(), Slurp(entry.path()));
        }
      }
    }
  }
  fs::path step() const { return folder / "step0"; }
  fs::path device(const std::string& name) const { return step() / kDevice / name; }

  TemporaryFolder folder;
};

TEST(Overflow, TheSummaryIsThatOfThePythonTool) {
  const TemporaryFolder scratch;
  OverflowOptions options;
  options.dumps = kDumps;
  options.output = scratch / "out";
  options.most = 5;
  const Result<OverflowFindings> findings = FindOverflows(options);
  ASSERT_TRUE(findings.ok()) << findings.status().message();
  // Means of float32 aside: the Python tool adds them up in float32.
  const std::regex mean(R"(\[Dtype: float32\](.*) \[Mean: [^\]]*\])");
  EXPECT_EQ(std::regex_replace(Slurp(findings->summary), mean, "$1"),
            std::regex_replace(Slurp(kDumps / "../overflow_summary.txt"), mean, "$1"));
  options.dumps = kDumps / "../atb";
  EXPECT_EQ(FindOverflows(options).status().code(), StatusCode::kNotFound);
}

TEST(Overflow, ARecordLeadsToItsKernelTheCallAndTheLineOfCode) {
  const OverflowFindings findings = FindIn(kExample);
  ASSERT_EQ(findings.overflows.size(), 1U);
  const Overflow& overflow = findings.overflows[0];
  EXPECT_TRUE(overflow.overflowed());
  EXPECT_EQ(overflow.op_type, "Mul");
  EXPECT_EQ(overflow.dump.filename(), kKernel);
  EXPECT_EQ(overflow.origin, OverflowOrigin::kMade);
  EXPECT_EQ(overflow.core_id, 3U);
  ASSERT_TRUE(overflow.call);
  EXPECT_EQ(overflow.call->name, "Torch.mul.0.forward");
  EXPECT_EQ(overflow.call->found, 3U);
  EXPECT_EQ(overflow.call->code_line,
            "/home/user/route.py:17 in forward: sharp = torch.mul(scores, self.sharpness)");
  const report::Document document = MakeDocument(findings);
  EXPECT_EQ(document.verdict.text,
            "OVERFLOW: Mul (sharpen), stream 2, task 14, in Torch.mul.0.forward "
            "(/home/user/route.py:17 in forward: sharp = torch.mul(scores, self.sharpness))");
  EXPECT_EQ(document.verdict.outcome, report::AnswerOutcome::kFindings);
  EXPECT_TRUE(document.levels[0].found);
}

TEST(Overflow, TheDumpOfTheCallsMayLieElsewhere) {
  const OverflowScene scene;
  fs::rename(scene.step() / "rank", scene.folder / "calls");
  EXPECT_FALSE(FindIn(scene.step()).overflows[0].call);
  EXPECT_TRUE(FindIn(scene.step(), scene.folder / "calls").overflows[0].call);
  EXPECT_TRUE(FindIn(scene.step(), scene.folder / "calls/dump.json").overflows[0].call);
  OverflowOptions options;
  options.dumps = scene.step();
  options.calls = scene.folder / "nowhere";
  EXPECT_EQ(FindOverflows(options).status().code(), StatusCode::kNotFound);
  options.calls.clear();
  options.ir = scene.folder / "nowhere";
  EXPECT_FALSE(FindOverflows(options).ok());
}

TEST(Overflow, OfManyRanksTheOneWithTheNumberOfTheDeviceIsRead) {
  const OverflowScene scene;
  fs::rename(scene.step() / "rank", scene.step() / "rank0");
  for (int rank = 1; rank < 12; ++rank) {
    scene.folder.Write("step0/rank" + std::to_string(rank) + "/dump.json", "no JSON");
  }
  OverflowFindings findings = FindIn(scene.step());
  EXPECT_TRUE(findings.overflows[0].call);
  EXPECT_THAT(findings.warnings, ::testing::IsEmpty());
  fs::rename(scene.step() / "rank0", scene.step() / "rank12");
  fs::rename(scene.step() / "20251120100000/0", scene.step() / "20251120100000/99");
  findings = FindIn(scene.step());
  EXPECT_FALSE(findings.overflows[0].call);
  EXPECT_THAT(findings.warnings, ::testing::ElementsAre(HasSubstr("which of 12 ranks")));
}

TEST(Overflow, AGraphTellsTheLinesOfItsOperators) {
  const OverflowScene scene;
  OverflowOptions options;
  options.dumps = kDumps;
  options.ir = scene.folder.Write("ir.txt",
                                  "subgraph @net() {\n"
                                  "  %0(a) = PrimFunc_Conv2D(%x)\n"
                                  "      : (<Tensor[Float32], ()>) -> (<Tensor[Float32], ()>)\n"
                                  "      # Fullname with scope: (Default/net/Conv2D_5hd)\n"
                                  "      # In file net.py:18, 12~25/        c = ops.conv2d(b, a)/\n"
                                  "}\n");
  const Result<OverflowFindings> findings = FindOverflows(options);
  ASSERT_TRUE(findings.ok()) << findings.status().message();
  EXPECT_EQ(findings->overflows[0].graph_scope, "Default/net/Conv2D_5hd");
  EXPECT_THAT(findings->overflows[0].graph_code, HasSubstr("net.py:18"));
}

TEST(Overflow, BadInputsAreToldFromBadResults) {
  const OverflowScene scene;
  // The kernel that reads what the other one made, under the other one's task.
  Spill(scene.device(kKernel), Slurp(scene.device("Cast.to_float.15.2.1763632800000160")));
  const OverflowFindings findings = FindIn(scene.step());
  EXPECT_EQ(findings.overflows[0].origin, OverflowOrigin::kPassedOn);
  EXPECT_EQ(findings.overflows[0].call->name, "Tensor.float.0.forward");
  EXPECT_THAT(report::AdviceText(MakeDocument(findings).next.front()), HasSubstr("bad already"));
}

TEST(Overflow, WithoutTheKernelTheRecordStillTellsItsTask) {
  const OverflowScene scene;
  fs::remove(scene.device(kKernel));
  OverflowFindings findings = FindIn(scene.step());
  EXPECT_EQ(findings.overflows[0].origin, OverflowOrigin::kUnknown);
  EXPECT_EQ(MakeDocument(findings).verdict.text,
            "OVERFLOW: a kernel that was not dumped, stream 2, task 14");
  for (const std::string& damage : {std::string(), std::string("hello"), std::string(64, '\xff')}) {
    Spill(scene.device(kKernel), damage);
    findings = FindIn(scene.step());
    EXPECT_EQ(findings.overflows[0].origin, OverflowOrigin::kUnknown);
    EXPECT_EQ(findings.warnings.size(), 1U);
    EXPECT_THAT(MakeDocument(findings).verdict.text, StartsWith("OVERFLOW: Mul (sharpen)"));
  }
}

TEST(Overflow, DamagedRecordsAreToldAndNothingIsCalledGood) {
  const OverflowScene scene;
  const std::string record = Slurp(scene.device(kRecord));
  for (size_t bytes = 0; bytes < record.size(); bytes += 7) {
    Spill(scene.device(kRecord), record.substr(0, bytes));
    const OverflowFindings findings = FindIn(scene.step());
    EXPECT_EQ(findings.unreadable.size() + findings.overflows.size(), 1U);
    if (findings.overflows.empty()) {
      EXPECT_EQ(MakeDocument(findings).verdict.outcome, report::AnswerOutcome::kIncomplete);
    }
  }
}

TEST(Overflow, ARecordWithoutAStatusIsNone) {
  const OverflowScene scene;
  std::string record = Slurp(scene.device(kRecord));
  record.replace(record.size() - 8, 8, std::string(8, '\0'));
  Spill(scene.device(kRecord), record);
  const report::Document document = MakeDocument(FindIn(scene.step()));
  EXPECT_EQ(document.verdict.word, "NO OVERFLOW");
  EXPECT_FALSE(document.levels[0].found);
}

TEST(HoldsRecords, LooksBelowAStepButNotIntoRanks) {
  EXPECT_TRUE(HoldsRecords(kExample));
  EXPECT_TRUE(HoldsRecords(kExample / kDevice));
  EXPECT_FALSE(HoldsRecords(kExample / "rank"));
  EXPECT_FALSE(HoldsRecords(kExample / "nowhere"));
}

}  // namespace
}  // namespace msprobe::analysis::nonfinite
