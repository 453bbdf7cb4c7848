#include "src/analysis/config_check/values.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "src/json/value_text.h"

namespace msprobe::analysis::config_check {
namespace {

using json::ValueKind;
using json::ValueNode;
using json::ValueTree;

bool IsNumber(const ValueNode& value) {
  return value.kind == ValueKind::kBool || value.kind == ValueKind::kInt ||
         value.kind == ValueKind::kFloat;
}

// Integers beyond 64 bits arrive as floats with all their digits.
bool IsBigInteger(const ValueNode& value) {
  return value.kind == ValueKind::kFloat && !value.text.empty() &&
         value.text.find_first_not_of("-0123456789") == std::string_view::npos;
}

// Exact, as Python's comparisons of int and float are: through the digits of whole numbers.
std::string Digits(double value) { return fmt::format("{:.0f}", value); }

bool EqualNumbers(const ValueNode& a, const ValueNode& b) {
  const auto integer = [](const ValueNode& value) {
    return value.kind == ValueKind::kBool ? static_cast<int64_t>(value.boolean) : value.integer;
  };
  const bool a_is_float = a.kind == ValueKind::kFloat;
  const bool b_is_float = b.kind == ValueKind::kFloat;
  if (!a_is_float && !b_is_float) {
    return integer(a) == integer(b);
  }
  if (a_is_float && b_is_float && !IsBigInteger(a) && !IsBigInteger(b)) {
    return a.number == b.number;
  }
  const auto digits = [&integer](const ValueNode& value) {
    if (value.kind != ValueKind::kFloat) {
      return std::to_string(integer(value));
    }
    if (IsBigInteger(value)) {
      return std::string(value.text);
    }
    const bool whole = std::isfinite(value.number) && std::trunc(value.number) == value.number;
    // Zero may carry a sign that integers do not have.
    return !whole ? std::string("no integer") : Digits(value.number == 0 ? 0 : value.number);
  };
  return digits(a) == digits(b);
}

bool EqualLists(const ValueTree& a, uint32_t node_a, const ValueTree& b, uint32_t node_b) {
  if (a[node_a].child_count != b[node_b].child_count) {
    return false;
  }
  uint32_t child_b = node_b + 1;
  bool equal = true;
  a.ForEachChild(node_a, [&](uint32_t child_a) {
    equal = equal && PythonEqual(a, child_a, b, child_b);
    child_b = b[child_b].end;
  });
  return equal;
}

bool EqualObjects(const ValueTree& a, uint32_t node_a, const ValueTree& b, uint32_t node_b) {
  const Members members_a(a, node_a);
  const Members members_b(b, node_b);
  if (members_a.size() != members_b.size()) {
    return false;
  }
  for (const Members::Member& member : members_a) {
    const uint32_t other = members_b.Find(member.key);
    if (other == ValueTree::kNone || !PythonEqual(a, member.node, b, other)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Members::Members(const ValueTree& tree, uint32_t node) {
  if (tree[node].kind != ValueKind::kObject) {
    return;
  }
  members_.reserve(tree[node].child_count);
  places_.reserve(tree[node].child_count);
  tree.ForEachChild(node, [&](uint32_t child) {
    const auto [place, added] = places_.try_emplace(tree[child].key, members_.size());
    if (added) {
      members_.push_back({tree[child].key, child});
    } else {
      members_[place->second].node = child;
    }
  });
}

std::optional<size_t> Members::IndexOf(std::string_view key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? std::nullopt : std::optional<size_t>(place->second);
}

uint32_t Members::Find(std::string_view key) const {
  const std::optional<size_t> place = IndexOf(key);
  return place ? members_[*place].node : ValueTree::kNone;
}

bool PythonEqual(const ValueTree& a, uint32_t node_a, const ValueTree& b, uint32_t node_b) {
  const ValueNode& value_a = a[node_a];
  const ValueNode& value_b = b[node_b];
  if (IsNumber(value_a) && IsNumber(value_b)) {
    return EqualNumbers(value_a, value_b);
  }
  if (value_a.kind != value_b.kind) {
    return false;
  }
  switch (value_a.kind) {
    case ValueKind::kText:
      return value_a.text == value_b.text;
    case ValueKind::kList:
      return EqualLists(a, node_a, b, node_b);
    case ValueKind::kObject:
      return EqualObjects(a, node_a, b, node_b);
    default:
      return true;  // null
  }
}

report::Cell NumberCell(double value) {
  if (std::isnan(value)) {
    return {};
  }
  if (std::isinf(value)) {
    return report::Cell::Text(value > 0 ? "inf" : "-inf");
  }
  return report::Cell::Number(value);
}

report::Cell ValueCell(report::Table& table, const ValueTree& tree, uint32_t node) {
  const ValueNode& value = tree[node];
  switch (value.kind) {
    case ValueKind::kNull:
      return {};
    case ValueKind::kBool:
      return report::Cell::Boolean(value.boolean);
    case ValueKind::kInt:
      return report::Cell::Integer(value.integer);
    case ValueKind::kFloat:
      return NumberCell(value.number);
    case ValueKind::kText:
      return value.text.empty() ? report::Cell() : table.KeepText(value.text);
    case ValueKind::kList:
    case ValueKind::kObject:
      break;
  }
  std::string text;
  json::AppendPythonRepr(tree, node, text);
  return table.KeepText(text);
}

}  // namespace msprobe::analysis::config_check
