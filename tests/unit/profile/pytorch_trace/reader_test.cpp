#include "src/profile/pytorch_trace/reader.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace msprobe::profile {
namespace {

std::filesystem::path WrittenEvents(const std::string& events) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                                     fmt::format("profile_gpu_{}.json", test->name());
  std::ofstream(path) << "{\"traceEvents\": [" << events << "]}";
  return path;
}

Needs AllOfTrace() {
  Needs needs;
  needs.operators = needs.kernels = needs.flows = needs.python_calls = needs.memory = true;
  return needs;
}

Profile Read(const std::string& events, const Needs& needs = AllOfTrace()) {
  Result<Profile> profile = ReadPytorchTrace(WrittenEvents(events), needs);
  EXPECT_TRUE(profile.ok()) << profile.status().message();
  return profile.ok() ? *std::move(profile) : Profile();
}

constexpr const char* kLaunch = R"(
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 100, "dur": 50,
   "args": {"Input Dims": [[2, 3]]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 110, "dur": 5},
  {"ph": "X", "cat": "Kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 120, "dur": 30, "args": {"stream": 7}},
  {"ph": "s", "cat": "ac2g", "id": 5, "pid": 1, "tid": 2, "ts": 110},
  {"ph": "f", "cat": "ac2g", "id": 5, "pid": 0, "tid": 7, "ts": 120})";

TEST(ReadPytorchTrace, LinksOperatorsAndKernels) {
  const Profile profile = Read(kLaunch);
  ASSERT_EQ(profile.operators.size(), 2U);
  EXPECT_EQ(profile.texts[profile.operators[0].name], "aten::mm");
  EXPECT_EQ(profile.texts[profile.operators[0].shapes], "[[2, 3]]");
  EXPECT_EQ(profile.texts[profile.operators[0].shape_key], "2,3");
  EXPECT_EQ(profile.texts[profile.operators[1].shapes], "N/A");
  EXPECT_EQ(profile.operators[0].end, 150'000);
  ASSERT_EQ(profile.kernels.size(), 1U);
  EXPECT_EQ(profile.kernels[0].stream, 7);
  ASSERT_EQ(profile.flows.size(), 1U);
  EXPECT_EQ(profile.flows[0].start, 110'000);
  EXPECT_EQ(profile.flows[0].end, 120'000);
}

TEST(ReadPytorchTrace, TakesOnlyTheFlowsThatWereNamed) {
  Needs needs = AllOfTrace();
  needs.flow_category = "nosuch";
  EXPECT_TRUE(Read(kLaunch, needs).flows.empty());
  needs.flow_category = "ac2g";
  EXPECT_EQ(Read(kLaunch, needs).flows.size(), 1U);
}

TEST(ReadPytorchTrace, TakesTheLastEndsOfAFlowThatIsNumberedTwice) {
  const Profile profile = Read(R"(
    {"ph": "s", "cat": "ac2g", "id": 5, "pid": 1, "tid": 2, "ts": 10},
    {"ph": "f", "cat": "ac2g", "id": 5, "pid": 0, "tid": 7, "ts": 20},
    {"ph": "s", "cat": "ac2g", "id": "six", "pid": 1, "tid": 2, "ts": 11},
    {"ph": "s", "cat": "ac2g", "id": 5, "pid": 1, "tid": 2, "ts": 30},
    {"ph": "f", "cat": "ac2g", "id": 5, "pid": 0, "tid": 7, "ts": 40})");
  ASSERT_EQ(profile.flows.size(), 1U);
  EXPECT_EQ(profile.flows[0].start, 30'000);
  EXPECT_EQ(profile.flows[0].end, 40'000);
}

TEST(ReadPytorchTrace, WhatHoldsNothingOfAProfileIsAnErrorThatSaysWhatItIs) {
  const auto message = [](const std::string& text) {
    const std::filesystem::path path = WrittenEvents("");
    std::ofstream(path) << text;
    const Result<Profile> profile = ReadPytorchTrace(path, AllOfTrace());
    EXPECT_EQ(profile.status().code(), StatusCode::kBadFormat) << text;
    return profile.status().message();
  };
  EXPECT_NE(message(R"({"a": 1})").find("JSON object without complete events"), std::string::npos);
  EXPECT_NE(message(R"({"traceEvents": []})").find("holds no event"), std::string::npos);
  EXPECT_NE(message(R"({"traceEvents": [{"a": 1}, {"ph": "X", "cat": "v8", "name": "gc"}]})")
                .find("of 2 events none is an operator"),
            std::string::npos);
}

TEST(ReadPytorchTrace, KeepsAsideWhatThePythonToolLeavesOut) {
  const Profile profile = Read(R"(
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"correlation": 4, "stream": "7"}},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"correlation": 5}},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"correlation": 5}},
    {"ph": "X", "cat": "gpu_memset", "name": "Memset", "pid": 0, "tid": 7, "ts": 9, "dur": 1},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "pid": 0, "tid": 7, "ts": 0, "dur": 90},
    {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 1, "tid": 2, "ts": 0, "dur": 1, "args": {"correlation": 5}},
    {"ph": "X", "cat": "user_annotation", "name": "## forward ##", "pid": 1, "tid": 2, "ts": 0, "dur": 1})");
  ASSERT_EQ(profile.kernels.size(), 1U);
  EXPECT_EQ(profile.texts[profile.kernels[0].name], "b");
  // A kernel that is told twice is one kernel; fills are work, annotations of the device are none.
  ASSERT_EQ(profile.further_device_work.size(), 2U);
  EXPECT_EQ(profile.texts[profile.further_device_work[0].name], "Memset");
  EXPECT_EQ(profile.texts[profile.further_device_work[1].name], "a");
  EXPECT_EQ(profile.further_device_work[1].correlation, 4);
  EXPECT_EQ(profile.further_device_work[1].stream, 7);
  ASSERT_EQ(profile.runtime_calls.size(), 1U);
  EXPECT_EQ(profile.runtime_calls[0].correlation, 5);
  ASSERT_EQ(profile.operators.size(), 1U);
  EXPECT_EQ(profile.operators[0].kind, CallKind::kAnnotation);
}

