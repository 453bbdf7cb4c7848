#include "src/reference/call.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::reference {
namespace {

using dump::EntryTree;
using dump::NodeKind;

// Integers beyond this are not all numbers of double.
constexpr double kLargestExact = 0x1p53;

// The shape of an empty tensor is backed by no bytes, and what is computed of it may have no dim of
// size 0 any more: elements that its other dims may stand for. 256 experts of 16,384 are half.
constexpr int64_t kMostBesideEmpty = int64_t{1} << 23U;

bool IsPlausibleIfEmpty(const Shape& shape) {
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (is_empty && size > 0 && count > kMostBesideEmpty / size)) {
      return false;
    }
    count *= is_empty && size > 0 ? size : 1;
  }
  return true;
}

constexpr const char* kNoOtherRanks = "the dumps of the other ranks are needed";

Result<Value> LoadTensor(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  if (tensor->quantization != nullptr) {
    return UnsupportedError("a quantised tensor");
  }
  return ValueOf(tensor->view);
}

Shape ShapeOf(const EntryTree& tree, uint32_t index) {
  Shape shape;
  if (const uint32_t at = tree.Find(index, "shape"); at != EntryTree::kNone) {
    tree.ForEachChild(at, [&](uint32_t size) { shape.push_back(tree[size].integer); });
  }
  return shape;
}

// {"type": ..., "value": ...}: the node of the value.
uint32_t ValueNode(const EntryTree& tree, uint32_t index) {
  return tree[index].kind == NodeKind::kObject ? tree.Find(index, "value") : EntryTree::kNone;
}

}  // namespace

DType StorageOf(const std::vector<CapturedTensor>& tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const CapturedTensor& tensor) {
    return GetDTypeInfo(tensor.dtype).kind == DTypeKind::kFloat;
  });
  return found == tensors.end() ? tensors.front().dtype : found->dtype;
}

Status TensorLoads::Ask(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = counts_.find(name);
  if (known != counts_.end() && known->second >= most_) {
    return UnsupportedError(
        fmt::format("{} was read {} times: calls of a dump have tensor files of "
                    "their own",
                    base::Printable(name), most_));
  }
  return {};
}

void TensorLoads::Count(std::string_view name, uint64_t elements) {
  if (elements <= kFewElements) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  auto known = counts_.find(name);
  if (known == counts_.end()) {
    known = counts_.emplace(std::string(name), 0).first;
  }
  ++known->second;
}

TensorSource TensorsOf(std::filesystem::path folder, std::shared_ptr<TensorLoads> loads) {
  return [folder = std::move(folder),
          loads = std::move(loads)](std::string_view data_name) -> Result<Value> {
    MSP_RETURN_IF_ERROR(dump::CheckDataName(data_name));
    MSP_RETURN_IF_ERROR(loads->Ask(data_name));
    MSP_ASSIGN_OR_RETURN(Value value, LoadTensor(folder / data_name));
    loads->Count(data_name, value->size());
    return value;
  };
}

Result<Value> ValueOf(const TensorView& view) {
  const DTypeInfo& info = GetDTypeInfo(view.dtype);
  if (info.kind == DTypeKind::kComplex) {
    return UnsupportedError("complex numbers");
  }
  Numbers values = Numbers::Unset(static_cast<size_t>(view.element_count()));
  std::vector<std::byte> scratch;
  tensor::ForEachBlock(view, tensor::kCopyBlockElements, scratch,
                       [&](std::span<const std::byte> block, size_t first) {
                         const size_t count = block.size() / info.size_bytes;
                         kernels::WidenToDouble(view.dtype, block,
                                                std::span(values.data() + first, count));
                       });
  if (info.size_bytes == 8 && info.kind != DTypeKind::kFloat &&
      std::any_of(values.begin(), values.end(),
                  [](double value) { return std::fabs(value) > kLargestExact; })) {
    return UnsupportedError("integers beyond 2^53");
  }
  return MakeValue(view.shape, std::move(values));
}

Value Call::Fail(std::string reason) {
  if (problem_.empty()) {
    problem_ = std::move(reason);
  }
  return nullptr;
}

