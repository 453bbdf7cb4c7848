#include <algorithm>
#include <csignal>
#include <mutex>
#include <string>

#include "src/base/files.h"
#include "tests/unit/device/fake_fixture.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::device {
namespace {

using test_support::FakeVendor;
using test_support::Variable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class AclDump : public FakeVendor {
 protected:
  AclDump() {
    test_support::Spill(config_, R"({"dump": {"dump_path": "/d", "dump_list": []}})");
    options_.config_path = config_;
    options_.sink = [this](KernelDumpFile file) {
      const std::lock_guard lock(mutex_);
      files_.emplace_back(file.path, std::string(reinterpret_cast<const char*>(file.bytes.data()),
                                                 file.bytes.size()));
    };
  }

  KernelDump& dump() { return **Runtime(Kind::kAcl).GetKernelDump(); }
  // The calls about dumps, without those that make room for them.
  static std::vector<std::string> DumpCalls() {
    std::vector<std::string> calls = fake::Calls();
    std::erase_if(calls, [](const std::string& call) {
      return call.starts_with("aclrtGet") || call == "aclrtSetDevice" || call == "aclFinalize";
    });
    return calls;
  }

  KernelDumpOptions options_;
  std::vector<std::pair<std::string, std::string>> files_;  // path, content

 private:
  std::mutex mutex_;
  test_support::TemporaryFolder folder_;
  const std::string config_ = folder_ / "acl_dump.json";
  Variable library_{"MSPROBE_ACL_LIB", FAKE_ACL};
};

TEST_F(AclDump, MakesItsCallsInTheOrderTheRuntimeWants) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  ASSERT_TRUE(dump().End().ok());
  EXPECT_THAT(DumpCalls(),
              ElementsAre("aclInit", "acldumpRegCallback", "aclmdlInitDump", "aclmdlSetDump",
                          "aclrtSynchronizeDevice", "aclmdlFinalizeDump", "acldumpUnregCallback"));
}

TEST_F(AclDump, IsOfTheDeviceItsThreadWorksOn) {
  ASSERT_TRUE(Runtime(Kind::kAcl).Ready().ok());
  fake::current_device = 1;
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::current_device = -1;
  ASSERT_TRUE(dump().End().ok());
  EXPECT_EQ(fake::current_device, 1);
  EXPECT_EQ(fake::CallCount("aclrtSetDevice"), 1);
}

TEST_F(AclDump, WithoutASinkLeavesTheFilesToTheRuntime) {
  options_.sink = nullptr;
  ASSERT_TRUE(dump().Begin(options_).ok());
  EXPECT_FALSE(fake::EmitChunk("/d/a", "x", true));
  ASSERT_TRUE(dump().End().ok());
  EXPECT_THAT(DumpCalls(), ElementsAre("aclInit", "aclmdlInitDump", "aclmdlSetDump",
                                       "aclrtSynchronizeDevice", "aclmdlFinalizeDump"));
}

TEST_F(AclDump, GivesItsFilesOnAThreadThatTakesNoSignalsOfTheTraining) {
  bool takes_interrupts = true;
  bool takes_file_size_signals = true;
  options_.sink = [&](const KernelDumpFile&) {
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    takes_interrupts = ::sigismember(&blocked, SIGINT) == 0;
    takes_file_size_signals = ::sigismember(&blocked, SIGXFSZ) == 0;
  };
  ASSERT_TRUE(dump().Begin(options_).ok());
  ASSERT_TRUE(fake::EmitChunk("/d/a", "x", true));
  ASSERT_TRUE(dump().End().ok());
  EXPECT_FALSE(takes_interrupts);
  EXPECT_FALSE(takes_file_size_signals);
}

TEST_F(AclDump, MayFollowAnother) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(dump().Begin(options_).ok());
    ASSERT_TRUE(fake::EmitChunk("/d/a", std::to_string(i), true));
    ASSERT_TRUE(dump().End().ok());
  }
  EXPECT_THAT(files_, ElementsAre(Pair("/d/a", "0"), Pair("/d/a", "1"), Pair("/d/a", "2")));
}

TEST_F(AclDump, IsOneAtATime) {
  EXPECT_EQ(dump().End().code(), StatusCode::kUsage);
  ASSERT_TRUE(dump().Begin(options_).ok());
  EXPECT_EQ(dump().Begin(options_).code(), StatusCode::kUsage);
  EXPECT_TRUE(dump().End().ok());
}

TEST_F(AclDump, EndsWithItsRuntime) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  ASSERT_TRUE(fake::EmitChunk("/d/a", "x", true));
  DropRegistry();
  EXPECT_THAT(files_, ElementsAre(Pair("/d/a", "x")));
  EXPECT_EQ(fake::CallCount("aclmdlFinalizeDump"), 1);
}

TEST_F(AclDump, PutsFilesTogetherFromPiecesThatAlternate) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("/d/a", "one ", false);
  fake::EmitChunk("/d/b", "eins ", false, 0);
  fake::EmitChunk("/d/a", "two ", false);
  fake::EmitChunk("/d/b", "zwei", true, 5);
  fake::EmitChunk("/d/a", "three", true);
  fake::EmitChunk("/d/empty", "", true);
  EXPECT_TRUE(dump().End().ok());
  EXPECT_THAT(files_, ElementsAre(Pair("/d/b", "eins zwei"), Pair("/d/a", "one two three"),
                                  Pair("/d/empty", "")));
}

