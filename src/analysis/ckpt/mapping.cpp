#include "src/analysis/ckpt/mapping.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"
#include "src/base/log.h"
#include "src/naming/parts.h"

namespace msprobe::analysis::ckpt {
namespace {

using naming::Bindings;
using naming::BuiltInMapping;
using naming::HeadCounts;
using naming::Item;
using naming::kMaxHeads;
using naming::MappedCheckpoint;
using naming::NamePattern;
using naming::NearestName;
using naming::PartLocation;
using naming::Reading;
using naming::Rule;
using naming::RuleSet;
using naming::RuleSide;

// Word embeddings and output layers whose rows are padded to different numbers.

using checkpoint::Parameter;

bool DifferInRowsOnly(const Parameter& a, const Parameter& b) {
  return !a.shape.empty() && a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

// Leaves out the rows beyond the vocabulary. `wanted` is what the user gave, `recorded` what the
// checkpoints know; without either, rows are cut where one side has a few more than the other.
// Pairs whose other axes differ stay as they are.
Status CutToVocabulary(std::optional<int64_t> wanted, std::optional<int64_t> recorded,
                       MatchedPair& pair) {
  if (!pair.a.status.ok() || !pair.b.status.ok() || !DifferInRowsOnly(pair.a, pair.b)) {
    return {};
  }
  const int64_t fewer = std::min(pair.a.shape[0], pair.b.shape[0]);
  const int64_t more = std::max(pair.a.shape[0], pair.b.shape[0]);
  int64_t rows = fewer;
  std::string why = "the rest is padding";
  if (wanted) {
    if (*wanted > fewer) {
      pair.notes.push_back(
          fmt::format("a vocabulary of {} was requested, but there are {} rows", *wanted, fewer));
      return {};
    }
    rows = *wanted;
    why = "as requested";
  } else if (fewer == more) {
    return {};
  } else if (recorded && *recorded <= fewer) {
    rows = *recorded;
    why = "the recorded vocabulary; the rest is padding";
  } else if (fewer <= more / 2) {
    return {};  // too much for padding: something else is wrong
  }
  if (rows == more) {
    return {};
  }
  pair.notes.push_back(fmt::format("{} and {} rows: the first {} are compared ({})",
                                   pair.a.shape[0], pair.b.shape[0], rows, why));
  MSP_ASSIGN_OR_RETURN(pair.a, checkpoint::Slice(pair.a, 0, 0, rows));
  MSP_ASSIGN_OR_RETURN(pair.b, checkpoint::Slice(pair.b, 0, 0, rows));
  return {};
}

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

namespace {

using checkpoint::Checkpoint;
using checkpoint::ModelFacts;

std::optional<int64_t> FirstKnown(std::initializer_list<std::optional<int64_t>> values,
                                  int64_t limit) {
  for (const std::optional<int64_t>& value : values) {
    if (value && *value > 0 && *value <= limit) {
      return value;
    }
  }
  return std::nullopt;
}

HeadCounts KnownHeads(const MappingOptions& options, const ModelFacts& own,
                      const ModelFacts& other) {
  HeadCounts heads;
  heads.attention_heads =
      FirstKnown({options.attention_heads, own.attention_heads, other.attention_heads}, kMaxHeads);
  heads.query_groups = FirstKnown(
      {options.query_groups, own.query_groups, other.query_groups, heads.attention_heads},
      kMaxHeads);
  return heads;
}

// "looked for model.layers.0.mlp.up_proj.weight": in the words of the side that lacks it.
std::string LookedFor(const MappedCheckpoint& side, std::string_view part) {
  return fmt::format("no counterpart: looked for {}", NameOfPart(side, part));
}

class Matcher {
 public:
  Matcher(const Checkpoint& a, const Checkpoint& b, const MappingOptions& options,
          BuiltInMapping mapping, RuleSet rules)
      : options_(options),
        mapping_(std::move(mapping)),
        rules_(std::move(rules)),
        a_(naming::MakeSide(a)),
        b_(naming::MakeSide(b)) {
    a_.heads = KnownHeads(options, a.facts, b.facts);
    b_.heads = KnownHeads(options, b.facts, a.facts);
    gated_known_ = a.facts.gated.has_value() || b.facts.gated.has_value();
    a_.gated = a.facts.gated.value_or(b.facts.gated.value_or(false));
    b_.gated = b.facts.gated.value_or(a.facts.gated.value_or(false));
    vocabulary_ = a.facts.vocabulary;
    if (b.facts.vocabulary) {
      vocabulary_ = std::min(vocabulary_.value_or(*b.facts.vocabulary), *b.facts.vocabulary);
    }
    if (vocabulary_ && *vocabulary_ <= 0) {
      vocabulary_.reset();
    }
  }

  Result<MatchedParameters> Run() {
    MSP_RETURN_IF_ERROR(ApplyUserRules());
    pairs_.resize(a_.items.size());
    reasons_.resize(a_.items.size());
    MatchEqualNames();
    if (NeedsParts()) {
      ReadBothSides();
      for (size_t i = 0; i < a_.items.size(); ++i) {
        if (!pairs_[i]) {
          MatchByParts(i);
        }
      }
      MarkTaken();
      MatchTiedOutput();
      MSP_RETURN_IF_ERROR(CutVocabularies());
    }
    Collect();
    return std::move(result_);
  }

 private:
  Status ApplyUserRules() {
    std::vector<size_t> fitted(rules_.rules.size(), 0);
    MSP_RETURN_IF_ERROR(ApplyRules(rules_, RuleSide::kFirst, a_, fitted, result_.warnings));
    MSP_RETURN_IF_ERROR(ApplyRules(rules_, RuleSide::kSecond, b_, fitted, result_.warnings));
    base::LimitedWarnings unused(result_.warnings, base::LimitedWarnings::kOfRows);
    for (size_t i = 0; i < fitted.size(); ++i) {
      if (fitted[i] == 0) {
        unused.Add(fmt::format("{} line {}: no parameter is called {}", rules_.source,
                               rules_.rules[i].line, rules_.rules[i].from.front().text()));
      }
    }
    if (unused.more() > 0) {
      result_.warnings.push_back(
          fmt::format("{}: no parameter fits {} more rules", rules_.source, unused.more()));
    }
    return {};
  }

  MatchedPair MakePair(Item& a, Item& b) {
    a.used = true;
    b.used = true;
    MatchedPair pair{a.label, a.parameter, b.parameter, {}};
    AddNotes("first", a.notes, pair);
    AddNotes("second", b.notes, pair);
    return pair;
  }

  static void AddNotes(std::string_view side, const std::vector<std::string>& notes,
                       MatchedPair& pair) {
    for (const std::string& note : notes) {
      pair.notes.push_back(fmt::format("{} checkpoint: {}", side, note));
    }
  }

  void MatchEqualNames() {
    std::unordered_map<std::string_view, size_t> places;
    places.reserve(b_.items.size());
    for (size_t i = 0; i < b_.items.size(); ++i) {
      places.emplace(b_.items[i].name, i);
    }
    for (size_t i = 0; i < a_.items.size(); ++i) {
      const auto place = places.find(a_.items[i].name);
      if (place != places.end()) {
        pairs_[i] = MakePair(a_.items[i], b_.items[place->second]);
      }
    }
  }

  // Where all names and shapes are equal, there is nothing to find out.
  bool NeedsParts() const {
    const auto unused = [](const Item& item) { return !item.used; };
    return options_.vocabulary.has_value() ||
           std::any_of(a_.items.begin(), a_.items.end(), unused) ||
           std::any_of(b_.items.begin(), b_.items.end(), unused) ||
           std::any_of(pairs_.begin(), pairs_.end(), [](const std::optional<MatchedPair>& pair) {
             return pair && pair->a.shape != pair->b.shape;
           });
  }

  void ReadBothSides() {
    ChooseDialect(mapping_, a_);
    ChooseDialect(mapping_, b_);
    ReadParts(mapping_, a_);
    ReadParts(mapping_, b_);
    if (!gated_known_ && (HoldsGate(a_) || HoldsGate(b_))) {
      a_.gated = true;
      b_.gated = true;
      ReadParts(mapping_, a_);
      ReadParts(mapping_, b_);
    }
    LearnHeads();
  }

  void LearnHeads() {
    for (const MappedCheckpoint* side : {&a_, &b_}) {
      const std::optional<HeadCounts> found = naming::HeadsByShapes(*side);
      for (HeadCounts* heads : {&a_.heads, &b_.heads}) {
        if (found && !heads->attention_heads) {
          heads->attention_heads = found->attention_heads;
          heads->query_groups = heads->query_groups.value_or(*found->query_groups);
        }
      }
    }
  }

  // The item of the other side that consists of exactly these parts in the same layout.
  Item* SameLayout(const Item& item) {
    const auto place = b_.parts.find(item.reading.parts.front());
    if (place == b_.parts.end()) {
      return nullptr;
    }
    Item& other = b_.items[place->second.item];
    const Rule* mine = item.reading.rule;
    const Rule* theirs = other.reading.rule;
    if (other.used || other.reading.parts != item.reading.parts) {
      return nullptr;
    }
    const bool alike = item.reading.parts.size() == 1 ||
                       (mine->arrangement == theirs->arrangement && mine->axis == theirs->axis &&
                        mine->proportion == theirs->proportion && mine->sizes == theirs->sizes);
    return alike ? &other : nullptr;
  }

  void MatchByParts(size_t index) {
    Item& item = a_.items[index];
    if (Item* other = SameLayout(item)) {
      const Result<Parameter> turned = item.reading.transpose == other->reading.transpose
                                           ? Result<Parameter>(other->parameter)
                                           : Turned(other->parameter);
      if (!turned.ok()) {
        reasons_[index] = turned.status().message();
        return;
      }
      pairs_[index] = MakePair(item, *other);
      pairs_[index]->b = *turned;
      if (item.reading.transpose != other->reading.transpose) {
        AddNotes("second", {"transposed"}, *pairs_[index]);
      }
      return;
    }
    Result<MatchedPair> pair = Assemble(item);
    if (pair.ok()) {
      pairs_[index] = std::move(*pair);
    } else {
      const Status& why = pair.status();
      reasons_[index] =
          why.hint().empty() ? why.message() : fmt::format("{}: {}", why.message(), why.hint());
    }
  }

  static Result<Parameter> Turned(const Parameter& parameter) {
    return parameter.status.ok() ? checkpoint::Transpose(parameter) : Result<Parameter>(parameter);
  }

  // The counterpart of an item of the first side, put together from parts of the second.
  Result<MatchedPair> Assemble(Item& item) {
    std::vector<Parameter> parts;
    std::vector<const Item*> sources;
    std::vector<std::string> notes;
    for (const std::string& part : item.reading.parts) {
      const auto place = b_.parts.find(part);
      if (place == b_.parts.end() || b_.items[place->second.item].used) {
        return NotFoundError(LookedFor(b_, part));
      }
      const Item& source = b_.items[place->second.item];
      if (taken_.contains(part)) {
        return MismatchError(
            fmt::format("{} already belongs to another parameter of the test", source.name));
      }
      MSP_ASSIGN_OR_RETURN(Parameter taken, b_.TakePart(place->second));
      if (std::find(sources.begin(), sources.end(), &source) == sources.end()) {
        sources.push_back(&source);
      }
      parts.push_back(std::move(taken));
    }
    Parameter joined = parts.front();
    if (item.reading.rule != nullptr) {
      MSP_ASSIGN_OR_RETURN(joined, JoinParameters(parts, *item.reading.rule, item.reading.transpose,
                                                  a_.heads, b_.slices));
    }
    MatchedPair pair{item.label, item.parameter, std::move(joined), {}};
    pair.b.name.clear();
    AddNotes("first", item.notes, pair);
    for (const Item* source : sources) {
      pair.b.name += (pair.b.name.empty() ? "" : " + ") + source->parameter.name;
      AddNotes("second", source->notes, pair);
      if (source->reading.parts.size() > 1) {
        notes.push_back(fmt::format("cut out of {}", source->parameter.name));
      }
    }
    if (sources.size() > 1) {
      notes.push_back(fmt::format("joined from {} parameters", sources.size()));
    }
    if (item.reading.transpose != sources.front()->reading.transpose) {
      notes.emplace_back("transposed");
    }
    AddNotes("second", notes, pair);
    item.used = true;
    taken_.insert(item.reading.parts.begin(), item.reading.parts.end());
    return pair;
  }

  // What of the second side was used up part by part.
  void MarkTaken() {
    for (Item& item : b_.items) {
      item.used = item.used ||
                  std::all_of(item.reading.parts.begin(), item.reading.parts.end(),
                              [this](const std::string& part) { return taken_.contains(part); });
    }
  }

  // A side without an output layer uses its word embeddings for it.
  void MatchTiedOutput() {
    const auto head_a = a_.parts.find(mapping_.output_layer);
    const auto head_b = b_.parts.find(mapping_.output_layer);
    const auto words_a = a_.parts.find(mapping_.embedding);
    const auto words_b = b_.parts.find(mapping_.embedding);
    if (head_a != a_.parts.end() && head_b == b_.parts.end() && words_b != b_.parts.end()) {
      const Item& words = b_.items[words_b->second.item];
      Item& head = a_.items[head_a->second.item];
      if (!head.used && head.reading.parts.size() == 1) {
        head.used = true;
        pairs_[head_a->second.item] =
            MatchedPair{head.label, head.parameter, words.parameter, {TiedNote("second", words)}};
      }
    } else if (head_b != b_.parts.end() && head_a == a_.parts.end() && words_a != a_.parts.end()) {
      const Item& words = a_.items[words_a->second.item];
      Item& head = b_.items[head_b->second.item];
      if (!head.used && head.reading.parts.size() == 1) {
        head.used = true;
        tied_ =
            MatchedPair{head.label, words.parameter, head.parameter, {TiedNote("first", words)}};
      }
    }
  }

  static std::string TiedNote(std::string_view side, const Item& words) {
    return fmt::format(
        "the {} checkpoint has no output layer: compared with {}, which takes its "
        "place where the two are tied",
        side, words.parameter.name);
  }

  Status CutVocabulary(const Reading& reading, MatchedPair& pair) const {
    const bool rows_are_words = reading.parts.size() == 1 && !reading.transpose &&
                                std::find(mapping_.vocabulary.begin(), mapping_.vocabulary.end(),
                                          reading.parts.front()) != mapping_.vocabulary.end();
    return rows_are_words ? CutToVocabulary(options_.vocabulary, vocabulary_, pair) : OkStatus();
  }

  Status CutVocabularies() {
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i]) {
        MSP_RETURN_IF_ERROR(CutVocabulary(a_.items[i].reading, *pairs_[i]));
      }
    }
    if (tied_) {
      const PartLocation head = b_.parts.find(mapping_.output_layer)->second;
      return CutVocabulary(b_.items[head.item].reading, *tied_);
    }
    return {};
  }

