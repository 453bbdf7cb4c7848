// -da over a run: one JSON file per rank while the pairs go by, one answer per step at the end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/line26/first_difference.h"
#include "src/analysis/compare/pairing.h"

namespace msprobe::analysis::compare {

class DifferenceRun {
 public:
  DifferenceRun(std::filesystem::path output_folder, std::string stamp)
      : output_folder_(std::move(output_folder)), stamp_(std::move(stamp)) {}

  // Writes compare_result_rank<N>_<stamp>.json and appends it to `files`.
  Status Add(const PlannedPair& plan, const ComparedPair& pair,
             std::vector<std::filesystem::path>& files);

  // Searches every step; writes diff_analyze_<nanoseconds>.json where something differs. Appends
  // one line per step to `answers`.
  Status Finish(std::vector<std::string>& answers, std::vector<std::filesystem::path>& files) const;

 private:
  struct Step {
    std::filesystem::path folder;  // below the output folder
    std::vector<RankCalls> ranks;
  };

  std::filesystem::path output_folder_;
  std::string stamp_;
  std::vector<Step> steps_;
};

}  // namespace msprobe::analysis::compare
