#include "src/analysis/compare/match.h"

#include <algorithm>
#include <array>
#include <unordered_map>

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

struct RowKeyHash {
  size_t operator()(const RowKey& key) const {
    const std::hash<std::string_view> hash;
    return hash(key.name) * 31 + hash(key.shape);
  }
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
  // Bench rows of equal key form a chain in file order; `first` holds its head.
  std::unordered_map<RowKey, uint32_t, RowKeyHash> first;
  std::unordered_map<std::string_view, uint32_t> first_of_name;
  std::vector<uint32_t> next(bench.rows.size(), kNoRow);
  const bool without_shapes = mapping.by_key_only || mapping.ignore_shapes;
  const auto bench_key = [&](uint32_t row) {
    return mapping.bench_keys.empty() ? bench.rows[row].name : mapping.bench_keys[row];
  };
  first.reserve(bench.rows.size());
  first_of_name.reserve(bench.rows.size());
  for (uint32_t i = static_cast<uint32_t>(bench.rows.size()); i-- > 0;) {
    const SideRow& row = bench.rows[i];
    const auto [entry, inserted] =
        first.try_emplace(RowKey{bench_key(i), without_shapes ? std::string_view() : row.shape}, i);
    if (!inserted) {
      next[i] = entry->second;
      entry->second = i;
    }
    first_of_name[bench_key(i)] = i;
  }

  MatchResult result;
  result.pairs.reserve(npu.rows.size());
  std::vector<bool> used(bench.rows.size(), false);
  for (uint32_t i = 0; i < npu.rows.size(); ++i) {
    const SideRow& row = npu.rows[i];
    const std::string_view key = mapping.keys[i];
    const auto found = first.find(RowKey{key, without_shapes ? std::string_view() : row.shape});
    if (found == first.end()) {
      const bool name_known = first_of_name.contains(key);
      result.pairs.push_back(
          {i, kNoRow, name_known ? MatchOutcome::kShapeDiffers : MatchOutcome::kNoBenchRow});
      continue;
    }
    for (uint32_t j = found->second; j != kNoRow; j = next[j]) {
      used[j] = true;
      const bool fits =
          mapping.by_key_only || DTypesComparable(row.dtype, bench.rows[j].dtype, cross_framework);
      result.pairs.push_back(fits ? RowPair{i, j, MatchOutcome::kMatched}
                                  : RowPair{i, kNoRow, MatchOutcome::kDTypeDiffers});
    }
  }
  result.bench_only_count = static_cast<uint64_t>(std::count(used.begin(), used.end(), false));
  return result;
}

}  // namespace msprobe::analysis::compare