TEST(ReadPytorchTrace, ReplacesAKernelOfTheSamePlaceAndTime) {
  const Profile profile = Read(R"(
    {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 1},
    {"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 2, "dur": 1},
    {"ph": "X", "cat": "kernel", "name": "c", "pid": 0, "tid": 7, "ts": 1.0, "dur": 3})");
  ASSERT_EQ(profile.kernels.size(), 2U);
  EXPECT_EQ(profile.texts[profile.kernels[0].name], "c");
  EXPECT_EQ(profile.kernels[0].duration_us, 3);
}

TEST(ReadPytorchTrace, JoinsAllocationsAndReleasesByAddress) {
  const auto memory = [](int at, int address, int bytes, int reserved) {
    return fmt::format(
        R"({{"ph": "i", "name": "[memory]", "ts": {}, "args": {{"Device Id": 0, "Addr": {},
      "Bytes": {}, "Total Reserved": {}}}}},)",
        at, address, bytes, reserved);
  };
  std::string events = memory(30, 1, -1024, 10) + memory(10, 1, 1024, 2147483647) +
                       memory(11, 2, 2048, 0) + memory(12, 2, 512, 0) + memory(13, 3, 100, 0) +
                       memory(14, 3, -99, 0) + memory(15, 9, -5, 0);
  events += R"({"ph": "i", "name": "[memory]", "ts": 1, "args": {"Device Id": -1, "Bytes": 7}})";
  const Profile profile = Read(events);
  ASSERT_EQ(profile.allocations.size(), 3U);
  // The address was taken again; then the one that was released; then what still lives.
  EXPECT_EQ(profile.allocations[0].size_kb, 2.0);
  EXPECT_EQ(profile.texts[profile.allocations[0].released], "None");
  EXPECT_EQ(profile.allocations[1].size_kb, 1.0);
  EXPECT_EQ(profile.texts[profile.allocations[1].released], "30");
  EXPECT_EQ(profile.allocations[1].duration_us, 20.0);
  EXPECT_EQ(profile.allocations[2].size_kb, 0.5);
  EXPECT_NEAR(profile.memory_used_gb, 2.0, 1e-6);
}

