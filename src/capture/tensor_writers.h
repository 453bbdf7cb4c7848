// The threads that write tensor files, and the memory in which tensors wait for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/base/buffer_pool.h"
#include "src/capture/tensor_files.h"

namespace msprobe::capture {

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
  size_t counted_bytes_ = 0;
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
  ~TensorWriters();

  // Empty when there is no room, or no memory, or size_bytes is beyond the limit.
  TensorMemory TryTake(size_t size_bytes);
  // Waits for writers to make room; empty as above, and when nothing moved for `patience`.
  TensorMemory Take(size_t size_bytes, std::chrono::seconds patience);
  // Waits no longer than `patience`; empty as above, and when there is no room by then.
  TensorMemory TakeWithin(size_t size_bytes, std::chrono::milliseconds patience);
  bool fits(size_t size_bytes) const { return size_bytes <= memory_bytes_; }
  uint64_t memory_bytes() const { return memory_bytes_; }

  void Submit(TensorJob job) noexcept;

  // Ends the threads once the queue is empty; those that hang in the system for longer than
  // `patience` are left to themselves.
  void Shutdown(std::chrono::seconds patience);

 private:
  friend class TensorMemory;
  struct State;

  TensorMemory MakeMemory(size_t size_bytes);
  void GiveBack(size_t counted_bytes);
  // Both: mutex held.
  bool Enqueue(TensorJob& job) noexcept;  // false: no memory for its place
  void EnsureThreads() noexcept;

  const size_t thread_limit_;
  const uint64_t memory_bytes_;
  const std::unique_ptr<base::BufferPool> pool_;
  const std::shared_ptr<State> state_;
};

}  // namespace msprobe::capture
