#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/strings.h"
#include "src/checkpoint/common/readers.h"
#include "src/io/coded/grouped_codes.h"
#include "src/io/contents.h"
#include "src/json/config.h"
#include "src/kernels/convert.h"

namespace msprobe::checkpoint {
namespace {

using io::CodeKind;
using io::CodeLayout;
using io::CodePacking;
using json::Json;

int64_t IntMember(const Json& object, std::string_view key) {
  const Json* value = json::Find(object, key);
  return value != nullptr && value->is_number_integer() ? json::IntOf(*value) : 0;
}

std::string TextMember(const Json& object, std::string_view key) {
  const Json* value = json::Find(object, key);
  return value != nullptr && value->is_string() ? std::string(json::TextOf(*value)) : "";
}

void ReadBlock(const Json* block, QuantisationFacts& facts) {
  if (block == nullptr || !block->is_array() || block->size() != 2 ||
      !(*block)[0].is_number_integer() || !(*block)[1].is_number_integer()) {
    return;
  }
  facts.block_rows = json::IntOf((*block)[0]);
  facts.block_columns = json::IntOf((*block)[1]);
}

// `config_groups` of compressed-tensors and modelopt: the weights of the first group.
void ReadGroups(const Json& config, QuantisationFacts& facts) {
  const Json* groups = json::Find(config, "config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return;
  }
  const Json& group = *groups->begin();
  const Json* weights = group.is_object() ? json::Find(group, "weights") : nullptr;
  if (weights == nullptr || !weights->is_object()) {
    return;
  }
  facts.bits = IntMember(*weights, "num_bits");
  facts.group = std::max<int64_t>(IntMember(*weights, "group_size"), 0);
  ReadBlock(json::Find(*weights, "block_structure"), facts);
  const Json* symmetric = json::Find(*weights, "symmetric");
  facts.symmetric = symmetric == nullptr || !symmetric->is_boolean() || json::BoolOf(*symmetric);
}

}  // namespace

QuantisationFacts ReadQuantisation(const Json& config) {
  QuantisationFacts facts;
  if (!config.is_object()) {
    return facts;
  }
  if (const Json* inner = json::Find(config, "quantization");
      inner != nullptr && inner->is_object()) {
    facts = ReadQuantisation(*inner);
    facts.method = "modelopt";
    return facts;
  }
  facts.method = TextMember(config, "quant_method");
  facts.checkpoint_format = TextMember(config, "checkpoint_format");
  facts.bits = IntMember(config, "bits");
  facts.group = std::max<int64_t>(IntMember(config, "group_size"), 0);
  facts.power_of_two_scales = TextMember(config, "scale_fmt") == "ue8m0";
  ReadBlock(json::Find(config, "weight_block_size"), facts);
  ReadGroups(config, facts);
  return facts;
}

namespace {

struct Side {
  const Parameter* parameter = nullptr;
  TensorView view;
};

// How scales lie over rows and columns.
struct Grouping {
  int64_t rows = 1;     // of a group
  int64_t columns = 1;  // of a group
  int64_t scale_rows = 1;
  int64_t scale_columns = 1;
  bool contradicts = false;  // what the config says
};

int64_t Ceiling(int64_t count, int64_t size) { return (count + size - 1) / size; }

// The size of a group, of which `groups` cover `count`; 0 where there is none.
int64_t GroupSize(int64_t count, int64_t groups) {
  if (groups == count) {
    return 1;
  }
  if (groups == 1) {
    return count;
  }
  for (const int64_t size : {128, 64, 32, 256, 512, 16, 1024}) {
    if (Ceiling(count, size) == groups) {
      return size;
    }
  }
  return groups > 0 && count % groups == 0 ? count / groups : 0;
}

// The sizes of an axis of length one left out at the end; "[R]" for "[R, 1]".
Shape Squeezed(const Shape& shape) {
  Shape result;
  for (const int64_t size : shape) {
    if (size != 1) {
      result.push_back(size);
    }
  }
  return result;
}

// By the block of the config where it fits, otherwise by the shapes alone.
std::optional<Grouping> FindGrouping(int64_t rows, int64_t columns, int64_t scale_rows,
                                     int64_t scale_columns, int64_t block_rows,
                                     int64_t block_columns) {
  Grouping grouping;
  grouping.scale_rows = scale_rows;
  grouping.scale_columns = scale_columns;
  if (block_rows > 0 && block_columns > 0 && Ceiling(rows, block_rows) == scale_rows &&
      Ceiling(columns, block_columns) == scale_columns) {
    grouping.rows = block_rows;
    grouping.columns = block_columns;
    return grouping;
  }
  constexpr int64_t kUsual = 128;
  if (block_rows == 0 && block_columns == 0 && scale_rows != rows &&
      Ceiling(rows, kUsual) == scale_rows && Ceiling(columns, kUsual) == scale_columns &&
      scale_rows * scale_columns > 1) {
    grouping.rows = kUsual;
    grouping.columns = kUsual;
    return grouping;
  }
  grouping.rows = GroupSize(rows, scale_rows);
  grouping.columns = GroupSize(columns, scale_columns);
  if (grouping.rows == 0 || grouping.columns == 0) {
    return std::nullopt;
  }
  grouping.contradicts = block_rows > 0 && block_columns > 0 && scale_rows * scale_columns > 1;
  return grouping;
}

Status Misfit(std::string_view what, const Shape& codes, const Shape& other) {
  return BadFormatError(fmt::format("its codes of shape {} and {} of shape {} do not fit",
                                    ShapeText(codes), what, ShapeText(other)));
}

bool IsFloat8(DType dtype) {
  return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2 ||
         dtype == DType::kFloat8E4M3FNUZ;
}

bool IsScaleDType(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kFloat64;
}

class Folder {
 public:
  explicit Folder(Checkpoint& checkpoint)
      : facts_(checkpoint.quantisation), checkpoint_(checkpoint) {
    for (size_t i = 0; i < checkpoint.parameters.size(); ++i) {
      places_.emplace(checkpoint.parameters[i].name, i);
    }
    consumed_.resize(checkpoint.parameters.size(), false);
  }

