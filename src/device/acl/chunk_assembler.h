// Puts the files of a kernel dump together from the pieces the runtime hands over, away from the
// runtime's threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "msprobe/status.h"

#include "src/device/acl/acl_api.h"
#include "src/device/device.h"

namespace msprobe::device {

class ChunkAssembler {
 public:
  // Uses the sink and the limits of `options`.
  explicit ChunkAssembler(const KernelDumpOptions& options);
  ChunkAssembler(const ChunkAssembler&) = delete;
  ChunkAssembler& operator=(const ChunkAssembler&) = delete;
  ~ChunkAssembler();

  // Before the first piece comes.
  Status Start();

  // Copies the piece and returns; waits while the queue is full. Any thread. Pieces of different
  // files may alternate, those of one file come in order.
  void Add(const AclDumpChunk* chunk) noexcept;

  // Returns when the sink has every complete file. An error when pieces were lost or files ended
  // early. To be called once; nothing may be added afterwards.
  Status Finish();

 private:
  struct Piece {
    std::string path;
    std::vector<std::byte> bytes;
    int64_t offset = -1;
    bool last = false;
  };
  struct Assembly {
    std::vector<std::byte> bytes;
    bool damaged = false;  // the rest of it is ignored
  };

  void WorkerLoop();
  void Assemble(const Piece& piece);
  // Null, or why the piece cannot follow.
  const char* Append(const Piece& piece, std::vector<std::byte>& bytes);
  void Lose(std::string_view path, const char* reason) noexcept;  // mutex_ is not held

  const KernelDumpOptions options_;
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable taken_;
  std::deque<Piece> queue_;
  uint64_t queued_bytes_ = 0;
  bool finishing_ = false;
  uint64_t losses_ = 0;
  std::string first_loss_;

  // Of the worker alone.
  std::unordered_map<std::string, Assembly> open_;
  uint64_t assembled_bytes_ = 0;

  std::unique_ptr<std::thread> worker_;
};

}  // namespace msprobe::device
