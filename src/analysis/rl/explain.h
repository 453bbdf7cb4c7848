// Where the gap between the log-probabilities of two runs comes from: causes with an exact law
// each, and the share of the gap that each of them explains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/rl/rl.h"
#include "src/analysis/rl/token_tables.h"
#include "src/base/threads.h"

namespace msprobe::analysis::rl {

// What is known about a token beside its log-probabilities; each bit names a set of tokens that one
// cause would single out.
enum TokenMark : uint16_t {
  kOtherVersion = 1U << 0U,   // the weights have another version on the other side
  kOtherIds = 1U << 1U,       // at or behind the first id that differs
  kShiftedIds = 1U << 2U,     // ids of one side are those of the other, shifted
  kLeftPads = 1U << 3U,       // its row begins with pads
  kBeyondEnd = 1U << 4U,      // behind the end of its response
  kOtherPosition = 1U << 5U,  // its position differs
  kLaterInPack = 1U << 6U,    // its sequence is not the first of its pack
  kOtherRoute = 1U << 7U,     // went to other experts
  kBehindRoute = 1U << 8U,    // a token before it in its sequence did
  kOtherBatch = 1U << 9U,     // its sequence was among others
};

// A run of tokens of one sequence that both sides have.
struct GapRow {
  const float* a = nullptr;  // log-probabilities; what is not counted in between is there, too
  const float* b = nullptr;
  const uint8_t* counts = nullptr;
  std::vector<uint16_t> marks;  // one per token; empty: all `mark`
  uint16_t mark = 0;            // of all tokens
  uint32_t length = 0;
  uint32_t a_array = 0;  // numbers of the arrays that it lies in
  uint32_t b_array = 0;
  int64_t step = 0;
  int64_t rank = 0;
  int64_t position = 0;   // of the first token in its sequence
  int64_t left_pads = 0;  // of its row
  uint64_t place = 0;     // the same row of another step has the same
  uint64_t ids_hash = 0;  // of its ids in the first run; 0: not known
};

struct RouteCounts {  // of one layer
  uint64_t tokens = 0;
  uint64_t differ = 0;
};

struct GapTokens {
  std::vector<GapRow> rows;  // in order of their places
  std::vector<RouteCounts> layers;
  int64_t vocabulary = 0;     // the largest id + 1; 0: not known
  bool has_versions = false;  // of both sides
  bool has_batches = false;   // sequence ids of both sides
  std::vector<std::string> warnings;

  // What the rows borrow from.
  struct Array;
  std::vector<std::shared_ptr<const Array>> arrays;
};

// At most kMostGapTokens tokens, whole arrays evenly spaced over the run.
inline constexpr uint64_t kMostGapTokens = uint64_t{1} << 24U;

Result<GapTokens> LoadGapTokens(const TokenKey& key, const TokenOptions& options,
                                const SavedData& first, const SavedData& second,
                                base::ThreadPool& pool);

// Causes of one pair of keys, the largest share first; noise and what is unexplained among them.
// Empty where nothing differs.
Explanation ExplainGap(const TokenKey& key, const GapTokens& tokens);

}  // namespace msprobe::analysis::rl
