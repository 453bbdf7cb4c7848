#include "src/json/value_text.h"

#include <vector>

#include "src/base/numbers.h"

namespace msprobe::json {
namespace {

void WriteScalar(const ValueNode& node, Writer& json) {
  switch (node.kind) {
    case ValueKind::kBool:
      json.Bool(node.boolean);
      break;
    case ValueKind::kInt:
      json.Int(node.integer);
      break;
    case ValueKind::kFloat:
      // NaN and infinities by name are spelled as the writer spells them.
      if (node.text.find_first_of("0123456789") == std::string_view::npos) {
        json.Float(node.number);
      } else {
        json.Raw(node.text);
      }
      break;
    case ValueKind::kText:
      json.Text(node.text);
      break;
    default:
      json.Null();
      break;
  }
}

}  // namespace

// Without recursion: a file may nest deeper than the stack allows.
void WriteTree(const ValueTree& tree, uint32_t root, Writer& json) {
  std::vector<uint32_t> open;  // containers around the next node
  for (uint32_t index = root; index < tree[root].end; ++index) {
    const ValueNode& node = tree[index];
    if (!open.empty() && tree[open.back()].kind == ValueKind::kObject) {
      json.Key(node.key);
    }
    if (node.kind == ValueKind::kObject) {
      json.BeginObject();
      open.push_back(index);
    } else if (node.kind == ValueKind::kList) {
      json.BeginArray();
      open.push_back(index);
    } else {
      WriteScalar(node, json);
    }
    while (!open.empty() && tree[open.back()].end == index + 1) {
      if (tree[open.back()].kind == ValueKind::kObject) {
        json.EndObject();
      } else {
        json.EndArray();
      }
      open.pop_back();
    }
  }
}

std::string CompactText(const ValueTree& tree, uint32_t index) {
  std::string text;
  if (tree[index].kind == ValueKind::kText) {
    text = tree[index].text;
    return text;
  }
  Writer json(text, -1);
  WriteTree(tree, index, json);
  return text;
}

void AppendPythonRepr(const ValueTree& tree, uint32_t node, std::string& out) {
  const ValueNode& value = tree[node];
  switch (value.kind) {
    case ValueKind::kNull:
      out += "None";
      return;
    case ValueKind::kBool:
      out += value.boolean ? "True" : "False";
      return;
    case ValueKind::kInt:
      out += std::to_string(value.integer);
      return;
    case ValueKind::kFloat:
      // Integers beyond 64 bits arrive as floats; Python keeps all their digits.
      if (value.text.find_first_not_of("-0123456789") == std::string_view::npos &&
          !value.text.empty()) {
        out += value.text;
      } else {
        base::AppendPythonFloatRepr(value.number, out);
      }
      return;
    case ValueKind::kText:
      base::AppendPythonTextRepr(value.text, out);
      return;
    case ValueKind::kList:
    case ValueKind::kObject:
      break;
  }
  const bool is_object = value.kind == ValueKind::kObject;
  out += is_object ? '{' : '[';
  bool first = true;
  tree.ForEachChild(node, [&](uint32_t child) {
    if (!first) {
      out += ", ";
    }
    first = false;
    if (is_object) {
      base::AppendPythonTextRepr(tree[child].key, out);
      out += ": ";
    }
    AppendPythonRepr(tree, child, out);
  });
  out += is_object ? '}' : ']';
}

std::string PythonStr(const ValueTree& tree, uint32_t node) {
  if (tree[node].kind == ValueKind::kText) {
    return std::string(tree[node].text);
  }
  std::string text;
  AppendPythonRepr(tree, node, text);
  return text;
}

std::string_view PythonClass(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNull:
      return "<class 'NoneType'>";
    case ValueKind::kBool:
      return "<class 'bool'>";
    case ValueKind::kInt:
      return "<class 'int'>";
    case ValueKind::kFloat:
      return "<class 'float'>";
    case ValueKind::kText:
      return "<class 'str'>";
    case ValueKind::kList:
      return "<class 'list'>";
    case ValueKind::kObject:
      return "<class 'dict'>";
  }
  return "<class 'NoneType'>";
}

}  // namespace msprobe::json
