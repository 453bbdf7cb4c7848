// Compares two reinforcement learning runs, as SingleSave stored them, key by key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/rl/token_numbers.h"
#include "src/report/document.h"

namespace msprobe::analysis::rl {

enum class Language : uint8_t { kChinese, kEnglish };
enum class FileFormat : uint8_t { kXlsx, kCsv, kJson };

struct TokenKey {
  std::string first;   // a key of the first run
  std::string second;  // the key of the second run it is compared with
};

struct TokenOptions {
  std::vector<TokenKey> keys;
  std::string mask;  // keys of the first run, empty for none: 0 where a token does not count, and
  std::string ids;   // what the token is
  size_t worst = 20;
  bool explain = false;
  // Keys of either run that tell causes apart; one that a run lacks is not used.
  std::string routes = "routed_experts";
  std::string positions = "position_ids";
  std::string prompt_lengths = "prompt_lengths";
  std::string response_lengths = "response_lengths";
  std::string sequences = "sequence_ids";
  std::string versions = "weight_version";
};

struct Cause {
  std::string name;     // "stale_weights"
  double share = 0;     // of the mean absolute difference of the log-probabilities
  uint64_t tokens = 0;  // that the cause reaches
  std::string steps;    // "3-5"
  std::string text;     // its law and the evidence
};

// Why two sides disagree about the log-probabilities of the same tokens.
struct Explanation {
  TokenKey key;
  uint64_t tokens = 0;
  double gap = 0;             // mean absolute difference of the log-probabilities
  std::vector<Cause> causes;  // the largest share first; shares sum to 1; empty: no gap
};

struct Options {
  std::filesystem::path first;
  std::filesystem::path second;
  std::filesystem::path output = "./msprobe_compare_output";
  std::vector<FileFormat> formats = {FileFormat::kXlsx};
  Language language = Language::kChinese;
  bool compat = false;  // columns, rows and values of the Python tool
  TokenOptions tokens;  // no keys: no tokens are looked at
  size_t threads = 0;
  bool quiet = false;
};

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
  std::vector<Explanation> explanations;
  std::vector<std::string> warnings;
  std::vector<std::filesystem::path> files;
};

// No array of one side was held against one of the other.
bool ComparedNothing(const Comparison& comparison);
bool HasDifferentKeys(const Comparison& comparison);
// Differences of keys, or of tokens, which may have different keys.
bool HasDifferences(const Comparison& comparison);

// One file per key and format, and two more per key of tokens. Progress goes to stderr unless
// options.quiet.
Result<Comparison> Run(const Options& options);

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"different", "a difference, or an array without a partner"}}};

report::Document MakeDocument(const Comparison& comparison);

}  // namespace msprobe::analysis::rl
