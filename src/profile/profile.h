// One profiled run of a training, as far as comparing two of them asks for it: what the host
// called, what the device ran, what moved between devices, what was allocated. The same model for
// PyTorch's GPU traces and for Ascend's text files and databases; who reads it need not know which
// it was, except where `device` or `source` says that a rule differs.
//
// Times are nanoseconds as integers. Sums of durations are made of `duration_us`, the number that
// the file itself gives, as doubles in event order: so they agree to the last bit with other tools.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/profile/common/values.h"

namespace msprobe::profile {

inline constexpr double kNanosecondsPerUs = 1e3;
inline constexpr double kBytesPerGb = 1024.0 * 1024.0 * 1024.0;  // as the profilers count them

inline constexpr int64_t kNoCorrelation = -1;

enum class Device : uint8_t { kGpu, kNpu };
enum class Source : uint8_t {
  kTrace,
  kText,
  kDatabase
};  // one trace file, csv beside it, or a .db

// The parts to read. Everything else in the files is skipped without being kept; some results
// depend on what was loaded, and follow the table of docs/formats/profiles.md.
struct Needs {
  bool operators = false;            // host operators
  bool kernels = false;              // device kernels of the trace
  bool flows = false;                // which operator launched which kernel
  bool python_calls = false;         // python functions and modules, and the forward-backward links
  bool memory = false;               // allocations
  bool communication = false;        // collectives and their tasks, groups
  bool overlap = false;              // overlap analysis (NPU)
  bool kernel_details = false;       // kernel_details.csv, or the kernels of a database
  bool operator_statistics = false;  // op_statistic.csv
  bool gpu_kernels = false;          // kernels with what launched them, of GPU traces only
  bool bandwidth = false;            // communication.json
  std::string flow_category;         // GPU: instead of the built-in ones; lower case, empty: those
  std::optional<int64_t> step;       // only for sources that filter while reading (databases)
  bool strict = false;               // a damaged file is an error instead of a warning
};

// The kind of a call on the host. A marked range (user annotation) only says what goes on inside of
// it.
enum class CallKind : uint8_t { kOperator, kAnnotation, kRuntime };

// A call on the host: an operator, a runtime call, a marked range. In file order.
struct Operator {
  TextId name = kNoText;
  TextId thread = kNoText;  // as the file spells it
  TextId process = kNoText;
  TextId shapes = kNoText;  // as printed: "[[64, 3], []]" for lists, texts as they are; "N/A"
  TextId types = kNoText;
  TextId shape_key = kNoText;   // for matching: "64,3;\r\n", equal on GPU and NPU
  TextId call_stack = kNoText;  // "Call stack", with its line ends; kNoText prints as "N/A"
  Nanoseconds start = 0;
  Nanoseconds end = 0;  // inclusive: a call that starts here is still inside
  double duration_us = 0;
  // False: what was launched at its start belongs to another operator of the same start. Databases
  // list a call several times.
  bool launches = true;
  CallKind kind = CallKind::kOperator;
};

// A call of the runtime or the driver (cudaLaunchKernel, hipGraphLaunch, cuLaunchKernelEx, ...) in
// a GPU trace. Those of the runtime are in Profile::operators, too.
struct RuntimeCall {
  TextId name = kNoText;
  TextId process = kNoText;
  TextId thread = kNoText;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  int64_t correlation = kNoCorrelation;  // work on the device that it started has the same
};

// Work on the device. Later ones with equal process, thread and start have replaced earlier ones.
struct Kernel {
  TextId name = kNoText;
  TextId process = kNoText;
  TextId thread = kNoText;
  TextId task_type = kNoText;  // NPU, as in the trace ("AI_CORE"); GPU: the category
  TextId task_id = kNoText;    // NPU; kNoText prints as "None"
  TextId shapes = kNoText;     // NPU: of the row of kernel details that starts at the same time
  int64_t stream = 0;
  bool has_stream = false;
  bool is_communication = false;  // GPU: nccl; NPU: a collective that was linked like a kernel
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  double duration_us = 0;
  int64_t correlation = kNoCorrelation;  // GPU: of the runtime call that started it
  TextId collective = kNoText;  // GPU: "allreduce", where the profiler recorded what it does
  TextId group = kNoText;       // GPU: the ranks of its group, "[0,1]", else the group's name
  int64_t elements = 0;         // GPU: that go into the collective, where recorded
};

// Complete links from a point on the host to one on the device, in order of first appearance.
struct Flow {
  Nanoseconds start = 0;  // on the host
  Nanoseconds end = 0;    // on the device
  TextId start_process = kNoText;
  TextId end_process = kNoText;
  TextId end_thread = kNoText;
  TextId start_thread = kNoText;  // unknown in databases
};

struct PythonCall {
  TextId name = kNoText;
  bool is_module = false;  // the name starts with "nn.Module:"
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  TextId process = kNoText;
  TextId thread = kNoText;  // unknown in databases
};

// One allocation. The texts are verbatim from the file, for printing.
struct Allocation {
  TextId name = kNoText;  // kNoText: takes the name of the operator it lies in
  Nanoseconds at = 0;     // host time that places it in the tree of operators
  TextId allocated = kNoText;
  TextId released = kNoText;  // what is printed for a missing one, too ("None", "0", "0.0")
  double duration_us = 0;     // 0 when either end is missing
  double size_kb = 0;
  bool size_is_integer = false;  // print "524288" rather than "524288.0"
};

struct CommunicationTask {
  TextId name = kNoText;
  TextId plane = kNoText;
  int64_t operation = -1;  // databases: the CommunicationOperator::id it belongs to
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  double duration_us = 0;
};

struct CommunicationOperator {
  TextId name = kNoText;  // as in the file: hcom_allReduce__429_0_1, ncclKernel_AllReduce_...
  TextId kind = kNoText;  // databases: the type, which names it instead; else kNoText
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  double duration_us = 0;
  int64_t id = -1;  // databases: joins tasks by number instead of by time
};

// A group of ranks (NPU), its operators and the tasks of each of its planes, in sort order.
struct CommunicationGroup {
  TextId name = kNoText;            // "Group 0 Communication"
  TextId parallel_name = kNoText;   // "tp", from profiler_metadata.json; kNoText when unknown
  TextId ranks = kNoText;           // "[0,1]", from there, too
  std::vector<uint32_t> operators;  // into Profile::communication
  std::vector<std::pair<TextId, std::vector<uint32_t>>> planes;  // into communication_tasks
};

struct Interval {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  double duration_us = 0;
};

// Time of an NPU's units on a kernel. NaN: empty or N/A in the file.
struct KernelMetrics {
  double vector_us = std::numeric_limits<double>::quiet_NaN();  // aiv_vec_time
  double aicore_us = std::numeric_limits<double>::quiet_NaN();
  double mac_us = std::numeric_limits<double>::quiet_NaN();  // mac_time
  // For kernels that compute and communicate in one: aic_mac_time, aic_mte2_time, aiv_time.
  double cube_us = std::numeric_limits<double>::quiet_NaN();
  double load_us = std::numeric_limits<double>::quiet_NaN();
  double vector_core_us = std::numeric_limits<double>::quiet_NaN();
};

// A row of kernel_details.csv, or a kernel of a database.
struct KernelDetail : KernelMetrics {
  TextId step = kNoText;
  TextId name = kNoText;
  TextId type = kNoText;
  TextId core_type = kNoText;  // databases
  TextId shapes = kNoText;
  Nanoseconds start = 0;
  double duration_us = 0;
  bool is_cube = false;  // decided by the source's own rule
};

// A row of op_statistic.csv, values as in the file.
struct OperatorStatistic {
  TextId type = kNoText;
  TextId core_type = kNoText;
  double count = 0;
  double total_us = 0;
  double average_us = 0;
  double max_us = 0;
  double min_us = 0;
};

struct Bandwidth {  // GB/s of one step
  std::string step;
  double rdma = 0;
  double sdma = 0;
};

struct Step {
  std::string id;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

struct Profile {
  std::filesystem::path path;  // as given
  Device device = Device::kGpu;
  Source source = Source::kTrace;
  std::optional<int64_t> rank;

