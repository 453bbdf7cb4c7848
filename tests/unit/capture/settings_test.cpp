#include "src/capture/settings.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::capture {
namespace {

using msprobe::test_support::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kPath = R"("dump_path": "out")";

Result<Settings> LoadText(std::string_view text, std::string_view overrides = "") {
  const TemporaryFolder folder;
  return LoadSettings(folder.Write("config.json", text), overrides, Framework::kPyTorch);
}

// The members of the top level beside dump_path.
Result<Settings> LoadKeys(std::string_view members, std::string_view overrides = "") {
  return LoadText(fmt::format("{{{}{}{}}}", kPath, members.empty() ? "" : ", ", members),
                  overrides);
}

Settings Good(std::string_view members, std::string_view overrides = "") {
  Result<Settings> settings = LoadKeys(members, overrides);
  EXPECT_TRUE(settings.ok()) << members << ": " << settings.status().message();
  return settings.ok() ? *std::move(settings) : Settings{};
}

std::string ErrorOf(std::string_view members, std::string_view overrides = "") {
  const Result<Settings> settings = LoadKeys(members, overrides);
  if (settings.ok()) {
    return "no error";
  }
  EXPECT_EQ(settings.status().code(), StatusCode::kUsage) << members;
  return settings.status().message() + " | " + settings.status().hint();
}

Settings StatisticsSettings(std::string_view members) {
  return Good(fmt::format(R"("statistics": {{{}}})", members));
}

std::string StatisticsError(std::string_view members) {
  return ErrorOf(fmt::format(R"("statistics": {{{}}})", members));
}

// One row of a matrix: what is given, and a piece of the complaint ("" when it is accepted).
struct Row {
  std::string given;
  std::string complaint;
};

void CheckRows(std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    EXPECT_THAT(ErrorOf(row.given), HasSubstr(row.complaint.empty() ? "no error" : row.complaint))
        << row.given;
  }
}

// ---- the common keys ----

TEST(CaptureSettings, HaveDefaultsForEverythingButThePath) {
  const Settings settings = Good("");
  EXPECT_EQ(settings.task, Task::kStatistics);
  EXPECT_EQ(settings.level, Level::kL1);
  EXPECT_EQ(settings.dump_path, "out");
  EXPECT_THAT(settings.ranks, IsEmpty());
  EXPECT_THAT(settings.steps, IsEmpty());
  EXPECT_FALSE(settings.async_dump);
  EXPECT_FALSE(settings.enable_dataloader);
  EXPECT_THAT(settings.scope, IsEmpty());
  EXPECT_THAT(settings.list, IsEmpty());
  EXPECT_THAT(settings.tensor_list, IsEmpty());
  EXPECT_TRUE(settings.data_mode.forward && settings.data_mode.backward);
  EXPECT_TRUE(settings.data_mode.input && settings.data_mode.output);
  EXPECT_EQ(settings.summary_mode, SummaryMode::kStatistics);
  EXPECT_EQ(settings.overflow_nums, 1);
  EXPECT_EQ(settings.precision, Precision::kHigh);
  EXPECT_EQ(settings.api_backward, ApiBackward::kLastNode);
  EXPECT_TRUE(settings.extra_info);
  EXPECT_FALSE(settings.extended_statistics);
  EXPECT_FALSE(settings.strict_json);
  EXPECT_TRUE(settings.deduplicate);
  EXPECT_EQ(settings.deduplicate_from_bytes, 65536U);
  EXPECT_EQ(settings.writer_memory_bytes, uint64_t{1} << 30U);
  EXPECT_EQ(settings.writer_threads, 2);
  EXPECT_THAT(settings.warnings, IsEmpty());
}

TEST(CaptureSettings, TaskIsOneOfFourOrTheDefault) {
  EXPECT_EQ(Good(R"("task": "tensor")").task, Task::kTensor);
  EXPECT_EQ(Good(R"("task": "overflow_check")").task, Task::kOverflowCheck);
  EXPECT_EQ(Good(R"("task": "nan_check")").task, Task::kNanCheck);
  EXPECT_EQ(Good(R"("task": "structure", "level": "L0")").task, Task::kStructure);
  EXPECT_EQ(Good(R"("task": "statistics")").task, Task::kStatistics);
  EXPECT_EQ(Good(R"("task": null)").task, Task::kStatistics);
  EXPECT_EQ(Good(R"("task": "")").task, Task::kStatistics);
  CheckRows({
      {R"("task": "tensors")",
       R"(config.json line 1: key "task": is "tensors"; allowed: statistics, tensor, structure, overflow_check, nan_check | did you mean "tensor"?)"},
      {R"("task": 1)", R"(key "task": is 1; allowed: statistics)"},
      {R"("task": "free_benchmark")", "msprobe free_benchmark -c FILE"},
      {R"("task": "run_ut")", "which is not supported"},
      {R"("task": "grad_probe")", "which is not supported"},
      {R"("task": "acc_check")", "which is not supported"},
  });
}

