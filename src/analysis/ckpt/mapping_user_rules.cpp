#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/ckpt/mapping_side.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;

using NameIndex = std::unordered_map<std::string_view, size_t>;

NameIndex IndexNames(const MappedCheckpoint& side) {
  NameIndex index;
  index.reserve(side.items.size());
  for (size_t i = 0; i < side.items.size(); ++i) {
    index.emplace(side.items[i].name, i);
  }
  return index;
}

// What one rule makes of one side: which items go, and what comes in the place of the first.
struct Rewrite {
  std::vector<bool> dropped;
  std::unordered_map<size_t, std::vector<Item>> made;
};

std::string JoinedNames(const std::vector<Parameter>& parts) {
  std::string names;
  for (const Parameter& part : parts) {
    names += (names.empty() ? "" : " + ") + part.name;
  }
  return names;
}

Result<std::vector<Item>> MakeItems(const Rule& rule, const MappedCheckpoint& side,
                                    const std::vector<size_t>& sources, const Bindings& bindings) {
  const Item& first = side.items[sources.front()];
  std::vector<Item> made;
  if (rule.from.size() == 1) {
    MSP_ASSIGN_OR_RETURN(
        std::vector<Parameter> parts,
        SplitParameter(first.parameter, rule, rule.transpose, rule.to.size(), side.heads));
    for (size_t i = 0; i < parts.size(); ++i) {
      Item item;
      item.name = rule.to[i].Format(bindings);
      item.label = parts.size() == 1 ? first.label : item.name;
      item.parameter = std::move(parts[i]);
      item.notes = first.notes;
      if (parts.size() > 1) {
        item.notes.push_back(fmt::format("cut out of {}", first.parameter.name));
      }
      if (rule.transpose) {
        item.notes.emplace_back("transposed");
      }
      made.push_back(std::move(item));
    }
    return made;
  }
  std::vector<Parameter> parts;
  for (const size_t source : sources) {
    MSP_ASSIGN_OR_RETURN(
        std::vector<Parameter> part,
        SplitParameter(side.items[source].parameter, rule, rule.transpose, 1, side.heads));
    parts.push_back(std::move(part.front()));
  }
  Item item;
  item.name = rule.to.front().Format(bindings);
  item.label = item.name;
  MSP_ASSIGN_OR_RETURN(item.parameter, JoinParameters(parts, rule, false, side.heads));
  item.parameter.name = JoinedNames(parts);
  item.notes.push_back(fmt::format("joined from {} parameters", parts.size()));
  if (rule.transpose) {
    item.notes.emplace_back("transposed");
  }
  made.push_back(std::move(item));
  return made;
}

Status ApplyAt(const Rule& rule, const MappedCheckpoint& side, const NameIndex& index, size_t place,
               const Bindings& bindings, Rewrite& rewrite) {
  std::vector<size_t> sources = {place};
  for (size_t i = 1; i < rule.from.size(); ++i) {
    const std::string name = rule.from[i].Format(bindings);
    const auto source = index.find(name);
    if (source == index.end()) {
      return NotFoundError(fmt::format("{} is missing", name));
    }
    sources.push_back(source->second);
  }
  for (const NamePattern& to : rule.to) {
    const std::string name = to.Format(bindings);
    const auto taken = index.find(name);
    if (taken != index.end() &&
        std::find(sources.begin(), sources.end(), taken->second) == sources.end()) {
      return MismatchError(fmt::format("a parameter {} already exists", name));
    }
  }
  MSP_ASSIGN_OR_RETURN(std::vector<Item> made, MakeItems(rule, side, sources, bindings));
  for (const size_t source : sources) {
    rewrite.dropped[source] = true;
  }
  rewrite.made.emplace(place, std::move(made));
  return {};
}

void Carry(Rewrite& rewrite, MappedCheckpoint& side) {
  std::vector<Item> items;
  items.reserve(side.items.size());
  for (size_t i = 0; i < side.items.size(); ++i) {
    if (const auto made = rewrite.made.find(i); made != rewrite.made.end()) {
      std::move(made->second.begin(), made->second.end(), std::back_inserter(items));
    } else if (!rewrite.dropped[i]) {
      items.push_back(std::move(side.items[i]));
    }
  }
  side.items = std::move(items);
}

}  // namespace

void ApplyRules(const RuleSet& rules, RuleSide which, MappedCheckpoint& side,
                std::vector<size_t>& fitted, std::vector<std::string>& warnings) {
  Bindings bindings;
  for (size_t r = 0; r < rules.rules.size(); ++r) {
    const Rule& rule = rules.rules[r];
    if ((rule.side != RuleSide::kBoth && rule.side != which) ||
        (rule.gated && *rule.gated != side.gated)) {
      continue;
    }
    const NameIndex index = IndexNames(side);
    Rewrite rewrite;
    rewrite.dropped.resize(side.items.size(), false);
    for (size_t i = 0; i < side.items.size(); ++i) {
      if (rewrite.dropped[i] || !rule.from.front().Match(side.items[i].name, bindings)) {
        continue;
      }
      ++fitted[r];
      const Status status = ApplyAt(rule, side, index, i, bindings, rewrite);
      if (!status.ok()) {
        warnings.push_back(fmt::format(
            "{} line {} cannot be applied to {} of the {} checkpoint: {}", rules.source, rule.line,
            side.items[i].name, which == RuleSide::kFirst ? "first" : "second", status.message()));
      }
    }
    if (!rewrite.made.empty()) {
      Carry(rewrite, side);
    }
  }
}

}  // namespace msprobe::analysis::ckpt
