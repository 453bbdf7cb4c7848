#include "src/base/files.h"

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "src/base/output_files.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using test_support::RunInChild;
using test_support::Slurp;
using test_support::Spill;
using test_support::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

mode_t ModeOf(const Path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 0777U;
}

TEST(FolderPath, NamesComeBehindNoSlash) {
  EXPECT_EQ(WithoutLastSlash("a/runs/").native(), "a/runs");
  EXPECT_EQ(WithoutLastSlash("runs//").native(), "runs");
  EXPECT_EQ(WithoutLastSlash("runs").native(), "runs");
  EXPECT_EQ(WithoutLastSlash("/").native(), "/");
  EXPECT_EQ(WithoutLastSlash("").native(), "");
  EXPECT_EQ(Below("runs", "step1").native(), "runs/step1");
  EXPECT_EQ(Below("runs", "").native(), "runs");
}

TEST(NewFolders, ThatStayEmptyAreRemovedAndNoOthers) {
  const TemporaryFolder folder;
  ASSERT_TRUE(CreateFolders(folder / "before").ok());
  RunInChild([&] {
    NoteNewFolders();
    const bool made = CreateFolders(folder / "before" / "empty" / "inside").ok() &&
                      CreateFolders(folder / "full" / "empty").ok();
    Spill(folder / "full" / "file", "x");
    EXPECT_TRUE(made);
    RemoveEmptyNewFolders();
    return 0;
  });
  EXPECT_TRUE(std::filesystem::exists(folder / "before"));
  EXPECT_FALSE(std::filesystem::exists(folder / "before" / "empty"));
  EXPECT_TRUE(std::filesystem::exists(folder / "full" / "file"));
  EXPECT_FALSE(std::filesystem::exists(folder / "full" / "empty"));
}

TEST(ReadTextFile, ReturnsEveryByteIncludingZeros) {
  const TemporaryFolder folder;
  const std::string text("a\0b\n", 4);
  Spill(folder / "f", text);
  const Result<std::string> read = ReadTextFile(folder / "f", 100);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, text);
}

TEST(ReadTextFile, RefusesMoreThanItsLimit) {
  const TemporaryFolder folder;
  Spill(folder / "f", "12345");
  EXPECT_TRUE(ReadTextFile(folder / "f", 5).ok());
  const Result<std::string> read = ReadTextFile(folder / "f", 4);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(read.status().message(), HasSubstr("5 bytes"));
}

TEST(ReadTextFile, NamesTheMissingFile) {
  const TemporaryFolder folder;
  const Result<std::string> read = ReadTextFile(folder / "absent.json", 10);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(read.status().message(), HasSubstr("absent.json"));
}

TEST(ReadTextFile, RefusesAFolder) {
  const TemporaryFolder folder;
  const Result<std::string> read = ReadTextFile(folder.path(), 10);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), StatusCode::kIo);
  EXPECT_THAT(read.status().message(), HasSubstr("not a regular file"));
}

TEST(FileBytes, RefusesAFifoInsteadOfWaitingForAWriter) {
  const TemporaryFolder folder;
  const Path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Result<FileBytes> file = FileBytes::Open(fifo);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("not a regular file"));
}

TEST(FileBytes, HintsAtPermissionsWhenAccessIsDenied) {
  const TemporaryFolder folder;
  Spill(folder / "secret", "x");
  ASSERT_EQ(::chmod((folder / "secret").c_str(), 0), 0);
  const auto end = RunInChild([&] {
    if (!test_support::BecomeOrdinaryUser()) {
      return 1;
    }
    const Result<FileBytes> file = FileBytes::Open(folder / "secret");
    if (file.ok() || file.status().code() != StatusCode::kIo) {
      return 2;
    }
    return file.status().hint().find("permissions") != std::string::npos ? 0 : 3;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(FileBytes, ReadsSmallFilesIntoScratchAndMapsLargeOnes) {
  const TemporaryFolder folder;
  std::vector<std::byte> scratch;
  for (const size_t size :
       {size_t{1}, FileBytes::kReadBelowBytes, FileBytes::kReadBelowBytes + 1}) {
    std::string text(size, 'x');
    text.back() = 'y';
    Spill(folder / "f", text);
    const Result<FileBytes> file = FileBytes::Open(folder / "f", &scratch);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->text(), text);
    const bool in_scratch = file->bytes().data() == scratch.data();
    EXPECT_EQ(in_scratch, size <= FileBytes::kReadBelowBytes) << size;
  }
}

TEST(FileBytes, ReadsWhatTheScratchHasTheCapacityFor) {
  const TemporaryFolder folder;
  std::vector<std::byte> scratch;
  scratch.reserve(3 * FileBytes::kReadBelowBytes);
  for (const size_t size :
       {2 * FileBytes::kReadBelowBytes, size_t{1}, scratch.capacity(), scratch.capacity() + 1}) {
    std::string text(size, 'x');
    text.back() = 'y';
    Spill(folder / "f", text);
    const size_t capacity = scratch.capacity();
    const Result<FileBytes> file = FileBytes::Open(folder / "f", &scratch);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->text(), text);
    EXPECT_EQ(file->bytes().data() == scratch.data(), size <= capacity) << size;
    EXPECT_EQ(scratch.capacity(), capacity) << size;
  }
}

TEST(FileBytes, ShortFileAfterALongOneShowsNoOldBytes) {
  const TemporaryFolder folder;
  std::vector<std::byte> scratch;
  Spill(folder / "long", "longer text");
  Spill(folder / "short", "ab");
  ASSERT_TRUE(FileBytes::Open(folder / "long", &scratch).ok());
  const Result<FileBytes> file = FileBytes::Open(folder / "short", &scratch);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->text(), "ab");
}