TEST(CaptureSettings, LevelIsOneOfFiveOrTheDefault) {
  EXPECT_EQ(Good(R"("level": "L0")").level, Level::kL0);
  EXPECT_EQ(Good(R"("level": "mix")").level, Level::kMix);
  EXPECT_EQ(Good(R"("level": "debug")").level, Level::kDebug);
  EXPECT_EQ(Good(R"("level": "")").level, Level::kL1);
  EXPECT_EQ(Good(R"("level": null)").level, Level::kL1);
  CheckRows({{R"("level": "l1")", R"(key "level": is "l1"; allowed: L0, L1, mix, L2, L2k, debug)"},
             {R"("level": ["L1"])", R"(key "level": is a list; allowed: L0)"}});
}

TEST(CaptureSettings, DumpPathMustBeGivenAndAFolder) {
  const TemporaryFolder folder;
  const std::string file = folder.Write("file", "").string();
  const auto error = [](std::string_view text, std::string_view overrides = "") {
    const Result<Settings> settings = LoadText(text, overrides);
    return settings.ok() ? "no error" : settings.status().message();
  };
  EXPECT_THAT(error("{}"), HasSubstr(R"(config.json: key "dump_path": is missing or empty)"));
  EXPECT_THAT(error(R"({"dump_path": null})"), HasSubstr("is missing or empty"));
  EXPECT_THAT(error(R"({"dump_path": ""})"), HasSubstr("is missing or empty"));
  EXPECT_THAT(error(R"({"dump_path": "a"})", R"({"dump_path": ""})"),
              HasSubstr("missing or empty"));
  EXPECT_THAT(error(R"({"dump_path": 7})"), HasSubstr(R"(key "dump_path": is 7; allowed: a text)"));
  EXPECT_THAT(error("{\"dump_path\": \"a\\u001b[31m\"}"),
              HasSubstr("dump_path a?[31m is not usable"));
  EXPECT_THAT(error(R"({"dump_path": "my dump"})"),
              HasSubstr("config.json line 1: key \"dump_path\": dump_path my dump is not usable"));
  EXPECT_THAT(error(fmt::format(R"({{"dump_path": "a/{}"}})", std::string(300, 'x'))),
              HasSubstr("too long"));
  EXPECT_THAT(error(fmt::format(R"({{"dump_path": "{}"}})", file)),
              HasSubstr("which is not a directory"));
  EXPECT_EQ(error(fmt::format(R"({{"dump_path": "{}"}})", folder.path().string())), "no error");
}

TEST(CaptureSettings, RanksAndStepsAreNumbersAndRanges) {
  const Settings settings = Good(R"("rank": [3, 1, "1-2"], "step": ["7", 7, "5-6", 0])");
  EXPECT_THAT(settings.ranks, ElementsAre(1, 2, 3));
  EXPECT_THAT(settings.steps, ElementsAre(0, 5, 6, 7));
  EXPECT_EQ(Good(R"("step": ["0-1000000"])").steps.size(), 1'000'001U);
  EXPECT_THAT(Good(R"("step": null)").steps, IsEmpty());
  for (const char* key : {"rank", "step"}) {
    const auto error = [key](std::string_view value) {
      return ErrorOf(fmt::format("\"{}\": {}", key, value));
    };
    const std::string where = fmt::format("key \"{}\": ", key);
    EXPECT_THAT(error("3"), HasSubstr(where + "is 3; allowed: a list"));
    EXPECT_THAT(error("\"3\""), HasSubstr(where + "is \"3\"; allowed: a list"));
    EXPECT_THAT(error("[0, -1]"), HasSubstr(where + "item 2 is -1; allowed: integers from 0 to "));
    for (const char* item :
         {"1000001", "1.0", "true", "null", "[1]", "\"\"", "\"1,2\"", "\"a-b\"", "\"1-\"", "\"-3\"",
          "\"1-2-3\"", "\" 1\"", "\"+1\"", "\"0-1000001\"", "\"99999999999999999999\""}) {
      EXPECT_THAT(error(fmt::format("[{}]", item)), HasSubstr(where + "item 1 is ")) << item;
    }
    EXPECT_THAT(error("[\"3-1\"]"), HasSubstr("is \"3-1\", and begins after its end"));
  }
}

TEST(CaptureSettings, ManyRangesCostLittle) {
  std::string items = "\"0-1000000\"";
  for (int i = 0; i < 20'000; ++i) {
    items += ",\"0-1000000\"";
  }
  EXPECT_EQ(Good(fmt::format("\"step\": [{}]", items)).steps.size(), 1'000'001U);
}

