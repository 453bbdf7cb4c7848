#include "src/analysis/ckpt/mapping_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Parameter;

// Of one checkpoint: hundreds of times what models with a thousand layers need.
constexpr uint64_t kFreeSlices = 500'000;
constexpr uint64_t kFileBytesPerSlice = 256;
// Each slice looks at every piece of its parameter.
constexpr uint64_t kFreeLooks = 100'000'000;

Status HeadsMissing() {
  return UsageError("neither checkpoint records the number of attention heads and query groups")
      .WithHint("give --num-attention-heads N (and --num-query-groups N, if fewer)");
}

Result<int64_t> GroupCount(const Rule& rule, const HeadCounts& heads) {
  if (rule.arrangement == Arrangement::kOneAfterAnother) {
    return int64_t{1};
  }
  if (!heads.query_groups) {
    return HeadsMissing();
  }
  return *heads.query_groups;
}

// Relative lengths of the parts within one group.
Result<std::vector<int64_t>> Proportions(const Rule& rule, size_t count, int64_t groups,
                                         const HeadCounts& heads) {
  if (rule.proportion == Proportion::kSizes) {
    return rule.sizes.empty() ? std::vector<int64_t>(count, 1) : rule.sizes;
  }
  if (!heads.attention_heads || !heads.query_groups) {
    return HeadsMissing();
  }
  if (*heads.attention_heads % *heads.query_groups != 0) {
    return MismatchError(fmt::format("{} attention heads cannot be divided among {} query groups",
                                     *heads.attention_heads, *heads.query_groups));
  }
  const int64_t key_heads = *heads.query_groups / groups;
  return std::vector<int64_t>{*heads.attention_heads / groups, key_heads, key_heads};
}

Status CheckAxis(const Parameter& parameter, const Rule& rule) {
  if (rule.axis < parameter.shape.size()) {
    return {};
  }
  return MismatchError(fmt::format("{} of shape {} has no axis {} to cut or join along",
                                   parameter.name, ShapeText(parameter.shape), rule.axis));
}

// Slices of one parameter would each bring its notes along.
Result<Parameter> JoinSlices(std::vector<Parameter>& slices, size_t axis,
                             std::vector<std::string> notes) {
  for (Parameter& slice : slices) {
    slice.notes.clear();
  }
  MSP_ASSIGN_OR_RETURN(Parameter joined, checkpoint::Concatenate(slices, axis));
  joined.notes = std::move(notes);
  return joined;
}

}  // namespace

SliceBudget::SliceBudget(uint64_t file_bytes)
    : slices_left_(kFreeSlices + file_bytes / kFileBytesPerSlice),
      looks_left_(kFreeLooks + file_bytes) {}

Status SliceBudget::Take(int64_t groups, size_t parts, size_t pieces) {
  const uint64_t slices = static_cast<uint64_t>(groups) * parts;
  if (slices > slices_left_ || slices > looks_left_ / std::max<size_t>(pieces, 1)) {
    return MismatchError(
               fmt::format("{} slices for {} query groups are out of proportion to the files",
                           slices, groups))
        .WithHint("give --num-attention-heads N (and --num-query-groups N) if they are wrong");
  }
  slices_left_ -= slices;
  looks_left_ -= slices * std::max<size_t>(pieces, 1);
  return {};
}

Result<std::vector<Parameter>> SplitParameter(const Parameter& whole, const Rule& rule,
                                              bool transpose, size_t count, const HeadCounts& heads,
                                              SliceBudget& budget) {
  if (!whole.status.ok()) {
    return std::vector<Parameter>(count, whole);
  }
  Parameter source = whole;
  if (transpose) {
    MSP_ASSIGN_OR_RETURN(source, checkpoint::Transpose(whole));
  }
  if (count == 1) {
    return std::vector<Parameter>{std::move(source)};
  }
  MSP_RETURN_IF_ERROR(CheckAxis(source, rule));
  MSP_ASSIGN_OR_RETURN(const int64_t groups, GroupCount(rule, heads));
  MSP_ASSIGN_OR_RETURN(const std::vector<int64_t> proportions,
                       Proportions(rule, count, groups, heads));
  MSP_RETURN_IF_ERROR(
      budget.Take(groups, proportions.size(), source.pieces.size()).AddContext(whole.name));
  const int64_t per_group = std::accumulate(proportions.begin(), proportions.end(), int64_t{0});
  const int64_t length = source.shape[rule.axis];
  // Not multiplied before it is known to divide: the counts come from files.
  if (length % groups != 0 || (length / groups) % per_group != 0) {
    return MismatchError(fmt::format(
        "the {} rows of {} cannot be divided into {} equal units{}", length, whole.name, per_group,
        groups == 1 ? "" : fmt::format(" in each of {} query groups", groups)));
  }
  const int64_t unit = length / groups / per_group;
  // What every slice would hold again.
  source.name.clear();
  source.notes.clear();
  std::vector<Parameter> parts;
  int64_t first = 0;
  for (const int64_t proportion : proportions) {
    std::vector<Parameter> slices;
    for (int64_t group = 0; group < groups; ++group) {
      MSP_ASSIGN_OR_RETURN(Parameter slice,
                           checkpoint::Slice(source, rule.axis, (group * per_group + first) * unit,
                                             proportion * unit));
      slices.push_back(std::move(slice));
    }
    MSP_ASSIGN_OR_RETURN(Parameter part, JoinSlices(slices, rule.axis, whole.notes));
    part.name = whole.name;
    parts.push_back(std::move(part));
    first += proportion;
  }
  return parts;
}

Result<Parameter> JoinParameters(std::span<const Parameter> parts, const Rule& rule, bool transpose,
                                 const HeadCounts& heads, SliceBudget& budget) {
  const auto unreadable = std::find_if(parts.begin(), parts.end(),
                                       [](const Parameter& part) { return !part.status.ok(); });
  if (unreadable != parts.end()) {
    return *unreadable;
  }
  Parameter joined = parts.front();
  if (parts.size() > 1) {
    MSP_ASSIGN_OR_RETURN(const int64_t groups, GroupCount(rule, heads));
    std::vector<std::string> notes;
    std::vector<Parameter> slices;
    std::vector<Parameter> bare;  // without what every slice would hold again
    for (const Parameter& part : parts) {
      MSP_RETURN_IF_ERROR(CheckAxis(part, rule));
      MSP_RETURN_IF_ERROR(budget.Take(groups, 1, part.pieces.size()).AddContext(part.name));
      if (part.shape[rule.axis] % groups != 0) {
        return MismatchError(fmt::format("the {} rows of {} cannot be divided into {} query groups",
                                         part.shape[rule.axis], part.name, groups));
      }
      notes.insert(notes.end(), part.notes.begin(), part.notes.end());
      bare.push_back(part);
      bare.back().name.clear();
      bare.back().notes.clear();
    }
    for (int64_t group = 0; group < groups; ++group) {
      for (const Parameter& part : bare) {
        const int64_t length = part.shape[rule.axis] / groups;
        MSP_ASSIGN_OR_RETURN(Parameter slice,
                             checkpoint::Slice(part, rule.axis, group * length, length));
        slices.push_back(std::move(slice));
      }
    }
    slices.front().name = parts.front().name;
    MSP_ASSIGN_OR_RETURN(joined, JoinSlices(slices, rule.axis, std::move(notes)));
  }
  if (transpose) {
    return checkpoint::Transpose(joined);
  }
  return joined;
}

}  // namespace msprobe::analysis::ckpt
