#include "src/analysis/config_check/parameters.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/secrets.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::config_check::internal {

void Parameters::Set(const std::string& name, json::ConfigValue value) {
  const auto [place, is_new] = places_.emplace(name, object_.members.size());
  if (is_new) {
    object_.members.emplace_back(name, std::move(value));
  } else {
    object_.members[place->second].second = std::move(value);
  }
}

const json::ConfigValue* Parameters::Find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &object_.members[place->second].second;
}

json::ConfigValue Parameters::Take() {
  places_.clear();
  return std::exchange(object_, MakeObject());
}

json::ConfigValue OneOf(std::vector<json::ConfigValue> values) {
  json::ConfigValue list;
  list.kind = json::ConfigKind::kList;
  list.items = std::move(values);
  json::ConfigValue result;
  result.kind = json::ConfigKind::kObject;
  result.members.emplace_back("description", TextParameter(std::string(kSeveralValues)));
  result.members.emplace_back("values", std::move(list));
  return result;
}

const std::vector<json::ConfigValue>* ValuesOf(const json::ConfigValue& value) {
  const json::ConfigValue* description = value.Find("description");
  const json::ConfigValue* values = value.Find("values");
  const bool is_one = value.kind == json::ConfigKind::kObject && value.members.size() == 2 &&
                      description != nullptr && description->kind == json::ConfigKind::kText &&
                      description->text == kSeveralValues && values != nullptr;
  return is_one ? &values->items : nullptr;
}

void WriteParameter(const json::ConfigValue& value, json::Writer& writer) {
  switch (value.kind) {
    case json::ConfigKind::kNull:
      writer.Null();
      break;
    case json::ConfigKind::kBool:
      writer.Bool(value.boolean);
      break;
    case json::ConfigKind::kInt:
      writer.Int(value.integer);
      break;
    case json::ConfigKind::kFloat:
      // Integers beyond 64 bits keep their digits.
      if (!value.text.empty() && value.text.size() > 1 &&
          value.text.find_first_not_of("0123456789", value.text[0] == '-' ? 1 : 0) ==
              std::string::npos &&
          value.text[value.text[0] == '-' ? 1 : 0] != '0') {
        writer.Raw(value.text);
      } else {
        writer.Float(value.number);
      }
      break;
    case json::ConfigKind::kText:
      writer.Text(value.text);
      break;
    case json::ConfigKind::kList:
      writer.BeginArray();
      for (const json::ConfigValue& item : value.items) {
        WriteParameter(item, writer);
      }
      writer.EndArray();
      break;
    case json::ConfigKind::kObject:
      writer.BeginObject();
      for (const auto& [key, member] : value.members) {
        writer.Key(key);
        WriteParameter(member, writer);
      }
      writer.EndObject();
      break;
  }
}

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {
namespace {

using base::Secrecy;
using json::ConfigKind;
using json::ConfigValue;
using json::ValueKind;
using json::ValueTree;

// What is inside of a secret is one. Of "keys" it is the elements of a list, and the values that
// several files give for it, but not members that have names of their own.
Secrecy OfMember(Secrecy parent, std::string_view key) {
  const bool inherits = parent >= Secrecy::kLikely || key == "values";
  return std::max(inherits ? parent : Secrecy::kNone, base::SecrecyOf(key));
}

// The masked text, if it is another one.
bool MaskScalar(Secrecy secrecy, std::string& text, bool is_text) {
  if (text == internal::kSeveralValues) {  // the mark of values of several files
    return false;
  }
  if (base::IsSecretValue(secrecy, text)) {
    text = base::kMaskedText;
    return true;
  }
  if (!is_text) {
    return false;
  }
  base::Masked masked = base::MaskText(text);
  text = std::move(masked.text);
  return masked.count > 0;
}

std::string NumberText(bool is_integer, int64_t integer, double number) {
  return is_integer ? std::to_string(integer) : base::PythonFloatRepr(number);
}

}  // namespace

size_t MaskParameter(std::string_view name, ConfigValue& value) {
  struct Pending {
    ConfigValue* value;
    Secrecy secrecy;
  };
  size_t count = 0;
  std::vector<Pending> pending = {{&value, base::SecrecyOf(name)}};
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    const ConfigKind kind = next.value->kind;
    const bool is_number = kind == ConfigKind::kInt || kind == ConfigKind::kFloat;
    if (kind == ConfigKind::kText || (is_number && next.secrecy != Secrecy::kNone)) {
      std::string text =
          !next.value->text.empty() || kind == ConfigKind::kText
              ? next.value->text
              : NumberText(kind == ConfigKind::kInt, next.value->integer, next.value->number);
      if (MaskScalar(next.secrecy, text, kind == ConfigKind::kText)) {
        next.value->kind = ConfigKind::kText;
        next.value->text = std::move(text);
        ++count;
      }
    }
    for (ConfigValue& item : next.value->items) {
      pending.push_back({&item, next.secrecy});
    }
    for (auto& [key, member] : next.value->members) {
      pending.push_back({&member, OfMember(next.secrecy, key)});
    }
  }
  return count;
}

MaskedTree MaskParameters(const ValueTree& tree) {
  json::ValueTreeBuilder builder;
  MaskedTree result;
  struct Open {
    uint32_t node;
    Secrecy secrecy;
  };
  std::vector<Open> open;
  for (uint32_t node = 0; node < tree.size(); ++node) {
    const json::ValueNode& value = tree[node];
    Secrecy secrecy = open.empty() ? Secrecy::kNone : open.back().secrecy;
    if (!open.empty() && tree[open.back().node].kind == ValueKind::kObject) {
      secrecy = OfMember(secrecy, value.key);
      builder.Key(value.key);
    }
    std::string text;
    switch (value.kind) {
      case ValueKind::kNull:
        builder.Null();
        break;
      case ValueKind::kBool:
        builder.Bool(value.boolean);
        break;
      case ValueKind::kInt:
      case ValueKind::kFloat:
        text = NumberText(value.kind == ValueKind::kInt, value.integer, value.number);
        if (MaskScalar(secrecy, text, false)) {
          builder.Text(text);
          ++result.count;
        } else if (value.kind == ValueKind::kInt) {
          builder.Int(value.integer);
        } else {
          builder.Float(value.number, value.text);
        }
        break;
      case ValueKind::kText:
        text = value.text;
        result.count += MaskScalar(secrecy, text, true) ? 1 : 0;
        builder.Text(text);
        break;
      case ValueKind::kList:
      case ValueKind::kObject:
        builder.Begin(value.kind);
        open.push_back({node, secrecy});
        break;
    }
    while (!open.empty() && tree[open.back().node].end == node + 1) {
      builder.End();
      open.pop_back();
    }
  }
  result.tree = builder.Take();
  return result;
}

namespace {

using json::ValueNode;

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