TEST(CaptureSettings, SwitchesAreTrueOrFalse) {
  EXPECT_TRUE(Good(R"("async_dump": true)").async_dump);
  EXPECT_FALSE(Good(R"("extra_info": false)").extra_info);
  EXPECT_TRUE(Good(R"("extended_statistics": true)").extended_statistics);
  EXPECT_TRUE(Good(R"("strict_json": true)").strict_json);
  EXPECT_FALSE(Good(R"("deduplicate": false)").deduplicate);
  EXPECT_TRUE(Good(R"("reread": true)").reread);
  for (const char* key : {"async_dump", "enable_dataloader", "extra_info", "extended_statistics",
                          "strict_json", "deduplicate", "reread"}) {
    for (const char* value : {"1", "\"true\"", "[]", "{}"}) {
      EXPECT_THAT(
          ErrorOf(fmt::format("\"{}\": {}", key, value)),
          AllOf(HasSubstr(fmt::format("key \"{}\": is ", key)), HasSubstr("allowed: true, false")));
    }
  }
  EXPECT_THAT(Good(R"("enable_dataloader": true)").warnings,
              ElementsAre(HasSubstr("has no effect")));
}

TEST(CaptureSettings, OwnKeysAreChecked) {
  const Settings settings = Good(
      R"("precision": "low", "api_backward": "inputs", "deduplicate_from_bytes": 0,
         "writer_memory_bytes": 1048576, "writer_threads": 8)");
  EXPECT_EQ(settings.precision, Precision::kLow);
  EXPECT_EQ(settings.api_backward, ApiBackward::kInputs);
  EXPECT_EQ(settings.deduplicate_from_bytes, 0U);
  EXPECT_EQ(settings.writer_memory_bytes, 1048576U);
  EXPECT_EQ(settings.writer_threads, 8);
  CheckRows({
      {R"("repeat": 1)",
       "key \"repeat\": is 1; allowed: 0 (never), or a number of repetitions from 2 to 64"},
      {R"("repeat": 65)", "allowed: 0 (never), or a number of repetitions from 2 to 64"},
      {R"("repeat": 5.5)", "allowed: 0 (never), or a number of repetitions from 2 to 64"},
      {R"("repeat": 0)", ""},
      {R"("repeat": 5)", ""},
      {R"("repeat": 5, "level": "L0")",
       "belongs to the tasks statistics and tensor at the levels L1 and mix"},
      {R"("repeat": 5, "task": "nan_check")", "not to task nan_check at level L1"},
      {R"("repeat": 5, "max_overhead_ms": 3)",
       "is given beside max_overhead_ms or max_bytes_per_s"},
      {R"("precision": "exact")", R"(key "precision": is "exact"; allowed: high, low)"},
      {R"("api_backward": "node")", R"(is "node"; allowed: last_node, inputs)"},
      {R"("deduplicate_from_bytes": -1)", "is -1; allowed: integers from 0 to"},
      {R"("writer_memory_bytes": 1000)", "is 1000; allowed: integers from 1048576 to"},
      {R"("writer_memory_bytes": 1e9)", "is 1000000000.0; allowed: integers"},
      {R"("writer_threads": 0)", "is 0; allowed: integers from 1 to 64"},
      {R"("writer_threads": 65)", "is 65; allowed: integers from 1 to 64"},
  });
}

TEST(CaptureSettings, KeysOfServicesAreChecked) {
  EXPECT_FALSE(Good("").has_budget());
  EXPECT_FALSE(Good("").dump_enable.has_value());
  EXPECT_EQ(Good("").risk_level, RiskLevel::kAll);
  EXPECT_EQ(Good(R"("dump_enable": false)").dump_enable, false);
  EXPECT_EQ(Good(R"("risk_level": "FOCUS")").risk_level, RiskLevel::kFocus);
  EXPECT_EQ(Good(R"("max_overhead_ms": 2)").max_overhead_ms, 2.0);
  EXPECT_TRUE(Good(R"("max_bytes_per_s": 1)").has_budget());
  EXPECT_THAT(Good("").custom_op_namespaces, ElementsAre("_C_ascend"));
  EXPECT_THAT(Good(R"("custom_op_namespaces": [])").custom_op_namespaces, ElementsAre());
  const Settings settings = StatisticsSettings(
      R"("slice": [{"begin": 2}, {"dim": 1, "size": 8, "begin": -3, "end": -1}])");
  ASSERT_EQ(settings.slices.size(), 2U);
  EXPECT_EQ(settings.slices[0].dimension, 0);
  EXPECT_FALSE(settings.slices[0].size.has_value());
  EXPECT_EQ(settings.slices[1].size, 8);
  EXPECT_EQ(settings.slices[1].begin, -3);
  EXPECT_EQ(settings.slices[1].end, -1);
  EXPECT_EQ(StatisticsSettings(R"("request_id": "chatcmpl-1")").request_id, "chatcmpl-1");
  CheckRows({
      {R"("dump_enable": 1)", R"(key "dump_enable": is 1; allowed: true, false)"},
      {R"("risk_level": "HIGH")", R"(is "HIGH"; allowed: ALL, FOCUS, CORE)"},
      {R"("max_overhead_ms": 0)", "is 0; allowed: milliseconds, more than 0"},
      {R"("max_overhead_ms": "2")", "allowed: milliseconds"},
      {R"("max_bytes_per_s": 0)", "is 0; allowed: integers from 1 to"},
      {R"("slice": {"dim": 0})", "is an object; allowed: a list of objects"},
      {R"("slice": [3])", R"(key "slice item 1": is 3; allowed: an object)"},
      {R"("slice": [{}, {"dim": -1}])", R"(key "slice item 2": dim is -1; allowed)"},
      {R"("slice": [{"begin": 0.5}])", "begin is 0.5; allowed"},
      {R"("slice": [{"start": 1}])", R"(has no key "start"; allowed)"},
      {R"("request_id": 7)", R"(key "request_id": is 7)"},
      {R"("custom_op_namespaces": "mine")", R"(key "custom_op_namespaces": is "mine")"},
      {R"("custom_op_namespaces": ["mine", 3])", R"(key "custom_op_namespaces")"},
  });
}

