#include "src/dump/entry_json.h"

#include <vector>

namespace msprobe::dump {
namespace {

void WriteScalar(const Node& node, json::Writer& json) {
  switch (node.kind) {
    case NodeKind::kBool:
      json.Bool(node.boolean);
      break;
    case NodeKind::kInt:
      json.Int(node.integer);
      break;
    case NodeKind::kFloat:
      if (node.text.empty()) {
        json.Float(node.number);
      } else {
        json.Raw(node.text);
      }
      break;
    case NodeKind::kText:
      json.Text(node.text);
      break;
    default:
      json.Null();
      break;
  }
}

}  // namespace

// Without recursion: a file may nest deeper than the stack allows.
void WriteTree(const EntryTree& tree, uint32_t root, json::Writer& json) {
  std::vector<uint32_t> open;  // containers around the next node
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const Node& node = tree[index];
    if (!open.empty() && tree[open.back()].kind == NodeKind::kObject) {
      json.Key(node.key);
    }
    if (node.kind == NodeKind::kObject) {
      json.BeginObject();
      open.push_back(index);
    } else if (node.kind == NodeKind::kList) {
      json.BeginArray();
      open.push_back(index);
    } else {
      WriteScalar(node, json);
    }
    while (!open.empty() && tree[open.back()].end == index + 1) {
      if (tree[open.back()].kind == NodeKind::kObject) {
        json.EndObject();
      } else {
        json.EndArray();
      }
      open.pop_back();
    }
  }
}

std::string CompactText(const EntryTree& tree, uint32_t index) {
  std::string text;
  if (tree[index].kind == NodeKind::kText) {
    text = tree[index].text;
    return text;
  }
  json::Writer json(text, -1);
  WriteTree(tree, index, json);
  return text;
}

}  // namespace msprobe::dump
