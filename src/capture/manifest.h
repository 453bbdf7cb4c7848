// manifest.json: whether the dump of a rank of a step is complete, and what it holds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/capture/settings.h"
#include "src/capture/tensor_files.h"

namespace msprobe::capture {

// Maps rows of a flattened batch to requests of a service, and names the part of a tensor that a
// capture is about.

struct TensorDescription;

struct RequestRows {
  std::string id;
  int64_t begin = 0;
  int64_t end = 0;
};

// The part that belongs to the request, of tensors with one row per token of the batch; nullopt
// when it is not in the batch.
std::optional<TensorSlice> RowsOf(const std::vector<RequestRows>& batch, std::string_view id);

// Narrows shape and address to the parts asked for. Of several for a dimension, the last one that
// fits counts; dimensions that a tensor does not have are left aside. Needs a dtype to move the
// address: tensors without one keep their shape.
void TakeSlices(const std::vector<TensorSlice>& slices, TensorDescription& tensor);

// Facts about a step that a recheck needs and its calls do not record.
struct Remarks {
  enum Kind : uint8_t { kAlteredModule, kOwnGradient };
  // "Module.fc.Linear": why it computes more than its class does.
  std::map<std::string, std::string, std::less<>> altered_modules;
  // "Module.fc.Linear.weight": its gradient is that of the module's last call, and of nothing else.
  std::set<std::string, std::less<>> own_gradients;
};

struct Manifest {
  bool complete = false;  // everything that was recorded is in the files
  int64_t step = 0;
  std::optional<int64_t> rank;
  uint64_t entries = 0;  // names in dump.json
  uint64_t tensors = 0;
  TensorFileCounts files;
  uint64_t errors = 0;
  uint64_t lost_records =
      0;  // calls, values and stacks that no memory, device or log was there for
  uint64_t lost_record_bytes = 0;
  uint64_t dropped_records = 0;   // of calls, by the budget: that is not a failure
  uint64_t dropped_files = 0;     // the same
  uint64_t dropped_steps = 0;     // before this one
  uint64_t non_finite_calls = 0;  // task nan_check
  std::string first_non_finite;   // the first of them
  uint64_t compared_calls = 0;    // bench_path: with the same inputs
  uint64_t differing_calls = 0;   // of these, with another output
  std::string first_difference;
  std::vector<RequestRows> requests;
  Remarks remarks;
  double engine_seconds = 0;
  double repeat_seconds = 0;  // of wall_seconds, for noise floors
  double wall_seconds = 0;
};

Status WriteManifest(const base::Path& folder, const Settings& settings, const Manifest& manifest);

}  // namespace msprobe::capture
