// What a comparison of two reinforcement learning runs came to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/rl/options.h"
#include "src/analysis/rl/token_numbers.h"

namespace msprobe::analysis::rl {

struct TokenSummary {
  TokenKey key;
  TokenNumbers numbers;
  uint64_t compared = 0;     // pairs
  uint64_t unpaired = 0;     // arrays without a partner
  uint64_t other_shape = 0;  // pairs of which only a part was compared
  uint64_t failed = 0;       // pairs that could not be compared
  // For the screen, empty if there is none: the token that differs most, and the pairs of arrays
  // whose mean differs most and least.
  std::string worst_token;
  std::string largest_mean;
  std::string smallest_mean;
};

// Whether a token that counts has another log-probability, or something could not be compared.
bool HasDifferences(const TokenSummary& summary);

struct KeySummary {
  std::string key;
  uint64_t compared = 0;    // pairs
  uint64_t identical = 0;   // of them
  uint64_t only_first = 0;  // arrays without a partner
  uint64_t only_second = 0;
  uint64_t other_shape = 0;  // pairs of which only a part was compared
  uint64_t failed = 0;       // pairs that could not be compared
  uint64_t nan_mismatches = 0;
  double max_abs = 0;
  std::string worst;  // where max_abs is: "step 0, rank 0, micro step 1"
};

struct Comparison {
  std::vector<KeySummary> keys;
  std::vector<TokenSummary> tokens;  // as Options::tokens names them
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
};

// No array of one side was held against one of the other.
bool ComparedNothing(const Comparison& comparison);
bool HasDifferentKeys(const Comparison& comparison);
// Of keys, or of tokens, which may stand under different keys.
bool HasDifferences(const Comparison& comparison);

}  // namespace msprobe::analysis::rl
