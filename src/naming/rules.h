// The rule language of the name mapping, one for the built-in tables and for the user's files: what
// is called `from` is to be read as `to`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::naming {

// Names with placeholders, as the mapping rules write them: "layers.{n}.mlp.{p}". A placeholder
// stands for text without a dot, one whose name ends in '*' ("{path*}") for any text; never for
// nothing, and always for as little as fits.

// What each placeholder stands for, in order of first appearance.
using Bindings = std::vector<std::pair<std::string_view, std::string_view>>;

class NamePattern {
 public:
  // Errors are sentences without a place: the caller knows the line.
  static Result<NamePattern> Parse(std::string text);

  // True where the whole name fits; `bindings` then holds views of the pattern and the name. One
  // pass over the name, without trying again.
  bool Match(std::string_view name, Bindings& bindings) const;
  // The name that the pattern stands for; every placeholder must be bound.
  std::string Format(const Bindings& bindings) const;
  size_t FormattedBytes(const Bindings& bindings) const;

  // Without placeholders: a name.
  bool is_literal() const { return tokens_.size() == 1 && !tokens_.front().placeholder; }

  const std::string& text() const { return text_; }
  std::vector<std::string> Placeholders() const;  // sorted, each once

 private:
  struct Token {
    size_t begin = 0;  // of the literal or of the placeholder's name, in text_
    size_t size = 0;
    bool placeholder = false;
    bool spans_dots = false;
  };
  std::string_view Text(const Token& token) const {
    return std::string_view(text_).substr(token.begin, token.size);
  }

  std::string text_;
  std::vector<Token> tokens_;
};

// How the parts of a joined parameter lie in it, along the rule's axis.
enum class Arrangement : uint8_t {
  kOneAfterAnother,  // all of the first part, all of the second, ...
  kQueryGroups,      // per query group: its queries, its key, its value (Megatron, GPT-NeoX)
};

// How long the parts of one parameter are, where they must be known to cut it.
enum class Proportion : uint8_t {
  kSizes,          // as Rule::sizes says; empty: all alike
  kQueryKeyValue,  // attention heads : query groups : query groups
};

enum class RuleSide : uint8_t { kBoth, kFirst, kSecond };

struct Rule {
  int line = 0;
  // One to one: another name. One to several: `from` holds all `to`. Several to one: `to` is joined
  // of all `from`. All patterns of a rule have the same placeholders.
  std::vector<NamePattern> from;
  std::vector<NamePattern> to;
  size_t axis = 0;
  bool transpose = false;  // each `from` is a matrix to be turned first
  Arrangement arrangement = Arrangement::kOneAfterAnother;
  Proportion proportion = Proportion::kSizes;
  std::vector<int64_t> sizes;
  std::optional<bool> gated;        // holds for models with (or without) a gated feed-forward only
  RuleSide side = RuleSide::kBoth;  // of the user's rules
};

// A parameter of this name without counterpart is not a difference.
struct IgnoreRule {
  NamePattern name;
  std::string reason;
};

struct RuleSet {
  std::string source;  // for messages: the file's name
  std::vector<Rule> rules;
  std::vector<IgnoreRule> ignored;
};

// How one family of models names its parameters, as rules into the parts that all families share:
// Megatron core's names, with query, key, value, gate and up apart.
struct Dialect {
  std::string name;
  std::optional<NamePattern> conv1d;  // transposes hold only where this matrix is wider than high
  RuleSet set;                        // each `from` is one pattern
};

struct BuiltInMapping {
  std::vector<std::string> wrappers;    // left out of a name wherever they stand
  std::vector<std::string> prefixes;    // may be left out in front
  std::vector<std::string> vocabulary;  // parts whose rows are words
  std::string embedding;                // the part that a tied output layer shares
  std::string output_layer;
  RuleSet spellings;  // one to one, for every family: MindSpore's names for torch's
  std::vector<Dialect> dialects;
};

// A list of rules in YAML. Errors name file, line and key.
Result<RuleSet> LoadRules(const std::filesystem::path& file);
Result<RuleSet> ParseRules(std::string_view yaml, std::string file_name);

// config/ckpt_mapping.yaml, as built into the program.
Result<BuiltInMapping> LoadBuiltInMapping();

}  // namespace msprobe::naming
