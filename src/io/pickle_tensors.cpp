#include "src/io/pickle_tensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/utf8.h"
#include "src/io/contents.h"
#include "src/io/pickle_value.h"
#include "src/io/torch_rebuild.h"
#include "src/tensor/float_bits.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::io {
namespace {

constexpr size_t kLongestText = 200;
constexpr size_t kLongestKey = 1000;

std::string Shortened(std::string_view text, size_t limit) {
  return base::Shortened(text, limit, "...");
}

std::string ValidText(std::string_view text, size_t limit) {
  std::string shown = Shortened(text, limit);
  if (IsUtf8(shown)) {
    return shown;
  }
  std::string escaped;
  for (char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    escaped += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return escaped;
}

std::string SmallFloatText(DType dtype, uint16_t bits) {
  return base::PythonFloatRepr(static_cast<double>(
      dtype == DType::kFloat16 ? tensor::Float16ToFloat(bits) : tensor::BFloat16ToFloat(bits)));
}

// One element in native order.
std::string ElementText(DType dtype, const std::byte* bytes) {
  switch (dtype) {
    case DType::kFloat64:
      return base::PythonFloatRepr(std::bit_cast<double>(LoadLittle<uint64_t>(bytes)));
    case DType::kFloat32:
      return base::PythonFloatRepr(
          static_cast<double>(std::bit_cast<float>(LoadLittle<uint32_t>(bytes))));
    case DType::kFloat16:
    case DType::kBFloat16:
      return SmallFloatText(dtype, LoadLittle<uint16_t>(bytes));
    case DType::kInt64:
      return std::to_string(LoadLittle<int64_t>(bytes));
    case DType::kInt32:
      return std::to_string(LoadLittle<int32_t>(bytes));
    case DType::kInt16:
      return std::to_string(LoadLittle<int16_t>(bytes));
    case DType::kInt8:
      return std::to_string(LoadLittle<int8_t>(bytes));
    case DType::kUInt64:
      return std::to_string(LoadLittle<uint64_t>(bytes));
    case DType::kUInt32:
      return std::to_string(LoadLittle<uint32_t>(bytes));
    case DType::kUInt16:
      return std::to_string(LoadLittle<uint16_t>(bytes));
    case DType::kUInt8:
      return std::to_string(LoadLittle<uint8_t>(bytes));
    case DType::kBool:
      return std::to_integer<int>(*bytes) != 0 ? "True" : "False";
    default:
      return std::string(DTypeName(dtype));
  }
}

// numpy.core.multiarray.scalar(dtype, bytes).
PickleDescription DescribeNumpyScalar(const Pickle& pickle, std::span<const PickleId> arguments) {
  PickleDescription description{"numpy scalar", ""};
  if (arguments.size() < 2) {
    return description;
  }
  const Result<NumpyDType> type = ReadNumpyDTypeObject(pickle, arguments[0]);
  if (!type.ok()) {
    return description;
  }
  const size_t element_bytes = DTypeSize(type->dtype);
  description.type = fmt::format("numpy.{}", DTypeName(type->dtype));
  if (pickle.kind(arguments[1]) != PickleKind::kBytes ||
      pickle.text(arguments[1]).size() != element_bytes) {
    return description;
  }
  TensorView view;
  view.dtype = type->dtype;
  view.byte_swapped = type->byte_swapped;
  view.data = reinterpret_cast<const std::byte*>(pickle.text(arguments[1]).data());
  view.extent_bytes = element_bytes;
  std::byte element[16];
  tensor::CopyElements(view, 0, 1, element);
  description.text = ElementText(type->dtype, element);
  return description;
}

// A value inside a one-line list: plain values only, others by their type.
std::string ItemText(const Pickle& pickle, PickleId id) {
  const PickleDescription item = DescribePickleValue(pickle, id);
  if (pickle.kind(id) == PickleKind::kText) {
    std::string quoted;
    base::AppendPythonTextRepr(item.text, quoted);
    return quoted;
  }
  return item.text;
}

std::string ItemsText(const Pickle& pickle, PickleId id, char open, char close) {
  const std::span<const PickleId> items = pickle.items(id);
  std::string text(1, open);
  for (size_t i = 0; i < items.size(); ++i) {
    if (text.size() > kLongestText) {
      text += fmt::format(", ... {} items", items.size());
      break;
    }
    text += i > 0 ? ", " : "";
    text += IsPlainPickleValue(pickle, items[i]) ? ItemText(pickle, items[i]) : "...";
  }
  if (open == '(' && items.size() == 1) {
    text += ",";
  }
  return text + close;
}

PickleDescription DescribeObject(const Pickle& pickle, PickleId id) {
  const PickleObject object = pickle.object(id);
  const std::span<const PickleId> arguments = pickle.sequence(object.arguments);
  PickleDescription description{Shortened(pickle.DottedName(id), kLongestText), ""};
  switch (pickle.global(object.callee)) {
    case PickleGlobal::kTorchSize:
      if (!arguments.empty() && !pickle.sequence(arguments[0]).empty()) {
        description.text = ItemsText(pickle, arguments[0], '[', ']');
      } else {
        description.text = "[]";
      }
      break;
    case PickleGlobal::kTorchDevice:
      for (PickleId part : arguments) {
        if (description.text.size() > kLongestText) {
          description.text += "...";
          break;
        }
        description.text += description.text.empty() ? "" : ":";
        description.text +=
            IsPlainPickleValue(pickle, part) ? DescribePickleValue(pickle, part).text : "...";
      }
      break;
    case PickleGlobal::kGetattr:
      if (arguments.size() == 2 && pickle.kind(arguments[1]) == PickleKind::kText) {
        description = {Shortened(pickle.DottedName(arguments[0]), kLongestText),
                       ValidText(pickle.text(arguments[1]), kLongestText)};
      }
      break;
    case PickleGlobal::kComplex:
      description.type = "complex";
      if (arguments.size() == 2 && pickle.kind(arguments[0]) == PickleKind::kFloat &&
          pickle.kind(arguments[1]) == PickleKind::kFloat) {
        const double imaginary = pickle.number(arguments[1]);
        description.text = base::PythonFloatRepr(pickle.number(arguments[0])) +
                           (std::signbit(imaginary) ? "" : "+") + base::PythonFloatRepr(imaginary) +
                           "j";
      }
      break;
    case PickleGlobal::kNumpyScalar:
      return DescribeNumpyScalar(pickle, arguments);
    case PickleGlobal::kBytesIo: {
      const std::span<const PickleId> state = pickle.sequence(object.state);
      if (!state.empty() && pickle.kind(state[0]) == PickleKind::kBytes) {
        description.text = fmt::format("{} bytes", pickle.text(state[0]).size());
      }
      break;
    }
    default:
      break;
  }
  return description;
}

}  // namespace

bool IsPlainPickleValue(const Pickle& pickle, PickleId id) {
  switch (pickle.kind(id)) {
    case PickleKind::kNone:
    case PickleKind::kBool:
    case PickleKind::kInt:
    case PickleKind::kBigInt:
    case PickleKind::kFloat:
    case PickleKind::kText:
    case PickleKind::kBytes:
    case PickleKind::kGlobal:
      return true;
    default:
      return false;
  }
}

bool IsSmallPickleObject(const Pickle& pickle, PickleId id) {
  if (pickle.kind(id) != PickleKind::kObject) {
    return false;
  }
  switch (pickle.global(pickle.object(id).callee)) {
    case PickleGlobal::kTorchSize:
    case PickleGlobal::kTorchDevice:
    case PickleGlobal::kGetattr:
    case PickleGlobal::kComplex:
    case PickleGlobal::kNumpyScalar:
    case PickleGlobal::kNumpyDType:
    case PickleGlobal::kBytesIo:
      return true;
    default:
      return false;
  }
}

PickleDescription DescribePickleValue(const Pickle& pickle, PickleId id) {
  switch (pickle.kind(id)) {
    case PickleKind::kNone:
      return {"None", "None"};
    case PickleKind::kBool:
      return {"bool", pickle.integer(id) != 0 ? "True" : "False"};
    case PickleKind::kInt:
      return {"int", std::to_string(pickle.integer(id))};
    case PickleKind::kBigInt:
      return {"int", Shortened(pickle.IntegerText(id), kLongestText)};
    case PickleKind::kFloat:
      return {"float", base::PythonFloatRepr(pickle.number(id))};
    case PickleKind::kText:
      return {"str", ValidText(pickle.text(id), kLongestText)};
    case PickleKind::kBytes:
      return {"bytes", fmt::format("{} bytes", pickle.text(id).size())};
    case PickleKind::kGlobal:
      return {TorchDTypeOfGlobal(pickle, id) ? "torch.dtype" : "class",
              ValidText(pickle.DottedName(id), kLongestText)};
    case PickleKind::kList:
      return {"list", ItemsText(pickle, id, '[', ']')};
    case PickleKind::kTuple:
      return {"tuple", ItemsText(pickle, id, '(', ')')};
    case PickleKind::kSet:
      return {"set", ItemsText(pickle, id, '{', '}')};
    case PickleKind::kDict:
      return {"dict", fmt::format("{} items", pickle.items(id).size() / 2)};
    case PickleKind::kPersistentId:
      return {"storage", ""};
    case PickleKind::kObject:
      return DescribeObject(pickle, id);
  }
  return {};
}

std::string PickleKeyText(const Pickle& pickle, PickleId key) {
  if (pickle.kind(key) == PickleKind::kText) {
    return ValidText(pickle.text(key), kLongestKey);
  }
  const PickleDescription description = DescribePickleValue(pickle, key);
  return description.text.empty() ? description.type : description.text;
}

namespace {

constexpr uint32_t kMaxDepth = 1000;
constexpr uint8_t kSeen = 1;
constexpr uint8_t kOnPath = 2;
// A value met again costs what its listing costs. A state dict that is stored twice, or settings
// that all layers share, stay far below this; few values may not become millions of names.
constexpr uint64_t kLeastRepeatBudget = 20'000;
constexpr uint64_t kRepeatBudgetPerValue = 32;
constexpr uint64_t kMostRepeatBudget = 2'000'000;
constexpr uint64_t kPathBudgetBytes = uint64_t{64} << 20U;
constexpr size_t kMaxScalars = 10'000;

// "torch.sparse_csr", however the layout is pickled: by name, or through a function that takes it.
std::string_view LayoutText(const Pickle& pickle, PickleId layout) {
  if (pickle.kind(layout) == PickleKind::kObject) {
    const std::span<const PickleId> arguments = pickle.sequence(pickle.object(layout).arguments);
    layout = arguments.empty() ? layout : arguments[0];
  }
  return pickle.kind(layout) == PickleKind::kText || pickle.kind(layout) == PickleKind::kGlobal
             ? pickle.text(layout)
             : std::string_view();
}

// The parts of a sparse tensor of this layout, in the order of PyTorch's arguments.
std::span<const std::string_view> SparseParts(std::string_view layout) {
  static constexpr std::string_view kCoordinates[] = {"indices", "values", "size"};
  static constexpr std::string_view kRows[] = {"crow_indices", "col_indices", "values", "size"};
  static constexpr std::string_view kColumns[] = {"ccol_indices", "row_indices", "values", "size"};
  if (layout.ends_with("csr") || layout.ends_with("bsr")) {
    return kRows;
  }
  if (layout.ends_with("csc") || layout.ends_with("bsc")) {
    return kColumns;
  }
  return kCoordinates;
}

}  // namespace

void WarnAboutGlobals(const Pickle& pickle, std::vector<std::string>& warnings) {
  constexpr size_t kMaxWarnings = 20;
  size_t count = 0;
  for (PickleId id = 0; id < pickle.value_count() && count < kMaxWarnings; ++id) {
    if (pickle.global(id) != PickleGlobal::kSuspicious) {
      continue;
    }
    std::string text =
        fmt::format("suspicious global {} (not executed)", PickleKeyText(pickle, id));
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
      warnings.push_back(std::move(text));
      ++count;
    }
  }
}

