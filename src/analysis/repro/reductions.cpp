#include "src/analysis/repro/reductions.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "src/tensor/element_blocks.h"

namespace msprobe::analysis::repro {
namespace {

HeldTensor CopyOf(const TensorView& view) {
  auto copy = std::make_shared<tensor::TensorBuffer>(view.dtype, view.shape);
  tensor::CopyElements(view, 0, view.element_count(), copy->mutable_bytes().data());
  return copy;
}

TensorView Part(TensorView view, const Cut& cut) {
  view.data += static_cast<size_t>(cut.begin * view.strides[cut.dim]) * DTypeSize(view.dtype);
  view.extent_bytes -=
      static_cast<size_t>(cut.begin * view.strides[cut.dim]) * DTypeSize(view.dtype);
  view.shape[cut.dim] = cut.end - cut.begin;
  return view;
}

// The records of a tensor follow it.
void Replace(CapturedCall& call, const std::string& data_name, HeldTensor tensor) {
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    if (leaf.data_name == data_name) {
      call.entries[leaf.place]["shape"] = tensor->view().shape;
    }
  }
  call.tensors[data_name] = std::move(tensor);
}

void ReplaceNumbers(Json& value, int64_t old_size, int64_t new_size) {
  if (IsTensorRecord(value)) {
    return;
  }
  if (value.is_number_integer()) {
    if (value.get<int64_t>() == old_size) {
      value = new_size;
    }
  } else if (value.is_structured()) {
    for (auto& item : value) {
      ReplaceNumbers(item, old_size, new_size);
    }
  }
}

}  // namespace

CapturedCall WithCuts(const CapturedCall& call, const std::vector<Cut>& cuts, bool numbers,
                      int64_t old_size, int64_t new_size) {
  CapturedCall smaller = call;
  for (const Cut& cut : cuts) {
    const HeldTensor held = smaller.tensors.at(cut.data_name);
    Replace(smaller, cut.data_name, CopyOf(Part(held->view(), cut)));
  }
  if (numbers) {
    Json& forward = smaller.entries[smaller.forward_name()];
    for (const char* member : {"input_args", "input_kwargs"}) {
      if (forward.contains(member)) {
        ReplaceNumbers(forward[member], old_size, new_size);
      }
    }
  }
  return smaller;
}

CapturedCall WithoutValues(const CapturedCall& call, const TensorLeaf& leaf) {
  CapturedCall smaller = call;
  smaller.entries[leaf.place]["data_name"] = "-1";
  const std::vector<TensorLeaf> left = LeavesOf(smaller);
  if (std::none_of(left.begin(), left.end(),
                   [&](const TensorLeaf& other) { return other.data_name == leaf.data_name; })) {
    smaller.tensors.erase(leaf.data_name);
  }
  return smaller;
}

CapturedCall WithoutArgument(const CapturedCall& call, const Json::json_pointer& place) {
  CapturedCall smaller = call;
  Json& holder = smaller.entries[place.parent_pointer()];
  if (holder.is_object()) {
    holder.erase(place.back());
  } else if (place == place.parent_pointer() / (holder.size() - 1)) {
    holder.erase(holder.size() - 1);
  } else {
    smaller.entries[place] = Json();
  }
  const std::vector<TensorLeaf> left = LeavesOf(smaller);
  std::erase_if(smaller.tensors, [&](const auto& tensor) {
    return std::none_of(left.begin(), left.end(),
                        [&](const TensorLeaf& leaf) { return leaf.data_name == tensor.first; });
  });
  return smaller;
}

CapturedCall WithZeros(const CapturedCall& call, const std::string& data_name, int64_t begin,
                       int64_t end) {
  CapturedCall smaller = call;
  const TensorView view = call.tensors.at(data_name)->view();
  auto copy = std::make_shared<tensor::TensorBuffer>(view.dtype, view.shape);
  tensor::CopyElements(view, 0, view.element_count(), copy->mutable_bytes().data());
  const size_t size = DTypeSize(view.dtype);
  std::memset(copy->mutable_bytes().data() + static_cast<size_t>(begin) * size, 0,
              static_cast<size_t>(end - begin) * size);
  smaller.tensors[data_name] = std::move(copy);
  return smaller;
}

CapturedCall WithoutFirstDim(const CapturedCall& call, size_t rank) {
  CapturedCall smaller = call;
  std::vector<std::string> done;
  for (const TensorLeaf& leaf : LeavesOf(call)) {
    if (leaf.data_name.empty() || leaf.shape.size() != rank || leaf.shape[0] != 1 ||
        std::find(done.begin(), done.end(), leaf.data_name) != done.end()) {
      continue;
    }
    done.push_back(leaf.data_name);
    TensorView view = smaller.tensors.at(leaf.data_name)->view();
    view.shape.erase(view.shape.begin());
    view.strides.erase(view.strides.begin());
    Replace(smaller, leaf.data_name, CopyOf(view));
  }
  return smaller;
}

}  // namespace msprobe::analysis::repro