  void Run() {
    std::vector<std::pair<size_t, Parameter>> made;
    for (size_t i = 0; i < checkpoint_.parameters.size(); ++i) {
      if (std::optional<Parameter> folded = Fold(checkpoint_.parameters[i])) {
        consumed_[i] = true;
        made.emplace_back(i, *std::move(folded));
      }
    }
    if (made.empty()) {
      return;
    }
    std::vector<Parameter> all;
    size_t next = 0;
    for (size_t i = 0; i < checkpoint_.parameters.size(); ++i) {
      if (next < made.size() && made[next].first == i) {
        all.push_back(std::move(made[next++].second));
      } else if (!consumed_[i] && !IsOfActivations(checkpoint_.parameters[i])) {
        all.push_back(std::move(checkpoint_.parameters[i]));
      }
    }
    checkpoint_.parameters = std::move(all);
  }

 private:
  // Scales of activations and caches belong to no weight.
  static bool IsOfActivations(const Parameter& parameter) {
    constexpr std::string_view kNames[] = {
        ".input_scale", ".input_global_scale", ".k_scale",         ".v_scale",
        ".q_scale",     ".output_scale",       ".weight_format",   ".prob_scale",
        ".kv_scale",    ".input_scale_ub",     ".activation_scale"};
    return std::any_of(std::begin(kNames), std::end(kNames),
                       [&](std::string_view end) { return parameter.name.ends_with(end); });
  }

  const Parameter* Find(const std::string& name) const {
    const auto place = places_.find(name);
    return place == places_.end() ? nullptr : &checkpoint_.parameters[place->second];
  }

  // A part that is whole and lies in one place. One that is not makes the status.
  static const TensorView* ViewOf(const Parameter& part, Status& status) {
    if (!part.status.ok()) {
      status = Status(part.status).AddContext(part.name);
    } else if (part.pieces.size() != 1 || !part.pieces.front().view.is_plain() ||
               part.pieces.front().coded != nullptr) {
      status =
          UnsupportedError(fmt::format("{}: of quantised parameters the parts must lie in one "
                                       "piece each",
                                       part.name));
    } else {
      return &part.pieces.front().view;
    }
    return nullptr;
  }

  const TensorView* Take(const std::string& name, Status& status) {
    const auto place = places_.find(name);
    if (place == places_.end()) {
      return nullptr;
    }
    consumed_[place->second] = true;
    return ViewOf(checkpoint_.parameters[place->second], status);
  }

  std::optional<Parameter> Fold(const Parameter& main) {
    const std::string& name = main.name;
    if (name.ends_with(".qweight")) {
      return FoldPackedWords(main, name.substr(0, name.size() - 8));
    }
    if (name.ends_with("weight_packed")) {
      return FoldCompressed(main, name.substr(0, name.size() - 7));
    }
    if (name.ends_with("_blocks") && Find(name.substr(0, name.size() - 7) + "_scales") != nullptr) {
      return FoldBlocks(main, name.substr(0, name.size() - 7));
    }
    if (Find(name + ".absmax") != nullptr) {
      return FoldBitsAndBytes(main);
    }
    if (main.dtype == DType::kInt8 && name.ends_with(".weight")) {
      const std::string scales = name.substr(0, name.size() - 6) + "SCB";
      if (Find(scales) != nullptr) {
        return FoldScaled(main, scales, 1.0 / 127);
      }
    }
    if (!IsFloat8(main.dtype) && main.dtype != DType::kInt8 && main.dtype != DType::kUInt8) {
      return std::nullopt;
    }
    for (const std::string_view end : {"_scale_inv", "_scale"}) {
      if (Find(name + std::string(end)) != nullptr) {
        return FoldScaled(main, name + std::string(end), 1);
      }
    }
    if (name.ends_with(".weight")) {
      const std::string scales = name.substr(0, name.size() - 6) + "scale";
      if (Find(scales) != nullptr) {
        return FoldScaled(main, scales, 1);
      }
    }
    return std::nullopt;
  }

