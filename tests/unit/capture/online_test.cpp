// Calls that go to a checker in place of files.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/online/inbox.h"
#include "src/online/receiver.h"
#include "tests/unit/capture/test_capture.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOnline = R"("task": "tensor", "online_run_ut": true, )";

// All calls of a folder whose training has ended.
std::vector<online::Call> Received(const fs::path& folder, int64_t rank, uint64_t& dropped) {
  online::InboxOptions options;
  options.ranks = {rank};
  online::Inbox inbox(options);
  online::Endpoint endpoint;
  endpoint.folder = folder;
  const auto receiver = *online::ReceiveFolder(endpoint, inbox);
  std::vector<online::Call> calls;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!inbox.is_over() && std::chrono::steady_clock::now() < end) {
    if (auto taken = inbox.Take(std::chrono::milliseconds(10))) {
      inbox.Done(*taken);
      calls.push_back(std::move(taken->call));
    }
  }
  EXPECT_TRUE(inbox.is_over());
  dropped = inbox.news().at(rank).dropped;
  inbox.Close();
  return calls;
}

TEST(OnlineCapture, ForwardCallsAreSentAndNothingIsWritten) {
  const test_support::TemporaryFolder folder;
  const test_support::TemporaryFolder shared;
  const std::vector<float> values = {1, 2, 3, 4};
  {
    TestCapture capture(folder / "dump",
                        fmt::format(R"({}"nfs_path": "{}")", kOnline, shared.path().string()));
    EXPECT_EQ(capture.Start(2), MSPROBE_START_ON);
    capture.Step();
    EXPECT_EQ(capture.Start(2), MSPROBE_START_ON);
    for (const std::string_view name :
         {"Functional.relu.0.forward", "Functional.relu.0.backward", "Module.a.ReLU.forward.0",
          "Distributed.all_reduce.0.forward"}) {
      EXPECT_EQ(capture.Record(name, FloatTensor(values.data(), {2, 2})), MSPROBE_OK);
    }
    capture.Step();
  }
  EXPECT_FALSE(fs::exists(folder / "dump"));
  uint64_t dropped = 0;
  const std::vector<online::Call> calls = Received(shared.path(), 2, dropped);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].name, "Functional.relu.0");
  EXPECT_EQ(calls[0].step, 1);
  EXPECT_EQ(calls[0].rank, 2);
  ASSERT_EQ(calls[0].tensors.size(), 1U);
  EXPECT_EQ(calls[0].tensors[0].name, "Functional.relu.0.forward.output.0.pt");
  EXPECT_EQ(calls[0].tensors[0].shape, (Shape{2, 2}));
  EXPECT_EQ(std::memcmp(calls[0].tensors[0].bytes.data(), values.data(), 16), 0);
  EXPECT_NE(calls[0].record.find(R"("data_name": "Functional.relu.0.forward.output.0.pt")"),
            std::string::npos);
  EXPECT_EQ(calls[0].record.find("Max"), std::string::npos);
  EXPECT_EQ(dropped, 0U);
}

TEST(OnlineCapture, WhatFindsNoRoomIsDroppedAndCountedWithoutAWait) {
  const test_support::TemporaryFolder folder;
  const test_support::TemporaryFolder shared;
  const std::vector<float> large(1'000'000);  // more than may wait
  const std::vector<float> small(10);
  const auto begin = std::chrono::steady_clock::now();
  {
    TestCapture capture(folder / "dump",
                        fmt::format(R"({}"nfs_path": "{}", "writer_memory_bytes": 1048576)",
                                    kOnline, shared.path().string()));
    EXPECT_EQ(capture.Start(0), MSPROBE_START_ON);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(capture.Record(fmt::format("Torch.abs.{}.forward", 2 * i),
                               FloatTensor(large.data(), {1'000'000})),
                MSPROBE_OK);
      EXPECT_EQ(capture.Record(fmt::format("Torch.abs.{}.forward", 2 * i + 1),
                               FloatTensor(small.data(), {10})),
                MSPROBE_OK);
    }
    capture.Step();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  uint64_t dropped = 0;
  EXPECT_EQ(Received(shared.path(), 0, dropped).size(), 5U);
  EXPECT_EQ(dropped, 5U);
}

TEST(OnlineCapture, ACheckerThatIsNotThereIsNotWaitedFor) {
  const test_support::TemporaryFolder folder;
  const std::vector<float> values(100'000);
  const auto begin = std::chrono::steady_clock::now();
  {
    // Port 1 is nobody's.
    TestCapture capture(
        folder / "dump",
        fmt::format(
            R"({}"host": "127.0.0.1", "port": 1, "tls_path": "", "plaintext": true, "writer_memory_bytes": 1048576)",
            kOnline));
    EXPECT_EQ(capture.Start(0), MSPROBE_START_ON);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(capture.Record(fmt::format("Torch.abs.{}.forward", i),
                               FloatTensor(values.data(), {100'000})),
                MSPROBE_OK);
    }
    capture.Step();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace msprobe::capture
