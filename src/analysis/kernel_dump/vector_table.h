// The table of a comparison of kernel dumps, as the vendor's tool writes it.
#pragma once

#include <filesystem>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/vector_compare.h"

namespace msprobe::analysis::kernel_dump {

// <output>/result_<time>.csv: Index, OpType, NPUDump, DataType, Address, GroundTruth, DataType,
// Address, TensorIndex, Shape, [OverFlow,] the measures, CompareFailReason. "NaN" stands for what
// is not known, "*" for an operator that a side does not have. Returns its path.
Result<std::filesystem::path> WriteVectorTable(const VectorOptions& options,
                                               const std::vector<VectorRow>& rows);

}  // namespace msprobe::analysis::kernel_dump