PickleLister::PickleLister(const Pickle& pickle, StorageSource& storages,
                           TensorFileContents& contents, const ModuleMembers* members)
    : pickle_(pickle),
      rebuilder_(pickle, storages),
      contents_(contents),
      members_(members),
      marks_(pickle.value_count(), 0),
      path_bytes_left_(kPathBudgetBytes + pickle.end_offset() * 8),
      repeats_left_(
          std::min(kLeastRepeatBudget + kRepeatBudgetPerValue * uint64_t{pickle.value_count()},
                   kMostRepeatBudget)),
      scalars_left_(kMaxScalars) {}

Status PickleLister::Run() {
  MSP_RETURN_IF_ERROR(Visit({pickle_.root(), kNoPickleValue, 0, 0, {}, true}));
  while (!pending_.empty()) {
    const Child child = pending_.back();
    pending_.pop_back();
    EnterPath(child);
    MSP_RETURN_IF_ERROR(Visit(child));
  }
  return {};
}

void PickleLister::EnterPath(const Child& child) {
  while (containers_.size() > child.depth) {
    marks_[containers_.back()] &= static_cast<uint8_t>(~kOnPath);
    containers_.pop_back();
  }
  path_.resize(child.depth - 1);
  if (child.key != kNoPickleValue) {
    path_.push_back(PickleKeyText(pickle_, child.key));
  } else if (!child.name.empty()) {
    path_.emplace_back(child.name);
  } else {
    path_.push_back(std::to_string(child.index));
  }
}

