// The parts of one side's time, in the kinds that the Python tool distinguishes: the numbers of the
// sheet OverallMetrics and of the table on the screen.
//
// On a GPU the end-to-end time lasts from the first to the last kernel. A kernel marks the whole
// microseconds that begin inside of it; computing is what kernels of computing mark, uncovered
// communication what only collectives mark. An NPU's trace holds an overlap analysis of its own.
// Each computing kernel goes to one bucket: by the operator that launched it (flash attention,
// convolution, matmul), else by its own name; "cube" are kernels for matrix units. Uncovered
// communication is split per group into waiting and transfer by the tasks of the plane that waits
// least, since the other planes wait for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/perf/options.h"
#include "src/profile/profile.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::analysis::perf {

// ---- Kinds of work by names of operators and kernels, without regard to case ----

enum class OperatorKind : uint8_t { kOther, kFlashAttention, kConvolution, kMatmul };
OperatorKind KindOfOperator(std::string_view name);

// bwd, backward, back or grad in the name.
bool IsBackwardName(std::string_view name);

// GPU kernels for matrix units (gemm, conv, ...). All others are vector work, flash attention too.
bool IsGpuCubeKernel(std::string_view name);
// GPU copies and fills that run on the computing stream.
bool IsGpuCopy(std::string_view name);

// NPU kernels, by the type that kernel details give, or by name.
enum class NpuKind : uint8_t {
  kOther,
  kPagedAttention,
  kTensorMove,
  kCombined,  // computes and communicates in one
  kFlashAttention,
  kConvolution,
  kMatmul,
};
NpuKind KindOfNpuKernel(std::string_view name, std::string_view type);
// Casts and changes of layout.
bool IsTransformation(std::string_view kernel_name);

// ---- Overlap of time intervals ----

using Intervals = std::vector<profile::Interval>;  // by rising start

// Time of `within` that `events` fill, walking both once. Events that overlap each other count
// twice.
profile::Nanoseconds OverlapTime(std::span<const profile::Interval> within,
                                 std::span<const profile::Interval> events);

// The parts of `events` that lie in `within`: of each event one part per interval that ends inside
// of it, and one for the interval it ends in.
Intervals Clip(std::span<const profile::Interval> events,
               std::span<const profile::Interval> within);

// Lengths of what computing covers, and of what only communication covers.
struct Coverage {
  int64_t computing = 0;
  int64_t communication_only = 0;
};
struct Mark {
  int64_t begin = 0;
  int64_t end = 0;
  bool is_computing = false;
};
Coverage Cover(const std::vector<Mark>& marks);

// Time and number of kernels of one kind.
struct Bucket {
  double ms = 0;
  int64_t count = 0;
};
inline Bucket operator+(const Bucket& a, const Bucket& b) {
  return {a.ms + b.ms, a.count + b.count};
}

struct CombinedKernel {  // computes and communicates in one (MC2)
  std::string name;
  double total_ms = 0;
  double computing_ms = 0;
  double communication_ms = 0;
  int64_t count = 0;
};
struct GroupTime {
  std::string name;           // "Group 0 Communication"
  std::string parallel_name;  // "tp" or empty
  double wait_ms = 0;
  double transmit_ms = 0;
};
struct GroupOverlap {
  std::string first;
  std::string second;
  double ms = 0;
};
struct OverallTimes {
  bool has_kernel_metrics = false;  // cube and vector are distinguished
  Bucket flash_forward_cube, flash_forward_vector, flash_backward_cube, flash_backward_vector;
  Bucket conv_forward_cube, conv_forward_vector, conv_backward_cube, conv_backward_vector;
  Bucket matmul_cube, matmul_vector;
  Bucket paged_attention, vector_trans, vector_no_trans, other_cube;
  Bucket tensor_move, stream_copies, lccl;  // lccl in ms, too
  std::vector<CombinedKernel> combined;
  std::vector<GroupTime> groups;
  std::vector<GroupOverlap> overlaps;
  double computing_s = 0;
  double uncovered_s = 0;
  double wait_s = 0;
  double free_s = 0;
  double end_to_end_s = 0;
  double other_s = 0;
  double memory_gb = 0;
  double rdma_gbps = 0;
  double sdma_gbps = 0;

  Bucket flash_forward() const { return flash_forward_cube + flash_forward_vector; }
  Bucket flash_backward() const { return flash_backward_cube + flash_backward_vector; }
  Bucket conv_forward() const { return conv_forward_cube + conv_forward_vector; }
  Bucket conv_backward() const { return conv_backward_cube + conv_backward_vector; }
  Bucket matmul() const { return matmul_cube + matmul_vector; }
  Bucket vector() const { return vector_trans + vector_no_trans; }
  double combined_ms() const;
};
// Also fills in warnings ("no overlap analysis data"). Fails where the reference calls it an error.
// `gpu_kernels`: those of a GPU to measure, where these are not all (a step).
Result<OverallTimes> MeasureOverall(const profile::Profile& side, const PairOptions& options,
                                    std::vector<std::string>& warnings,
                                    const std::vector<profile::Kernel>* gpu_kernels = nullptr);

// The sheet OverallMetrics: what each side's time consists of. Empty unless both end-to-end times
// are known.
report::FormattedTable OverallSheet(const OverallTimes& base, const OverallTimes& comparison,
                                    const PairOptions& options);

}  // namespace msprobe::analysis::perf
