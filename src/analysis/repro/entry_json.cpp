#include "src/analysis/repro/entry_json.h"

#include <string>
#include <utility>

#include <fmt/format.h>

namespace msprobe::analysis::repro {
namespace {

constexpr size_t kMostDepth = 32;

Result<Json> ToJson(const dump::EntryTree& tree, uint32_t index, size_t depth) {
  if (depth > kMostDepth) {
    return BadFormatError(fmt::format("values are nested deeper than {} levels", kMostDepth));
  }
  const dump::Node& node = tree[index];
  Json value;
  Status status;
  switch (node.kind) {
    case dump::NodeKind::kNull:
      break;
    case dump::NodeKind::kBool:
      value = node.boolean;
      break;
    case dump::NodeKind::kInt:
      value = node.integer;
      break;
    case dump::NodeKind::kFloat:
      value = node.number;
      break;
    case dump::NodeKind::kText:
      value = std::string(node.text);
      break;
    case dump::NodeKind::kList:
    case dump::NodeKind::kObject: {
      const bool is_list = node.kind == dump::NodeKind::kList;
      value = is_list ? Json::array() : Json::object();
      tree.ForEachChild(index, [&](uint32_t child) {
        if (!status.ok()) {
          return;
        }
        Result<Json> item = ToJson(tree, child, depth + 1);
        if (!item.ok()) {
          status = item.status();
        } else if (is_list) {
          value.push_back(*std::move(item));
        } else {
          value[std::string(tree[child].key)] = *std::move(item);
        }
      });
      break;
    }
  }
  MSP_RETURN_IF_ERROR(status);
  return value;
}

}  // namespace

Result<Json> EntryJson(const dump::EntryTree& tree) { return ToJson(tree, 0, 0); }

bool IsTensorRecord(const Json& value) {
  const auto is = [&](const char* key) { return value.is_object() && value.contains(key); };
  return is("dtype") && value["dtype"].is_string() && !value["dtype"].get<std::string>().empty() &&
         is("shape") && value["shape"].is_array();
}

}  // namespace msprobe::analysis::repro
