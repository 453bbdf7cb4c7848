// Steps from start to end, and the folders they leave.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "msprobe/capture.h"

#include "src/capture/step_folder.h"
#include "tests/unit/capture/test_capture.h"
#include "tests/unit/support/child_process.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

unsigned ModeOf(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777U;
}

void RecordOne(TestCapture& capture, std::string_view name) {
  const float value = 1;
  EXPECT_EQ(capture.Record(name, FloatTensor(&value, {})), MSPROBE_OK) << msprobe_last_error();
}

TEST(Session, MakesReadableFilesAtOnceAndTheManifestAtTheEnd) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor", "level": "mix")");
  EXPECT_FALSE(fs::exists(folder / "dump"));
  EXPECT_EQ(capture.Start(7), MSPROBE_START_ON);
  const fs::path rank = folder / "dump/step0/rank7";
  EXPECT_EQ(test_support::Slurp(rank / "stack.json"), "{}");
  EXPECT_EQ(test_support::Slurp(rank / "construct.json"), "{}");
  EXPECT_EQ(DataOf(rank / "dump.json"), "{}");
  EXPECT_FALSE(fs::exists(rank / "manifest.json"));
  RecordOne(capture, "Torch.foo.0.forward");
  capture.Step();

  EXPECT_FALSE(fs::exists(rank / "records.log"));
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"complete\": true"));
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"tensor_files\": 1"));
  EXPECT_THAT(test_support::Slurp(rank / "dump.json"),
              HasSubstr("\"dump_data_dir\": \"" + (rank / "dump_tensor_data").string()));
  EXPECT_EQ(ModeOf(rank), 0750U);
  EXPECT_EQ(ModeOf(rank / "dump_tensor_data"), 0750U);
  EXPECT_EQ(ModeOf(rank / "dump.json"), 0640U);
  EXPECT_EQ(ModeOf(rank / "dump_tensor_data/Torch.foo.0.forward.output.0.pt"), 0640U);
}

TEST(Session, AllStepsShareOneLayoutUntilItChanges) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  const auto step_with = [&](std::string_view layout) {
    capture.Start(0);
    RecordOne(capture, "Torch.foo.0.forward");
    EXPECT_EQ(msprobe_capture_set_layout(capture.get(), Text(layout)), MSPROBE_OK);
    capture.Step();
  };
  capture.Start(0);
  capture.Step();
  for (const std::string_view layout : {"{\"a\": 1}", "{\"a\": 1}", "{\"a\": 2}"}) {
    step_with(layout);
  }
  fs::remove_all(folder / "dump/step3");  // what the next one would be linked to
  step_with("{\"a\": 2}");

  const auto path = [&](int step) {
    return folder / fmt::format("dump/step{}/rank0/layout.json", step);
  };
  EXPECT_FALSE(fs::exists(path(0)));
  EXPECT_EQ(test_support::Slurp(path(1)), "{\"a\": 1}");
  EXPECT_TRUE(fs::equivalent(path(1), path(2)));
  EXPECT_EQ(test_support::Slurp(path(4)), "{\"a\": 2}");
  EXPECT_EQ(ModeOf(path(4)), 0640U);
}

TEST(Session, AStepThatLearnsItsRankTakesItsLayoutAlong) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  capture.Start();
  EXPECT_EQ(msprobe_capture_set_layout(capture.get(), Text("{}")), MSPROBE_OK);
  RecordOne(capture, "Torch.foo.0.forward");
  EXPECT_EQ(msprobe_capture_stop(capture.get()), MSPROBE_OK);
  EXPECT_TRUE(fs::exists(folder / "dump/step0/rank/layout.json"));
  capture.Start(2);
  capture.Step();
  EXPECT_FALSE(fs::exists(folder / "dump/step0/rank"));
  EXPECT_EQ(test_support::Slurp(folder / "dump/step0/rank2/layout.json"), "{}");
}

