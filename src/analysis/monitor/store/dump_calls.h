// Where the calls of a dump stand: what they are called without their number, and to which micro
// step, one pass of the model forward and backward, they belong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/dump/names.h"

namespace msprobe::analysis::monitor {

// "Torch.matmul" of "Torch.matmul.3.forward", "Module.fc.Linear" of "Module.fc.Linear.backward.0"
// and of "Module.fc.Linear.parameters_grad".
std::string_view NameOfCalls(std::string_view entry, const dump::EntryName& parts);

// The micro steps that construct.json tells: each call of the model, a module that has no parent,
// is one. Everything is in micro step 0 where there is no such file.
class DumpCalls {
 public:
  static DumpCalls Read(const std::filesystem::path& construct_file);

  int64_t micro_step_count() const { return micro_step_count_; }
  // Of entries in the order of the dump: what has no parent module belongs to the micro step of
  // what was asked for before it.
  int64_t MicroStepOf(std::string_view entry);
  // How many calls of this name came before call number `call` in its micro step.
  int64_t IndexInMicroStep(std::string_view name, int64_t micro_step, int64_t call) const;

 private:
  std::unordered_map<std::string, int64_t> micro_steps_;  // by entry
  std::map<std::pair<std::string, int64_t>, int64_t, std::less<>> first_calls_;
  int64_t micro_step_count_ = 1;
  int64_t latest_ = 0;
};

}  // namespace msprobe::analysis::monitor
