// The relations of a pair's rows to their partners.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/relation.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {

// What single ranks hold of joined rows. Thread-safe.
class PartSource {
 public:
  struct Parts {
    std::vector<tensor::TensorBuffer> npu;  // by rank; empty: not known
    std::vector<tensor::TensorBuffer> bench;
    std::vector<int64_t> npu_ranks;  // as many as `npu`
    bool reduced_again = false;      // as RankParts
    int64_t reducing_ranks = 1;      // as RelationRequest::parts
  };
  virtual ~PartSource() = default;
  // Nothing for rows of which one rank holds all.
  virtual Result<std::optional<Parts>> PartsOf(const SideRow& npu, const SideRow& bench) const = 0;
};

struct RelationInput {
  const NoiseRules& noise;
  const Side& npu;
  const Side& bench;
  const TensorLoader* loader = nullptr;  // in place of the rows' files
  const PartSource* parts = nullptr;
  std::filesystem::path bench_before = {};  // the bench's json of the step before; may be empty
};

// Sets the relation (and, where parts show it, the ranks) of the first divergence and of those of
// its kinds. Tensors are read where the dump holds them, else the four statistics decide.
void AddRelations(const RelationInput& input, const PairResult& result, DivergenceReport& report);

// Fills PairResult::relations: of every row that differs or drifts, in the order of rows until
// kMostRelationElements have been read. How many rows were left out.
inline constexpr int64_t kMostRelationElements = int64_t{1} << 28U;
uint64_t AddRowRelations(const RelationInput& input, const DivergenceReport& report,
                         base::ThreadPool& pool, PairResult& result);

}  // namespace msprobe::analysis::compare