CapturedTensor Call::Read(const EntryTree& tree, uint32_t index, std::string name) const {
  CapturedTensor tensor;
  tensor.name = std::move(name);
  const std::string_view dtype_text = dump::LeafText(tree, index, "dtype");
  const std::optional<DType> dtype = ParseDType(dtype_text);
  if (!dtype) {
    tensor.problem = fmt::format("{} has dtype {}", tensor.name, base::Printable(dtype_text));
    return tensor;
  }
  tensor.dtype = *dtype;
  const Shape shape = ShapeOf(tree, index);
  if (!IsPlausibleIfEmpty(shape)) {
    tensor.problem = fmt::format("{} of shape {} is out of proportion to what was captured",
                                 tensor.name, ShapeText(shape));
    return tensor;
  }
  const std::string_view file = dump::LeafText(tree, index, "data_name");
  if (file.empty() || file == "-1") {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
      tensor.value = MakeValue(shape, {});
    } else {
      tensor.problem = fmt::format("the values of {} were not saved", tensor.name);
    }
    return tensor;
  }
  Result<Value> loaded = tensors_(file);
  if (!loaded.ok()) {
    tensor.problem = fmt::format("{}: {}", tensor.name, loaded.status().message());
    if (unreadable_.empty() && loaded.status().code() != StatusCode::kUnsupported) {
      unreadable_ = tensor.problem;
    }
  } else if ((*loaded)->shape != shape) {
    tensor.problem = fmt::format("{} is {} in the dump and {} in its file", tensor.name,
                                 ShapeText(shape), ShapeText((*loaded)->shape));
  } else {
    tensor.value = *std::move(loaded);
    loaded_ += tensor.value->size();
  }
  return tensor;
}

size_t Call::ArgumentCount() const {
  const uint32_t list = forward_.Find(0, "input_args");
  return list == EntryTree::kNone ? 0 : forward_[list].child_count;
}

uint32_t Call::Find(size_t position, std::string_view name) const {
  uint32_t found = EntryTree::kNone;
  if (const uint32_t list = forward_.Find(0, "input_args");
      list != EntryTree::kNone && position < forward_[list].child_count) {
    size_t at = 0;
    forward_.ForEachChild(list, [&](uint32_t child) {
      if (at++ == position) {
        found = child;
      }
    });
  } else if (const uint32_t named = forward_.Find(0, "input_kwargs");
             named != EntryTree::kNone && !name.empty()) {
    found = forward_.Find(named, name);
  }
  if (found == EntryTree::kNone || forward_[found].kind == NodeKind::kNull) {
    return EntryTree::kNone;
  }
  // dtype=None is written as a dtype whose value is "None".
  const uint32_t value = ValueNode(forward_, found);
  const bool is_none = value != EntryTree::kNone &&
                       (forward_[value].kind == NodeKind::kNull || forward_[value].text == "None");
  return is_none ? EntryTree::kNone : found;
}

bool Call::Has(size_t position, std::string_view name) const {
  return Find(position, name) != EntryTree::kNone;
}

bool Call::IsTensor(size_t position, std::string_view name) const {
  const uint32_t index = Find(position, name);
  return index != EntryTree::kNone && dump::IsTensorLeaf(forward_, index);
}

Value Call::TensorAt(uint32_t index, std::string_view name) {
  const auto known = arguments_.find(index);
  if (known != arguments_.end()) {
    return known->second.value;
  }
  CapturedTensor tensor = Read(forward_, index, std::string(name));
  if (tensor.value == nullptr) {
    Fail(tensor.problem);
  } else {
    if (wants_gradients_ && GetDTypeInfo(tensor.dtype).kind == DTypeKind::kFloat) {
      auto wanted = SameElements(*tensor.value, tensor.value->shape);
      wanted->wants_gradient = true;
      tensor.value = std::move(wanted);
    }
    used_.push_back(tensor.value);
  }
  return arguments_.emplace(index, std::move(tensor)).first->second.value;
}

Value Call::Tensor(size_t position, std::string_view name) {
  const uint32_t index = Find(position, name);
  if (index == EntryTree::kNone) {
    return Fail(fmt::format("the argument {} is missing", name));
  }
  if (!dump::IsTensorLeaf(forward_, index)) {
    return Fail(fmt::format("the argument {} is not a tensor", name));
  }
  return TensorAt(index, name);
}

Value Call::OptionalTensor(size_t position, std::string_view name) {
  return IsTensor(position, name) ? Tensor(position, name) : nullptr;
}

std::vector<Value> Call::Tensors(size_t position, std::string_view name) {
  const uint32_t index = Find(position, name);
  if (index == EntryTree::kNone) {
    Fail(fmt::format("the argument {} is missing", name));
    return {};
  }
  if (dump::IsTensorLeaf(forward_, index)) {
    return {TensorAt(index, name)};
  }
  std::vector<Value> tensors;
  if (forward_[index].kind == NodeKind::kList) {
    forward_.ForEachChild(index, [&](uint32_t child) {
      tensors.push_back(dump::IsTensorLeaf(forward_, child)
                            ? TensorAt(child, fmt::format("{}.{}", name, tensors.size()))
                            : Fail(fmt::format("the argument {} holds more than tensors", name)));
    });
  }
  if (tensors.empty()) {
    Fail(fmt::format("the argument {} is not a list of tensors", name));
  }
  return tensors;
}

