// Log-probabilities of the same tokens, computed twice: how far the probabilities are apart, and at
// which tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/rl/options.h"
#include "src/analysis/rl/result.h"
#include "src/analysis/rl/saved_data.h"
#include "src/analysis/rl/token_numbers.h"
#include "src/base/threads.h"

namespace msprobe::analysis::rl {

// Names of the result files begin with the key of the first run.
inline constexpr std::string_view kTokensEnding = ".tokens";
inline constexpr std::string_view kTokenStepsEnding = ".token_steps";

// Two arrays of log-probabilities.
struct TokenPair {
  FilePair files;
  std::optional<Shape> first_shape;  // of what could be opened
  std::optional<Shape> second_shape;
  std::optional<TokenNumbers> numbers;  // absent without a partner and after an error
  std::string error;
};

struct TokenComparison {
  TokenKey key;
  std::vector<TokenPair> pairs;  // in the order of their places
  std::vector<WorstToken> worst;
  std::vector<std::optional<double>> ids;  // of the worst tokens; empty unless ids are wanted
  std::string ids_problem;                 // why some tokens lack their id
  TokenNumbers all;
};

// A usage error if a key is missing, or if two results would have one name.
Status CheckTokenKeys(const TokenOptions& options, const SavedData& first, const SavedData& second);

// Results do not depend on the number of threads. `quiet`: no progress is shown.
TokenComparison CompareTokenKey(const TokenKey& key, const TokenOptions& options,
                                const SavedData& first, const SavedData& second,
                                base::ThreadPool& pool, bool quiet);

TokenSummary Summarize(const TokenComparison& comparison);
// What users should know about the tokens that were left out, sentence by sentence.
std::vector<std::string> WarningsOf(const TokenComparison& comparison);

}  // namespace msprobe::analysis::rl