  void Collect() {
    for (std::optional<MatchedPair>& pair : pairs_) {
      if (pair) {
        result_.pairs.push_back(std::move(*pair));
      }
    }
    if (tied_) {
      result_.pairs.push_back(std::move(*tied_));
    }
    NearestName among_b(b_);
    NearestName among_a(a_);
    for (size_t i = 0; i < a_.items.size(); ++i) {
      if (!a_.items[i].used) {
        Explain(a_, a_.items[i], reasons_[i], among_b, result_.only_in_a, result_.left_out_a);
      }
    }
    for (const Item& item : b_.items) {
      if (!item.used) {
        Explain(b_, item, WhyUnused(item), among_a, result_.only_in_b, result_.left_out_b);
      }
    }
    if (a_.dialect != b_.dialect && a_.dialect != nullptr && b_.dialect != nullptr) {
      result_.warnings.push_back(
          fmt::format("names of the test are read as {}, those of the reference as {}",
                      a_.dialect->name, b_.dialect->name));
    }
  }

  std::string WhyUnused(const Item& item) const {
    for (const std::string& part : item.reading.parts) {
      if (!taken_.contains(part)) {
        return a_.parts.contains(part)
                   ? fmt::format("{} of the test could not be matched with it",
                                 a_.items[a_.parts.find(part)->second.item].name)
                   : LookedFor(a_, part);
      }
    }
    return {};
  }

