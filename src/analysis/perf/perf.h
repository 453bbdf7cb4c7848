// Why is this run slower or fatter than that one? Two profiles of the same training, compared.
// Every difference is comparison minus base; every ratio comparison over base; above 1 is worse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/thread_pool.h"
#include "src/profile/profile.h"
#include "src/report/formatted_xlsx.h"

namespace msprobe::analysis::perf {

// How two sequences of operators are laid beside each other.
enum class Alignment : uint8_t {
  kLegacy,  // as the Python tool does it, to the pair
  kLongest  // a longest common subsequence
};

struct Options {
  std::filesystem::path comparison;  // -d: the profile to judge
  std::filesystem::path base;        // -bp
  bool overall = true;               // --enable_profiling_compare
  bool operators = true;
  bool memory = true;
  bool communication = true;
  bool api = true;
  bool kernels = true;
  bool details = true;                                // off: --disable_details
  bool modules = true;                                // off: --disable_module
  std::optional<int64_t> max_kernels;                 // --max_kernel_num, above 3
  std::map<std::string, std::string> operator_names;  // --op_name_map, for both sides
  bool use_input_shape = false;
  std::string gpu_flow_category;
  std::optional<std::string> base_step;
  std::optional<std::string> comparison_step;
  bool use_kernel_type = false;
  // Beyond the Python tool.
  Alignment alignment = Alignment::kLegacy;
  bool match_collectives_by_kind = true;  // in the answer; the sheet keeps the profilers' names
  bool exact_time = false;                // GPU: intervals in ns instead of whole microseconds
  std::optional<int64_t> base_rank;
  std::optional<int64_t> comparison_rank;
  bool strict = false;
  // Patterns of operator names (* and ?) whose device time is summed up by name.
  std::vector<std::string> watched_operators;
};

// Time and number of kernels of one kind.
struct Bucket {
  double ms = 0;
  int64_t count = 0;
};
inline Bucket operator+(const Bucket& a, const Bucket& b) {
  return {a.ms + b.ms, a.count + b.count};
}

// Section 6 of the numbers: what one side's time consists of.
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
  bool has_kernel_metrics = false;  // cube and vector can be told apart
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
Result<OverallTimes> MeasureOverall(const profile::Profile& side, const Options& options,
                                    std::vector<std::string>& warnings);

// Shares of the time from the first to the last work, in ms. They are parts of a whole: end_to_end
// is the sum of the four below it, none is negative.
struct TimeSplit {
  bool of_host =
      false;  // no device was profiled: computing is the time in operators, idle the rest
  double end_to_end = 0;
  double computing = 0;
  double communication = 0;  // while nothing computes
  double copies = 0;         // while nothing computes or communicates
  double idle = 0;
};

// Device time (ms, overlap counted twice) that no operator of the profile can be charged with.
struct UnownedTime {
  double device = 0;  // all device time, for comparison
  double graphs = 0;  // kernels of graphs that were launched outside of operators
  double copies = 0;
  double earlier = 0;  // launched before the profile began
  double outside = 0;  // launched outside of operators
  double unknown = 0;  // nothing tells what launched it
  double total() const { return graphs + copies + earlier + outside + unknown; }
};

// The answer in one line: "SLOWER by 12.4 % (99.2 -> 111.5 ms), mostly aten::mm: +11.0 ms".
struct Verdict {
  std::string word;    // SLOWER, SAME, FASTER; empty where nothing tells
  double percent = 0;  // of the end-to-end time, per step where the sides hold unequal numbers
  std::string text;
};

// One regression or gain worth telling, largest first.
struct Finding {
  std::string where;       // "aten::mm in MmBackward0 under nn.Module: MLP (backward)"
  std::string metric;      // one of findings.h
  std::string note;        // in which respect it changed: calls, shapes, kernels; may be empty
  std::string call_stack;  // of the first such call or module, outermost first; empty if unknown
  double base = 0;         // ms or MB
  double comparison = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
};

// Kernels of one name, or of one family (the name is empty), on the device.
struct KernelChange {
  std::string family;
  std::string name;
  double base_ms = 0;
  double comparison_ms = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
  int64_t added = 0;  // kernels of a family that only the comparison ran
  int64_t removed = 0;
};

// Collectives of one kind, whoever's library ran them.
struct Collective {
  std::string kind;  // "all_reduce"
  double base_ms = 0;
  double comparison_ms = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
};

// What the operators that match one pattern took on the device, with everything below them; one
// inside of another counts once.
struct Watched {
  std::string pattern;
  double base_ms = 0;
  double comparison_ms = 0;
  int64_t base_calls = 0;
  int64_t comparison_calls = 0;
};

struct Comparison {
  profile::Device base_device = profile::Device::kGpu;
  profile::Device comparison_device = profile::Device::kGpu;
  std::optional<OverallTimes> base_times;  // when overall was asked for
  std::optional<OverallTimes> comparison_times;
  // When overall was asked for and the side tells it: to the nanosecond, all streams.
  std::optional<TimeSplit> base_split;
  std::optional<TimeSplit> comparison_split;
  std::optional<UnownedTime> base_unowned;  // of sides with device work
  std::optional<UnownedTime> comparison_unowned;
  bool base_communicates = false;  // holds collectives
  bool comparison_communicates = false;
  Verdict verdict;
  std::vector<report::FormattedTable> sheets;  // in workbook order; only those with rows
  std::vector<KernelChange> kernel_families;
  std::vector<KernelChange> kernel_changes;  // largest difference first
  report::FormattedTable kernel_table;       // beside the workbook; empty: no kernels
  std::vector<Finding> findings;
  std::vector<Collective> collectives;  // largest difference first
  std::vector<Watched> watched;         // as options.watched_operators
  std::vector<std::string> warnings;
};

// Reads both sides side by side and compares what `options` ask for. What one part of it lacks (no
// kernels, no memory events) is a warning; an error when nothing is left to compare.
Result<Comparison> Compare(const Options& options, base::ThreadPool& pool);

}  // namespace msprobe::analysis::perf
