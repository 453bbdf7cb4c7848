#include "src/base/buffer_pool.h"

#include <cstdlib>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace msprobe::base {

void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kMostOfAHeap = 32 << 20;  // what the C library takes at most
  constexpr int kKept = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMostOfAHeap);
  ::mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20U;

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));  // 64 KiB on some hosts
  return bytes;
}

void Unmap(std::byte* memory, size_t capacity) { ::munmap(memory, capacity); }

}  // namespace

void AskForHugePages(const void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t last = (begin + bytes) / kHugePageBytes * kHugePageBytes;
  if (first < last) {
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
  }
}

BufferPool::Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      memory_(std::exchange(other.memory_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

BufferPool::Buffer::~Buffer() {
  if (pool_ != nullptr) {
    pool_->Return({memory_, capacity_});
  }
}

BufferPool::~BufferPool() {
  for (const Block& block : idle_) {
    Unmap(block.memory, block.capacity);
  }
}

BufferPool::Buffer BufferPool::Take(size_t bytes) {
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    // Best fit among the idle ones.
    size_t best = idle_.size();
    for (size_t i = 0; i < idle_.size(); ++i) {
      if (idle_[i].capacity >= bytes &&
          (best == idle_.size() || idle_[i].capacity < idle_[best].capacity)) {
        best = i;
      }
    }
    if (best < idle_.size()) {
      buffer.memory_ = idle_[best].memory;
      buffer.capacity_ = idle_[best].capacity;
      idle_bytes_ -= idle_[best].capacity;
      idle_[best] = idle_.back();
      idle_.pop_back();
      buffer.pool_ = this;
      return buffer;
    }
  }
  const size_t unit = bytes >= kHugePageBytes ? kHugePageBytes : PageBytes();
  const size_t capacity = (bytes + unit - 1) / unit * unit;
  if (capacity < bytes || capacity == 0) {
    return buffer;
  }
  void* memory =
      ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return buffer;
  }
  if (unit == kHugePageBytes) {
    ::madvise(memory, capacity, MADV_HUGEPAGE);
  }
  buffer.memory_ = static_cast<std::byte*>(memory);
  buffer.capacity_ = capacity;
  buffer.pool_ = this;
  return buffer;
}

void BufferPool::Return(Block block) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (idle_bytes_ + block.capacity <= keep_bytes_) {
      idle_.push_back(block);
      idle_bytes_ += block.capacity;
      return;
    }
  } catch (const std::bad_alloc&) {  // no place among the idle ones
  }
  Unmap(block.memory, block.capacity);
}

}  // namespace msprobe::base
