#include <fmt/format.h>

#include "src/device/acl/acl_device.h"
#include "src/device/cuda/cuda_device.h"
#include "src/device/device.h"
#include "src/device/host.h"

namespace msprobe::device {

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kHost:
      return "host";
    case Kind::kAcl:
      return "acl";
    case Kind::kCuda:
      return "cuda";
  }
  return "unknown";
}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(runtime_, other.runtime_);
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (memory_ != nullptr) {
    runtime_->FreeHost(device_, memory_);
  }
}

Status Runtime::QueueStatistics(const StatisticsRequest& /*request*/) {
  return UnsupportedError(
      fmt::format("{} devices have no kernel for statistics", KindName(kind())));
}

Result<std::unique_ptr<Scratch>> Runtime::AllocateScratch(int32_t /*device*/, size_t /*bytes*/) {
  return UnsupportedError(fmt::format("memory of {} devices is not filled", KindName(kind())));
}

Registry::Registry(Loading loading) {
  runtimes_.push_back(std::make_unique<HostRuntime>());
  runtimes_.push_back(std::make_unique<AclRuntime>(loading));
  runtimes_.push_back(std::make_unique<CudaRuntime>(loading));
}

Registry::~Registry() = default;

Registry& Registry::OfThisProcess() {
  // Never destroyed: at the end of a process the vendors' libraries are taken down in an order that
  // nobody knows.
  static auto* const registry = new Registry(Loading::kOnlyIfLoaded);
  return *registry;
}

}  // namespace msprobe::device
