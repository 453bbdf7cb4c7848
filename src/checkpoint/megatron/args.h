// The training arguments that Megatron keeps in every rank file, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/tensor_file.h"

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/megatron/layout.h"

namespace msprobe::checkpoint {

class MegatronArgs {
 public:
  MegatronArgs() = default;
  // What the file's `args` entry holds, an object or a dict; empty when it has none.
  explicit MegatronArgs(const TensorFile& file);

  bool empty() const { return values_.empty(); }
  // Also whether it is recorded as None.
  bool Has(std::string_view name) const;
  // Nothing when absent, None or of another type.
  std::optional<int64_t> Integer(std::string_view name) const;
  bool Flag(std::string_view name) const;              // false when absent
  std::string_view Text(std::string_view name) const;  // of any plain value; "" when absent or None

 private:
  struct Value {
    std::string type;
    std::string text;
  };
  const Value* Find(std::string_view name) const;

  std::unordered_map<std::string, Value> values_;
};

ModelFacts FactsFromArgs(const MegatronArgs& args);

// From the arguments; what they do not tell, from the numbers in the rank folders' names. Fails for
// sizes that no machine has. `second_is_expert` decides what a second number means when the
// arguments do not.
Result<ParallelSizes> FindParallelSizes(const MegatronArgs& args,
                                        const std::vector<std::string>& rank_folders,
                                        bool second_is_expert);

}  // namespace msprobe::checkpoint
