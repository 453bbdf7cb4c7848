// The tensor files of one step: each appears under its name only when complete, equal ones share
// their bytes, and the last tensor given for a name is the one that stays.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/buffer_pool.h"
#include "src/base/files.h"
#include "src/base/threads.h"

namespace msprobe::capture {

// Counts since the capture was opened.

struct Totals {
  std::atomic<uint64_t> steps{0};
  std::atomic<uint64_t> entries{0};
  std::atomic<uint64_t> tensors{0};
  std::atomic<uint64_t> tensor_files{0};
  std::atomic<uint64_t> tensor_bytes{0};
  std::atomic<uint64_t> written_bytes{0};
  std::atomic<uint64_t> deduplicated_files{0};
  std::atomic<uint64_t> lost_files{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> dropped_records{0};
  std::atomic<uint64_t> dropped_files{0};
  std::atomic<uint64_t> dropped_steps{0};
  std::atomic<uint64_t> engine_nanoseconds{0};
  std::atomic<uint64_t> repeat_nanoseconds{
      0};  // calls that were made once more for their noise floors
};

// How long nothing may move before a disk counts as hanging.
inline constexpr std::chrono::seconds kPatience{60};
// The same with what is added for the bytes on their way: no disk in use is slower than that.
base::Patience PatienceForBytes(std::chrono::seconds patience);

enum class TensorFileKind : uint8_t { kPt, kNpy };

// The name of a file for `path`, such as "Torch.abs.0.forward.input.0", with the kind's suffix.
// Characters that no reader accepts in a name are replaced, names that are too long are cut; such
// names end with a checksum of the path, so that they stay different.
std::string TensorFileName(std::string_view path, TensorFileKind kind);

struct TensorFileCounts {
  uint64_t files = 0;
  uint64_t bytes = 0;  // had every name a file of its own
  uint64_t written_bytes = 0;
  uint64_t deduplicated = 0;
  uint64_t lost = 0;
};

// Finds tensors of a step that have the same dtype, shape and bytes.

// 128 bits of the bytes, and the rest spelled out. Two different tensors share a key with a
// probability of about 1e-26 per billion tensors.
struct ContentKey {
  std::array<uint64_t, 2> hash{};
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const ContentKey&) const = default;
};
ContentKey KeyOf(const TensorView& plain_view);

// Thread-safe. Nothing waits in here: a thread that meets content that another thread is writing
// leaves the name with that thread.
class DuplicateTable {
 public:
  struct Original {
    std::string name;
    uint64_t ticket = 0;
  };
  struct Waiting {
    std::string name;
    uint64_t ticket = 0;
  };
  enum class Answer : uint8_t {
    kFirst,  // write it, then call Written or Forget
    kKnown,  // `original` has it
    kLeft    // the thread that writes it takes care of this name
  };

  Answer Find(const ContentKey& key, const std::string& name, uint64_t ticket, Original& original);
  // Returns the names that were left meanwhile.
  std::vector<Waiting> Written(const ContentKey& key);
  // The file does not exist, or holds other bytes by now; the same.
  std::vector<Waiting> Forget(const ContentKey& key);

 private:
  struct KeyHash {
    size_t operator()(const ContentKey& key) const { return static_cast<size_t>(key.hash[0]); }
  };
  struct State {
    Original original;
    bool is_written = false;
    std::vector<Waiting> waiting;
  };
  std::mutex mutex_;
  std::unordered_map<ContentKey, State, KeyHash> states_;
};

// All functions are thread-safe.
class TensorFiles {
 public:
  struct Options {
    base::Path rank_folder;  // dump::TensorFolderOf() of it gets a file
    TensorFileKind kind = TensorFileKind::kPt;
    bool deduplicate = true;
    uint64_t deduplicate_from_bytes = 0;
  };
  // `on_lost` hears of every file that could not be written, from any thread.
  using OnLost = std::function<void(const std::string& name, const Status&)>;
  TensorFiles(Options options, std::shared_ptr<Totals> totals, OnLost on_lost);

  TensorFileKind kind() const { return options_.kind; }

  // A file is going to come: the order of these calls decides which tensor stays under a name. Each
  // is followed by one Write or Lose. Where there is no memory (std::bad_alloc) nothing is
  // announced.
  uint64_t Announce(const std::string& name, size_t size_bytes);
  // `data_crc32` where it is known. `view` is row-major for equal files to be found. A file that
  // there is no memory for is lost; nothing is thrown.
  void Write(const std::string& name, uint64_t ticket, const TensorView& view,
             std::optional<uint32_t> data_crc32) noexcept;
  void Lose(const std::string& name, size_t size_bytes, const Status& why) noexcept;
  void LoseForMemory(const std::string& name, size_t size_bytes) noexcept;
  // The same for one that could not even be announced.
  void LoseUnannounced() noexcept;

  // Waits for everything announced. False when the disk seems to hang: nothing was finished for
  // longer than `patience` and what the bytes on the way take.
  bool WaitIdle(std::chrono::seconds patience);
  TensorFileCounts counts() const;

