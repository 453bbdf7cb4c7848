#include "src/analysis/config_check/secrets.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/config_check/parameters.h"
#include "src/base/numbers.h"
#include "src/base/secrets.h"

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

}  // namespace msprobe::analysis::config_check