std::optional<double> Call::NumberAt(uint32_t node) const {
  const uint32_t value = ValueNode(forward_, node);
  if (value == EntryTree::kNone) {
    return std::nullopt;
  }
  switch (forward_[value].kind) {
    case NodeKind::kInt:
    case NodeKind::kFloat:
      return forward_[value].number;
    case NodeKind::kBool:
      return forward_[value].boolean ? 1 : 0;
    default:
      return std::nullopt;
  }
}

double Call::Number(size_t position, std::string_view name, std::optional<double> otherwise) {
  const uint32_t index = Find(position, name);
  if (index != EntryTree::kNone) {
    if (const std::optional<double> number = NumberAt(index)) {
      return *number;
    }
  }
  if (index != EntryTree::kNone && dump::IsTensorLeaf(forward_, index)) {
    const Value tensor = TensorAt(index, name);
    if (tensor != nullptr && tensor->size() == 1) {
      return tensor->value[0];
    }
  }
  if (index != EntryTree::kNone || !otherwise) {
    Fail(fmt::format("the argument {} is {}", name,
                     index == EntryTree::kNone ? "missing" : "no number"));
  }
  return otherwise.value_or(0);
}

int64_t Call::Int(size_t position, std::string_view name, std::optional<int64_t> otherwise) {
  const double number = Number(
      position, name, otherwise ? std::optional(static_cast<double>(*otherwise)) : std::nullopt);
  if (!(std::fabs(number) < kLargestExact) || number != std::floor(number)) {
    Fail(fmt::format("the argument {} is not an integer", name));
    return 0;
  }
  return static_cast<int64_t>(number);
}

bool Call::Bool(size_t position, std::string_view name, bool otherwise) {
  return Number(position, name, otherwise ? 1 : 0) != 0;
}

std::string Call::Text(size_t position, std::string_view name, std::string_view otherwise) {
  const uint32_t index = Find(position, name);
  const uint32_t value = index == EntryTree::kNone ? index : ValueNode(forward_, index);
  return std::string(value == EntryTree::kNone || forward_[value].kind != NodeKind::kText
                         ? otherwise
                         : forward_[value].text);
}

std::vector<int64_t> Call::Ints(size_t position, std::string_view name, bool spread) {
  std::vector<int64_t> numbers;
  const uint32_t index = Find(position, name);
  if (index == EntryTree::kNone) {
    return numbers;
  }
  const auto add = [&](uint32_t node) {
    const uint32_t value = ValueNode(forward_, node);
    const dump::Node& number = forward_[value == EntryTree::kNone ? node : value];
    if (number.kind != NodeKind::kInt) {
      Fail(fmt::format("the argument {} is not a list of integers", name));
      return;
    }
    numbers.push_back(number.integer);
  };
  const uint32_t value = ValueNode(forward_, index);
  if (forward_[index].kind == NodeKind::kList) {
    forward_.ForEachChild(index, add);
  } else if (value != EntryTree::kNone && forward_[value].kind == NodeKind::kList) {
    forward_.ForEachChild(value, add);  // torch.Size
  } else {
    for (size_t at = position; at < (spread ? ArgumentCount() : position + 1); ++at) {
      if (const uint32_t item = Find(at, name); item != EntryTree::kNone) {
        add(item);
      }
    }
  }
  return numbers;
}

bool Call::HasParameters() const {
  const uint32_t parameters = forward_.Find(0, "parameters");
  return parameters != EntryTree::kNone && forward_[parameters].child_count > 0;
}

Value Call::Parameter(std::string_view name) {
  const uint32_t parameters = forward_.Find(0, "parameters");
  const uint32_t index =
      parameters == EntryTree::kNone ? parameters : forward_.Find(parameters, name);
  return index == EntryTree::kNone || !dump::IsTensorLeaf(forward_, index)
             ? nullptr
             : TensorAt(index, fmt::format("parameters.{}", name));
}

std::optional<DType> Call::DTypeOf(const Value& argument) const {
  for (const auto& [index, tensor] : arguments_) {
    if (tensor.value == argument) {
      return tensor.dtype;
    }
  }
  return std::nullopt;
}

std::optional<DType> Call::NarrowArgument() const {
  for (const auto& [index, tensor] : arguments_) {
    if (GetDTypeInfo(tensor.dtype).kind == DTypeKind::kFloat && DTypeSize(tensor.dtype) == 2) {
      return tensor.dtype;
    }
  }
  return std::nullopt;
}

size_t Call::PeerCount() {
  if (!peers_ && !failed()) {
    Result<PeerCalls> peers =
        others_.group ? others_.group() : Result<PeerCalls>(NotFoundError(kNoOtherRanks));
    if (!peers.ok()) {
      Fail(peers.status().message());
      return 0;
    }
    peers_ = *std::move(peers);
  }
  return peers_ ? peers_->trees.size() : 0;
}

