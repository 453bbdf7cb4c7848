#include "src/device/host.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

constexpr size_t kAlignmentBytes = 64;

class FinishedCopy final : public Copy {
 public:
  Result<bool> Done() override { return true; }
  Status Wait() override { return {}; }
};

uint64_t MemoryBytes(int pages_name) {
  const long pages = ::sysconf(pages_name);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  return pages < 0 || page_bytes < 0
             ? 0
             : static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

// The processor's name as the kernel tells it; the architecture where it does not.
std::string ProcessorName() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && base::Trim(line.substr(0, colon)) == "model name") {
      return base::Printable(base::Trim(std::string_view(line).substr(colon + 1)));
    }
  }
#if defined(__aarch64__)
  return "aarch64";
#elif defined(__x86_64__)
  return "x86-64";
#else
  return "";
#endif
}

Status NotOnHost(std::string_view what) {
  return UnsupportedError(fmt::format("{} does not exist on the host", what));
}

}  // namespace

Inventory HostRuntime::Describe() {
  Inventory inventory;
  inventory.devices.push_back(
      {0, ProcessorName(), MemoryBytes(_SC_AVPHYS_PAGES), MemoryBytes(_SC_PHYS_PAGES), ""});
  return inventory;
}

Result<HostBuffer> HostRuntime::AllocateHost(int32_t device, size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignmentBytes, bytes) != 0) {
    return DeviceError(fmt::format("no memory for a buffer of {}", base::FormatBytes(bytes)));
  }
  return HostBuffer(this, device, memory, bytes);
}

void HostRuntime::FreeHost(int32_t, void* memory) { std::free(memory); }

Result<std::unique_ptr<Copy>> HostRuntime::CopyToHost(const CopyRequest& request) {
  if (request.bytes > 0) {
    std::memcpy(request.target, request.source, request.bytes);
  }
  return std::unique_ptr<Copy>(std::make_unique<FinishedCopy>());
}

Status HostRuntime::Synchronize(int32_t) { return {}; }
Result<bool> HostRuntime::Overflowed(int32_t, Stream) { return NotOnHost("an overflow status"); }
Status HostRuntime::ResetOverflow(int32_t, Stream) { return NotOnHost("an overflow status"); }
Result<OverflowMode> HostRuntime::GetOverflowMode(int32_t) { return OverflowMode::kInfNan; }
Status HostRuntime::SetOverflowMode(int32_t, OverflowMode mode) {
  return mode == OverflowMode::kInfNan ? OkStatus() : NotOnHost("a saturation mode");
}
Result<KernelDump*> HostRuntime::GetKernelDump() { return NotOnHost("a dump of kernels"); }

}  // namespace msprobe::device
