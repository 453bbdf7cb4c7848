#include "src/analysis/perf/overall_kernels.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>

#include "src/analysis/perf/kernel_kinds.h"
#include "src/profile/common/time_sum.h"

namespace msprobe::analysis::perf {
namespace {

using profile::Nanoseconds;
using profile::Profile;

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

}  // namespace

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

}  // namespace msprobe::analysis::perf
