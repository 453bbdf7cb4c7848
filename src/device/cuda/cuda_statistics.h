// Statistics of tensors by a kernel of our own (statistics.cu), loaded into a context when it is
// first needed.
#pragma once

#include <map>
#include <mutex>

#include "src/device/cuda/cuda_api.h"
#include "src/device/device.h"

namespace msprobe::device {

class CudaStatistics {
 public:
  // The context of request.device is the current one of this thread. kUnsupported: no kernel for
  // this dtype or layout, or the driver cannot load it (older than CUDA 11.7).
  Status Queue(const CudaApi& api, const StatisticsRequest& request);

 private:
  struct Kernel {
    Status status;
    void* function = nullptr;
  };
  const Kernel& KernelOf(const CudaApi& api, int32_t device);

  std::mutex mutex_;
  std::map<int32_t, Kernel> kernels_;  // by device; of its primary context, which outlives us
};

}  // namespace msprobe::device