TEST(Session, ReducedGradientsHaveAFileOfTheirOwn) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  capture.Start(0);
  RecordOne(capture, "Torch.foo.0.forward");
  RecordOne(capture, "Module.fc.Linear.parameters_grad.reduced");
  capture.Step();
  const fs::path rank = folder / "dump/step0/rank0";
  EXPECT_THAT(test_support::Slurp(rank / "dump.json"), Not(HasSubstr("reduced")));
  const std::string reduced = test_support::Slurp(rank / "reduced_gradients.json");
  EXPECT_THAT(reduced, HasSubstr("\"Module.fc.Linear.parameters_grad.reduced\": {"));
  EXPECT_THAT(reduced, Not(HasSubstr("Torch.foo")));
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"entries\": 1,"));
}

TEST(Session, IsNotCompleteInAStepThatLostARecord) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  msprobe_capture_lost_record(capture.get());  // of no step
  capture.Start(0);
  RecordOne(capture, "Torch.foo.0.forward");
  msprobe_capture_lost_record(capture.get());
  capture.Step();
  capture.Start(0);
  RecordOne(capture, "Torch.foo.1.forward");
  capture.Step();

  const std::string first = test_support::Slurp(folder / "dump/step0/rank0/manifest.json");
  EXPECT_THAT(first, HasSubstr("\"complete\": false"));
  EXPECT_THAT(first, HasSubstr("\"lost_records\": 1,"));
  const std::string second = test_support::Slurp(folder / "dump/step1/rank0/manifest.json");
  EXPECT_THAT(second, HasSubstr("\"complete\": true"));
  EXPECT_THAT(second, HasSubstr("\"lost_records\": 0,"));
}

TEST(Session, RecordsTheSelectedStepsAndThenIsFinished) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("step": [1, "3-4"])");
  std::vector<int> outcomes;
  for (int step = 0; step < 6; ++step) {
    EXPECT_EQ(msprobe_capture_current_step(capture.get()), step);
    outcomes.push_back(capture.Start());
    capture.Step();
  }
  EXPECT_EQ(outcomes,
            (std::vector<int>{MSPROBE_START_OFF, MSPROBE_START_ON, MSPROBE_START_OFF,
                              MSPROBE_START_ON, MSPROBE_START_ON, MSPROBE_START_FINISHED}));
  EXPECT_TRUE(fs::exists(folder / "dump/step1/rank/dump.json"));
  EXPECT_FALSE(fs::exists(folder / "dump/step2"));
  EXPECT_EQ(capture.Totals().steps, 3U);
}

TEST(Session, ContinuesTheStepAtASecondStart) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  capture.Start();
  RecordOne(capture, "Torch.foo.0.forward");
  EXPECT_EQ(msprobe_capture_stop(capture.get()), MSPROBE_OK);
  EXPECT_THAT(DataOf(folder / "dump/step0/rank/dump.json"), HasSubstr("Torch.foo.0"));
  EXPECT_EQ(capture.Start(), MSPROBE_START_ON);
  RecordOne(capture, "Torch.foo.1.forward");
  capture.Close();  // ends the step as well
  const std::string data = DataOf(folder / "dump/step0/rank/dump.json");
  EXPECT_THAT(data, HasSubstr("Torch.foo.0"));
  EXPECT_THAT(data, HasSubstr("Torch.foo.1"));
  EXPECT_TRUE(fs::exists(folder / "dump/step0/rank/manifest.json"));
}

TEST(Session, BeginsAtTheStepGiven) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  EXPECT_EQ(msprobe_capture_set_init_step(capture.get(), 100), MSPROBE_OK);
  capture.Start();
  capture.Step();
  EXPECT_EQ(msprobe_capture_current_step(capture.get()), 101);
  EXPECT_TRUE(fs::exists(folder / "dump/step100/rank"));
  EXPECT_EQ(msprobe_capture_set_init_step(capture.get(), -1), MSPROBE_ERROR_USAGE);
}

TEST(Session, WaitsForItsRankWhenRanksAreSelected) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("rank": [1])");
  EXPECT_EQ(capture.Start(), MSPROBE_START_OFF);
  EXPECT_EQ(capture.Start(0), MSPROBE_START_OFF);
  EXPECT_EQ(capture.Start(1), MSPROBE_START_ON);
}

TEST(Session, TakesEveryRankAtLevelDebug) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("rank": [1], "level": "debug")");
  EXPECT_EQ(capture.Start(0), MSPROBE_START_ON);
}

