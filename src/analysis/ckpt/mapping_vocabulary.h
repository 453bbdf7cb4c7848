// Word embeddings and output layers whose rows are padded to different numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "msprobe/status.h"

#include "src/analysis/ckpt/match.h"

namespace msprobe::analysis::ckpt {

// Leaves out the rows beyond the vocabulary. `wanted` is what the user gave, `recorded` what the
// checkpoints know; without either, rows are cut where one side has a few more than the other.
// Pairs whose other axes differ stay as they are.
Status CutToVocabulary(std::optional<int64_t> wanted, std::optional<int64_t> recorded,
                       MatchedPair& pair);

}  // namespace msprobe::analysis::ckpt
