#include "src/io/torch_rebuild.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::io {
namespace {

float IntegerAt(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kInt8:
      return static_cast<float>(LoadLittle<int8_t>(element));
    case DType::kUInt8:
      return static_cast<float>(LoadLittle<uint8_t>(element));
    default:
      return static_cast<float>(LoadLittle<int32_t>(element));
  }
}

std::string RangeText(const std::vector<double>& values) {
  if (values.empty()) {
    return "none";
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most);
}

}  // namespace

std::string QuantizationText(const Quantization& quantization) {
  return quantization.axis
             ? fmt::format("{} along axis {}: {}, zero points {}",
                           base::Plural(quantization.scales.size(), "scale"), *quantization.axis,
                           RangeText(quantization.scales), RangeText(quantization.zero_points))
             : fmt::format("scale {}, zero point {}", RangeText(quantization.scales),
                           RangeText(quantization.zero_points));
}

Result<tensor::TensorBuffer> Dequantize(const NamedTensor& tensor, size_t limit_bytes) {
  const Quantization& quantization = *tensor.quantization;
  const TensorView& view = tensor.view;
  const auto count = static_cast<uint64_t>(view.element_count());
  if (count > limit_bytes / sizeof(float)) {
    return UnsupportedError(
        fmt::format("a quantised tensor of {} elements is too large to be "
                    "dequantised in memory",
                    count));
  }
  tensor::TensorBuffer buffer(DType::kFloat32, view.shape);
  std::vector<float> scales(quantization.scales.begin(), quantization.scales.end());
  std::vector<float> zero_points(quantization.zero_points.begin(), quantization.zero_points.end());
  int64_t inner = 1;  // elements that share an index of the axis
  int64_t channels = 1;
  if (quantization.axis) {
    channels = view.shape[*quantization.axis];
    for (size_t axis = *quantization.axis + 1; axis < view.shape.size(); ++axis) {
      inner *= view.shape[axis];
    }
  }
  const size_t element_bytes = DTypeSize(view.dtype);
  std::vector<std::byte> scratch;
  const std::span<std::byte> out = buffer.mutable_bytes();
  tensor::ForEachBlock(
      view, tensor::kCopyBlockElements, scratch,
      [&](std::span<const std::byte> block, size_t first) {
        for (size_t i = 0; i < block.size() / element_bytes; ++i) {
          const auto channel =
              static_cast<size_t>(static_cast<int64_t>(first + i) / inner % channels);
          const float value =
              (IntegerAt(view.dtype, block.data() + i * element_bytes) - zero_points[channel]) *
              scales[channel];
          std::memcpy(out.data() + (first + i) * sizeof(float), &value, sizeof(float));
        }
      });
  return buffer;
}

