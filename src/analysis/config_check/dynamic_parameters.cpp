// Hyperparameters of a running program, as its Python side writes them down.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/hyperparameters.h"
#include "src/base/files.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::config_check::internal {
namespace {

using json::ConfigKind;
using json::ConfigValue;
using json::ValueKind;
using json::ValueNode;
using json::ValueTree;

constexpr uint64_t kLimitBytes = uint64_t{64} << 20U;

// Nested as deep as the parser allows.
ConfigValue ConfigValueOf(const ValueTree& tree, uint32_t index) {
  const ValueNode& node = tree[index];
  ConfigValue value;
  switch (node.kind) {
    case ValueKind::kNull:
      break;
    case ValueKind::kBool:
      value.kind = ConfigKind::kBool;
      value.boolean = node.boolean;
      break;
    case ValueKind::kInt:
      value.kind = ConfigKind::kInt;
      value.integer = node.integer;
      value.number = node.number;
      break;
    case ValueKind::kFloat:
      value.kind = ConfigKind::kFloat;
      value.number = node.number;
      value.text = node.text;
      break;
    case ValueKind::kText:
      value = TextParameter(std::string(node.text));
      break;
    case ValueKind::kList:
      value.kind = ConfigKind::kList;
      tree.ForEachChild(index,
                        [&](uint32_t child) { value.items.push_back(ConfigValueOf(tree, child)); });
      break;
    case ValueKind::kObject:
      value.kind = ConfigKind::kObject;
      tree.ForEachChild(index, [&](uint32_t child) {
        value.members.emplace_back(std::string(tree[child].key), ConfigValueOf(tree, child));
      });
      break;
  }
  return value;
}

}  // namespace

Result<std::string> ReadDynamicParameters(const std::filesystem::path& path, size_t* masked) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLimitBytes));
  MSP_ASSIGN_OR_RETURN(const ValueTree tree, json::ParseValueTree(text), path.string());
  if (tree[0].kind != ValueKind::kObject) {
    return BadFormatError(fmt::format("{}: parameters are one JSON object", path.string()));
  }
  return WriteMasked(ConfigValueOf(tree, 0), masked);
}

}  // namespace msprobe::analysis::config_check::internal