TEST(ReadPytorchTrace, FindsModulesAndTheThreadOfTheBackwardPass) {
  const Profile profile = Read(R"(
    {"ph": "X", "cat": "python_function", "name": "nn.Module: Linear_0", "ts": 1, "dur": 9},
    {"ph": "X", "cat": "python_function", "name": "train.py(3): step", "ts": 2, "dur": 1},
    {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 2, "ts": 3},
    {"ph": "f", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 44, "ts": 8},
    {"ph": "f", "cat": "fwdbwd", "id": 2, "pid": 1, "tid": 55, "ts": 9})");
  ASSERT_EQ(profile.python_calls.size(), 2U);
  EXPECT_TRUE(profile.python_calls[0].is_module);
  EXPECT_FALSE(profile.python_calls[1].is_module);
  ASSERT_TRUE(profile.backward_thread.has_value());
  EXPECT_EQ(profile.texts[*profile.backward_thread], "44");
  EXPECT_EQ(profile.forward_backward.size(), 1U);
}

TEST(ReadPytorchTrace, SaysWhatIsMissing) {
  const Profile profile = Read(R"({"ph": "X", "cat": "cpu_op", "name": "a", "ts": "soon", "dur": 1},
    {"ph": "X", "cat": "cpu_op", "name": "b", "ts": 9223372036854775, "dur": 9223372036854775})");
  EXPECT_EQ(profile.operators.size(), 1U);
  EXPECT_EQ(profile.operators[0].end, INT64_MAX);
  // That no kernel has a link is no news where there is no kernel.
  EXPECT_EQ(profile.warnings.size(), 3U);
  EXPECT_NE(profile.warnings.back().find("1 event without a usable time"), std::string::npos);
}

TEST(ReadPytorchTrace, TimesInFrontOfTheClocksZeroAreMoved) {
  const Profile profile = Read(R"({"ph": "X", "cat": "cpu_op", "name": "a", "ts": -30.5, "dur": 2},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": -10, "dur": 20}, 
    {"ph": "X", "cat": "cpu_op", "name": "b", "ts": -1e300, "dur": 2})");
  ASSERT_EQ(profile.operators.size(), 1U);
  ASSERT_EQ(profile.kernels.size(), 1U);
  EXPECT_EQ(profile.operators[0].start, 0);
  EXPECT_EQ(profile.kernels[0].start - profile.operators[0].start, 20500);
  EXPECT_EQ(profile.kernels[0].end - profile.kernels[0].start, 20000);
}

TEST(ReadPytorchTrace, MemoryOfTheHostCountsWhereNoDeviceWasProfiled) {
  const std::string memory =
      R"({"ph": "i", "name": "[memory]", "ts": 1, "args": {"Device Id": -1, "Addr": 5, "Bytes": 2048}})";
  const Profile host = Read(memory);
  ASSERT_EQ(host.allocations.size(), 1U);
  EXPECT_EQ(host.allocations[0].size_kb, 2.0);
  const Profile device =
      Read(memory +
           R"(, {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2})");
  EXPECT_TRUE(device.allocations.empty());
}

TEST(ReadPytorchTrace, AddressesAreNoPartOfNames) {
  const Profile profile = Read(
      R"({"ph": "X", "cat": "python_function", "name": "<built-in method mul_ of Tensor object at 0x7f6f01>", "ts": 1, "dur": 9},
    {"ph": "X", "cat": "python_function", "name": "a.py(1): <lambda> at 0xAB, b at 0xcd", "ts": 2, "dur": 1},
    {"ph": "X", "cat": "python_function", "name": "look at 0 x", "ts": 3, "dur": 1})");
  ASSERT_EQ(profile.python_calls.size(), 3U);
  EXPECT_EQ(profile.texts[profile.python_calls[0].name], "<built-in method mul_ of Tensor object>");
  EXPECT_EQ(profile.texts[profile.python_calls[1].name], "a.py(1): <lambda>, b");
  EXPECT_EQ(profile.texts[profile.python_calls[2].name], "look at 0 x");
}

TEST(ReadPytorchTrace, UsesWhatIsCompleteUnlessToldOtherwise) {
  const std::filesystem::path path = WrittenEvents(kLaunch);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 20);
  const Result<Profile> profile = ReadPytorchTrace(path, AllOfTrace());
  ASSERT_TRUE(profile.ok());
  EXPECT_EQ(profile->operators.size(), 2U);
  EXPECT_NE(profile->warnings.back().find("is truncated"), std::string::npos);
  Needs strict = AllOfTrace();
  strict.strict = true;
  EXPECT_EQ(ReadPytorchTrace(path, strict).status().code(), StatusCode::kBadFormat);
}

}  // namespace
}  // namespace msprobe::profile