namespace {

// Parameters around tensors around device tensors: the deepest nesting that occurs.
constexpr int kMaxWrappers = 16;

struct StorageClass {
  std::string_view name;
  DType dtype;
};
// Quantized storages are listed with the integers they hold, so that legacy files can be measured.
constexpr StorageClass kStorageClasses[] = {
    {"FloatStorage", DType::kFloat32},
    {"HalfStorage", DType::kFloat16},
    {"BFloat16Storage", DType::kBFloat16},
    {"DoubleStorage", DType::kFloat64},
    {"LongStorage", DType::kInt64},
    {"IntStorage", DType::kInt32},
    {"ShortStorage", DType::kInt16},
    {"CharStorage", DType::kInt8},
    {"ByteStorage", DType::kUInt8},
    {"BoolStorage", DType::kBool},
    {"ComplexFloatStorage", DType::kComplex64},
    {"ComplexDoubleStorage", DType::kComplex128},
    {"QUInt8Storage", DType::kUInt8},
    {"QInt8Storage", DType::kInt8},
    {"QInt32Storage", DType::kInt32},
    {"QUInt4x2Storage", DType::kUInt8},
    {"QUInt2x4Storage", DType::kUInt8},
};

std::optional<DType> StorageDType(std::string_view global_text) {
  if (!global_text.starts_with("torch")) {
    return std::nullopt;
  }
  const std::string_view name = global_text.substr(global_text.find('\n') + 1);
  for (const StorageClass& known : kStorageClasses) {
    if (known.name == name) {
      return known.dtype;
    }
  }
  return std::nullopt;
}

// Sizes or strides: a tuple, a list, or torch.Size(tuple).
Result<Shape> ReadSizes(const Pickle& pickle, PickleId id, std::string_view what) {
  if (pickle.kind(id) == PickleKind::kObject &&
      pickle.global(pickle.object(id).callee) == PickleGlobal::kTorchSize) {
    const std::span<const PickleId> arguments = pickle.sequence(pickle.object(id).arguments);
    if (!arguments.empty()) {
      id = arguments[0];
    }
  }
  if (pickle.kind(id) != PickleKind::kTuple && pickle.kind(id) != PickleKind::kList) {
    return BadFormatError(fmt::format("the {} of a tensor is not a tuple", what));
  }
  const std::span<const PickleId> items = pickle.items(id);
  if (items.size() > kMaxRank) {
    return UnsupportedError(
        fmt::format("a tensor of rank {} (the limit is {})", items.size(), kMaxRank));
  }
  Shape sizes;
  sizes.reserve(items.size());
  for (PickleId item : items) {
    const std::optional<int64_t> value = pickle.AsInt(item);
    if (!value || *value < 0) {
      return BadFormatError(
          fmt::format("the {} of a tensor holds something other than counts", what));
    }
    sizes.push_back(*value);
  }
  return sizes;
}

// Index of the last element that offset, sizes and strides reach. Sizes are not 0.
Result<int64_t> LastElement(int64_t offset, const Shape& shape, const Shape& strides) {
  int64_t last = offset;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    int64_t step = 0;
    if (!CheckedMultiply(shape[axis] - 1, strides[axis], &step) || !CheckedAdd(last, step, &last)) {
      return BadFormatError("strides of a tensor reach beyond any memory");
    }
  }
  return last;
}

}  // namespace

std::optional<DType> TorchDTypeOfGlobal(const Pickle& pickle, PickleId id) {
  if (pickle.kind(id) != PickleKind::kGlobal || !pickle.text(id).starts_with("torch\n")) {
    return std::nullopt;
  }
  return ParseDType(pickle.text(id).substr(6));
}

Result<StorageReference> ParseStorageReference(const Pickle& pickle, PickleId persistent_id) {
  const std::span<const PickleId> parts = pickle.sequence(pickle.items(persistent_id)[0]);
  if (parts.size() < 5 || !pickle.IsText(parts[0], "storage")) {
    return BadFormatError("a persistent id does not describe a storage");
  }
  StorageReference reference;
  if (pickle.global(parts[1]) == PickleGlobal::kUntypedStorage) {
    reference.untyped = true;
  } else {
    const std::optional<DType> dtype = pickle.kind(parts[1]) == PickleKind::kGlobal
                                           ? StorageDType(pickle.text(parts[1]))
                                           : std::nullopt;
    if (!dtype) {
      return UnsupportedError(
          fmt::format("unknown storage class {}", pickle.DottedName(parts[1]).substr(0, 200)));
    }
    reference.dtype = *dtype;
  }
  const std::optional<int64_t> count = pickle.AsInt(parts[4]);
  if (pickle.kind(parts[2]) != PickleKind::kText || !count || *count < 0) {
    return BadFormatError("a persistent id has no storage key or no number of elements");
  }
  // They are numbers. Each tensor that names a storage looks its key up.
  constexpr size_t kLongestStorageKey = 4096;
  if (pickle.text(parts[2]).size() > kLongestStorageKey) {
    return BadFormatError(fmt::format("a storage key of {} letters", pickle.text(parts[2]).size()));
  }
  reference.key = pickle.text(parts[2]);
  reference.element_count = *count;
  reference.without_data = pickle.IsText(parts[3], "meta");
  if (parts.size() > 5) {
    const std::span<const PickleId> view = pickle.sequence(parts[5]);
    if (view.size() >= 3) {
      const std::optional<int64_t> offset = pickle.AsInt(view[1]);
      const std::optional<int64_t> size = pickle.AsInt(view[2]);
      if (!offset || !size || *offset < 0 || *size < 0) {
        return BadFormatError("a storage view has no valid offset and size");
      }
      reference.is_view = true;
      reference.view_offset = *offset;
      reference.view_size = *size;
    }
  }
  return reference;
}

