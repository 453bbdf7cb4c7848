#include "src/checkpoint/megatron/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::checkpoint {
namespace {

// Of a layer on one rank: many times what models have. Experts without elements cost memory, too.
constexpr int64_t kMostExperts = 65'536;

size_t AxisOf(Sharding sharding) { return sharding == Sharding::kColumns ? 1 : 0; }

// One piece with all elements: a copy can be compared.
bool IsWhole(const Parameter& parameter) {
  return parameter.status.ok() && parameter.pieces.size() == 1 &&
         parameter.pieces[0].view.shape == parameter.shape;
}

bool CopiesAgree(const Parameter& first, const Parameter& other) {
  if (first.shape != other.shape) {
    return false;
  }
  if (first.element_count() == 0 || !IsWhole(first) || !IsWhole(other)) {
    return true;  // nothing to compare; an unreadable copy has its own message
  }
  return AreClose(first.pieces[0].view, other.pieces[0].view);
}

// The parameter that stands for one which cannot be put together.
Parameter Unreadable(Parameter parameter, Status status) {
  parameter.pieces.clear();
  parameter.status = std::move(status);
  return parameter;
}

// Gates of all ranks above the rest of all ranks.
Result<Parameter> JoinGated(const std::vector<Parameter>& parts) {
  std::vector<Parameter> halves;
  halves.reserve(parts.size() * 2);
  for (const int half : {0, 1}) {
    for (const Parameter& part : parts) {
      const int64_t rows = part.shape.at(0) / 2;
      MSP_ASSIGN_OR_RETURN(Parameter cut, Slice(part, 0, half * rows, rows));
      if (half == 1) {
        cut.notes.clear();  // said by the first half
      }
      halves.push_back(std::move(cut));
    }
  }
  return Concatenate(halves, 0);
}

Parameter Join(std::vector<Parameter> parts, Sharding sharding) {
  const auto bad = std::find_if(parts.begin(), parts.end(),
                                [](const Parameter& part) { return !part.status.ok(); });
  const bool even = std::all_of(parts.begin(), parts.end(), [](const Parameter& part) {
    return !part.shape.empty() && part.shape[0] % 2 == 0;
  });
  const bool gated = sharding == Sharding::kGatedRows && even;
  Result<Parameter> joined = gated ? JoinGated(parts) : Concatenate(parts, AxisOf(sharding));
  if (bad != parts.end()) {
    // The shape of the whole where it is known.
    return Unreadable(joined.ok() ? *std::move(joined) : *bad, bad->status);
  }
  if (!joined.ok()) {
    return Unreadable(std::move(parts.front()), std::move(joined).status());
  }
  if (sharding == Sharding::kGatedRows && !gated) {
    joined->notes.emplace_back("an odd number of rows cannot be gate and up: joined as they are");
  }
  return *std::move(joined);
}

// The matrix of expert `index` of `count`, elements [H, F] of a stack that lies in memory one
// expert after the other whatever the shape says; `turned` gives [F, H].
Parameter CutExpert(const Parameter& grouped, int64_t index, int64_t rows, int64_t columns) {
  Parameter expert;
  expert.dtype = grouped.dtype;
  expert.status = grouped.status;
  expert.notes = grouped.notes;
  expert.shape = {columns, rows};
  if (grouped.pieces.empty() || expert.element_count() == 0) {
    return expert;
  }
  Piece piece = grouped.pieces[0];
  const auto skipped = static_cast<size_t>(index * rows * columns) * DTypeSize(piece.view.dtype);
  piece.view.data += skipped;
  piece.view.extent_bytes -= skipped;
  piece.view.shape = {columns, rows};
  piece.view.strides = {1, columns};
  piece.offset = {0, 0};
  expert.pieces.push_back(std::move(piece));
  return expert;
}

}  // namespace

