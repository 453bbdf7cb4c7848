// Which operators can be run by name: those that dumps record.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/accuracy/common/standards.h"

namespace msprobe::analysis::accuracy {

// `type`: "Functional", "Tensor" or "Torch"; other types are not listed, and known.
bool IsKnownApi(std::string_view type, std::string_view api, StandardVersion version);
// Under any type: what white and black lists may name.
bool IsKnownAnywhere(std::string_view api);

// A function of MindSpore that dumps record: type Mint, MintFunctional, Functional (ops) or Tensor.
bool IsKnownMindSporeApi(std::string_view type, std::string_view api);

}  // namespace msprobe::analysis::accuracy
