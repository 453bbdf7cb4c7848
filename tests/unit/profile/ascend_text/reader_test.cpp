#include "src/profile/ascend_text/reader.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/profile/profile_files.h"

namespace msprobe::profile {
namespace {

Needs AllOfText() {
  Needs needs;
  needs.operators = needs.kernels = needs.flows = needs.python_calls = needs.memory = true;
  needs.communication = needs.overlap = needs.kernel_details = true;
  needs.operator_statistics = needs.bandwidth = true;
  return needs;
}

// One operator with a kernel, a collective with its tasks, and what the overlap analysis says.
constexpr const char* kTrace = R"json([
  {"ph": "X", "name": "early", "pid": 20, "tid": 2, "ts": "90.000", "dur": 1.0, "args": {"Task Id": 9}},
  {"ph": "M", "name": "process_name", "pid": 20, "tid": 0, "args": {"name": "Ascend Hardware"}},
  {"ph": "M", "name": "process_name", "pid": 30, "tid": 0, "args": {"name": "HCCL"}},
  {"ph": "M", "name": "process_name", "pid": 40, "tid": 0, "args": {"name": "Overlap Analysis"}},
  {"ph": "M", "name": "process_name", "pid": 50, "tid": 0, "args": {"name": "CANN"}},
  {"ph": "M", "name": "thread_name", "pid": 30, "tid": 8, "args": {"name": "Plane 1"}},
  {"ph": "M", "name": "thread_sort_index", "pid": 30, "tid": 8, "args": {"sort_index": 2}},
  {"ph": "M", "name": "thread_name", "pid": 30, "tid": 7, "args": {"name": "Plane 0"}},
  {"ph": "M", "name": "thread_sort_index", "pid": 30, "tid": 7, "args": {"sort_index": 1}},
  {"ph": "M", "name": "thread_name", "pid": 30, "tid": 6, "args": {"name": "Group 12 Communication"}},
  {"ph": "M", "name": "thread_sort_index", "pid": 30, "tid": 6, "args": {"sort_index": 0}},
  {"ph": "M", "name": "thread_name", "pid": 30, "tid": 9, "args": {"name": "Plane 9"}},
  {"ph": "X", "name": "ProfilerStep#5", "pid": 1, "tid": 2, "ts": "100.000", "dur": 900, "cat": "cpu_op"},
  {"ph": "X", "name": "aten::mm", "pid": 1, "tid": 2, "ts": "1700000000001002.000", "dur": 4.2, "cat": "cpu_op",
   "args": {"Input Dims": "256,1024;\r\n64", "Input type": "float", "Call stack": "a.py(1): f"}},
  {"ph": "X", "name": "AscendCL@x", "pid": 50, "tid": 2, "ts": "110", "dur": 1},
  {"ph": "X", "name": "aclnnMatmul", "pid": 20, "tid": 2, "ts": "1700000000002012.500", "dur": 40.0,
   "args": {"Task Type": "AI_CORE", "Stream Id": 2, "Task Id": 17}},
  {"ph": "X", "name": "C_CORE_SQE", "pid": 20, "tid": 60, "ts": "130.000", "dur": 0.5, "args": {"Task Type": "C_CORE_SQE"}},
  {"ph": "s", "id": 7, "pid": 1, "tid": 2, "ts": "1700000000001002.000", "cat": "async_npu", "name": "torch_to_npu"},
  {"ph": "f", "id": 7, "pid": 20, "tid": 2, "ts": "1700000000002012.500", "cat": "async_npu", "name": "torch_to_npu"},
  {"ph": "s", "id": 1, "pid": 1, "tid": 2, "ts": "10", "cat": "fwdbwd"},
  {"ph": "f", "id": 1, "pid": 1, "tid": 3, "ts": "20", "cat": "fwdbwd"},
  {"ph": "f", "id": 2, "pid": 1, "tid": 4, "ts": "30", "cat": "fwdbwd"},
  {"ph": "X", "name": "nn.Module: Net_0", "pid": 1, "tid": 2, "ts": "100", "dur": 9, "cat": "python_function"},
  {"ph": "X", "name": "hcom_allReduce__429_0_1", "pid": 30, "tid": 6, "ts": "200.000", "dur": 60.0},
  {"ph": "X", "name": "Notify_Wait", "pid": 30, "tid": 8, "ts": "201.000", "dur": 5.0},
  {"ph": "X", "name": "Memcpy", "pid": 30, "tid": 9, "ts": "202.000", "dur": 5.0},
  {"ph": "X", "name": "Computing", "pid": 40, "tid": 0, "ts": "130.000", "dur": 40.0},
  {"ph": "X", "name": "Communication(Not Overlapped)", "pid": 40, "tid": 2, "ts": "200.000", "dur": 60.0},
  {"ph": "X", "name": "Free", "pid": 40, "tid": 3, "ts": "170.000", "dur": 30.0},
  {"ph": "X", "name": "Enqueue", "pid": 1, "tid": 2, "ts": "1000.5", "dur": 1, "cat": "enqueue", "args": {"correlation_id": 4}},
  {"ph": "X", "name": "Dequeue", "pid": 1, "tid": 5, "ts": "1010", "dur": 10, "cat": "dequeue", "args": {"correlation_id": 4}},
  {"ph": "X", "name": "Dequeue", "pid": 1, "tid": 5, "ts": "1030", "dur": 10, "cat": "dequeue", "args": {"correlation_id": 5}}
])json";