Result<uint64_t> StorageBytes(const StorageReference& reference) {
  uint64_t bytes = 0;
  if (!CheckedMultiply<uint64_t>(static_cast<uint64_t>(reference.element_count),
                                 DTypeSize(reference.dtype), &bytes) ||
      bytes > static_cast<uint64_t>(INT64_MAX)) {
    return BadFormatError(fmt::format("storage \"{}\" declares {} elements",
                                      reference.key.substr(0, 50), reference.element_count));
  }
  return bytes;
}

bool TensorRebuilder::Rebuild(PickleId id, NamedTensor& tensor) {
  std::optional<bool> requires_grad;
  for (int wrapper = 0; wrapper < kMaxWrappers; ++wrapper) {
    if (pickle_.kind(id) == PickleKind::kPersistentId) {
      tensor.status = RebuildStorage(id, tensor.view);
      tensor.is_array = true;
      return true;
    }
    if (pickle_.kind(id) != PickleKind::kObject) {
      return false;
    }
    const PickleObject object = pickle_.object(id);
    PickleId callee = object.callee;
    std::span<const PickleId> arguments = pickle_.sequence(object.arguments);
    if (pickle_.global(callee) == PickleGlobal::kRebuildFromType) {
      // (function, class, arguments, state): the call it wraps.
      if (arguments.size() < 3) {
        return false;
      }
      callee = arguments[0];
      arguments = pickle_.sequence(arguments[2]);
    }
    const PickleGlobal function = pickle_.global(callee);
    if (function == PickleGlobal::kRebuildWrapper) {
      // DTensor: what this rank holds of it. Other classes are listed with all their parts.
      const std::span<const PickleId> wrapped = pickle_.sequence(object.arguments);
      const PickleId local =
          wrapped.size() > 3 ? FindInState(wrapped[3], "_local_tensor") : kNoPickleValue;
      if (local == kNoPickleValue) {
        return false;
      }
      id = local;
      continue;
    }
    switch (function) {
      case PickleGlobal::kRebuildTensor:
      case PickleGlobal::kRebuildTensorV3:
        tensor.status =
            RebuildStrided(arguments, function == PickleGlobal::kRebuildTensorV3, tensor);
        tensor.requires_grad = requires_grad.value_or(tensor.requires_grad);
        return true;
      case PickleGlobal::kRebuildQuantized:
        tensor.status = RebuildQuantized(arguments, tensor);
        return true;
      case PickleGlobal::kNumpyReconstruct:
        tensor.status = RebuildNumpy(object, tensor.view);
        tensor.is_array = wrapper == 0;
        return true;
      case PickleGlobal::kNumpyFromBuffer:
        tensor.status = RebuildNumpyBuffer(arguments, tensor.view);
        tensor.is_array = wrapper == 0;
        return true;
      case PickleGlobal::kRebuildUnsupported:
        tensor.status = UnsupportedError(fmt::format(
            "{} makes a kind of tensor that cannot be read", pickle_.DottedName(callee)));
        return true;
      case PickleGlobal::kRebuildParameter:
      case PickleGlobal::kRebuildFromNumpy:
      case PickleGlobal::kRebuildFromTensor: {
        if (arguments.empty()) {
          return false;
        }
        const size_t grad_at = function == PickleGlobal::kRebuildParameter ? 1 : 3;
        if (!requires_grad && arguments.size() > grad_at) {
          requires_grad = pickle_.AsInt(arguments[grad_at]).value_or(0) != 0;
        }
        id = arguments[0];
        break;
      }
      default:
        return false;
    }
  }
  return false;
}

