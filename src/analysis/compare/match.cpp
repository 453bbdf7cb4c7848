// Joins the rows of the two sides.
//
// Exactly: a hash table holds the reference rows by (name, shape), in file order; each test row
// looks up its mapped name. A key that occurs once pairs directly. A key that occurs several
// times pairs every row with every row as long as the PairBudget allows it, and in file order
// beyond that, so that a dump which repeats a name cannot make the square of its rows. Dtypes
// decide last: a pair whose dtypes cannot be compared keeps its test row alone.
//
// Fuzzily: names lose their call numbers. Row i of each side joins its queue; then the newest
// test row looks for the oldest waiting reference row of its identity, or the newest reference
// row for the oldest test row. A pair drops everything that waited before it on both sides,
// which keeps the order of execution, and the search ends where only one queue is empty, as in
// the Python tool. Queues are lists of positions per identity, so that each step takes constant
// time.
#include "src/analysis/compare/match.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "msprobe/dtype.h"

#include "src/base/hash_index.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::analysis::compare {
namespace {

// The name without its call number: "Torch.add.0.forward.input.0" -> "Torch.add.forward.input.0".
// For modules this drops the class name and keeps the call number, as the reference does.
std::string WithoutCallNumber(std::string_view name) {
  size_t at = name.find("forward");
  if (at == std::string_view::npos) {
    at = name.find("backward");
  }
  if (at == std::string_view::npos) {
    return std::string(name);
  }
  std::string_view before = name.substr(0, at);
  for (int dropped = 0; dropped < 2; ++dropped) {
    const size_t dot = before.rfind('.');
    before = dot == std::string_view::npos ? std::string_view() : before.substr(0, dot);
  }
  std::string renamed(before);
  if (!renamed.empty()) {
    renamed += '.';
  }
  renamed += name.substr(at);
  return renamed;
}

// Rows of one side that wait, found by identity (renamed name and shape).
class WaitingRows {
 public:
  explicit WaitingRows(size_t identities) : positions_(identities) {}

  void Append(uint32_t row, uint32_t identity) {
    positions_[identity].push_back(row);
    end_ = row + 1;
  }
  void DropThrough(uint32_t row) { begin_ = row + 1; }
  bool empty() const { return begin_ >= end_; }
  uint32_t begin() const { return begin_; }
  uint32_t newest() const { return end_ - 1; }

  // The first waiting row of this identity, or kNoRow.
  uint32_t First(uint32_t identity) {
    std::deque<uint32_t>& rows = positions_[identity];
    while (!rows.empty() && rows.front() < begin_) {
      rows.pop_front();
    }
    return rows.empty() ? kNoRow : rows.front();
  }

 private:
  std::vector<std::deque<uint32_t>> positions_;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
};

class IdentityTable {
 public:
  uint32_t Of(std::string_view name, std::string_view shape) {
    std::string key = WithoutCallNumber(name);
    key += '\n';
    key += shape;
    return ids_.try_emplace(std::move(key), static_cast<uint32_t>(ids_.size())).first->second;
  }
  size_t size() const { return ids_.size(); }

