#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/device/device.h"
#include "tests/unit/device/fake_fixture.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::device {
namespace {

using test_support::FakeVendor;
using test_support::Variable;
using ::testing::HasSubstr;

class Examination : public FakeVendor {
 protected:
  Examination() {
    options_.copy_bytes = 4096;
    options_.rounds = 5;
    options_.scratch_folder = folder_.path();
  }

  // By subject.
  std::map<std::string, Finding> Findings(Kind kind = Kind::kAcl) {
    std::map<std::string, Finding> findings;
    for (Finding& finding : Examine(Runtime(kind), 1, options_)) {
      findings.emplace(finding.subject, finding);
    }
    return findings;
  }

  ExaminationOptions options_;

 private:
  test_support::TemporaryFolder folder_;
  Variable library_{"MSPROBE_ACL_LIB", FAKE_ACL};
};

TEST_F(Examination, OfAGoodRuntimeFindsEverythingAsExpected) {
  const auto findings = Findings();
  EXPECT_EQ(findings.size(), 8);
  for (const auto& [subject, finding] : findings) {
    EXPECT_EQ(finding.outcome, Outcome::kAsExpected) << subject << ": " << finding.seen;
    EXPECT_EQ(finding.device, 1);
    EXPECT_NE(finding.seen, "") << subject;
  }
  EXPECT_THAT(findings.at("copies wait for their producer").seen, HasSubstr("5 rounds"));
}

TEST_F(Examination, GivesBackWhatItTook) {
  Findings();
  EXPECT_EQ(fake::CallCount("aclrtMalloc"), fake::CallCount("aclrtFree") + 1);  // overflow block
  EXPECT_EQ(fake::CallCount("aclmdlInitDump"), 2);
  EXPECT_EQ(fake::CallCount("aclmdlFinalizeDump"), 2);
  EXPECT_EQ(fake::CallCount("aclrtSetDeviceSatMode"), 0);
}

TEST_F(Examination, TellsWhichCallFailedAndGoesOn) {
  const std::map<std::string, std::string> blame = {
      {"aclrtMallocHost", "page-locked memory"},
      {"aclrtMemsetAsync", "copies wait for their producer"},
      {"aclrtStreamWaitEvent", "producers wait for the copy"},
      {"aclrtGetDeviceSatMode", "saturation mode"},
      {"aclrtResetOverflowStatus", "overflow status"},
      {"aclmdlSetDump", "kernel dump by the runtime"},
      {"acldumpRegCallback", "kernel dump into memory"},
      {"aclmdlFinalizeDump", "kernel dump by the runtime"}};
  for (const auto& [function, subject] : blame) {
    const Variable failure("FAKE_ACL_FAIL", function + ":500001");
    const auto findings = Findings();
    EXPECT_EQ(findings.size(), 8);
    EXPECT_EQ(findings.at(subject).outcome, Outcome::kFailed) << function;
    EXPECT_THAT(findings.at(subject).seen, HasSubstr(function + " failed with 500001"));
    DropRegistry();
    fake::Reset();
  }
}

TEST_F(Examination, ResetsAnOverflowOfEarlierWork) {
  fake::SetOverflow(true);
  EXPECT_EQ(Findings().at("overflow status").outcome, Outcome::kAsExpected);
  EXPECT_FALSE(fake::overflow_status());
}

TEST_F(Examination, OfAnOlderCannNamesWhatItDidNotTry) {
  const Variable library("MSPROBE_ACL_LIB", FAKE_ACL_OLD);
  const auto findings = Findings();
  EXPECT_EQ(findings.at("copies wait for their producer").outcome, Outcome::kNotTried);
  EXPECT_THAT(findings.at("copies wait for their producer").seen, HasSubstr("aclrtMemsetAsync"));
  EXPECT_EQ(findings.at("kernel dump into memory").outcome, Outcome::kNotTried);
  EXPECT_EQ(findings.at("kernel dump by the runtime").outcome, Outcome::kAsExpected);
}

TEST_F(Examination, OfADeviceThatFellOffTheBusFailsEverywhereAndEnds) {
  ASSERT_TRUE(Runtime(Kind::kAcl).Ready().ok());
  fake::LoseDevices();
  for (const auto& [subject, finding] : Findings()) {
    EXPECT_NE(finding.outcome, Outcome::kAsExpected) << subject;
  }
}

// Does everything at once and nothing as it should: copies get what was there before the last fill,
// the overflow status stays set.
class CarelessRuntime final : public Runtime {
 public:
  Kind kind() const override { return Kind::kHost; }
  Status Ready() override { return {}; }
  Inventory Describe() override { return {}; }
  Result<HostBuffer> AllocateHost(int32_t device, size_t bytes) override {
    return HostBuffer(this, device, std::malloc(bytes), bytes);
  }
  Result<std::unique_ptr<Copy>> CopyToHost(const CopyRequest& request) override {
    std::memset(request.target, stale_, request.bytes);
    return std::unique_ptr<Copy>(std::make_unique<Over>());
  }
  Status Synchronize(int32_t) override { return {}; }
  Result<bool> Overflowed(int32_t, Stream) override { return true; }
  Status ResetOverflow(int32_t, Stream) override { return {}; }
  Result<OverflowMode> GetOverflowMode(int32_t) override { return OverflowMode::kSaturation; }
  Status SetOverflowMode(int32_t, OverflowMode) override { return {}; }
  Result<std::unique_ptr<Scratch>> AllocateScratch(int32_t, size_t) override {
    return std::unique_ptr<Scratch>(std::make_unique<Memory>(*this));
  }
  Result<KernelDump*> GetKernelDump() override { return UnsupportedError("no dump"); }

 protected:
  void FreeHost(int32_t, void* memory) override { std::free(memory); }

 private:
  struct Over final : Copy {
    Result<bool> Done() override { return true; }
    Status Wait() override { return {}; }
  };
  struct Memory final : Scratch {
    explicit Memory(CarelessRuntime& owner) : runtime(owner) {}
    const void* address() const override { return this; }
    Status Fill(uint8_t value, Stream) override {
      runtime.stale_ = std::exchange(next, value);
      return {};
    }
    CarelessRuntime& runtime;
    uint8_t next = 0;
  };
  uint8_t stale_ = 0;
};

TEST_F(Examination, CatchesARuntimeThatDoesNotOrderItsWork) {
  CarelessRuntime careless;
  std::map<std::string, Finding> findings;
  for (Finding& finding : Examine(careless, 0, options_)) {
    findings.emplace(finding.subject, finding);
  }
  EXPECT_EQ(findings.at("copies wait for their producer").outcome, Outcome::kDiffers);
  EXPECT_THAT(findings.at("copies wait for their producer").seen,
              HasSubstr("round 1 of 5: 4096 of 4096 bytes are older"));
  EXPECT_EQ(findings.at("overflow status").outcome, Outcome::kDiffers);
  EXPECT_EQ(findings.at("kernel dump by the runtime").outcome, Outcome::kNotTried);
}

}  // namespace
}  // namespace msprobe::device
