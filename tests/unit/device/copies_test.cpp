// What holds for the copies of every runtime with streams.
#include <atomic>
#include <ostream>
#include <thread>
#include <utility>

#include "tests/unit/device/fake_fixture.h"
#include "tests/unit/support/child_process.h"

namespace msprobe::device {
namespace {

using test_support::AllBytes;
using test_support::DeviceBytes;
using test_support::FakeVendor;
using test_support::Variable;
using ::testing::HasSubstr;

struct VendorCase {
  Kind kind;
  const char* library_variable;
  const char* library;
  const char* failure_variable;
  // Names of its functions.
  const char* create_stream;
  const char* create_event;
  const char* record_event;
  const char* stream_wait;
  const char* copy;
  const char* synchronize_event;
  const char* allocate_host;
};

void PrintTo(const VendorCase& vendor, std::ostream* out) { *out << KindName(vendor.kind); }

constexpr VendorCase kAcl = {
    Kind::kAcl,          "MSPROBE_ACL_LIB",       FAKE_ACL,           "FAKE_ACL_FAIL",
    "aclrtCreateStream", "aclrtCreateEvent",      "aclrtRecordEvent", "aclrtStreamWaitEvent",
    "aclrtMemcpyAsync",  "aclrtSynchronizeEvent", "aclrtMallocHost"};
constexpr VendorCase kCuda = {Kind::kCuda,          "MSPROBE_CUDA_LIB",  FAKE_CUDA,
                              "FAKE_CUDA_FAIL",     "cuStreamCreate",    "cuEventCreate",
                              "cuEventRecord",      "cuStreamWaitEvent", "cuMemcpyDtoHAsync_v2",
                              "cuEventSynchronize", "cuMemHostAlloc"};

class Copies : public FakeVendor, public ::testing::WithParamInterface<VendorCase> {
 protected:
  device::Runtime& runtime() { return Runtime(GetParam().kind); }
  static std::string Failure(const char* function, int code) {
    return std::string(function) + ":" + std::to_string(code);
  }

  static constexpr size_t kBytes = 4096;

 private:
  Variable library_{GetParam().library_variable, GetParam().library};
};

std::vector<std::byte> Content(HostBuffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.capacity()};
}

TEST_P(Copies, BringWhatTheDeviceHolds) {
  const DeviceBytes source(kBytes, 7);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok()) << target.status().message();
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_TRUE((*copy)->Wait().ok());
  EXPECT_TRUE(*(*copy)->Done());
  EXPECT_EQ(Content(*target), AllBytes(kBytes, 7));
}

TEST_P(Copies, WaitForTheWorkThatProducesTheirBytes) {
  DeviceBytes source(kBytes, 1);
  fake::Gate kernel;
  fake::Stream* const producer = fake::NewStream();
  fake::Run(producer, [&] {
    kernel.Wait();
    source.Fill(2);
  });
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data(), producer});
  ASSERT_TRUE(copy.ok());
  EXPECT_FALSE(*(*copy)->Done());
  kernel.Open();
  EXPECT_TRUE((*copy)->Wait().ok());
  EXPECT_EQ(Content(*target), AllBytes(kBytes, 2));
  copy = Result<std::unique_ptr<Copy>>(std::unique_ptr<Copy>());
  fake::Synchronize(producer);
  fake::DestroyStream(producer);
}

// The machine can tell: the same copy without an event brings what was there before.
TEST_P(Copies, WouldBeWrongWithoutAnEvent) {
  DeviceBytes source(kBytes, 1);
  fake::Gate kernel;
  fake::Stream* const producer = fake::NewStream();
  fake::Stream* const other = fake::NewStream();
  fake::Run(producer, [&] {
    kernel.Wait();
    source.Fill(2);
  });
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  ASSERT_TRUE(fake::QueueCopyToHost(target->data(), source.address(), kBytes, other));
  fake::Synchronize(other);
  EXPECT_EQ(Content(*target), AllBytes(kBytes, 1));
  kernel.Open();
  fake::Synchronize(producer);
  fake::DestroyStream(producer);
  fake::DestroyStream(other);
}