  // To be called while idle; the folder was renamed.
  void SetFolder(base::Path rank_folder);

 private:
  struct NameState {
    uint64_t latest_ticket = 0;
    bool exists = false;
  };

  // How a file that was announced ended.
  enum class End : uint8_t {
    kLeft,  // another thread ends it
    kOwn    // by its status
  };
  // Nothing of `name` is finished; what other threads left with it is.
  End WriteDeduplicated(const std::string& name, uint64_t ticket, const TensorView& view,
                        std::optional<uint32_t> data_crc32, Status& status);
  void WriteAndFinish(const std::string& name, uint64_t ticket, const TensorView& view,
                      std::optional<uint32_t> data_crc32) noexcept;
  // Nothing is written for a name that got a later tensor meanwhile; that is not an error.
  Status WriteFile(const std::string& name, uint64_t ticket, const TensorView& view,
                   std::optional<uint32_t> data_crc32);
  // False when `original` holds other bytes by now, or cannot be linked.
  bool LinkFile(const DuplicateTable::Original& original, const std::string& name, uint64_t ticket,
                size_t size_bytes) noexcept;
  bool TryToLinkFile(const DuplicateTable::Original& original, const std::string& name,
                     uint64_t ticket, size_t size_bytes);
  void Finish(const std::string& name, size_t size_bytes, const Status& status) noexcept;
  Result<base::Path> PlaceOf(const std::string& name) const;      // mutex_ held
  bool IsLatest(const std::string& name, uint64_t ticket) const;  // mutex_ held
  void CountFile(const std::string& name, size_t size_bytes);     // mutex_ held

  Options options_;
  const std::shared_ptr<Totals> totals_;
  const OnLost on_lost_;
  DuplicateTable duplicates_;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, NameState> names_;
  uint64_t last_ticket_ = 0;
  base::Budget outstanding_{UINT64_MAX};  // a byte more than its size per announced file
  TensorFileCounts counts_;
};

// The threads that write tensor files, and the memory in which tensors wait for them.

class TensorWriters;

// Memory for the bytes of one tensor, counted against the limit until destruction.
class TensorMemory {
 public:
  TensorMemory() = default;
  TensorMemory(TensorMemory&& other) noexcept { *this = std::move(other); }
  TensorMemory& operator=(TensorMemory&& other) noexcept;
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;
  ~TensorMemory() { Release(); }

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() { return data_; }
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

 private:
  friend class TensorWriters;
  void Release();

  std::shared_ptr<TensorWriters> owner_;
  std::unique_ptr<std::byte[]> small_;
  base::BufferPool::Buffer large_;
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

// A tensor on its way to a file.
struct TensorJob {
  std::shared_ptr<TensorFiles> files;
  std::string name;
  uint64_t ticket = 0;  // of TensorFiles::Announce
  DType dtype = DType::kFloat32;
  Shape shape;
  TensorMemory memory;  // row-major, little-endian
  std::optional<uint32_t> data_crc32;

  // Announces the file and queues it. Nothing is thrown: without memory it is written at once, or
  // lost.
  void Submit(TensorWriters& writers) noexcept;
};

// For a tensor that no memory could be had for: written from where it lies when it `may_write` (the
// caller waits), lost otherwise.
void WriteWithoutCopy(const TensorJob& job, const TensorView& view, bool may_write,
                      const TensorWriters& writers);

class TensorWriters : public std::enable_shared_from_this<TensorWriters> {
 public:
  // Threads start with the first job. Where none can be had, Submit writes.
  TensorWriters(size_t threads, uint64_t memory_bytes);
  TensorWriters(const TensorWriters&) = delete;
  TensorWriters& operator=(const TensorWriters&) = delete;
  ~TensorWriters() { Shutdown(kPatience); }

  // Empty when there is no room, or no memory, or size_bytes is beyond the limit.
  TensorMemory TryTake(size_t size_bytes) {
    return memory_.TryTake(size_bytes) ? MakeMemory(size_bytes) : TensorMemory();
  }
  // Waits for writers to make room; empty as above, and when nothing moved for `patience`.
  TensorMemory Take(size_t size_bytes, std::chrono::seconds patience);
  // Waits no longer than `patience`; empty as above, and when there is no room by then.
  TensorMemory TakeWithin(size_t size_bytes, std::chrono::milliseconds patience);
  bool fits(size_t size_bytes) const { return size_bytes <= memory_.limit(); }
  uint64_t memory_bytes() const { return memory_.limit(); }

  void Submit(TensorJob job) noexcept;

  // Ends the threads once the queue is empty; those that hang in the system for longer than
  // `patience` are left to themselves.
  void Shutdown(std::chrono::seconds patience);

 private:
  friend class TensorMemory;

  TensorMemory MakeMemory(size_t size_bytes);

  base::Budget memory_;
  base::BufferPool pool_;
  base::WorkQueue<TensorJob> queue_;
};

}  // namespace msprobe::capture
