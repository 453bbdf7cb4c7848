#include "src/analysis/ckpt/same_content.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/ckpt/compare_pairs.h"
#include "src/kernels/crc32.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::ckpt {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Parameter;

uint64_t BytesOf(const Parameter& parameter) {
  return static_cast<uint64_t>(parameter.element_count()) * DTypeSize(parameter.dtype);
}

// Whether the pieces, one after the other, are the elements in row-major order: each holds whole
// rows, and those of a matrix that was turned do not.
bool IsInOrder(const Parameter& parameter) {
  return std::all_of(parameter.pieces.begin(), parameter.pieces.end(), [&](const auto& piece) {
    for (size_t axis = 1; axis < parameter.shape.size(); ++axis) {
      if (piece.view.shape[axis] != parameter.shape[axis]) {
        return false;
      }
    }
    return piece.view.dtype == parameter.dtype;
  });
}

uint32_t ChecksumOf(const Parameter& parameter) {
  uint32_t checksum = 0;
  std::vector<std::byte> scratch;
  for (const checkpoint::Piece& piece : parameter.pieces) {
    tensor::BlockReader reader(piece.view, scratch);
    const auto count = static_cast<size_t>(piece.view.element_count());
    for (size_t first = 0; first < count; first += tensor::kCopyBlockElements) {
      checksum = kernels::Crc32(
          reader.Read(first, std::min(count - first, tensor::kCopyBlockElements)), checksum);
    }
  }
  return checksum;
}

// Equal for parameters that may hold the same elements.
using ContentKey = std::tuple<DType, std::string, Shape, uint32_t>;

// Candidates of one side, in their order.
std::vector<const Parameter*> CandidatesOf(const Checkpoint& side,
                                           const std::unordered_set<std::string>& names) {
  std::vector<const Parameter*> found;
  for (const Parameter& parameter : side.parameters) {
    if (names.contains(parameter.name) && parameter.status.ok() && parameter.element_count() > 0 &&
        IsInOrder(parameter)) {
      found.push_back(&parameter);
    }
  }
  return found;
}

// Leaves those that the other side has an equal number of elements for, as far as the bytes allow.
void KeepComparable(std::vector<const Parameter*>& side, const std::set<int64_t>& counts,
                    uint64_t most_bytes) {
  std::erase_if(side, [&](const Parameter* parameter) {
    return !counts.contains(parameter->element_count());
  });
  std::vector<const Parameter*> smallest = side;
  std::stable_sort(smallest.begin(), smallest.end(), [](const Parameter* x, const Parameter* y) {
    return BytesOf(*x) < BytesOf(*y);
  });
  std::unordered_set<const Parameter*> kept;
  for (const Parameter* parameter : smallest) {
    if (BytesOf(*parameter) > most_bytes) {
      break;
    }
    most_bytes -= BytesOf(*parameter);
    kept.insert(parameter);
  }
  std::erase_if(side, [&](const Parameter* parameter) { return !kept.contains(parameter); });
}

class ContentMatcher {
 public:
  ContentMatcher(const Checkpoint& a, const Checkpoint& b, base::ThreadPool& pool)
      : a_(a), b_(b), pool_(pool) {}

