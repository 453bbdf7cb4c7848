#include "src/naming/parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::naming {
namespace {

using checkpoint::Parameter;

// Slices of one checkpoint: hundreds of times what models with a thousand layers need.
constexpr uint64_t kFreeSlices = 500'000;
constexpr uint64_t kFileBytesPerSlice = 256;
// Each slice looks at every piece of its parameter.
constexpr uint64_t kFreeLooks = 100'000'000;

Status HeadsMissing() {
  return UsageError("neither checkpoint records the number of attention heads and query groups")
      .WithHint("give --num-attention-heads N (and --num-query-groups N, if fewer)");
}

Result<int64_t> GroupCount(const Rule& rule, const HeadCounts& heads) {
  if (rule.arrangement == Arrangement::kOneAfterAnother) {
    return int64_t{1};
  }
  if (!heads.query_groups) {
    return HeadsMissing();
  }
  return *heads.query_groups;
}

// Relative lengths of the parts within one group.
Result<std::vector<int64_t>> Proportions(const Rule& rule, size_t count, int64_t groups,
                                         const HeadCounts& heads) {
  if (rule.proportion == Proportion::kSizes) {
    return rule.sizes.empty() ? std::vector<int64_t>(count, 1) : rule.sizes;
  }
  if (!heads.attention_heads || !heads.query_groups) {
    return HeadsMissing();
  }
  if (*heads.attention_heads % *heads.query_groups != 0) {
    return MismatchError(fmt::format("{} attention heads cannot be divided among {} query groups",
                                     *heads.attention_heads, *heads.query_groups));
  }
  const int64_t key_heads = *heads.query_groups / groups;
  return std::vector<int64_t>{*heads.attention_heads / groups, key_heads, key_heads};
}

Status CheckAxis(const Parameter& parameter, const Rule& rule) {
  if (rule.axis < parameter.shape.size()) {
    return {};
  }
  return MismatchError(fmt::format("{} of shape {} has no axis {} to cut or join along",
                                   parameter.name, ShapeText(parameter.shape), rule.axis));
}

// Slices of one parameter would each bring its notes along.
Result<Parameter> JoinSlices(std::vector<Parameter>& slices, size_t axis,
                             std::vector<std::string> notes) {
  for (Parameter& slice : slices) {
    slice.notes.clear();
  }
  MSP_ASSIGN_OR_RETURN(Parameter joined, checkpoint::Concatenate(slices, axis));
  joined.notes = std::move(notes);
  return joined;
}

}  // namespace

SliceBudget::SliceBudget(uint64_t file_bytes)
    : slices_left_(kFreeSlices + file_bytes / kFileBytesPerSlice),
      looks_left_(kFreeLooks + file_bytes) {}

Status SliceBudget::Take(int64_t groups, size_t parts, size_t pieces) {
  const uint64_t slices = static_cast<uint64_t>(groups) * parts;
  if (slices > slices_left_ || slices > looks_left_ / std::max<size_t>(pieces, 1)) {
    return MismatchError(
               fmt::format("{} slices for {} query groups are out of proportion to the files",
                           slices, groups))
        .WithHint("give --num-attention-heads N (and --num-query-groups N) if they are wrong");
  }
  slices_left_ -= slices;
  looks_left_ -= slices * std::max<size_t>(pieces, 1);
  return {};
}

