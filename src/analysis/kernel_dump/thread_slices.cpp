#include "src/analysis/kernel_dump/thread_slices.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "src/io/contents.h"
#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::kernel_dump {
namespace {

namespace kd = io::kernel_dump;
using json::ValueKind;
using json::ValueTree;

// Child number `index` of a list; kNone where there is none.
uint32_t Item(const ValueTree& tree, uint32_t list, size_t index) {
  if (list == ValueTree::kNone || tree[list].kind != ValueKind::kList ||
      index >= tree[list].child_count) {
    return ValueTree::kNone;
  }
  uint32_t child = list + 1;
  for (; index > 0; --index) {
    child = tree[child].end;
  }
  return child;
}

std::optional<int64_t> Integer(const ValueTree& tree, uint32_t node) {
  return node != ValueTree::kNone && tree[node].kind == ValueKind::kInt
             ? std::optional<int64_t>(tree[node].integer)
             : std::nullopt;
}

std::optional<TensorPart> ReadPart(const ValueTree& tree, uint32_t axes, size_t rank) {
  if (axes == ValueTree::kNone || tree[axes].kind != ValueKind::kList ||
      tree[axes].child_count != rank) {
    return std::nullopt;
  }
  TensorPart part;
  for (size_t axis = 0; axis < rank; ++axis) {
    const uint32_t range = Item(tree, axes, axis);
    if (tree[range].kind != ValueKind::kObject) {
      return std::nullopt;
    }
    const std::optional<int64_t> lower = Integer(tree, tree.Find(range, "lower"));
    const std::optional<int64_t> higher = Integer(tree, tree.Find(range, "higher"));
    if (!lower || !higher || *lower < 0 || *higher < *lower) {
      return std::nullopt;
    }
    part.lower.push_back(*lower);
    part.size.push_back(*higher - *lower);
  }
  return part;
}

bool Overlap(const TensorPart& a, const TensorPart& b) {
  for (size_t axis = 0; axis < a.lower.size(); ++axis) {
    if (a.lower[axis] >= b.lower[axis] + b.size[axis] ||
        b.lower[axis] >= a.lower[axis] + a.size[axis]) {
      return false;
    }
  }
  return true;
}

// The whole that the parts fill without gap or overlap.
std::optional<Shape> WholeOf(const std::vector<TensorPart>& parts) {
  Shape whole(parts[0].lower.size(), 0);
  for (const TensorPart& part : parts) {
    for (size_t axis = 0; axis < whole.size(); ++axis) {
      whole[axis] = std::max(whole[axis], part.lower[axis] + part.size[axis]);
    }
  }
  if (!io::DenseBytes(whole, 16).ok()) {
    return std::nullopt;
  }
  const int64_t wanted = ElementCount(whole);
  int64_t elements = 0;
  for (size_t i = 0; i < parts.size() && elements <= wanted; ++i) {
    elements += ElementCount(parts[i].size);
    for (size_t k = 0; k < i; ++k) {
      if (Overlap(parts[i], parts[k])) {
        return std::nullopt;
      }
    }
  }
  return elements == wanted ? std::optional<Shape>(std::move(whole)) : std::nullopt;
}

class SliceReader {
 public:
  SliceReader(const ValueTree& tree, std::span<const kd::KernelDump* const> threads)
      : tree_(tree), threads_(threads) {}

  std::optional<std::vector<TensorSlices>> Read(bool is_output) const {
    const std::vector<kd::DumpedTensor>& first = TensorsOf(*threads_[0], is_output);
    const uint32_t cut = tree_.Find(0, is_output ? "outputCutList" : "inputCutList");
    const uint32_t slices = tree_.Find(0, is_output ? "output_tensor_slice" : "input_tensor_slice");
    std::vector<TensorSlices> all;
    for (size_t number = 0; number < first.size(); ++number) {
      TensorSlices& tensor = all.emplace_back();
      if (Integer(tree_, Item(tree_, cut, number)).value_or(1) == 0) {
        continue;
      }
      if (!ReadTensor(slices, is_output, number, tensor)) {
        return std::nullopt;
      }
    }
    return all;
  }

  static const std::vector<kd::DumpedTensor>& TensorsOf(const kd::KernelDump& dump,
                                                        bool is_output) {
    return is_output ? dump.outputs : dump.inputs;
  }