  // One round: those of the first side as they are, or each turned first.
  void Match(std::vector<const Parameter*>& left, std::vector<const Parameter*>& right,
             bool transposed) {
    std::vector<Parameter> turned;
    for (const Parameter* parameter : left) {
      if (!transposed) {
        turned.push_back(*parameter);
      } else if (Result<Parameter> other = checkpoint::Transpose(*parameter); other.ok()) {
        turned.push_back(*std::move(other));
      }
    }
    std::erase_if(turned, [](const Parameter& parameter) { return !IsInOrder(parameter); });
    const std::vector<ContentKey> keys_a =
        KeysOf(turned.size(), [&](size_t i) -> const Parameter& { return turned[i]; });
    const std::vector<ContentKey> keys_b =
        KeysOf(right.size(), [&](size_t i) -> const Parameter& { return *right[i]; });
    std::map<ContentKey, std::pair<std::vector<size_t>, std::vector<size_t>>> groups;
    for (size_t i = 0; i < keys_a.size(); ++i) {
      groups[keys_a[i]].first.push_back(i);
    }
    for (size_t i = 0; i < keys_b.size(); ++i) {
      groups[keys_b[i]].second.push_back(i);
    }
    std::vector<MatchedPair> pairs;
    for (const auto& [key, group] : groups) {
      if (group.first.size() != group.second.size()) {
        continue;
      }
      for (size_t i = 0; i < group.first.size(); ++i) {
        const Parameter& first = turned[group.first[i]];
        pairs.push_back({first.name, first, *right[group.second[i]], {}});
      }
    }
    // A checksum only says which may be equal.
    const std::vector<PairResult> results =
        ComparePairs(pairs, a_.files, b_.files, PairSettings(), pool_);
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (results[i].outcome == Outcome::kIdentical && pairs[i].a.name != pairs[i].b.name) {
        found_.emplace(pairs[i].a.name, SameContent{pairs[i].a.name, pairs[i].b.name, transposed});
        taken_b_.insert(pairs[i].b.name);
      }
    }
    std::erase_if(left, [&](const Parameter* side) { return found_.contains(side->name); });
    std::erase_if(right, [&](const Parameter* side) { return taken_b_.contains(side->name); });
  }

  std::vector<SameContent> Take() const {
    std::vector<SameContent> found;
    for (const Parameter& parameter : a_.parameters) {
      if (const auto same = found_.find(parameter.name); same != found_.end()) {
        found.push_back(same->second);
      }
    }
    return found;
  }

 private:
  template <typename At>
  std::vector<ContentKey> KeysOf(size_t count, const At& at) const {
    std::vector<ContentKey> keys(count);
    pool_.ParallelFor(count, [&](size_t item, size_t /*worker*/) {
      const Parameter& parameter = at(item);
      keys[item] = {parameter.dtype, parameter.raw_dtype, parameter.shape, ChecksumOf(parameter)};
    });
    return keys;
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  base::ThreadPool& pool_;
  std::unordered_map<std::string, SameContent> found_;  // by the first side's name
  std::unordered_set<std::string> taken_b_;
};

}  // namespace

std::vector<SameContent> FindSameContent(const Checkpoint& a, const Checkpoint& b,
                                         const MatchedParameters& matched,
                                         std::span<const PairResult> results, uint64_t most_bytes,
                                         base::ThreadPool& pool) {
  std::unordered_set<std::string> names_a;
  std::unordered_set<std::string> names_b;
  for (const Unmatched& name : matched.only_in_a) {
    names_a.insert(name.name);
  }
  for (const Unmatched& name : matched.only_in_b) {
    names_b.insert(name.name);
  }
  for (const PairResult& result : results) {
    if (result.outcome == Outcome::kDifferent || result.outcome == Outcome::kShapes) {
      names_a.insert(result.name_a);
      names_b.insert(result.name_b);
    }
  }
  std::vector<const Parameter*> left = CandidatesOf(a, names_a);
  std::vector<const Parameter*> right = CandidatesOf(b, names_b);
  std::set<int64_t> counts_a;
  std::set<int64_t> counts_b;
  for (const Parameter* parameter : left) {
    counts_a.insert(parameter->element_count());
  }
  for (const Parameter* parameter : right) {
    counts_b.insert(parameter->element_count());
  }
  KeepComparable(left, counts_b, most_bytes);
  KeepComparable(right, counts_a, most_bytes);
  ContentMatcher matcher(a, b, pool);
  matcher.Match(left, right, /*transposed=*/false);
  matcher.Match(left, right, /*transposed=*/true);
  return matcher.Take();
}

std::string MappingDraft(std::span<const SameContent> same) {
  const auto can_be_spelled = [](std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
      return c >= ' ' && c <= '~' && std::string_view("{}\"\\").find(c) == std::string_view::npos;
    });
  };
  std::unordered_set<std::string_view> sources;
  for (const SameContent& pair : same) {
    sources.insert(pair.name_a);
  }
  std::string text =
      "# Made from equal elements: check the names, then pass this file with --mapping.\n";
  std::string second;
  size_t number = 0;
  for (const SameContent& pair : same) {
    if (!can_be_spelled(pair.name_a) || !can_be_spelled(pair.name_b)) {
      continue;
    }
    // Rules are applied to the results of earlier ones: a name that both sides have, for different
    // parameters, is reached by a detour.
    const bool is_taken = sources.contains(pair.name_b);
    const std::string to = is_taken ? fmt::format("renamed.{}", ++number) : pair.name_b;
    text += fmt::format("- {{from: \"{}\", to: \"{}\"{}, side: first}}\n", pair.name_a, to,
                        pair.transposed ? ", transpose: true" : "");
    if (is_taken) {
      second += fmt::format("- {{from: \"{}\", to: \"{}\", side: first}}\n", to, pair.name_b);
    }
  }
  return text + second;
}

}  // namespace msprobe::analysis::ckpt