TEST(FileBytes, EmptyFileHasNoBytes) {
  const TemporaryFolder folder;
  Spill(folder / "empty", "");
  const Result<FileBytes> file = FileBytes::Open(folder / "empty");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(FileBytes, MovedFromObjectReleasesNothing) {
  const TemporaryFolder folder;
  Spill(folder / "f", "bytes");
  Result<FileBytes> opened = FileBytes::Open(folder / "f");
  ASSERT_TRUE(opened.ok());
  FileBytes first = *std::move(opened);
  FileBytes second = std::move(first);
  EXPECT_EQ(second.text(), "bytes");
  first = std::move(second);
  EXPECT_EQ(first.text(), "bytes");
}

TEST(CreateFolders, MakesParentsWithTheirMode) {
  const TemporaryFolder folder;
  ASSERT_TRUE(CreateFolders(folder / "a/b/c").ok());
  EXPECT_EQ(ModeOf(folder / "a/b/c") & 07U, 0U);  // nothing for others
  EXPECT_EQ(ModeOf(folder / "a/b") & 0700U, 0700U);
  EXPECT_TRUE(CreateFolders(folder / "a/b/c").ok()) << "existing folders are fine";
  EXPECT_TRUE(CreateFolders("").ok());
}

TEST(CreateFolders, FailsWhereAFileStands) {
  const TemporaryFolder folder;
  Spill(folder / "file", "x");
  const Status status = CreateFolders(folder / "file/inside");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("file"));
}

TEST(ListFolder, SortsByBytes) {
  const TemporaryFolder folder;
  for (const char* name : {"rank10", "rank2", "Rank1"}) {
    Spill(folder / name, "");
  }
  const Result<std::vector<std::string>> names = ListFolder(folder.path());
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("Rank1", "rank10", "rank2"));
}

TEST(ListFolder, NamesTheMissingFolder) {
  const TemporaryFolder folder;
  const auto names = ListFolder(folder / "absent");
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.status().code(), StatusCode::kNotFound);
}

TEST(AtomicFile, FinalNameAppearsOnlyWithCommit) {
  const TemporaryFolder folder;
  const Path target = folder / "result.csv";
  Result<AtomicFile> file = AtomicFile::Create(target);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("abc").ok());
  EXPECT_FALSE(std::filesystem::exists(target));
  EXPECT_EQ(file->size_bytes(), 3U);
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Slurp(target), "abc");
  EXPECT_EQ(folder.EntryCount(), 1U);
  EXPECT_EQ(ModeOf(target) & 0137U, 0U);  // at most rw-r-----
}

TEST(AtomicFile, LeavesTheOldFileAloneWhenAbandoned) {
  const TemporaryFolder folder;
  const Path target = folder / "result.csv";
  Spill(target, "old");
  {
    Result<AtomicFile> file = AtomicFile::Create(target, Existing::kReplace);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("new").ok());
  }
  EXPECT_EQ(Slurp(target), "old");
  EXPECT_EQ(folder.EntryCount(), 1U);
}

