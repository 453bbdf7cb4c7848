#include "src/device/cuda/cuda_api.h"

#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

// In the order of CudaFeature.
constexpr std::array<std::string_view, 6> kCudaFeatureNames = {
    "driver",
    "copies from the device",
    "names of errors",
    "memory sizes",
    "check for streams that record a graph",
    "kernels of our own",
};

}  // namespace

CudaApi::CudaApi() : features({kCudaFeatureNames.begin(), kCudaFeatureNames.end()}) {}

void CudaApi::Load(Library opened) {
  library = std::move(opened);
  features = FeatureTable({kCudaFeatureNames.begin(), kCudaFeatureNames.end()});
#define MSPROBE_CUDA_LOAD(feature, name, ...) \
  features.Load(library, static_cast<size_t>(CudaFeature::feature), #name, name);
  MSPROBE_CUDA_FUNCTIONS(MSPROBE_CUDA_LOAD)
#undef MSPROBE_CUDA_LOAD
}

Status CudaApi::Check(int code, std::string_view function) const {
  if (code == kCudaSuccess) {
    return {};
  }
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (Require(CudaFeature::kMessages).ok()) {
    (void)cuGetErrorName(code, &name);
    (void)cuGetErrorString(code, &meaning);
  }
  return DeviceError(fmt::format("{} failed with {} ({}): {}", function, code,
                                 base::Printable(name == nullptr ? "unknown code" : name),
                                 base::Printable(meaning == nullptr ? "no text" : meaning)));
}

}  // namespace msprobe::device
