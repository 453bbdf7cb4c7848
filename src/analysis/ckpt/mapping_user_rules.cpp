#include <algorithm>
#include <iterator>
#include <list>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/ckpt/mapping_side.h"
#include "src/base/log.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;

// What the rules may add to a checkpoint, beside some times what it has: every rule may double what
// the one before it made.
constexpr size_t kFreeMadeItems = 100'000;
constexpr size_t kFreeMadePieces = 100'000;
constexpr size_t kFreeMadeTextBytes = size_t{64} << 20U;
constexpr size_t kTimesCheckpoint = 16;
// Names that are held against rules with placeholders: some seconds.
constexpr size_t kMostTries = 300'000'000;

// In a list, so that a rule which fits a few items costs only these.
struct Slot {
  Item item;
  bool dropped = false;
};
using Slots = std::list<Slot>;
using Place = Slots::iterator;

size_t TextBytes(const Item& item) {
  size_t bytes = item.name.size() + item.label.size() + item.parameter.name.size();
  for (const std::vector<std::string>* notes : {&item.notes, &item.parameter.notes}) {
    for (const std::string& note : *notes) {
      bytes += note.size();
    }
  }
  return bytes;
}

std::string JoinedNames(const std::vector<Parameter>& parts) {
  std::string names;
  for (const Parameter& part : parts) {
    names += (names.empty() ? "" : " + ") + part.name;
  }
  return names;
}

class RuleApplier {
 public:
  RuleApplier(const RuleSet& rules, RuleSide which, MappedCheckpoint& side,
              std::vector<std::string>& warnings)
      : rules_(rules), which_(which), side_(side), warnings_(warnings) {
    for (Item& item : side.items) {
      made_items_left_ += kTimesCheckpoint;
      made_pieces_left_ += kTimesCheckpoint * item.parameter.pieces.size();
      made_text_bytes_left_ += kTimesCheckpoint * TextBytes(item);
      slots_.push_back({std::move(item)});
    }
    side.items.clear();
  }

  // Also after an error: the items go back.
  Status Run(std::vector<size_t>& fitted) {
    Status status;
    IndexNames();
    for (size_t r = 0; r < rules_.rules.size() && status.ok(); ++r) {
      const Rule& rule = rules_.rules[r];
      if ((rule.side != RuleSide::kBoth && rule.side != which_) ||
          (rule.gated && *rule.gated != side_.gated)) {
        continue;
      }
      status = Apply(rule, fitted[r]);
    }
    if (refusals_.more() > 0) {
      warnings_.push_back(
          fmt::format("{}: {} more cannot be applied to parameters of the {} checkpoint",
                      rules_.source, refusals_.more(), SideName()));
    }
    side_.items.reserve(slots_.size());
    for (Slot& slot : slots_) {
      side_.items.push_back(std::move(slot.item));
    }
    return status;
  }

 private:
  struct Made {
    Place at;
    std::vector<Place> sources;
    std::vector<Item> items;
  };

  std::string_view SideName() const { return which_ == RuleSide::kFirst ? "first" : "second"; }

  void IndexNames() {
    index_.clear();
    index_.reserve(slots_.size());
    unique_ = true;
    for (Place place = slots_.begin(); place != slots_.end(); ++place) {
      unique_ = index_.emplace(place->item.name, place).second && unique_;
    }
  }

  Status Apply(const Rule& rule, size_t& fitted) {
    std::vector<Made> made;
    Status status;
    if (unique_ && rule.from.front().is_literal()) {
      const auto found = index_.find(rule.from.front().text());
      if (found != index_.end()) {
        status = Try(rule, found->second, fitted, made);
      }
    } else {
      if (slots_.size() > tries_left_) {
        return TooMuch(rule, "names that are held against rules with placeholders");
      }
      tries_left_ -= slots_.size();
      for (Place place = slots_.begin(); place != slots_.end() && status.ok(); ++place) {
        status = Try(rule, place, fitted, made);
      }
    }
    Carry(made);
    return status;
  }

  Status Try(const Rule& rule, Place place, size_t& fitted, std::vector<Made>& made) {
    if (place->dropped || !rule.from.front().Match(place->item.name, bindings_)) {
      return {};
    }
    ++fitted;
    Made one{place, {}, {}};
    Status status = ApplyAt(rule, one);
    if (!limit_.ok()) {
      return std::move(limit_);
    }
    if (status.ok()) {
      for (const Place source : one.sources) {
        source->dropped = true;
      }
      made.push_back(std::move(one));
    } else {
      refusals_.Add(fmt::format("{} line {} cannot be applied to {} of the {} checkpoint: {}",
                                rules_.source, rule.line, place->item.name, SideName(),
                                status.message()));
    }
    return {};
  }

  Status ApplyAt(const Rule& rule, Made& made) {
    made.sources = {made.at};
    for (size_t i = 1; i < rule.from.size(); ++i) {
      const std::string name = rule.from[i].Format(bindings_);
      const auto source = index_.find(name);
      if (source == index_.end()) {
        return NotFoundError(fmt::format("{} is missing", name));
      }
      made.sources.push_back(source->second);
    }
    limit_ = Charge(rule, made.sources);
    MSP_RETURN_IF_ERROR(Status(limit_));
    for (const NamePattern& to : rule.to) {
      const std::string name = to.Format(bindings_);
      const auto taken = index_.find(name);
      if (taken != index_.end() && std::find(made.sources.begin(), made.sources.end(),
                                             taken->second) == made.sources.end()) {
        return MismatchError(fmt::format("a parameter {} already exists", name));
      }
    }
    MSP_ASSIGN_OR_RETURN(made.items, MakeItems(rule, made.sources));
    return {};
  }

