// Pairs the dump.json files of two trees: steps and ranks pair by number.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/layouts/plan.h"

namespace msprobe::analysis::compare {

struct PlannedPair {
  PairInput input;
  bool is_debug = false;    // debug.json
  std::string rank_suffix;  // "_rank0" in result file names; empty when each side is a single rank
  std::filesystem::path
      result_subfolder;  // "step3" when several steps are compared; empty otherwise
  // The layouts of both sides, and the ranks of a joined pair; null: nothing is known of them.
  std::shared_ptr<layouts::PairLayout> layout = {};
};

struct PairingPlan {
  std::vector<PlannedPair> pairs;     // by step, rank, dump before debug
  std::vector<std::string> npu_only;  // "step0/rank3": no partner on the bench side
  std::vector<std::string> bench_only;
};

// A side with one step pairs with the only step of the other whatever the numbers, and so does a
// side with one rank. Process folders pair where each side of a step has one. With kV26 as many
// ranks of entirely other numbers pair by position, and where both sides hold folders named graph
// or pynative (MindSpore programs of both kinds), every step below each, with results in
// <folder>/<step>. kNotFound when nothing pairs.
Result<PairingPlan> PlanPairs(const std::filesystem::path& npu_path,
                              const std::filesystem::path& bench_path,
                              Edition edition = Edition::kV8);

}  // namespace msprobe::analysis::compare