  void Explain(const MappedCheckpoint& side, const Item& item, std::string reason,
               NearestName& nearest, std::vector<Unmatched>& missing,
               std::vector<Unmatched>& left_out) const {
    if (const std::string* ignored = IgnoredBecause(mapping_, rules_, side, item.name)) {
      left_out.push_back({item.label, *ignored});
      return;
    }
    if (const std::string name = nearest.Find(item.name); !name.empty()) {
      reason += fmt::format("; nearest name: {}", name);
    }
    missing.push_back({item.label, std::move(reason)});
  }

  const MappingOptions& options_;
  BuiltInMapping mapping_;
  RuleSet rules_;
  MappedCheckpoint a_;
  MappedCheckpoint b_;
  bool gated_known_ = false;
  std::optional<int64_t> vocabulary_;
  std::vector<std::optional<MatchedPair>> pairs_;  // by item of the first side
  std::vector<std::string> reasons_;               // why there is no pair
  std::unordered_set<std::string> taken_;          // parts of the second side that are in a pair
  std::optional<MatchedPair> tied_;                // an output layer of the second side alone
  MatchedParameters result_;
};

}  // namespace

Result<MatchedParameters> MatchParameters(const Checkpoint& a, const Checkpoint& b,
                                          const MappingOptions& options) {
  MSP_ASSIGN_OR_RETURN(BuiltInMapping mapping, naming::LoadBuiltInMapping());
  RuleSet rules;
  if (!options.rules.empty()) {
    MSP_ASSIGN_OR_RETURN(rules, naming::LoadRules(options.rules));
  }
  return Matcher(a, b, options, std::move(mapping), std::move(rules)).Run();
}

}  // namespace msprobe::analysis::ckpt
