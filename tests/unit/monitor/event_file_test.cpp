#include "src/monitor/event_file.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/kernels/crc32.h"
#include "src/monitor/writer.h"
#include "tests/unit/support/event_reader.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::monitor {
namespace {

using ::msprobe::test_support::Event;
using ::msprobe::test_support::ReadEvents;
using ::msprobe::test_support::Slurp;
using ::msprobe::test_support::TemporaryFolder;

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4U];
    text += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return text;
}

double Seconds(uint64_t bits) { return std::bit_cast<double>(bits); }

TEST(Crc32c, GivesTheValueOfTheStandardExample) {
  EXPECT_EQ(kernels::Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(kernels::Crc32c(""), 0U);
}

TEST(Crc32c, IsTheSameByInstructionAndByTable) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(kernels::Crc32c(text), kernels::PlainCrc32c(text)) << i;
    text += static_cast<char>(i * 37);
  }
}

TEST(EventFile, WritesTheBytesThatViewersKnow) {
  std::string bytes;
  AppendFileVersion(Seconds(0x41DAC040A71665B1), bytes);
  EXPECT_EQ(Hex(bytes),
            "1800000000000000a37f4b2209b16516a740c0da411a0d627261696e2e4576656e743a322ff9251c");
  bytes.clear();
  AppendScalar("vp0:embedding.input:micro0/norm", 0, std::bit_cast<float>(0x41AE2C1EU),
               Seconds(0x41DAC040A7166766), bytes);
  EXPECT_EQ(Hex(bytes), "33000000000000000ca7205609666716a740c0da412a280a260a1f" +
                            Hex("vp0:embedding.input:micro0/norm") + "151e2cae41546f7cc3");
}

TEST(EventFile, KeepsEveryStepAndTagWhole) {
  std::string bytes;
  const std::string long_tag(300, 'x');
  AppendFileVersion(1.5, bytes);
  AppendScalar(long_tag, 127, -0.5, 2, bytes);
  AppendScalar("", 128, std::numeric_limits<double>::infinity(), 2, bytes);
  AppendScalar("t", int64_t{1} << 40U, std::nan(""), 2, bytes);
  AppendScalar("t", 3, 1e300, 2, bytes);
  std::vector<Event> events;
  ASSERT_TRUE(ReadEvents(bytes, events));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].tag, long_tag);
  EXPECT_EQ(events[1].step, 127);
  EXPECT_EQ(events[1].value, -0.5F);
  EXPECT_EQ(events[2].step, 128);
  EXPECT_EQ(events[2].value, std::numeric_limits<float>::infinity());
  EXPECT_EQ(events[3].step, int64_t{1} << 40U);
  EXPECT_TRUE(std::isnan(events[3].value));
  EXPECT_EQ(events[4].value, std::numeric_limits<float>::infinity());
}

TEST(EventFile, NeverNamesTwoFilesAlike) {
  const std::string first = EventFileName(1795228370.5);
  EXPECT_EQ(first.rfind("events.out.tfevents.1795228370.", 0), 0U) << first;
  EXPECT_NE(first, EventFileName(1795228370.5));
}

TEST(TensorBoardWriter, WritesNumbersAndLeavesTextsAndNoneOut) {
  const TemporaryFolder files;
  const std::unique_ptr<Writer> writer = MakeTensorBoardWriter(files.path());
  EXPECT_EQ(files.EntryCount(), 0U);
  Batch batch;
  batch.table = "actv";
  batch.step = 7;
  batch.columns = {Statistic::kNorm, Statistic::kNans, Statistic::kMin, Statistic::kShape};
  Row row;
  row.tag = "0:w.input:0/rank0/actv";
  row.values = {2.5, int64_t{3}, true, std::string("[2, 4]")};
  batch.rows = {row, row};
  batch.rows[1].tag = "0:w.output:0/rank0/actv";
  batch.rows[1].values = {std::nan(""), std::monostate(), std::monostate(), std::monostate()};
  ASSERT_TRUE(writer->Write(batch).ok());
  ASSERT_TRUE(writer->EndStep(7).ok());

  ASSERT_EQ(files.EntryCount(), 1U);  // readable before it is closed
  const auto path = std::filesystem::directory_iterator(files.path())->path();
  std::vector<Event> events;
  ASSERT_TRUE(ReadEvents(Slurp(path), events));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[1].tag, "0:w.input:0/rank0/actv_norm");
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[1].value, 2.5F);
  EXPECT_EQ(events[2].tag, "0:w.input:0/rank0/actv_nans");
  EXPECT_EQ(events[2].value, 3.0F);
  EXPECT_EQ(events[3].value, 1.0F);
  EXPECT_EQ(events[4].tag, "0:w.output:0/rank0/actv_norm");
  EXPECT_TRUE(std::isnan(events[4].value));
  EXPECT_TRUE(writer->Close().ok());
}

TEST(TensorBoardWriter, TellsWhereItCannotWrite) {
  const std::unique_ptr<Writer> writer = MakeTensorBoardWriter("/nowhere/at/all");
  Batch batch;
  batch.columns = {Statistic::kNorm};
  batch.rows.resize(1);
  batch.rows[0].values = {1.0};
  const Status status = writer->Write(batch);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace msprobe::monitor
