#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

using test_support::Slurp;
using test_support::TemporaryFolder;

RecordLog Parsed(const std::string& bytes) {
  Result<RecordLog> log = RecordLog::Parse(bytes);
  EXPECT_TRUE(log.ok());
  return log.ok() ? std::move(*log) : RecordLog();
}

std::string Start(const std::string& level) {
  std::string bytes;
  AppendLogStart({"tensor", level, "pytorch", "./dump/step0/rank/dump_tensor_data", 1}, bytes);
  return bytes;
}

TEST(DumpJsonText, SpellsAStepAsPythonDoes) {
  std::string bytes = Start("mix");
  AppendMember("Torch.abs.0.forward", "input_args", "[\n    null\n   ]", bytes);
  AppendMember("Torch.abs.0.forward", "is_recompute", "false", bytes);
  AppendMember("empty", "output", "[]", bytes);
  EXPECT_EQ(DumpJsonText(Parsed(bytes)),
            "{\n"
            " \"task\": \"tensor\",\n"
            " \"level\": \"mix\",\n"
            " \"framework\": \"pytorch\",\n"
            " \"dump_data_dir\": \"./dump/step0/rank/dump_tensor_data\",\n"
            " \"data\": {\n"
            "  \"Torch.abs.0.forward\": {\n"
            "   \"input_args\": [\n"
            "    null\n"
            "   ],\n"
            "   \"is_recompute\": false\n"
            "  },\n"
            "  \"empty\": {\n"
            "   \"output\": []\n"
            "  }\n"
            " }\n"
            "}");
}

TEST(DumpJsonText, OfAStepWithoutRecordsHasEmptyData) {
  std::string bytes;
  AppendLogStart({"statistics", "L1", "pytorch", "", 1}, bytes);
  EXPECT_EQ(DumpJsonText(Parsed(bytes)),
            "{\n \"task\": \"statistics\",\n \"level\": \"L1\",\n \"framework\": \"pytorch\",\n"
            " \"dump_data_dir\": null,\n \"data\": {}\n}");
}

TEST(DumpJsonText, FillsHolesOnceAndWithNullWhereNothingCame) {
  std::string bytes = Start("debug");
  AppendWhole("x_grad.0.debug", "[" + HoleText(1) + ", " + HoleText(2) + ", " + HoleText(3) + "]",
              bytes);
  AppendPending(2, "{\"a\": " + HoleText(4) + "}", bytes);
  AppendPending(4, "7", bytes);
  AppendPending(3, HoleText(3) + HoleText(2), bytes);
  const std::string text = DumpJsonText(Parsed(bytes));
  EXPECT_NE(text.find("\"x_grad.0.debug\": [null, {\"a\": 7}, nullnull]"), std::string::npos)
      << text;
}

TEST(ConvertRecordLog, WritesTheThreeFilesWithSourceLinesAndTellsWhatIsLost) {
  const TemporaryFolder folder;
  const std::filesystem::path source = folder.Write("model.py", "import torch\n  x = abs(y)  \n");
  std::string bytes = Start("mix");
  AppendMember("Torch.abs.0.forward", "output", "[]", bytes);
  AppendConstruct("Torch.abs.0.forward", "", bytes);
  AppendStack(0, {{source.native(), "forward", 2}, {"<string>", "<module>", 1}}, bytes);
  AppendStackOf("Torch.abs.0.forward", 0, bytes);
  folder.Write("records.log", bytes + "torn");

  const Result<LogConversion> converted =
      ConvertRecordLog(folder.path(), SourceFiles::kOfThisProcess);
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  EXPECT_EQ(converted->entries, 1U);
  EXPECT_EQ(converted->lost_bytes, 4U);
  EXPECT_EQ(Slurp(folder / "construct.json"), "{\n \"Torch.abs.0.forward\": \"\"\n}");
  EXPECT_EQ(Slurp(folder / "stack.json"),
            "{\n \"0\": [\n  [\n   \"Torch.abs.0.forward\"\n  ],\n"
            "  [\n   \"File " +
                source.native() + ", line 2, in forward, \\n x = abs(y)\"\n  ]\n ]\n}");
  EXPECT_NE(Slurp(folder / "dump.json").find("Torch.abs.0.forward"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "debug.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "records.log"));
}

TEST(StackJsonText, OfALogFromElsewhereOpensPythonFilesAlone) {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder.Write("model.py", "x = abs(y)\n");
  const std::filesystem::path secret = folder.Write("key", "a secret\n");
  const std::filesystem::path link = folder / "link.py";
  std::filesystem::create_symlink(secret, link);
  std::string bytes = Start("mix");
  AppendStack(0,
              {{model.native(), "forward", 1}, {secret.native(), "f", 1}, {link.native(), "f", 1}},
              bytes);
  AppendStackOf("Torch.abs.0.forward", 0, bytes);
  const RecordLog log = Parsed(bytes);
  const std::string text = StackJsonText(log, SourceFiles::kPython);
  EXPECT_NE(text.find("x = abs(y)"), std::string::npos) << text;
  EXPECT_EQ(text.find("a secret"), std::string::npos) << text;
  // A capture that converts what it has recorded itself.
  EXPECT_NE(StackJsonText(log, SourceFiles::kOfThisProcess).find("a secret"), std::string::npos);
}

TEST(StackJsonText, TakesNoMoreOfLongLinesThanItsLimit) {
  const TemporaryFolder folder;
  constexpr size_t kLine = size_t{1} << 20U;
  const std::filesystem::path source = folder.Write("model.py", std::string(kLine, 'x'));
  std::string bytes = Start("mix");
  AppendStack(0, std::vector<LogFrame>(1000, {source.native(), "f", 1}), bytes);
  AppendStackOf("Torch.abs.0.forward", 0, bytes);
  EXPECT_LT(StackJsonText(Parsed(bytes), SourceFiles::kPython).size(), 300 * kLine);
}

TEST(ConvertRecordLog, OfLevelDebugWritesOnlyDebugJson) {
  const TemporaryFolder folder;
  std::string bytes = Start("debug");
  AppendWhole("loss.0.debug", "null", bytes);
  folder.Write("records.log", bytes);
  ASSERT_TRUE(ConvertRecordLog(folder.path(), SourceFiles::kOfThisProcess).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "debug.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "dump.json"));
}

TEST(ConvertRecordLog, NamesAMissingLog) {
  const TemporaryFolder folder;
  const Result<LogConversion> converted =
      ConvertRecordLog(folder.path(), SourceFiles::kOfThisProcess);
  ASSERT_FALSE(converted.ok());
  EXPECT_NE(converted.status().message().find("records.log"), std::string::npos);
}

}  // namespace
}  // namespace msprobe::dump
