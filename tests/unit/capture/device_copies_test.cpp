#include "src/capture/device_copies.h"

#include <atomic>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/unit/device/fake_fixture.h"
#include "tests/unit/support/child_process.h"

namespace msprobe::capture {
namespace {

using test_support::DeviceBytes;
using test_support::FakeVendor;
using test_support::Variable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr size_t kRingBytes = size_t{1} << 20U;  // the smallest

class DeviceCopiesOfTensors : public FakeVendor {
 protected:
  DeviceCopiesOfTensors() { Open(); }
  ~DeviceCopiesOfTensors() override { copies_.reset(); }

  void Open() {
    Runtime(device::Kind::kAcl);
    copies_.emplace(registry(), kRingBytes);
  }

  // What was delivered: the value of all its bytes and their number, or the error.
  struct Delivered {
    int value = -1;
    size_t bytes = 0;
    std::string error;
  };
  Status Queue(const void* data, size_t bytes, fake::Stream* stream = nullptr) {
    return copies_->Queue(
        {device::Kind::kAcl, 0, data, bytes, stream},
        [this](const Result<std::span<const std::byte>>& result) { Receive(result); });
  }
  Status Queue(const DeviceBytes& source, fake::Stream* stream = nullptr) {
    return Queue(source.address(), source.size(), stream);
  }
  std::vector<Delivered> delivered() {
    const std::lock_guard lock(mutex_);
    return delivered_;
  }
  std::vector<int> values() {
    std::vector<int> all;
    for (const Delivered& each : delivered()) {
      all.push_back(each.value);
    }
    return all;
  }

  std::optional<DeviceCopies> copies_;

 private:
  void Receive(const Result<std::span<const std::byte>>& result) {
    Delivered item;
    if (result.ok()) {
      item.bytes = result->size();
      if (!result->empty()) {
        item.value = static_cast<int>(result->front());
        for (const std::byte each : *result) {
          item.value = static_cast<int>(each) == item.value ? item.value : -2;
        }
      }
    } else {
      item.error = result.status().message();
    }
    const std::lock_guard lock(mutex_);
    delivered_.push_back(item);
  }

  Variable library_{"MSPROBE_ACL_LIB", FAKE_ACL};
  std::mutex mutex_;
  std::vector<Delivered> delivered_;
};

TEST_F(DeviceCopiesOfTensors, ArriveInTheOrderInWhichTheyWereQueued) {
  const DeviceBytes first(1000, 1);
  const DeviceBytes second(1, 2);
  const DeviceBytes third(70000, 3);
  for (const DeviceBytes* source : {&first, &second, &third}) {
    ASSERT_TRUE(Queue(*source).ok());
  }
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(1, 2, 3));
  EXPECT_EQ(delivered()[2].bytes, 70000);
}

TEST_F(DeviceCopiesOfTensors, ArriveOnAThreadThatTakesNoSignalsOfTheTraining) {
  const DeviceBytes source(1000, 1);
  std::atomic<bool> takes_interrupts{true};
  std::atomic<bool> takes_file_size_signals{true};
  ASSERT_TRUE(copies_
                  ->Queue({device::Kind::kAcl, 0, source.address(), source.size(), nullptr},
                          [&](const Result<std::span<const std::byte>>&) {
                            sigset_t blocked;
                            ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
                            takes_interrupts = ::sigismember(&blocked, SIGINT) == 0;
                            takes_file_size_signals = ::sigismember(&blocked, SIGXFSZ) == 0;
                          })
                  .ok());
  copies_->Wait();
  EXPECT_FALSE(takes_interrupts);
  EXPECT_FALSE(takes_file_size_signals);
}

TEST_F(DeviceCopiesOfTensors, HoldWhatTheirStreamProducesAndNotWhatComesAfter) {
  DeviceBytes source(4096, 1);
  fake::Gate kernel;
  fake::Stream* const stream = fake::NewStream();
  fake::Run(stream, [&] {
    kernel.Wait();
    source.Fill(2);
  });
  ASSERT_TRUE(Queue(source, stream).ok());  // returns while the kernel waits
  fake::Run(stream, [&] { source.Fill(3); });
  ASSERT_TRUE(Queue(source, stream).ok());
  EXPECT_THAT(delivered(), SizeIs(0));
  kernel.Open();
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(2, 3));
  fake::Synchronize(stream);
  fake::DestroyStream(stream);
}

TEST_F(DeviceCopiesOfTensors, PassThroughMemoryOfAFixedSize) {
  std::vector<std::unique_ptr<DeviceBytes>> sources;
  std::vector<int> wanted;
  for (int i = 0; i < 100; ++i) {
    sources.push_back(std::make_unique<DeviceBytes>(size_t{1} + i * 3001, i));
    ASSERT_TRUE(Queue(*sources.back()).ok());
    wanted.push_back(i);
  }
  copies_->Wait();
  EXPECT_EQ(values(), wanted);
  EXPECT_EQ(fake::CallCount("aclrtMallocHost"), 1);
}

