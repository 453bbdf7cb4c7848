// Memory without a name that a worker maps, too: it is handed over as a descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "msprobe/status.h"

namespace msprobe::analysis::accuracy {

// A file in memory alone, closed with the process; -1 with errno. `flags`: of memfd_create.
int NewMemoryFile(const char* name, unsigned flags);

class SharedMemory {
 public:
  // More than `limit_bytes` is an error and not the end of the process, or of others on the
  // machine.
  static Result<SharedMemory> Create(uint64_t limit_bytes);
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  int descriptor() const { return descriptor_; }

  // Room for `bytes` behind what was taken since Clear(), aligned for every dtype; returns its
  // offset. Pointers from before may be invalid afterwards.
  Result<uint64_t> Take(uint64_t bytes);
  void Clear() { used_ = 0; }
  std::byte* at(uint64_t offset) { return data_ + offset; }

  // What the other side has made of it, mapped anew when that has grown.
  Result<std::span<const std::byte>> Whole();

 private:
  Status Map(uint64_t bytes);
  void Release();

  int descriptor_ = -1;
  uint64_t limit_ = 0;
  std::byte* data_ = nullptr;
  uint64_t mapped_ = 0;
  uint64_t used_ = 0;
};

// What the machine can give now without pushing out others.
uint64_t AvailableMemory();

}  // namespace msprobe::analysis::accuracy
