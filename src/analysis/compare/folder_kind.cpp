#include "src/analysis/compare/folder_kind.h"

#include "src/analysis/compare/graph_folders.h"
#include "src/analysis/compare/kernel/kernel_side.h"
#include "src/analysis/compare/line26/atb_compare.h"
#include "src/analysis/compare/tensor_folder.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::compare {
namespace {

// What could not be looked at may be anything: that error is told, and nothing else is guessed.
bool IsUnreadable(const Result<dump::DumpLayout>& found) {
  return !found.ok() && found.status().code() == StatusCode::kIo;
}

}  // namespace

FolderKind FolderKindOf(const Options& options) {
  if (options.line26 && options.line26->torchair) {
    return FolderKind::kTorchair;
  }
  if (options.rank_ids) {
    return FolderKind::kGraph;
  }
  if (options.common_folders) {
    return FolderKind::kCommon;
  }
  if (options.line26) {
    return options.line26->atb ? FolderKind::kAtb : FolderKind::kCalls;
  }
  const Result<dump::DumpLayout> npu = dump::FindDump(options.npu_path);
  const Result<dump::DumpLayout> bench = dump::FindDump(options.bench_path);
  const bool calls_here = npu.ok();
  if ((npu.ok() && bench.ok()) || IsUnreadable(npu) || IsUnreadable(bench)) {
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
