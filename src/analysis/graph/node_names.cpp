#include "src/analysis/graph/node_names.h"

#include <algorithm>

#include "src/base/strings.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::graph {
namespace {

constexpr std::string_view kModuleStarts[] = {"Module", "Cell"};
constexpr std::string_view kModuleWords[] = {"optimizer", "clip_grad"};
constexpr std::string_view kApiStarts[] = {"Tensor",    "Torch",       "Functional",    "NPU",
                                           "VF",        "Distributed", "Aten",          "Mint",
                                           "Primitive", "Jit",         "MintFunctional"};

// The start is followed by one more character, whatever it is.
bool StartsWithKind(std::string_view name, std::string_view kind) {
  return name.size() > kind.size() && name.starts_with(kind);
}

std::optional<NumberedDirection> ParseNumbered(std::string_view name, std::string_view direction) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !name.substr(0, dot).ends_with(direction)) {
    return std::nullopt;
  }
  const std::string_view number = name.substr(dot + 1);
  if (number.empty() || !std::all_of(number.begin(), number.end(), base::IsDigit)) {
    return std::nullopt;
  }
  return NumberedDirection{name.substr(0, dot - direction.size()), number};
}

}  // namespace

NodeType TypeOfName(std::string_view name, Edition edition) {
  const auto starts = [name](std::string_view kind) { return StartsWithKind(name, kind); };
  if (std::any_of(std::begin(kApiStarts), std::end(kApiStarts), starts) ||
      (edition == Edition::k26 && starts("MindSpeed"))) {
    return NodeType::kApi;
  }
  return name.starts_with(kCollectionName) ? NodeType::kCollection : NodeType::kModule;
}

bool IsModuleName(std::string_view name) {
  return std::any_of(std::begin(kModuleStarts), std::end(kModuleStarts),
                     [name](std::string_view kind) { return StartsWithKind(name, kind); }) ||
         std::any_of(std::begin(kModuleWords), std::end(kModuleWords),
                     [name](std::string_view word) { return name.starts_with(word); });
}

std::optional<NumberedDirection> ParseForward(std::string_view name) {
  return ParseNumbered(name, ".forward");
}
std::optional<NumberedDirection> ParseBackward(std::string_view name) {
  return ParseNumbered(name, ".backward");
}

std::string_view ApiOf(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view()
                                       : name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
}

bool ReturnsRawMemory(std::string_view name) {
  return dump::HasFact(ApiOf(name), dump::kToolRawMemory);
}

}  // namespace msprobe::analysis::graph