Result<StorageReference> TensorRebuilder::StorageOf(PickleId persistent_id) {
  MSP_ASSIGN_OR_RETURN(StorageReference storage, ParseStorageReference(pickle_, persistent_id));
  if (!storage.untyped) {
    const auto [known, is_new] = storage_dtypes_.try_emplace(storage.key, storage.dtype);
    if (!is_new && known->second != storage.dtype) {
      return BadFormatError(fmt::format("storage \"{}\" is one of {} and of {}",
                                        storage.key.substr(0, 50), DTypeName(known->second),
                                        DTypeName(storage.dtype)));
    }
  }
  return storage;
}

Result<std::span<const std::byte>> TensorRebuilder::BytesOf(const StorageReference& storage) {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, storages_.Find(storage));
  if (storages_read_.insert(storage.key).second) {
    storage_bytes_ += bytes.size();
  }
  return bytes;
}

PickleId TensorRebuilder::FindOnce(PickleId dict, std::string_view name) {
  constexpr size_t kRememberAbove = 64;
  if (dict == kNoPickleValue || pickle_.items(dict).size() <= kRememberAbove) {
    return pickle_.Find(dict, name);
  }
  const auto [known, is_new] = found_.try_emplace({dict, name}, kNoPickleValue);
  if (is_new) {
    known->second = pickle_.Find(dict, name);
  }
  return known->second;
}

// An attribute in a dict of them, or in a pair of such dicts (the second for __slots__).
PickleId TensorRebuilder::FindInState(PickleId state, std::string_view name) {
  const std::span<const PickleId> parts = pickle_.sequence(state);
  for (const PickleId part : parts.first(std::min<size_t>(parts.size(), 2))) {
    if (const PickleId found = FindOnce(part, name); found != kNoPickleValue) {
      return found;
    }
  }
  return FindOnce(state, name);
}

bool TensorRebuilder::HasFlag(PickleId metadata, std::string_view name) {
  const PickleId value = FindOnce(metadata, name);
  return value != kNoPickleValue && pickle_.AsInt(value).value_or(0) != 0;
}