constexpr const char* kKernelDetails =
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes,aicore_time(us),"
    "aic_mac_time(us),aic_mte2_time(us),aiv_time(us),aiv_vec_time(us)\n"
    "5,aclnnMatmul,MatMulV2,AI_CORE,1700000000002012.500\t,40.0,\"\"\"256,1024;64\"\"\",38,20,10,0,"
    "0\n"
    "5,hcom,N/A,COMMUNICATION,200.000\t,60.0,,N/A,N/A,N/A,N/A,N/A\n";

std::string Text(const Profile& profile, TextId id) { return std::string(profile.texts[id]); }

// The files of a whole profile, and what was read of them.
class ReadAscendTextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files_.Write("p_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", kTrace);
    Output("kernel_details.csv", kKernelDetails);
    Output("operator_memory.csv",
           "Name,Size(KB),Allocation Time(us),Release Time(us)\n"
           "aten::mm,512,1700000000001003.960\t,\n"
           "aten::mm,128.5,1700000000001004.000\t,1700000000001024.060\t\n"
           "cann::mm,64,1015.5\t,1016.5\t\n"
           "cann::mm,64,1035\t,\n"
           "cann::mm,64,1025\t,\n");
    Output("memory_record.csv", "Total Reserved(MB)\n512\n2048.0\n1024\n");
    Output("op_statistic.csv",
           "OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us)\n"
           "MatMulV2,AI_CORE,24,278400.0,11400.0,11600.0,12000.0\n");
    Output("communication.json", R"json({"step5": {"p2p": {"RDMA": {"Transit Size(MB)": 9}},
      "collective": {"hcom@1": {"Communication Bandwidth Info": {"RDMA": {"Transit Size(MB)": 7}}},
      "Total Op Info": {"Communication Time Info": {"x": 1}, "Communication Bandwidth Info": {
        "RDMA": {"Transit Size(MB)": 12.5, "Transit Time(ms)": 2, "Size Distribution": {"Transit Time(ms)": [1]}},
        "SDMA": {"Transit Size(MB)": 100, "Transit Time(ms)": 0}}}}},
      "step6": {"collective": {"Total Op Info": {"Communication Bandwidth Info": {
        "SDMA": {"Transit Size(MB)": 100, "Transit Time(ms)": 4.0}}}}}})json");
    files_.Write("p_ascend_pt/profiler_metadata.json",
                 R"({"parallel_group_info": {"12": {"group_name": "tp"}, "3": {}}})");
  }
  std::filesystem::path Output(const std::string& name, const std::string& text) const {
    return files_.Write("p_ascend_pt/ASCEND_PROFILER_OUTPUT/" + name, text);
  }
  std::filesystem::path output() const { return root() / "ASCEND_PROFILER_OUTPUT"; }
  std::filesystem::path root() const { return files_.folder() / "p_ascend_pt"; }
  Profile Read(const Needs& needs = AllOfText()) const {
    Result<Profile> profile = ReadAscendText(root(), output(), needs);
    EXPECT_TRUE(profile.ok()) << profile.status().message();
    return profile.ok() ? *std::move(profile) : Profile();
  }

  ProfileFiles files_;
};

