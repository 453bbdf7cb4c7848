// Killed processes, full disks, missing rights: the training process goes on, and what was captured
// before stays readable.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "msprobe/capture.h"

#include "src/dump/record_log.h"
#include "tests/unit/capture/test_capture.h"
#include "tests/unit/support/child_process.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kSkipped = 77;

uint64_t MicrosecondsNow() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Records one entry after the other, each named by its number, until it is killed. `committed_at`
// holds when each was committed, in memory that outlives the process.
[[noreturn]] void RecordForEver(const fs::path& dump_path, uint64_t* committed_at, size_t count) {
  TestCapture capture(dump_path);
  capture.Start();
  const float value = 1;
  for (size_t i = 0; i < count; ++i) {
    capture.Record("Torch.a." + std::to_string(i) + ".forward", FloatTensor(&value, {}));
    committed_at[i + 1] = MicrosecondsNow();
    reinterpret_cast<std::atomic<uint64_t>*>(committed_at)->store(i + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (;;) {
    ::pause();
  }
}

TEST(KilledCapture, LosesOnlyTheLastMoments) {
  constexpr size_t kMost = 100'000;
  constexpr size_t kBytes = (kMost + 1) * sizeof(uint64_t);
  for (const int milliseconds : {120, 155, 210, 333}) {
    const test_support::TemporaryFolder folder;
    void* const shared =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto* const committed_at = static_cast<uint64_t*>(shared);
    const pid_t child = ::fork();
    if (child == 0) {
      RecordForEver(folder / "dump", committed_at, kMost);
    }
    // A slow machine may need longer than that to begin; a child that never does fails below.
    auto* const count = reinterpret_cast<std::atomic<uint64_t>*>(committed_at);
    for (int i = 0; i < 600 && count->load() == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::kill(child, SIGKILL);
    const uint64_t killed_at = MicrosecondsNow();
    int state = 0;
    ASSERT_EQ(::waitpid(child, &state, 0), child);

    const fs::path rank = folder / "dump/step0/rank";
    EXPECT_EQ(DataOf(rank / "dump.json"), "{}");
    EXPECT_FALSE(fs::exists(rank / "manifest.json"));
    const std::string bytes = test_support::Slurp(rank / dump::kRecordLogName);
    const Result<dump::RecordLog> log = dump::RecordLog::Parse(bytes);
    ASSERT_TRUE(log.ok()) << log.status().message();
    const size_t saved = log->entries.size();
    const uint64_t committed = committed_at[0];
    ASSERT_GT(committed, 0U);
    ASSERT_LT(saved, kMost);
    for (size_t i = 0; i < saved; ++i) {
      ASSERT_EQ(log->entries[i].name, "Torch.a." + std::to_string(i) + ".forward");
    }
    // What is missing was committed a moment before the end; a busy machine makes moments long.
    if (saved < committed) {
      EXPECT_LT(killed_at - committed_at[saved + 1], 2'000'000U);
    }
    EXPECT_TRUE(dump::ConvertRecordLog(rank, dump::SourceFiles::kOfThisProcess).ok());
    ::munmap(shared, kBytes);
  }
}

// Ten entries with one tensor of 64 KB each, in a step of their own.
void RecordTenTensors(TestCapture& capture, int first) {
  const std::vector<int64_t> shape = {16384};
  for (int i = first; i < first + 10; ++i) {
    const std::vector<float> values(16384, static_cast<float>(i));
    capture.Record("Torch.a." + std::to_string(i) + ".forward", FloatTensor(values.data(), shape));
  }
}

size_t CountOf(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// Runs `body` in a child with its stderr in a file; returns what it printed.
std::string StderrOfChild(const fs::path& file, const std::function<int()>& body, int* exit_code) {
  const test_support::ChildEnd end = test_support::RunInChild([&] {
    if (std::freopen(file.c_str(), "w", stderr) == nullptr) {
      return 1;
    }
    return body();
  });
  EXPECT_EQ(end.signal, 0);
  *exit_code = end.exit_code;
  return test_support::Slurp(file);
}

TEST(CaptureOnAFullDisk, GoesOnAndTellsItOnce) {
  const test_support::TemporaryFolder folder;
  const fs::path disk = folder / "disk";
  fs::create_directory(disk);
  int exit_code = -1;
  const std::string told = StderrOfChild(
      folder / "stderr",
      [&] {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0) {
          return kSkipped;
        }
        TestCapture capture(disk / "dump", R"("task": "tensor", "deduplicate": false)");
        capture.Start();
        RecordTenTensors(capture, 0);
        RecordTenTensors(capture, 10);
        msprobe_capture_step(capture.get());  // may or may not find room for the JSON files
        const msprobe_capture_totals totals = capture.Totals();
        if (totals.lost_files == 0 || totals.tensor_files + totals.lost_files != 20) {
          return 2;
        }
        // Nothing half-written stays.
        for (const auto& file : fs::directory_iterator(disk / "dump/step0/rank/dump_tensor_data")) {
          if (file.path().extension() != ".pt" || file.file_size() < 65536) {
            return 3;
          }
        }
        const std::string manifest = test_support::Slurp(disk / "dump/step0/rank/manifest.json");
        if (manifest.find("\"complete\": true") != std::string::npos) {
          return 4;
        }
        // Room again: the next step is whole.
        fs::remove_all(disk / "dump/step0");
        capture.Start();
        const float value = 1;
        capture.Record("Torch.b.0.forward", FloatTensor(&value, {}));
        capture.Step();
        return fs::exists(disk / "dump/step1/rank/manifest.json") ? 0 : 5;
      },
      &exit_code);
  if (exit_code == kSkipped) {
    GTEST_SKIP() << "mounting a small disk needs rights that this user lacks";
  }
  EXPECT_EQ(exit_code, 0) << told;
  EXPECT_EQ(CountOf(told, "a tensor file is lost"), 1U) << told;
  EXPECT_THAT(told, HasSubstr("No space left"));
}

TEST(CaptureBeyondTheFileSizeLimit, GoesOn) {
  const test_support::TemporaryFolder folder;
  int exit_code = -1;
  // stderr goes through a pipe there: the limit holds for files.
  const test_support::ChildEnd end = test_support::RunInChild([&] {
    TestCapture capture(folder / "dump", R"("task": "tensor")");
    capture.Start();
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_FSIZE, &none);
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0 || ::dup2(pipe_ends[1], STDERR_FILENO) < 0) {
      return 1;
    }
    RecordTenTensors(capture, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // the threads try their best
    if (msprobe_capture_stop(capture.get()) == MSPROBE_OK ||
        msprobe_capture_step(capture.get()) == MSPROBE_OK) {
      return 2;
    }
    int outcome = -1;
    if (msprobe_capture_start(capture.get(), 0, &outcome) != MSPROBE_ERROR_IO ||
        outcome != MSPROBE_START_OFF) {
      return 3;
    }
    return capture.Totals().lost_files == 10 ? 0 : 4;
  });
  exit_code = end.exit_code;
  EXPECT_EQ(end.signal, 0) << "SIGXFSZ is " << SIGXFSZ;
  EXPECT_EQ(exit_code, 0);
}

TEST(CaptureWithoutRights, IsOffAndSaysWhy) {
  const test_support::TemporaryFolder folder;
  fs::create_directory(folder / "locked");
  fs::permissions(folder / "locked", fs::perms(0555));
  fs::permissions(folder.path(), fs::perms(0755));
  const test_support::ChildEnd end = test_support::RunInChild([&] {
    if (!test_support::BecomeOrdinaryUser()) {
      return kSkipped;
    }
    TestCapture capture(folder / "locked/dump");
    int outcome = -1;
    if (msprobe_capture_start(capture.get(), 0, &outcome) != MSPROBE_ERROR_IO) {
      return 1;
    }
    const std::string error = msprobe_last_error();
    if (error.find("Permission denied") == std::string::npos) {
      return 2;
    }
    const float value = 1;
    capture.Record("Torch.a.0.forward", FloatTensor(&value, {}));
    return msprobe_capture_step(capture.get()) == MSPROBE_OK ? 0 : 3;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(CaptureWhoseFolderTurnsReadOnly, GoesOnAndCountsWhatIsLost) {
  const test_support::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  int exit_code = -1;
  fs::path report = folder / "stderr";
  test_support::Spill(report, "");
  fs::permissions(report, fs::perms::all);
  const std::string told = StderrOfChild(
      report,
      [&] {
        if (!test_support::BecomeOrdinaryUser()) {
          return kSkipped;
        }
        TestCapture capture(folder / "dump", R"("task": "tensor")");
        capture.Start(0);
        const fs::path tensors = folder / "dump/step0/rank0/dump_tensor_data";
        fs::permissions(tensors, fs::perms::owner_read | fs::perms::owner_exec);
        RecordTenTensors(capture, 0);
        capture.Step();
        fs::permissions(tensors, fs::perms::owner_all);
        const std::string manifest = test_support::Slurp(folder / "dump/step0/rank0/manifest.json");
        return capture.Totals().lost_files == 10 &&
                       manifest.find("\"complete\": false") != std::string::npos
                   ? 0
                   : 1;
      },
      &exit_code);
  EXPECT_EQ(exit_code, 0) << told;
  EXPECT_EQ(CountOf(told, "a tensor file is lost"), 1U) << told;
  EXPECT_EQ(CountOf(test_support::Slurp(folder / "dump/step0/rank0/dump_error_info.log"),
                    "its file is lost"),
            10U);
}

}  // namespace
}  // namespace msprobe::capture
