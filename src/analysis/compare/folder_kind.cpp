#include "src/analysis/compare/folder_kind.h"

#include "src/analysis/compare/graph_folders.h"
#include "src/analysis/compare/kernel/kernel_side.h"
#include "src/analysis/compare/line26/atb_compare.h"
#include "src/analysis/compare/tensor_folder.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {

FolderKind FolderKindOf(const Options& options) {
  if (options.rank_ids) {
    return FolderKind::kGraph;
  }
  if (options.common_folders) {
    return FolderKind::kCommon;
  }
  if (options.line26) {
    return options.line26->atb ? FolderKind::kAtb : FolderKind::kCalls;
  }
  const bool calls_here = dump::FindDump(options.npu_path).ok();
  if (calls_here && dump::FindDump(options.bench_path).ok()) {
    return FolderKind::kCalls;
  }
  if (LeadsToKernelDumps(options.npu_path) || LeadsToKernelDumps(options.bench_path)) {
    return FolderKind::kKernels;
  }
  if (calls_here) {
    return FolderKind::kCalls;
  }
  if (IsAtbRound(options.npu_path) && IsAtbRound(options.bench_path)) {
    return FolderKind::kAtb;
  }
  if (HoldsGraphKernels(options.npu_path) && HoldsGraphKernels(options.bench_path)) {
    return FolderKind::kGraph;
  }
  return HoldsTensorFiles(options.npu_path) && HoldsTensorFiles(options.bench_path)
             ? FolderKind::kTensors
             : FolderKind::kCalls;
}

}  // namespace msprobe::analysis::compare
