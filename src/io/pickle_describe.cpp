#include "src/io/pickle_describe.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/utf8.h"
#include "src/io/byte_order.h"
#include "src/io/pickle_text.h"
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

}  // namespace msprobe::io
