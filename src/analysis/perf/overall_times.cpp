#include "src/analysis/perf/overall_times.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "src/analysis/perf/communication_groups.h"
#include "src/analysis/perf/intervals.h"
#include "src/analysis/perf/kernel_kinds.h"
#include "src/analysis/perf/overall_kernels.h"
#include "src/analysis/perf/units.h"
#include "src/base/strings.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::Profile;

std::vector<Bucket*> BucketsOf(OverallTimes& times) {
  return {&times.flash_forward_cube,
          &times.flash_forward_vector,
          &times.flash_backward_cube,
          &times.flash_backward_vector,
          &times.conv_forward_cube,
          &times.conv_forward_vector,
          &times.conv_backward_cube,
          &times.conv_backward_vector,
          &times.matmul_cube,
          &times.matmul_vector,
          &times.paged_attention,
          &times.vector_trans,
          &times.vector_no_trans,
          &times.other_cube,
          &times.tensor_move,
          &times.stream_copies,
          &times.lccl};
}

// Buckets are summed in microseconds, as the files give them.
void ScaleBuckets(OverallTimes& times) {
  for (Bucket* bucket : BucketsOf(times)) {
    bucket->ms /= kUsPerMs;
  }
  for (CombinedKernel& kernel : times.combined) {
    kernel.total_ms /= kUsPerMs;
    kernel.computing_ms /= kUsPerMs;
    kernel.communication_ms /= kUsPerMs;
  }
}

// The end-to-end time and what it consists of, in microseconds, as which they are still exact: what
// is left of it may be little.
struct Spans {
  double end_to_end_us = 0;
  double computing_us = 0;
  double uncovered_us = 0;
};

// `lccl_us`: collectives that run as kernels.
void SetSpans(const Spans& spans, double lccl_us, OverallTimes& times) {
  times.end_to_end_s = spans.end_to_end_us / kUsPerS;
  times.computing_s = spans.computing_us / kUsPerS;
  times.uncovered_s = spans.uncovered_us / kUsPerS;
  times.free_s =
      (spans.end_to_end_us - spans.computing_us - lccl_us - spans.uncovered_us) / kUsPerS;
}

// ---- GPU ----

bool IsKernel(const Profile& side, const profile::Kernel& kernel) {
  return side.texts[kernel.task_type] == "kernel";
}

// The stream on which most kernels compute. All streams count, 0 too, which is where AMD's devices
// compute; the Python tool takes 0 for none, and leaves out what runs there.
class ComputingStream {
 public:
  explicit ComputingStream(const Profile& side) {
    std::unordered_map<int64_t, size_t> counts;
    std::vector<int64_t> order;
    for (const profile::Kernel& kernel : side.kernels) {
      if (IsKernel(side, kernel) && !kernel.is_communication && ++counts[kernel.stream] == 1) {
        order.push_back(kernel.stream);
      }
    }
    const auto most = std::max_element(order.begin(), order.end(),
                                       [&](int64_t a, int64_t b) { return counts[a] < counts[b]; });
    if (most != order.end()) {
      stream_ = *most;
    }
  }

  bool found() const { return stream_.has_value(); }
  bool Holds(const profile::Kernel& kernel) const { return stream_ == kernel.stream; }

 private:
  std::optional<int64_t> stream_;
};

// The whole microseconds that a kernel marks: those that begin inside of it.
int64_t FirstMicrosecond(Nanoseconds at) { return at / 1000 + 1; }

Result<OverallTimes> MeasureGpu(const Profile& side, const PairOptions& options) {
  const ComputingStream computing_stream(side);
  if (!computing_stream.found()) {
    return BadFormatError(
               fmt::format("{} holds no kernel that ran on a device", side.path.string()))
        .WithHint("profile with ProfilerActivity.CUDA, or leave --enable_profiling_compare out");
  }
  std::vector<uint32_t> by_start(side.kernels.size());
  for (uint32_t index = 0; index < by_start.size(); ++index) {
    by_start[index] = index;
  }
  std::stable_sort(by_start.begin(), by_start.end(), [&](uint32_t a, uint32_t b) {
    return side.kernels[a].start < side.kernels[b].start;
  });

  OverallTimes times;
  times.has_kernel_metrics = true;
  std::vector<uint32_t> computing;
  std::vector<Mark> marks;
  Nanoseconds first = 0;
  Nanoseconds last = 0;
  bool any = false;
  for (const uint32_t index : by_start) {
    const profile::Kernel& kernel = side.kernels[index];
    first = any ? std::min(first, kernel.start) : kernel.start;
    last = any ? std::max(last, kernel.end) : kernel.end;
    any = true;
    if (computing_stream.Holds(kernel) && IsGpuCopy(side.texts[kernel.name])) {
      times.stream_copies.ms += kernel.duration_us;
      ++times.stream_copies.count;
      continue;
    }
    if (!IsKernel(side, kernel)) {
      continue;
    }
    const bool is_computing = !kernel.is_communication;
    if (options.exact_time) {
      marks.push_back({kernel.start, kernel.end, is_computing});
    } else {
      marks.push_back({FirstMicrosecond(kernel.start), FirstMicrosecond(kernel.end), is_computing});
    }
    if (is_computing) {
      computing.push_back(index);
    }
  }
  SortGpuKernels(side, computing, times);
  ScaleBuckets(times);
  const Coverage coverage = Cover(marks);
  const double per_us = options.exact_time ? kNsPerUs : 1;
  SetSpans({static_cast<double>(last - first) / kNsPerUs,
            static_cast<double>(coverage.computing) / per_us,
            static_cast<double>(coverage.communication_only) / per_us},
           /*lccl_us=*/0, times);
  times.memory_gb = side.memory_used_gb;
  return times;
}

