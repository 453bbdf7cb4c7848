#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/profile/profile.h"
#include "tests/unit/profile/profile_files.h"

namespace msprobe::profile {
namespace {

constexpr const char* kGpuTrace = R"({"traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 1, "dur": 5}]})";
constexpr const char* kAscendTrace =
    R"([{"ph": "X", "cat": "cpu_op", "name": "npu::mm", "pid": 1, "tid": 2, "ts": "1", "dur": 5}])";

Needs Operators() {
  Needs needs;
  needs.operators = true;
  return needs;
}

std::vector<std::string> Found(const std::filesystem::path& path) {
  const Result<std::vector<RankPath>> found = FindProfiles(path);
  EXPECT_TRUE(found.ok()) << found.status().message();
  std::vector<std::string> names;
  if (found.ok()) {
    for (const RankPath& item : *found) {
      names.push_back((item.rank.has_value() ? std::to_string(*item.rank) : std::string("-")) +
                      " " + item.path.filename().string());
    }
  }
  return names;
}

std::string Error(const Result<Profile>& profile) {
  return profile.ok() ? std::string() : profile.status().message();
}

TEST(FindProfiles, TakesAFileForOneProfile) {
  const ProfileFiles files;
  EXPECT_EQ(Found(files.Write("whatever.json", kGpuTrace)),
            std::vector<std::string>{"- whatever.json"});
}

TEST(FindProfiles, FindsOneTracePerRankByName) {
  const ProfileFiles files;
  files.Write("host_rank10.1234.pt.trace.json", kGpuTrace);
  files.Write("host_rank2.1234.pt.trace.json", kGpuTrace);
  files.Write("host_rank3.1234.pt.trace.json.gz", kGpuTrace);
  files.Write("notes.json", "{}");
  EXPECT_EQ(Found(files.folder()), (std::vector<std::string>{"2 host_rank2.1234.pt.trace.json",
                                                             "3 host_rank3.1234.pt.trace.json.gz",
                                                             "10 host_rank10.1234.pt.trace.json"}));
}

TEST(FindProfiles, CountsTracesWhoseNamesTellNoRank) {
  const ProfileFiles files;
  files.Write("a.pt.trace.json", kGpuTrace);
  files.Write("b.pt.trace.json", kGpuTrace);
  EXPECT_EQ(Found(files.folder()),
            (std::vector<std::string>{"0 a.pt.trace.json", "1 b.pt.trace.json"}));
}

TEST(FindProfiles, RefusesTwoTracesOfOneRank) {
  const ProfileFiles files;
  files.Write("rank1.old.pt.trace.json", kGpuTrace);
  files.Write("rank1.new.pt.trace.json", kGpuTrace);
  const Result<std::vector<RankPath>> found = FindProfiles(files.folder());
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().message().find("more than one profile of rank 1"), std::string::npos);
}

TEST(FindProfiles, FindsAscendFoldersBelow) {
  const ProfileFiles files;
  files.Write("a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", kAscendTrace);
  files.Write("a_ascend_pt/profiler_info_7.json", "{}");
  files.Write("b_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", kAscendTrace);
  files.Write("b_ascend_pt/profiler_info_4.json", "{}");
  files.Write("c_ascend_pt/PROF_1/x", "");
  EXPECT_EQ(Found(files.folder()), (std::vector<std::string>{"4 b_ascend_pt", "7 a_ascend_pt"}));
}

TEST(FindProfiles, SaysWhatItLookedFor) {
  const ProfileFiles files;
  files.Write("PROF_0/mindstudio.txt", "");
  const Result<std::vector<RankPath>> found = FindProfiles(files.folder());
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().hint().find("trace_view.json"), std::string::npos);
  const Result<std::vector<RankPath>> missing = FindProfiles(files.folder() / "nowhere");
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("nowhere does not exist"), std::string::npos);
}

TEST(ReadProfile, TellsGpuFromNpuByTheOuterBrackets) {
  const ProfileFiles files;
  const Result<Profile> gpu = ReadProfile(files.Write("a.json", kGpuTrace), Operators());
  ASSERT_TRUE(gpu.ok()) << Error(gpu);
  EXPECT_EQ(gpu->device, Device::kGpu);
  const Result<Profile> npu = ReadProfile(files.Write("b.json", kAscendTrace), Operators());
  ASSERT_TRUE(npu.ok()) << Error(npu);
  EXPECT_EQ(npu->device, Device::kNpu);
  EXPECT_EQ(npu->source, Source::kTrace);
}

