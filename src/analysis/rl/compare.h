// Two runs of a reinforcement learning, as SingleSave stored them, compared key by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/rl/result_tables.h"
#include "src/analysis/rl/token_view.h"
#include "src/report/table.h"

namespace msprobe::analysis::rl {

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

// One file per key and format, and two more per key of tokens.
Result<Comparison> Compare(const Options& options);

// No array of one side was held against one of the other.
bool ComparedNothing(const Comparison& comparison);
bool HasDifferentKeys(const Comparison& comparison);
// Of keys, or of tokens, which may stand under different keys.
bool HasDifferences(const Comparison& comparison);

}  // namespace msprobe::analysis::rl
