#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/files.h"
#include "src/base/mapped_reads.h"
#include "tests/unit/support/child_process.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using test_support::RunInChild;
using test_support::Spill;
using test_support::TemporaryFolder;

constexpr size_t kBytes = size_t{4} << 20U;

uint64_t Sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}, [](uint64_t sum, std::byte byte) {
    return sum + static_cast<uint64_t>(byte);
  });
}

// The signal handler is the process's: every case runs in a child. `body` returns 0 when all is
// well; the mapped file is cut to `left` bytes before.
int EndOfReading(size_t left, const std::function<int(const FileBytes&)>& body) {
  const TemporaryFolder folder;
  Spill(folder / "f", std::string(kBytes, 'x'));
  const auto end = RunInChild([&] {
    GuardMappedFiles();
    Result<FileBytes> file = FileBytes::Open(folder / "f");
    if (!file.ok() || !CheckMappedFile(file->bytes()).ok()) {
      return 10;
    }
    std::filesystem::resize_file(folder / "f", left);
    return body(*file);
  });
  return end.signal != 0 ? -end.signal : end.exit_code;
}

TEST(MappedFiles, AFileThatShrinksIsAnErrorOfThatFileAndNoSignal) {
  for (const size_t left : {size_t{0}, size_t{8192}, kBytes - 1}) {
    EXPECT_EQ(EndOfReading(left,
                           [](const FileBytes& file) {
                             const uint64_t sum = Sum(file.bytes());
                             const Status status = CheckMappedFile(file.bytes().first(1));
                             return sum < kBytes * 'x' && status.code() == StatusCode::kIo ? 0 : 1;
                           }),
              0)
        << left;
  }
}

TEST(MappedFiles, APartIsReadIntoTheScratchOfWhoLooksAtItOnce) {
  const TemporaryFolder folder;
  std::string text(kBytes, 'x');
  std::iota(text.begin(), text.end(), 0);
  Spill(folder / "large", text);
  Spill(folder / "small", text.substr(0, 8192));
  const auto end = RunInChild([&] {
    std::vector<std::byte> scratch;
    const auto is_read = [&](const FileBytes& file, size_t first, size_t count) {
      const std::span<const std::byte> part = file.bytes().subspan(first, count);
      const std::span<const std::byte> read = ReadMapped(part, scratch);
      if (!std::equal(read.begin(), read.end(), part.begin(), part.end())) {
        std::exit(11);
      }
      return read.data() == scratch.data();
    };
    const Result<FileBytes> before = FileBytes::Open(folder / "large");
    if (!before.ok() || is_read(*before, 1, 4096)) {
      return 1;  // in a program that is not ours no descriptor is kept
    }
    GuardMappedFiles();
    const Result<FileBytes> large = FileBytes::Open(folder / "large");
    const Result<FileBytes> small = FileBytes::Open(folder / "small");
    if (!large.ok() || !small.ok() || is_read(*small, 1, 4096) || is_read(*large, 5, 0)) {
      return 2;
    }
    return is_read(*large, 1, 100'000) && is_read(*large, kBytes - 7, 7) ? 0 : 3;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(MappedFiles, APartBehindTheNewEndOfAFileIsAnErrorAlsoWhenItIsRead) {
  EXPECT_EQ(EndOfReading(8192,
                         [](const FileBytes& file) {
                           std::vector<std::byte> scratch;
                           const auto part = ReadMapped(file.bytes().first(65536), scratch);
                           const uint64_t sum = Sum(part);
                           return sum < 65536 * 'x' && !CheckMappedFile(file.bytes()).ok() ? 0 : 1;
                         }),
            0);
}

TEST(FilesAhead, AsksForTheFilesOfTheNextItemsOnceAndOnlyWhereOneCameSlowly) {
  constexpr uint64_t kItemBytes = uint64_t{16} << 20U;
  std::vector<size_t> asked;
  FilesAhead ahead(6, [&](size_t item) {
    asked.push_back(item);
    return std::vector<std::filesystem::path>{"/nowhere/" + std::to_string(item)};
  });
  ahead.Took(0, kItemBytes, std::chrono::milliseconds(1));
  EXPECT_TRUE(asked.empty());
  ahead.Took(0, 0, std::chrono::seconds(1));
  EXPECT_TRUE(asked.empty());
  ahead.Took(0, kItemBytes, std::chrono::seconds(1));
  EXPECT_EQ(asked, std::vector<size_t>({1, 2, 3}));
  ahead.Took(1, kItemBytes, std::chrono::seconds(1));
  ahead.Took(4, kItemBytes, std::chrono::seconds(1));
  EXPECT_EQ(asked, std::vector<size_t>({1, 2, 3, 4, 5}));
}

TEST(MappedFiles, NoResultGetsItsNameWhenAnInputShrank) {
  EXPECT_EQ(EndOfReading(4096,
                         [](const FileBytes& file) {
                           const TemporaryFolder results;
                           Sum(file.bytes());
                           const Status status = WriteFileAtomically(results / "result", "wrong");
                           return !status.ok() && results.EntryCount() == 0 ? 0 : 1;
                         }),
            0);
}

TEST(MappedFiles, WhatWasToldOfOneFileIsNotToldAgainOfAll) {
  EXPECT_EQ(EndOfReading(4096,
                         [](const FileBytes& file) {
                           Sum(file.bytes());
                           return CheckMappedFiles().ok() || CheckMappedFile(file.bytes()).ok() ||
                                          !CheckMappedFiles().ok()
                                      ? 1
                                      : 0;
                         }),
            0);
}

}  // namespace
}  // namespace msprobe::base
