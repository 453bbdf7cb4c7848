#include "src/analysis/compare/kernel/call_finder.h"

#include <algorithm>
#include <cmath>

#include "msprobe/dtype.h"

#include "src/analysis/compare/distance.h"
#include "src/base/number_text.h"
#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

// "[1, 3, 1, 4]" and "[3, 4]" are one tensor to a kernel.
std::optional<Shape> WithoutOnes(std::string_view text) {
  std::optional<Shape> shape = ShapeOfText(text);
  if (shape) {
    std::erase(*shape, 1);
  }
  return shape;
}

bool IsOutputRow(const SideRow& row) { return row.state == dump::RowState::kOutput; }

}  // namespace

CallFinder::CallFinder(const Side& kernels, const Side& calls) : kernels_(kernels), calls_(calls) {
  for (const SideRow& row : kernels.rows) {
    shapes_.push_back(WithoutOnes(row.shape));
  }
}

CallMatch CallFinder::Match(uint32_t entry) const {
  CallMatch match;
  match.entry = entry;
  std::vector<bool> used(kernels_.rows.size(), false);
  const SideEntry& call = calls_.entries[entry];
  for (uint32_t i = call.first_row; i < call.first_row + call.row_count; ++i) {
    const SideRow& row = calls_.rows[i];
    if (!row.is_tensor || !row.stats[kMax].is_numeric()) {
      continue;
    }
    ++match.tensors;
    double distance = 0;
    const uint32_t kernel = Nearest(row, used, distance);
    if (kernel == kNoRow) {
      continue;
    }
    used[kernel] = true;
    match.rows.push_back({kernel, i, distance});
    match.has_output = match.has_output || IsOutputRow(row);
    match.farthest = std::max(match.farthest, distance);
  }
  std::sort(match.rows.begin(), match.rows.end(),
            [](const CallMatch::Row& a, const CallMatch::Row& b) { return a.kernel < b.kernel; });
  return match;
}

uint32_t CallFinder::Nearest(const SideRow& row, const std::vector<bool>& used,
                             double& nearest) const {
  const std::optional<Shape> shape = WithoutOnes(row.shape);
  const std::optional<DType> dtype = ParseDType(row.dtype);
  bool found_dtype = false;
  uint32_t found = kNoRow;
  for (uint32_t i = 0; i < kernels_.rows.size(); ++i) {
    const SideRow& kernel = kernels_.rows[i];
    if (used[i] || IsOutputRow(kernel) != IsOutputRow(row) || !shape || shapes_[i] != shape) {
      continue;
    }
    const Distance distance = StatisticsDistance(kernel, row);
    if (!distance.comparable) {
      continue;
    }
    const double far = distance.nonfinite_differs ? HUGE_VAL : distance.relative;
    const bool same_dtype = ParseDType(kernel.dtype) == dtype;
    const bool as_good = far == nearest && (same_dtype > found_dtype ||
                                            (same_dtype == found_dtype && IsOutputRow(row)));
    if (found == kNoRow || far < nearest || as_good) {
      found = i;
      nearest = far;
      found_dtype = same_dtype;
    }
  }
  return found;
}

std::optional<Shape> ShapeOfText(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  Shape shape;
  text = text.substr(1, text.size() - 2);
  for (const std::string_view part : base::Split(text, ',')) {
    const std::optional<int64_t> size = base::ParseInt(base::Trim(part));
    if (size && *size >= 0) {
      shape.push_back(*size);
    } else if (!base::Trim(text).empty()) {
      return std::nullopt;
    }
  }
  return shape;
}

}  // namespace msprobe::analysis::compare
