#include "src/analysis/compare/kernel/call_finder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "src/analysis/compare/distance.h"
#include "src/base/numbers.h"
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

template <typename T>
void AppendBytes(const T& value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Equal for rows that stand as near to any row of a call.
std::string TraitsOf(const SideRow& row, const Shape& shape) {
  std::string traits(row.dtype);
  traits += row.is_tensor ? ";t" : ";s";
  traits += IsOutputRow(row) ? 'o' : 'i';
  for (const StatValue& stat : row.stats) {
    traits += static_cast<char>(stat.kind);
    traits += stat.boolean ? '1' : '0';
    AppendBytes(stat.number, traits);
  }
  for (const int64_t size : shape) {
    AppendBytes(size, traits);
  }
  return traits;
}

}  // namespace

CallFinder::CallFinder(const Side& kernels, const Side& calls) : kernels_(kernels), calls_(calls) {
  std::unordered_map<std::string, uint32_t> known;  // groups
  for (uint32_t i = 0; i < kernels.rows.size(); ++i) {
    const SideRow& row = kernels.rows[i];
    std::optional<Shape> shape = WithoutOnes(row.shape);
    if (!shape) {
      continue;
    }
    const auto [group, is_new] =
        known.try_emplace(TraitsOf(row, *shape), static_cast<uint32_t>(groups_.size()));
    if (is_new) {
      std::vector<uint32_t>& alike = groups_of_[{*std::move(shape), IsOutputRow(row)}];
      if (alike.size() == kMostAlike) {
        known.erase(group);
        ++left_out_;
        continue;
      }
      groups_.push_back({{}, ParseDType(row.dtype)});
      alike.push_back(group->second);
    }
    groups_[group->second].rows.push_back(i);
  }
}

std::string CallFinder::LeftOutText() const {
  return fmt::format(
      "{} not looked at to find the call of the kernels: {} others have the shape",
      left_out_ == 1 ? "1 kernel tensor is" : base::Plural(left_out_, "kernel tensor") + " are",
      base::FormatCount(kMostAlike));
}

CallMatch CallFinder::Match(uint32_t entry) const {
  CallMatch match;
  match.entry = entry;
  Taken taken;
  const SideEntry& call = calls_.entries[entry];
  for (uint32_t i = call.first_row; i < call.first_row + call.row_count; ++i) {
    const SideRow& row = calls_.rows[i];
    if (!row.is_tensor || !row.stats[kMax].is_numeric()) {
      continue;
    }
    ++match.tensors;
    double distance = 0;
    const uint32_t kernel = Nearest(row, taken, distance);
    if (kernel == kNoRow) {
      continue;
    }
    match.rows.push_back({kernel, i, distance});
    match.has_output = match.has_output || IsOutputRow(row);
    match.farthest = std::max(match.farthest, distance);
  }
  std::sort(match.rows.begin(), match.rows.end(),
            [](const CallMatch::Row& a, const CallMatch::Row& b) { return a.kernel < b.kernel; });
  return match;
}

uint32_t CallFinder::Nearest(const SideRow& row, Taken& taken, double& nearest) const {
  std::optional<Shape> shape = WithoutOnes(row.shape);
  const bool is_output = IsOutputRow(row);
  const auto place = shape ? groups_of_.find({*std::move(shape), is_output}) : groups_of_.end();
  if (place == groups_of_.end()) {
    return kNoRow;
  }
  const std::optional<DType> dtype = ParseDType(row.dtype);
  bool found_dtype = false;
  uint32_t found = kNoRow;
  uint32_t found_group = 0;
  for (const uint32_t index : place->second) {
    const Alike& group = groups_[index];
    const auto of_group = taken.find(index);
    const size_t used = of_group == taken.end() ? 0 : of_group->second;
    if (used == group.rows.size()) {
      continue;
    }
    const uint32_t kernel = is_output ? group.rows[group.rows.size() - 1 - used] : group.rows[used];
    const Distance distance = StatisticsDistance(kernels_.rows[kernel], row);
    if (!distance.comparable) {
      continue;
    }
    const double far = distance.nonfinite_differs ? HUGE_VAL : distance.relative;
    const bool same_dtype = group.dtype == dtype;
    const bool as_good =
        far == nearest &&
        (same_dtype > found_dtype ||
         (same_dtype == found_dtype && (is_output ? kernel > found : kernel < found)));
    if (found == kNoRow || far < nearest || as_good) {
      found = kernel;
      found_group = index;
      nearest = far;
      found_dtype = same_dtype;
    }
  }
  if (found != kNoRow) {
    ++taken[found_group];
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
