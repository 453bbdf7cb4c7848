#include "src/analysis/perf/overall_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/nesting.h"
#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

OperatorKind KindOfOperator(std::string_view name) {
  const std::string lower = base::AsciiLower(name);
  if (base::ContainsAny(lower, {"flash_attention", "fusion_attention", "flashattn",
                                "xformers_flash", "efficient_attention", "flash2attn"})) {
    return OperatorKind::kFlashAttention;
  }
  if (base::ContainsAny(lower, {"aten::conv"})) {
    return OperatorKind::kConvolution;
  }
  if (base::ContainsAny(lower, {"aten::addmm", "aten::bmm", "aten::mm", "aten::matmul"})) {
    return OperatorKind::kMatmul;
  }
  return OperatorKind::kOther;
}

bool IsBackwardName(std::string_view name) {
  // "back" holds "backward".
  return base::ContainsAny(base::AsciiLower(name), {"bwd", "back", "grad"});
}

bool IsGpuCubeKernel(std::string_view name) {
  return base::ContainsAny(base::AsciiLower(name), {"gemm", "conv", "cutlass", "wgrad", "gemvx"});
}

bool IsGpuCopy(std::string_view name) {
  return base::ContainsAny(base::AsciiLower(name), {"htod", "dtod", "dtoh", "memset (device)"});
}

NpuKind KindOfNpuKernel(std::string_view name, std::string_view type) {
  const std::string lower_name = base::AsciiLower(name);
  const std::string lower_type = base::AsciiLower(type);
  if (base::ContainsAny(lower_type, {"pagedattention"})) {
    return NpuKind::kPagedAttention;
  }
  if (lower_name.starts_with("aclnninplacecopy") && base::ContainsAny(lower_name, {"tensormove"})) {
    return NpuKind::kTensorMove;
  }
  for (const std::string_view combined :
       {"allgathermatmul", "matmulreducescatter", "matmulallreduce"}) {
    if (lower_name == combined) {
      return NpuKind::kCombined;
    }
  }
  if (base::ContainsAny(lower_type, {"flashattention"})) {
    return NpuKind::kFlashAttention;
  }
  if (lower_type.starts_with("conv")) {
    return NpuKind::kConvolution;
  }
  return base::ContainsAny(lower_type, {"matmul"}) ? NpuKind::kMatmul : NpuKind::kOther;
}

bool IsTransformation(std::string_view kernel_name) {
  return base::ContainsAny(base::AsciiLower(kernel_name), {"cast", "transdata", "transpose"});
}

using profile::Interval;

using profile::Nanoseconds;

Nanoseconds OverlapTime(std::span<const Interval> within, std::span<const Interval> events) {
  Nanoseconds sum = 0;
  size_t next = 0;
  for (const Interval& outer : within) {
    while (next < events.size()) {
      const Interval& event = events[next];
      if (event.end <= outer.start) {
        ++next;
        continue;
      }
      if (event.start >= outer.end) {
        break;
      }
      if (event.end >= outer.end) {
        sum = profile::SumOfTimes(sum, outer.end - std::max(event.start, outer.start));
        break;
      }
      sum = profile::SumOfTimes(sum, event.end - std::max(event.start, outer.start));
      ++next;
    }
  }
  return sum;
}

Intervals Clip(std::span<const Interval> events, std::span<const Interval> within) {
  Intervals parts;
  size_t next = 0;
  for (const Interval& event : events) {
    while (next < within.size()) {
      const Interval& outer = within[next];
      if (outer.end < event.start) {
        ++next;
        continue;
      }
      if (outer.start > event.end) {
        break;
      }
      const Nanoseconds begin = std::max(event.start, outer.start);
      if (outer.end < event.end) {
        parts.push_back({begin, outer.end, 0});
        ++next;
        continue;
      }
      parts.push_back({begin, std::min(event.end, outer.end), 0});
      break;
    }
  }
  return parts;
}