Status PickleLister::Visit(const Child& child) {
  const PickleId id = child.value;
  const PickleKind kind = pickle_.kind(id);
  if (kind == PickleKind::kObject || kind == PickleKind::kPersistentId) {
    NamedTensor tensor;
    if (rebuilder_.Rebuild(id, tensor)) {
      tensor.in_dicts = child.in_dicts;
      tensor.is_attribute = child.is_attribute;
      if (tensor.quantization != nullptr) {
        AddQuantization(*tensor.quantization);
      }
      return AddTensor(std::move(tensor));
    }
  }
  if (IsPlainPickleValue(pickle_, id) || IsSmallPickleObject(pickle_, id)) {
    AddScalar(id);
    return {};
  }
  if (!MayDescend(id, child.depth)) {
    return {};
  }
  containers_.push_back(id);
  marks_[id] |= kSeen | kOnPath;
  const size_t before = pending_.size();
  if (kind == PickleKind::kDict) {
    PushDict(id, child.depth + 1);
  } else if (kind == PickleKind::kObject) {
    PushObject(id, child.depth + 1);
  } else {
    PushItems(id, child.depth + 1);
  }
  if (pending_.size() == before) {
    AddScalar(id);  // empty, or only plain items: one line says it all
    return {};
  }
  const auto first = pending_.begin() + static_cast<std::ptrdiff_t>(before);
  std::for_each(first, pending_.end(), [&child](Child& next) {
    next.in_dicts &= child.in_dicts;
    next.is_attribute |= child.is_attribute;
  });
  if (kind == PickleKind::kObject && members_ != nullptr) {
    MarkAttributes(id, before);
  }
  std::reverse(first, pending_.end());
  return {};
}