 private:
  bool ReadTensor(uint32_t slices, bool is_output, size_t number, TensorSlices& tensor) const {
    std::vector<TensorPart> parts;
    for (size_t thread = 0; thread < threads_.size(); ++thread) {
      const kd::DumpedTensor& dumped = TensorsOf(*threads_[thread], is_output)[number];
      const kd::DataType* const type = kd::FindDataType(dumped.data_type);
      if (!dumped.shape || !kd::IsPlainFormat(dumped.format) ||
          (type != nullptr && type->packing == kd::Packing::kBits)) {
        return false;
      }
      std::optional<TensorPart> part =
          ReadPart(tree_, Item(tree_, Item(tree_, slices, thread), number), dumped.shape->size());
      if (!part || part->size != *dumped.shape) {
        return false;
      }
      parts.push_back(*std::move(part));
    }
    std::optional<Shape> whole = WholeOf(parts);
    if (!whole) {
      return false;
    }
    tensor.is_cut = true;
    tensor.whole = *std::move(whole);
    tensor.parts = std::move(parts);
    return true;
  }

  const ValueTree& tree_;
  const std::span<const kd::KernelDump* const> threads_;
};

}  // namespace

std::optional<ThreadSlices> FindThreadSlices(std::span<const kd::KernelDump* const> threads) {
  if (threads.size() < 2 || threads.size() > kMostThreads || threads[0]->attributes.empty()) {
    return std::nullopt;
  }
  if (threads[0]->inputs.size() > kMostSlicedTensors ||
      threads[0]->outputs.size() > kMostSlicedTensors) {
    return std::nullopt;
  }
  for (const kd::KernelDump* thread : threads) {
    if (thread->inputs.size() != threads[0]->inputs.size() ||
        thread->outputs.size() != threads[0]->outputs.size()) {
      return std::nullopt;
    }
  }
  const Result<ValueTree> tree = json::ParseValueTree(threads[0]->attributes[0].second);
  if (!tree.ok() || (*tree)[0].kind != ValueKind::kObject) {
    return std::nullopt;
  }
  const std::optional<int64_t> told = Integer(*tree, tree->Find(0, "slice_instance_num"));
  if (told && *told != static_cast<int64_t>(threads.size())) {
    return std::nullopt;  // the file of a thread is missing
  }
  const SliceReader reader(*tree, threads);
  std::optional<std::vector<TensorSlices>> inputs = reader.Read(false);
  std::optional<std::vector<TensorSlices>> outputs = reader.Read(true);
  return inputs && outputs ? std::optional<ThreadSlices>({*std::move(inputs), *std::move(outputs)})
                           : std::nullopt;
}

Result<tensor::TensorBuffer> PutTogether(const TensorSlices& slices,
                                         std::span<const TensorView> parts) {
  tensor::TensorBuffer whole(parts[0].dtype, slices.whole);
  const size_t element = DTypeSize(parts[0].dtype);
  const Shape strides = ContiguousStrides(slices.whole);
  for (size_t thread = 0; thread < parts.size(); ++thread) {
    const TensorView& part = parts[thread];
    if (part.dtype != parts[0].dtype) {
      return MismatchError(
          fmt::format("threads have {} and {}", DTypeName(parts[0].dtype), DTypeName(part.dtype)));
    }
    const Shape& lower = slices.parts[thread].lower;
    if (part.shape != slices.parts[thread].size) {
      return MismatchError(fmt::format("a thread has {}, its part is {}", ShapeText(part.shape),
                                       ShapeText(slices.parts[thread].size)));
    }
    if (part.element_count() == 0) {
      continue;
    }
    // Row by row of the last axis.
    const int64_t row = part.shape.empty() ? 1 : part.shape.back();
    const std::byte* from = part.bytes().data();
    for (int64_t done = 0; done < part.element_count(); done += row) {
      int64_t rest = done / row;
      int64_t place = part.shape.empty() ? 0 : lower.back();
      for (size_t axis = part.shape.size(); axis-- > 0;) {
        if (axis + 1 < part.shape.size()) {
          place += (lower[axis] + rest % part.shape[axis]) * strides[axis];
          rest /= part.shape[axis];
        }
      }
      std::memcpy(whole.mutable_bytes().data() + static_cast<size_t>(place) * element, from,
                  static_cast<size_t>(row) * element);
      from += static_cast<size_t>(row) * element;
    }
  }
  return whole;
}

}  // namespace msprobe::analysis::kernel_dump
