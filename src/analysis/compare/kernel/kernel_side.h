// Kernel dumps as a side of a comparison: an entry per kernel in the order in which they ran, a row
// per input and output, in the shape that the framework knows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/kernel_dump/dump_files.h"
#include "src/base/threads.h"

namespace msprobe::analysis::compare {

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
  Result<std::optional<tensor::TensorBuffer>> Load(bool of_npu, const SideRow& row) const override;

 private:
  const KernelSide* npu_;
  const KernelSide* bench_;
};

}  // namespace msprobe::analysis::compare