TEST(Session, MovesTheStepWhenItsRankBecomesKnown) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  capture.Start();
  RecordOne(capture, "Torch.foo.0.forward");
  EXPECT_EQ(capture.Start(2), MSPROBE_START_ON);
  RecordOne(capture, "Torch.foo.1.forward");
  capture.Step();
  EXPECT_FALSE(fs::exists(folder / "dump/step0/rank"));
  const fs::path rank = folder / "dump/step0/rank2";
  EXPECT_THAT(DataOf(rank / "dump.json"), HasSubstr("Torch.foo.0"));
  EXPECT_THAT(test_support::Slurp(rank / "dump.json"), HasSubstr("rank2/dump_tensor_data"));
  EXPECT_TRUE(fs::exists(rank / "dump_tensor_data/Torch.foo.0.forward.output.0.pt"));
  EXPECT_TRUE(fs::exists(rank / "dump_tensor_data/Torch.foo.1.forward.output.0.pt"));
  EXPECT_THAT(test_support::Slurp(rank / "manifest.json"), HasSubstr("\"rank\": 2"));
  EXPECT_FALSE(fs::exists(rank / "records.log"));
}

TEST(Session, NeitherReplacesNorJoinsTheDumpOfAnotherRun) {
  const test_support::TemporaryFolder folder;
  for (const char* name :
       {"step0/rank/dump.json", "step0/rank/manifest.json", "step3/rank/dump.json"}) {
    folder.Write(fs::path("dump") / name, R"({"run": "of yesterday"})");
  }
  fs::remove(folder / "dump/step0/rank/dump.json");
  TestCapture capture(folder / "dump");
  for (int step = 0; step < 2; ++step) {
    int outcome = -1;
    EXPECT_EQ(msprobe_capture_start(capture.get(), -1, &outcome), MSPROBE_ERROR_IO);
    EXPECT_THAT(msprobe_last_error(), HasSubstr("holds the dump of another run"));
    EXPECT_EQ(outcome, MSPROBE_START_OFF);
    RecordOne(capture, "Torch.foo.0.forward");
    capture.Step();
  }
  EXPECT_EQ(test_support::Slurp(folder / "dump/step0/rank/manifest.json"),
            R"({"run": "of yesterday"})");
  EXPECT_FALSE(fs::exists(folder / "dump/step0/rank/records.log"));
  EXPECT_FALSE(fs::exists(folder / "dump/step1"));  // steps of two runs are not mixed either
}

TEST(Session, RanksOfARunWriteBesideTheDumpsOfOthers) {
  const test_support::TemporaryFolder folder;
  folder.Write("dump/step0/rank1/dump.json", "{}");
  TestCapture capture(folder / "dump");
  EXPECT_EQ(capture.Start(0), MSPROBE_START_ON);
}

TEST(Session, ReplacesAnEarlierDumpAsAWholeWhereItIsToldSo) {
  const test_support::TemporaryFolder folder;
  ::setenv("MSPROBE_REPLACE_DUMP", "1", 1);
  for (const char* name : {"dump.json", "debug.json", "manifest.json", "records.log",
                           "dump_error_info.log", "dump_tensor_data/old.pt", "notes.txt"}) {
    folder.Write(fs::path("dump/step0/rank") / name, "of an earlier run");
  }
  TestCapture capture(folder / "dump");
  ::testing::internal::CaptureStderr();
  capture.Start();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("it is replaced"));
  ::unsetenv("MSPROBE_REPLACE_DUMP");
  const fs::path rank = folder / "dump/step0/rank";
  EXPECT_EQ(DataOf(rank / "dump.json"), "{}");
  EXPECT_FALSE(fs::exists(rank / "dump_tensor_data"));
  EXPECT_FALSE(fs::exists(rank / "debug.json"));
  EXPECT_FALSE(fs::exists(rank / "manifest.json"));
  EXPECT_TRUE(fs::exists(rank / "notes.txt"));  // not ours
}