// Marks the state of a module, pending from `first` on. Values other than tensors may be modules,
// which are marked in turn.
void PickleLister::MarkAttributes(PickleId object, size_t first) {
  const auto members = members_->find(pickle_.DottedName(object));
  if (members == members_->end()) {
    return;
  }
  for (size_t i = first; i < pending_.size(); ++i) {
    Child& child = pending_[i];
    const bool is_module = pickle_.kind(child.value) == PickleKind::kObject &&
                           members_->contains(pickle_.DottedName(child.value));
    child.is_attribute =
        !is_module && (child.key == kNoPickleValue ||
                       !members->second.contains(PickleKeyText(pickle_, child.key)));
  }
}

bool PickleLister::MayDescend(PickleId id, uint32_t depth) {
  if ((marks_[id] & kOnPath) != 0) {
    return false;  // a value inside itself
  }
  if (depth >= kMaxDepth) {
    WarnOnce(fmt::format("values nested deeper than {} levels are not listed", kMaxDepth));
    return false;
  }
  if ((marks_[id] & kSeen) != 0) {
    const uint64_t cost = uint64_t{depth} + 1 + ListedValues(id);
    if (cost > repeats_left_) {
      WarnOnce("values that occur very often are not listed under all their names");
      return false;
    }
    repeats_left_ -= cost;
  }
  return true;
}

uint64_t PickleLister::ListedValues(PickleId id) const {
  const auto size = [this](PickleId container) {
    return container != kNoPickleValue ? uint64_t{pickle_.items(container).size()} : 0;
  };
  uint64_t count = size(id);
  if (pickle_.kind(id) != PickleKind::kObject) {
    return count;
  }
  const PickleObject object = pickle_.object(id);
  const std::span<const PickleId> arguments = pickle_.sequence(object.arguments);
  count += arguments.size() + size(object.list_items) + size(object.dict_items);
  // The state of a wrapper is one of its arguments.
  for (const PickleId state :
       {object.state, arguments.size() > 3 ? arguments[3] : kNoPickleValue}) {
    count += size(state);
    if (state != kNoPickleValue && pickle_.sequence(state).size() == 2) {
      count += size(pickle_.items(state)[0]) + size(pickle_.items(state)[1]);
    }
  }
  return count;
}

// Nothing for containers of plain items only.
void PickleLister::PushItems(PickleId container, uint32_t depth) {
  const std::span<const PickleId> items = pickle_.items(container);
  if (std::all_of(items.begin(), items.end(),
                  [this](PickleId id) { return IsPlainPickleValue(pickle_, id); })) {
    return;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    pending_.push_back({items[i], kNoPickleValue, static_cast<uint32_t>(i), depth, {}, false});
  }
}

void PickleLister::PushDict(PickleId dict, uint32_t depth) {
  for (const auto& [key, value] : pickle_.UniqueItems(dict)) {
    pending_.push_back({value, key, 0, depth, {}, true});
  }
}