TEST_F(ReadAscendTextTest, ReadsOperatorsWithTheirShapesAndStacks) {
  const Profile profile = Read();
  EXPECT_EQ(profile.device, Device::kNpu);
  EXPECT_EQ(profile.source, Source::kText);
  ASSERT_EQ(profile.operators.size(), 2U);
  const Operator& mm = profile.operators[1];
  EXPECT_EQ(Text(profile, mm.name), "aten::mm");
  EXPECT_EQ(Text(profile, mm.shapes), "256,1024;\r\n64");
  EXPECT_EQ(Text(profile, mm.shape_key), "256,1024;\r\n64");
  EXPECT_EQ(Text(profile, mm.types), "float");
  EXPECT_EQ(Text(profile, mm.call_stack), "a.py(1): f");
  EXPECT_EQ(mm.start, 1700000000001002000);
  EXPECT_EQ(mm.end, 1700000000001006200);
  EXPECT_EQ(mm.duration_us, 4.2);
  ASSERT_EQ(profile.steps.size(), 1U);
  EXPECT_EQ(profile.steps[0].id, "5");
  ASSERT_EQ(profile.python_calls.size(), 1U);
  EXPECT_TRUE(profile.python_calls[0].is_module);
}

TEST_F(ReadAscendTextTest, TakesKernelsOfTheHardwareEvenInFrontOfItsName) {
  const Profile profile = Read();
  ASSERT_EQ(profile.kernels.size(), 4U);
  EXPECT_EQ(Text(profile, profile.kernels[0].name), "early");
  const Kernel& matmul = profile.kernels[1];
  EXPECT_EQ(Text(profile, matmul.task_type), "AI_CORE");
  EXPECT_EQ(Text(profile, matmul.task_id), "17");
  EXPECT_EQ(matmul.stream, 2);
  EXPECT_EQ(Text(profile, matmul.shapes), "\"256,1024;64\"");
  ASSERT_EQ(profile.core_tasks.size(), 1U);
  EXPECT_EQ(profile.core_tasks[0].start, 130'000);
  ASSERT_EQ(profile.flows.size(), 1U);
  EXPECT_EQ(profile.flows[0].end, matmul.start);
  EXPECT_EQ(profile.flows[0].end_process, matmul.process);
  EXPECT_EQ(profile.flows[0].end_thread, matmul.thread);
}

TEST_F(ReadAscendTextTest, PutsCollectivesBehindTheKernels) {
  const Profile whole = Read();
  const Kernel& last = whole.kernels.back();
  EXPECT_TRUE(last.is_communication);
  EXPECT_EQ(last.task_type, kNoText);
  EXPECT_EQ(last.shapes, kNoText);
  Needs needs = AllOfText();
  needs.communication = false;
  EXPECT_EQ(Read(needs).kernels.size(), 3U);
}

TEST_F(ReadAscendTextTest, GroupsTasksByTheOrderOfThreads) {
  const Profile profile = Read();
  ASSERT_EQ(profile.groups.size(), 1U);
  const CommunicationGroup& group = profile.groups[0];
  EXPECT_EQ(Text(profile, group.name), "Group 12 Communication");
  EXPECT_EQ(Text(profile, group.parallel_name), "tp");
  EXPECT_EQ(group.operators, std::vector<uint32_t>{0});
  ASSERT_EQ(group.planes.size(), 2U);
  EXPECT_EQ(Text(profile, group.planes[0].first), "Plane 0");
  EXPECT_TRUE(group.planes[0].second.empty());
  EXPECT_EQ(group.planes[1].second, std::vector<uint32_t>{0});
  // A thread without a place in the order belongs to no plane, but its tasks are tasks.
  ASSERT_EQ(profile.communication_tasks.size(), 2U);
  EXPECT_EQ(Text(profile, profile.communication_tasks[1].name), "Memcpy");
}

TEST_F(ReadAscendTextTest, TakesTheLastThreadOfASortIndex) {
  std::string trace = kTrace;
  trace.insert(trace.rfind(']'),
               R"(, {"ph": "M", "name": "thread_sort_index", "pid": 30, "tid": 9,
                     "args": {"sort_index": 2}})");
  Output("trace_view.json", trace);
  const Profile profile = Read();
  ASSERT_EQ(profile.groups[0].planes.size(), 2U);
  EXPECT_EQ(Text(profile, profile.groups[0].planes[1].first), "Plane 9");
}