// (storage, offset, size, stride [, requires_grad, hooks [, metadata]]); v3 has a dtype before the
// metadata.
Status TensorRebuilder::RebuildStrided(std::span<const PickleId> arguments, bool with_dtype,
                                       NamedTensor& tensor) {
  if (arguments.size() < (with_dtype ? size_t{7} : size_t{4}) ||
      pickle_.kind(arguments[0]) != PickleKind::kPersistentId) {
    return BadFormatError("a tensor is rebuilt from wrong arguments");
  }
  MSP_ASSIGN_OR_RETURN(const StorageReference storage, StorageOf(arguments[0]));
  TensorView& view = tensor.view;
  view.dtype = storage.dtype;
  if (with_dtype) {
    const std::optional<DType> dtype = TorchDTypeOfGlobal(pickle_, arguments[6]);
    if (!dtype) {
      return UnsupportedError(
          fmt::format("unknown element type {}", pickle_.DottedName(arguments[6]).substr(0, 200)));
    }
    view.dtype = *dtype;
  }
  const std::optional<int64_t> offset = pickle_.AsInt(arguments[1]);
  if (!offset || *offset < 0) {
    return BadFormatError("a tensor's storage offset is not a count");
  }
  MSP_ASSIGN_OR_RETURN(Shape shape, ReadSizes(pickle_, arguments[2], "size"));
  const size_t element_bytes = DTypeSize(view.dtype);
  // A shape is a tensor's only when its elements can be counted, also where they cannot be read.
  MSP_RETURN_IF_ERROR(DenseBytes(shape, element_bytes).status());
  view.shape = std::move(shape);
  MSP_ASSIGN_OR_RETURN(view.strides, ReadSizes(pickle_, arguments[3], "stride"));
  if (view.shape.size() != view.strides.size()) {
    return BadFormatError(fmt::format("a tensor has {} sizes but {} strides", view.shape.size(),
                                      view.strides.size()));
  }
  if (arguments.size() > 4) {
    tensor.requires_grad = pickle_.AsInt(arguments[4]).value_or(0) != 0;
  }
  const size_t metadata_at = with_dtype ? 7 : 6;
  if (arguments.size() > metadata_at) {
    view.conjugated = GetDTypeInfo(view.dtype).kind == DTypeKind::kComplex &&
                      HasFlag(arguments[metadata_at], "conj");
    view.negated = HasFlag(arguments[metadata_at], "neg");
  }
  view.byte_swapped = storages_.big_endian && element_bytes > 1;
  if (view.element_count() == 0) {
    return {};
  }
  if (storage.without_data) {
    return UnsupportedError("a tensor on the meta device has no data");
  }
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, BytesOf(storage));
  MSP_ASSIGN_OR_RETURN(const int64_t last, LastElement(*offset, view.shape, view.strides));
  if (static_cast<uint64_t>(last) >= bytes.size() / element_bytes) {
    return BadFormatError(fmt::format(
        "a tensor of shape {} reaches element {} of storage \"{}\" with {} elements",
        ShapeText(view.shape), last, storage.key.substr(0, 50), bytes.size() / element_bytes));
  }
  const auto first_byte = static_cast<size_t>(*offset) * element_bytes;
  view.data = bytes.data() + first_byte;
  view.extent_bytes = (static_cast<size_t>(last) + 1) * element_bytes - first_byte;
  return {};
}

// All elements of a small tensor.
Result<std::vector<double>> TensorRebuilder::ReadNumbers(PickleId id) {
  constexpr int64_t kMostNumbers = 1 << 24;
  // Limits all scales and zero points of a file beyond those that its storages hold: they may
  // repeat one number, and many tensors may name them.
  constexpr uint64_t kFreeScaleBytes = uint64_t{64} << 20U;
  constexpr uint64_t kTimesStorages = 8;
  NamedTensor tensor;
  in_scales_ = true;
  const bool is_tensor = Rebuild(id, tensor);
  in_scales_ = false;
  if (!is_tensor) {
    return BadFormatError("scales and zero points are not tensors");
  }
  MSP_RETURN_IF_ERROR(std::move(tensor.status));
  const int64_t count = tensor.view.element_count();
  if (count > kMostNumbers || tensor.quantization != nullptr) {
    return UnsupportedError(fmt::format("{} scales or zero points of a quantised tensor", count));
  }
  scale_bytes_ += static_cast<uint64_t>(count) * sizeof(double);
  if (scale_bytes_ > kFreeScaleBytes + kTimesStorages * storage_bytes_) {
    return UnsupportedError(
        fmt::format("{} scales or zero points over {} of storage: too many repeated bytes", count,
                    base::FormatBytes(tensor.view.extent_bytes)));
  }
  std::vector<std::byte> stored(tensor.view.size_bytes());
  tensor::CopyElements(tensor.view, 0, count, stored.data());
  std::vector<double> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::byte* element = stored.data() + i * DTypeSize(tensor.view.dtype);
    switch (tensor.view.dtype) {
      case DType::kFloat64:
        numbers[i] = std::bit_cast<double>(LoadLittle<uint64_t>(element));
        break;
      case DType::kFloat32:
        numbers[i] = static_cast<double>(std::bit_cast<float>(LoadLittle<uint32_t>(element)));
        break;
      case DType::kInt64:
        numbers[i] = static_cast<double>(LoadLittle<int64_t>(element));
        break;
      case DType::kInt32:
        numbers[i] = LoadLittle<int32_t>(element);
        break;
      default:
        return UnsupportedError("scales or zero points of an unknown type");
    }
  }
  return numbers;
}

