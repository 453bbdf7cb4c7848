// Large buffers that are kept and handed out again: touching fresh memory costs seven times a read
// (page faults), so no hot path may allocate per tensor. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace msprobe::base {

// Memory that is given back and taken again, over and over.

// Lets this process keep what it frees, up to 256 MiB at the end of each heap of the C library,
// instead of giving it back to the system, which has to clear it before it gives it again. For
// commands that work on one large thing after the other; holds until the process ends. Does nothing
// where the C library cannot.
void KeepFreedMemory();

// Lets the system back large memory that was not touched yet by few large pages instead of many
// small ones, each of which costs a fault.
void AskForHugePages(const void* memory, size_t bytes);

class BufferPool {
 public:
  // At most `keep_bytes` stay allocated while unused.
  explicit BufferPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}

  // Page-aligned memory that returns to its pool on destruction. Must not outlive the pool.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();

    std::byte* data() { return memory_; }
    size_t capacity() const { return capacity_; }
    std::span<std::byte> bytes() { return {memory_, capacity_}; }

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;
    std::byte* memory_ = nullptr;
    size_t capacity_ = 0;
  };

  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // A buffer of at least `bytes`; contents are unspecified. Empty (capacity 0) when memory cannot
  // be had.
  Buffer Take(size_t bytes);

 private:
  struct Block {
    std::byte* memory;
    size_t capacity;
  };
  void Return(Block block) noexcept;

  const size_t keep_bytes_;
  std::mutex mutex_;
  std::vector<Block> idle_;
  size_t idle_bytes_ = 0;
};

}  // namespace msprobe::base
