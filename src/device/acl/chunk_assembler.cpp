#include "src/device/acl/chunk_assembler.h"

#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/threads.h"
#include "src/base/strings.h"

namespace msprobe::device {

ChunkAssembler::ChunkAssembler(const KernelDumpOptions& options)
    : options_(options), process_(::getpid()) {}

Status ChunkAssembler::Start() {
  try {
    auto worker = std::make_unique<std::thread>();
    Result<std::thread> thread = base::StartBackgroundThread([this] { WorkerLoop(); });
    if (!thread.ok()) {
      return InternalError(fmt::format("no kernel dump: {}", thread.status().message()));
    }
    *worker = *std::move(thread);
    worker_ = std::move(worker);
  } catch (const std::bad_alloc&) {
    return InternalError("no kernel dump: no memory for a thread");
  }
  return {};
}

ChunkAssembler::~ChunkAssembler() {
  if (::getpid() != process_) {
    (void)worker_.release();  // its thread did not come along into this process
  } else if (worker_ != nullptr) {
    (void)Finish();
  }
}

void ChunkAssembler::Lose(std::string_view path, const char* reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (losses_++ > 0) {
    return;
  }
  try {
    first_loss_ = fmt::format("{}: {}", base::Printable(path), reason);
  } catch (const std::bad_alloc&) {
    first_loss_.clear();  // the count says it
  }
}

void ChunkAssembler::Add(const AclDumpChunk* chunk) noexcept {
  if (chunk == nullptr) {
    return Lose("a file", "a piece without content");
  }
  const size_t path_bytes = ::strnlen(chunk->file_name, sizeof(chunk->file_name));
  if (path_bytes == 0 || path_bytes == sizeof(chunk->file_name)) {
    return Lose("a file", "a piece without a file name");
  }
  // A callback of C: nothing may be thrown through the runtime.
  try {
    Piece piece;
    piece.path.assign(chunk->file_name, path_bytes);
    const auto* bytes = reinterpret_cast<const std::byte*>(chunk) + offsetof(AclDumpChunk, buffer);
    piece.bytes.assign(bytes, bytes + chunk->buffer_bytes);
    piece.offset = chunk->offset;
    piece.last = chunk->is_last_chunk != 0;

    std::unique_lock lock(mutex_);
    // One piece larger than the queue passes when it is alone.
    taken_.wait(lock, [&] {
      return queue_.empty() || queued_bytes_ + piece.bytes.size() <= options_.queue_bytes;
    });
    queued_bytes_ += piece.bytes.size();
    queue_.push_back(std::move(piece));
    arrived_.notify_one();
  } catch (const std::bad_alloc&) {
    Lose(std::string_view(chunk->file_name, path_bytes), "no memory for a piece");
  }
}

void ChunkAssembler::WorkerLoop() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return !queue_.empty() || finishing_; });
    if (queue_.empty()) {
      return;
    }
    Piece piece = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= piece.bytes.size();
    taken_.notify_all();
    lock.unlock();
    try {
      Assemble(piece);
    } catch (const std::bad_alloc&) {
      Lose(piece.path, "no memory");
    }
    lock.lock();
  }
}

const char* ChunkAssembler::Append(const Piece& piece, std::vector<std::byte>& bytes) {
  if (piece.offset >= 0 && static_cast<uint64_t>(piece.offset) != bytes.size()) {
    return "a piece is missing";
  }
  if (assembled_bytes_ + piece.bytes.size() > options_.assembly_bytes) {
    return "the files under way exceed their memory limit";
  }
  try {
    bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
  } catch (const std::bad_alloc&) {
    return "no memory";
  }
  assembled_bytes_ += piece.bytes.size();
  return nullptr;
}

void ChunkAssembler::Assemble(const Piece& piece) {
  Assembly& assembly = open_[piece.path];
  if (!assembly.damaged) {
    const char* const reason = Append(piece, assembly.bytes);
    if (reason != nullptr) {
      Lose(piece.path, reason);
      assembled_bytes_ -= assembly.bytes.size();
      assembly = {{}, true};
    }
  }
  if (!piece.last) {
    return;
  }
  KernelDumpFile file = {piece.path, std::move(assembly.bytes)};
  const bool whole = !assembly.damaged;
  assembled_bytes_ -= file.bytes.size();
  open_.erase(piece.path);
  if (!whole) {
    return;
  }
  // Statistics come as a C text.
  if (file.path.ends_with(".csv") && !file.bytes.empty() && file.bytes.back() == std::byte{0}) {
    file.bytes.pop_back();
  }
  options_.sink(std::move(file));
}

Status ChunkAssembler::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    arrived_.notify_one();
  }
  if (worker_ != nullptr) {
    worker_->join();
    worker_.reset();
  }
  for (const auto& [path, assembly] : open_) {
    if (!assembly.damaged) {
      Lose(path, "its last piece is missing");
    }
  }
  open_.clear();
  if (losses_ == 0) {
    return {};
  }
  return DeviceError(losses_ == 1 ? fmt::format("the kernel dump lost a file: {}", first_loss_)
                                  : fmt::format("the kernel dump lost data {} times, first: {}",
                                                losses_, first_loss_));
}

}  // namespace msprobe::device
