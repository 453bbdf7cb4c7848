// The gradients of one process, step by step:
//
//   <dump_path>/rank<R>/grad_summary_<step>.csv
//   <dump_path>/rank<R>/step<step>/<parameter>.npy    levels L1 and L2: bool, above 0 or not;
//                                  <parameter>.npz    or as bits: `bits` of uint8 as numpy.packbits
//                                                     has them, `shape` of int64
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/base/files.h"
#include "src/grad_probe/file_queue.h"
#include "src/grad_probe/settings.h"

namespace msprobe::grad_probe {

class Probe {
 public:
  explicit Probe(Settings settings);

  const Settings& settings() const { return settings_; }

  // Whether a step of a rank is selected; `finished`: no later one is.
  bool Selects(int64_t rank, int64_t step, bool& finished) const;

  // Makes the folders and removes the table that an earlier run left of this step.
  Status BeginStep(int64_t rank, int64_t step);
  // A gradient of the step in progress; an error loses its row and nothing else.
  Status Put(std::string_view name, const TensorView& gradient);
  // The table goes to the disk; an error tells of anything that could not be written so far.
  Status EndStep();
  // Waits until all files are there.
  Status Flush() { return files_.Flush(); }
  void AfterFork() { files_.Abandon(); }

 private:
  Settings settings_;
  base::Path table_;
  base::Path signs_folder_;
  std::string rows_;
  FileQueue files_;
};

}  // namespace msprobe::grad_probe