TEST_P(Copies, AreNotOvertakenByChangesInPlace) {
  DeviceBytes source(kBytes, 3);
  fake::Gate reading;
  fake::Stream* const producer = fake::NewStream();
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  fake::SetCopyGate(&reading);
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data(), producer});
  ASSERT_TRUE(copy.ok());
  std::atomic<bool> changed = false;
  fake::Run(producer, [&] {
    source.Fill(4);
    changed = true;
  });
  EXPECT_FALSE(changed);
  reading.Open();
  EXPECT_TRUE((*copy)->Wait().ok());
  EXPECT_EQ(Content(*target), AllBytes(kBytes, 3));
  fake::Synchronize(producer);
  EXPECT_TRUE(changed);
  fake::DestroyStream(producer);
}

TEST_P(Copies, LetTheProducerGoOnWhenItNeedNotWait) {
  DeviceBytes source(kBytes, 3);
  fake::Gate reading;
  fake::Stream* const producer = fake::NewStream();
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  fake::SetCopyGate(&reading);
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data(), producer, false});
  ASSERT_TRUE(copy.ok());
  fake::Synchronize(producer);  // would never return
  reading.Open();
  EXPECT_TRUE((*copy)->Wait().ok());
  fake::DestroyStream(producer);
}

TEST_P(Copies, OfNothingAreDoneAtOnce) {
  auto copy = runtime().CopyToHost({0, nullptr, 0, nullptr});
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_TRUE(*(*copy)->Done());
  EXPECT_TRUE((*copy)->Wait().ok());
  EXPECT_EQ(fake::CallCount(GetParam().copy), 0);
}

TEST_P(Copies, ManyOfThemLeaveFewEventsBehind) {
  const DeviceBytes source(kBytes, 5);
  fake::Stream* const producer = fake::NewStream();
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  for (int i = 0; i < 100; ++i) {
    auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data(), producer});
    ASSERT_TRUE(copy.ok());
    EXPECT_TRUE((*copy)->Wait().ok());
  }
  EXPECT_LE(fake::EventCount(), 2);
  fake::Synchronize(producer);
  fake::DestroyStream(producer);
}

TEST_P(Copies, UseOneStreamPerDevice) {
  const DeviceBytes source(kBytes, 5);
  for (const int32_t device : {0, 1, 0, 1}) {
    Result<HostBuffer> target = runtime().AllocateHost(device, kBytes);
    ASSERT_TRUE(target.ok());
    auto copy = runtime().CopyToHost({device, source.address(), kBytes, target->data()});
    ASSERT_TRUE(copy.ok());
    EXPECT_TRUE((*copy)->Wait().ok());
  }
  EXPECT_EQ(fake::CallCount(GetParam().create_stream), 2);
}

TEST_P(Copies, WorkOnThreadsThatNeverSawTheDevice) {
  const DeviceBytes source(kBytes, 6);
  std::thread([&] {
    Result<HostBuffer> target = runtime().AllocateHost(1, kBytes);
    ASSERT_TRUE(target.ok()) << target.status().message();
    auto copy = runtime().CopyToHost({1, source.address(), kBytes, target->data()});
    ASSERT_TRUE(copy.ok());
    std::thread([&] { EXPECT_TRUE((*copy)->Wait().ok()); }).join();
    EXPECT_EQ(Content(*target), AllBytes(kBytes, 6));
  }).join();
}

