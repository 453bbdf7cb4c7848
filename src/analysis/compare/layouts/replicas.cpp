// The replica check of a side whose ranks are compared one by one: ranks that must hold the same
// value are held against each other, before any reference is asked.
//
// What must be equal: parameters that a record calls replicated, over the ranks that share tensors
// or have parts of the context, and all parameters that are not sharded over replicas of the data;
// what a collective leaves on every rank of its group; what a deterministic function makes of equal
// inputs on ranks that share tensors.
//
// Ranks are read twice at most, and of their files only the calls that are looked at are decoded.
// The first time one number is kept of each value that several ranks must have, however many they
// are; where all agree, which is usual, that is all. Else what the ranks have where they do not is
// read again, with its statistics. The first difference in the order of the file is kept for each
// rank that differs from most of its group.
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/layouts/plan.h"
#include "src/dump/call_facts.h"
#include "src/dump/communication.h"

namespace msprobe::analysis::compare::layouts {
namespace {

enum class Among : uint8_t { kTensor, kData, kContext, kGroup };

// A value that other ranks must have, too.
struct Expected {
  uint64_t cell = 0;   // equal on the ranks that are compared
  uint64_t value = 0;  // of its statistics, shape and dtype
  uint32_t row = 0;    // in the order of what was read
};

uint64_t Mix(uint64_t hash, uint64_t more) { return hash * 1099511628211ULL + more; }

uint64_t TextHash(std::string_view text) { return std::hash<std::string_view>()(text); }

uint64_t ValueOf(const SideRow& row) {
  uint64_t hash = Mix(TextHash(row.shape), TextHash(row.dtype));
  for (const StatValue& stat : row.stats) {
    hash = Mix(hash, stat.is_numeric()              ? std::hash<double>()(stat.number)
                     : stat.kind == StatKind::kText ? TextHash(stat.text())
                     : stat.kind == StatKind::kBool ? static_cast<uint64_t>(stat.boolean)
                                                    : 3);
  }
  return row.md5.empty() || row.md5 == "N/A" ? hash : Mix(hash, TextHash(row.md5));
}

// The ranks whose values of one kind must agree.
uint64_t CellOf(const RankPlace& place, Among among) {
  uint64_t cell = Mix(static_cast<uint64_t>(among), static_cast<uint64_t>(place.stage));
  cell = Mix(cell, among == Among::kTensor ? 0 : static_cast<uint64_t>(place.tensor) + 1);
  cell = Mix(cell, among == Among::kData ? 0 : static_cast<uint64_t>(place.data) + 1);
  cell = Mix(cell, among == Among::kContext ? 0 : static_cast<uint64_t>(place.context) + 1);
  return among == Among::kGroup ? 0 : cell;  // the key of a collective has its group
}

bool ComputesOfInputs(const dump::EntryName& name) {
  return !dump::IsRandomCall(name) && !dump::IsUninitialisedCall(name) && !MovesData(name);
}

// The calls that are looked at.
bool IsWanted(std::string_view entry) {
  const dump::EntryName name = dump::ParseEntryName(entry);
  return name.direction == dump::Direction::kForward &&
         (name.is_module || dump::IsCommunicationCall(name) || ComputesOfInputs(name));
}

class RankReader {
 public:
  RankReader(const JoinedRank& rank, const Side& side) : rank_(rank), side_(side) {}

  std::vector<Expected> Read() {
    for (const SideEntry& entry : side_.entries) {
      const dump::EntryName name = dump::ParseEntryName(entry.name);
      if (name.direction != dump::Direction::kForward) {
        continue;
      }
      if (name.is_module) {
        ReadParameters(entry, name);
      } else if (dump::IsCommunicationCall(name)) {
        ReadCollective(entry, name);
      } else if (ComputesOfInputs(name)) {
        ReadFunction(entry);
      }
    }
    return std::move(values_);
  }

 private:
  void Add(Among among, uint64_t key, uint64_t value, uint32_t row) {
    values_.push_back({Mix(CellOf(rank_.place, among), key), value, row});
  }

