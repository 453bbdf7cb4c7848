// Finds the kernels that overflowed on a device, and the calls that ran them: `msprobe parse
// overflow`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/kernels/stats.h"
#include "src/report/document.h"

namespace msprobe::analysis::nonfinite {

struct OverflowOptions {
  std::filesystem::path dumps;  // folder with overflow records and kernel dumps
  // Dump of the API calls above the kernels: a dump.json, a rank, a step or a whole dump. Empty:
  // the one that lies beside the records, if there is one.
  std::filesystem::path calls;
  std::filesystem::path ir;  // text of the MindSpore graph that the kernels belong to; may be empty
  std::filesystem::path output;  // folder of overflow_summary_<time>.txt; empty: none
  int64_t most = 1;              // records that are looked at, from the first one on; 0: all
};

// A tensor of the kernel, in the layout of the device.
struct KernelTensor {
  bool is_output = false;
  size_t number = 0;
  std::string file;  // "<dump>.input.0.npy", as `parse` calls it
  std::string format;
  Shape shape;
  kernels::TensorStats stats;
  DType dtype = DType::kFloat32;
  Status status;  // not ok: it cannot be read

  std::string name() const;       // "output.0"
  uint64_t bad_elements() const;  // NaN and infinities
};

// The origin of bad values by the tensors of the kernel.
enum class OverflowOrigin : uint8_t {
  kUnknown,    // there is no dump of the kernel, or nothing of it can be read
  kMade,       // its inputs are finite, an output is not
  kPassedOn,   // an input was not finite
  kSaturated,  // all finite; an output holds the largest number of its dtype
  kInside,     // all finite: what overflowed stayed inside of the kernel
};

// The call of the framework that ran the kernel.
struct Call {
  std::string name;                 // "Torch.mul.0.forward"
  std::filesystem::path dump;       // the dump.json
  std::string code_line;            // "route.py:17 in forward: ..."; empty: not recorded
  std::vector<std::string> stack;   // innermost frame first
  size_t found = 0;                 // tensors of the kernel that are tensors of the call
  size_t tensors = 0;               // of the kernel
  std::vector<std::string> others;  // calls that fit as well, later ones
};

struct Overflow {
  std::filesystem::path record;
  uint64_t timestamp = 0;  // microseconds since 1970
  uint64_t task_id = 0;
  uint64_t stream_id = 0;
  std::string unit;  // "AI Core"
  std::optional<uint64_t> core_id;
  std::vector<uint64_t> status;
  bool has_many_statuses = false;
  // The kernel with the same task and stream, the earliest one; empty where it was not dumped.
  std::filesystem::path dump;
  std::string op_type;
  std::string op_name;
  std::vector<KernelTensor> tensors;  // inputs, then outputs
  OverflowOrigin origin = OverflowOrigin::kUnknown;
  std::optional<Call> call;
  std::string graph_scope;  // of the graph's operator, when a graph was given
  std::string graph_code;   // its lines of code

  bool overflowed() const;  // a status that is not zero
};

struct OverflowFindings {
  std::vector<Overflow> overflows;  // in order of time
  uint64_t records = 0;             // overflow records in the folder
  std::vector<std::pair<std::filesystem::path, Status>> unreadable;
  std::vector<std::string> warnings;
  std::filesystem::path calls;    // the dump that kernels were looked up in; empty: none
  std::filesystem::path summary;  // the file, when one was asked for
};

// kNotFound when the folder holds no overflow record. A record that cannot be read is reported in
// the findings, and the others go on.
Result<OverflowFindings> FindOverflows(const OverflowOptions& options);

// Whether overflow records lie in a folder or below it, at most six levels down. Looks at names
// only, and not into rank folders of a dump.
bool HoldsRecords(const std::filesystem::path& folder);

// The text of the summary, as the Python tool writes it.
std::string SummaryText(const OverflowFindings& findings);

inline constexpr std::array<report::GateLevel, 1> kOverflowGateLevels = {
    {{"overflow", "an operator that overflowed"}}};

report::Document MakeDocument(const OverflowFindings& findings);

// One line about an overflow: "Mul (sharpen) on stream 2, task 14, in Torch.mul.0.forward
// (route.py:17 in forward: ...)".
std::string Sentence(const Overflow& overflow);

}  // namespace msprobe::analysis::nonfinite