  // What every kind of parameter ends with.
  static Parameter Finish(std::string name, Result<std::shared_ptr<io::CodedTensor>> tensor,
                          const Shape& shape) {
    Parameter parameter;
    if (tensor.ok()) {
      parameter = MakeParameter(std::move(name), *tensor);
      if (!(*tensor)->contradiction_text().empty()) {
        parameter.notes.push_back((*tensor)->contradiction_text());
      }
      return parameter;
    }
    parameter.name = std::move(name);
    parameter.shape = shape;
    parameter.status = std::move(tensor).status();
    return parameter;
  }

  // The layout's scales of a matrix, or of several stacked ones.
  Result<Grouping> SetScales(const TensorView& scales, bool is_exponent, const Shape& shape,
                             CodeLayout& layout, int64_t block_rows, int64_t block_columns) {
    const int64_t columns = shape.empty() ? 1 : shape.back();
    const int64_t matrix_rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    const int64_t count = ElementCount(shape);
    const int64_t rows = columns == 0 ? 0 : count / columns;
    const int64_t matrices = matrix_rows == 0 ? 1 : std::max<int64_t>(rows / matrix_rows, 1);
    layout.columns = columns;
    layout.scales.bytes = scales.bytes();
    layout.scales.dtype = scales.dtype;
    layout.scales.is_exponent = is_exponent;
    const int64_t scale_count = scales.element_count();
    Grouping grouping;
    if (scale_count == 1) {
      grouping.rows = std::max<int64_t>(rows, 1);
      grouping.columns = std::max<int64_t>(columns, 1);
      layout.group_rows = grouping.rows;
      layout.group_columns = grouping.columns;
      return grouping;
    }
    int64_t scale_columns = scales.shape.size() < 2 ? 1 : scales.shape.back();
    Shape squeezed = Squeezed(scales.shape);
    if (scales.shape.size() == 4 && shape.size() == 2 && scales.shape[1] == 1 &&
        scales.shape[3] == 1) {
      scale_columns = scales.shape[2];  // [R / 128, 1, C / 128, 1], of few rows [1, 1, C / 128, 1]
    } else if (scales.shape.size() > shape.size() && squeezed.size() == 2) {
      scale_columns = squeezed.back();
    }
    if (scale_columns <= 0 || scale_count % (scale_columns * matrices) != 0) {
      return Misfit("scales", shape, scales.shape);
    }
    const int64_t scale_rows = scale_count / scale_columns / matrices;
    std::optional<Grouping> found =
        FindGrouping(matrix_rows, columns, scale_rows, scale_columns, block_rows, block_columns);
    if (!found) {
      return Misfit("scales", shape, scales.shape);
    }
    layout.group_rows = found->rows;
    layout.group_columns = found->columns;
    layout.scales.row_stride = scale_columns;
    layout.scales.column_stride = scale_columns == 1 ? 0 : 1;
    if (scale_columns == 1) {
      layout.group_columns = found->columns = columns;
    }
    if (matrices > 1) {
      layout.matrix_rows = matrix_rows;
      layout.matrix_scale_rows = scale_rows;
    }
    return *found;
  }

  static void NoteContradiction(const Grouping& grouping, int64_t block_rows, int64_t block_columns,
                                const Shape& codes, const Shape& scales, io::CodedTensor& tensor) {
    if (grouping.contradicts) {
      tensor.Contradict(
          "block_size",
          fmt::format("the config says blocks of {}x{}, but codes of shape {} with scales of shape "
                      "{} make blocks of {}x{}: read so",
                      block_rows, block_columns, ShapeText(codes), ShapeText(scales), grouping.rows,
                      grouping.columns));
    }
  }

