// Mapped files read block by block. A mapping costs a fault for every 64 KiB, which maps pages of
// 4 KiB one by one, and faults of several threads keep a disk less busy than reads do: who looks at
// every byte once, front to back, lets the system copy a block into memory that is still in the
// cache.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace msprobe::base {

// Files of this size are read whole by those who look at every byte: the capacity that they give
// the scratch of FileBytes::Open. Above it memory counts for more.
inline constexpr size_t kReadWholeBelowBytes = size_t{8} << 20U;

// The bytes of a part of a mapped file (files.h), read into `scratch`; the part itself where that
// cannot be: no mapped file, a small one, or one that has become shorter, which a look at the
// mapping finds out. Thread-safe.
std::span<const std::byte> ReadMapped(std::span<const std::byte> part,
                                      std::vector<std::byte>& scratch);

// Keeps a disk busy for a loop over items that read files, in rising order, on several threads. An
// item whose files came slower than out of memory makes the system read the files of the next ones
// meanwhile; where files are in memory nothing is asked for. Thread-safe.
class FilesAhead {
 public:
  using FilesOf = std::function<std::vector<std::filesystem::path>(size_t item)>;
  // `files_of` is called by any thread.
  FilesAhead(size_t items, FilesOf files_of) : items_(items), files_of_(std::move(files_of)) {}

  // An item that read so many bytes is done.
  void Took(size_t item, uint64_t bytes, std::chrono::steady_clock::duration time);

 private:
  const size_t items_;
  const FilesOf files_of_;
  std::atomic_flag is_asking_ = ATOMIC_FLAG_INIT;
  size_t next_ = 0;  // nothing was asked for from here on
};

}  // namespace msprobe::base