TEST_F(DeviceCopiesOfTensors, LargerThanThatTravelAlone) {
  const DeviceBytes small(100, 1);
  const DeviceBytes large(3 * kRingBytes, 2);
  const DeviceBytes full(kRingBytes, 3);
  for (const DeviceBytes* source : {&small, &large, &small, &full, &small}) {
    ASSERT_TRUE(Queue(*source).ok());
  }
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(1, 2, 1, 3, 1));
  EXPECT_EQ(delivered()[1].bytes, 3 * kRingBytes);
  EXPECT_EQ(fake::CallCount("aclrtFreeHost"), 1);
}

TEST_F(DeviceCopiesOfTensors, OfNothingAreDeliveredToo) {
  ASSERT_TRUE(Queue(nullptr, 0).ok());
  copies_->Wait();
  ASSERT_THAT(delivered(), SizeIs(1));
  EXPECT_EQ(delivered()[0].error, "");
  EXPECT_EQ(delivered()[0].bytes, 0);
}

TEST_F(DeviceCopiesOfTensors, MakeTheirCallerWaitOnlyWhileTheMemoryIsFull) {
  const DeviceBytes half(kRingBytes / 2, 1);
  fake::Gate reading;
  fake::SetCopyGate(&reading);
  ASSERT_TRUE(Queue(half).ok());
  ASSERT_TRUE(Queue(half).ok());
  std::thread third([&] { EXPECT_TRUE(Queue(half).ok()); });
  EXPECT_EQ(fake::CallCount("aclrtMemcpyAsync"), 2);
  reading.Open();
  third.join();
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(1, 1, 1));
}

TEST_F(DeviceCopiesOfTensors, ThatCannotBeginAreAnErrorAndHinderNoOther) {
  const DeviceBytes full(kRingBytes, 1);
  const std::vector<std::byte> on_host(kRingBytes);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Queue(on_host.data(), on_host.size()).code(), StatusCode::kDevice);
    ASSERT_TRUE(Queue(full).ok());
  }
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(1, 1, 1));
}

TEST_F(DeviceCopiesOfTensors, ThatFailOnTheWayAreDeliveredAsAnError) {
  const DeviceBytes source(100, 1);
  {
    const Variable failure("FAKE_ACL_FAIL", "aclrtSynchronizeEvent:507018");
    ASSERT_TRUE(Queue(source).ok());
    copies_->Wait();
  }
  ASSERT_TRUE(Queue(source).ok());
  copies_->Wait();
  ASSERT_THAT(delivered(), SizeIs(2));
  EXPECT_THAT(delivered()[0].error, HasSubstr("507018"));
  EXPECT_EQ(delivered()[1].value, 1);
}

TEST_F(DeviceCopiesOfTensors, GetAlongWithLessMemory) {
  copies_.emplace(registry(), 64 * kRingBytes);
  {
    const Variable failure("FAKE_ACL_FAIL", "aclrtMallocHost:200000");
    const DeviceBytes source(100, 1);
    EXPECT_THAT(Queue(source).message(), HasSubstr("out of memory"));
    EXPECT_EQ(fake::CallCount("aclrtMallocHost"), 7);  // 64, 32, ... 1 MiB
  }
  const DeviceBytes source(100, 2);
  ASSERT_TRUE(Queue(source).ok());
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(2));
}

TEST_F(DeviceCopiesOfTensors, OfSeveralThreadsAreAllDelivered) {
  const DeviceBytes source(10000, 4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        EXPECT_TRUE(Queue(source).ok());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  copies_->Wait();
  EXPECT_EQ(values(), std::vector<int>(400, 4));
}

TEST_F(DeviceCopiesOfTensors, AreDeliveredBeforeTheEnd) {
  const DeviceBytes source(100, 1);
  ASSERT_TRUE(Queue(source).ok());
  copies_.reset();
  EXPECT_THAT(values(), ElementsAre(1));
}

TEST_F(DeviceCopiesOfTensors, AreForgottenInAForkedChild) {
  const DeviceBytes source(100, 1);
  ASSERT_TRUE(Queue(source).ok());
  copies_->Wait();
  const test_support::ChildEnd child = test_support::RunInChild([&] {
    copies_->Wait();
    const bool refused = Queue(source).code() == StatusCode::kDevice;
    copies_.reset();
    return refused ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code, 0);
  copies_->Wait();
  EXPECT_THAT(values(), ElementsAre(1));
}

}  // namespace
}  // namespace msprobe::capture