  // fp8, int8, nvfp4 and mxfp8 of many writers: codes and one tensor of scales.
  Parameter FoldScaled(const Parameter& main, const std::string& scale_name, double factor) {
    Status status;
    const TensorView* codes = ViewOf(main, status);
    const Parameter* scale_parameter = Find(scale_name);
    const TensorView* scales = Take(scale_name, status);
    std::string stem = main.name;
    const TensorView* second = Take(stem + "_scale_2", status);
    const TensorView* zero = Take(stem + "_zero_point", status);
    (void)Take(stem + "_shape", status);
    if (codes == nullptr || scales == nullptr) {
      return Finish(main.name, status, main.shape);
    }
    const bool is_exponent =
        scale_parameter->raw_dtype == "F8_E8M0" || scales->dtype == DType::kUInt8;
    if (!is_exponent && !IsScaleDType(scales->dtype) && !IsFloat8(scales->dtype)) {
      return Finish(main.name,
                    BadFormatError(fmt::format("{}: scales cannot be {}", scale_name,
                                               DTypeName(scales->dtype))),
                    main.shape);
    }
    CodeLayout layout;
    layout.codes = codes->bytes();
    layout.shape = codes->shape;
    layout.factor = factor;
    std::string element;
    const bool is_packed = codes->dtype == DType::kUInt8;
    if (is_packed) {
      if (layout.shape.empty()) {
        return Finish(main.name, Misfit("scales", codes->shape, scales->shape), main.shape);
      }
      layout.shape.back() *= 2;
      layout.kind = CodeKind::kFloat4E2M1;
      layout.bits = 4;
      layout.packing = CodePacking::kLowNibbleFirst;
      element = is_exponent ? "mxfp4" : "nvfp4";
    } else if (codes->dtype == DType::kInt8) {
      layout.kind = CodeKind::kSigned;
      element = "int8";
    } else {
      layout.kind = codes->dtype == DType::kFloat8E5M2       ? CodeKind::kFloat8E5M2
                    : codes->dtype == DType::kFloat8E4M3FNUZ ? CodeKind::kFloat8E4M3Fnuz
                                                             : CodeKind::kFloat8E4M3;
      element = io::ShortDTypeName(codes->dtype);
    }
    layout.power_of_two_scales =
        is_exponent || facts_.power_of_two_scales || ArePowersOfTwo(*scales);
    if (second != nullptr) {
      Status scalar = MultiplyBy(*second, false, layout);
      if (!scalar.ok()) {
        return Finish(main.name, scalar, main.shape);
      }
    }
    const int64_t block_rows = facts_.block_rows;
    const int64_t block_columns = facts_.block_columns;
    const Result<Grouping> grouping =
        SetScales(*scales, is_exponent, layout.shape, layout, is_packed ? 0 : block_rows,
                  is_packed ? 0 : block_columns);
    if (!grouping.ok()) {
      return Finish(main.name, grouping.status(), main.shape);
    }
    const int64_t matrix_rows = layout.shape.size() < 2 ? 1 : layout.shape[layout.shape.size() - 2];
    std::string text =
        io::GroupText(layout.group_rows, layout.group_columns, matrix_rows, layout.columns);
    const bool is_mx8 =
        is_exponent && !is_packed && layout.group_rows == 1 && layout.group_columns == 32;
    std::string format = is_packed ? element : is_mx8 ? "mxfp8" : element + " " + text;
    if (is_packed && text != (is_exponent ? "group 32" : "group 16")) {
      format += " " + text;
    }
    if (layout.power_of_two_scales && !is_packed && !is_mx8) {
      format += " ue8m0";
    }
    const Shape shape = layout.shape;
    if (zero != nullptr && codes->dtype == DType::kInt8) {
      if (zero->dtype == DType::kInt8 && zero->element_count() == scales->element_count()) {
        format += SetByteZeros(*zero, *grouping, layout) ? " asymmetric" : "";
      } else {
        return Finish(main.name, Misfit("zero points", codes->shape, zero->shape), main.shape);
      }
    }
    Result<std::shared_ptr<io::CodedTensor>> tensor =
        io::MakeGroupedCodes(std::move(layout), format);
    if (tensor.ok() && !is_packed) {
      NoteContradiction(*grouping, block_rows, block_columns, shape, scales->shape, **tensor);
    }
    return Finish(main.name, std::move(tensor), shape);
  }

  // Float32 scales that are exponents in effect. A few may be by chance.
  static bool ArePowersOfTwo(const TensorView& scales) {
    constexpr int64_t kFewest = 4;
    constexpr uint32_t kFraction = 0x7FFFFF;
    if (scales.dtype != DType::kFloat32 || scales.element_count() < kFewest) {
      return false;
    }
    for (int64_t i = 0; i < scales.element_count(); ++i) {
      if ((io::LoadLittle<uint32_t>(scales.data + static_cast<size_t>(i) * 4) & kFraction) != 0) {
        return false;
      }
    }
    return true;
  }

  // Zero points of int8, one for each scale. Where all are 0 the codes stay symmetric.
  static bool SetByteZeros(const TensorView& zero, const Grouping& grouping, CodeLayout& layout) {
    const std::span<const std::byte> bytes = zero.bytes();
    if (std::all_of(bytes.begin(), bytes.end(),
                    [](std::byte value) { return value == std::byte{0}; })) {
      return false;
    }
    layout.kind = CodeKind::kUnsigned;
    layout.flipped_bits = 128;
    layout.zero = 128;
    layout.zero_is_signed = true;
    layout.zero_packing = CodePacking::kBytes;
    layout.zero_codes = bytes;
    layout.zero_columns = grouping.scale_columns;
    layout.zero_rows = zero.element_count() / std::max<int64_t>(grouping.scale_columns, 1);
    return true;
  }