void PickleLister::PushObject(PickleId id, uint32_t depth) {
  const PickleObject object = pickle_.object(id);
  const std::span<const PickleId> arguments = pickle_.sequence(object.arguments);
  if (pickle_.global(object.callee) == PickleGlobal::kRebuildSparse && arguments.size() > 1) {
    const std::span<const std::string_view> names = SparseParts(LayoutText(pickle_, arguments[0]));
    const std::span<const PickleId> parts = pickle_.sequence(arguments[1]);
    for (size_t i = 0; i < std::min(parts.size(), names.size()); ++i) {
      pending_.push_back({parts[i], kNoPickleValue, 0, depth, names[i], false});
    }
    return;
  }
  if (pickle_.global(object.callee) == PickleGlobal::kRebuildFromType && arguments.size() > 3 &&
      pickle_.global(arguments[0]) == PickleGlobal::kRebuildWrapper) {
    PushState(arguments[3], depth);
    return;
  }
  if (object.state != kNoPickleValue) {
    const size_t before = pending_.size();
    PushState(object.state, depth);
    for (size_t i = before; i < pending_.size(); ++i) {
      pending_[i].in_dicts = false;  // attributes
    }
  }
  if (object.dict_items != kNoPickleValue) {
    PushDict(object.dict_items, depth);
  }
  for (const std::span<const PickleId> items :
       {object.list_items != kNoPickleValue ? pickle_.items(object.list_items)
                                            : std::span<const PickleId>(),
        arguments}) {
    for (size_t i = 0; i < items.size(); ++i) {
      pending_.push_back({items[i], kNoPickleValue, static_cast<uint32_t>(i), depth, {}, false});
    }
  }
}

// A dict of attributes, or a pair of two (the second for __slots__), is spread out; any other state
// stays one value.
void PickleLister::PushState(PickleId state, uint32_t depth) {
  if (pickle_.kind(state) == PickleKind::kDict) {
    PushDict(state, depth);
    return;
  }
  const std::span<const PickleId> parts = pickle_.sequence(state);
  const bool pair =
      pickle_.kind(state) == PickleKind::kTuple && parts.size() == 2 &&
      std::all_of(parts.begin(), parts.end(), [this](PickleId part) {
        return pickle_.kind(part) == PickleKind::kDict || pickle_.kind(part) == PickleKind::kNone;
      });
  if (!pair) {
    pending_.push_back({state, kNoPickleValue, 0, depth, "state", false});
    return;
  }
  for (PickleId part : parts) {
    if (pickle_.kind(part) == PickleKind::kDict) {
      PushDict(part, depth);
    }
  }
}

Status PickleLister::ChargePath() {
  uint64_t bytes = sizeof(NamedTensor);
  for (const std::string& element : path_) {
    bytes += sizeof(std::string) + element.size();
  }
  if (bytes > path_bytes_left_) {
    return UnsupportedError("the names of its tensors would fill the memory");
  }
  path_bytes_left_ -= bytes;
  return {};
}

Status PickleLister::AddTensor(NamedTensor tensor) {
  MSP_RETURN_IF_ERROR(ChargePath());
  if (!tensor.status.ok()) {
    tensor.view.data = nullptr;
    tensor.view.extent_bytes = 0;
  }
  tensor.path = path_;
  contents_.tensors.push_back(std::move(tensor));
  return {};
}

void PickleLister::AddScalar(PickleId id) {
  if (scalars_left_ == 0 || !ChargePath().ok()) {
    WarnOnce(fmt::format("only the first {} plain values are listed", contents_.scalars.size()));
    return;
  }
  --scalars_left_;
  PickleDescription description = DescribePickleValue(pickle_, id);
  contents_.scalars.push_back({path_, std::move(description.type), std::move(description.text)});
}

void PickleLister::AddQuantization(const Quantization& quantization) {
  if (scalars_left_ == 0 || !ChargePath().ok()) {
    return;
  }
  --scalars_left_;
  // Tensors that share their scales share the object, too: the range is looked for once.
  const auto [text, is_new] = quantization_texts_.try_emplace(&quantization);
  if (is_new) {
    text->second = QuantizationText(quantization);
  }
  contents_.scalars.push_back({path_, quantization.dtype, text->second});
}

void PickleLister::WarnOnce(std::string_view text) {
  if (std::find(contents_.warnings.begin(), contents_.warnings.end(), text) ==
      contents_.warnings.end()) {
    contents_.warnings.emplace_back(text);
  }
}

}  // namespace msprobe::io