TEST(ReadProfile, ReadsTheOutputFolderItself) {
  const ProfileFiles files;
  files.Write("p_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", kAscendTrace);
  files.Write("p_ascend_pt/profiler_info_3.json", "{}");
  const Result<Profile> whole = ReadProfile(files.folder() / "p_ascend_pt", Operators());
  ASSERT_TRUE(whole.ok()) << Error(whole);
  EXPECT_EQ(whole->source, Source::kText);
  EXPECT_EQ(whole->rank, 3);
  EXPECT_EQ(whole->path, files.folder() / "p_ascend_pt");
  const Result<Profile> output =
      ReadProfile(files.folder() / "p_ascend_pt/ASCEND_PROFILER_OUTPUT", Operators());
  ASSERT_TRUE(output.ok()) << Error(output);
  EXPECT_EQ(output->operators.size(), 1U);
}

TEST(ReadProfile, PrefersADatabaseToText) {
  const ProfileFiles files;
  files.Write("p/trace_view.json", kAscendTrace);
  files.Write("p/ascend_mindspore_profiler_0.db", "damaged");
  const Result<Profile> profile = ReadProfile(files.folder() / "p", Operators());
  ASSERT_FALSE(profile.ok());
  EXPECT_NE(Error(profile).find("ascend_mindspore_profiler_0.db is not a SQLite database"),
            std::string::npos);
}

TEST(ReadProfile, ChoosesByRank) {
  const ProfileFiles files;
  files.Write("rank0.pt.trace.json", kGpuTrace);
  files.Write("rank1.pt.trace.json", kGpuTrace);
  const Result<Profile> item = ReadProfile(files.folder(), Operators(), 1);
  ASSERT_TRUE(item.ok()) << Error(item);
  EXPECT_EQ(item->rank, 1);
  EXPECT_EQ(item->path.filename(), "rank1.pt.trace.json");
  EXPECT_NE(Error(ReadProfile(files.folder(), Operators(), 5)).find("ranks 0, 1, not 5"),
            std::string::npos);
  EXPECT_NE(Error(ReadProfile(files.folder(), Operators())).find("ranks 0, 1"), std::string::npos);
}

TEST(ReadProfile, RefusesWhatIsNoProfile) {
  const ProfileFiles files;
  EXPECT_NE(Error(ReadProfile(files.Write("a.json", "hello"), Operators())).find("is not a trace"),
            std::string::npos);
  EXPECT_NE(Error(ReadProfile(files.Write("b.json", ""), Operators())).find("empty"),
            std::string::npos);
  EXPECT_FALSE(ReadProfile(files.folder() / "nowhere", Operators()).ok());
}

TEST(ReadProfile, TellsTheArrayFormOfPytorchFromAscendsTrace) {
  const ProfileFiles files;
  const std::string call =
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 1, "dur": 5})";
  const auto device_of = [&](const std::string& events) {
    const Result<Profile> profile = ReadProfile(files.Write("trace.json", events), Operators());
    EXPECT_TRUE(profile.ok()) << events;
    return profile.ok() ? profile->device : Device::kGpu;
  };
  EXPECT_EQ(device_of("[" + call), Device::kGpu);
  EXPECT_EQ(device_of("[" + call + R"(, {"ph": "X", "cat": "kernel", "name": "k", "ts": 1}])"),
            Device::kGpu);
  EXPECT_EQ(
      device_of(
          R"([{"ph": "X", "name": "aten::mm", "pid": "CPU functions", "tid": 2, "ts": 1, "dur": 5}])"),
      Device::kGpu);
  EXPECT_EQ(device_of("[" + call + R"(, {"ph": "s", "cat": "async_npu", "id": 1, "ts": 1}])"),
            Device::kNpu);
  EXPECT_EQ(
      device_of(
          "[" + call +
          R"(, {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "Ascend Hardware"}}])"),
      Device::kNpu);
}

}  // namespace
}  // namespace msprobe::profile