TEST(CaptureSettings, PartsOfTensorsBelongToTheTasksThatRecordThem) {
  for (const char* members : {R"("task": "structure", "level": "mix", "slice": [{"end": 1}])",
                              R"("task": "overflow_check", "request_id": "a")",
                              R"("level": "debug", "request_id": "a")"}) {
    const Settings settings = Good(members);
    EXPECT_TRUE(settings.slices.empty() && settings.request_id.empty()) << members;
    EXPECT_EQ(settings.warnings.size(), 1U) << members;
  }
}

// ---- keys that are not known ----

TEST(CaptureSettings, UnknownKeysNameTheNearestOne) {
  CheckRows({
      {R"("stpe": [])", R"(key "stpe": no such key | did you mean "step"?)"},
      {R"("lists": [])", R"(key "lists": no such key | did you mean "list"?)"},
      {R"("statistic": {})", R"(key "statistic": no such key | did you mean "statistics"?)"},
      {R"("dump_dir_for_everything": "")",
       R"(key "dump_dir_for_everything": no such key | valid here: task, dump_path)"},
      {R"("statistics": {"lists": []})",
       R"(key "statistics.lists": no such key | did you mean "list"?)"},
      {R"("task": "tensor", "tensor": {"summery_mode": "md5"})",
       R"(key "tensor.summery_mode": no such key | did you mean "summary_mode"?)"},
      {R"("statistics": {"level": "L0"})", "it belongs to the top level"},
      {R"("seed": 1)", "call seed_all(seed=...)"},
      {R"("is_deterministic": true)", "call seed_all(mode=True)"},
  });
}

TEST(CaptureSettings, LinesAreNamed) {
  const Result<Settings> settings =
      LoadText("{\n  // where to\n  \"dump_path\": \"out\",\n  \"level\": \"L7\",\n}");
  EXPECT_THAT(settings.status().message(), HasSubstr("config.json line 4: key \"level\""));
}

TEST(CaptureSettings, TheFileMustBeOneObject) {
  EXPECT_THAT(LoadText("[]").status().message(), HasSubstr("is a list; allowed: one object"));
  EXPECT_THAT(LoadText("{").status().message(), HasSubstr("ends too early"));
  EXPECT_EQ(LoadSettings("no/such.json", "", Framework::kPyTorch).status().code(),
            StatusCode::kNotFound);
}

// ---- sections ----

TEST(CaptureSettings, OnlyTheSectionOfTheTaskIsRead) {
  const std::string sections =
      R"("statistics": {"list": ["a"]}, "tensor": {"list": ["b"]}, "overflow_check": {"list": ["c"]})";
  EXPECT_THAT(Good(sections).list, ElementsAre("a"));
  EXPECT_THAT(Good(R"("task": "tensor", )" + sections).list, ElementsAre("b"));
  EXPECT_THAT(Good(R"("task": "overflow_check", )" + sections).list, ElementsAre("c"));
  // A task given by the script decides which section counts.
  EXPECT_THAT(Good(sections, R"({"task": "tensor"})").list, ElementsAre("b"));
  EXPECT_THAT(Good(R"("tensor": {"nonsense": 1}, "run_ut": {"white_list": []})").list, IsEmpty());
  CheckRows({{R"("tensor": [])", R"(key "tensor": is a list; allowed: an object of keys)"},
             {R"("free_benchmark": 1)", R"(key "free_benchmark": is 1; allowed: an object)"},
             {R"("statistics": "md5")", R"(key "statistics": is "md5"; allowed: an object)"},
             {R"("statistics": null, "grad_probe": {}, "structure": {})", ""}});
}

