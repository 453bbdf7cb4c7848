#include "src/analysis/compare/folder_counts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "src/tensor/float_limits.h"

namespace msprobe::analysis::compare {

void FolderCounts::Add(const Distance& distance, double noise, std::string_view name) {
  if (!distance.comparable) {
    return;
  }
  ++compared;
  if (distance.identical) {
    ++identical;
  } else if (distance.nonfinite_differs || !(distance.relative <= noise)) {
    if (differing++ == 0) {
      first_differing =
          distance.nonfinite_differs
              ? fmt::format("{}: NaN or infinity on one side only", name)
              : fmt::format("{}: apart by {:.1e} of its size", name, distance.relative);
    }
  }
}

double FolderNoise(DType npu, DType bench) {
  constexpr double kUnits = 16;
  const auto epsilon = [](DType dtype) {
    return std::max(2 * tensor::FormatOf(dtype).unit, 2 * tensor::FormatOf(DType::kFloat32).unit);
  };
  return kUnits * std::max(epsilon(npu), epsilon(bench));
}

Distance FolderDistance(const std::array<double, kStatCount>& npu,
                        const std::array<double, kStatCount>& bench) {
  Distance distance;
  for (size_t i = 0; i < kStatCount; ++i) {
    const bool same_nan = std::isnan(npu[i]) && std::isnan(bench[i]);
    if (same_nan) {
      continue;
    }
    distance.comparable = true;
    if (npu[i] == bench[i]) {
      continue;
    }
    if (!std::isfinite(npu[i]) || !std::isfinite(bench[i])) {
      distance.nonfinite_differs = true;
      continue;
    }
    const double difference = std::fabs(npu[i] - bench[i]);
    const double scale = std::max(std::fabs(npu[i]), std::fabs(bench[i]));
    distance.relative = std::max(distance.relative, difference / scale);
    distance.absolute = std::max(distance.absolute, difference);
  }
  distance.identical = distance.comparable && distance.absolute == 0 && !distance.nonfinite_differs;
  return distance;
}

}  // namespace msprobe::analysis::compare