  void ReadParameters(const SideEntry& entry, const dump::EntryName& name) {
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const uint32_t place = entry.first_row + i;
      const SideRow& row = side_.rows[place];
      if (row.state != dump::RowState::kParameters || !row.is_tensor) {
        continue;
      }
      const std::string parameter =
          fmt::format("{}.{}", name.subject, row.name.substr(row.name.rfind('.') + 1));
      const layout::ParameterRecord* const record =
          rank_.record ? rank_.record->Find(parameter) : nullptr;
      const bool replicated =
          record != nullptr && record->kind == layout::ParameterKind::kReplicated;
      const uint64_t key = TextHash(row.name);
      const uint64_t value = ValueOf(row);
      if (replicated) {
        Add(Among::kTensor, key, value, place);
      }
      const bool is_sharded_over_data =
          record == nullptr || (record->kind == layout::ParameterKind::kShard &&
                                !rank_.record->GroupOf(layout::Group::kFullySharded).empty());
      // Experts of other ranks have the same names.
      const bool is_expert = name.subject.find("expert") != std::string_view::npos &&
                             !rank_.record->GroupOf(layout::Group::kExpert).empty();
      if (!is_sharded_over_data && !is_expert) {
        Add(Among::kData, key, value, place);
        Add(Among::kContext, key, value, place);
      }
    }
  }

  void ReadCollective(const SideEntry& entry, const dump::EntryName& name) {
    if (name.subject != "all_reduce" && name.subject != "all_gather" &&
        name.subject != "all_gather_into_tensor" && name.subject != "broadcast" &&
        name.subject != "_all_gather_base") {
      return;
    }
    std::string_view group;
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = side_.rows[entry.first_row + i];
      group = row.type == "torch.ProcessGroup" ? row.stats[kMax].text() : group;
      if (IsInput(row) && row.stats[kMax].kind == StatKind::kBool && row.stats[kMax].boolean) {
        return;  // asynchronous: recorded before it is done
      }
    }
    // The n-th call of a group is the n-th on all of its ranks.
    const uint64_t channel = Mix(TextHash(name.subject), TextHash(group));
    const uint64_t number = calls_[channel]++;
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const uint32_t place = entry.first_row + i;
      const SideRow& row = side_.rows[place];
      if (row.state == dump::RowState::kOutput && row.is_tensor) {
        Add(Among::kGroup, Mix(Mix(channel, number), i), ValueOf(row), place);
      }
    }
  }

  void ReadFunction(const SideEntry& entry) {
    uint64_t inputs = TextHash(entry.name);
    bool has_tensor = false;
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const uint32_t place = entry.first_row + i;
      const SideRow& row = side_.rows[place];
      if (IsInput(row)) {
        inputs = Mix(inputs, ValueOf(row));
        has_tensor = has_tensor || row.is_tensor;
      } else if (has_tensor && row.state == dump::RowState::kOutput && row.is_tensor) {
        Add(Among::kTensor, Mix(inputs, TextHash(row.name)), ValueOf(row), place);
      }
    }
  }

  const JoinedRank& rank_;
  const Side& side_;
  std::unordered_map<uint64_t, uint64_t> calls_;
  std::vector<Expected> values_;
};

using Statistics = std::array<double, kStatCount>;

Statistics StatisticsIn(const SideRow& row) {
  Statistics statistics{};
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    statistics[stat] = row.stats[stat].is_numeric() ? row.stats[stat].number : 0;
  }
  return statistics;
}

double ErrorBetween(const Statistics& a, const Statistics& b) {
  double error = 0;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const double scale = std::max(std::abs(a[stat]), std::abs(b[stat]));
    error = scale > 0 ? std::max(error, std::abs(a[stat] - b[stat]) / scale) : error;
  }
  return error;
}