TEST_F(AclDump, TakesTheNulOffStatistics) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("/d/stat.csv", std::string_view("a,b\n\0", 5), true);
  fake::EmitChunk("/d/tensor", std::string_view("xy\0", 3), true);
  EXPECT_TRUE(dump().End().ok());
  EXPECT_THAT(files_,
              ElementsAre(Pair("/d/stat.csv", "a,b\n"), Pair("/d/tensor", std::string("xy\0", 3))));
}

TEST_F(AclDump, TellsOfFilesThatEndEarly) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("/d/a", "one", false);
  EXPECT_THAT(dump().End().message(), HasSubstr("/d/a: its last piece is missing"));
  EXPECT_THAT(files_, IsEmpty());
}

TEST_F(AclDump, TellsOfPiecesThatAreMissingAndDeliversTheOtherFiles) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("/d/a", "one", false, 0);
  fake::EmitChunk("/d/a", "three", true, 6);
  fake::EmitChunk("/d/b", "whole", true);
  EXPECT_THAT(dump().End().message(), HasSubstr("/d/a: a piece is missing"));
  EXPECT_THAT(files_, ElementsAre(Pair("/d/b", "whole")));
}

TEST_F(AclDump, TellsOfPiecesWithoutAUsableName) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("", "one", true);
  fake::EmitChunk(std::string(4096, 'a'), "two", true);
  fake::EmitChunk(std::string(4095, 'b'), "three", true);
  EXPECT_THAT(dump().End().message(), HasSubstr("lost data 2 times, first: a file"));
  EXPECT_THAT(files_, ElementsAre(Pair(std::string(4095, 'b'), "three")));
}

TEST_F(AclDump, KeepsItsMemoryLimitAndGoesOn) {
  options_.assembly_bytes = 10;
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("/d/large", "12345678", false);
  fake::EmitChunk("/d/large", "12345678", false);
  fake::EmitChunk("/d/large", "12345678", true);
  fake::EmitChunk("/d/small", "1234567890", true);
  EXPECT_THAT(dump().End().message(), HasSubstr("/d/large: the files under way exceed"));
  EXPECT_THAT(files_, ElementsAre(Pair("/d/small", "1234567890")));
}

TEST_F(AclDump, LetsTheRuntimeWaitWhileTheQueueIsFull) {
  options_.queue_bytes = 4;  // every piece is larger: they go through one by one
  ASSERT_TRUE(dump().Begin(options_).ok());
  std::string whole;
  for (int i = 0; i < 100; ++i) {
    const std::string piece = "piece " + std::to_string(i);
    fake::EmitChunk("/d/a", piece, i == 99);
    whole += piece;
  }
  EXPECT_TRUE(dump().End().ok());
  EXPECT_THAT(files_, ElementsAre(Pair("/d/a", whole)));
}

TEST_F(AclDump, ThatCannotBeginLeavesNothingSwitchedOn) {
  for (const char* step : {"acldumpRegCallback", "aclmdlInitDump", "aclmdlSetDump"}) {
    const Variable failure("FAKE_ACL_FAIL", std::string(step) + ":500001");
    EXPECT_THAT(dump().Begin(options_).message(), HasSubstr(step));
    EXPECT_FALSE(fake::EmitChunk("/d/a", "x", true)) << step;
    EXPECT_EQ(dump().End().code(), StatusCode::kUsage);
  }
  EXPECT_TRUE(dump().Begin(options_).ok());
  EXPECT_TRUE(dump().End().ok());
}

TEST_F(AclDump, WithAWrongConfigurationNamesTheFile) {
  test_support::Spill(options_.config_path, "{}");
  EXPECT_THAT(dump().Begin(options_).message(),
              ::testing::AllOf(HasSubstr(options_.config_path),
                               HasSubstr("aclmdlSetDump failed with 100009")));
}

TEST_F(AclDump, ThatTheFrameworkHasBegunIsExplained) {
  const Variable failure("FAKE_ACL_FAIL", "aclmdlInitDump:100044");
  const Status status = dump().Begin(options_);
  EXPECT_THAT(status.message(), HasSubstr("a dump is configured already"));
  EXPECT_THAT(status.hint(), HasSubstr("the framework"));
}

TEST_F(AclDump, IsSwitchedOffAlsoWhenTheDeviceIsLost) {
  ASSERT_TRUE(dump().Begin(options_).ok());
  fake::EmitChunk("/d/a", "x", true);
  const Variable failure("FAKE_ACL_FAIL", "aclrtSynchronizeDevice:507018");
  EXPECT_THAT(dump().End().message(), HasSubstr("aclrtSynchronizeDevice failed with 507018"));
  EXPECT_EQ(fake::CallCount("aclmdlFinalizeDump"), 1);
  EXPECT_THAT(files_, ElementsAre(Pair("/d/a", "x")));
}

TEST_F(AclDump, OfAnOlderCannWritesItsFilesItself) {
  const Variable library("MSPROBE_ACL_LIB", FAKE_ACL_OLD);
  EXPECT_THAT(dump().Begin(options_).message(), HasSubstr("lacks acldumpRegCallback"));
  options_.sink = nullptr;
  EXPECT_TRUE(dump().Begin(options_).ok());
  EXPECT_TRUE(dump().End().ok());
}

}  // namespace
}  // namespace msprobe::device
