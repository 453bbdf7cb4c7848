#include "src/device/cuda/cuda_statistics.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace msprobe::resources {
extern const std::string_view kStatisticsPtx;  // statistics.ptx, see cmake/EmbedResources.cmake
}

namespace msprobe::device {
namespace {

constexpr uint64_t kThreads = 256;  // as in statistics.cu
constexpr size_t kMostDims = 6;
constexpr uint64_t kMostBlocks = 1024;
constexpr uint64_t kElementsPerThread = 16;
constexpr size_t kPartBytes = 5 * sizeof(double);
constexpr size_t kCounterBytes = 64;
static_assert(kStatisticsScratchBytes >= kCounterBytes + kMostBlocks * kPartBytes);

// What the kernel calls a dtype; nothing for those it does not know.
std::optional<int> KernelType(DType dtype) {
  constexpr std::array kTypes = {DType::kFloat32,  DType::kFloat64,      DType::kFloat16,
                                 DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E5M2,
                                 DType::kInt8,     DType::kUInt8,        DType::kInt16,
                                 DType::kInt32,    DType::kInt64};
  const auto* const found = std::find(kTypes.begin(), kTypes.end(), dtype);
  if (found == kTypes.end()) {
    return std::nullopt;
  }
  return static_cast<int>(found - kTypes.begin());
}

// How many there are. The kernel reads wherever a description points: it has to be one of a tensor.
Result<uint64_t> CountElements(const StatisticsRequest& request) {
  const bool has_strides = !request.strides.empty();
  if (has_strides && request.strides.size() != request.shape.size()) {
    return UsageError(fmt::format("a tensor of {} dimensions with {} strides", request.shape.size(),
                                  request.strides.size()));
  }
  int64_t elements = 1;
  int64_t end = 0;
  for (size_t i = 0; i < request.shape.size(); ++i) {
    const int64_t size = request.shape[i];
    const int64_t stride = has_strides && size > 1 ? request.strides[i] : 0;
    int64_t reach = 0;
    if (size <= 0 || stride < 0 || __builtin_mul_overflow(elements, size, &elements) ||
        __builtin_mul_overflow(size, stride, &reach) || __builtin_add_overflow(end, reach, &end)) {
      return UsageError(fmt::format(
          "dimension {} has size {} and stride {}, as in no tensor with elements in memory", i,
          size, stride));
    }
  }
  return static_cast<uint64_t>(elements);
}

// As in statistics.cu. Strides are in elements. in_vectors: the last dim counts vectors of 16
// bytes, all of them aligned.
struct Layout {
  std::array<uint64_t, kMostDims> sizes;
  std::array<int64_t, kMostDims> strides;
  int dims;
  int in_vectors;
};

// The same elements in the order of memory, in as few dims as possible: of statistics the order is
// of no importance. Nothing if too many dims are left.
std::optional<Layout> InOrderOfMemory(const StatisticsRequest& request) {
  struct Dim {
    uint64_t size;
    int64_t stride;
  };
  std::vector<Dim> dims;
  int64_t row_major = 1;
  for (size_t i = request.shape.size(); i-- > 0;) {
    const int64_t stride = request.strides.empty() ? row_major : request.strides[i];
    if (request.shape[i] != 1) {
      dims.push_back({static_cast<uint64_t>(request.shape[i]), stride});
    }
    row_major *= request.shape[i];
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& left, const Dim& right) { return left.stride > right.stride; });
  Layout layout = {};
  for (const Dim& dim : dims) {
    if (layout.dims > 0) {
      const auto outer = static_cast<size_t>(layout.dims - 1);
      if (layout.strides[outer] == dim.stride * static_cast<int64_t>(dim.size)) {
        layout.sizes[outer] *= dim.size;
        layout.strides[outer] = dim.stride;
        continue;
      }
    }
    if (static_cast<size_t>(layout.dims) == kMostDims) {
      return std::nullopt;
    }
    layout.sizes[static_cast<size_t>(layout.dims)] = dim.size;
    layout.strides[static_cast<size_t>(layout.dims)] = dim.stride;
    ++layout.dims;
  }
  if (layout.dims == 0) {
    layout.sizes[0] = 1;
    layout.strides[0] = 1;
    layout.dims = 1;
  }
  return layout;
}

// Rows that can be read in vectors are: so many fewer places to compute.
void ReadInVectors(const void* data, size_t element_bytes, Layout& layout) {
  constexpr size_t kVectorBytes = 16;
  const auto last = static_cast<size_t>(layout.dims - 1);
  const uint64_t in_vector = kVectorBytes / element_bytes;
  bool possible = layout.dims > 1 && layout.strides[last] == 1 &&
                  layout.sizes[last] % in_vector == 0 &&
                  reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0;
  for (size_t dim = 0; dim < last; ++dim) {
    possible = possible && layout.strides[dim] % static_cast<int64_t>(in_vector) == 0;
  }
  if (possible) {
    layout.sizes[last] /= in_vector;
    layout.strides[last] = static_cast<int64_t>(in_vector);
    layout.in_vectors = 1;
  }
}

}  // namespace

const CudaStatistics::Kernel& CudaStatistics::KernelOf(const CudaApi& api, int32_t device) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = kernels_.try_emplace(device);
  Kernel& kernel = entry->second;
  if (is_new) {
    const std::string text(resources::kStatisticsPtx);
    void* module = nullptr;
    kernel.status = MSPROBE_CUDA_CALL(api, cuModuleLoadData, &module, text.c_str());
    if (kernel.status.ok()) {
      kernel.status = MSPROBE_CUDA_CALL(api, cuModuleGetFunction, &kernel.function, module,
                                        "msprobe_statistics");
    }
    if (!kernel.status.ok()) {
      kernel.status = UnsupportedError(kernel.status.message());
    }
  }
  return kernel;
}

Status CudaStatistics::Queue(const CudaApi& api, const StatisticsRequest& request) {
  MSP_RETURN_IF_ERROR(api.Require(CudaFeature::kKernels));
  std::optional<int> type = KernelType(request.dtype);
  if (!type) {
    return UnsupportedError(
        fmt::format("there is no kernel for tensors of {}", DTypeName(request.dtype)));
  }
  MSP_ASSIGN_OR_RETURN(uint64_t elements, CountElements(request));
  std::optional<Layout> layout = InOrderOfMemory(request);
  if (!layout) {
    return UnsupportedError("the elements of the tensor lie in too many pieces for a kernel");
  }
  ReadInVectors(request.source, DTypeSize(request.dtype), *layout);
  const Kernel& kernel = KernelOf(api, request.device);
  MSP_RETURN_IF_ERROR(kernel.status);
  const uint64_t per_block = kThreads * kElementsPerThread;
  const uint64_t blocks =
      std::clamp<uint64_t>((elements + per_block - 1) / per_block, 1, kMostBlocks);
  CudaAddress data = reinterpret_cast<CudaAddress>(request.source);
  CudaAddress row = reinterpret_cast<CudaAddress>(request.row);
  CudaAddress done = reinterpret_cast<CudaAddress>(request.scratch);
  CudaAddress parts = done + kCounterBytes;
  std::array<void*, 7> arguments = {&*type, &data, &*layout, &elements, &row, &parts, &done};
  return MSPROBE_CUDA_CALL(api, cuLaunchKernel, kernel.function, static_cast<unsigned>(blocks), 1,
                           1, static_cast<unsigned>(kThreads), 1, 1, 0, request.stream,
                           arguments.data(), nullptr);
}

}  // namespace msprobe::device
