#include "src/dump/recovery.h"

#include <cerrno>
#include <cstring>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "src/base/output_files.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"

namespace msprobe::dump {
namespace {

// The process ended right after it had made its log: there is nothing in it, and an empty file
// would be taken for a damaged one.
Result<bool> RemoveLogWithoutHeader(const base::Path& rank_folder) {
  const base::Path path = rank_folder / kRecordLogName;
  MSP_ASSIGN_OR_RETURN(const base::FileBytes log, base::FileBytes::Open(path));
  if (!RecordLog::EndsInHeader(log.text())) {
    return false;
  }
  if (::unlink(path.c_str()) != 0) {
    return IoError(fmt::format("cannot remove {}: {}", path.string(), std::strerror(errno)));
  }
  return true;
}

Result<uint64_t> RemoveUnfinished(const base::Path& folder) {
  uint64_t removed = 0;
  for (const std::string& name : base::NamesIn(folder)) {
    const bool of_log = name == std::string(kRecordLogName) + std::string(kUnfinishedEnd);
    if (!of_log && !(name.starts_with(kUnfinishedBegin) && name.ends_with(kUnfinishedEnd))) {
      continue;
    }
    const base::Path path = folder / name;
    if (::unlink(path.c_str()) != 0) {
      return IoError(fmt::format("cannot remove {}: {}", path.string(), std::strerror(errno)));
    }
    ++removed;
  }
  return removed;
}

Status CountTensorFiles(const base::Path& rank_folder, std::string_view file, Recovery& recovery) {
  const std::vector<std::string> names = base::NamesIn(rank_folder / kTensorFolderName);
  const std::unordered_set<std::string> there(names.begin(), names.end());
  std::unordered_set<std::string> named;
  LeafWalker walker;
  const Result<DumpHeader> header =
      ReadDumpFile(rank_folder / file, {}, [&](std::string_view name, const EntryTree& tree) {
        walker.ForEach(name, tree, [&](std::string_view /*leaf*/, uint32_t index) {
          const std::string data_name(LeafText(tree, index, "data_name"));
          if (data_name.empty() || data_name == "-1" || !named.insert(data_name).second) {
            return;
          }
          if (there.count(data_name) == 0 && recovery.missing_files++ == 0) {
            recovery.first_missing = data_name;
          }
        });
        return OkStatus();
      });
  recovery.named_files = named.size();
  return header.status();
}

}  // namespace

Result<Recovery> RecoverRankFolder(const base::Path& rank_folder) {
  if (IsBeingWritten(rank_folder / kRecordLogName)) {
    return IoError(fmt::format("{} is being written by a running process", rank_folder.string()))
        .WithHint("wait until it has ended; show and compare read its log as it is");
  }
  Recovery recovery;
  MSP_ASSIGN_OR_RETURN(recovery.nothing_recorded, RemoveLogWithoutHeader(rank_folder));
  // Before anything is written here, as a writer removes what it finds unfinished without counting.
  for (const base::Path& folder :
       {rank_folder, rank_folder / kTensorFolderName, rank_folder / kReducedTensorFolderName}) {
    MSP_ASSIGN_OR_RETURN(const uint64_t removed, RemoveUnfinished(folder));
    recovery.removed_files += removed;
  }
  if (!recovery.nothing_recorded) {
    MSP_ASSIGN_OR_RETURN(recovery.conversion, ConvertRecordLog(rank_folder, SourceFiles::kPython));
  }
  if (recovery.nothing_recorded) {
    return recovery;
  }
  const bool debug = base::IsRegularFile(rank_folder / kDebugFileName) &&
                     !base::IsRegularFile(rank_folder / kDumpFileName);
  MSP_RETURN_IF_ERROR(
      CountTensorFiles(rank_folder, debug ? kDebugFileName : kDumpFileName, recovery));
  return recovery;
}

}  // namespace msprobe::dump