TEST_F(ReadAscendTextTest, KeepsOnlyComputingAndUncoveredOfTheOverlapAnalysis) {
  const Profile profile = Read();
  ASSERT_EQ(profile.computing.size(), 1U);
  EXPECT_EQ(profile.computing[0].duration_us, 40);
  ASSERT_EQ(profile.uncovered.size(), 1U);
  EXPECT_EQ(profile.uncovered[0].end, 260'000);
}

TEST_F(ReadAscendTextTest, NamesTheThreadOfTheLastBackwardFlow) {
  EXPECT_EQ(Text(Read(), *Read().backward_thread), "4");
  EXPECT_EQ(Read().forward_backward.size(), 1U);
}

TEST_F(ReadAscendTextTest, ReadsKernelDetails) {
  const Profile profile = Read();
  EXPECT_TRUE(profile.has_kernel_metrics);
  ASSERT_EQ(profile.kernel_details.size(), 2U);
  const KernelDetail& matmul = profile.kernel_details[0];
  EXPECT_EQ(Text(profile, matmul.step), "5");
  EXPECT_EQ(Text(profile, matmul.type), "MatMulV2");
  EXPECT_EQ(matmul.start, 1700000000002012500);
  EXPECT_TRUE(matmul.is_cube);
  EXPECT_EQ(matmul.cube_us, 20);
  EXPECT_EQ(matmul.load_us, 10);
  EXPECT_EQ(matmul.vector_us, 0);
  EXPECT_TRUE(std::isnan(matmul.mac_us));
  const KernelDetail& collective = profile.kernel_details[1];
  EXPECT_TRUE(std::isnan(collective.vector_us));
  EXPECT_FALSE(collective.is_cube);
}

TEST_F(ReadAscendTextTest, KnowsNoMetricsWithoutTheirColumns) {
  Output("kernel_details.csv",
         "Name,Type,Start Time(us),Duration(us),aicore_time(us)\nmm,MatMul,1,2,3\n");
  const Profile profile = Read();
  EXPECT_FALSE(profile.has_kernel_metrics);
  EXPECT_EQ(profile.kernel_details.size(), 1U);
}

TEST_F(ReadAscendTextTest, PlacesAllocationsOfTheDriverByTheTaskQueue) {
  const Profile profile = Read();
  ASSERT_EQ(profile.allocations.size(), 4U);
  EXPECT_EQ(profile.allocations[0].name, kNoText);
  EXPECT_EQ(Text(profile, profile.allocations[0].allocated), "1700000000001003.960");
  EXPECT_EQ(Text(profile, profile.allocations[0].released), "0");
  EXPECT_EQ(profile.allocations[0].duration_us, 0);
  EXPECT_EQ(profile.allocations[1].duration_us, 20.06);
  EXPECT_EQ(profile.allocations[1].size_kb, 128.5);
  EXPECT_EQ(Text(profile, profile.allocations[2].name), "cann::mm");
  EXPECT_EQ(profile.allocations[2].at, 1'000'500);
  EXPECT_EQ(profile.allocations[3].at, 0);  // dequeued, but nobody knows by whom enqueued
  EXPECT_TRUE(Warns(profile, "1 row of cann:: left out"));
  EXPECT_EQ(profile.memory_used_gb, 2);
}

TEST_F(ReadAscendTextTest, ReadsStatisticsAndTheBandwidthOfEachStep) {
  const Profile profile = Read();
  ASSERT_EQ(profile.operator_statistics.size(), 1U);
  EXPECT_EQ(profile.operator_statistics[0].count, 24);
  EXPECT_EQ(profile.operator_statistics[0].average_us, 11600);
  ASSERT_EQ(profile.bandwidth.size(), 2U);
  EXPECT_EQ(profile.bandwidth[0].step, "step5");
  EXPECT_EQ(profile.bandwidth[0].rdma, 6.25);
  EXPECT_EQ(profile.bandwidth[0].sdma, 0);
  EXPECT_EQ(profile.bandwidth[1].sdma, 25);
}

TEST_F(ReadAscendTextTest, GoesOnWithoutTheCsvFiles) {
  for (const char* name : {"kernel_details.csv", "operator_memory.csv", "memory_record.csv",
                           "op_statistic.csv", "communication.json"}) {
    std::filesystem::remove(output() / name);
  }
  const Profile profile = Read();
  EXPECT_EQ(profile.operators.size(), 2U);
  EXPECT_EQ(profile.warnings.size(), 5U);
  EXPECT_TRUE(Warns(profile, "kernel_details.csv does not exist"));
  Needs needs = AllOfText();
  needs.strict = true;
  EXPECT_FALSE(ReadAscendText(root(), output(), needs).ok());
}

TEST_F(ReadAscendTextTest, NamesMissingColumns) {
  Output("kernel_details.csv", "Name,Task Type\nmm,AI_CORE\n");
  const Profile profile = Read();
  EXPECT_TRUE(profile.kernel_details.empty());
  EXPECT_TRUE(Warns(profile, "has no column Type, Start Time(us), Duration(us)"));
}

TEST_F(ReadAscendTextTest, UsesTheRowsInFrontOfADamagedOne) {
  Output("kernel_details.csv", std::string(kKernelDetails) + "5,\"broken");
  const Profile profile = Read();
  EXPECT_EQ(profile.kernel_details.size(), 2U);
  EXPECT_TRUE(Warns(profile, "line 4: unterminated quoted cell"));
}

TEST_F(ReadAscendTextTest, LeavesTheTraceShutForKernelsAlone) {
  Output("trace_view.json", "this is no JSON");
  Needs needs;
  needs.kernel_details = true;
  EXPECT_EQ(Read(needs).kernel_details.size(), 2U);
  EXPECT_FALSE(ReadAscendText(root(), output(), AllOfText()).ok());
}

TEST_F(ReadAscendTextTest, UsesTheCompleteEventsOfATraceThatBreaksOff) {
  const std::string trace = kTrace;
  Output("trace_view.json", trace.substr(0, trace.find("\"AscendCL@x\"")));
  const Profile profile = Read();
  EXPECT_EQ(profile.operators.size(), 2U);
  EXPECT_TRUE(Warns(profile, "is truncated: its 14 complete events are used"));
  Needs needs = AllOfText();
  needs.strict = true;
  EXPECT_FALSE(ReadAscendText(root(), output(), needs).ok());
}

TEST_F(ReadAscendTextTest, LeavesOutEventsOfImpossibleTimes) {
  Output("trace_view.json", R"([
    {"ph": "X", "name": "a", "cat": "cpu_op", "ts": "-5", "dur": 1},
    {"ph": "X", "name": "b", "cat": "cpu_op", "ts": "5", "dur": -1},
    {"ph": "X", "name": "c", "cat": "cpu_op", "ts": "99999999999999999999999", "dur": 1},
    {"ph": "X", "name": "d", "cat": "cpu_op", "ts": "9223372036854775.806", "dur": 5}])");
  const Profile profile = Read();
  ASSERT_EQ(profile.operators.size(), 1U);
  EXPECT_EQ(profile.operators[0].end, INT64_MAX);
  EXPECT_TRUE(Warns(profile, "3 events without a usable time left out"));
}

