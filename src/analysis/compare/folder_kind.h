// What lies at the two paths of a comparison, where the command line does not say.
#pragma once

#include <cstdint>

#include "src/analysis/compare/options.h"

namespace msprobe::analysis::compare {

enum class FolderKind : uint8_t {
  kCalls,     // dump.json files, one per step and rank; also where nothing can be recognised
  kKernels,   // kernel dumps, or kernel dumps and the calls above them
  kAtb,       // execution rounds of the Ascend Transformer Boost
  kTorchair,  // graphs that torchair runs: kernels of GE, arrays of FX
  kGraph,     // kernels of a MindSpore graph as .npy files or a statistic.csv
  kTensors,   // a .pt file per tensor, of a captured ACL graph
  kCommon,    // .npy files of single-point saves
};

// What options ask for; else by the files there. ATB rounds, graphs and tensor files must be
// on both sides.
FolderKind FolderKindOf(const Options& options);

}  // namespace msprobe::analysis::compare