 private:
  std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace

MatchResult MatchFuzzily(const Side& npu, const Side& bench, const RowMapping& mapping) {
  const bool cross_framework = npu.framework != bench.framework;
  const auto shape_of = [&](const SideRow& row) {
    return mapping.ignore_shapes ? std::string_view() : row.shape;
  };
  IdentityTable identities;
  std::vector<uint32_t> npu_ids(npu.rows.size());
  std::vector<uint32_t> bench_ids(bench.rows.size());
  for (uint32_t i = 0; i < npu.rows.size(); ++i) {
    npu_ids[i] = identities.Of(mapping.keys[i], shape_of(npu.rows[i]));
  }
  for (uint32_t i = 0; i < bench.rows.size(); ++i) {
    bench_ids[i] = identities.Of(bench.rows[i].name, shape_of(bench.rows[i]));
  }

  MatchResult result;
  uint64_t matched_bench = 0;
  WaitingRows waiting_npu(identities.size());
  WaitingRows waiting_bench(identities.size());
  const uint32_t npu_count = static_cast<uint32_t>(npu.rows.size());
  const uint32_t bench_count = static_cast<uint32_t>(bench.rows.size());
  for (uint32_t i = 0; i < std::max(npu_count, bench_count); ++i) {
    if (i < npu_count) {
      waiting_npu.Append(i, npu_ids[i]);
    }
    if (i < bench_count) {
      waiting_bench.Append(i, bench_ids[i]);
    }
    if (waiting_npu.empty() != waiting_bench.empty()) {
      break;
    }
    if (waiting_npu.empty()) {
      continue;
    }
    // The newest NPU row against the bench queue, oldest first; then the NPU queue against the
    // newest bench row.
    uint32_t p = waiting_npu.newest();
    uint32_t q = waiting_bench.First(npu_ids[p]);
    if (q == kNoRow) {
      q = waiting_bench.newest();
      p = waiting_npu.First(bench_ids[q]);
    }
    if (p == kNoRow || q == kNoRow) {
      continue;
    }
    for (uint32_t row = waiting_npu.begin(); row < p; ++row) {
      result.pairs.push_back({row, kNoRow, MatchOutcome::kNoBenchRow});
    }
    const bool fits = DTypesComparable(npu.rows[p].dtype, bench.rows[q].dtype, cross_framework);
    result.pairs.push_back(fits ? RowPair{p, q, MatchOutcome::kMatched}
                                : RowPair{p, kNoRow, MatchOutcome::kDTypeDiffers});
    matched_bench += fits ? 1 : 0;
    waiting_npu.DropThrough(p);
    waiting_bench.DropThrough(q);
  }
  for (uint32_t row = waiting_npu.begin(); row < npu_count; ++row) {
    result.pairs.push_back({row, kNoRow, MatchOutcome::kNoBenchRow});
  }
  result.bench_only_count = bench_count - matched_bench;
  return result;
}

namespace {

constexpr size_t kShownNameBytes = 200;         // of a name in a warning
constexpr uint32_t kLookupsPerBlock = 1 << 14;  // that a thread makes at a time

// Low-precision training mixes these freely; float64 and integers must be equal.
constexpr std::array<std::string_view, 3> kMindSporeMixed = {"Float16", "Float32", "BFloat16"};
constexpr std::array<std::string_view, 3> kTorchMixed = {"torch.float16", "torch.float32",
                                                         "torch.bfloat16"};

// Across frameworks only the class of a dtype counts. Unknown texts stay themselves.
std::string_view DTypeClass(std::string_view text) {
  const std::optional<DType> dtype = ParseDType(text);
  const bool spelled_by_framework =
      text.starts_with("torch.") || (!text.empty() && text[0] >= 'A' && text[0] <= 'Z');
  if (!dtype || !spelled_by_framework) {
    return text;
  }
  switch (GetDTypeInfo(*dtype).kind) {
    case DTypeKind::kFloat:
      return DTypeSize(*dtype) > 1 ? "float" : text;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return "int";
    case DTypeKind::kBool:
      return "bool";
    case DTypeKind::kComplex:
      return "complex";
  }
  return text;
}

struct RowKey {
  std::string_view name;
  std::string_view shape;  // empty when only the name counts
  bool operator==(const RowKey&) const = default;
};

// Calls work(row, hash) for rows [first, end) of a table of keys; the places of an index that rows
// further on will need are fetched meanwhile.
template <typename KeyOf, typename Work>
void ForEachHash(const base::HashIndex& index, uint32_t first, uint32_t end, const KeyOf& key_of,
                 const Work& work) {
  constexpr uint32_t kAhead = 16;
  std::array<uint64_t, kAhead> hashes{};
  const auto prepare = [&](uint32_t row) {
    const RowKey key = key_of(row);
    const std::hash<std::string_view> hash;
    hashes[row % kAhead] = hash(key.name) * 31 + (key.shape.empty() ? 0 : hash(key.shape));
    index.Prefetch(hashes[row % kAhead]);
  };
  for (uint32_t row = first; row < std::min(end, first + kAhead); ++row) {
    prepare(row);
  }
  for (uint32_t row = first; row < end; ++row) {
    const uint64_t hash = hashes[row % kAhead];
    if (end - row > kAhead) {
      prepare(row + kAhead);
    }
    work(row, hash);
  }
}

// Rows by their key, those of equal key in file order.
class RowTable {
 public:
  // key_of(row) for all rows in [0, count).
  template <typename KeyOf>
  RowTable(uint32_t count, const KeyOf& key_of) : first_of_key_(count) {
    ForEachHash(first_of_key_, 0, count, key_of, [&](uint32_t row, uint64_t hash) {
      const uint32_t first = first_of_key_.FindOrAdd(
          hash, row, [&](uint32_t known) { return key_of(known) == key_of(row); });
      if (first != row) {
        AddEqual(first, row, count);
      }
    });
  }

  const base::HashIndex& index() const { return first_of_key_; }

