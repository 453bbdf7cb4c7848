#include "src/analysis/ckpt/mapping.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/ckpt/mapping_nearest.h"
#include "src/analysis/ckpt/mapping_side.h"
#include "src/analysis/ckpt/mapping_vocabulary.h"
#include "src/base/log.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Checkpoint;
using checkpoint::ModelFacts;
using checkpoint::Parameter;

// More heads than any model has; keeps the work on a forged number small.
constexpr int64_t kMaxHeads = 65536;

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
        a_(MakeSide(a)),
        b_(MakeSide(b)) {
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

  static bool HoldsGate(const MappedCheckpoint& side) {
    return std::any_of(side.parts.begin(), side.parts.end(), [](const auto& part) {
      return part.first.find(".linear_gate.") != std::string::npos;
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

  // A norm of each head tells the head's size, and separate projections the numbers of heads.
  void LearnHeads() {
    for (const MappedCheckpoint* side : {&a_, &b_}) {
      const int64_t head_size = Rows(*side, "q_layernorm.weight");
      const int64_t query_rows = Rows(*side, "linear_q.weight");
      const int64_t key_rows = Rows(*side, "linear_k.weight");
      if (head_size <= 0 || query_rows % head_size != 0 || key_rows % head_size != 0 ||
          key_rows == 0 || query_rows < key_rows || query_rows / head_size > kMaxHeads) {
        continue;
      }
      for (HeadCounts* heads : {&a_.heads, &b_.heads}) {
        if (!heads->attention_heads) {
          heads->attention_heads = query_rows / head_size;
          heads->query_groups = heads->query_groups.value_or(key_rows / head_size);
        }
      }
    }
  }

  // Of a parameter of the first layer that stands alone; 0 where there is none.
  static int64_t Rows(const MappedCheckpoint& side, std::string_view name) {
    const auto place = side.parts.find(fmt::format("decoder.layers.0.self_attention.{}", name));
    if (place == side.parts.end()) {
      return 0;
    }
    const Item& item = side.items[place->second.item];
    return item.reading.parts.size() != 1 || item.parameter.shape.empty() ? 0
                                                                          : item.parameter.shape[0];
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
        return MismatchError(fmt::format(
            "{} already belongs to another parameter of the first checkpoint", source.name));
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
          fmt::format("names of the first checkpoint are read as {}, those of the second as {}",
                      a_.dialect->name, b_.dialect->name));
    }
  }

  std::string WhyUnused(const Item& item) const {
    for (const std::string& part : item.reading.parts) {
      if (!taken_.contains(part)) {
        return a_.parts.contains(part)
                   ? fmt::format("{} of the first checkpoint could not be matched with it",
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
  MSP_ASSIGN_OR_RETURN(BuiltInMapping mapping, LoadBuiltInMapping());
  RuleSet rules;
  if (!options.rules.empty()) {
    MSP_ASSIGN_OR_RETURN(rules, LoadRules(options.rules));
  }
  return Matcher(a, b, options, std::move(mapping), std::move(rules)).Run();
}

}  // namespace msprobe::analysis::ckpt
