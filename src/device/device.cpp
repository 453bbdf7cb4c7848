#include "src/device/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/device/acl/acl_device.h"
#include "src/device/cuda/cuda_device.h"

namespace msprobe::device {
namespace {

// Ordinary memory behind the interface of a device, so that callers need no second path.

class HostRuntime final : public Runtime {
 public:
  Kind kind() const override { return Kind::kHost; }
  Status Ready() override { return {}; }
  Inventory Describe() override;
  Result<HostBuffer> AllocateHost(int32_t device, size_t bytes) override;
  // Copies before it returns.
  Result<std::unique_ptr<Copy>> CopyToHost(const CopyRequest& request) override;
  Status Synchronize(int32_t device) override;
  Result<bool> Overflowed(int32_t device, Stream stream) override;
  Status ResetOverflow(int32_t device, Stream stream) override;
  Result<OverflowMode> GetOverflowMode(int32_t device) override;
  Status SetOverflowMode(int32_t device, OverflowMode mode) override;
  Result<KernelDump*> GetKernelDump() override;

 private:
  void FreeHost(int32_t device, void* memory) override;
};

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

namespace fs = std::filesystem;

// The result of an experiment; a Status other than ok becomes kFailed, or kNotTried if the runtime
// lacks the feature.
struct Observation {
  bool as_expected = true;
  std::string seen;
};

class Examiner {
 public:
  Examiner(Runtime& runtime, int32_t device, const ExaminationOptions& options)
      : runtime_(runtime), device_(device), options_(options) {}

  std::vector<Finding> Run() {
    Try("page-locked memory", [this] { return PageLocked(); });
    Try("copies wait for their producer", [this] { return CopyWaits(); });
    Try("producers wait for the copy", [this] { return ProducerWaits(); });
    Try("speed of copies", [this] { return CopySpeed(); });
    Try("saturation mode", [this] { return Mode(); });
    Try("overflow status", [this] { return Overflow(); });
    Try("kernel dump by the runtime", [this] { return RuntimeDump(); });
    Try("kernel dump into memory", [this] { return MemoryDump(); });
    return std::move(findings_);
  }

 private:
  void Try(std::string_view subject, const std::function<Result<Observation>()>& experiment) {
    Finding finding{std::string(subject), device_, Outcome::kAsExpected, ""};
    Result<Observation> seen = experiment();
    if (seen.ok()) {
      finding.outcome = seen->as_expected ? Outcome::kAsExpected : Outcome::kDiffers;
      finding.seen = std::move(seen->seen);
    } else {
      finding.outcome =
          seen.status().code() == StatusCode::kUnsupported ? Outcome::kNotTried : Outcome::kFailed;
      finding.seen = seen.status().message();
    }
    findings_.push_back(std::move(finding));
  }

  Result<Observation> PageLocked() {
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(host_, runtime_.AllocateHost(device_, options_.copy_bytes));
    std::fill_n(host_.data(), options_.copy_bytes, std::byte{0});
    return Observation{true, fmt::format("{} in {:.3f} s", base::FormatBytes(options_.copy_bytes),
                                         watch.seconds())};
  }

  Result<Scratch*> OnDevice() {
    if (host_.capacity() < options_.copy_bytes) {
      return UnsupportedError("not tried: there is no page-locked memory to copy into");
    }
    if (scratch_ == nullptr) {
      MSP_ASSIGN_OR_RETURN(scratch_, runtime_.AllocateScratch(device_, options_.copy_bytes));
    }
    return scratch_.get();
  }

  Result<std::unique_ptr<Copy>> QueueCopy(const Scratch& scratch) {
    CopyRequest request;
    request.device = device_;
    request.source = scratch.address();
    request.bytes = options_.copy_bytes;
    request.target = host_.data();
    return runtime_.CopyToHost(request);
  }

  // How many bytes are not `value`.
  size_t OtherThan(uint8_t value) {
    const std::byte* const bytes = host_.data();
    return static_cast<size_t>(
        std::count_if(bytes, bytes + options_.copy_bytes,
                      [value](std::byte byte) { return byte != std::byte{value}; }));
  }

  // Fills and copies follow each other without a wait of the host in between.
  Result<Observation> CopyWaits() {
    MSP_ASSIGN_OR_RETURN(Scratch* const scratch, OnDevice());
    for (int round = 0; round < options_.rounds; ++round) {
      const auto value = static_cast<uint8_t>(round * 37 + 1);
      MSP_RETURN_IF_ERROR(scratch->Fill(value, nullptr));
      MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Copy> copy, QueueCopy(*scratch));
      MSP_RETURN_IF_ERROR(copy->Wait());
      if (const size_t wrong = OtherThan(value); wrong > 0) {
        return Observation{false,
                           fmt::format("round {} of {}: {} of {} bytes are older than what "
                                       "the stream had queued before the copy",
                                       round + 1, options_.rounds, wrong, options_.copy_bytes)};
      }
    }
    return Observation{true, fmt::format("{} rounds, every byte right", options_.rounds)};
  }

