// Which parameters quantisation hurts most: by the error of the weights alone, and, with a dump of
// activations, by what that error does to the output of each module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/ckpt/result.h"
#include "src/base/threads.h"
#include "src/json/writer.h"
#include "src/report/document.h"

namespace msprobe::analysis::ckpt {

// Sets Comparison::sensitivity. `activations`: a dump with the inputs of modules; empty: none.
// Tensors give the effect itself, statistics a bound of it. Fails where the dump cannot be read.
Status RankSensitivity(std::span<const MatchedPair> pairs, const std::filesystem::path& activations,
                       base::ThreadPool& pool, Comparison& comparison);

// The same in the forms of an answer.
report::Table SensitivityTable(const Comparison& comparison);
void PutSensitivity(json::Writer& writer, const Comparison& comparison);

}  // namespace msprobe::analysis::ckpt