// (storage, offset, size, stride, quantizer, requires_grad, hooks), the quantizer being (scheme,
// scale, zero point) or (scheme, scales, zero points, axis).
Status TensorRebuilder::RebuildQuantized(std::span<const PickleId> arguments, NamedTensor& tensor) {
  const std::span<const PickleId> quantizer =
      arguments.size() > 4 ? pickle_.sequence(arguments[4]) : std::span<const PickleId>();
  if (quantizer.size() < 3 || pickle_.kind(arguments[0]) != PickleKind::kPersistentId) {
    return BadFormatError("a quantised tensor is rebuilt from wrong arguments");
  }
  if (in_scales_) {
    return UnsupportedError("scales or zero points that are quantised themselves");
  }
  const std::span<const PickleId> storage = pickle_.sequence(pickle_.items(arguments[0])[0]);
  const std::string name = storage.size() > 1 ? pickle_.DottedName(storage[1]) : "";
  std::string_view dtype;
  for (const std::string_view known : {"qint8", "quint8", "qint32"}) {
    if (base::AsciiLower(name) == fmt::format("torch.{}storage", known)) {
      dtype = known;
    }
  }
  if (dtype.empty()) {
    return UnsupportedError(fmt::format("quantised elements of {} cannot be read", name));
  }
  const PickleId dense[] = {arguments[0], arguments[1], arguments[2], arguments[3]};
  MSP_RETURN_IF_ERROR(RebuildStrided(dense, false, tensor));
  MSP_ASSIGN_OR_RETURN(const std::shared_ptr<const Quantization> quantization,
                       QuantizationOf(arguments[4], dtype));
  const Shape& shape = tensor.view.shape;
  if (quantization->axis &&
      (*quantization->axis >= shape.size() ||
       quantization->scales.size() != static_cast<size_t>(shape[*quantization->axis]))) {
    return BadFormatError("scales of a quantised tensor do not fit its shape");
  }
  tensor.quantization = quantization;
  return {};
}

// Read once per quantizer, however many tensors name it.
Result<std::shared_ptr<const Quantization>> TensorRebuilder::QuantizationOf(
    PickleId quantizer, std::string_view dtype) {
  const auto known = quantizations_.find({quantizer, dtype});
  if (known != quantizations_.end()) {
    return known->second;
  }
  return quantizations_
      .emplace(std::pair(quantizer, dtype), ReadQuantization(pickle_.sequence(quantizer), dtype))
      .first->second;
}

Result<std::shared_ptr<const Quantization>> TensorRebuilder::ReadQuantization(
    std::span<const PickleId> quantizer, std::string_view dtype) {
  auto quantization = std::make_shared<Quantization>();
  quantization->dtype = dtype;
  const auto number = [&](PickleId id) -> std::optional<double> {
    if (pickle_.kind(id) == PickleKind::kFloat) {
      return pickle_.number(id);
    }
    const std::optional<int64_t> integer = pickle_.AsInt(id);
    return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
  };
  if (const std::optional<double> scale = number(quantizer[1])) {
    const std::optional<double> zero_point = number(quantizer[2]);
    if (!zero_point) {
      return BadFormatError("a quantised tensor has a scale, but no zero point");
    }
    quantization->scales = {*scale};
    quantization->zero_points = {*zero_point};
  } else {
    const int64_t axis = quantizer.size() > 3 ? pickle_.AsInt(quantizer[3]).value_or(-1) : -1;
    MSP_ASSIGN_OR_RETURN(quantization->scales, ReadNumbers(quantizer[1]));
    MSP_ASSIGN_OR_RETURN(quantization->zero_points, ReadNumbers(quantizer[2]));
    if (axis < 0 || quantization->zero_points.size() != quantization->scales.size()) {
      return BadFormatError("scales of a quantised tensor do not fit its shape");
    }
    quantization->axis = static_cast<size_t>(axis);
  }
  return std::shared_ptr<const Quantization>(std::move(quantization));
}