  static Status MultiplyBy(const TensorView& number, bool divides, CodeLayout& layout) {
    if (number.element_count() != 1 || !IsScaleDType(number.dtype)) {
      return BadFormatError(fmt::format("a scale of the whole tensor has shape {} and dtype {}",
                                        ShapeText(number.shape), DTypeName(number.dtype)));
    }
    double value = 0;
    kernels::WidenToDouble(number.dtype, number.bytes(), {&value, 1});
    layout.factor *= divides ? 1 / value : value;
    return {};
  }

  // compressed-tensors: weight_packed of int32 words, or of bytes with two fp4 codes.
  Parameter FoldCompressed(const Parameter& main, const std::string& name) {
    Status status;
    const TensorView* codes = ViewOf(main, status);
    const Parameter* scale_parameter = Find(name + "_scale");
    const TensorView* scales = Take(name + "_scale", status);
    const TensorView* whole = Take(name + "_global_scale", status);
    const TensorView* shape = Take(name + "_shape", status);
    const TensorView* zero = Take(name + "_zero_point", status);
    const TensorView* order = Take(name + "_g_idx", status);
    if (codes == nullptr || !status.ok()) {
      return Finish(name, status, main.shape);
    }
    if (codes->shape.size() < 2) {
      return Finish(
          name, BadFormatError(fmt::format("packed codes of shape {}", ShapeText(codes->shape))),
          main.shape);
    }
    CodeLayout layout;
    layout.codes = codes->bytes();
    layout.shape = codes->shape;
    std::string element;
    std::string format;
    const bool is_exponent = scales != nullptr && (scale_parameter->raw_dtype == "F8_E8M0" ||
                                                   scales->dtype == DType::kUInt8);
    if (codes->dtype == DType::kUInt8) {
      layout.shape.back() *= 2;
      layout.kind = CodeKind::kFloat4E2M1;
      layout.bits = 4;
      layout.packing = CodePacking::kLowNibbleFirst;
      element = is_exponent ? "mxfp4" : "nvfp4";
    } else if (codes->dtype == DType::kInt32) {
      layout.bits = facts_.bits > 0 && facts_.bits <= 8 ? static_cast<unsigned>(facts_.bits) : 4;
      if (shape != nullptr) {
        const Result<Shape> stated = ShapeIn(*shape);
        if (!stated.ok() || stated->size() != 2 ||
            (*stated)[0] != codes->shape[codes->shape.size() - 2] || (*stated)[1] <= 0 ||
            (*stated)[1] > codes->shape.back() * 32) {
          return Finish(
              name, stated.ok() ? Misfit("weight_shape", codes->shape, *stated) : stated.status(),
              main.shape);
        }
        // Words that are not full hold fewer codes.
        for (const unsigned bits : {layout.bits, 4U, 8U, 2U}) {
          if (Ceiling((*stated)[1], 32 / bits) == codes->shape.back()) {
            layout.bits = bits;
            break;
          }
        }
        layout.shape = *stated;
        if (Ceiling((*stated)[1], 32 / layout.bits) != codes->shape.back()) {
          return Finish(name, Misfit("weight_shape", codes->shape, *stated), main.shape);
        }
      } else {
        layout.shape.back() *= 32 / layout.bits;
      }
      layout.kind = CodeKind::kUnsigned;
      layout.packing = CodePacking::kWordsByRow;
      layout.zero = static_cast<double>(1U << (layout.bits - 1));
      element = fmt::format("int{}", layout.bits);
    } else {
      return Finish(
          name, BadFormatError(fmt::format("packed codes cannot be {}", DTypeName(codes->dtype))),
          main.shape);
    }
    if (whole != nullptr) {
      const Status scalar = MultiplyBy(*whole, /*divides=*/true, layout);
      if (!scalar.ok()) {
        return Finish(name, scalar, main.shape);
      }
    }
    const bool is_fp4 = layout.kind == CodeKind::kFloat4E2M1;
    const int64_t cfg_rows = !is_fp4 && facts_.group > 0 ? 1 : 0;
    const int64_t cfg_columns = cfg_rows > 0 ? facts_.group : 0;
    Grouping grouping;
    if (scales != nullptr) {
      const Result<Grouping> found =
          SetScales(*scales, is_exponent, layout.shape, layout, cfg_rows, cfg_columns);
      if (!found.ok()) {
        return Finish(name, found.status(), main.shape);
      }
      grouping = *found;
    } else {
      layout.columns = layout.shape.back();
      layout.group_columns = layout.columns;
    }
    const int64_t rows = layout.shape[layout.shape.size() - 2];
    const std::string text =
        io::GroupText(layout.group_rows, layout.group_columns, rows, layout.columns);
    format = element;
    if (!is_fp4 || text != (is_exponent ? "group 32" : "group 16")) {
      format += " " + text;
    }
    if (zero != nullptr && !is_fp4 && scales != nullptr) {
      layout.zero = 0;
      layout.zero_rows = rows;
      layout.zero_columns =
          std::max<int64_t>(layout.scales.column_stride == 0 ? 1 : scales->shape.back(), 1);
      layout.zero_codes = zero->bytes();
      if (zero->dtype == DType::kInt32 && zero->shape.size() == 2) {
        layout.zero_packing = CodePacking::kWordsDown;
      } else if (zero->dtype == DType::kInt8 || zero->dtype == DType::kUInt8) {
        layout.zero_packing = CodePacking::kBytes;
        layout.zero = static_cast<double>(1U << (layout.bits - 1));
        layout.zero_is_signed = true;
      } else {
        return Finish(name, Misfit("zero points", codes->shape, zero->shape), main.shape);
      }
      format += " asymmetric";
    }
    if (order != nullptr && scales != nullptr) {
      status = SetOrder(*order, layout);
      if (!status.ok()) {
        return Finish(name, status, main.shape);
      }
    }
    const Shape whole_shape = layout.shape;
    Result<std::shared_ptr<io::CodedTensor>> tensor =
        io::MakeGroupedCodes(std::move(layout), format);
    if (tensor.ok() && scales != nullptr && !is_fp4) {
      NoteContradiction(grouping, cfg_rows, cfg_columns, whole_shape, scales->shape, **tensor);
    }
    return Finish(name, std::move(tensor), whole_shape);
  }

