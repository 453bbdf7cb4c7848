#include "src/analysis/accuracy/check/tensor_record.h"

#include <string_view>

#include <fmt/format.h>

namespace msprobe::analysis::accuracy {
namespace {

// Larger tensors are no inputs that anybody could check.
constexpr uint64_t kMostTensorBytes = uint64_t{1} << 36U;

std::optional<RecordedNumber> NumberAt(const json::ValueTree& tree, uint32_t object,
                                       std::string_view key) {
  const uint32_t place = tree.Find(object, key);
  if (place == json::ValueTree::kNone) {
    return std::nullopt;
  }
  const json::ValueNode& node = tree[place];
  switch (node.kind) {
    case json::ValueKind::kInt:
      return RecordedNumber{true, node.integer, static_cast<double>(node.integer)};
    case json::ValueKind::kFloat:
      return RecordedNumber{false, 0, node.number};
    case json::ValueKind::kBool:
      return RecordedNumber{true, node.boolean ? 1 : 0, node.boolean ? 1.0 : 0.0};
    default:
      return std::nullopt;
  }
}

}  // namespace

bool IsTensorRecord(const json::ValueTree& tree, uint32_t place) {
  if (tree[place].kind != json::ValueKind::kObject) {
    return false;
  }
  const uint32_t dtype = tree.Find(place, "dtype");
  const uint32_t shape = tree.Find(place, "shape");
  return dtype != json::ValueTree::kNone && tree[dtype].kind == json::ValueKind::kText &&
         shape != json::ValueTree::kNone && tree[shape].kind == json::ValueKind::kList;
}

Result<TensorRecord> ReadTensorRecord(const json::ValueTree& tree, uint32_t place) {
  TensorRecord record;
  record.dtype_text = tree[tree.Find(place, "dtype")].text;
  record.dtype = ParseDType(record.dtype_text);
  uint64_t bytes = record.dtype ? DTypeSize(*record.dtype) : 1;
  bool valid = true;
  tree.ForEachChild(tree.Find(place, "shape"), [&](uint32_t item) {
    const json::ValueNode& size = tree[item];
    valid = valid && size.kind == json::ValueKind::kInt && size.integer >= 0 &&
            !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size.integer), &bytes) &&
            bytes <= kMostTensorBytes;
    record.shape.push_back(valid ? size.integer : 0);
  });
  if (!valid) {
    return BadFormatError("the shape of a tensor is not valid, or too large to be made");
  }
  record.least = NumberAt(tree, place, "Min");
  record.most = NumberAt(tree, place, "Max");
  record.least_finite = NumberAt(tree, place, "Min_except_inf_nan");
  record.most_finite = NumberAt(tree, place, "Max_except_inf_nan");
  const uint32_t grad = tree.Find(place, "requires_grad");
  record.requires_grad = grad != json::ValueTree::kNone && tree[grad].boolean;
  return record;
}

}  // namespace msprobe::analysis::accuracy
