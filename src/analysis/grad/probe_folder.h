// What the task grad_probe left in a folder: which ranks and steps, and the names of parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::grad {

using NumberedFolders = std::map<int64_t, std::filesystem::path>;

// Folders <word><digits> directly below `folder`, by number.
Result<NumberedFolders> FindNumbered(const std::filesystem::path& folder, std::string_view word);

// Files of directions in the folder of a step by the name of their parameter: .npy, else .npz
// (bits), else .pt.
Result<std::map<std::string, std::string>> FindDirections(const std::filesystem::path& step);

// A row of grad_summary_<step>.csv.
struct GradientSummary {
  std::string parameter;
  std::optional<double> largest;  // of the absolute values of its elements; none: not known
};
Result<std::vector<GradientSummary>> ReadSummary(const std::filesystem::path& table);

}  // namespace msprobe::analysis::grad
