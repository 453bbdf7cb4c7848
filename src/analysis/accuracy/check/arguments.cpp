#include "src/analysis/accuracy/check/arguments.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/accuracy/check/api_lists.h"
#include "src/analysis/accuracy/check/tensor_record.h"
#include "src/base/strings.h"
#include "src/kernels/convert.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::accuracy {
namespace {

using json::ValueKind;
using json::ValueNode;
using json::ValueTree;

constexpr size_t kMostListDepth = 10;

// Operators that take other dtypes on a CPU than on an NPU.
struct Conversion {
  std::string_view api;
  DType from;
  DType to;
};
constexpr Conversion kConversions[] = {{"cross_entropy", DType::kInt32, DType::kInt64},
                                       {"histc", DType::kInt64, DType::kFloat32}};

bool IsFloat8DType(DType dtype) {
  return GetDTypeInfo(dtype).kind == DTypeKind::kFloat && DTypeSize(dtype) == 1;
}

// The first 20 bits of a float32, rounded half up (the layout of HF32).
uint32_t RoundedToHf32(uint32_t bits) {
  return static_cast<uint32_t>(((static_cast<int32_t>(bits) >> 11) + 1) >> 1) << 12U;
}

// The names under which a dump tells the file of a tensor.
std::string_view FileOf(const ValueTree& tree, uint32_t place) {
  for (const std::string_view key : {"data_name", "datapath"}) {
    const uint32_t file = tree.Find(place, key);
    if (file != ValueTree::kNone && tree[file].kind == ValueKind::kText) {
      return tree[file].text;
    }
  }
  return {};
}

}  // namespace

Status ArgumentMaker::Positional(const ValueTree& tree, uint32_t list, FrameWriter& out) {
  is_keyword_ = false;
  if (list == ValueTree::kNone || tree[list].kind != ValueKind::kList) {
    return BadFormatError("the record has no list input_args");
  }
  out.Tag(frame_tag::kList);
  out.Count(tree[list].child_count);
  Status status;
  position_ = 0;
  tree.ForEachChild(list, [&](uint32_t item) {
    if (status.ok()) {
      status = Value(tree, item, 0, out);
    }
    ++position_;
  });
  return status;
}

Status ArgumentMaker::Keywords(const ValueTree& tree, uint32_t dict, FrameWriter& out) {
  is_keyword_ = true;
  out.Tag(frame_tag::kDict);
  if (dict == ValueTree::kNone) {
    out.Count(0);
    return {};
  }
  if (tree[dict].kind != ValueKind::kObject) {
    return BadFormatError("input_kwargs of the record is no object");
  }
  out.Count(tree[dict].child_count);
  Status status;
  tree.ForEachChild(dict, [&](uint32_t item) {
    if (status.ok()) {
      out.Text(tree[item].key);
      in_keyword_list_ = tree[item].kind == ValueKind::kList;
      status = Value(tree, item, 0, out);
    }
  });
  in_keyword_list_ = false;
  return status;
}

Status ArgumentMaker::Gradient(const ValueTree& tree, uint32_t place, FrameWriter& out) {
  is_gradient_ = true;
  return Value(tree, place, 0, out);
}

Status ArgumentMaker::Read(const ValueTree& tree, uint32_t list, std::vector<Leaf>& out) {
  if (list == ValueTree::kNone || tree[list].kind != ValueKind::kList) {
    return BadFormatError("the record has no list of outputs");
  }
  Status status;
  // Lists within the list are taken as one.
  for (uint32_t item = list + 1; item < tree[list].end && status.ok();) {
    const bool is_list = tree[item].kind == ValueKind::kList;
    if (IsTensorRecord(tree, item)) {
      const std::string_view name = FileOf(tree, item);
      if (name.empty()) {
        return NotFoundError("the record of an output names no file");
      }
      Result<Leaf> leaf = Load(name);
      if (!leaf.ok()) {
        return std::move(leaf).status();
      }
      out.push_back(*std::move(leaf));
    } else if (!is_list) {
      out.emplace_back();
    }
    item = is_list ? item + 1 : tree[item].end;
  }
  return status;
}

Status ArgumentMaker::Value(const ValueTree& tree, uint32_t place, size_t depth, FrameWriter& out) {
  if (depth > kMostListDepth) {
    return BadFormatError(fmt::format("lists are nested deeper than {} levels", kMostListDepth));
  }
  const ValueNode& node = tree[place];
  if (node.kind == ValueKind::kObject) {
    return Object(tree, place, depth, out);
  }
  if (node.kind == ValueKind::kList) {
    out.Tag(frame_tag::kList);
    out.Count(node.child_count);
    Status status;
    tree.ForEachChild(place, [&](uint32_t item) {
      if (status.ok()) {
        status = Value(tree, item, depth + 1, out);
      }
    });
    return status;
  }
  leaves_.emplace_back();
  return Scalar(node, out);
}

