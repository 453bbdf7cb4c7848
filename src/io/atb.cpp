// Tensors that the Ascend Transformer Boost dumps: lines `key=value` up to `$End=1`, then raw data.
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/contents.h"

namespace msprobe::io {
namespace {

// A header is a dozen short lines.
constexpr size_t kLongestAtbHeader = 65536;

struct AclDType {
  int64_t number;
  DType dtype;
};
// aclDataType; types of other sizes than whole bytes are not among them.
constexpr std::array<AclDType, 17> kDTypes = {{{0, DType::kFloat32},
                                               {1, DType::kFloat16},
                                               {2, DType::kInt8},
                                               {3, DType::kInt32},
                                               {4, DType::kUInt8},
                                               {6, DType::kInt16},
                                               {7, DType::kUInt16},
                                               {8, DType::kUInt32},
                                               {9, DType::kInt64},
                                               {10, DType::kUInt64},
                                               {11, DType::kFloat64},
                                               {12, DType::kBool},
                                               {16, DType::kComplex64},
                                               {17, DType::kComplex128},
                                               {27, DType::kBFloat16},
                                               {35, DType::kFloat8E5M2},
                                               {36, DType::kFloat8E4M3FN}}};

Status Bad(std::string_view what) { return BadFormatError(fmt::format("ATB header: {}", what)); }

std::optional<DType> DTypeOf(int64_t number) {
  for (const AclDType& known : kDTypes) {
    if (known.number == number) {
      return known.dtype;
    }
  }
  return std::nullopt;
}

Result<Shape> ParseSizes(std::string_view text) {
  Shape shape;
  if (base::Trim(text).empty()) {
    return shape;
  }
  for (const std::string_view part : base::Split(text, ',')) {
    const std::optional<int64_t> size = base::ParseInt(base::Trim(part));
    if (!size || *size < 0 || shape.size() == kMaxRank) {
      return Bad(fmt::format("dims=\"{}\" is not a list of at most {} sizes", text.substr(0, 200),
                             kMaxRank));
    }
    shape.push_back(*size);
  }
  return shape;
}

struct Header {
  std::optional<int64_t> dtype;
  std::optional<Shape> shape;
  size_t data_at = 0;
};

Result<Header> ParseHeader(std::string_view text) {
  Header header;
  for (size_t at = 0;;) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos || end > kLongestAtbHeader) {
      return Bad("no line $End=1");
    }
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return Bad(fmt::format("\"{}\" is not a line key=value", line.substr(0, 100)));
    }
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (key == "$End") {
      header.data_at = at;
      return header;
    }
    if (key == "data") {
      return UnsupportedError("the data is in another file, which is not read");
    }
    if (key == "dtype") {
      header.dtype = base::ParseInt(base::Trim(value));
      if (!header.dtype) {
        return Bad(fmt::format("dtype=\"{}\" is not a number", value.substr(0, 100)));
      }
    } else if (key == "dims") {
      MSP_ASSIGN_OR_RETURN(header.shape, ParseSizes(value));
    }
  }
}

}  // namespace

Status ReadAtb(std::span<const std::byte> bytes, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kAtb;
  MSP_ASSIGN_OR_RETURN(const Header header, ParseHeader(AsText(bytes.data(), bytes.size())));
  if (!header.dtype || !header.shape) {
    return Bad("dtype and dims are needed");
  }
  const std::optional<DType> dtype = DTypeOf(*header.dtype);
  if (!dtype) {
    return UnsupportedError(fmt::format("ATB data of aclDataType {}", *header.dtype));
  }
  const std::span<const std::byte> data = bytes.subspan(header.data_at);
  MSP_ASSIGN_OR_RETURN(const int64_t needed, DenseBytes(*header.shape, DTypeSize(*dtype)));
  if (static_cast<uint64_t>(needed) > data.size()) {
    return BadFormatError(
        fmt::format("a tensor of {} bytes, but only {} follow the header", needed, data.size()));
  }
  if (data.size() > static_cast<uint64_t>(needed)) {
    contents.warnings.push_back(
        fmt::format("{} bytes after the tensor", data.size() - static_cast<uint64_t>(needed)));
  }
  NamedTensor tensor;
  tensor.is_array = true;
  MSP_ASSIGN_OR_RETURN(tensor.view, MakeDenseView(*dtype, *header.shape, false, data));
  contents.tensors.push_back(std::move(tensor));
  return OkStatus();
}

}  // namespace msprobe::io