  // Before anything is made.
  Status Charge(const Rule& rule, const std::vector<Place>& sources) {
    const auto grow = [](size_t& left, size_t before, size_t after) {
      const size_t more = after - std::min(before, after);
      const bool fits = more <= left;
      left -= fits ? more : 0;
      return fits;
    };
    size_t text_after = 0;
    size_t pieces_after = 0;
    for (const Place source : sources) {
      text_after += TextBytes(source->item) - source->item.name.size();
      pieces_after += source->item.parameter.pieces.size();
    }
    // A whole has the stored names and the notes of all parts, and so has a part those of the
    // whole.
    text_after *= rule.to.size();
    for (const NamePattern& to : rule.to) {
      text_after += to.FormattedBytes(bindings_);
    }
    const Item& first = sources.front()->item;
    if (!grow(made_items_left_, 1, rule.to.size())) {
      return TooMuch(rule, "parameters");
    }
    if (!grow(made_pieces_left_, first.parameter.pieces.size(), pieces_after)) {
      return TooMuch(rule, "pieces of parameters");
    }
    if (!grow(made_text_bytes_left_, TextBytes(first), text_after)) {
      return TooMuch(rule, "letters of names");
    }
    return {};
  }

  Status TooMuch(const Rule& rule, std::string_view what) const {
    return UsageError(fmt::format("{} line {}: too many {} of the {} checkpoint come together here",
                                  rules_.source, rule.line, what, SideName()))
        .WithHint("rules that make several parameters of one, one after the other, multiply");
  }

  Result<std::vector<Item>> MakeItems(const Rule& rule, const std::vector<Place>& sources) {
    const Item& first = sources.front()->item;
    std::vector<Item> made;
    if (rule.from.size() == 1) {
      MSP_ASSIGN_OR_RETURN(std::vector<Parameter> parts,
                           SplitParameter(first.parameter, rule, rule.transpose, rule.to.size(),
                                          side_.heads, side_.slices));
      for (size_t i = 0; i < parts.size(); ++i) {
        Item item;
        item.name = rule.to[i].Format(bindings_);
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
    for (const Place source : sources) {
      MSP_ASSIGN_OR_RETURN(std::vector<Parameter> part,
                           SplitParameter(source->item.parameter, rule, rule.transpose, 1,
                                          side_.heads, side_.slices));
      parts.push_back(std::move(part.front()));
    }
    Item item;
    item.name = rule.to.front().Format(bindings_);
    item.label = item.name;
    MSP_ASSIGN_OR_RETURN(item.parameter,
                         JoinParameters(parts, rule, false, side_.heads, side_.slices));
    item.parameter.name = JoinedNames(parts);
    item.notes.push_back(fmt::format("joined from {} parameters", parts.size()));
    if (rule.transpose) {
      item.notes.emplace_back("transposed");
    }
    made.push_back(std::move(item));
    return made;
  }

  // What a rule made takes the place of the first of its sources.
  void Carry(std::vector<Made>& made) {
    if (made.empty()) {
      return;
    }
    std::vector<Place> added;
    for (Made& one : made) {
      for (Item& item : one.items) {
        added.push_back(slots_.insert(one.at, {std::move(item)}));
      }
    }
    for (Made& one : made) {
      for (const Place source : one.sources) {
        if (!source->dropped) {
          continue;  // it stood twice among the sources, of this or of another one
        }
        source->dropped = false;
        gone_.splice(gone_.end(), slots_, source);
      }
    }
    if (!unique_) {
      gone_.clear();
      IndexNames();
      return;
    }
    for (const Slot& slot : gone_) {
      index_.erase(slot.item.name);
    }
    gone_.clear();
    for (const Place place : added) {
      unique_ = index_.emplace(place->item.name, place).second && unique_;
    }
    if (!unique_) {
      IndexNames();  // of equal names, the first one counts
    }
  }

  const RuleSet& rules_;
  const RuleSide which_;
  MappedCheckpoint& side_;
  std::vector<std::string>& warnings_;
  Slots slots_;
  Slots gone_;
  std::unordered_map<std::string_view, Place> index_;
  bool unique_ = true;  // no two items have the same name
  Bindings bindings_;
  Status limit_;  // why the rules are given up
  size_t made_items_left_ = kFreeMadeItems;
  size_t made_pieces_left_ = kFreeMadePieces;
  size_t made_text_bytes_left_ = kFreeMadeTextBytes;
  size_t tries_left_ = kMostTries;
  base::LimitedWarnings refusals_{warnings_, base::LimitedWarnings::kOfRows};
};

}  // namespace

Status ApplyRules(const RuleSet& rules, RuleSide which, MappedCheckpoint& side,
                  std::vector<size_t>& fitted, std::vector<std::string>& warnings) {
  return RuleApplier(rules, which, side, warnings).Run(fitted);
}

}  // namespace msprobe::analysis::ckpt