Status ArgumentMaker::Scalar(const ValueNode& node, FrameWriter& out) {
  switch (node.kind) {
    case ValueKind::kNull:
      out.Tag(frame_tag::kNone);
      break;
    case ValueKind::kBool:
      out.Tag(node.boolean ? frame_tag::kTrue : frame_tag::kFalse);
      break;
    case ValueKind::kInt:
      out.Tag(frame_tag::kInteger);
      out.Integer(node.integer);
      break;
    case ValueKind::kFloat:
      // An integer beyond 64 bits stands here with its digits.
      if (!node.text.empty() && node.text.find_first_not_of("-0123456789") == node.text.npos) {
        out.Tag(frame_tag::kBigInteger);
        out.Text(node.text);
      } else {
        out.Tag(frame_tag::kFloat);
        out.Float(node.number);
      }
      break;
    case ValueKind::kText:
      out.Tag(frame_tag::kText);
      out.Text(node.text);
      break;
    default:
      return BadFormatError("a value of the record is no plain one");
  }
  return {};
}

Status ArgumentMaker::Object(const ValueTree& tree, uint32_t place, size_t depth,
                             FrameWriter& out) {
  if (IsTensorRecord(tree, place)) {
    return Tensor(tree, place, out);
  }
  const uint32_t type_place = tree.Find(place, "type");
  const uint32_t value = tree.Find(place, "value");
  if (type_place == ValueTree::kNone || tree[type_place].kind != ValueKind::kText) {
    out.Tag(frame_tag::kDict);
    out.Count(tree[place].child_count);
    Status status;
    tree.ForEachChild(place, [&](uint32_t item) {
      if (status.ok()) {
        out.Text(tree[item].key);
        status = Value(tree, item, depth + 1, out);
      }
    });
    return status;
  }
  const std::string_view type = tree[type_place].text;
  leaves_.emplace_back();
  if (type == "torch.device") {
    out.Tag(frame_tag::kDevice);
    return {};
  }
  if (type == "ellipsis") {
    out.Tag(frame_tag::kEllipsis);
    return {};
  }
  if (IsConstantType(type)) {
    return Constant(tree, type, value == ValueTree::kNone ? tree.Find(place, "format") : value,
                    out);
  }
  constexpr std::string_view kNumpy = "numpy.";
  const bool is_numpy =
      type.starts_with(kNumpy) && IsNumpyScalar(type.substr(std::min(type.size(), kNumpy.size())));
  const bool is_sizes = type == "torch.Size" || type == "slice";
  if (!is_numpy && !is_sizes && !IsPlainType(type)) {
    return UnsupportedError(
        fmt::format("an argument of type {} cannot be made again", base::Printable(type)));
  }
  if (value == ValueTree::kNone) {
    return BadFormatError(fmt::format("a record of type {} has no value", base::Printable(type)));
  }
  const ValueNode& node = tree[value];
  const auto invalid = [&] {
    return BadFormatError(fmt::format("a record of type {} has no valid value", type));
  };
  if (is_sizes) {
    if (node.kind != ValueKind::kList || (type == "slice" && node.child_count != 3)) {
      return invalid();
    }
    out.Tag(type == "slice" ? frame_tag::kSlice : frame_tag::kSize);
    if (type == "torch.Size") {
      out.Count(node.child_count);
    }
    Status status;
    tree.ForEachChild(value, [&](uint32_t item) {
      if (status.ok()) {
        status = Scalar(tree[item], out);
      }
    });
    return status;
  }
  if (is_numpy) {
    if (node.kind != ValueKind::kInt && node.kind != ValueKind::kFloat &&
        node.kind != ValueKind::kBool) {
      return invalid();
    }
    out.Tag(frame_tag::kNumpy);
    out.Text(type.substr(kNumpy.size()));
  }
  if (node.kind == ValueKind::kList) {
    return Value(tree, value, depth, out);
  }
  return Scalar(node, out);
}

Status ArgumentMaker::Constant(const ValueTree& tree, std::string_view type, uint32_t value,
                               FrameWriter& out) {
  const bool is_text = value != ValueTree::kNone && tree[value].kind == ValueKind::kText;
  // A memory format without its name is a default.
  if (type == "torch.memory_format" ? !is_text : is_text && tree[value].text == "None") {
    out.Tag(frame_tag::kNone);
    return {};
  }
  const std::optional<std::string> name =
      is_text ? ConstantName(type, tree[value].text) : std::nullopt;
  if (!name) {
    return UnsupportedError(fmt::format("an argument is no {}: {}", type,
                                        is_text ? base::Printable(tree[value].text) : "no text"));
  }
  out.Tag(frame_tag::kDType);
  out.Text(type == "mindspore.dtype" ? "torch.dtype" : type);
  out.Text(*name);
  return {};
}

