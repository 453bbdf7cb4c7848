// The replica check of a side whose ranks are compared one by one: ranks that must hold the same
// value are held against each other, before any reference is asked.
//
// What must be equal: parameters that a record calls replicated, over the ranks that share tensors
// or have parts of the context, and all parameters that are not sharded over replicas of the data;
// what a collective leaves on every rank of its group; what a deterministic function makes of equal
// inputs on ranks that share tensors. Of each rank only a number per row is kept, so that memory
// does not grow with the ranks. The first difference in the order of the file is kept for each rank
// that differs from most of its group.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/layouts/plan.h"
#include "src/dump/call_facts.h"
#include "src/dump/communication.h"

namespace msprobe::analysis::compare::layouts {
namespace {

// A value that other ranks must have, too.
struct Expected {
  uint64_t key = 0;    // equal on the ranks that are compared
  uint64_t value = 0;  // of its statistics, shape and dtype
  uint32_t row = 0;    // in the order of the file
  std::array<double, kStatCount> statistics{};
};

enum class Among : uint8_t { kTensor, kData, kContext, kGroup };

struct RankValues {
  std::map<Among, std::vector<Expected>> expected;
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

class RankReader {
 public:
  RankReader(const JoinedRank& rank, const Side& side) : rank_(rank), side_(side) {}

  RankValues Read() {
    for (const SideEntry& entry : side_.entries) {
      const dump::EntryName name = dump::ParseEntryName(entry.name);
      if (name.direction == dump::Direction::kForward && name.is_module) {
        ReadParameters(entry, name);
      } else if (name.direction == dump::Direction::kForward && dump::IsCommunicationCall(name)) {
        ReadCollective(entry, name);
      } else if (name.direction == dump::Direction::kForward) {
        ReadFunction(entry, name);
      }
    }
    return std::move(values_);
  }

 private:
  void Add(Among among, uint64_t key, uint64_t value, uint32_t row) {
    Expected& expected = values_.expected[among].emplace_back();
    expected.key = key;
    expected.value = value;
    expected.row = row;
    for (size_t stat = 0; stat < kStatCount; ++stat) {
      const StatValue& known = side_.rows[row].stats[stat];
      expected.statistics[stat] = known.is_numeric() ? known.number : 0;
    }
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

  void ReadFunction(const SideEntry& entry, const dump::EntryName& name) {
    if (dump::IsRandomCall(name) || dump::IsUninitialisedCall(name) || MovesData(name)) {
      return;
    }
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
  RankValues values_;
};

// The ranks whose values of one kind must agree.
uint64_t CellOf(const RankPlace& place, Among among) {
  uint64_t cell = Mix(static_cast<uint64_t>(among), static_cast<uint64_t>(place.stage));
  cell = Mix(cell, among == Among::kTensor ? 0 : static_cast<uint64_t>(place.tensor) + 1);
  cell = Mix(cell, among == Among::kData ? 0 : static_cast<uint64_t>(place.data) + 1);
  cell = Mix(cell, among == Among::kContext ? 0 : static_cast<uint64_t>(place.context) + 1);
  return among == Among::kGroup ? 0 : cell;  // the key of a collective has its group
}

double ErrorBetween(const Expected& a, const Expected& b) {
  double error = 0;
  for (size_t stat = 0; stat < kStatCount; ++stat) {
    const double scale = std::max(std::abs(a.statistics[stat]), std::abs(b.statistics[stat]));
    error = scale > 0 ? std::max(error, std::abs(a.statistics[stat] - b.statistics[stat]) / scale)
                      : error;
  }
  return error;
}

}  // namespace

std::vector<std::vector<RankReplica>> FindReplicas(const std::vector<JoinedRank>& ranks,
                                                   const RankLoader& load, base::ThreadPool& pool) {
  std::vector<RankValues> values(ranks.size());
  pool.ParallelFor(ranks.size(), [&](size_t i, size_t) {
    const Result<Side> side = load(ranks[i]);
    if (side.ok()) {  // what is wrong with it is said when it is compared
      values[i] = RankReader(ranks[i], *side).Read();
    }
  });
  struct Holder {
    size_t rank;
    const Expected* expected;
  };
  std::unordered_map<uint64_t, std::vector<Holder>> holders;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (const auto& [among, list] : values[i].expected) {
      for (const Expected& expected : list) {
        holders[Mix(CellOf(ranks[i].place, among), expected.key)].push_back({i, &expected});
      }
    }
  }
  std::vector<std::vector<RankReplica>> found(ranks.size());
  for (const auto& [key, group] : holders) {
    std::map<uint64_t, size_t> counts;
    for (const Holder& holder : group) {
      ++counts[holder.expected->value];
    }
    if (counts.size() < 2) {
      continue;
    }
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const bool has_majority = most->second * 2 > group.size();
    RankReplica replica;
    const Expected* usual = nullptr;
    for (const Holder& holder : group) {
      replica.group.push_back(ranks[holder.rank].rank);
      if (has_majority && holder.expected->value == most->first) {
        usual = holder.expected;
      } else {
        replica.ranks.push_back(ranks[holder.rank].rank);
      }
    }
    std::sort(replica.group.begin(), replica.group.end());
    std::sort(replica.ranks.begin(), replica.ranks.end());
    for (const Holder& holder : group) {
      const Expected& other = usual != nullptr ? *usual : *group.front().expected;
      replica.error = std::max(replica.error, ErrorBetween(*holder.expected, other));
    }
    for (const Holder& holder : group) {
      if (!has_majority || holder.expected->value != most->first) {
        RankReplica own = replica;
        own.row = holder.expected->row;
        found[holder.rank].push_back(std::move(own));
      }
    }
  }
  // The first one of each rank: all behind it follow.
  for (std::vector<RankReplica>& list : found) {
    std::sort(list.begin(), list.end(),
              [](const RankReplica& a, const RankReplica& b) { return a.row < b.row; });
    list.resize(std::min<size_t>(list.size(), 1));
  }
  return found;
}

}  // namespace msprobe::analysis::compare::layouts
