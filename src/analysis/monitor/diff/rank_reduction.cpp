#include "src/analysis/monitor/diff/rank_reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "src/analysis/monitor/common/table_rows.h"

namespace msprobe::analysis::monitor::internal {
namespace {

enum class Reduction : uint8_t { kNone, kRoot, kLeast, kMost, kSum, kAverage };

Reduction ReductionOf(std::string_view op) {
  if (op == "norm") {
    return Reduction::kRoot;
  }
  if (op == "min") {
    return Reduction::kLeast;
  }
  if (op == "max" || op == "amax") {
    return Reduction::kMost;
  }
  if (op == "nans" || op == "infs" || op == "subnormals") {
    return Reduction::kSum;
  }
  // Entropies of what a rank's tokens choose are averages over tokens, as mean is over elements.
  return op == "mean" || op == "zeros" || op == "per_token_expert_entropy" ? Reduction::kAverage
                                                                           : Reduction::kNone;
}

double Reduce(Reduction reduction, const std::vector<double>& column,
              const std::vector<size_t>& rows) {
  double result = reduction == Reduction::kLeast  ? std::numeric_limits<double>::infinity()
                  : reduction == Reduction::kMost ? -std::numeric_limits<double>::infinity()
                                                  : 0;
  double scale = 0;  // the largest magnitude, so that squares stay within range
  size_t measured = 0;
  for (const size_t row : rows) {
    if (IsNoNumber(column[row])) {
      continue;
    }
    if (std::isnan(column[row])) {
      return column[row];
    }
    ++measured;
    scale = std::max(scale, std::fabs(column[row]));
  }
  if (measured == 0) {
    return kNoNumber;
  }
  for (const size_t row : rows) {
    const double value = column[row];
    if (IsNoNumber(value)) {
      continue;
    }
    switch (reduction) {
      case Reduction::kRoot:
        result += scale > 0 && std::isfinite(scale) ? (value / scale) * (value / scale) : 0;
        break;
      case Reduction::kLeast:
        result = std::min(result, value);
        break;
      case Reduction::kMost:
        result = std::max(result, value);
        break;
      default:
        result += value;
    }
  }
  if (reduction == Reduction::kRoot) {
    return std::isfinite(scale) ? scale * std::sqrt(result) : scale;
  }
  return reduction == Reduction::kAverage ? result / static_cast<double>(measured) : result;
}

// Bits, so that NaN is equal to itself.
bool SameRow(const Series& series, size_t a, size_t b) {
  return std::all_of(series.values.begin(), series.values.end(), [a, b](const auto& value) {
    return std::bit_cast<uint64_t>(value.second[a]) == std::bit_cast<uint64_t>(value.second[b]);
  });
}

// What every rank of a data-parallel group holds alike.
bool IsSharedTable(std::string_view table) {
  return table == "grad_reduced" || table.starts_with("exp_avg") || table.starts_with("param_") ||
         table == "update_ratio";
}

}  // namespace

bool IsReducible(std::string_view op) { return ReductionOf(op) != Reduction::kNone; }
bool IsReducibleTable(std::string_view table) {
  return table != "grad_unreduced" && table != "other";
}

RankReduction::RankReduction(const MonitoredRun& run) {
  for (const RankFolder& folder : run.folders) {
    if (!folder.topology.has_value()) {
      continue;
    }
    const auto rank = static_cast<int32_t>(folder.rank);
    stages_[rank] = folder.topology->pipeline_stage;
    if (folder.topology->data_ranks.has_value() && !folder.topology->data_ranks->empty()) {
      representatives_[rank] = static_cast<int32_t>(*std::min_element(
          folder.topology->data_ranks->begin(), folder.topology->data_ranks->end()));
    }
  }
}

int64_t RankReduction::PipelineStage(int32_t rank) const {
  const auto found = stages_.find(rank);
  return found == stages_.end() ? 0 : found->second;
}

// Drops rows that tell what another one of `rows` tells already.
void RankReduction::KeepRepresentatives(const Series& series, std::vector<size_t>& rows) const {
  std::set<int32_t> groups;
  std::vector<size_t> kept;
  for (const size_t row : rows) {
    const auto representative = representatives_.find(series.ranks[row]);
    const bool is_copy = (IsSharedTable(series.table) && representative != representatives_.end() &&
                          !groups.insert(representative->second).second) ||
                         std::any_of(kept.begin(), kept.end(), [&series, row](size_t other) {
                           return SameRow(series, row, other);
                         });
    if (!is_copy) {
      kept.push_back(row);
    }
  }
  rows = std::move(kept);
}

Series RankReduction::Reduce(const Series& series) const {
  Series reduced = {series.table, series.stage, series.name, series.micro_step,
                    series.order, {},           {},          {}};
  for (const auto& value : series.values) {
    if (IsReducible(value.first)) {
      reduced.values[value.first];
    }
  }
  for (size_t begin = 0; begin < series.steps.size();) {
    std::vector<size_t> rows;
    size_t end = begin;
    for (; end < series.steps.size() && series.steps[end] == series.steps[begin]; ++end) {
      rows.push_back(end);
    }
    KeepRepresentatives(series, rows);
    reduced.steps.push_back(series.steps[begin]);
    reduced.ranks.push_back(-1);
    for (auto& value : reduced.values) {
      value.second.push_back(internal::Reduce(ReductionOf(value.first),
                                              series.values.find(value.first)->second, rows));
    }
    begin = end;
  }
  return reduced;
}

}  // namespace msprobe::analysis::monitor::internal