// ---- NPU ----

double SumUs(const Intervals& intervals) {
  double sum = 0;
  for (const profile::Interval& interval : intervals) {
    sum += interval.duration_us;
  }
  return sum;
}

// Copies by the copy engine count where their stream both computes and waits, or, where no stream
// waits, computes.
void SumStreamCopies(const Profile& side, OverallTimes& times) {
  enum StreamWork : uint8_t { kNone, kWait, kCopy, kCompute };
  const auto kind_of = [&](const profile::Kernel& kernel) {
    const std::string_view type = side.texts[kernel.task_type];
    if (type == "EVENT_WAIT_SQE") {
      return kWait;
    }
    if (type == "SDMA_SQE" || type == "PCIE_DMA_SQE") {
      return kCopy;
    }
    for (const std::string_view compute :
         {"AI_CORE", "MIX_AIC", "MIX_AIV", "AI_CPU", "AI_VECTOR_CORE", "FFTS_PLUS"}) {
      if (type == compute) {
        return kCompute;
      }
    }
    return kNone;
  };
  std::unordered_set<int64_t> waiting;
  std::unordered_set<int64_t> computing;
  for (const profile::Kernel& kernel : side.kernels) {
    if (kernel.stream == 0) {
      continue;
    }
    const StreamWork kind = kind_of(kernel);
    if (kind == kWait) {
      waiting.insert(kernel.stream);
    } else if (kind == kCompute) {
      computing.insert(kernel.stream);
    }
  }
  for (const profile::Kernel& kernel : side.kernels) {
    if (kernel.stream != 0 && kind_of(kernel) == kCopy && computing.count(kernel.stream) != 0 &&
        (waiting.empty() || waiting.count(kernel.stream) != 0)) {
      times.stream_copies.ms += kernel.duration_us;
      ++times.stream_copies.count;
    }
  }
}

double OtherMs(const OverallTimes& times) {
  const double rest =
      times.computing_s * kUsPerMs - times.flash_forward().ms - times.flash_backward().ms -
      times.conv_forward().ms - times.conv_backward().ms - times.matmul().ms - times.vector().ms -
      times.tensor_move.ms - times.combined_ms() - times.other_cube.ms - times.paged_attention.ms;
  return std::max(0.0, rest);
}

Result<OverallTimes> MeasureNpu(const Profile& side, std::vector<std::string>& warnings) {
  OverallTimes times;
  // Rows without these columns say that cube and vector were not told apart; no rows say nothing.
  times.has_kernel_metrics = side.has_kernel_metrics || side.kernel_details.empty();
  if (side.has_kernel_metrics) {
    SortNpuKernels(side, times);
  }
  for (const profile::Kernel& kernel : side.kernels) {
    // Kernels of a database are vector kernels by that name, too.
    if (side.source != profile::Source::kDatabase &&
        base::EqualsIgnoringCase(side.texts[kernel.name], "kernel_aivec")) {
      times.lccl.ms += kernel.duration_us;
      ++times.lccl.count;
    }
  }
  SumStreamCopies(side, times);
  const double lccl_us = times.lccl.ms;
  ScaleBuckets(times);

  if (side.computing.empty() && side.uncovered.empty()) {
    warnings.push_back(fmt::format(
        "{} holds no overlap analysis: computing, communication and end-to-end time are unknown",
        side.path.string()));
  } else {
    Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
    Nanoseconds last = std::numeric_limits<Nanoseconds>::min();
    for (const Intervals* intervals : {&side.computing, &side.uncovered}) {
      for (const profile::Interval& interval : *intervals) {
        first = std::min(first, interval.start);
        last = std::max(last, interval.end);
      }
    }
    SetSpans({static_cast<double>(last - first) / kNsPerUs, SumUs(side.computing),
              SumUs(side.uncovered)},
             lccl_us, times);
  }
  Intervals uncovered = side.uncovered;
  std::stable_sort(uncovered.begin(), uncovered.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  times.groups = MeasureGroups(side, uncovered);
  times.overlaps = MeasureGroupOverlaps(side, uncovered, warnings);
  for (const GroupTime& group : times.groups) {
    times.wait_s += group.wait_ms / kUsPerMs;
  }
  if (!side.bandwidth.empty()) {
    times.rdma_gbps = side.bandwidth.back().rdma;
    times.sdma_gbps = side.bandwidth.back().sdma;
  }
  times.memory_gb = side.memory_used_gb;
  times.other_s = OtherMs(times) / kUsPerMs;
  return times;
}

}  // namespace

double OverallTimes::combined_ms() const {
  double sum = 0;
  for (const CombinedKernel& kernel : combined) {
    sum += kernel.total_ms;
  }
  return sum;
}

Result<OverallTimes> MeasureOverall(const Profile& side, const PairOptions& options,
                                    std::vector<std::string>& warnings) {
  return side.device == profile::Device::kGpu ? MeasureGpu(side, options)
                                              : MeasureNpu(side, warnings);
}

}  // namespace msprobe::analysis::perf
