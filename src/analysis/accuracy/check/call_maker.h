// One recorded call as a frame for the worker; or why it is not run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/accuracy/check/arguments.h"
#include "src/analysis/accuracy/check/options.h"
#include "src/analysis/accuracy/common/outcome.h"
#include "src/analysis/accuracy/common/output_judge.h"
#include "src/analysis/accuracy/common/standards.h"
#include "src/dump/entry_scan.h"

namespace msprobe::analysis::accuracy {

// The calls of a dump.json that can be checked, in file order: where their records lie.

struct RecordPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct DumpCall {
  std::string name;  // "Torch.matmul.0"
  RecordPlace forward;
  std::optional<RecordPlace> backward;
};

struct DumpCalls {
  std::vector<DumpCall> calls;
  std::string framework;                // "pytorch"; empty: the dump does not tell
  std::filesystem::path tensor_folder;  // of real data; empty: statistics
  bool truncated = false;
  std::vector<std::string> warnings;
};

// Names that belong to no call are an error, as are files without data.
Result<DumpCalls> ReadDumpCalls(const std::filesystem::path& path);

struct MadeCall {
  std::string frame;
  bool has_float8_input = false;
  // In the memory of the call.
  std::vector<ArgumentMaker::Leaf> arguments;
  std::vector<ArgumentMaker::Leaf> keywords;
  std::vector<ArgumentMaker::Leaf> gradients;
};

OutputJudgeOptions JudgeOptionsOf(const CheckOptions& options, const MadeCall& made);

class CallMaker {
 public:
  CallMaker(const CheckOptions& options, const Standards& standards, const DumpCalls& dump,
            const dump::EntryAccess& records)
      : options_(options), standards_(standards), dump_(&dump), records_(&records) {}
  // For calls that come without a dump: only MakeReceived can be called.
  CallMaker(const CheckOptions& options, const Standards& standards)
      : options_(options), standards_(standards) {}

  // Why the call is not even made; nullopt: it is. The words are for the results.
  std::optional<std::string> WhyNot(const DumpCall& call) const { return WhyNot(call.name); }
  std::optional<std::string> WhyNot(std::string_view call_name) const;

  // Draws from `generator`, or reads files, into `memory`. An error is the reason in the results.
  // `overflow`: forward only, in the recorded dtypes on both sides.
  Result<MadeCall> Make(const DumpCall& call, TorchGenerator& generator, SharedMemory& memory,
                        bool overflow) const;
  // Forward only, of a call whose record and tensors are here.
  Result<MadeCall> MakeReceived(const std::string& name, const dump::EntryTree& record,
                                const TensorSource& tensors, SharedMemory& memory) const;

 private:
  // `tensors`: where those of the record are; null: as the dump says.
  Result<MadeCall> MakeFrom(const std::string& call_name, const dump::EntryTree& record,
                            const std::optional<RecordPlace>& gradients,
                            const TensorSource* tensors, TorchGenerator& stream,
                            SharedMemory& memory, bool overflow) const;
  struct Precision {
    std::string raised;
    std::string autocast;
  };
  Precision PrecisionOf(std::string_view api, const std::set<DType>& dtypes,
                        const dump::EntryTree& record) const;

  const CheckOptions& options_;
  const Standards& standards_;
  const DumpCalls* dump_ = nullptr;  // with records_
  const dump::EntryAccess* records_ = nullptr;
};

// Indices of calls that are like an earlier one of the same operator, which `-f` leaves out.
Result<std::vector<bool>> RepeatedCalls(const DumpCalls& dump, const dump::EntryAccess& records,
                                        bool strict);

}  // namespace msprobe::analysis::accuracy