TEST(Session, LeavesAFolderToTheProcessThatHasIt) {
  const test_support::TemporaryFolder folder;
  TestCapture first(folder / "dump");
  first.Start();
  RecordOne(first, "Torch.foo.0.forward");
  TestCapture second(folder / "dump");
  int outcome = -1;
  EXPECT_EQ(msprobe_capture_start(second.get(), -1, &outcome), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("being written by another process"));
  EXPECT_EQ(outcome, MSPROBE_START_OFF);
  RecordOne(second, "Torch.bar.0.forward");
  first.Step();
  EXPECT_THAT(DataOf(folder / "dump/step0/rank/dump.json"), HasSubstr("Torch.foo.0"));
  EXPECT_EQ(second.Start(), MSPROBE_START_ON);  // the folder is free again
}

// Between two steps it locks nothing.
TEST(Session, LeavesTheDumpOfALivingProcessOfTheRunAlone) {
  if (test_support::IsEmulated()) {
    GTEST_SKIP() << "qemu tells a process another time of its start than other processes";
  }
  const test_support::TemporaryFolder folder;
  const pid_t other = ::fork();
  if (other == 0) {
    folder.Write("identity", ProcessIdentity());
    folder.Write("ready", "");
    ::pause();
    ::_exit(0);
  }
  while (!fs::exists(folder / "ready")) {
    ::usleep(1000);
  }
  const std::string manifest = fmt::format(R"({{"process": "{}", "run": "{}"}})",
                                           test_support::Slurp(folder / "identity"), RunIdentity());
  folder.Write("dump/step3/rank0/manifest.json", manifest);
  int outcome = -1;
  ::setenv("MSPROBE_REPLACE_DUMP", "1", 1);  // is about dumps of runs that are over
  {
    TestCapture capture(folder / "dump");
    EXPECT_EQ(msprobe_capture_start(capture.get(), 0, &outcome), MSPROBE_ERROR_USAGE);
    EXPECT_THAT(msprobe_last_error(), HasSubstr("step3/rank0 is being written by another process"));
    EXPECT_EQ(outcome, MSPROBE_START_OFF);
  }
  ::unsetenv("MSPROBE_REPLACE_DUMP");
  EXPECT_EQ(test_support::Slurp(folder / "dump/step3/rank0/manifest.json"), manifest);
  EXPECT_EQ(TestCapture(folder / "dump").Start(1), MSPROBE_START_ON);  // another rank
  ::kill(other, SIGKILL);
  siginfo_t ended;
  ::waitid(P_PID, static_cast<id_t>(other), &ended, WEXITED | WNOWAIT);  // nobody has waited yet
  EXPECT_EQ(TestCapture(folder / "dump").Start(0), MSPROBE_START_ON);
  ::waitpid(other, nullptr, 0);
}

TEST(Session, RefusesFoldersThatAnotherUserMade) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a folder to another user";
  }
  constexpr uid_t kSomebody = 12345;
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  fs::create_directories(folder / "dump/step0");
  ASSERT_EQ(::chown((folder / "dump/step0").c_str(), kSomebody, kSomebody), 0);
  int outcome = -1;
  EXPECT_EQ(msprobe_capture_start(capture.get(), 0, &outcome), MSPROBE_ERROR_IO);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("belongs to another user (id 12345)"));
  // A file system that gives to him all that this user makes.
  ASSERT_EQ(::chown((folder / "dump").c_str(), kSomebody, kSomebody), 0);
  EXPECT_EQ(capture.Start(0), MSPROBE_START_ON);
}

TEST(Session, RefusesFoldersThatSomebodyLinkedElsewhere) {
  const test_support::TemporaryFolder folder;
  fs::create_directories(folder / "dump");
  fs::create_directory(folder / "elsewhere");
  TestCapture capture(folder / "dump");
  fs::create_directory_symlink(folder / "elsewhere", folder / "dump/step0");
  int outcome = -1;
  EXPECT_EQ(msprobe_capture_start(capture.get(), 0, &outcome), MSPROBE_ERROR_IO);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("symbolic link"));
  EXPECT_EQ(outcome, MSPROBE_START_OFF);
}

TEST(StepPlace, HasAPathThatAllReadersTake) {
  const test_support::TemporaryFolder folder;
  EXPECT_TRUE(CheckPlace({(folder / "new/dump").string(), 0, 1}).ok());
  EXPECT_FALSE(CheckPlace({(folder / "a b").string(), 0, 1}).ok());
  EXPECT_FALSE(CheckPlace({"", 0, 1}).ok());
  EXPECT_FALSE(CheckPlace({(folder / std::string(300, 'x')).string(), 0, 1}).ok());
  // What a link stands for counts.
  fs::create_directory(folder / "a b");
  fs::create_directory_symlink(folder / "a b", folder / "link");
  EXPECT_FALSE(CheckPlace({(folder / "link").string(), 0, 1}).ok());
}

