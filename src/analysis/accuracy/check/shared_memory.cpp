#include "src/analysis/accuracy/check/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/strings.h"

namespace msprobe::analysis::accuracy {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kFirstBytes = uint64_t{1} << 20U;

Status MemoryError(std::string_view what) {
  return IoError(
      fmt::format("cannot share memory with the worker: {}: {}", what, std::strerror(errno)));
}

}  // namespace

// By its number: the function is of glibc 2.27, and the program asks for no more than 2.17.
int NewMemoryFile(const char* name, unsigned flags) {
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

Result<SharedMemory> SharedMemory::Create(uint64_t limit_bytes) {
  SharedMemory memory;
  memory.limit_ = limit_bytes;
  memory.descriptor_ = NewMemoryFile("msprobe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor_ < 0) {
    return MemoryError("memfd_create");
  }
  // Pages that one side reads must not be taken away by the other.
  if (::fcntl(memory.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return MemoryError("F_SEAL_SHRINK");
  }
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    Release();
    descriptor_ = std::exchange(other.descriptor_, -1);
    limit_ = other.limit_;
    data_ = std::exchange(other.data_, nullptr);
    mapped_ = std::exchange(other.mapped_, 0);
    used_ = std::exchange(other.used_, 0);
  }
  return *this;
}

SharedMemory::~SharedMemory() { Release(); }

void SharedMemory::Release() {
  if (data_ != nullptr) {
    ::munmap(data_, mapped_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status SharedMemory::Map(uint64_t bytes) {
  void* data = data_ == nullptr
                   ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0)
                   : ::mremap(data_, mapped_, bytes, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) {
    return MemoryError(fmt::format("{} bytes", bytes));
  }
  data_ = static_cast<std::byte*>(data);
  mapped_ = bytes;
  return {};
}

Result<uint64_t> SharedMemory::Take(uint64_t bytes) {
  const uint64_t offset = (used_ + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t end = offset + bytes;
  if (end > mapped_) {
    if (end < bytes || end > limit_) {
      return IoError(fmt::format("the inputs of this call need {}, more than there is memory",
                                 base::FormatBytes(end)));
    }
    const uint64_t size =
        std::min(std::max({end, mapped_ * 2, kFirstBytes}), std::max(end, limit_));
    // Asks for the pages now: writing to a hole in a full memory file system ends the process.
    const int failure = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(size));
    if (failure != 0) {
      errno = failure;
      return MemoryError(fmt::format("{} bytes", size));
    }
    MSP_RETURN_IF_ERROR(Map(size));
  }
  used_ = end;
  return offset;
}

uint64_t AvailableMemory() {
  std::ifstream information("/proc/meminfo");
  for (std::string key; information >> key;) {
    uint64_t kilobytes = 0;
    if (key == "MemAvailable:" && information >> kilobytes && kilobytes > 0) {
      return kilobytes * 1024;
    }
  }
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
}

Result<std::span<const std::byte>> SharedMemory::Whole() {
  struct stat state = {};
  if (::fstat(descriptor_, &state) != 0) {
    return MemoryError("fstat");
  }
  const auto size = static_cast<uint64_t>(state.st_size);
  if (size > mapped_) {
    MSP_RETURN_IF_ERROR(Map(size));
  }
  return std::span<const std::byte>(data_, std::min(size, mapped_));
}

}  // namespace msprobe::analysis::accuracy