Result<std::vector<Parameter>> SplitParameter(const Parameter& whole, const Rule& rule,
                                              bool transpose, size_t count, const HeadCounts& heads,
                                              SliceBudget& budget) {
  if (!whole.status.ok()) {
    return std::vector<Parameter>(count, whole);
  }
  Parameter source = whole;
  if (transpose) {
    MSP_ASSIGN_OR_RETURN(source, checkpoint::Transpose(whole));
  }
  if (count == 1) {
    return std::vector<Parameter>{std::move(source)};
  }
  MSP_RETURN_IF_ERROR(CheckAxis(source, rule));
  MSP_ASSIGN_OR_RETURN(const int64_t groups, GroupCount(rule, heads));
  MSP_ASSIGN_OR_RETURN(const std::vector<int64_t> proportions,
                       Proportions(rule, count, groups, heads));
  MSP_RETURN_IF_ERROR(
      budget.Take(groups, proportions.size(), source.pieces.size()).AddContext(whole.name));
  const int64_t per_group = std::accumulate(proportions.begin(), proportions.end(), int64_t{0});
  const int64_t length = source.shape[rule.axis];
  // Not multiplied before it is known to divide: the counts come from files.
  if (length % groups != 0 || (length / groups) % per_group != 0) {
    return MismatchError(fmt::format(
        "the {} rows of {} cannot be divided into {} equal units{}", length, whole.name, per_group,
        groups == 1 ? "" : fmt::format(" in each of {} query groups", groups)));
  }
  const int64_t unit = length / groups / per_group;
  // What every slice would hold again.
  source.name.clear();
  source.notes.clear();
  std::vector<Parameter> parts;
  int64_t first = 0;
  for (const int64_t proportion : proportions) {
    std::vector<Parameter> slices;
    for (int64_t group = 0; group < groups; ++group) {
      MSP_ASSIGN_OR_RETURN(Parameter slice,
                           checkpoint::Slice(source, rule.axis, (group * per_group + first) * unit,
                                             proportion * unit));
      slices.push_back(std::move(slice));
    }
    MSP_ASSIGN_OR_RETURN(Parameter part, JoinSlices(slices, rule.axis, whole.notes));
    part.name = whole.name;
    parts.push_back(std::move(part));
    first += proportion;
  }
  return parts;
}

Result<Parameter> JoinParameters(std::span<const Parameter> parts, const Rule& rule, bool transpose,
                                 const HeadCounts& heads, SliceBudget& budget) {
  const auto unreadable = std::find_if(parts.begin(), parts.end(),
                                       [](const Parameter& part) { return !part.status.ok(); });
  if (unreadable != parts.end()) {
    return *unreadable;
  }
  Parameter joined = parts.front();
  if (parts.size() > 1) {
    MSP_ASSIGN_OR_RETURN(const int64_t groups, GroupCount(rule, heads));
    std::vector<std::string> notes;
    std::vector<Parameter> slices;
    std::vector<Parameter> bare;  // without what every slice would hold again
    for (const Parameter& part : parts) {
      MSP_RETURN_IF_ERROR(CheckAxis(part, rule));
      MSP_RETURN_IF_ERROR(budget.Take(groups, 1, part.pieces.size()).AddContext(part.name));
      if (part.shape[rule.axis] % groups != 0) {
        return MismatchError(fmt::format("the {} rows of {} cannot be divided into {} query groups",
                                         part.shape[rule.axis], part.name, groups));
      }
      notes.insert(notes.end(), part.notes.begin(), part.notes.end());
      bare.push_back(part);
      bare.back().name.clear();
      bare.back().notes.clear();
    }
    for (int64_t group = 0; group < groups; ++group) {
      for (const Parameter& part : bare) {
        const int64_t length = part.shape[rule.axis] / groups;
        MSP_ASSIGN_OR_RETURN(Parameter slice,
                             checkpoint::Slice(part, rule.axis, group * length, length));
        slices.push_back(std::move(slice));
      }
    }
    slices.front().name = parts.front().name;
    MSP_ASSIGN_OR_RETURN(joined, JoinSlices(slices, rule.axis, std::move(notes)));
  }
  if (transpose) {
    return checkpoint::Transpose(joined);
  }
  return joined;
}

