// Pairs of parameters, element by element: streamed in blocks on all threads, whatever pieces they
// lie in.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"

#include "src/analysis/ckpt/result.h"
#include "src/base/threads.h"
#include "src/checkpoint/checkpoint.h"
#include "src/json/writer.h"
#include "src/report/table.h"

namespace msprobe::analysis::ckpt {

struct PairSettings {
  Tolerance tolerance;
  bool means = false;  // also sum_a and sum_b
  // Elements and figures as the Python tool has them: rounded to float32, complex ones without
  // their imaginary part. Otherwise nothing is lost.
  bool float32 = false;
  // Called from any thread when so many elements of one side (and bytes of both) are done.
  std::function<void(uint64_t elements, uint64_t bytes)> on_progress;
};

// The result of a pair before any element is looked at.
PairResult Describe(const MatchedPair& pair);

// One result per pair, in their order. The figures do not depend on the number of threads. Memory:
// some blocks per thread. Pages of mapped files are handed back behind the comparison.
std::vector<PairResult> ComparePairs(std::span<const MatchedPair> pairs,
                                     const std::deque<TensorFile>& files_a,
                                     const std::deque<TensorFile>& files_b,
                                     const PairSettings& settings, base::ThreadPool& pool);

// Parameters of two checkpoints that hold the same elements under other names: what a mapping can
// be made of, and what tells that two were exchanged.

// Looks among the parameters without a partner and those that differ from theirs. Of several with
// the same elements (norms of ones) the first goes with the first, if both sides have as many.
// Nothing beyond `most_bytes` of each side is read, the smallest parameters first. In order of the
// first checkpoint.
std::vector<SameContent> FindSameContent(const checkpoint::Checkpoint& a,
                                         const checkpoint::Checkpoint& b,
                                         const MatchedParameters& matched,
                                         std::span<const PairResult> results, uint64_t most_bytes,
                                         base::ThreadPool& pool);

// Rules for --mapping, a line each; names that a pattern cannot spell are left out.
std::string MappingDraft(std::span<const SameContent> same);

// Which parameters quantisation hurts most: by the error of the weights alone, and, with a dump of
// activations, by what that error does to the output of each module.

// Sets Comparison::sensitivity. `activations`: a dump with the inputs of modules; empty: none.
// Tensors give the effect itself, statistics a bound of it. Fails where the dump cannot be read.
Status RankSensitivity(std::span<const MatchedPair> pairs, const std::filesystem::path& activations,
                       base::ThreadPool& pool, Comparison& comparison);

// The same in the forms of an answer.
report::Table SensitivityTable(const Comparison& comparison);
void PutSensitivity(json::Writer& writer, const Comparison& comparison);

}  // namespace msprobe::analysis::ckpt
