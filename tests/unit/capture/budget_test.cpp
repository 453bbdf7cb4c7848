// What a capture leaves out of a program that must not wait, and what it counts.
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/threads.h"
#include "src/capture/engine.h"
#include "src/capture/session.h"
#include "tests/unit/capture/test_capture.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

Settings WithLimits(std::optional<double> overhead_ms, std::optional<int64_t> bytes) {
  Settings settings;
  settings.max_overhead_ms = overhead_ms;
  settings.max_bytes_per_s = bytes;
  return settings;
}

TEST(Budget, AllowsEverythingWithoutLimits) {
  Budget budget(WithLimits({}, {}));
  EXPECT_FALSE(budget.exists());
  budget.AddNanoseconds(uint64_t{1} << 60U);
  EXPECT_TRUE(budget.has_time());
  EXPECT_TRUE(budget.TakeFileBytes(uint64_t{1} << 60U));
  EXPECT_TRUE(budget.TakeRecordBytes(uint64_t{1} << 60U));
}

TEST(Budget, GivesEachStepItsTime) {
  Budget budget(WithLimits(2.5, {}));
  EXPECT_EQ(budget.patience(), std::chrono::microseconds(2500));
  budget.AddNanoseconds(2'499'999);
  EXPECT_TRUE(budget.has_time());
  budget.AddNanoseconds(1);
  EXPECT_FALSE(budget.has_time());
  budget.BeginStep();
  EXPECT_TRUE(budget.has_time());
}

TEST(Budget, SavesUpTheBytesOfOneSecond) {
  Budget budget(WithLimits({}, 1000));
  const Budget::Clock::time_point start;
  EXPECT_FALSE(budget.TakeFileBytes(1001, start));
  EXPECT_TRUE(budget.TakeFileBytes(900, start));
  EXPECT_FALSE(budget.TakeFileBytes(101, start));
  EXPECT_TRUE(budget.TakeFileBytes(300, start + std::chrono::milliseconds(200)));
  EXPECT_FALSE(budget.TakeFileBytes(1, start + std::chrono::milliseconds(200)));
  EXPECT_FALSE(budget.TakeFileBytes(
      1001, start + std::chrono::milliseconds(9000)));  // no more than a second's
  EXPECT_TRUE(budget.TakeFileBytes(1000, start + std::chrono::milliseconds(9000)));
}

TEST(Budget, LetsARecordTakeMoreThanThereIsAndThenWaits) {
  Budget budget(WithLimits({}, 1000));
  const Budget::Clock::time_point start;
  EXPECT_TRUE(budget.TakeRecordBytes(2500, start));
  EXPECT_FALSE(budget.TakeRecordBytes(1, start + std::chrono::milliseconds(1400)));
  EXPECT_TRUE(budget.TakeRecordBytes(1, start + std::chrono::milliseconds(1600)));
}

TEST(QueueOfTasks, DoesWhatItTookAndNoMoreThanItHasRoomFor) {
  using Tasks = base::WorkQueue<std::function<void()>>;
  std::vector<int> done;
  std::mutex gate;
  gate.lock();
  {
    Tasks tasks({.most = 2}, [](const std::function<void()>& task) { task(); });
    const auto post = [&tasks](std::function<void()> task) {
      return tasks.TryAdd(task) == Tasks::Added::kYes;
    };
    EXPECT_TRUE(post([&] {
      const std::lock_guard wait(gate);
      done.push_back(1);
    }));
    EXPECT_TRUE(post([&] { done.push_back(2); }));
    EXPECT_FALSE(tasks.has_room());
    EXPECT_FALSE(post([&] { done.push_back(3); }));
    gate.unlock();
  }
  EXPECT_THAT(done, ::testing::ElementsAre(1, 2));
}

// ---- captures ----

std::string ManifestOf(const fs::path& rank) { return test_support::Slurp(rank / "manifest.json"); }

TEST(BudgetOfACapture, LeavesOutFilesThatAreTooManyBytes) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor", "max_bytes_per_s": 20000)");
  const std::vector<float> large(100'000, 2);
  const std::vector<float> small(100, 3);
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(large.data(), {100'000})), MSPROBE_OK);
  EXPECT_EQ(capture.Record("Torch.b.0.forward", FloatTensor(small.data(), {100})), MSPROBE_OK);
  capture.Step();
  EXPECT_EQ(capture.Totals().dropped_files, 1U);
  EXPECT_EQ(capture.Totals().lost_files, 0U);
  capture.Close();
  const fs::path rank = folder / "dump/step0/rank";
  // Its statistics are there, and no name of a file that is not.
  const std::string data = DataOf(rank / "dump.json");
  EXPECT_THAT(data, HasSubstr("\"Max\": 2.0"));
  EXPECT_THAT(data, Not(HasSubstr("Torch.a.0.forward.output.0.pt")));
  EXPECT_THAT(data, HasSubstr("Torch.b.0.forward.output.0.pt"));
  EXPECT_TRUE(fs::exists(rank / "dump_tensor_data/Torch.b.0.forward.output.0.pt"));
  EXPECT_THAT(ManifestOf(rank), HasSubstr("\"complete\": true"));
  EXPECT_THAT(ManifestOf(rank), HasSubstr("\"dropped_files\": 1"));
  EXPECT_THAT(ManifestOf(rank), HasSubstr("\"dropped_records\": 0"));
}

TEST(BudgetOfACapture, LeavesOutRecordsThatAreTooManyBytes) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("max_bytes_per_s": 1)");
  const float value = 1;
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  for (const char* name : {"Torch.a.0.forward", "Torch.b.0.forward", "Torch.c.0.forward"}) {
    EXPECT_EQ(capture.Record(name, FloatTensor(&value, {})), MSPROBE_OK) << msprobe_last_error();
  }
  capture.Step();
  EXPECT_EQ(capture.Totals().dropped_records, 2U);
  capture.Close();
  const fs::path rank = folder / "dump/step0/rank";
  EXPECT_THAT(DataOf(rank / "dump.json"), HasSubstr("Torch.a.0.forward"));
  EXPECT_THAT(DataOf(rank / "dump.json"), Not(HasSubstr("Torch.b.0.forward")));
  EXPECT_THAT(ManifestOf(rank), HasSubstr("\"dropped_records\": 2"));
}

TEST(BudgetOfACapture, DoesNotWaitForMemory) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(
      folder / "dump",
      R"("task": "tensor", "max_overhead_ms": 1e9, "writer_memory_bytes": 1048576)");
  const std::vector<float> large(1'000'000, 2);
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(large.data(), {1'000'000})),
            MSPROBE_OK);
  capture.Step();
  EXPECT_EQ(capture.Totals().dropped_files, 1U);
  EXPECT_EQ(capture.Totals().lost_files, 0U);
}