TEST_P(Copies, RefuseAStreamThatRecordsAGraph) {
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  fake::SetCapturing(true);
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  EXPECT_EQ(copy.status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(fake::CallCount(GetParam().record_event), 0);
}

TEST_P(Copies, TellOfMemoryThatIsNotOnTheDevice) {
  const std::vector<std::byte> source(kBytes);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  auto copy = runtime().CopyToHost({0, source.data(), kBytes, target->data()});
  EXPECT_EQ(copy.status().code(), StatusCode::kDevice);
  EXPECT_THAT(copy.status().message(), HasSubstr(GetParam().copy));
}

TEST_P(Copies, FailWhenAnyStepDoesAndGiveBackWhatTheyTook) {
  const VendorCase& vendor = GetParam();
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  for (const char* step : {vendor.create_stream, vendor.create_event, vendor.record_event,
                           vendor.stream_wait, vendor.copy}) {
    const Variable failure(vendor.failure_variable, Failure(step, 999));
    auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
    EXPECT_FALSE(copy.ok()) << step;
    EXPECT_THAT(copy.status().message(), HasSubstr(std::string(step) + " failed with 999"));
  }
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  ASSERT_TRUE(copy.ok());
  EXPECT_TRUE((*copy)->Wait().ok());
}

// The second record marks the end of the copy, which is under way by then.
TEST_P(Copies, ThatCannotBeWaitedForAreOverBeforeTheErrorIsTold) {
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  const Variable failure(GetParam().failure_variable, Failure(GetParam().record_event, 999) + ":1");
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  EXPECT_FALSE(copy.ok());
  EXPECT_EQ(Content(*target), AllBytes(kBytes, 6));
}

TEST_P(Copies, WaitThemselvesWhenTheProducerCannot) {
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  const Variable failure(GetParam().failure_variable, Failure(GetParam().stream_wait, 999) + ":1");
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_EQ(Content(*target), AllBytes(kBytes, 6));
}

TEST_P(Copies, RememberThatTheyFailed) {
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  ASSERT_TRUE(copy.ok());
  {
    const Variable failure(GetParam().failure_variable, Failure(GetParam().synchronize_event, 999));
    EXPECT_THAT((*copy)->Wait().message(), HasSubstr("999"));
  }
  EXPECT_FALSE((*copy)->Wait().ok());
  EXPECT_FALSE((*copy)->Done().ok());
  fake::SynchronizeAll();
}

TEST_P(Copies, EndWithAReasonWhenTheDeviceIsLost) {
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  ASSERT_TRUE(copy.ok());
  fake::LoseDevices();
  EXPECT_EQ((*copy)->Wait().code(), StatusCode::kDevice);
  EXPECT_EQ(runtime().CopyToHost({0, source.address(), kBytes, target->data()}).status().code(),
            StatusCode::kDevice);
  EXPECT_EQ(runtime().AllocateHost(0, kBytes).status().code(), StatusCode::kDevice);
  EXPECT_EQ(runtime().Synchronize(0).code(), StatusCode::kDevice);
  fake::SynchronizeAll();
}

TEST_P(Copies, SayWhenThereIsNoMemoryToCopyInto) {
  const Variable failure(GetParam().failure_variable, Failure(GetParam().allocate_host, 200000));
  const Status status = runtime().AllocateHost(0, 1000).status();
  EXPECT_EQ(status.code(), StatusCode::kDevice);
  EXPECT_THAT(status.message(), HasSubstr("1 kB"));
  EXPECT_THAT(status.message(), HasSubstr(GetParam().allocate_host));
}

TEST_P(Copies, KnowNoDeviceBeyondTheLast) {
  EXPECT_THAT(runtime().AllocateHost(2, kBytes).status().message(), HasSubstr("device 2"));
  EXPECT_FALSE(runtime().AllocateHost(-1, kBytes).ok());
}

TEST_P(Copies, AreLeftAloneInAForkedChild) {
  const DeviceBytes source(kBytes, 6);
  Result<HostBuffer> target = runtime().AllocateHost(0, kBytes);
  ASSERT_TRUE(target.ok());
  auto copy = runtime().CopyToHost({0, source.address(), kBytes, target->data()});
  ASSERT_TRUE(copy.ok());
  EXPECT_TRUE((*copy)->Wait().ok());
  const test_support::ChildEnd child = test_support::RunInChild([&] {
    const size_t calls = fake::TotalCalls();
    const bool refused =
        runtime().AllocateHost(0, kBytes).status().code() == StatusCode::kDevice &&
        runtime().CopyToHost({0, source.address(), kBytes, target->data()}).status().code() ==
            StatusCode::kDevice &&
        runtime().Synchronize(0).code() == StatusCode::kDevice && !runtime().GetKernelDump().ok() &&
        !runtime().Overflowed(0, nullptr).ok();
    copy = Result<std::unique_ptr<Copy>>(std::unique_ptr<Copy>());
    target = Result<HostBuffer>(HostBuffer());
    DropRegistry();
    return refused && fake::TotalCalls() == calls ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code, 0);
}

TEST_P(Copies, WorkInAChildThatWasForkedBeforeTheFirstUse) {
  const test_support::ChildEnd child = test_support::RunInChild([&] {
    const bool works = runtime().AllocateHost(0, kBytes).ok();
    return works ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Copies, ::testing::Values(kAcl, kCuda), [](const auto& vendor) {
  return std::string(KindName(vendor.param.kind));
});

}  // namespace
}  // namespace msprobe::device
