// Members that stand under step<S>/rank<R>/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/config_check/pack.h"

namespace msprobe::analysis::config_check {

struct StepFile {
  int64_t step = 0;
  int64_t rank = 0;
  std::string_view member;  // the whole name; lives as long as the pack
};

// The number in "step12" or "rank0"; nullopt for any other name.
std::optional<int64_t> NumberBehind(std::string_view name, std::string_view prefix);

struct StepFiles {
  std::vector<StepFile> files;        // by step, rank, name
  std::vector<std::string> unplaced;  // JSON members whose folders have other names
};

// The JSON members of a part: all of them, or those called `file_name`.
StepFiles FindStepFiles(const Pack& pack, Part part, std::string_view file_name);

// "step 3 rank 0": steps and ranks of `files` that `others` lacks, "" for none. Long lists are
// shortened.
std::string OnlyIn(const std::vector<StepFile>& files, const std::vector<StepFile>& others);

}  // namespace msprobe::analysis::config_check
