// One dump.json (or debug.json) against one other: everything known about the pair, in memory.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/divergence.h"
#include "src/analysis/compare/mapping.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_relations.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {

struct PairInput {
  std::filesystem::path npu_json;
  std::filesystem::path bench_json;
  std::optional<int64_t> step;
  std::optional<int64_t> rank;
  std::optional<int64_t> bench_step = {};
  std::filesystem::path bench_before = {};  // the bench's json of the step before; may be empty
};

struct PairTimings {
  double load_seconds = 0;
  double compare_seconds = 0;
  double write_seconds = 0;
};

// Both sides as they were read.
struct LoadedPair {
  Side npu;
  Side bench;
  std::optional<dump::StackFile> stack;  // of the NPU side
  bool show_stack_column = false;
  std::optional<dump::ConstructFile> construct;  // of the NPU side
  std::string call;  // of kernels: the call that they belong to, in a sentence; may be empty
};

// The findings of a comparison.
struct PairFindings {
  RowMapping mapping;
  PairResult result;
  DivergenceReport divergence;
  StepRecord record;  // what this step leaves to the next one
  std::vector<std::string> warnings;
  PairTimings timings;
};

struct ComparedPair : LoadedPair, PairFindings {};

// Sides that others hold.
struct PairSides {
  const Side& npu;
  const Side& bench;
  const dump::StackFile* stack = nullptr;  // of the NPU side
  const dump::ConstructFile* construct = nullptr;
};

// How rows of sides that no dump.json describes are paired and read.
struct PairSource {
  std::optional<RowMapping> mapping;       // in place of the one that the options ask for
  const TensorLoader* loader = nullptr;    // in place of the rows' files
  std::vector<std::string> warnings = {};  // of loading
  double load_seconds = 0;
  bool sums_are_joined = false;       // PairResult::sums_are_joined
  const PartSource* parts = nullptr;  // what single ranks hold; may be null
  std::vector<ReplicaDifference> replicas = {};
};

// The mode follows from both sides' task; kMismatch when they cannot be compared.
Result<CompareMode> DetectMode(const Side& npu, const Side& bench);

// The files of a pair; `source` gets what is to be said of reading them.
Result<LoadedPair> LoadPair(const Options& options, const PairInput& input, base::ThreadPool& pool,
                            PairSource& source);

// `previous`: of the step before this one, same rank; null when it was not compared.
Result<ComparedPair> ComparePair(const Options& options, const PairInput& input,
                                 base::ThreadPool& pool, const StepRecord* previous = nullptr);

// The part of ComparePair after reading. Uses `pool` for tensors only.
Result<ComparedPair> CompareLoaded(const Options& options, const PairInput& input,
                                   LoadedPair loaded, PairSource source, base::ThreadPool& pool,
                                   const StepRecord* previous = nullptr);

// The same without what only a table shows: rows get no notes, no colours and, by the rules of v26,
// no verdicts. For the rules of v8 and sides that were read; several pairs may be compared at a
// time.
Result<PairFindings> FindDifferences(const Options& options, const PairInput& input,
                                     const PairSides& sides, base::ThreadPool& pool,
                                     const StepRecord* previous);

}  // namespace msprobe::analysis::compare