TEST(CaptureSettings, KeysOfASectionMayStandAtTopLevelButNotTwice) {
  EXPECT_THAT(Good(R"("list": ["a"])").list, ElementsAre("a"));
  EXPECT_THAT(ErrorOf(R"("list": ["a"], "statistics": {"list": ["b"]})"),
              HasSubstr(R"(key "statistics.list": is also given at the top level, in line 1)"));
}

TEST(CaptureSettings, ListsHoldTexts) {
  EXPECT_THAT(StatisticsSettings(R"("list": ["a", "b"], "tensor_list": ["c"])").list,
              ElementsAre("a", "b"));
  EXPECT_TRUE(StatisticsSettings(R"("tensor_list": ["c"])").saves_tensors());
  EXPECT_FALSE(StatisticsSettings(R"("tensor_list": [])").saves_tensors());
  for (const char* key : {"scope", "list", "tensor_list", "data_mode"}) {
    EXPECT_THAT(
        StatisticsError(fmt::format("\"{}\": \"linear\"", key)),
        HasSubstr(fmt::format("key \"statistics.{}\": is \"linear\"; allowed: a list", key)));
    EXPECT_NE(StatisticsError(fmt::format("\"{}\": [1]", key)), "no error") << key;
  }
  EXPECT_THAT(StatisticsError(R"("list": ["a", 2])"), HasSubstr("item 2 is 2; allowed: a list of"));
}

