#include "src/dump/recovery.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/dump/record_log.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

std::string LogOfTwoTensors() {
  std::string log;
  AppendLogStart({"tensor", "L1", "pytorch", "dump_tensor_data", 42}, log);
  AppendMember("Torch.abs.0.forward", "output",
               R"([{"type": "torch.Tensor", "dtype": "torch.float32", "data_name": "a.pt"},)"
               R"( {"type": "torch.Tensor", "dtype": "torch.float32", "data_name": "b.pt"}])",
               log);
  return log;
}

TEST(RecoverRankFolder, TellsOfTensorFilesThatAreNamedAndMissing) {
  const test_support::TemporaryFolder folder;
  folder.Write("records.log", LogOfTwoTensors());
  folder.Write("dump_tensor_data/a.pt", "");

  const Result<Recovery> recovery = RecoverRankFolder(folder.path());
  ASSERT_TRUE(recovery.ok()) << recovery.status().message();
  EXPECT_EQ(recovery->named_files, 2U);
  EXPECT_EQ(recovery->missing_files, 1U);
  EXPECT_EQ(recovery->first_missing, "b.pt");
  EXPECT_TRUE(std::filesystem::exists(folder / "dump.json"));
}

TEST(RecoverRankFolder, RemovesFilesThatWereBeingWrittenAndNothingElse) {
  const test_support::TemporaryFolder folder;
  folder.Write("records.log", LogOfTwoTensors());
  folder.Write("records.log.tmp", "half");
  folder.Write(".msprobe-42-7.tmp", "half");
  folder.Write("notes.tmp", "mine");
  folder.Write("dump_tensor_data/.msprobe-42-8.tmp", "half");
  folder.Write("dump_tensor_data/a.pt", "");

  const Result<Recovery> recovery = RecoverRankFolder(folder.path());
  ASSERT_TRUE(recovery.ok()) << recovery.status().message();
  EXPECT_EQ(recovery->removed_files, 3U);
  EXPECT_FALSE(std::filesystem::exists(folder / "records.log.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder / ".msprobe-42-7.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder / "dump_tensor_data/.msprobe-42-8.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "dump_tensor_data/a.pt"));
}

TEST(RecoverRankFolder, RemovesALogWhoseWriterEndedBeforeItsHeader) {
  const std::string whole = LogOfTwoTensors();
  for (const size_t size : {size_t{0}, size_t{3}, size_t{12}, size_t{20}}) {
    const test_support::TemporaryFolder folder;
    folder.Write("records.log", whole.substr(0, size));
    const Result<Recovery> recovery = RecoverRankFolder(folder.path());
    ASSERT_TRUE(recovery.ok()) << size << ": " << recovery.status().message();
    EXPECT_TRUE(recovery->nothing_recorded) << size;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << size;
  }
}

TEST(RecoverRankFolder, KeepsALogThatIsDamaged) {
  std::string damaged = LogOfTwoTensors();
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  const test_support::TemporaryFolder folder;
  for (const std::string& text : {damaged, std::string("something else")}) {
    folder.Write("records.log", text);
    EXPECT_FALSE(RecoverRankFolder(folder.path()).ok());
    EXPECT_TRUE(std::filesystem::exists(folder / "records.log"));
  }
}

TEST(RecoverRankFolder, LeavesACaptureThatIsBeingWrittenAlone) {
  const test_support::TemporaryFolder folder;
  const std::filesystem::path log = folder.Write("records.log", LogOfTwoTensors());
  folder.Write(".msprobe-42-7.tmp", "half");
  const int descriptor = ::open(log.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);

  const Result<Recovery> recovery = RecoverRankFolder(folder.path());
  ::close(descriptor);
  ASSERT_FALSE(recovery.ok());
  EXPECT_THAT(recovery.status().message(), ::testing::HasSubstr("running process"));
  EXPECT_TRUE(std::filesystem::exists(folder / ".msprobe-42-7.tmp"));
}

}  // namespace
}  // namespace msprobe::dump
