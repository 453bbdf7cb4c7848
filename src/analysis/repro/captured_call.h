// One call of a dump, taken out of it: its entries and the tensors that they name.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/recheck/recompute.h"
#include "src/analysis/recheck/step_ranks.h"
#include "src/analysis/repro/entry_json.h"
#include "src/base/threads.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::repro {

using HeldTensor = std::shared_ptr<const tensor::TensorBuffer>;

// A copy is cheap: tensors are shared until one is replaced.
struct CapturedCall {
  std::string name;       // of the half that is looked at: "Functional.gelu.0.backward"
  std::string framework;  // as the dump says it; may be empty
  Json entries;           // as in "data" of a dump.json: the forward call in front
  std::map<std::string, HeldTensor> tensors;  // by data_name
  reference::Remarks remarks;

  std::string forward_name() const;
  const Json& forward() const { return entries.at(forward_name()); }
  bool is_backward() const { return name != forward_name(); }
  uint64_t element_count() const;  // of all tensors
};

// A tensor of a call, and its place in it.
struct TensorLeaf {
  std::string entry;         // "Functional.gelu.0.forward"
  Json::json_pointer place;  // within `entries`
  std::string name;          // as a recheck names it: "output.0", "input_args.1"
  std::string data_name;     // empty: its values were not saved
  std::vector<int64_t> shape;
  bool is_result = false;  // an output of the half that is looked at
};

std::vector<TensorLeaf> LeavesOf(const CapturedCall& call);

// With the tensors that can be read; of others the leaf stays, without a data_name. kNotFound: no
// such call. kBadFormat: values are nested too deeply.
Result<CapturedCall> ReadCall(const recheck::DumpEntries& dump, const std::string& name);

Result<recheck::CallVerdict> Recheck(const CapturedCall& call, base::ThreadPool& pool);

// dump.json and dump_tensor_data/ in `folder`, which is made. Statistics are those of the tensors.
Status WriteDump(const CapturedCall& call, const std::filesystem::path& folder);

}  // namespace msprobe::analysis::repro
