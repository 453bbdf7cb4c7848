#include "src/analysis/compare/match.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <unordered_set>
#include <vector>

#include "msprobe/dtype.h"

#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

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

// Rows by their key, those of equal key in file order.
class RowTable {
 public:
  // key_of(row) for all rows in [0, count).
  template <typename KeyOf>
  RowTable(size_t count, const KeyOf& key_of)
      : heads_(std::bit_ceil(count + count / 2 + 1), kNoRow), links_(count) {
    for (auto row = static_cast<uint32_t>(count); row-- > 0;) {
      links_[row].hash = HashOf(key_of(row));
      uint32_t& head = heads_[links_[row].hash & (heads_.size() - 1)];
      links_[row].next = head;
      head = row;
    }
  }

  // visit(row) for all rows of this key; returns whether there is one.
  template <typename KeyOf, typename Visit>
  bool ForEach(const RowKey& key, const KeyOf& key_of, const Visit& visit) const {
    const size_t hash = HashOf(key);
    bool found = false;
    for (uint32_t row = heads_[hash & (heads_.size() - 1)]; row != kNoRow; row = links_[row].next) {
      if (links_[row].hash == hash && key_of(row) == key) {
        found = true;
        visit(row);
      }
    }
    return found;
  }

 private:
  struct Link {
    size_t hash = 0;
    uint32_t next = kNoRow;  // of those whose hash has the same place
  };

  static size_t HashOf(const RowKey& key) {
    const std::hash<std::string_view> hash;
    return hash(key.name) * 31 + (key.shape.empty() ? 0 : hash(key.shape));
  }

  std::vector<uint32_t> heads_;
  std::vector<Link> links_;
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

MatchResult MatchExactly(const Side& npu, const Side& bench, const RowMapping& mapping) {
  const bool cross_framework = npu.framework != bench.framework;
  const bool without_shapes = mapping.by_key_only || mapping.ignore_shapes;
  const auto bench_name = [&](uint32_t row) {
    return mapping.bench_keys.empty() ? bench.rows[row].name : mapping.bench_keys[row];
  };
  const auto bench_key = [&](uint32_t row) {
    return RowKey{bench_name(row), without_shapes ? std::string_view() : bench.rows[row].shape};
  };
  const RowTable bench_rows(bench.rows.size(), bench_key);
  std::unordered_set<std::string_view> bench_names;  // made when a row has no partner

  MatchResult result;
  result.pairs.reserve(npu.rows.size());
  std::vector<bool> used(bench.rows.size(), false);
  for (uint32_t i = 0; i < npu.rows.size(); ++i) {
    const SideRow& row = npu.rows[i];
    const RowKey key = {mapping.keys[i], without_shapes ? std::string_view() : row.shape};
    const bool found = bench_rows.ForEach(key, bench_key, [&](uint32_t j) {
      used[j] = true;
      const bool fits =
          mapping.by_key_only || DTypesComparable(row.dtype, bench.rows[j].dtype, cross_framework);
      result.pairs.push_back(fits ? RowPair{i, j, MatchOutcome::kMatched}
                                  : RowPair{i, kNoRow, MatchOutcome::kDTypeDiffers});
    });
    if (found) {
      continue;
    }
    if (bench_names.empty()) {
      bench_names.reserve(bench.rows.size());
      for (uint32_t j = 0; j < bench.rows.size(); ++j) {
        bench_names.insert(bench_name(j));
      }
    }
    const bool name_known = bench_names.contains(key.name);
    result.pairs.push_back(
        {i, kNoRow, name_known ? MatchOutcome::kShapeDiffers : MatchOutcome::kNoBenchRow});
  }
  result.bench_only_count = static_cast<uint64_t>(std::count(used.begin(), used.end(), false));
  return result;
}

}  // namespace msprobe::analysis::compare
