#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "src/base/files.h"
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
