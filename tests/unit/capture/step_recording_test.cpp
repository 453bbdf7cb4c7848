// Records that come from many threads while a step ends.
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/capture/session.h"
#include "src/capture/settings.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {
namespace {

using ::testing::HasSubstr;

// Threads of a training that record at once, each under names of its own.
class ManyRecorders {
 public:
  static constexpr size_t kThreads = 8;

  // `record(thread)` on each thread, all begun before any goes on.
  explicit ManyRecorders(const std::function<void(size_t thread)>& record) {
    for (size_t i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this, i, record] {
        ++ready_;
        while (ready_.load() < kThreads) {
          std::this_thread::yield();
        }
        record(i);
      });
    }
    while (ready_.load() < kThreads) {
      std::this_thread::yield();
    }
  }
  ManyRecorders(const ManyRecorders&) = delete;
  ManyRecorders& operator=(const ManyRecorders&) = delete;
  ~ManyRecorders() { Join(); }
  void Join() {
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

 private:
  std::atomic<size_t> ready_{0};
  std::vector<std::thread> threads_;
};

std::unique_ptr<Session> OpenMixedSession(const std::filesystem::path& dump_path) {
  Result<Settings> settings =
      LoadSettings("", fmt::format(R"({{"dump_path": "{}", "level": "mix"}})", dump_path.string()),
                   Framework::kPyTorch);
  EXPECT_TRUE(settings.ok());
  Result<std::unique_ptr<Session>> session = Session::Open(*std::move(settings));
  EXPECT_TRUE(session.ok());
  return *std::move(session);
}

TEST(StepRecording, WritesEveryRecordThatWasTakenWhileTheStepEnded) {
  const test_support::TemporaryFolder folder;
  const std::unique_ptr<Session> session = OpenMixedSession(folder / "dump");
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(session->Start(0).ok());
    const std::shared_ptr<StepRecording> recording = session->recording();
    std::array<size_t, ManyRecorders::kThreads> taken{};
    ManyRecorders recorders([&](size_t thread) {
      while (recording->SetConstruct(fmt::format("Module.{}.{}", thread, taken[thread]), {}).ok()) {
        ++taken[thread];
      }
    });
    EXPECT_TRUE(session->Step().ok());
    recorders.Join();
    const std::string construct =
        test_support::Slurp(folder / fmt::format("dump/step{}/rank0/construct.json", step));
    for (size_t thread = 0; thread < taken.size(); ++thread) {
      // Its records came in this order: where the last one stands, all do.
      if (taken[thread] > 0) {
        ASSERT_THAT(construct,
                    HasSubstr(fmt::format("\"Module.{}.{}\"", thread, taken[thread] - 1)))
            << "step " << step;
      }
    }
  }
}

// Up to LogWriter::kMostKeptBytes the JSON files are made of what is in memory, written or not; of
// a longer log, of its file.
TEST(StepRecording, WritesTheSameWhateverPartOfTheLogIsInMemory) {
  const test_support::TemporaryFolder folder;
  const std::unique_ptr<Session> session = OpenMixedSession(folder / "dump");
  const std::string long_text(size_t{1} << 20U, 'm');
  constexpr int kNames = 20;  // of a MiB each
  ASSERT_TRUE(session->Start(0).ok());
  const std::filesystem::path rank = folder / "dump/step0/rank0";
  for (int i = 0; i < kNames; ++i) {
    ASSERT_TRUE(session->SetConstruct(fmt::format("Module.{}.{}", i, long_text), {}).ok());
    if (i % 5 == 0) {
      std::this_thread::sleep_for(LogWriter::kFlushInterval);
      ASSERT_TRUE(session->Stop().ok());
      ASSERT_TRUE(session->Start(0).ok());
    }
    if (i % 5 == 1) {
      ASSERT_TRUE(session->Stop().ok());
      const std::string construct = test_support::Slurp(rank / "construct.json");
      for (int earlier = 0; earlier <= i; ++earlier) {
        ASSERT_THAT(construct, HasSubstr(fmt::format("\"Module.{}.", earlier))) << i;
      }
      ASSERT_TRUE(session->Start(0).ok());
    }
  }
  ASSERT_TRUE(session->Step().ok());
  const std::string construct = test_support::Slurp(rank / "construct.json");
  for (int i = 0; i < kNames; ++i) {
    EXPECT_THAT(construct, HasSubstr(fmt::format("\"Module.{}.", i)));
  }
  EXPECT_FALSE(std::filesystem::exists(rank / "records.log"));
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"complete\": true"));
}

}  // namespace
}  // namespace msprobe::capture