// Cells in which ranks have different values.
std::unordered_set<uint64_t> CellsThatDiffer(const std::vector<JoinedRank>& ranks,
                                             const RankLoader& load, base::ThreadPool& pool) {
  std::unordered_map<uint64_t, uint64_t> values;  // by cell
  std::unordered_set<uint64_t> differ;
  std::mutex mutex;
  pool.ParallelFor(ranks.size(), [&](size_t i, size_t) {
    const Result<Side> side = load(ranks[i], IsWanted);
    if (!side.ok()) {
      return;  // what is wrong with it is said when it is compared
    }
    const std::vector<Expected> read = RankReader(ranks[i], *side).Read();
    const std::lock_guard lock(mutex);
    for (const Expected& expected : read) {
      if (values.emplace(expected.cell, expected.value).first->second != expected.value) {
        differ.insert(expected.cell);
      }
    }
  });
  return differ;
}

// What a rank has in such a cell.
struct Holder {
  size_t rank = 0;
  uint64_t value = 0;
  uint32_t row = 0;        // for the order
  std::string entry = {};  // and its row there
  uint32_t row_of_entry = 0;
  Statistics statistics = {};
};

// By cell, the holders in the order of the ranks.
std::map<uint64_t, std::vector<Holder>> HoldersOf(const std::unordered_set<uint64_t>& cells,
                                                  const std::vector<JoinedRank>& ranks,
                                                  const RankLoader& load, base::ThreadPool& pool) {
  std::vector<std::vector<std::pair<uint64_t, Holder>>> of_ranks(ranks.size());
  pool.ParallelFor(ranks.size(), [&](size_t i, size_t) {
    const Result<Side> side = load(ranks[i], IsWanted);
    if (!side.ok()) {
      return;
    }
    for (const Expected& expected : RankReader(ranks[i], *side).Read()) {
      if (cells.contains(expected.cell)) {
        const SideRow& row = side->rows[expected.row];
        const SideEntry& entry = side->entries[row.entry];
        of_ranks[i].emplace_back(expected.cell,
                                 Holder{i, expected.value, expected.row, std::string(entry.name),
                                        expected.row - entry.first_row, StatisticsIn(row)});
      }
    }
  });
  std::map<uint64_t, std::vector<Holder>> holders;
  for (auto& list : of_ranks) {
    for (auto& [cell, holder] : list) {
      holders[cell].push_back(std::move(holder));
    }
  }
  return holders;
}

}  // namespace

std::vector<std::vector<RankReplica>> FindReplicas(const std::vector<JoinedRank>& ranks,
                                                   const RankLoader& load, base::ThreadPool& pool) {
  std::vector<std::vector<RankReplica>> found(ranks.size());
  const std::unordered_set<uint64_t> cells = CellsThatDiffer(ranks, load, pool);
  if (cells.empty()) {
    return found;
  }
  std::vector<uint32_t> first_rows(ranks.size(), UINT32_MAX);
  for (const auto& [cell, group] : HoldersOf(cells, ranks, load, pool)) {
    std::map<uint64_t, size_t> counts;
    for (const Holder& holder : group) {
      ++counts[holder.value];
    }
    if (counts.size() < 2) {
      continue;
    }
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const bool has_majority = most->second * 2 > group.size();
    const auto differs = [&](const Holder& holder) {
      return !has_majority || holder.value != most->first;
    };
    RankReplica replica;
    const Holder* usual = &group.front();
    for (const Holder& holder : group) {
      replica.group.push_back(ranks[holder.rank].rank);
      if (differs(holder)) {
        replica.ranks.push_back(ranks[holder.rank].rank);
      } else {
        usual = &holder;
      }
    }
    std::sort(replica.group.begin(), replica.group.end());
    std::sort(replica.ranks.begin(), replica.ranks.end());
    for (const Holder& holder : group) {
      replica.error = std::max(replica.error, ErrorBetween(holder.statistics, usual->statistics));
    }
    // The first one of each rank: all behind it follow.
    for (const Holder& holder : group) {
      if (differs(holder) && holder.row < first_rows[holder.rank]) {
        first_rows[holder.rank] = holder.row;
        RankReplica own = replica;
        own.entry = holder.entry;
        own.row = holder.row_of_entry;
        found[holder.rank] = {std::move(own)};
      }
    }
  }
  return found;
}

}  // namespace msprobe::analysis::compare::layouts