Coverage Cover(const std::vector<Mark>& marks) {
  struct Edge {
    int64_t at;
    int32_t computing;
    int32_t communication;
  };
  std::vector<Edge> edges;
  for (const Mark& mark : marks) {
    if (mark.begin < mark.end) {
      edges.push_back({mark.begin, mark.is_computing ? 1 : 0, mark.is_computing ? 0 : 1});
      edges.push_back({mark.end, mark.is_computing ? -1 : 0, mark.is_computing ? 0 : -1});
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  Coverage coverage;
  int64_t computing = 0;
  int64_t communication = 0;
  for (size_t index = 0; index < edges.size(); ++index) {
    computing += edges[index].computing;
    communication += edges[index].communication;
    const int64_t length = index + 1 < edges.size() ? edges[index + 1].at - edges[index].at : 0;
    coverage.computing += computing > 0 ? length : 0;
    coverage.communication_only += computing == 0 && communication > 0 ? length : 0;
  }
  return coverage;
}

namespace {

// Where the time of uncovered communication went, group by group: waiting for others, or moving
// data.

using profile::Profile;

// Pairs of groups are reported: a rank is in some dozens of them.
constexpr size_t kMostPairedGroups = 512;
constexpr size_t kLongestPairedName = 256;

void SortByStart(Intervals& intervals) {
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
}

Intervals OperatorsOf(const Profile& side, const profile::CommunicationGroup& group) {
  Intervals intervals;
  for (const uint32_t index : group.operators) {
    const profile::CommunicationOperator& operation = side.communication[index];
    intervals.push_back({operation.start, operation.end, operation.duration_us});
  }
  SortByStart(intervals);
  return intervals;
}

char LetterOf(std::string_view task) {
  return task == "RDMASend" ? 'R' : task == "Notify_Wait" ? 'N' : 'O';
}

// Tasks that wait for another rank. A wait after two sends, or after send, send, wait, send, is
// part of a transfer instead.
Intervals WaitsOf(const Profile& side, const std::vector<uint32_t>& tasks) {
  std::vector<uint32_t> ordered = tasks;
  std::stable_sort(ordered.begin(), ordered.end(), [&](uint32_t a, uint32_t b) {
    return side.communication_tasks[a].start < side.communication_tasks[b].start;
  });
  Intervals waits;
  std::string last_four;
  for (const uint32_t index : ordered) {
    const profile::CommunicationTask& task = side.communication_tasks[index];
    const char letter = LetterOf(side.texts[task.name]);
    const bool is_transfer =
        last_four == "RRNR" || (last_four.size() == 4 && last_four.substr(2) == "RR");
    if (letter == 'N' && !is_transfer) {
      waits.push_back({task.start, task.end, task.duration_us});
    }
    last_four = last_four.empty() ? std::string("OOO") + letter : last_four.substr(1) + letter;
  }
  return waits;
}

// The waits of the plane that waits least: the others wait for it.
Intervals LeastWaits(const Profile& side, const profile::CommunicationGroup& group) {
  Intervals least;
  double least_us = 0;
  bool found = false;
  for (const auto& [plane, tasks] : group.planes) {
    Intervals waits = WaitsOf(side, tasks);
    double sum_us = 0;
    for (const profile::Interval& wait : waits) {
      sum_us += wait.duration_us;
    }
    if (!found || sum_us < least_us) {
      least = std::move(waits);
      least_us = sum_us;
      found = true;
    }
  }
  return least;
}

// For every group of the profile, in its order. `uncovered`: by rising start.
std::vector<GroupTime> MeasureGroups(const Profile& side, const Intervals& uncovered) {
  std::vector<GroupTime> times;
  for (const profile::CommunicationGroup& group : side.groups) {
    const Nanoseconds wait = OverlapTime(uncovered, LeastWaits(side, group));
    const Nanoseconds total = OverlapTime(uncovered, OperatorsOf(side, group));
    times.push_back(
        {std::string(side.texts[group.name]), std::string(side.texts[group.parallel_name]),
         static_cast<double>(wait) / kNsPerMs, static_cast<double>(total - wait) / kNsPerMs});
  }
  return times;
}

// Uncovered time in which two groups communicate at once; pairs without any are left out. None, and
// a warning, where there are more groups than any rank is in.
std::vector<GroupOverlap> MeasureGroupOverlaps(const Profile& side, const Intervals& uncovered,
                                               std::vector<std::string>& warnings) {
  if (side.groups.size() > kMostPairedGroups) {
    warnings.push_back(fmt::format(
        "{} holds {} groups of communication: which of them communicate at once is reported "
        "of up to {}",
        side.path.string(), side.groups.size(), kMostPairedGroups));
    return {};
  }
  std::vector<Intervals> clipped;
  std::vector<std::string> names;
  for (const profile::CommunicationGroup& group : side.groups) {
    clipped.push_back(Clip(OperatorsOf(side, group), uncovered));
    names.push_back(base::Shortened(
        side.texts[group.parallel_name == profile::kNoText ? group.name : group.parallel_name],
        kLongestPairedName));
  }
  std::vector<GroupOverlap> overlaps;
  for (size_t first = 0; first < clipped.size(); ++first) {
    for (size_t second = first + 1; second < clipped.size(); ++second) {
      const Nanoseconds both = OverlapTime(clipped[first], clipped[second]);
      if (both != 0) {
        overlaps.push_back({names[first], names[second], static_cast<double>(both) / kNsPerMs});
      }
    }
  }
  return overlaps;
}

// Every computing kernel to the kind of work it does: by the operator that launched it where that
// says so, else by what the kernel itself is called.

// Host times of what launched the kernel that starts at a point of the device's time.
std::unordered_map<Nanoseconds, Nanoseconds> LaunchTimes(const Profile& side) {
  std::unordered_map<Nanoseconds, Nanoseconds> launches;
  for (const profile::Flow& flow : side.flows) {
    launches[flow.end] = flow.start;  // the last one counts
  }
  return launches;
}

// Operators that give their kernels a kind, by start; asked for kernels in order of launch.
class LaunchingOperators {
 public:
  struct Entry {
    Nanoseconds start;
    Nanoseconds end;
    OperatorKind kind;
    bool is_backward_name;
    bool on_backward_thread;
  };

  explicit LaunchingOperators(const Profile& side) {
    std::vector<std::optional<std::pair<OperatorKind, bool>>> known(side.texts.size());
    for (const profile::Operator& operation : side.operators) {
      auto& kind = known[operation.name];
      if (!kind.has_value()) {
        const std::string_view name = side.texts[operation.name];
        kind = {KindOfOperator(name), IsBackwardName(name)};
      }
      if (kind->first != OperatorKind::kOther) {
        entries_.push_back({operation.start, operation.end, kind->first, kind->second,
                            side.backward_thread == operation.thread});
      }
    }
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.start < b.start; });
  }

  // Times must not fall from call to call.
  const Entry* At(Nanoseconds launch) {
    while (next_ < entries_.size() && entries_[next_].end < launch) {
      ++next_;
    }
    return next_ < entries_.size() && entries_[next_].start <= launch ? &entries_[next_] : nullptr;
  }

 private:
  std::vector<Entry> entries_;
  size_t next_ = 0;
};

// Indices in rising order of their launch; those without one come first.
template <typename StartOf>
std::vector<std::pair<Nanoseconds, uint32_t>> ByLaunch(const Profile& side,
                                                       const std::vector<uint32_t>& items,
                                                       const StartOf& start_of) {
  const std::unordered_map<Nanoseconds, Nanoseconds> launches = LaunchTimes(side);
  std::vector<std::pair<Nanoseconds, uint32_t>> ordered;
  ordered.reserve(items.size());
  for (const uint32_t item : items) {
    const auto found = launches.find(start_of(item));
    ordered.emplace_back(found == launches.end() ? 0 : found->second, item);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return ordered;
}

void Put(double duration_us, Bucket& bucket) {
  bucket.ms += duration_us;
  ++bucket.count;
}

// True when the launching operator decides.
bool PutByOperator(LaunchingOperators& operators, Nanoseconds launch, double duration_us,
                   bool is_cube, OverallTimes& times) {
  const LaunchingOperators::Entry* entry = launch == 0 ? nullptr : operators.At(launch);
  if (entry == nullptr) {
    return false;
  }
  switch (entry->kind) {
    case OperatorKind::kFlashAttention:
      Put(duration_us, entry->is_backward_name
                           ? (is_cube ? times.flash_backward_cube : times.flash_backward_vector)
                           : (is_cube ? times.flash_forward_cube : times.flash_forward_vector));
      return true;
    case OperatorKind::kConvolution:
      Put(duration_us, entry->is_backward_name || entry->on_backward_thread
                           ? (is_cube ? times.conv_backward_cube : times.conv_backward_vector)
                           : (is_cube ? times.conv_forward_cube : times.conv_forward_vector));
      return true;
    case OperatorKind::kMatmul:
      Put(duration_us, is_cube ? times.matmul_cube : times.matmul_vector);
      return true;
    case OperatorKind::kOther:
      break;
  }
  return false;
}

double OrZero(double value) { return std::isnan(value) ? 0 : value; }

// The marks of communication inside of kernels, taken by rising starts.
class CoreTasks {
 public:
  explicit CoreTasks(std::vector<profile::Interval> tasks) : tasks_(std::move(tasks)) {
    std::stable_sort(tasks_.begin(), tasks_.end(),
                     [](const auto& a, const auto& b) { return a.start < b.start; });
  }

  // They come in pairs, a wait and what was waited for; the time between two ends communicates.
  double CommunicationUs(Nanoseconds start, Nanoseconds end) {
    while (next_ < tasks_.size() && tasks_[next_].end < start) {
      ++next_;
    }
    const size_t first = next_;
    while (next_ < tasks_.size() && tasks_[next_].end <= end) {
      ++next_;
    }
    double sum_us = 0;
    for (size_t task = first; task + 1 < next_; task += 2) {
      sum_us += static_cast<double>(tasks_[task + 1].end - tasks_[task].end) / 1000;
    }
    return sum_us;
  }

 private:
  std::vector<profile::Interval> tasks_;
  size_t next_ = 0;
};

// Into OverallTimes::combined, by name.
using CombinedPlaces = std::unordered_map<profile::TextId, size_t>;

void PutCombined(const Profile& side, const profile::KernelDetail& kernel, CoreTasks& tasks,
                 CombinedPlaces& places, OverallTimes& times) {
  const auto [place, is_new] = places.try_emplace(kernel.name, times.combined.size());
  if (is_new) {
    times.combined.push_back({std::string(side.texts[kernel.name]), 0, 0, 0, 0});
  }
  CombinedKernel* const found = &times.combined[place->second];
  const auto end = profile::SumOfTimes(kernel.start, profile::NanosecondsOf(kernel.duration_us));
  found->total_ms += kernel.duration_us;
  found->computing_ms +=
      std::max(OrZero(kernel.cube_us), OrZero(kernel.load_us)) + OrZero(kernel.vector_core_us);
  found->communication_ms += tasks.CommunicationUs(kernel.start, end);
  ++found->count;
}

// Adds the kernels' times to the buckets of `times`, in microseconds: the caller scales them.
void SortGpuKernels(const Profile& side, const std::vector<profile::Kernel>& kernels,
                    const std::vector<uint32_t>& computing, OverallTimes& times) {
  LaunchingOperators operators(side);
  for (const auto& [launch, index] :
       ByLaunch(side, computing, [&](uint32_t kernel) { return kernels[kernel].start; })) {
    const profile::Kernel& kernel = kernels[index];
    const bool is_cube = IsGpuCubeKernel(side.texts[kernel.name]);
    if (!PutByOperator(operators, launch, kernel.duration_us, is_cube, times)) {
      Put(kernel.duration_us, is_cube ? times.other_cube : times.vector_no_trans);
    }
  }
}

// All rows of the kernel details, kernels that compute and communicate in one too.
void SortNpuKernels(const Profile& side, OverallTimes& times) {
  const std::vector<profile::KernelDetail>& details = side.kernel_details;
  std::vector<uint32_t> valid;
  for (uint32_t index = 0; index < details.size(); ++index) {
    if (!std::isnan(details[index].vector_us) || !std::isnan(details[index].mac_us)) {
      valid.push_back(index);
    }
  }
  LaunchingOperators operators(side);
  CoreTasks tasks(side.core_tasks);
  CombinedPlaces places;
  for (const auto& [launch, index] :
       ByLaunch(side, valid, [&](uint32_t kernel) { return details[kernel].start; })) {
    const profile::KernelDetail& kernel = details[index];
    const std::string_view name = side.texts[kernel.name];
    const std::string_view type = side.texts[kernel.type];
    const NpuKind kind = KindOfNpuKernel(name, type);
    if (kind == NpuKind::kPagedAttention) {
      Put(kernel.duration_us, times.paged_attention);
    } else if (kind == NpuKind::kTensorMove) {
      Put(kernel.duration_us, times.tensor_move);
    } else if (kind == NpuKind::kCombined) {
      PutCombined(side, kernel, tasks, places, times);
    } else if (PutByOperator(operators, launch, kernel.duration_us, kernel.is_cube, times)) {
      continue;
    } else if (kind == NpuKind::kFlashAttention) {
      Put(kernel.duration_us,
          IsBackwardName(type) ? times.flash_backward_cube : times.flash_forward_cube);
    } else if (kind == NpuKind::kConvolution) {
      Put(kernel.duration_us,
          IsBackwardName(type) ? times.conv_backward_cube : times.conv_forward_cube);
    } else if (kind == NpuKind::kMatmul) {
      Put(kernel.duration_us, times.matmul_cube);
    } else if (kernel.is_cube) {
      Put(kernel.duration_us, times.other_cube);
    } else {
      Put(kernel.duration_us, IsTransformation(name) ? times.vector_trans : times.vector_no_trans);
    }
  }
}

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
  ComputingStream(const Profile& side, const std::vector<profile::Kernel>& kernels) {
    std::unordered_map<int64_t, size_t> counts;
    std::vector<int64_t> order;
    for (const profile::Kernel& kernel : kernels) {
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

Result<OverallTimes> MeasureGpu(const Profile& side, const std::vector<profile::Kernel>& kernels,
                                const PairOptions& options) {
  const ComputingStream computing_stream(side, kernels);
  if (!computing_stream.found()) {
    return BadFormatError(
               fmt::format("{} holds no kernel that ran on a device", side.path.string()))
        .WithHint("profile with ProfilerActivity.CUDA, or leave --enable_profiling_compare out");
  }
  OverallTimes times;
  times.has_kernel_metrics = true;
  std::vector<uint32_t> computing;
  std::vector<Mark> marks;
  Nanoseconds first = 0;
  Nanoseconds last = 0;
  bool any = false;
  for (const uint32_t index :
       OrderBy(kernels.size(), [&](uint32_t kernel) { return kernels[kernel].start; })) {
    const profile::Kernel& kernel = kernels[index];
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
  SortGpuKernels(side, kernels, computing, times);
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
  // Rows without these columns: cube and vector were not distinguished. No rows: unknown.
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
  SortByStart(uncovered);
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
                                    std::vector<std::string>& warnings,
                                    const std::vector<profile::Kernel>* gpu_kernels) {
  return side.device == profile::Device::kGpu
             ? MeasureGpu(side, gpu_kernels != nullptr ? *gpu_kernels : side.kernels, options)
             : MeasureNpu(side, warnings);
}

namespace {

// ---- The sheet OverallMetrics ----

using report::Cell;
using report::Shade;

// A kind of work, and what it is a part of by its indent.
struct OverallRow : Difference {  // in ms
  struct Side {
    double ms = 0;
    double share = 0;  // of the end-to-end time
    Cell count;
  };
  std::string index;
  std::array<Side, 2> sides;
};

SheetColumns<OverallRow> OverallSheetColumns() {
  using enum report::NumberFormat;
  using Side = OverallRow::Side;
  return {{{"Index", 40, kInteger, &OverallRow::index}},
          {{"Duration(ms)", 20, kFixed2, &Side::ms},
           {"Duration Ratio", 20, kPercent, &Side::share},
           {"Number", 10, kInteger, &Side::count}},
          {{"Diff Duration(ms)", 20, kFixed2, &OverallRow::difference},
           {"Diff Ratio", 10, kPercent, &OverallRow::ratio}}};
}

// One side of a row; without a count the cell shows a stroke.
struct Share {
  double ms = 0;
  std::optional<int64_t> count = std::nullopt;
};

Share Of(const Bucket& bucket) { return {bucket.ms, bucket.count}; }

Share Computing(const OverallTimes& times) {
  const Bucket all = times.flash_forward() + times.flash_backward() + times.conv_forward() +
                     times.conv_backward() + times.matmul() + times.vector() + times.tensor_move +
                     times.other_cube + times.paged_attention;
  return {times.computing_s * kMsPerS, all.count};
}

Share OtherComputing(const OverallTimes& times) {
  const double rest =
      times.computing_s * kMsPerS - times.flash_forward().ms - times.flash_backward().ms -
      times.conv_forward().ms - times.conv_backward().ms - times.matmul().ms - times.vector().ms -
      times.tensor_move.ms - times.other_cube.ms - times.paged_attention.ms - times.combined_ms();
  return {std::max(0.0, rest)};
}

// Rows in the order of the sheet; those that are nothing on both sides are left out.
class OverallRows {
 public:
  OverallRows(const OverallTimes& base, const OverallTimes& comparison, const PairOptions& options)
      : base_(base),
        comparison_(comparison),
        sheet_("OverallMetrics", OverallSheetColumns(), options) {}

  report::FormattedTable Build() {
    using Times = OverallTimes;
    Both("Computing Time", Computing, Shade::kDeepSky);
    AddCombined();
    AddSplit("Flash Attention (Forward)", &Times::flash_forward_cube, &Times::flash_forward_vector);
    AddSplit("Flash Attention (Backward)", &Times::flash_backward_cube,
             &Times::flash_backward_vector);
    AddSplit("Conv (Forward)", &Times::conv_forward_cube, &Times::conv_forward_vector);
    AddSplit("Conv (Backward)", &Times::conv_backward_cube, &Times::conv_backward_vector);
    AddSplit("Matmul", &Times::matmul_cube, &Times::matmul_vector);
    Both("\tPage Attention", &Times::paged_attention);
    AddSplit("Vector", &Times::vector_trans, &Times::vector_no_trans, "Trans", "No Trans");
    Both("\tCube", &Times::other_cube);
    Both("\tSDMA (Tensor Move)", &Times::tensor_move);
    Both("\tOther", OtherComputing, Shade::kLightSky);
    const auto seconds = [this](const std::string& index, double Times::*part) {
      Row(index, {base_.*part * kMsPerS}, {comparison_.*part * kMsPerS}, Shade::kDeepSky);
    };
    seconds("Uncovered Communication Time", &Times::uncovered_s);
    AddGroups();
    AddOverlaps();
    seconds("Free Time", &Times::free_s);
    Row("\tSDMA", {base_.stream_copies.ms}, {comparison_.stream_copies.ms}, Shade::kNone);
    Row("\tFree", {base_.free_s * kMsPerS - base_.stream_copies.ms},
        {comparison_.free_s * kMsPerS - comparison_.stream_copies.ms}, Shade::kNone);
    seconds("E2E Time", &Times::end_to_end_s);
    return sheet_.Take();
  }

 private:
  void Row(const std::string& index, const Share& base, const Share& comparison, Shade shade) {
    if (base.ms == 0 && comparison.ms == 0) {
      return;
    }
    const auto side = [](const Share& share, const OverallTimes& times) {
      return OverallRow::Side{
          share.ms, share.ms / (times.end_to_end_s * kMsPerS),
          share.count.has_value() ? Cell::Integer(*share.count) : Cell::Text("/")};
    };
    sheet_.Add({Differ(base.ms, comparison.ms),
                index,
                {side(base, base_), side(comparison, comparison_)}});
    sheet_.formatted().row_shades.push_back(shade);
    sheet_.formatted().row_indents.push_back(
        static_cast<uint8_t>(std::min(index.find_first_not_of('\t'), size_t{UINT8_MAX})));
  }
  void Both(const std::string& index, Share (*part)(const OverallTimes&), Shade shade) {
    Row(index, part(base_), part(comparison_), shade);
  }
  void Both(const std::string& index, Bucket OverallTimes::*part) {
    Row(index, Of(base_.*part), Of(comparison_.*part), Shade::kLightSky);
  }

  // Kernels that compute and communicate in one, matched by name.
  void AddCombined() {
    const auto add = [&](const CombinedKernel* base, const CombinedKernel* comparison) {
      const CombinedKernel none;
      const CombinedKernel& first = base != nullptr ? *base : none;
      const CombinedKernel& second = comparison != nullptr ? *comparison : none;
      const auto count = [](const CombinedKernel* kernel) {
        return kernel != nullptr ? std::optional(kernel->count) : std::nullopt;
      };
      Row("\t" + (base != nullptr ? base : comparison)->name, {first.total_ms, count(base)},
          {second.total_ms, count(comparison)}, Shade::kLightSky);
      Row("\t\tComputing", {first.computing_ms}, {second.computing_ms}, Shade::kNone);
      Row("\t\tCommunication", {first.communication_ms}, {second.communication_ms}, Shade::kNone);
    };
    const auto by_name = [](const std::vector<CombinedKernel>& kernels) {
      std::unordered_map<std::string_view, const CombinedKernel*> names;
      for (const CombinedKernel& kernel : kernels) {
        names.emplace(kernel.name, &kernel);  // the first of a name
      }
      return names;
    };
    const auto of_base = by_name(base_.combined);
    const auto of_comparison = by_name(comparison_.combined);
    for (const CombinedKernel& kernel : base_.combined) {
      const auto other = of_comparison.find(kernel.name);
      add(&kernel, other == of_comparison.end() ? nullptr : other->second);
    }
    for (const CombinedKernel& kernel : comparison_.combined) {
      if (of_base.find(kernel.name) == of_base.end()) {
        add(nullptr, &kernel);
      }
    }
  }

  // A kind of work, and how it was shared out between the two kinds of units.
  void AddSplit(const std::string& name, Bucket OverallTimes::*cube, Bucket OverallTimes::*vector,
                std::string_view cube_name = "Cube", std::string_view vector_name = "Vector") {
    Row("\t" + name, Of(base_.*cube + base_.*vector), Of(comparison_.*cube + comparison_.*vector),
        Shade::kLightSky);
    Row(fmt::format("\t\t{} ({})", name, cube_name), Of(base_.*cube), Of(comparison_.*cube),
        Shade::kNone);
    Row(fmt::format("\t\t{} ({})", name, vector_name), Of(base_.*vector), Of(comparison_.*vector),
        Shade::kNone);
  }

  void AddGroup(const std::string& title, const GroupTime* base, const GroupTime* comparison) {
    const GroupTime none;
    const GroupTime& first = base != nullptr ? *base : none;
    const GroupTime& second = comparison != nullptr ? *comparison : none;
    Row("\t" + title, {first.wait_ms + first.transmit_ms}, {second.wait_ms + second.transmit_ms},
        Shade::kLightSky);
    Row("\t\tWait", {first.wait_ms}, {second.wait_ms}, Shade::kNone);
    Row("\t\tTransmit", {first.transmit_ms}, {second.transmit_ms}, Shade::kNone);
  }

  // First by the name of their kind of parallelism, where that names one group on either side;
  // the others by their own name.
  void AddGroups() {
    using Groups = std::vector<const GroupTime*>;
    const auto by = [](const OverallTimes& times, std::string GroupTime::*name) {
      std::unordered_map<std::string_view, Groups> groups;
      for (const GroupTime& group : times.groups) {
        groups[group.*name].push_back(&group);
      }
      return groups;
    };
    const auto base_kinds = by(base_, &GroupTime::parallel_name);
    const auto comparison_kinds = by(comparison_, &GroupTime::parallel_name);
    std::unordered_set<const GroupTime*> done;
    for (const GroupTime& group : base_.groups) {
      if (group.parallel_name.empty() || base_kinds.at(group.parallel_name).size() != 1) {
        continue;
      }
      const auto others = comparison_kinds.find(group.parallel_name);
      if (others != comparison_kinds.end() && others->second.size() == 1) {
        AddGroup(group.parallel_name + ": Communication", &group, others->second[0]);
        done.insert(&group);
        done.insert(others->second[0]);
      }
    }
    const auto is_done = [&](const GroupTime& group) { return done.find(&group) != done.end(); };
    const auto title = [](const GroupTime& group) {
      return group.parallel_name.empty() ? group.name
                                         : fmt::format("{}: {}", group.parallel_name, group.name);
    };
    std::unordered_map<std::string_view, std::deque<const GroupTime*>> others;
    for (const GroupTime& group : comparison_.groups) {
      if (!is_done(group)) {
        others[group.name].push_back(&group);
      }
    }
    for (const GroupTime& group : base_.groups) {
      if (is_done(group)) {
        continue;
      }
      const GroupTime* match = nullptr;
      if (const auto same = others.find(group.name);
          same != others.end() && !same->second.empty()) {
        match = same->second.front();
        same->second.pop_front();
        done.insert(match);
      }
      AddGroup(title(group), &group, match);
    }
    for (const GroupTime& group : comparison_.groups) {
      if (!is_done(group)) {
        AddGroup(title(group), nullptr, &group);
      }
    }
  }

  void AddOverlaps() {
    const auto sum = [](const OverallTimes& times) {
      double ms = 0;
      for (const GroupOverlap& overlap : times.overlaps) {
        ms += overlap.ms;
      }
      return Share{ms};
    };
    Row("\tUncovered Communication Overlapped", sum(base_), sum(comparison_), Shade::kLightSky);
    const auto title = [](const GroupOverlap& overlap) {
      return fmt::format("\t\t{} & {}", overlap.first, overlap.second);
    };
    const auto by_title = [&](const OverallTimes& times) {
      std::unordered_map<std::string, double> overlaps;  // the first one of a title
      for (const GroupOverlap& overlap : times.overlaps) {
        overlaps.emplace(title(overlap), overlap.ms);
      }
      return overlaps;
    };
    const auto base_overlaps = by_title(base_);
    const auto comparison_overlaps = by_title(comparison_);
    for (const GroupOverlap& overlap : base_.overlaps) {
      const auto other = comparison_overlaps.find(title(overlap));
      Row(title(overlap), {overlap.ms}, {other == comparison_overlaps.end() ? 0 : other->second},
          Shade::kNone);
    }
    for (const GroupOverlap& overlap : comparison_.overlaps) {
      if (base_overlaps.find(title(overlap)) == base_overlaps.end()) {
        Row(title(overlap), {0}, {overlap.ms}, Shade::kNone);
      }
    }
  }

  const OverallTimes& base_;
  const OverallTimes& comparison_;
  Sheet<OverallRow> sheet_;
};

}  // namespace

report::FormattedTable OverallSheet(const OverallTimes& base, const OverallTimes& comparison,
                                    const PairOptions& options) {
  if (base.end_to_end_s == 0 || comparison.end_to_end_s == 0) {
    return {};
  }
  return OverallRows(base, comparison, options).Build();
}

}  // namespace msprobe::analysis::perf