  static Result<Shape> ShapeIn(const TensorView& numbers) {
    if (numbers.dtype != DType::kInt64 && numbers.dtype != DType::kInt32) {
      return BadFormatError(fmt::format("a shape cannot be {}", DTypeName(numbers.dtype)));
    }
    if (numbers.element_count() > 8) {
      return BadFormatError("a shape has more than 8 sizes");
    }
    Shape shape;
    for (int64_t i = 0; i < numbers.element_count(); ++i) {
      const std::byte* at = numbers.data + static_cast<size_t>(i) * DTypeSize(numbers.dtype);
      shape.push_back(numbers.dtype == DType::kInt64 ? io::LoadLittle<int64_t>(at)
                                                     : io::LoadLittle<int32_t>(at));
    }
    return shape;
  }

  // The group of each column, unless they are in order anyway.
  static Status SetOrder(const TensorView& order, CodeLayout& layout) {
    if (order.dtype != DType::kInt32 || order.element_count() != layout.columns) {
      return Misfit("group indices", layout.shape, order.shape);
    }
    auto groups = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(layout.columns));
    std::memcpy(groups->data(), order.data, groups->size() * sizeof(int32_t));
    bool in_order = true;
    for (size_t i = 0; i < groups->size(); ++i) {
      in_order = in_order && (*groups)[i] == static_cast<int64_t>(i) / layout.group_columns;
    }
    // Unset ones are all -1 in compressed-tensors.
    const bool unset =
        std::all_of(groups->begin(), groups->end(), [](int32_t group) { return group == -1; });
    if (!in_order && !unset) {
      layout.column_groups = std::move(groups);
    }
    return {};
  }