  Texts texts;
  std::vector<Operator> operators;
  std::vector<Kernel> kernels;
  // GPU: fills (memset), and kernels that another one of the same place and start has replaced in
  // `kernels`. Tables in the Python tool's form leave them out.
  std::vector<Kernel> further_device_work;
  std::vector<RuntimeCall> runtime_calls;
  std::vector<Flow> flows;
  std::vector<PythonCall> python_calls;
  std::vector<Flow> forward_backward;  // start: the forward operator, end: the backward one
  std::optional<TextId> backward_thread;
  std::vector<Allocation> allocations;
  std::vector<CommunicationOperator> communication;
  std::vector<CommunicationTask> communication_tasks;
  std::vector<CommunicationGroup> groups;
  std::vector<Interval> computing;  // NPU overlap analysis
  std::vector<Interval> uncovered;
  std::vector<KernelDetail> kernel_details;
  bool has_kernel_metrics = false;  // columns that distinguish cube and vector were there
  std::vector<OperatorStatistic> operator_statistics;
  std::vector<Interval> core_tasks;  // C_CORE_SQE events (kernels that compute and communicate)
  std::vector<Bandwidth> bandwidth;
  double memory_used_gb = 0;
  std::vector<Step> steps;  // of step markers

  // Each once: a missing csv, events left out, ...
  std::vector<std::string> warnings;
};

// Finds out what `path` is (a trace, plain or .gz, a folder of traces, an Ascend folder, a
// database) and reads it in one pass per file. `rank` chooses among the traces of a folder.
Result<Profile> ReadProfile(const std::filesystem::path& path, const Needs& needs,
                            std::optional<int64_t> rank = std::nullopt);

// The ranks that a folder of many profiles holds, with the path of each; one without a rank for a
// path that is a single profile.
struct RankPath {
  std::optional<int64_t> rank;
  std::filesystem::path path;
};
Result<std::vector<RankPath>> FindProfiles(const std::filesystem::path& path);

}  // namespace msprobe::profile
