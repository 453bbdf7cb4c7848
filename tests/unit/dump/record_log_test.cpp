#include "src/dump/record_log.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::dump {
namespace {

const LogHeader kHeader = {"statistics", "mix", "pytorch", "", 42};

RecordLog ParsedLog(const std::string& bytes) {
  Result<RecordLog> log = RecordLog::Parse(bytes);
  EXPECT_TRUE(log.ok()) << log.status().message();
  return log.ok() ? std::move(*log) : RecordLog();
}

TEST(RecordLog, GivesBackWhatWasAppended) {
  std::string bytes;
  AppendLogStart(kHeader, bytes);
  AppendMember("Torch.abs.0.forward", "input_args", "[1]", bytes);
  AppendMember("Torch.abs.0.forward", "output", "[2]", bytes);
  AppendWhole("loss.0.debug", "3", bytes);
  AppendConstruct("Torch.abs.0.forward", "Module.m.M.forward.0", bytes);
  AppendConstruct("Module.m.M.forward.0", std::nullopt, bytes);
  AppendStack(7, {{"a.py", "f", 3}, {"b.py", "<module>", 4}}, bytes);
  AppendStackOf("Torch.abs.0.forward", 7, bytes);
  AppendPending(5, "true", bytes);

  const RecordLog log = ParsedLog(bytes);
  EXPECT_EQ(log.header.level, "mix");
  EXPECT_EQ(log.header.process_id, 42U);
  ASSERT_EQ(log.entries.size(), 2U);
  EXPECT_EQ(log.entries[0].name, "Torch.abs.0.forward");
  ASSERT_EQ(log.entries[0].members.size(), 2U);
  EXPECT_EQ(log.entries[0].members[1].key, "output");
  EXPECT_EQ(log.entries[1].members[0].fragment, "3");
  ASSERT_EQ(log.construct.size(), 2U);
  EXPECT_EQ(log.construct[0].parent, "Module.m.M.forward.0");
  EXPECT_EQ(log.construct[1].parent, std::nullopt);
  ASSERT_EQ(log.stacks.size(), 1U);
  EXPECT_EQ(log.stacks[0].frames[1].function, "<module>");
  EXPECT_EQ(log.stacks[0].frames[1].line, 4);
  EXPECT_EQ(log.stacks[0].names, std::vector<std::string_view>{"Torch.abs.0.forward"});
  EXPECT_EQ(log.pending.size(), 1U);
  EXPECT_EQ(log.record_count, 9U);
  EXPECT_EQ(log.lost_bytes, 0U);
}

TEST(RecordLog, AMemberKeepsItsFirstPlaceAndItsLastValue) {
  std::string bytes;
  AppendLogStart(kHeader, bytes);
  AppendMember("e", "a", "1", bytes);
  AppendMember("e", "b", "2", bytes);
  AppendMember("e", "a", "3", bytes);
  AppendPending(9, "1", bytes);
  AppendPending(8, "2", bytes);
  AppendPending(9, "3", bytes);

  const RecordLog log = ParsedLog(bytes);
  ASSERT_EQ(log.entries.size(), 1U);
  ASSERT_EQ(log.entries[0].members.size(), 2U);
  EXPECT_EQ(log.entries[0].members[0].fragment, "3");
  ASSERT_EQ(log.pending.size(), 2U);
  EXPECT_EQ(log.pending[0].first, 8U);
  EXPECT_EQ(log.pending[1].second, "3");
}

TEST(RecordLog, AnEntryMayHaveAnyNumberOfMembers) {
  constexpr size_t kMembers = 200'000;  // a search through all for each would take minutes
  std::string bytes;
  AppendLogStart(kHeader, bytes);
  for (size_t i = 0; i < kMembers; ++i) {
    AppendMember("e", std::to_string(i), "1", bytes);
  }
  AppendMember("e", "3", "2", bytes);
  AppendMember("e", std::to_string(kMembers - 1), "3", bytes);
  const RecordLog log = ParsedLog(bytes);
  ASSERT_EQ(log.entries.size(), 1U);
  const std::vector<RecordLog::Member>& members = log.entries[0].members;
  ASSERT_EQ(members.size(), kMembers);
  EXPECT_EQ(members[3].fragment, "2");
  EXPECT_EQ(members[4].fragment, "1");
  EXPECT_EQ(members.back().fragment, "3");
}

TEST(RecordLog, PiecesInMemoryReadLikeTheFileTheyMake) {
  std::vector<std::string> texts(3);
  AppendLogStart(kHeader, texts[0]);
  AppendStack(7, {{"a.py", "f", 3}}, texts[0]);
  AppendMember("first", "input", "1", texts[1]);
  AppendStackOf("first", 7, texts[1]);
  AppendMember("second", "input", "2", texts[1]);
  AppendMember("first", "output",
               "\x01"
               "5\x02",
               texts[2]);
  AppendPending(5, "true", texts[2]);
  const std::vector<std::string_view> pieces(texts.begin(), texts.end());
  const Result<RecordLog> log = RecordLog::Parse(std::span(pieces));
  ASSERT_TRUE(log.ok()) << log.status().message();
  EXPECT_EQ(log->record_count, 7U);
  const std::string whole = texts[0] + texts[1] + texts[2];
  EXPECT_EQ(DumpJsonText(*log), DumpJsonText(ParsedLog(whole)));
  EXPECT_EQ(StackJsonText(*log, SourceFiles::kPython),
            StackJsonText(ParsedLog(whole), SourceFiles::kPython));
  EXPECT_FALSE(RecordLog::Parse(std::span<const std::string_view>()).ok());
}

TEST(RecordLog, KeepsEverythingBeforeATornFrameWhereverItIsTorn) {
  std::string bytes;
  AppendLogStart(kHeader, bytes);
  AppendMember("first", "a", "1", bytes);
  const size_t whole = bytes.size();
  AppendMember("second", "a", "2", bytes);

  for (size_t size = whole; size < bytes.size(); ++size) {
    const std::string torn = bytes.substr(0, size);
    const RecordLog log = ParsedLog(torn);
    ASSERT_EQ(log.entries.size(), 1U) << size;
    EXPECT_EQ(log.lost_bytes, size - whole);
  }
}

TEST(RecordLog, StopsAtAFlippedBit) {
  std::string bytes;
  AppendLogStart(kHeader, bytes);
  AppendMember("first", "a", "1", bytes);
  const size_t second = bytes.size();
  AppendMember("second", "a", "2", bytes);
  for (size_t at = second; at < bytes.size(); ++at) {
    std::string broken = bytes;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    const RecordLog log = ParsedLog(broken);
    EXPECT_EQ(log.entries.size(), 1U) << at;
    EXPECT_GT(log.lost_bytes, 0U);
  }
}

TEST(RecordLog, RefusesWhatIsNoLog) {
  EXPECT_FALSE(RecordLog::Parse("").ok());
  EXPECT_FALSE(RecordLog::Parse("{}").ok());
  std::string bytes;
  AppendLogStart(kHeader, bytes);
  EXPECT_FALSE(RecordLog::Parse(bytes.substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(RecordLog::Parse(bytes.substr(0, 8)).ok());
}

}  // namespace
}  // namespace msprobe::dump