  // GPTQ and AWQ: qweight, qzeros, scales, g_idx.
  Parameter FoldPackedWords(const Parameter& main, const std::string& stem) {
    const std::string name = stem + ".weight";
    Status status;
    const TensorView* codes = ViewOf(main, status);
    const TensorView* scales = Take(stem + ".scales", status);
    const TensorView* zeros = Take(stem + ".qzeros", status);
    const TensorView* order = Take(stem + ".g_idx", status);
    if (codes == nullptr || !status.ok()) {
      return Finish(name, status, main.shape);
    }
    if (scales == nullptr) {
      return Finish(name, BadFormatError(fmt::format("{} without {}.scales", main.name, stem)),
                    main.shape);
    }
    if (codes->dtype != DType::kInt32 || codes->shape.size() != 2 || scales->shape.size() != 2 ||
        !IsScaleDType(scales->dtype)) {
      return Finish(name, Misfit("scales", codes->shape, scales->shape), main.shape);
    }
    const int64_t groups = scales->shape[0];
    const int64_t rows = scales->shape[1];
    CodeLayout layout;
    layout.kind = CodeKind::kUnsigned;
    layout.codes = codes->bytes();
    layout.bits = facts_.bits > 0 && facts_.bits <= 8 ? static_cast<unsigned>(facts_.bits) : 4;
    if (zeros != nullptr && zeros->shape.size() == 2 && zeros->dtype == DType::kInt32 && rows > 0 &&
        zeros->shape[1] > 0 && zeros->shape[1] <= rows && zeros->shape[1] * 32 % rows == 0) {
      layout.bits = static_cast<unsigned>(zeros->shape[1] * 32 / rows);
    }
    const auto bits = static_cast<int64_t>(layout.bits);
    if (layout.bits > 8 || layout.bits == 0) {
      return Finish(name, Misfit("zero points", codes->shape, zeros->shape), main.shape);
    }
    int64_t columns = 0;
    const bool is_awq = codes->shape[1] != rows && codes->shape[1] * 8 == rows && bits == 4;
    if (is_awq) {
      columns = codes->shape[0];
      layout.packing = CodePacking::kInterleaved;
    } else if (codes->shape[1] == rows && codes->shape[0] * 32 % bits == 0) {
      columns = codes->shape[0] * 32 / bits;
      layout.packing = CodePacking::kWordsByColumn;
    } else {
      return Finish(name, Misfit("scales", codes->shape, scales->shape), main.shape);
    }
    layout.shape = {rows, columns};
    layout.columns = columns;
    layout.group_columns = GroupSize(columns, groups);
    if (layout.group_columns == 0 || groups == 0) {
      return Finish(name, Misfit("scales", layout.shape, scales->shape), main.shape);
    }
    const bool contradicts =
        facts_.group > 0 && groups > 1 && Ceiling(columns, facts_.group) != groups;
    if (facts_.group > 0 && Ceiling(columns, facts_.group) == groups) {
      layout.group_columns = facts_.group;
    }
    layout.scales.bytes = scales->bytes();
    layout.scales.dtype = scales->dtype;
    layout.scales.row_stride = 1;
    layout.scales.column_stride = rows;
    const double half = static_cast<double>(1U << (layout.bits - 1));
    bool symmetric = true;
    if (zeros != nullptr) {
      if (zeros->dtype != DType::kInt32 || zeros->shape.size() != 2 || zeros->shape[0] != groups) {
        return Finish(name, Misfit("zero points", codes->shape, zeros->shape), main.shape);
      }
      layout.zero_codes = zeros->bytes();
      layout.zero_rows = rows;
      layout.zero_columns = groups;
      layout.zero_packing = is_awq ? CodePacking::kInterleaved : CodePacking::kWordsAcross;
      layout.zero_added = is_awq || facts_.checkpoint_format == "gptq_v2" ? 0 : 1;
      symmetric = HasOneZero(*zeros, layout);
    } else {
      layout.zero = half;
    }
    if (order != nullptr) {
      status = SetOrder(*order, layout);
      if (!status.ok()) {
        return Finish(name, status, main.shape);
      }
    }
    const Shape shape = layout.shape;
    const int64_t group = layout.group_columns;
    std::string format =
        fmt::format("int{} {}{}", layout.bits, io::GroupText(1, group, rows, columns),
                    symmetric ? "" : " asymmetric");
    Result<std::shared_ptr<io::CodedTensor>> tensor =
        io::MakeGroupedCodes(std::move(layout), std::move(format));
    if (tensor.ok() && contradicts) {
      (*tensor)->Contradict(
          "block_size",
          fmt::format("the config says groups of {}, but {} columns with scales of shape {} make "
                      "groups of {}: read so",
                      facts_.group, columns, ShapeText(scales->shape), group));
    }
    return Finish(name, std::move(tensor), shape);
  }

  // Whether all zero points are the middle of the range.
  static bool HasOneZero(const TensorView& zeros, const CodeLayout& layout) {
    const std::span<const std::byte> bytes = zeros.bytes();
    if (layout.bits != 4 && layout.bits != 8) {
      return false;
    }
    const unsigned middle = (1U << (layout.bits - 1)) - static_cast<unsigned>(layout.zero_added);
    const unsigned byte = layout.bits == 4 ? middle * 17U : middle;
    return std::all_of(bytes.begin(), bytes.end(),
                       [&](std::byte value) { return std::to_integer<unsigned>(value) == byte; });
  }

  // gpt-oss: [experts, rows, groups, 16] bytes of two fp4 codes and [experts, rows, groups] scales;
  // unquantised the matrices lie turned.
  Parameter FoldBlocks(const Parameter& main, const std::string& name) {
    Status status;
    const TensorView* codes = ViewOf(main, status);
    const TensorView* scales = Take(name + "_scales", status);
    if (codes == nullptr || scales == nullptr) {
      return Finish(name, status, main.shape);
    }
    Shape groups = codes->shape;
    if (codes->dtype != DType::kUInt8 || groups.size() < 3) {
      return Finish(name, Misfit("scales", codes->shape, scales->shape), main.shape);
    }
    const int64_t group = groups.back() * 2;
    groups.pop_back();
    if (groups != scales->shape || scales->dtype != DType::kUInt8 || group == 0) {
      return Finish(name, Misfit("scales", codes->shape, scales->shape), main.shape);
    }
    CodeLayout layout;
    layout.codes = codes->bytes();
    layout.shape = groups;
    layout.shape.back() *= group;
    layout.columns = layout.shape.back();
    layout.kind = CodeKind::kFloat4E2M1;
    layout.bits = 4;
    layout.packing = CodePacking::kLowNibbleFirst;
    layout.group_columns = group;
    layout.scales.bytes = scales->bytes();
    layout.scales.dtype = DType::kUInt8;
    layout.scales.is_exponent = true;
    layout.scales.row_stride = groups.back();
    layout.scales.column_stride = 1;
    layout.power_of_two_scales = true;
    const Shape shape = layout.shape;
    Parameter parameter =
        Finish(name,
               io::MakeGroupedCodes(std::move(layout),
                                    group == 32 ? "mxfp4" : fmt::format("mxfp4 group {}", group)),
               shape);
    for (Piece& piece : parameter.pieces) {
      const size_t last = piece.view.shape.size() - 1;
      std::swap(piece.view.shape[last], piece.view.shape[last - 1]);
      std::swap(piece.view.strides[last], piece.view.strides[last - 1]);
    }
    if (parameter.status.ok()) {
      std::swap(parameter.shape[shape.size() - 1], parameter.shape[shape.size() - 2]);
    }
    return parameter;
  }