TEST(BudgetOfACapture, LeavesOutCallsOnceTheTimeOfAStepIsUsedUp) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("level": "mix", "max_overhead_ms": 600)");
  const auto enter = [&](std::string_view name) {
    return msprobe_capture_enter(capture.get(), Text(name));
  };
  const auto leave = [&](std::string_view name) {
    return msprobe_capture_leave(capture.get(), Text(name));
  };
  constexpr uint32_t kBoth = MSPROBE_WANT_INPUT | MSPROBE_WANT_OUTPUT;
  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(enter("Module.m.M.forward.0") & kBoth, kBoth);
  msprobe_hook_begin(capture.get());
  msprobe_hook_begin(capture.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(610));
  msprobe_hook_end(capture.get());
  EXPECT_EQ(enter("Torch.a.0.forward") & kBoth, kBoth) << "the outer hook has not ended";
  EXPECT_EQ(leave("Torch.a.0.forward") & kBoth, kBoth);
  msprobe_hook_end(capture.get());
  EXPECT_EQ(enter("Torch.b.0.forward"), 0U);
  EXPECT_EQ(leave("Torch.b.0.forward"), 0U);
  EXPECT_EQ(leave("Module.m.M.forward.0") & kBoth, kBoth) << "what began is recorded to its end";
  EXPECT_EQ(msprobe_capture_wants_parameters_grad(capture.get(), Text("Module.m.M")), 0);
  capture.Step();
  EXPECT_EQ(capture.Totals().dropped_records, 1U);

  ASSERT_EQ(capture.Start(), MSPROBE_START_ON);
  EXPECT_EQ(enter("Torch.b.0.forward") & kBoth, kBoth) << "every step has its own time";
  capture.Step();
  capture.Close();
  EXPECT_THAT(ManifestOf(folder / "dump/step0/rank"), HasSubstr("\"dropped_records\": 1"));
  EXPECT_THAT(ManifestOf(folder / "dump/step1/rank"), HasSubstr("\"dropped_records\": 0"));
}

TEST(BudgetOfACapture, LeavesOutAStepThatCannotBeginInTime) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("max_overhead_ms": 0.000001)");
  // The other thread may be quicker than this one, but not always.
  constexpr int kMostSteps = 1000;
  int step = 0;
  while (capture.Start() != MSPROBE_START_OFF && step < kMostSteps) {
    capture.Step();
    ++step;
  }
  EXPECT_GT(capture.Totals().dropped_steps, 0U);
  capture.Step();
  EXPECT_EQ(msprobe_capture_current_step(capture.get()), step + 1);
  capture.Close();
  // What had begun too late is an empty dump that says so; where it had not begun, there is none.
  const fs::path rank = folder / fmt::format("dump/step{}/rank", step);
  if (fs::exists(rank)) {
    EXPECT_THAT(ManifestOf(rank), HasSubstr("\"dropped_records\": 1"));
  }
}

TEST(BudgetOfACapture, WritesTheFilesOfAStepBehindTheNextOne) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor", "max_overhead_ms": 1e6)");
  const std::vector<float> values(1000, 2);
  int recorded = 0;
  for (int step = 0; step < 5; ++step) {
    if (capture.Start() == MSPROBE_START_ON) {
      ++recorded;
      EXPECT_EQ(capture.Record("Torch.a.0.forward", FloatTensor(values.data(), {1000})),
                MSPROBE_OK);
    }
    EXPECT_EQ(msprobe_capture_stop(capture.get()), MSPROBE_OK);
    capture.Step();
  }
  capture.Close();
  EXPECT_EQ(recorded, 5);
  for (int step = 0; step < 5; ++step) {
    const fs::path rank = folder / fmt::format("dump/step{}/rank", step);
    EXPECT_THAT(DataOf(rank / "dump.json"), HasSubstr("Torch.a.0.forward")) << step;
    EXPECT_THAT(ManifestOf(rank), HasSubstr("\"complete\": true")) << step;
    EXPECT_TRUE(fs::exists(rank / "dump_tensor_data/Torch.a.0.forward.output.0.pt")) << step;
    EXPECT_FALSE(fs::exists(rank / "records.log")) << step;
  }
}

}  // namespace
}  // namespace msprobe::capture