namespace {

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

// Whether the family's matrices are stored transposed, as GPT-2's are: decided by one that is not
// square.
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

bool HoldsGate(const MappedCheckpoint& side) {
  return std::any_of(side.parts.begin(), side.parts.end(), [](const auto& part) {
    return part.first.find(".linear_gate.") != std::string::npos;
  });
}

namespace {

// The rows of a parameter of the first layer that is stored by itself; 0 where there is none.
int64_t RowsOfFirst(const MappedCheckpoint& side, std::string_view name) {
  const auto place = side.parts.find(fmt::format("decoder.layers.0.self_attention.{}", name));
  if (place == side.parts.end()) {
    return 0;
  }
  const Item& item = side.items[place->second.item];
  return item.reading.parts.size() != 1 || item.parameter.shape.empty() ? 0
                                                                        : item.parameter.shape[0];
}

}  // namespace

std::optional<HeadCounts> HeadsByShapes(const MappedCheckpoint& side) {
  const int64_t head_size = RowsOfFirst(side, "q_layernorm.weight");
  const int64_t query_rows = RowsOfFirst(side, "linear_q.weight");
  const int64_t key_rows = RowsOfFirst(side, "linear_k.weight");
  if (head_size <= 0 || query_rows % head_size != 0 || key_rows % head_size != 0 || key_rows == 0 ||
      query_rows < key_rows || query_rows / head_size > kMaxHeads) {
    return std::nullopt;
  }
  return HeadCounts{query_rows / head_size, key_rows / head_size};
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

bool IsFirstOf(const MappedCheckpoint& side, const PartLocation& location) {
  const auto found = side.parts.find(side.items[location.item].reading.parts[location.part]);
  return found != side.parts.end() && found->second.item == location.item &&
         found->second.part == location.part;
}

std::string UnfusedName(const MappedCheckpoint& side, const Item& item, size_t part) {
  const Reading& reading = item.reading;
  if (reading.parts.size() == 1 || side.dialect == nullptr) {
    return item.label;
  }
  const std::string& shared = reading.parts[part];
  std::string found;
  Bindings bindings;
  for (const Rule& rule : side.dialect->set.rules) {
    if (rule.to.size() == 1 && Holds(rule, side.gated) && rule.to.front().Match(shared, bindings)) {
      std::string name = rule.from.front().Format(bindings);
      if (name == shared) {
        found = std::move(name);
        break;
      }
      found = found.empty() ? std::move(name) : std::move(found);
    }
  }
  // What stands in front of the family's own name: "model.".
  size_t prefix = 0;
  while (prefix < item.label.size() &&
         !reading.rule->from.front().Match(std::string_view(item.label).substr(prefix), bindings)) {
    const size_t dot = item.label.find('.', prefix);
    prefix = dot == std::string::npos ? item.label.size() : dot + 1;
  }
  return (prefix < item.label.size() ? item.label.substr(0, prefix) : std::string()) +
         (found.empty() ? shared : found);
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

namespace {

// About a tenth of a second.
constexpr size_t kComparisons = 4'000'000;

// Letters that two names have in common at their beginnings and ends.
size_t Resemblance(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t front = 0;
  while (front < limit && a[front] == b[front]) {
    ++front;
  }
  size_t back = 0;
  while (back < limit - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) {
    ++back;
  }
  return front + back;
}

}  // namespace

NearestName::NearestName(const MappedCheckpoint& other, size_t most_letters)
    : comparisons_left_(kComparisons), letters_left_(most_letters) {
  for (const Item& item : other.items) {
    if (!item.used) {
      candidates_.push_back(item.name);
    }
  }
}

std::string NearestName::Find(std::string_view name) {
  if (candidates_.size() > comparisons_left_) {
    return {};
  }
  comparisons_left_ -= candidates_.size();
  // At least half of the name: ".weight" alone says nothing.
  size_t best = std::max<size_t>(name.size() / 2, 1);
  std::string_view nearest;
  for (const std::string_view candidate : candidates_) {
    if (name.size() + 1 > letters_left_) {
      return {};
    }
    const size_t alike = Resemblance(name, candidate);
    letters_left_ -= alike + 1;
    if (alike > best) {
      best = alike;
      nearest = candidate;
    }
  }
  return std::string(nearest);
}

}  // namespace msprobe::naming
