// Matching the parameters of any two checkpoints: equal names first, then what the user's rules
// say, then both sides' dialects (Megatron, Hugging Face families, MindFormers) through the parts
// they have in common. Joined and cut parameters are views of the files' bytes; nothing is copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"
#include "src/checkpoint/checkpoint.h"
#include "src/naming/parts.h"
#include "src/naming/rules.h"

namespace msprobe::analysis::ckpt {

struct MappingOptions {
  std::filesystem::path rules;  // the user's, in YAML; empty: none
  // Rows of the word embeddings and the output layer that belong to the vocabulary, the rest being
  // padding. Without it rows are left out only where the two sides have different numbers of them.
  std::optional<int64_t> vocabulary;
  // For checkpoints that do not say: how joined query, key and value lie side by side.
  std::optional<int64_t> attention_heads;
  std::optional<int64_t> query_groups;
};

// Applies the user's rules in their order; `fitted` counts, rule by rule, how often one did.
// Parameters that a rule fits but cannot handle stay, with a warning. An error, with the rule's
// line, where the rules make more of a checkpoint than one can have.
Status ApplyRules(const naming::RuleSet& rules, naming::RuleSide which,
                  naming::MappedCheckpoint& side, std::vector<size_t>& fitted,
                  std::vector<std::string>& warnings);

// Pairs are named after `a`'s parameters and come in their order; what `b` holds is cut and joined
// to suit. The only errors are those of the rules file.
Result<MatchedParameters> MatchParameters(const checkpoint::Checkpoint& a,
                                          const checkpoint::Checkpoint& b,
                                          const MappingOptions& options);

}  // namespace msprobe::analysis::ckpt
