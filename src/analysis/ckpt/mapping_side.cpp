#include "src/analysis/ckpt/mapping_side.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;

// Enough to know a family by.
constexpr size_t kNamesToKnowADialectBy = 2000;

// The name without wrappers, in torch's spelling.
std::string PlainName(const BuiltInMapping& mapping, std::string_view name) {
  std::string plain(name);
  for (const std::string& wrapper : mapping.wrappers) {
    if (plain.find(wrapper) != std::string::npos) {
      plain = base::ReplaceAll(plain, wrapper, "");
    }
  }
  Bindings bindings;
  for (const Rule& rule : mapping.spellings.rules) {
    if (rule.from.front().Match(plain, bindings)) {
      plain = rule.to.front().Format(bindings);
    }
  }
  return plain;
}

// Calls visit(rest) for the name and for what is left of it without one prefix after the other,
// until it returns true. Returns the last rest.
template <typename Visit>
std::string_view WithoutPrefixes(const BuiltInMapping& mapping, std::string_view name,
                                 Visit&& visit) {
  while (!visit(name)) {
    const auto prefix =
        std::find_if(mapping.prefixes.begin(), mapping.prefixes.end(),
                     [name](const std::string& candidate) { return name.starts_with(candidate); });
    if (prefix == mapping.prefixes.end() || prefix->size() == name.size()) {
      break;
    }
    name.remove_prefix(prefix->size());
  }
  return name;
}

bool Holds(const Rule& rule, bool gated) { return !rule.gated || *rule.gated == gated; }

const Rule* FittingRule(const Dialect& dialect, bool gated, std::string_view name,
                        Bindings& bindings) {
  for (const Rule& rule : dialect.set.rules) {
    if (Holds(rule, gated) && rule.from.front().Match(name, bindings)) {
      return &rule;
    }
  }
  return nullptr;
}

const std::string* FindIgnored(const RuleSet& rules, std::string_view name) {
  Bindings bindings;
  for (const IgnoreRule& rule : rules.ignored) {
    if (rule.name.Match(name, bindings)) {
      return &rule.reason;
    }
  }
  return nullptr;
}

// Whether the family's matrices are stored turned, as GPT-2's are: told by one that is not square.
bool StoresTurned(const BuiltInMapping& mapping, const Dialect& dialect,
                  const MappedCheckpoint& side) {
  if (!dialect.conv1d) {
    return true;
  }
  Bindings bindings;
  for (const Item& item : side.items) {
    bool fits = false;
    const std::string plain = PlainName(mapping, item.name);
    WithoutPrefixes(mapping, plain, [&](std::string_view rest) {
      fits = dialect.conv1d->Match(rest, bindings);
      return fits;
    });
    if (fits && item.parameter.shape.size() == 2) {
      return item.parameter.shape[1] > item.parameter.shape[0];
    }
  }
  return true;
}

}  // namespace

Result<Parameter> MappedCheckpoint::TakePart(const PartLocation& location) {
  const Item& item = items[location.item];
  if (item.reading.rule == nullptr) {
    return item.parameter;
  }
  if (split_item != location.item) {
    split_item.reset();
    MSP_ASSIGN_OR_RETURN(split_parts,
                         SplitParameter(item.parameter, *item.reading.rule, item.reading.transpose,
                                        item.reading.parts.size(), heads, slices));
    split_item = location.item;
  }
  return split_parts[location.part];
}

MappedCheckpoint MakeSide(const checkpoint::Checkpoint& checkpoint) {
  MappedCheckpoint side;
  side.slices = SliceBudget(checkpoint.file_bytes());
  side.items.reserve(checkpoint.parameters.size());
  for (const Parameter& parameter : checkpoint.parameters) {
    Item item;
    item.name = parameter.name;
    item.label = parameter.name;
    item.parameter = parameter;
    side.items.push_back(std::move(item));
  }
  return side;
}

void ChooseDialect(const BuiltInMapping& mapping, MappedCheckpoint& side) {
  const size_t count = std::min(side.items.size(), kNamesToKnowADialectBy);
  std::vector<std::string> names;
  names.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    names.push_back(PlainName(mapping, side.items[i].name));
  }
  size_t most = 0;
  Bindings bindings;
  for (const Dialect& dialect : mapping.dialects) {
    size_t fitting = 0;
    for (const std::string& name : names) {
      WithoutPrefixes(mapping, name, [&](std::string_view rest) {
        const bool fits = FittingRule(dialect, side.gated, rest, bindings) != nullptr;
        fitting += fits ? 1 : 0;
        return fits;
      });
    }
    if (fitting > most && fitting * 2 > count) {
      most = fitting;
      side.dialect = &dialect;
    }
  }
}

void ReadParts(const BuiltInMapping& mapping, MappedCheckpoint& side) {
  const bool turned = side.dialect != nullptr && StoresTurned(mapping, *side.dialect, side);
  Bindings bindings;
  side.parts.clear();
  side.rules_in_use.clear();
  for (size_t i = 0; i < side.items.size(); ++i) {
    Item& item = side.items[i];
    item.reading = {};
    Reading& reading = item.reading;
    const std::string plain = PlainName(mapping, item.name);
    const std::string_view rest = WithoutPrefixes(mapping, plain, [&](std::string_view name) {
      reading.rule = side.dialect == nullptr
                         ? nullptr
                         : FittingRule(*side.dialect, side.gated, name, bindings);
      return reading.rule != nullptr;
    });
    if (reading.rule == nullptr) {
      reading.parts.emplace_back(rest);
    } else {
      side.rules_in_use.insert(reading.rule);
      reading.transpose = reading.rule->transpose && turned;
      for (const NamePattern& part : reading.rule->to) {
        reading.parts.push_back(part.Format(bindings));
      }
    }
    for (size_t part = 0; part < reading.parts.size(); ++part) {
      side.parts.emplace(reading.parts[part], PartLocation{i, part});
    }
  }
}

const std::string* IgnoredBecause(const BuiltInMapping& mapping, const RuleSet& rules,
                                  const MappedCheckpoint& side, std::string_view name) {
  if (const std::string* reason = FindIgnored(rules, name)) {
    return reason;
  }
  const std::string plain = PlainName(mapping, name);
  const std::string* reason = nullptr;
  WithoutPrefixes(mapping, plain, [&](std::string_view rest) {
    reason = FindIgnored(mapping.spellings, rest);
    if (reason == nullptr && side.dialect != nullptr) {
      reason = FindIgnored(side.dialect->set, rest);
    }
    return reason != nullptr;
  });
  return reason;
}

std::string NameOfPart(const MappedCheckpoint& side, std::string_view part) {
  std::string name;
  Bindings bindings;
  if (side.dialect != nullptr) {
    for (const Rule& rule : side.dialect->set.rules) {
      const bool in_use = side.rules_in_use.contains(&rule);
      for (const NamePattern& to : rule.to) {
        if ((name.empty() || in_use) && Holds(rule, side.gated) && to.Match(part, bindings)) {
          name = rule.from.front().Format(bindings);
          if (in_use) {
            return name;
          }
        }
      }
    }
  }
  return name.empty() ? std::string(part) : name;
}

}  // namespace msprobe::analysis::ckpt