TEST(CaptureSettings, ScopeIsEmptyOrTwoNamesOfTheLevel) {
  EXPECT_THAT(StatisticsSettings(R"("scope": [])").scope, IsEmpty());
  EXPECT_THAT(StatisticsSettings(R"("scope": ["Torch.add.0.forward", "MindSpeed.f.1.backward"])")
                  .scope.size(),
              2U);
  EXPECT_THAT(StatisticsError(R"("scope": ["Torch.add.0.forward"])"), HasSubstr("has 1 item;"));
  EXPECT_THAT(StatisticsError(R"("scope": ["a", "b", "c"])"), HasSubstr("has 3 items;"));
  EXPECT_THAT(StatisticsError(R"("scope": ["Torch.add.0.forward", "Module.fc.Linear.forward.0"])"),
              HasSubstr(R"(key "scope": "Module.fc.Linear.forward.0" names no call of level L1)"));
  EXPECT_THAT(StatisticsError(R"~("list": ["name-regex(a[)"])~"),
              HasSubstr(R"(key "list": the exp)"));
}

TEST(CaptureSettings, DataModeNamesAxes) {
  const auto mode = [](std::string_view words) {
    const DataMode given = StatisticsSettings(fmt::format("\"data_mode\": [{}]", words)).data_mode;
    return fmt::format("{}{}{}{}", given.forward ? "f" : "", given.backward ? "b" : "",
                       given.input ? "i" : "", given.output ? "o" : "");
  };
  EXPECT_EQ(mode(R"("all")"), "fbio");
  EXPECT_EQ(mode(""), "fbio");
  EXPECT_EQ(mode(R"("forward")"), "fio");
  EXPECT_EQ(mode(R"("backward")"), "bio");
  EXPECT_EQ(mode(R"("input")"), "fbi");
  EXPECT_EQ(mode(R"("output", "backward")"), "bo");
  EXPECT_EQ(mode(R"("forward", "input")"), "fi");
  EXPECT_EQ(mode(R"("forward", "backward", "input", "output")"), "fbio");
  EXPECT_THAT(StatisticsError(R"("data_mode": ["all", "input"])"),
              HasSubstr(R"(holds "all" beside others; allowed: a list out of "forward")"));
  EXPECT_THAT(StatisticsError(R"("data_mode": ["kwargs"])"), HasSubstr(R"(holds "kwargs"; allow)"));
  EXPECT_THAT(
      StatisticsError(R"("data_mode": ["input", "input", "output", "forward", "backward"])"),
      HasSubstr("is a list of more than four"));
}

TEST(CaptureSettings, SummaryModeIsANameOrTheDefault) {
  EXPECT_EQ(StatisticsSettings(R"("summary_mode": "md5")").summary_mode, SummaryMode::kMd5);
  EXPECT_EQ(StatisticsSettings(R"("summary_mode": "xor")").summary_mode, SummaryMode::kXor);
  for (const char* value : {"null", "\"\"", "[]", "\"statistics\""}) {
    EXPECT_EQ(StatisticsSettings(fmt::format("\"summary_mode\": {}", value)).summary_mode,
              SummaryMode::kStatistics);
  }
  EXPECT_THAT(StatisticsError(R"("summary_mode": "crc")"),
              HasSubstr(R"(is "crc"; allowed: statistics, md5, xor)"));
  EXPECT_THAT(StatisticsError(R"("summary_mode": ["md5", "max"])"),
              HasSubstr("MindSpore's static graphs"));
}

TEST(CaptureSettings, OverflowNumsIsMinusOneOrPositive) {
  const auto keys = [](std::string_view value) {
    return fmt::format(R"("task": "overflow_check", "overflow_check": {{"overflow_nums": {}}})",
                       value);
  };
  EXPECT_EQ(Good(keys("-1")).overflow_nums, -1);
  EXPECT_EQ(Good(keys("3")).overflow_nums, 3);
  for (const char* value : {"0", "-2", "1.5", "\"1\"", "true"}) {
    EXPECT_THAT(ErrorOf(keys(value)),
                HasSubstr("allowed: -1 (never stop) or a number of overflows from 1"));
  }
}

TEST(CaptureSettings, KeysOfStaticGraphsAreCheckedAndNamedAsIdle) {
  EXPECT_THAT(StatisticsSettings(R"("device": "host", "precision": "low")").warnings, IsEmpty());
  EXPECT_EQ(StatisticsSettings(R"("precision": "low")").precision, Precision::kLow);
  EXPECT_THAT(StatisticsSettings(R"("device": "device")").warnings,
              ElementsAre(HasSubstr("statistics.device is for MindSpore's static graphs")));
  EXPECT_THAT(StatisticsError(R"("device": "gpu")"), HasSubstr("allowed: host, device"));
  const auto tensor = [](std::string_view members) {
    return fmt::format(R"("task": "tensor", "tensor": {{{}}})", members);
  };
  EXPECT_THAT(Good(tensor(R"("file_format": "npy")")).warnings.size(), 1U);
  EXPECT_THAT(Good(tensor(R"("file_format": null)")).warnings, IsEmpty());
  CheckRows({
      {tensor(R"("file_format": "pt")"), R"("tensor.file_format": is "pt"; allowed: npy, bin)"},
      {tensor(R"("online_run_ut": false, "host": "nobody", "port": -1, "nfs_path": "",
                 "tls_path": "./", "online_run_ut_recompute": false)"),
       ""},
      {tensor(R"("online_run_ut": 1)"), "allowed: true, false"},
      {tensor(R"("online_run_ut": true)"), R"(online_run_ut: host: "" is not an IPv4 address)"},
      {tensor(R"("online_run_ut": true, "host": "somewhere", "port": 1)"),
       R"("somewhere" is not an IPv4 address)"},
      {tensor(R"("online_run_ut": true, "host": "127.0.0.1")"), "port: -1; allowed: 1 to 65535"},
      {tensor(R"("online_run_ut": true, "host": "127.0.0.1", "port": 65536)"), "port"},
      {tensor(R"("online_run_ut": true, "host": "127.0.0.1", "port": 1, "tls_path": "/nowhere")"),
       "/nowhere holds no client.key"},
      {tensor(R"("online_run_ut": true, "host": "127.0.0.1", "port": 1, "tls_path": "")"),
       R"(tls_path: "" sends calls and their tensors unencrypted)"},
      {tensor(R"("online_run_ut": true, "host": "127.0.0.1", "port": 1, "tls_path": "",
                 "plaintext": true)"),
       ""},
      {tensor(R"("online_run_ut": true, "host": "10.0.0.2", "port": 1, "tls_path": "",
                 "plaintext": true)"),
       "plaintext: 10.0.0.2 can be reached from other hosts"},
      {tensor(R"("online_run_ut": true, "host": "127.0.0.1", "port": 1, "tls_path": "",
                 "plaintext": true, "secret_path": "/nowhere/secret")"),
       "secret_path: cannot open /nowhere/secret"},
      {tensor(R"("online_run_ut": true, "nfs_path": "/nowhere")"), "/nowhere is not a folder"},
      {tensor(R"("online_run_ut": true, "nfs_path": "/tmp")"), "everybody may write to /tmp"},
      {tensor(R"("online_run_ut": true, "nfs_path": "/tmp", "online_wait_ms": -1)"),
       "online_wait_ms"},
      {R"("level": "L0", )" + tensor(R"("online_run_ut": true, "nfs_path": "/tmp")"),
       "allowed: PyTorch, level L1 or mix, task tensor"},
      {tensor(R"("online_run_ut": true, "nfs_path": "/tmp", "request_id": "a")"),
       "a checker takes whole calls"},
      {tensor(R"("tensor_list": ["a"])"), R"("tensor.tensor_list": has no effect for task tensor)"},
      {R"("task": "overflow_check", "overflow_check": {"check_mode": "some"})",
       "allowed: all, aicore, atomic"},
  });
}

// ---- what must fit together ----

TEST(CaptureSettings, AsynchronousTensorsNeedAList) {
  CheckRows({
      {R"("task": "tensor", "async_dump": true)", R"(key "list": is empty)"},
      {R"("task": "tensor", "async_dump": true, "level": "debug")", ""},
      {R"("task": "tensor", "async_dump": true, "tensor": {"list": ["linear"]})", ""},
      {R"("async_dump": true)", ""},
  });
}

TEST(CaptureSettings, LevelDebugRecordsAllThatIsSaved) {
  const Settings settings = Good(
      R"("level": "debug", "statistics": {"list": ["a"], "tensor_list": ["b"], "scope": ["x", "y"]})");
  EXPECT_THAT(settings.list, IsEmpty());
  EXPECT_THAT(settings.scope, IsEmpty());
  EXPECT_THAT(settings.tensor_list, IsEmpty());
  EXPECT_THAT(settings.warnings, ElementsAre(HasSubstr("tensor_list")));
}

TEST(CaptureSettings, TensorListIsOfTaskStatistics) {
  const Settings settings = Good(R"("task": "tensor", "tensor_list": ["b"])");
  EXPECT_THAT(settings.tensor_list, IsEmpty());
  EXPECT_THAT(settings.warnings, ElementsAre(HasSubstr("ignored for task tensor")));
}

TEST(CaptureSettings, ASearchForDifferencesNeedsChecksumsAndAFolder) {
  const auto tensor = [](std::string_view members) {
    return fmt::format(R"("task": "tensor", "tensor": {{{}}})", members);
  };
  const Settings settings =
      Good(tensor(R"("summary_mode": "md5", "bench_path": "/tmp", "diff_nums": 0)"));
  EXPECT_EQ(settings.bench_path, "/tmp");
  EXPECT_EQ(settings.diff_nums, 1);
  EXPECT_FALSE(Good(tensor(R"("summary_mode": "md5")")).searches_differences());
  EXPECT_EQ(
      Good(tensor(R"("summary_mode": "md5", "bench_path": "/tmp", "diff_nums": -1)")).diff_nums,
      -1);
  CheckRows({
      {tensor(R"("bench_path": "/tmp")"), "belongs to task tensor with summary_mode md5"},
      {R"("bench_path": "/tmp", "summary_mode": "md5")", "not to task statistics"},
      {tensor(R"("summary_mode": "md5", "bench_path": "/nowhere")"), "/nowhere is not a folder"},
      {tensor(R"("summary_mode": "md5", "diff_nums": -2)"), "is -2; allowed: integers from -1"},
      {tensor(R"("summary_mode": "md5", "bench_path": "/tmp")") + R"(, "max_overhead_ms": 1)",
       "is given beside max_overhead_ms"},
      {tensor(R"("summary_mode": "md5", "bench_path": "/tmp", "list": ["a"])") +
           R"(, "async_dump": true)",
       "is given beside async_dump"},
  });
}

TEST(CaptureSettings, NanChecksLookAtOutputsOfCalls) {
  const Settings settings =
      Good(R"("task": "nan_check", "nan_check": {"tensor_list": ["b"]}, "summary_mode": "md5")");
  EXPECT_THAT(settings.tensor_list, ElementsAre("b"));
  EXPECT_EQ(settings.summary_mode, SummaryMode::kStatistics);
  EXPECT_THAT(settings.warnings, ElementsAre(HasSubstr("summary_mode is ignored")));
  CheckRows({
      {R"("task": "nan_check", "data_mode": ["output", "forward"])", ""},
      {R"("task": "nan_check", "data_mode": ["input"])", "task nan_check without outputs"},
      {R"("task": "nan_check", "level": "L2")", "allowed: level L0, L1 or mix"},
      {R"("task": "nan_check", "nan_check": {"overflow_nums": 1})",
       "has no effect for task nan_check"},
  });
}

TEST(CaptureSettings, StructureIsOfModulesOrMixed) {
  EXPECT_EQ(Good(R"("task": "structure", "level": "L0")").level, Level::kL0);
  const Settings settings = Good(R"("task": "structure", "level": "L1")");
  EXPECT_EQ(settings.level, Level::kMix);
  EXPECT_THAT(settings.warnings, ElementsAre(HasSubstr("level L0 or mix, not L1: taken as mix")));
}

TEST(CaptureSettings, KernelLevelIsAboutOneCall) {
  const auto keys = [](std::string_view members) {
    return fmt::format(R"("task": "tensor", "level": "L2", "tensor": {{{}}})", members);
  };
  EXPECT_THAT(Good(keys(R"("list": ["Torch.add.0.forward"])")).list,
              ElementsAre("Torch.add.0.forward"));
  EXPECT_THAT(Good(keys(R"("list": ["Torch.add.0.backward"])")).list,
              ElementsAre("Torch.add.0.backward", "Torch.add.0.forward"));
  CheckRows({
      {R"("level": "L2", "statistics": {"list": ["Torch.add.0.forward"]})",
       "level L2 with task statistics; allowed: task tensor"},
      {keys(""), "level L2 with 0 names in list; allowed: exactly one"},
      {keys(R"("list": ["a", "b"])"), "level L2 with 2 names in list"},
      {keys(R"("list": ["a"], "scope": ["Torch.add.0.forward", "Torch.add.1.forward"])"),
       "level L2 with a scope"},
  });
}

// ---- overrides and the way back ----

TEST(CaptureSettings, ArgumentsOfTheCallWinOverTheFile) {
  const Settings settings = Good(
      R"("level": "L0", "step": [1], "rank": [0])",
      R"({"task": "tensor", "dump_path": "else", "level": "mix", "step": [2, "4-5"], "rank": null})");
  EXPECT_EQ(settings.task, Task::kTensor);
  EXPECT_EQ(settings.dump_path, "else");
  EXPECT_EQ(settings.level, Level::kMix);
  EXPECT_THAT(settings.steps, ElementsAre(2, 4, 5));
  EXPECT_THAT(settings.ranks, ElementsAre(0));
  EXPECT_THAT(ErrorOf("", R"({"level": "L9"})"),
              HasSubstr(R"(the arguments of the call line 1: key "level": is "L9")"));
  EXPECT_THAT(ErrorOf("", R"({"statistics": {}})"), HasSubstr("no such key"));
  EXPECT_THAT(ErrorOf("", R"(["L1"])"), HasSubstr("is a list; allowed: one object"));
}

TEST(CaptureSettings, WithoutAFileTheDefaultsHold) {
  const Result<Settings> settings =
      LoadSettings("", R"({"dump_path": "x"})", Framework::kMindSpore);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->framework, Framework::kMindSpore);
  EXPECT_EQ(settings->dump_path, "x");
  EXPECT_THAT(LoadSettings("", "", Framework::kPyTorch).status().message(),
              HasSubstr("the defaults: key \"dump_path\": is missing or empty"));
}

