// The checksums of an earlier dump's step, and whether a call that is recorded now differs from
// them: with the same inputs it gave another output. For runs that are deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::capture {

// A tensor of a call, in the order of its JSON.
struct CheckedTensor {
  std::vector<int64_t> shape;
  std::optional<uint32_t> crc32;  // nullopt: its values are not known
};

struct CheckedCall {
  std::vector<CheckedTensor> inputs;   // arguments, parameters, gradients that come in
  std::vector<CheckedTensor> outputs;  // results, gradients that go out

  static bool IsInput(std::string_view member);
  static bool IsOutput(std::string_view member);
};

class BenchStep {
 public:
  // Reads `root`/step<step>, of it the folder of the rank, or the only one there is. Errors name
  // what is missing.
  static Result<std::shared_ptr<const BenchStep>> Load(const base::Path& root, int64_t step,
                                                       std::optional<int64_t> rank);

  enum class Outcome : uint8_t {
    kUnknown,  // not in the earlier dump, or tensors of one of them are more, or of other shapes
    kOtherInputs,  // it had other values to work on
    kEqual,
    kDiffers
  };
  struct Answer {
    Outcome outcome = Outcome::kUnknown;
    size_t output = 0;  // kDiffers: the first that is another
  };
  Answer Judge(std::string_view name, const CheckedCall& call) const;

  const base::Path& folder() const { return folder_; }

 private:
  base::Path folder_;
  std::unordered_map<std::string, CheckedCall> calls_;
};

}  // namespace msprobe::capture