Status TensorRebuilder::RebuildStorage(PickleId persistent_id, TensorView& view) {
  MSP_ASSIGN_OR_RETURN(const StorageReference storage, StorageOf(persistent_id));
  MSP_RETURN_IF_ERROR(StorageBytes(storage).status());
  if (storage.without_data) {
    return UnsupportedError("a storage on the meta device has no data");
  }
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, BytesOf(storage));
  const auto count = static_cast<int64_t>(bytes.size() / DTypeSize(storage.dtype));
  MSP_ASSIGN_OR_RETURN(view, MakeDenseView(storage.dtype, {count}, false, bytes));
  view.byte_swapped = storages_.big_endian && DTypeSize(storage.dtype) > 1;
  return {};
}

Result<NumpyDType> ReadNumpyDTypeObject(const Pickle& pickle, PickleId id) {
  if (pickle.kind(id) != PickleKind::kObject ||
      pickle.global(pickle.object(id).callee) != PickleGlobal::kNumpyDType) {
    return UnsupportedError("a numpy array of an unknown dtype class");
  }
  const PickleObject object = pickle.object(id);
  const std::span<const PickleId> arguments = pickle.sequence(object.arguments);
  if (arguments.empty() || pickle.kind(arguments[0]) != PickleKind::kText) {
    return BadFormatError("a numpy dtype without a type code");
  }
  // The byte order is in the state: (version, order, ...).
  const std::span<const PickleId> state = pickle.sequence(object.state);
  std::string descr = "=";
  if (state.size() > 1 && pickle.kind(state[1]) == PickleKind::kText &&
      !pickle.text(state[1]).empty()) {
    descr = pickle.text(state[1]).substr(0, 1);
  }
  descr += pickle.text(arguments[0]).substr(0, 50);
  return ParseNumpyDType(descr);
}

// State: (version, shape, dtype, is Fortran order, bytes).
Status TensorRebuilder::RebuildNumpy(const PickleObject& object, TensorView& view) {
  const std::span<const PickleId> state = pickle_.sequence(object.state);
  if (state.size() < 5) {
    return BadFormatError("a numpy array without its state");
  }
  MSP_ASSIGN_OR_RETURN(Shape shape, ReadSizes(pickle_, state[1], "shape"));
  MSP_ASSIGN_OR_RETURN(const NumpyDType type, ReadNumpyDTypeObject(pickle_, state[2]));
  if (pickle_.kind(state[4]) != PickleKind::kBytes && pickle_.kind(state[4]) != PickleKind::kText) {
    return BadFormatError("a numpy array without bytes");
  }
  const std::string_view data = pickle_.text(state[4]);
  MSP_ASSIGN_OR_RETURN(
      view, MakeDenseView(type.dtype, std::move(shape), pickle_.AsInt(state[3]).value_or(0) != 0,
                          std::as_bytes(std::span(data))));
  view.byte_swapped = type.byte_swapped;
  return {};
}

// (bytes, dtype, shape, order): how protocol 5 writes arrays.
Status TensorRebuilder::RebuildNumpyBuffer(std::span<const PickleId> arguments, TensorView& view) {
  if (arguments.size() < 4 || pickle_.kind(arguments[0]) != PickleKind::kBytes) {
    return BadFormatError("a numpy array without bytes");
  }
  MSP_ASSIGN_OR_RETURN(const NumpyDType type, ReadNumpyDTypeObject(pickle_, arguments[1]));
  MSP_ASSIGN_OR_RETURN(Shape shape, ReadSizes(pickle_, arguments[2], "shape"));
  const std::string_view data = pickle_.text(arguments[0]);
  MSP_ASSIGN_OR_RETURN(
      view, MakeDenseView(type.dtype, std::move(shape), pickle_.IsText(arguments[3], "F"),
                          std::as_bytes(std::span(data))));
  view.byte_swapped = type.byte_swapped;
  return {};
}

}  // namespace msprobe::io
