// The names of the checked operators: "Torch.linalg.inv.3", and of their outputs:
// "Torch.linalg.inv.3.forward.output.0".
#pragma once

#include <optional>
#include <string_view>

namespace msprobe::analysis::accuracy {

struct OperatorName {
  std::string_view type;  // "Torch"
  std::string_view api;   // "linalg.inv"
};
// Three parts or four, as all operators that can be checked have; nullopt otherwise.
std::optional<OperatorName> ParseOperatorName(std::string_view name);

struct OutputName {
  std::string_view whole;  // of the operator, "Torch.linalg.inv.3"
  OperatorName parts;
  bool is_backward = false;
};
std::optional<OutputName> ParseOutputName(std::string_view name);

}  // namespace msprobe::analysis::accuracy