bool AreClose(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) {
    return false;
  }
  constexpr float kAbsolute = 1e-8F;
  constexpr float kRelative = 1e-5F;
  const auto total = static_cast<size_t>(a.element_count());
  const size_t block = std::min(total, tensor::kCopyBlockElements);
  std::vector<std::byte> scratch;  // of one side at a time
  tensor::BlockReader first_blocks(a, scratch);
  tensor::BlockReader second_blocks(b, scratch);
  std::vector<float> first(block);
  std::vector<float> second(block);
  for (size_t at = 0; at < total; at += block) {
    const size_t count = std::min(block, total - at);
    kernels::WidenToFloat(a.dtype, first_blocks.Read(at, count), std::span(first).first(count));
    kernels::WidenToFloat(b.dtype, second_blocks.Read(at, count), std::span(second).first(count));
    bool close = true;
    for (size_t i = 0; i < count; ++i) {
      // Equal infinities are close; a NaN is not, whatever it is compared with.
      const bool near =
          std::fabs(first[i] - second[i]) <= kAbsolute + kRelative * std::fabs(second[i]) &&
          std::fabs(second[i]) <= std::numeric_limits<float>::max();
      close = close && (near || first[i] == second[i]);
    }
    if (!close) {
      return false;
    }
  }
  return true;
}

MergedRanks MergeTensorRanks(std::vector<RankPart> parts, int64_t ranks, Sharding sharding) {
  MergedRanks merged;
  const bool alone = parts.size() == 1;
  const bool has_axis = std::all_of(parts.begin(), parts.end(), [sharding](const RankPart& part) {
    return part.parameter.shape.size() > AxisOf(sharding) || !part.parameter.status.ok();
  });
  if (sharding == Sharding::kCopies || !has_axis) {
    for (size_t i = 1; i < parts.size(); ++i) {
      if (!CopiesAgree(parts[0].parameter, parts[i].parameter)) {
        merged.disagreeing.push_back(parts[i].rank);
      }
    }
    merged.parameter = std::move(parts[0].parameter);
    if (!merged.disagreeing.empty()) {
      merged.parameter.notes.push_back(
          fmt::format("Inconsistent values across TP ranks: {} differ from rank {}, whose copy is "
                      "used",
                      fmt::join(merged.disagreeing, ", "), parts[0].rank));
    }
    return merged;
  }
  merged.incomplete = static_cast<int64_t>(parts.size()) < ranks;
  std::string present;
  std::vector<Parameter> shards;
  shards.reserve(parts.size());
  for (RankPart& part : parts) {
    present += fmt::format("{}{}", present.empty() ? "" : ", ", part.rank);
    shards.push_back(std::move(part.parameter));
  }
  merged.parameter = alone ? std::move(shards[0]) : Join(std::move(shards), sharding);
  if (merged.incomplete) {
    merged.parameter.notes.push_back(
        fmt::format("incomplete: only the parts of TP ranks {} of {} are there", present, ranks));
  }
  return merged;
}

std::vector<Parameter> SplitGroupedExperts(const Parameter& grouped, int64_t experts) {
  constexpr std::string_view kFirst = ".experts.weight1";
  constexpr std::string_view kSecond = ".experts.weight2";
  const bool first = grouped.name.ends_with(kFirst);
  if ((!first && !grouped.name.ends_with(kSecond)) || grouped.shape.size() != 2 || experts < 1) {
    return {};
  }
  // weight1 is [H, E * F] and weight2 [E * F, H], but both lie in memory expert by expert: weight1
  // as E matrices [H, F], weight2 as E matrices [F, H].
  const size_t joined_axis = first ? 1 : 0;
  Shape each = grouped.shape;
  if (experts > kMostExperts || each[joined_axis] % experts != 0 ||
      (experts > each[joined_axis] && each[joined_axis] != 0)) {
    return {};
  }
  each[joined_axis] /= experts;
  const bool in_order = grouped.pieces.empty() ||
                        (IsWhole(grouped) && grouped.pieces[0].view.strides ==
                                                 ContiguousStrides(grouped.pieces[0].view.shape));
  if (!in_order) {
    return {};
  }
  const std::string_view prefix =
      std::string_view(grouped.name).substr(0, grouped.name.size() - kFirst.size());
  std::vector<Parameter> split;
  for (int64_t index = 0; index < experts; ++index) {
    Parameter expert = CutExpert(grouped, index, each[0], each[1]);
    expert.name = fmt::format("{}.experts.local_experts.{}.{}.weight", prefix, index,
                              first ? "linear_fc1" : "linear_fc2");
    split.push_back(std::move(expert));
  }
  return split;
}

}  // namespace msprobe::checkpoint
