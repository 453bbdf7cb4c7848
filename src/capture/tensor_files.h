// The tensor files of one step: each appears under its name only when complete, equal ones share
// their bytes, and the last tensor given for a name is the one that stays.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/files.h"
#include "src/capture/deduplication.h"
#include "src/capture/totals.h"

namespace msprobe::capture {

// How long nothing may move before a disk counts as hanging, and what is added for the bytes on
// their way: no disk in use is slower than that.
inline constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::seconds SlowestWrite(uint64_t bytes) {
  constexpr uint64_t kSlowestBytesPerSecond = 4'000'000;
  return std::chrono::seconds(bytes / kSlowestBytesPerSecond);
}

enum class TensorFileKind : uint8_t { kPt, kNpy };

// The name of a file for `path`, such as "Torch.abs.0.forward.input.0", with the kind's suffix.
// What no reader accepts in a name is replaced, what is too long is cut; such names end with a
// checksum of the path, so that they stay different.
std::string TensorFileName(std::string_view path, TensorFileKind kind);

struct TensorFileCounts {
  uint64_t files = 0;
  uint64_t bytes = 0;  // had every name a file of its own
  uint64_t written_bytes = 0;
  uint64_t deduplicated = 0;
  uint64_t lost = 0;
};

// All functions are thread-safe.
class TensorFiles {
 public:
  struct Options {
    base::Path folder;
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
  // longer than `patience` and SlowestWrite of what is on the way.
  bool WaitIdle(std::chrono::seconds patience);
  TensorFileCounts counts() const;

  // To be called while idle; the folder was renamed.
  void SetFolder(base::Path folder);

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
  // Nothing is written for a name that got a later tensor meanwhile; that is no error.
  Status WriteFile(const std::string& name, uint64_t ticket, const TensorView& view,
                   std::optional<uint32_t> data_crc32);
  // False when `original` holds other bytes by now, or cannot be linked.
  bool LinkFile(const DuplicateTable::Original& original, const std::string& name, uint64_t ticket,
                size_t size_bytes) noexcept;
  bool TryToLinkFile(const DuplicateTable::Original& original, const std::string& name,
                     uint64_t ticket, size_t size_bytes);
  void Finish(const std::string& name, size_t size_bytes, const Status& status) noexcept;
  bool IsLatest(const std::string& name, uint64_t ticket) const;  // mutex_ held
  void CountFile(const std::string& name, size_t size_bytes);     // mutex_ held

  Options options_;
  const std::shared_ptr<Totals> totals_;
  const OnLost on_lost_;
  DuplicateTable duplicates_;

  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::unordered_map<std::string, NameState> names_;
  uint64_t last_ticket_ = 0;
  uint64_t outstanding_ = 0;
  uint64_t outstanding_bytes_ = 0;
  uint64_t finished_count_ = 0;
  TensorFileCounts counts_;
};

}  // namespace msprobe::capture