TEST(AtomicFile, HoldsWhatWasWrittenAndNotWhatWasReserved) {
  const TemporaryFolder folder;
  const Path target = folder / "f";
  Result<AtomicFile> file = AtomicFile::Create(target);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Reserve(1 << 20).ok());
  ASSERT_TRUE(file->Write("abc").ok());
  ASSERT_TRUE(file->Close().ok());
  EXPECT_FALSE(std::filesystem::exists(target));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Slurp(target), "abc");
}

TEST(AtomicFile, LeavesNothingWhenAbandonedAfterItWasClosed) {
  const TemporaryFolder folder;
  {
    Result<AtomicFile> file = AtomicFile::Create(folder / "f");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("new").ok());
    ASSERT_TRUE(file->Close().ok());
  }
  EXPECT_EQ(folder.EntryCount(), 0U);
}

TEST(AtomicFile, ReplacesTheOldFileWhereItIsToldSo) {
  const TemporaryFolder folder;
  Spill(folder / "f", "a much longer old text");
  const Status refused = WriteFileAtomically(folder / "f", "new");
  EXPECT_EQ(refused.code(), StatusCode::kUsage);
  EXPECT_THAT(refused.hint(), HasSubstr("--force"));
  EXPECT_EQ(Slurp(folder / "f"), "a much longer old text");
  EXPECT_EQ(folder.EntryCount(), 1U);
  ASSERT_TRUE(WriteFileAtomically(folder / "f", "new", Existing::kReplace).ok());
  EXPECT_EQ(Slurp(folder / "f"), "new");
}

TEST(AtomicFile, PatchesEarlierBytes) {
  const TemporaryFolder folder;
  Result<AtomicFile> file = AtomicFile::Create(folder / "f");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("0000rest").ok());
  ASSERT_TRUE(file->WriteAt(0, "1234").ok());
  ASSERT_TRUE(file->Write("!").ok());
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(Slurp(folder / "f"), "1234rest!");
}

TEST(AtomicFile, ReplacesNeitherALinkNorWhatItPointsTo) {
  const TemporaryFolder folder;
  Spill(folder / "precious", "keep me");
  std::filesystem::create_symlink(folder / "precious", folder / "link");
  EXPECT_FALSE(WriteFileAtomically(folder / "link", "new", Existing::kReplace).ok());
  EXPECT_EQ(Slurp(folder / "precious"), "keep me");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

TEST(AtomicFile, RefusesANameThatWasTakenSinceItBegan) {
  const TemporaryFolder folder;
  Result<AtomicFile> file = AtomicFile::Create(folder / "f");
  ASSERT_TRUE(file.ok());
  Spill(folder / "f", "of another run");
  EXPECT_EQ(file->Commit().code(), StatusCode::kUsage);
  EXPECT_EQ(Slurp(folder / "f"), "of another run");
}

TEST(AtomicFile, FailsInAMissingFolderAndNamesTheFile) {
  const TemporaryFolder folder;
  const Result<AtomicFile> file = AtomicFile::Create(folder / "absent/result.csv");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("absent/result.csv"));
}

TEST(AtomicFile, FailsWhereAFolderHasTheFinalName) {
  const TemporaryFolder folder;
  ASSERT_TRUE(CreateFolders(folder / "taken/inside").ok());
  EXPECT_FALSE(WriteFileAtomically(folder / "taken", "x").ok());
  EXPECT_EQ(folder.EntryCount(), 1U) << "the temporary file must be gone";
}

TEST(AtomicFile, AcceptsNamesAsLongAsTheFileSystemDoes) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  ASSERT_TRUE(WriteFileAtomically(folder / name, "x").ok());
  EXPECT_EQ(Slurp(folder / name), "x");
}

TEST(AtomicFile, NoSpaceLeftIsAnErrorAndLeavesNoFile) {
  const TemporaryFolder folder;
  const auto end = RunInChild([&] {
    // A limit on file sizes stands for a full disk: write() stops short, then fails.
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) {
      return 1;
    }
    const Status status = WriteFileAtomically(folder / "big", std::string(10000, 'x'));
    return !status.ok() && status.code() == StatusCode::kIo ? 0 : 2;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(folder.EntryCount(), 0U);
}

TEST(AtomicFile, ReadOnlyFolderIsAnErrorWithAHint) {
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  const auto end = RunInChild([&] {
    if (!test_support::BecomeOrdinaryUser()) {
      return 1;
    }
    const Result<AtomicFile> file = AtomicFile::Create(folder / "f");
    return !file.ok() && !file.status().hint().empty() ? 0 : 2;
  });
  EXPECT_EQ(end.exit_code, 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
}

}  // namespace
}  // namespace msprobe::base