TEST(Session, KeepsOnlyTheStructureInTaskStructure) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "structure", "level": "mix")");
  capture.Start();
  EXPECT_EQ(msprobe_capture_enter(capture.get(), Text("Torch.foo.0.forward")) & ~4U, 0U);
  RecordOne(capture, "Torch.foo.0.forward");
  const msprobe_text parent = Text("Module.m.M.forward.0");
  EXPECT_EQ(msprobe_capture_construct(capture.get(), Text("Torch.foo.0.forward"), &parent), 0);
  EXPECT_EQ(msprobe_capture_construct(capture.get(), parent, nullptr), 0);
  const fs::path source = folder.Write("train.py", "import torch\n  loss = model(x)  \n");
  const std::string file = source.string();
  const msprobe_frame frame = {Text(file), Text("main"), 2};
  uint32_t id = 99;
  uint32_t same = 98;
  EXPECT_EQ(msprobe_capture_stack(capture.get(), &frame, 1, &id), 0);
  EXPECT_EQ(msprobe_capture_stack(capture.get(), &frame, 1, &same), 0);
  EXPECT_EQ(id, same);
  EXPECT_EQ(msprobe_capture_set_stack(capture.get(), Text("Torch.foo.0.forward"), id), 0);
  EXPECT_EQ(msprobe_capture_set_stack(capture.get(), Text("Torch.bar.0.forward"), id), 0);
  EXPECT_EQ(msprobe_capture_set_stack(capture.get(), Text("x"), 12345), MSPROBE_ERROR_USAGE);
  capture.Step();
  const fs::path rank = folder / "dump/step0/rank";
  EXPECT_EQ(DataOf(rank / "dump.json"), "{}");
  EXPECT_EQ(
      test_support::Slurp(rank / "construct.json"),
      "{\n \"Torch.foo.0.forward\": \"Module.m.M.forward.0\",\n \"Module.m.M.forward.0\": null\n}");
  EXPECT_THAT(test_support::Slurp(rank / "stack.json"), HasSubstr("Torch.bar.0.forward"));
  EXPECT_THAT(test_support::Slurp(rank / "stack.json"),
              HasSubstr("line 2, in main, \\n loss = model(x)\""));
}

TEST(Session, RegistersStacksAnewInEveryStep) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump");
  const msprobe_frame frame = {Text("a.py"), Text("f"), 1};
  uint32_t id = 0;
  capture.Start();
  EXPECT_EQ(msprobe_capture_stack(capture.get(), &frame, 1, &id), 0);
  capture.Step();
  capture.Start();
  EXPECT_EQ(msprobe_capture_set_stack(capture.get(), Text("Torch.foo.0.forward"), id), 0);
  capture.Step();
  EXPECT_EQ(test_support::Slurp(folder / "dump/step0/rank/stack.json"), "{}");
  EXPECT_THAT(test_support::Slurp(folder / "dump/step1/rank/stack.json"), HasSubstr("Torch.foo.0"));
}

TEST(Session, TellsWrongCallsInsteadOfCrashing) {
  msprobe_capture* capture = nullptr;
  EXPECT_EQ(msprobe_capture_open(Text(""), Text(""), Text("jax"), &capture), MSPROBE_ERROR_USAGE);
  EXPECT_THAT(msprobe_last_error(), HasSubstr("jax"));
  EXPECT_EQ(msprobe_capture_open(Text("/no/such/config.json"), Text(""), Text("pytorch"), &capture),
            MSPROBE_ERROR_USAGE);
  EXPECT_EQ(capture, nullptr);
  EXPECT_EQ(msprobe_capture_step(nullptr), MSPROBE_ERROR_USAGE);
  EXPECT_EQ(msprobe_capture_open(Text(""), Text(""), Text("pytorch"), nullptr),
            MSPROBE_ERROR_USAGE);
  msprobe_entry* const entry = msprobe_entry_begin(nullptr, Text("a"));
  msprobe_put_int(entry, 1);
  EXPECT_EQ(msprobe_entry_commit(entry), MSPROBE_OK);
  EXPECT_EQ(msprobe_entry_commit(nullptr), MSPROBE_OK);
  msprobe_capture_close(nullptr);
}

