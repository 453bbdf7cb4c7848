// Comparisons in which a side is a kernel dump: kernels with kernels, and kernels with the API call
// that they belong to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pairing.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

// Finds the kernel tensors that are the tensors of a call.

// Statistics that were computed elsewhere differ by roundings; those of other tensors by far more.
inline constexpr double kSameTensor = 1e-3;

// The tensors of one call, and the kernel rows that stand for them.
struct CallMatch {
  struct Row {
    uint32_t kernel = 0;  // indices into Side::rows
    uint32_t call = 0;
    double distance = 0;  // relative, of the statistics
  };
  uint32_t entry = 0;     // of the call
  std::vector<Row> rows;  // by kernel row
  size_t tensors = 0;     // of the call
  bool has_output = false;
  double farthest = 0;  // the largest distance
};

// Each tensor of a call has the kernel tensor beside it that has its shape (axes of size 1 aside)
// and direction and the nearest statistics. Of equally near ones the one of the same dtype, then
// the first kernel that read an input, the last one that wrote an output.
class CallFinder {
 public:
  // Kernel tensors of one shape and direction, with statistics of their own each, beside which a
  // tensor of a call is put: the first ones of that shape.
  static constexpr size_t kMostAlike = 10'000;

  // Both must outlive this.
  CallFinder(const Side& kernels, const Side& calls);
  CallMatch Match(uint32_t entry) const;  // an index into calls.entries
  // Kernel tensors beyond kMostAlike, which are not looked at.
  size_t left_out() const { return left_out_; }
  std::string LeftOutText() const;  // a warning of them

 private:
  // Kernel rows that differ in nothing that is looked at: of shape, direction, dtype and
  // statistics.
  struct Alike {
    std::vector<uint32_t> rows;  // ascending
    std::optional<DType> dtype;
  };
  using Place = std::pair<Shape, bool>;  // without ones; whether an output
  // How many kernel rows of each group belong to rows of the call.
  using Taken = std::unordered_map<uint32_t, uint32_t>;

  // The kernel row for a row of the call, kNoRow if there is none; it is counted in `taken`.
  uint32_t Nearest(const SideRow& row, Taken& taken, double& nearest) const;

  const Side& kernels_;
  const Side& calls_;
  std::vector<Alike> groups_;
  std::map<Place, std::vector<uint32_t>> groups_of_;  // into groups_
  size_t left_out_ = 0;
};

// Kernel dumps as a side of a comparison: an entry per kernel in the order in which they ran, a row
// per input and output, in the shape that the framework knows.

// The kernels of one device in one step.
struct KernelRun {
  std::optional<int64_t> step;               // of a folder "step3" on the way
  std::optional<int64_t> device;             // the number of the folder that the files lie in
  std::filesystem::path path;                // the folder of the first file
  std::vector<kernel_dump::DumpPath> files;  // by time, overflow records left out
};

// Whether a path leads to kernel dumps and to no dump.json: a kernel dump file, or a folder that
// holds one somewhere.
bool LeadsToKernelDumps(const std::filesystem::path& path);

// Sorted by step and device. kNotFound when there is no kernel dump.
Result<std::vector<KernelRun>> FindKernelRuns(const std::filesystem::path& path);

struct KernelSide {
  Side side;                                 // header.task is "tensor"
  std::vector<std::filesystem::path> files;  // by SideRow::entry
  // Rows that are read in another shape of as many elements, by SideRow::entry and leaf.
  std::map<std::pair<uint32_t, uint32_t>, Shape> shapes;
};

// Entries are called {op type}.{op name}.{n}.forward, n counting the kernels of that type and name
// from 0, rows {entry}.{input|output}.{number}; SideRow::leaf numbers the inputs and then the
// outputs of a file. Dots in names become '_'. Statistics are computed from the elements. A file
// or tensor that cannot be read is a row with a problem, or a warning.
KernelSide LoadKernelSide(const KernelRun& folder, base::ThreadPool& pool);

// Reads the tensors of rows made by LoadKernelSide. A side that is null is read as its files are.
class KernelTensors final : public TensorLoader {
 public:
  KernelTensors(const KernelSide* npu, const KernelSide* bench) : npu_(npu), bench_(bench) {}
  Result<std::optional<LoadedTensor>> Load(bool of_npu, const SideRow& row) const override;

 private:
  const KernelSide* npu_;
  const KernelSide* bench_;
};

struct KernelRunPair : PlannedPair {
  KernelRun npu;
  KernelRun bench;  // without files: input.bench_json is the dump of the call
};

struct KernelPlan {
  std::vector<KernelRunPair> pairs;
  std::vector<std::string> npu_only;
  std::vector<std::string> bench_only;
};

// options.npu_path leads to kernel dumps; options.bench_path to kernel dumps, or to an ordinary
// dump that has the call. Steps and devices pair by number, and where either side has one of them
// only whatever the number. kUsage when only the bench side is a kernel dump.
Result<KernelPlan> PlanKernels(const Options& options);

// Kernels of equal type and name pair in the order in which they ran, their tensors by direction
// and number.
//
// With the dump of a call (options.folders.kernel_call names it, or the only one whose tensors are
// all found) each tensor of the call has the kernel tensor beside it that has its shape and the
// nearest statistics: of inputs the first such, of outputs the last. Other kernel tensors have no
// row.
Result<ComparedPair> CompareKernels(const Options& options, const KernelRunPair& pair,
                                    base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