  // Work that is queued after a copy must not affect it.
  Result<Observation> ProducerWaits() {
    MSP_ASSIGN_OR_RETURN(Scratch* const scratch, OnDevice());
    for (int round = 0; round < options_.rounds; ++round) {
      const auto value = static_cast<uint8_t>(round * 53 + 2);
      MSP_RETURN_IF_ERROR(scratch->Fill(value, nullptr));
      MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Copy> copy, QueueCopy(*scratch));
      MSP_RETURN_IF_ERROR(scratch->Fill(static_cast<uint8_t>(value + 1), nullptr));
      MSP_RETURN_IF_ERROR(copy->Wait());
      if (const size_t wrong = OtherThan(value); wrong > 0) {
        return Observation{
            false,
            fmt::format("round {} of {}: {} of {} bytes come from work queued after the copy",
                        round + 1, options_.rounds, wrong, options_.copy_bytes)};
      }
    }
    return Observation{true, fmt::format("{} rounds, every byte right", options_.rounds)};
  }

  Result<Observation> CopySpeed() {
    MSP_ASSIGN_OR_RETURN(Scratch* const scratch, OnDevice());
    MSP_RETURN_IF_ERROR(scratch->Fill(0, nullptr));
    MSP_RETURN_IF_ERROR(runtime_.Synchronize(device_));
    double best = 0;
    for (int round = 0; round < options_.rounds; ++round) {
      const base::Stopwatch watch;
      MSP_ASSIGN_OR_RETURN(const std::unique_ptr<Copy> copy, QueueCopy(*scratch));
      MSP_RETURN_IF_ERROR(copy->Wait());
      best = std::max(best, static_cast<double>(options_.copy_bytes) / watch.seconds());
    }
    return Observation{true,
                       fmt::format("{} each, at best {}/s", base::FormatBytes(options_.copy_bytes),
                                   base::FormatBytes(static_cast<uint64_t>(best)))};
  }

  Result<Observation> Mode() {
    MSP_ASSIGN_OR_RETURN(const OverflowMode mode, runtime_.GetOverflowMode(device_));
    saturates_ = mode == OverflowMode::kSaturation;
    switch (mode) {
      case OverflowMode::kSaturation:
        return Observation{true, "saturation: overflow is read from the status register"};
      case OverflowMode::kInfNan:
        return Observation{true, "infinity and NaN: overflow is seen in the tensors"};
      default:
        return Observation{true, "undefined"};
    }
  }

  Result<Observation> Overflow() {
    MSP_RETURN_IF_ERROR(runtime_.ResetOverflow(device_, nullptr));
    MSP_ASSIGN_OR_RETURN(const bool overflowed, runtime_.Overflowed(device_, nullptr));
    if (overflowed) {
      return Observation{false, "not zero after a reset, without any work in between"};
    }
    return Observation{true, saturates_ ? "zero after a reset"
                                        : "zero after a reset; without meaning in this mode"};
  }

  // Switches a dump on and off again; no kernel of ours runs in between.
  Result<Observation> Dump(KernelDumpOptions options, std::string_view name) {
    MSP_ASSIGN_OR_RETURN(KernelDump* const dump, runtime_.GetKernelDump());
    const fs::path folder = options_.scratch_folder / fmt::format("{}_{}", name, device_);
    std::error_code failure;
    fs::create_directories(folder, failure);
    const fs::path config = options_.scratch_folder / fmt::format("{}_{}.json", name, device_);
    std::ofstream file(config);
    file << R"({"dump":{"dump_list":[],"dump_mode":"all","dump_op_switch":"on","dump_path":")"
         << folder.string() << "\"}}";
    file.close();
    if (failure || !file) {
      return IoError(fmt::format("cannot write {}", config.string()));
    }
    options.device = device_;
    options.config_path = config.string();
    const base::Stopwatch watch;
    MSP_RETURN_IF_ERROR(dump->Begin(options));
    MSP_RETURN_IF_ERROR(dump->End());
    return Observation{true, fmt::format("begun and ended in {:.3f} s", watch.seconds())};
  }

  Result<Observation> RuntimeDump() { return Dump({}, "runtime_dump"); }

  Result<Observation> MemoryDump() {
    std::mutex mutex;
    size_t files = 0;
    KernelDumpOptions options;
    options.sink = [&](const KernelDumpFile&) {
      const std::lock_guard lock(mutex);
      ++files;
    };
    MSP_ASSIGN_OR_RETURN(Observation seen, Dump(options, "memory_dump"));
    seen.seen += fmt::format(", {} of kernels of other threads", base::Plural(files, "file"));
    return seen;
  }

  Runtime& runtime_;
  const int32_t device_;
  const ExaminationOptions& options_;
  HostBuffer host_;
  std::unique_ptr<Scratch> scratch_;
  bool saturates_ = false;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> Examine(Runtime& runtime, int32_t device, const ExaminationOptions& options) {
  return Examiner(runtime, device, options).Run();
}

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
  // cannot be known.
  static auto* const registry = new Registry(Loading::kOnlyIfLoaded);
  return *registry;
}

}  // namespace msprobe::device