TEST(Session, RecordsNothingInAForkedChildUntilItsNextStart) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers start no threads, or keep locks of other threads, in forked children";
#endif
  if (test_support::IsEmulated()) {
    GTEST_SKIP() << "qemu starts no threads in forked children";
  }
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  capture.Start(0);
  RecordOne(capture, "Torch.parent.0.forward");
  msprobe_entry* const open = capture.Begin("Torch.open.0.forward");
  msprobe_put_member(open, Text("output"), Text("output"));
  const test_support::ChildEnd end = test_support::RunInChild([&] {
    msprobe_capture_after_fork(capture.get());
    msprobe_put_int(open, 5);
    msprobe_entry_commit(open);
    RecordOne(capture, "Torch.child.0.forward");
    if (capture.Start(1) != MSPROBE_START_ON) {
      return 1;
    }
    RecordOne(capture, "Torch.child.1.forward");
    capture.Close();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  msprobe_put_int(open, 6);
  Commit(open);
  capture.Step();
  const std::string parents = DataOf(folder / "dump/step0/rank0/dump.json");
  EXPECT_THAT(parents, HasSubstr("Torch.parent.0"));
  EXPECT_THAT(parents, HasSubstr("\"output\": 6"));
  EXPECT_THAT(parents, Not(HasSubstr("Torch.child")));
  const std::string childs = DataOf(folder / "dump/step0/rank1/dump.json");
  EXPECT_THAT(childs, HasSubstr("Torch.child.1"));
  EXPECT_THAT(childs, Not(HasSubstr("Torch.child.0")));
}

TEST(Session, MayBeClosedByAForkedChildThatKnowsNothing) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump", R"("task": "tensor")");
  capture.Start(0);
  RecordOne(capture, "Torch.foo.0.forward");
  const test_support::ChildEnd end = test_support::RunInChild([&] {
    capture.Close();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_FALSE(fs::exists(folder / "dump/step0/rank0/manifest.json"));
  capture.Step();
  EXPECT_THAT(DataOf(folder / "dump/step0/rank0/dump.json"), HasSubstr("Torch.foo.0"));
}

TEST(Session, StaysWhereItBeganWhenTheWorkingDirectoryChanges) {
  const test_support::TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  const test_support::ChildEnd end = test_support::RunInChild([&] {
    fs::current_path(folder.path());
    TestCapture capture("./dump", R"("task": "tensor")");
    capture.Start(0);
    fs::current_path(folder / "elsewhere");
    RecordOne(capture, "Torch.foo.0.forward");
    capture.Step();
    capture.Start(0);
    capture.Close();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(fs::is_empty(folder / "elsewhere"));
  EXPECT_TRUE(
      fs::exists(folder / "dump/step0/rank0/dump_tensor_data/Torch.foo.0.forward.output.0.pt"));
  EXPECT_TRUE(fs::exists(folder / "dump/step1/rank0/manifest.json"));
  EXPECT_THAT(test_support::Slurp(folder / "dump/step0/rank0/dump.json"),
              HasSubstr("\"dump_data_dir\": \"./dump/step0/rank0/dump_tensor_data\""));
}

TEST(Session, DumpsNoKernelsWithoutARuntimeThatCan) {
  const test_support::TemporaryFolder folder;
  TestCapture capture(folder / "dump",
                      R"("task": "tensor", "level": "L2", "list": ["Torch.foo.0.forward"])");
  EXPECT_EQ(msprobe_kernel_dump_begin(capture.get()), MSPROBE_ERROR_USAGE);  // before the start
  EXPECT_EQ(capture.Start(0), MSPROBE_START_ON);
  EXPECT_EQ(msprobe_kernel_dump_begin(capture.get()), MSPROBE_ERROR_DEVICE);
  EXPECT_FALSE(fs::exists(folder / "dump/step0/rank0"));
}

}  // namespace
}  // namespace msprobe::capture
