#include "src/analysis/perf/overall_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/profile/common/values.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

namespace {}  // namespace

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

// Tasks that wait for another rank. A wait behind two sends, or behind send, send, wait, send, is
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

// Of every group of the profile, in its order. `uncovered`: by rising start.
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
        "{} holds {} groups of communication: which of them communicate at once is told "
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

// Operators that give their kernels a kind, by start; kernels come to it in order of launch.
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

// Of OverallTimes::combined, by name.
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
void SortGpuKernels(const Profile& side, const std::vector<uint32_t>& kernels,
                    OverallTimes& times) {
  LaunchingOperators operators(side);
  for (const auto& [launch, index] :
       ByLaunch(side, kernels, [&](uint32_t kernel) { return side.kernels[kernel].start; })) {
    const profile::Kernel& kernel = side.kernels[index];
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