TEST_F(ReadAscendTextTest, ToleratesMetadataOfAnotherShape) {
  files_.Write("p_ascend_pt/profiler_metadata.json", "[1, 2]");
  Output("communication.json", "[{\"collective\": 1}]");
  const Profile profile = Read();
  EXPECT_EQ(profile.groups[0].parallel_name, kNoText);
  EXPECT_TRUE(profile.bandwidth.empty());
  files_.Write("p_ascend_pt/profiler_metadata.json", "{\"parallel_group_info\": {\"12\"");
  Output("communication.json", "{\"step5\": {\"collective\"");
  EXPECT_TRUE(Warns(Read(), "profiler_metadata.json"));
  EXPECT_TRUE(Warns(Read(), "communication.json"));
}

TEST(ReadAscendTrace, TakesTheHostCallsOfAPyTorchWithoutKineto) {
  const ProfileFiles files;
  const std::filesystem::path trace = files.Write("cpu.pt.trace.json", R"([
    {"name": "aten::mm", "ph": "X", "ts": 177, "dur": 10, "tid": 1, "pid": "CPU functions"},
    {"name": "other", "ph": "X", "ts": 178, "dur": 1, "tid": 1, "pid": "1"}])");
  const Result<Profile> profile = ReadAscendTrace(trace, AllOfText());
  ASSERT_TRUE(profile.ok());
  ASSERT_EQ(profile->operators.size(), 1U);
  EXPECT_EQ(profile->texts[profile->operators[0].name], "aten::mm");
  EXPECT_EQ(profile->operators[0].duration_us, 10);
}

TEST(ReadAscendTrace, ReadsNothingBesideTheTrace) {
  const ProfileFiles files;
  const std::filesystem::path trace = files.Write("trace_view.json", kTrace);
  files.Write("kernel_details.csv", kKernelDetails);
  const Result<Profile> profile = ReadAscendTrace(trace, AllOfText());
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(profile->source, Source::kTrace);
  EXPECT_EQ(profile->device, Device::kNpu);
  EXPECT_EQ(profile->kernels.size(), 4U);
  EXPECT_TRUE(profile->kernel_details.empty());
  EXPECT_TRUE(profile->allocations.empty());
}

}  // namespace
}  // namespace msprobe::profile