  // The first row of this key, kNoRow if there is none.
  template <typename KeyOf>
  uint32_t First(const RowKey& key, uint64_t hash, const KeyOf& key_of) const {
    return first_of_key_.Find(hash, [&](uint32_t known) { return key_of(known) == key; });
  }

  // The row of the same key behind this one, kNoRow behind the last.
  uint32_t Next(uint32_t row) const { return same_.empty() ? kNoRow : same_[row]; }

  // How many rows have the key of this first one.
  uint32_t Count(uint32_t first) const {
    const auto found = repeated_.find(first);
    return found == repeated_.end() ? 1 : found->second.count;
  }
  bool HasRepeated() const { return !repeated_.empty(); }

 private:
  struct Repeated {
    uint32_t last = kNoRow;
    uint32_t count = 1;
  };

  void AddEqual(uint32_t first, uint32_t row, uint32_t rows) {
    if (same_.empty()) {
      same_.assign(rows, kNoRow);
    }
    Repeated& known = repeated_.try_emplace(first, Repeated{first, 1}).first->second;
    same_[known.last] = row;
    known.last = row;
    ++known.count;
  }

  static_assert(base::HashIndex::kNone == kNoRow);
  base::HashIndex first_of_key_;
  std::vector<uint32_t> same_;                       // of keys that occur more than once
  std::unordered_map<uint32_t, Repeated> repeated_;  // by the first row
};

// Marks the rows without partner whose name a bench row has: it has another shape. `alone`: places
// in `pairs`. They are few: an index of their names is smaller than one of all bench rows.
template <typename BenchName>
void NoteOtherShapes(size_t bench_count, const BenchName& bench_name, const RowMapping& mapping,
                     const std::vector<uint32_t>& alone, std::vector<RowPair>& pairs) {
  if (alone.empty()) {
    return;
  }
  const std::hash<std::string_view> hash;
  const auto name_of = [&](uint32_t place) { return mapping.keys[pairs[alone[place]].npu]; };
  base::HashIndex names(alone.size());
  std::vector<uint32_t> same(alone.size());  // the first place with this name
  for (uint32_t place = 0; place < alone.size(); ++place) {
    const std::string_view name = name_of(place);
    same[place] =
        names.FindOrAdd(hash(name), place, [&](uint32_t known) { return name_of(known) == name; });
  }
  std::vector<bool> is_known(alone.size(), false);
  for (uint32_t row = 0; row < bench_count; ++row) {
    const std::string_view name = bench_name(row);
    const uint32_t place =
        names.Find(hash(name), [&](uint32_t known) { return name_of(known) == name; });
    if (place != base::HashIndex::kNone) {
      is_known[place] = true;
    }
  }
  for (uint32_t place = 0; place < alone.size(); ++place) {
    if (is_known[same[place]]) {
      pairs[alone[place]].outcome = MatchOutcome::kShapeDiffers;
    }
  }
}

// The rows of the NPU side that have the key of bench rows, by the first of those.
struct SharedKey {
  uint32_t npu_rows = 0;
  bool in_order = false;   // paired first with first, second with second
  bool decided = false;    // whether in_order is known
  uint32_t next = kNoRow;  // in_order: the bench row that is not taken yet
};

}  // namespace

bool DTypesComparable(std::string_view npu, std::string_view bench, bool cross_framework) {
  if (cross_framework) {
    npu = DTypeClass(npu);
    bench = DTypeClass(bench);
  }
  return npu == bench ||
         (base::IsOneOf(npu, kMindSporeMixed) && base::IsOneOf(bench, kMindSporeMixed)) ||
         (base::IsOneOf(npu, kTorchMixed) && base::IsOneOf(bench, kTorchMixed));
}

bool PairBudget::Take(uint64_t npu_rows, uint64_t bench_rows, size_t name_bytes) {
  // Rows are counted in 32 bits, names in fewer than 31: no product overflows.
  const uint64_t pairs = npu_rows * bench_rows - std::max(npu_rows, bench_rows);
  const uint64_t each = 1 + name_bytes / kPairNameBytes;
  if (pairs > left_ / each) {
    return false;
  }
  left_ -= pairs * each;
  return true;
}

void PairBudget::Refuse(std::string_view name, uint64_t npu_rows, uint64_t bench_rows) {
  if (refused_++ == 0) {
    first_ =
        fmt::format("{} ({} and {} rows)", base::Printable(base::Shortened(name, kShownNameBytes)),
                    npu_rows, bench_rows);
  }
}

std::vector<std::string> PairBudget::Warnings() const {
  if (refused_ == 0) {
    return {};
  }
  return {fmt::format(
      "{} with too many rows on both sides to pair each with each: they are paired in their order; "
      "the first: {}",
      base::Plural(refused_, "name"), first_)};
}

MatchResult MatchExactly(const Side& npu, const Side& bench, const RowMapping& mapping,
                         base::ThreadPool* pool) {
  const bool cross_framework = npu.framework != bench.framework;
  const bool without_shapes = mapping.by_key_only || mapping.ignore_shapes;
  const auto bench_name = [&](uint32_t row) {
    return mapping.bench_keys.empty() ? bench.rows[row].name : mapping.bench_keys[row];
  };
  const auto bench_key = [&](uint32_t row) {
    return RowKey{bench_name(row), without_shapes ? std::string_view() : bench.rows[row].shape};
  };
  const RowTable bench_rows(static_cast<uint32_t>(bench.rows.size()), bench_key);

  const auto npu_key = [&](uint32_t row) {
    return RowKey{mapping.keys[row], without_shapes ? std::string_view() : npu.rows[row].shape};
  };
  const auto npu_count = static_cast<uint32_t>(npu.rows.size());
  std::vector<uint32_t> first_of(npu_count);  // the first bench row of the same key
  base::ThreadPool caller(1);
  (pool == nullptr ? caller : *pool)
      .ParallelFor(
          (npu_count + kLookupsPerBlock - 1) / kLookupsPerBlock, [&](size_t block, size_t) {
            const auto first = static_cast<uint32_t>(block) * kLookupsPerBlock;
            ForEachHash(bench_rows.index(), first, std::min(npu_count, first + kLookupsPerBlock),
                        npu_key, [&](uint32_t row, uint64_t hash) {
                          first_of[row] = bench_rows.First(npu_key(row), hash, bench_key);
                        });
          });
  std::unordered_map<uint32_t, SharedKey> repeated;  // keys of several bench rows, by the first
  for (uint32_t i = 0; bench_rows.HasRepeated() && i < npu_count; ++i) {
    if (first_of[i] != kNoRow && bench_rows.Count(first_of[i]) > 1) {
      ++repeated[first_of[i]].npu_rows;
    }
  }

  MatchResult result;
  result.pairs.reserve(npu.rows.size());
  std::vector<bool> used(bench.rows.size(), false);
  PairBudget budget(npu.rows.size(), bench.rows.size());
  std::vector<uint32_t> alone;  // pairs of rows whose key no bench row has
  for (uint32_t i = 0; i < npu.rows.size(); ++i) {
    const SideRow& row = npu.rows[i];
    const auto add = [&](uint32_t j) {
      used[j] = true;
      const bool fits =
          mapping.by_key_only || DTypesComparable(row.dtype, bench.rows[j].dtype, cross_framework);
      result.pairs.push_back(fits ? RowPair{i, j, MatchOutcome::kMatched}
                                  : RowPair{i, kNoRow, MatchOutcome::kDTypeDiffers});
    };
    const uint32_t first = first_of[i];
    if (first != kNoRow && (!bench_rows.HasRepeated() || bench_rows.Count(first) == 1)) {
      add(first);
      continue;
    }
    if (first != kNoRow) {
      SharedKey& shared = repeated.find(first)->second;
      if (!shared.decided) {
        shared.decided = true;
        shared.next = first;
        shared.in_order = !budget.Take(shared.npu_rows, bench_rows.Count(first),
                                       std::max(row.name.size(), bench.rows[first].name.size()));
        if (shared.in_order) {
          budget.Refuse(row.name, shared.npu_rows, bench_rows.Count(first));
        }
      }
      if (!shared.in_order) {
        for (uint32_t j = first; j != kNoRow; j = bench_rows.Next(j)) {
          add(j);
        }
      } else if (shared.next != kNoRow) {
        add(shared.next);
        shared.next = bench_rows.Next(shared.next);
      } else {
        result.pairs.push_back({i, kNoRow, MatchOutcome::kNoBenchRow});
      }
      continue;
    }
    alone.push_back(static_cast<uint32_t>(result.pairs.size()));
    result.pairs.push_back({i, kNoRow, MatchOutcome::kNoBenchRow});
  }
  NoteOtherShapes(bench.rows.size(), bench_name, mapping, alone, result.pairs);
  result.bench_only_count = static_cast<uint64_t>(std::count(used.begin(), used.end(), false));
  result.warnings = budget.Warnings();
  return result;
}

}  // namespace msprobe::analysis::compare
