#include "src/analysis/compare/python_text.h"

#include "src/base/number_text.h"

namespace msprobe::analysis {

using dump::NodeKind;

void AppendPythonRepr(const dump::EntryTree& tree, uint32_t node, std::string& out) {
  const dump::Node& value = tree[node];
  switch (value.kind) {
    case NodeKind::kNull:
      out += "None";
      return;
    case NodeKind::kBool:
      out += value.boolean ? "True" : "False";
      return;
    case NodeKind::kInt:
      out += std::to_string(value.integer);
      return;
    case NodeKind::kFloat:
      // Integers beyond 64 bits arrive as floats; Python keeps all their digits.
      if (value.text.find_first_not_of("-0123456789") == std::string_view::npos &&
          !value.text.empty()) {
        out += value.text;
      } else {
        base::AppendPythonFloatRepr(value.number, out);
      }
      return;
    case NodeKind::kText:
      base::AppendPythonTextRepr(value.text, out);
      return;
    case NodeKind::kList:
    case NodeKind::kObject:
      break;
  }
  const bool is_object = value.kind == NodeKind::kObject;
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

std::string PythonStr(const dump::EntryTree& tree, uint32_t node) {
  if (tree[node].kind == NodeKind::kText) {
    return std::string(tree[node].text);
  }
  std::string text;
  AppendPythonRepr(tree, node, text);
  return text;
}

std::string_view PythonClass(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNull:
      return "<class 'NoneType'>";
    case NodeKind::kBool:
      return "<class 'bool'>";
    case NodeKind::kInt:
      return "<class 'int'>";
    case NodeKind::kFloat:
      return "<class 'float'>";
    case NodeKind::kText:
      return "<class 'str'>";
    case NodeKind::kList:
      return "<class 'list'>";
    case NodeKind::kObject:
      return "<class 'dict'>";
  }
  return "<class 'NoneType'>";
}

}  // namespace msprobe::analysis
