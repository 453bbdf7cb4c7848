// Two arrays by the vendor's measures.
#pragma once

#include <array>
#include <filesystem>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/vector_measures.h"

namespace msprobe::analysis::kernel_dump {

// Those of a table but for the divergence and the deviations, in the order of its columns.
inline constexpr std::array<Measure, 8> kFileMeasures = {Measure::kCosine,
                                                         Measure::kMaxAbsolute,
                                                         Measure::kAccumulatedRelative,
                                                         Measure::kRelativeEuclidean,
                                                         Measure::kMeanAbsolute,
                                                         Measure::kRootMeanSquare,
                                                         Measure::kMaxRelative,
                                                         Measure::kMeanRelative};

struct FileComparison {
  std::filesystem::path mine;
  std::filesystem::path golden;
  VectorMeasures measures;
  std::filesystem::path file;  // <output>/file_result_<time>.txt; empty where nothing was compared
  Status status;               // why nothing was compared: kMismatch for shapes that differ
};

// An error when a file cannot be read or the result not be written.
Result<FileComparison> CompareArrayFiles(const std::filesystem::path& mine,
                                         const std::filesystem::path& golden,
                                         const std::filesystem::path& output);

}  // namespace msprobe::analysis::kernel_dump