TEST(CaptureSettings, AreWrittenInAFormThatIsReadTheSame) {
  const std::vector<std::string> given = {
      "",
      R"("task": "tensor", "level": "L2", "tensor": {"list": ["Torch.add.0.backward"]})",
      R"~("level": "mix", "rank": [0, "3-5"], "step": [2], "async_dump": true, "extra_info": false,
          "precision": "low", "api_backward": "inputs", "extended_statistics": true,
          "strict_json": true, "deduplicate": false, "deduplicate_from_bytes": 1,
          "writer_memory_bytes": 9000000, "writer_threads": 3, "reread": true, "enable_dataloader": true,
          "statistics": {"scope": ["Torch.add.0.forward", "Torch.add.2.forward"],
                         "list": ["add", "name-regex(m.l)"], "tensor_list": ["\u4f60"],
                         "data_mode": ["output", "backward"], "summary_mode": "xor"})~",
      R"("dump_enable": false, "risk_level": "CORE", "custom_op_namespaces": ["a", "b"], "max_overhead_ms": 0.5, "max_bytes_per_s": 7,
         "statistics": {"slice": [{"dim": 1, "size": 4, "begin": -2, "end": 9}, {}],
                        "request_id": "a"})",
      R"("task": "overflow_check", "overflow_check": {"overflow_nums": -1})",
      R"("task": "structure")",
      R"("level": "debug", "summary_mode": "md5")"};
  for (const std::string& members : given) {
    const std::string text = SettingsJson(Good(members));
    const Result<Settings> again = LoadText(text);
    ASSERT_TRUE(again.ok()) << text << ": " << again.status().message();
    EXPECT_EQ(SettingsJson(*again), text);
  }
  EXPECT_EQ(
      SettingsJson(Good("")),
      R"({"task": "statistics", "level": "L1", "dump_path": "out", "rank": [], "step": [], )"
      R"("async_dump": false, "enable_dataloader": false, "risk_level": "ALL", "custom_op_namespaces": ["_C_ascend"], )"
      R"("scope": [], "list": [], )"
      R"("tensor_list": [], "data_mode": ["all"], "summary_mode": "statistics", )"
      R"("overflow_nums": 1, "slice": [], "request_id": "", "precision": "high", "api_backward": "last_node", )"
      R"("extra_info": true, "extended_statistics": false, "strict_json": false, )"
      R"("deduplicate": true, "deduplicate_from_bytes": 65536, )"
      R"("writer_memory_bytes": 1073741824, "writer_threads": 2, "reread": false})");
}

}  // namespace
}  // namespace msprobe::capture