  // bitsandbytes nf4 and fp4: a table of 16 numbers, scales by 64 elements, which may be codes
  // themselves; a JSON text tells shape and sizes.
  Parameter FoldBitsAndBytes(const Parameter& main) {
    const std::string& name = main.name;
    Status status;
    const TensorView* codes = ViewOf(main, status);
    const TensorView* absmax = Take(name + ".absmax", status);
    const TensorView* map = Take(name + ".quant_map", status);
    const TensorView* nested = Take(name + ".nested_absmax", status);
    const TensorView* nested_map = Take(name + ".nested_quant_map", status);
    const TensorView* state = nullptr;
    std::string element = "nf4";
    for (const std::string_view type : {"nf4", "fp4"}) {
      if (const TensorView* found =
              Take(fmt::format("{}.quant_state.bitsandbytes__{}", name, type), status)) {
        state = found;
        element = type;
      }
    }
    if (codes == nullptr || absmax == nullptr || !status.ok()) {
      return Finish(name, status, main.shape);
    }
    if (state == nullptr || map == nullptr || map->element_count() != 16) {
      return Finish(name,
                    BadFormatError(fmt::format("{} without its quant_state or quant_map", name)),
                    main.shape);
    }
    if (codes->dtype != DType::kUInt8) {
      return Finish(name,
                    UnsupportedError(fmt::format("codes in storage of {}: only uint8 is read",
                                                 DTypeName(codes->dtype))),
                    main.shape);
    }
    CodeLayout layout;
    layout.codes = codes->bytes();
    layout.kind = CodeKind::kTable;
    layout.bits = 4;
    layout.packing = CodePacking::kHighNibbleFirst;
    layout.table.resize(16);
    kernels::WidenToFloat(map->dtype, map->bytes(), layout.table);
    const Result<Json> parsed = json::ParseJsonData(
        io::AsText(state->data, static_cast<size_t>(state->size_bytes())), name + ".quant_state");
    if (!parsed.ok() || !parsed->is_object()) {
      return Finish(name,
                    BadFormatError(fmt::format("{}: its quant_state is not a JSON object", name)),
                    main.shape);
    }
    const Json* shape = json::Find(*parsed, "shape");
    const int64_t group = IntMember(*parsed, "blocksize");
    if (shape == nullptr || !shape->is_array() || shape->size() > io::kMaxRank || group <= 0) {
      return Finish(name, BadFormatError(fmt::format("{}: its quant_state has no shape", name)),
                    main.shape);
    }
    for (const Json& size : *shape) {
      if (!size.is_number_integer() || json::IntOf(size) < 0) {
        return Finish(name, BadFormatError(fmt::format("{}: its quant_state has no shape", name)),
                      main.shape);
      }
      layout.shape.push_back(json::IntOf(size));
    }
    const Result<int64_t> bytes = io::DenseBytes(layout.shape, 1);
    if (!bytes.ok()) {
      return Finish(name, bytes.status(), main.shape);
    }
    layout.columns = std::max<int64_t>(*bytes, 1);
    layout.group_columns = group;
    layout.scales.bytes = absmax->bytes();
    layout.scales.dtype = absmax->dtype;
    layout.scales.column_stride = 1;
    if (absmax->dtype == DType::kUInt8) {
      if (nested == nullptr || nested_map == nullptr || nested_map->element_count() != 256) {
        return Finish(name,
                      BadFormatError(fmt::format("{}: its absmax has no nested_absmax", name)),
                      main.shape);
      }
      layout.nested_table.resize(256);
      kernels::WidenToFloat(nested_map->dtype, nested_map->bytes(), layout.nested_table);
      layout.nested_scales.bytes = nested->bytes();
      layout.nested_scales.dtype = nested->dtype;
      layout.nested_group = std::max<int64_t>(IntMember(*parsed, "nested_blocksize"), 1);
      if (const Json* offset = json::Find(*parsed, "nested_offset");
          offset != nullptr && offset->is_number()) {
        layout.nested_offset = json::NumberOf(*offset);
      }
    }
    const Shape whole = layout.shape;
    return Finish(
        name, io::MakeGroupedCodes(std::move(layout), fmt::format("{} group {}", element, group)),
        whole);
  }

  const QuantisationFacts& facts_;
  Checkpoint& checkpoint_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<bool> consumed_;
};

}  // namespace

void FoldQuantised(Checkpoint& checkpoint) { Folder(checkpoint).Run(); }

}  // namespace msprobe::checkpoint
