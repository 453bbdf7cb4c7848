// The way of values through a rank. A dump has no pointers from a result to its uses; two tensors
// of equal dtype and statistics are taken for one value. With it a value is followed from call to
// call up to the reduction that makes a whole of it.
#include <algorithm>
#include <functional>
#include <unordered_set>

#include "src/analysis/compare/layouts/joined_side.h"
#include "src/dump/call_facts.h"

namespace msprobe::analysis::compare::layouts {
namespace {

bool IsReduction(const dump::EntryName& name) {
  return dump::IsCommunicationCall(name) && name.subject.find("reduce") != std::string_view::npos;
}

bool IsLinear(const dump::EntryName& name) {
  static const std::unordered_set<std::string_view> kLinear = {
      "add",    "__add__", "__radd__",   "__iadd__",   "add_",      "sub",         "__sub__",
      "sum",    "mul",     "__mul__",    "__imul__",   "mul_",      "div",         "__truediv__",
      "linear", "matmul",  "__matmul__", "index_add_", "index_add", "scatter_add", "scatter_add_"};
  return MovesData(name) || kLinear.contains(name.subject);
}

}  // namespace

uint64_t ValueUses::FingerprintOf(const SideRow& row) {
  uint64_t hash = std::hash<std::string_view>()(row.dtype);
  for (const StatValue& stat : row.stats) {
    hash = hash * 1099511628211ULL + (stat.is_numeric() ? std::hash<double>()(stat.number) : 1);
  }
  return hash;
}

const ValueUses::Uses& ValueUses::UsesOf(uint32_t rank) {
  const auto [found, is_new] = uses_.try_emplace(rank);
  if (is_new) {
    const Side& read = side_.ranks[rank]->side;
    for (uint32_t i = 0; i < read.rows.size(); ++i) {
      const SideRow& row = read.rows[i];
      if (row.is_tensor && IsInput(row)) {
        found->second.emplace(FingerprintOf(row), Use{row.entry, i});
      }
    }
  }
  return found->second;
}

const SideRow* ValueUses::ReductionOf(uint32_t rank, uint64_t value, int depth, bool* used) {
  constexpr int kMostCalls = 6;
  const Uses& uses = UsesOf(rank);
  const LoadedRank& loaded = *side_.ranks[rank];
  const auto [first, last] = uses.equal_range(value);
  size_t looked_at = 0;
  for (auto use = first; use != last && looked_at < 8; ++use, ++looked_at) {
    const dump::EntryName& name = loaded.names[use->second.entry];
    if (IsReduction(name)) {
      return &loaded.side.rows[use->second.row];
    }
  }
  looked_at = 0;
  for (auto use = first; use != last && looked_at < 8; ++use, ++looked_at) {
    const dump::EntryName& name = loaded.names[use->second.entry];
    if (name.is_module || dump::IsCommunicationCall(name)) {
      continue;
    }
    *used = true;
    if (depth >= kMostCalls || !IsLinear(name)) {
      continue;
    }
    const SideEntry& entry = loaded.side.entries[use->second.entry];
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = loaded.side.rows[entry.first_row + i];
      if (row.state != dump::RowState::kOutput || !row.is_tensor || FingerprintOf(row) == value) {
        continue;
      }
      bool further = false;
      if (const SideRow* const found = ReductionOf(rank, FingerprintOf(row), depth + 1, &further)) {
        return found;
      }
    }
  }
  return nullptr;
}

bool ValueUses::IsTakenBy(uint32_t rank, uint64_t value,
                          const std::function<bool(uint32_t)>& takes) {
  const auto [first, last] = UsesOf(rank).equal_range(value);
  return std::any_of(first, last, [&](const auto& use) { return takes(use.second.entry); });
}

const SideRow* ValueUses::ReducedBy(uint32_t rank, const SideRow& row, int most, int* count) {
  const LoadedRank& loaded = *side_.ranks[rank];
  const SideRow* made = nullptr;
  uint64_t value = FingerprintOf(row);
  *count = 0;
  for (int i = 0; i < most; ++i) {
    const auto [first, last] = UsesOf(rank).equal_range(value);
    const SideRow* next = nullptr;
    for (auto use = first; use != last && next == nullptr; ++use) {
      if (!IsReduction(loaded.names[use->second.entry])) {
        continue;
      }
      const SideEntry& entry = loaded.side.entries[use->second.entry];
      for (uint32_t at = 0; at < entry.row_count && next == nullptr; ++at) {
        const SideRow& output = loaded.side.rows[entry.first_row + at];
        next = output.state == dump::RowState::kOutput && output.is_tensor ? &output : nullptr;
      }
    }
    if (next == nullptr || FingerprintOf(*next) == value) {
      break;
    }
    made = next;
    ++*count;
    value = FingerprintOf(*next);
  }
  return made;
}

}  // namespace msprobe::analysis::compare::layouts
