// The four result files of a rank. They grow call by call, so that what was checked survives a
// kill.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/analysis/accuracy/online/judge_call.h"

namespace msprobe::analysis::accuracy {

class RankFiles {
 public:
  // accuracy_checking_{result,details}_<time>_rank<r>.csv and
  // api_precision_compare_{result,details}_<time>_rank<r>.csv
  static Result<RankFiles> Create(const std::filesystem::path& folder, const std::string& time,
                                  int64_t rank, bool english);

  const std::array<std::filesystem::path, 4>& paths() const { return paths_; }
  // Opens what it writes to: no descriptors are kept, however many ranks there are.
  Status Append(const JudgedCall& judged);

 private:
  RankFiles() = default;

  std::array<std::filesystem::path, 4> paths_;
};

}  // namespace msprobe::analysis::accuracy