Status ArgumentMaker::Tensor(const ValueTree& tree, uint32_t place, FrameWriter& out) {
  MSP_ASSIGN_OR_RETURN(TensorRecord record, ReadTensorRecord(tree, place));
  const bool flagged = is_gradient_ || options_.for_mindspore || record.requires_grad;
  Leaf leaf;
  if (options_.tensor_folder.empty() && options_.source == nullptr) {
    MSP_ASSIGN_OR_RETURN(leaf, Draw(std::move(record)));
  } else {
    const std::string_view name = FileOf(tree, place);
    if (name.empty()) {
      return NotFoundError("the record of a tensor names no file");
    }
    MSP_ASSIGN_OR_RETURN(leaf, Load(name));
  }
  if (!is_gradient_ && !options_.for_mindspore) {
    MSP_ASSIGN_OR_RETURN(leaf, Converted(leaf));
  }
  if (options_.hf32 && leaf.dtype == DType::kFloat32 && !is_gradient_ && !is_keyword_) {
    std::byte* data = memory_.at(leaf.offset);
    for (int64_t i = 0; i < ElementCount(leaf.shape); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, data + i * 4, 4);
      bits = RoundedToHf32(bits);
      std::memcpy(data + i * 4, &bits, 4);
    }
  }
  if (leaf.dtype == DType::kFloat16 || leaf.dtype == DType::kBFloat16 ||
      leaf.dtype == DType::kFloat32) {
    float_dtypes_.insert(leaf.dtype);
  }
  has_float8_ = has_float8_ || IsFloat8DType(leaf.dtype);
  const bool requires_grad = flagged && options_.with_gradients && !in_keyword_list_;
  out.Tensor(DTypeName(leaf.dtype), leaf.shape, leaf.offset, requires_grad);
  leaves_.push_back(std::move(leaf));
  return {};
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Draw(TensorRecord record) {
  if (options_.for_mindspore) {
    Leaf drawn;
    drawn.is_tensor = true;
    drawn.dtype = record.dtype.value_or(DType::kFloat32);
    drawn.shape = record.shape;
    MSP_ASSIGN_OR_RETURN(
        drawn.offset,
        memory_.Take(static_cast<uint64_t>(ElementCount(drawn.shape)) * DTypeSize(drawn.dtype)));
    MSP_RETURN_IF_ERROR(DrawUniformTensor(record, memory_.at(drawn.offset)));
    return drawn;
  }
  const bool is_first = position_ == 0 && !is_keyword_ && !is_gradient_;
  if (api_ == "cross_entropy" && position_ == 1 && !is_keyword_ && !is_gradient_ && record.least &&
      record.least->number <= 0) {
    record.least = RecordedNumber{true, 0, 0};  // classes: -100 means that one is ignored
  }
  if (api_ == "histc" && is_first && record.dtype &&
      (record.dtype == DType::kInt8 || record.dtype == DType::kInt32 ||
       record.dtype == DType::kInt64)) {
    record.dtype = DType::kFloat32;
  }
  Leaf leaf;
  leaf.is_tensor = true;
  leaf.dtype = record.dtype.value_or(DType::kFloat32);
  leaf.shape = record.shape;
  MSP_ASSIGN_OR_RETURN(leaf.offset, memory_.Take(static_cast<uint64_t>(ElementCount(record.shape)) *
                                                 DTypeSize(leaf.dtype)));
  MSP_RETURN_IF_ERROR(DrawTensor(record, generator_, memory_.at(leaf.offset)));
  return leaf;
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Load(std::string_view name) {
  if (options_.source != nullptr) {
    MSP_ASSIGN_OR_RETURN(const TensorView view, (*options_.source)(name));
    return Copied(view);
  }
  // The dump says names, not paths.
  const std::filesystem::path path =
      options_.tensor_folder / std::filesystem::path(name).filename();
  if (path.extension() != ".pt" && path.extension() != ".npy") {
    return UnsupportedError(
        fmt::format("{} is neither .pt nor .npy", base::Printable(path.filename().string())));
  }
  MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(path));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  return Copied(tensor->view);
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Copied(const TensorView& view) {
  Leaf leaf;
  leaf.is_tensor = true;
  leaf.dtype = view.dtype;
  leaf.shape = view.shape;
  MSP_ASSIGN_OR_RETURN(leaf.offset, memory_.Take(view.size_bytes()));
  tensor::CopyElements(view, 0, view.element_count(), memory_.at(leaf.offset));
  return leaf;
}

Result<ArgumentMaker::Leaf> ArgumentMaker::Converted(const Leaf& leaf) {
  for (const Conversion& conversion : kConversions) {
    if (api_ != conversion.api || leaf.dtype != conversion.from) {
      continue;
    }
    Leaf converted = leaf;
    converted.dtype = conversion.to;
    const auto count = static_cast<size_t>(ElementCount(leaf.shape));
    MSP_ASSIGN_OR_RETURN(converted.offset, memory_.Take(count * DTypeSize(conversion.to)));
    const std::byte* from = memory_.at(leaf.offset);
    std::byte* to = memory_.at(converted.offset);
    for (size_t i = 0; i < count; ++i) {
      if (conversion.from == DType::kInt32) {
        int32_t narrow = 0;
        std::memcpy(&narrow, from + i * 4, 4);
        const int64_t wide = narrow;
        std::memcpy(to + i * 8, &wide, 8);
      } else {
        int64_t whole = 0;
        std::memcpy(&whole, from + i * 8, 8);
        const auto single = static_cast<float>(whole);
        std::memcpy(to + i * 4, &single, 4);
      }
    }
    return converted;
  }
  return leaf;
}

}  // namespace msprobe::analysis::accuracy
