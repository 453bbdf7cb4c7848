#include "src/capture/kernel_dump.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/capture/run_identity.h"
#include "src/device/device.h"
#include "src/json/writer.h"

namespace msprobe::capture {
namespace {

// Launchers tell each process which device of its host it uses.
int32_t LocalDevice() {
  const char* text = std::getenv("LOCAL_RANK");
  const auto index = base::ParseInt(text != nullptr ? text : "");
  constexpr int64_t kMostDevices = 1024;
  return index && *index >= 0 && *index < kMostDevices ? static_cast<int32_t>(*index) : 0;
}

std::string ConfigText(const base::Path& folder) {
  std::string out;
  json::Writer json(out, 4);
  json.BeginObject();
  json.Key("dump");
  json.BeginObject();
  json.Key("dump_list");
  json.BeginArray();
  json.EndArray();
  json.Member("dump_path", folder.string());
  json.Member("dump_mode", "all");
  json.Member("dump_op_switch", "on");
  json.EndObject();
  json.EndObject();
  return out;
}

Result<device::KernelDump*> FindKernelDump() {
  device::Runtime& runtime = device::Registry::OfThisProcess().Get(device::Kind::kAcl);
  if (const Status ready = runtime.Ready(); !ready.ok()) {
    return DeviceError(fmt::format("kernels cannot be dumped: {}", ready.message()));
  }
  Result<device::KernelDump*> dump = runtime.GetKernelDump();
  if (!dump.ok()) {
    return DeviceError(fmt::format("kernels cannot be dumped: {}", dump.status().message()));
  }
  return dump;
}

}  // namespace

Status BeginKernelDump(const StepPlace& place) {
  MSP_RETURN_IF_ERROR(CheckPlace(place));
  MSP_RETURN_IF_ERROR(CheckOtherRuns(place));
  MSP_ASSIGN_OR_RETURN(device::KernelDump* const dump, FindKernelDump());
  MSP_RETURN_IF_ERROR(base::CreateFolders(place.step_path()));
  // The runtime may have another working directory in mind.
  std::error_code error;
  const base::Path folder = std::filesystem::canonical(place.step_path(), error);
  if (error) {
    return IoError(
        fmt::format("cannot resolve {}: {}", place.step_path().string(), error.message()));
  }
  const base::Path config = folder / (place.rank ? fmt::format("kernel_config_{}.json", *place.rank)
                                                 : std::string("kernel_config.json"));
  MSP_RETURN_IF_ERROR(
      base::WriteFileAtomically(config, ConfigText(folder), base::Existing::kReplace));
  device::KernelDumpOptions options;
  options.device = LocalDevice();
  options.config_path = config.string();
  return dump->Begin(options);
}

Status EndKernelDump() {
  MSP_ASSIGN_OR_RETURN(device::KernelDump* const dump, FindKernelDump());
  return dump->End();
}

}  // namespace msprobe::capture