size_t Call::PlaceOf(int64_t rank) {
  if (PeerCount() == 0) {
    return 0;
  }
  const auto place = std::find(peers_->ranks.begin(), peers_->ranks.end(), rank);
  if (place == peers_->ranks.end()) {
    Fail(fmt::format("rank {} is none of its group", rank));
    return 0;
  }
  return static_cast<size_t>(place - peers_->ranks.begin());
}

template <typename Reader>
auto Call::OfPeer(size_t peer, const Reader& read) -> decltype(read(*this)) {
  if (peer >= PeerCount()) {
    return {};
  }
  Call other(peers_->trees[peer], peers_->tensors[peer]);
  auto found = read(other);
  loaded_ += *other.loaded();
  if (unreadable_.empty()) {
    unreadable_ = other.unreadable();
  }
  if (other.failed()) {
    Fail(other.problem());
  }
  return found;
}

Value Call::PeerTensor(size_t peer, size_t position, std::string_view name) {
  return OfPeer(peer, [&](Call& other) { return other.Tensor(position, name); });
}

std::vector<Value> Call::PeerTensors(size_t peer, size_t position, std::string_view name) {
  return OfPeer(peer, [&](Call& other) { return other.Tensors(position, name); });
}

std::vector<int64_t> Call::PeerInts(size_t peer, size_t position, std::string_view name) {
  return OfPeer(peer, [&](Call& other) { return other.Ints(position, name); });
}

std::vector<CapturedTensor> Call::Sent() {
  Result<std::vector<SentTensor>> sent =
      others_.sent ? others_.sent() : Result<std::vector<SentTensor>>(NotFoundError(kNoOtherRanks));
  std::vector<CapturedTensor> tensors;
  if (!sent.ok()) {
    Fail(sent.status().message());
    return tensors;
  }
  for (const SentTensor& one : *sent) {
    const Call sender(*one.tree, one.tensors);
    tensors.push_back(sender.Read(*one.tree, one.node, "what was sent"));
    loaded_ += *sender.loaded();
    if (unreadable_.empty()) {
      unreadable_ = sender.unreadable();
    }
    if (tensors.back().value == nullptr) {
      Fail(tensors.back().problem);
    }
  }
  return tensors;
}

Call* Call::Later() {
  if (later_ == nullptr && !failed()) {
    Result<LaterCall> later =
        others_.later ? others_.later()
                      : Result<LaterCall>(NotFoundError("the dump of the next step is needed"));
    if (!later.ok()) {
      Fail(later.status().message());
      return nullptr;
    }
    later_entry_ = *std::move(later);
    later_ = std::make_unique<Call>(later_entry_->tree, later_entry_->tensors);
  }
  return later_.get();
}

void Call::TakeOutputsFromLater(const std::vector<size_t>& positions) {
  Call* const later = Later();
  if (later == nullptr) {
    return;
  }
  std::vector<CapturedTensor> outputs;
  for (const size_t position : positions) {
    const uint32_t list = later->Find(position, "");
    if (list == EntryTree::kNone || later->tree()[list].kind != NodeKind::kList) {
      continue;
    }
    size_t at = 0;
    later->tree().ForEachChild(list, [&](uint32_t child) {
      outputs.push_back(
          later->Read(later->tree(), child, fmt::format("next_step.input.{}.{}", position, at++)));
    });
  }
  loaded_ += *later->loaded();
  if (unreadable_.empty()) {
    unreadable_ = later->unreadable();
  }
  outputs_ = std::move(outputs);
}

std::vector<CapturedTensor> Call::ReadAll(const EntryTree& entry, std::string_view member) {
  std::vector<CapturedTensor> tensors;
  const uint32_t root = entry.Find(0, member);
  if (root == EntryTree::kNone) {
    return tensors;
  }
  uint32_t position = 0;
  const std::function<void(uint32_t, const std::string&)> walk = [&](uint32_t index,
                                                                     const std::string& name) {
    const dump::Node& node = entry[index];
    if (dump::IsTensorLeaf(entry, index)) {
      tensors.push_back(Read(entry, index, name));
      tensors.back().position = position++;
    } else if (node.kind == NodeKind::kList ||
               (node.kind == NodeKind::kObject && ValueNode(entry, index) == EntryTree::kNone)) {
      size_t at = 0;
      entry.ForEachChild(index, [&](uint32_t child) {
        const std::string part =
            node.kind == NodeKind::kList ? std::to_string(at++) : std::string(entry[child].key);
        walk(child, name + "." + part);
      });
    } else {
      ++position;
    }
  };
  walk(root, std::string(member));
  return tensors;
}

const std::vector<CapturedTensor>& Call::outputs() {
  if (!outputs_) {
    outputs_ = ReadAll(forward_, "output");
  }
  return *outputs_;
}

}  // namespace msprobe::reference
