// Fuzzy matching. Rows of both sides are appended in turn to two queues; after each turn the newest
// rows are tried against the other queue. The first hit (p, q) ends the wait of everything before
// it: NPU rows before p stay unmatched, p and q pair up, both queues drop what came up to them.
// Instead of scanning the queues, the waiting positions of every name are kept, so the whole is
// linear.
#include <deque>
#include <string>
#include <unordered_map>

#include "src/analysis/compare/match.h"

namespace msprobe::analysis::compare {
namespace {

// The name without its call number: "Torch.add.0.forward.input.0" -> "Torch.add.forward.input.0".
// Of modules this drops the class name and keeps the call number, as the reference does.
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

}  // namespace msprobe::analysis::compare
