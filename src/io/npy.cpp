#include "src/io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/io/contents.h"
#include "src/io/tensor_output.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/float_bits.h"

namespace msprobe::io {
namespace {

constexpr size_t kLongestNpyHeader = 65536;
constexpr size_t kDataAlignment = 64;

// The header is a Python dict literal of three known keys. This reads exactly that and nothing
// more.
class LiteralParser {
 public:
  explicit LiteralParser(std::string_view text) : rest_(text) {}

  Result<NpyHeader> ParseHeader() {
    NpyHeader header;
    bool seen[3] = {false, false, false};
    if (!Accept('{')) {
      return Bad("a dict was expected");
    }
    while (!Accept('}')) {
      MSP_ASSIGN_OR_RETURN(const std::string key, Text());
      if (!Accept(':')) {
        return Bad("':' was expected");
      }
      size_t index = 0;
      if (key == "descr") {
        MSP_ASSIGN_OR_RETURN(header.descr, Descr());
      } else if (key == "fortran_order") {
        MSP_ASSIGN_OR_RETURN(header.fortran_order, Boolean());
        index = 1;
      } else if (key == "shape") {
        MSP_ASSIGN_OR_RETURN(header.shape, Sizes());
        index = 2;
      } else {
        return Bad(fmt::format("unknown key \"{}\"", key.substr(0, 50)));
      }
      if (std::exchange(seen[index], true)) {
        return Bad(fmt::format("key \"{}\" occurs twice", key));
      }
      if (!Accept(',')) {
        if (!Accept('}')) {
          return Bad("',' or '}' was expected");
        }
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2]) {
      return Bad("descr, fortran_order and shape are needed");
    }
    SkipBlanks();
    if (!rest_.empty()) {
      return Bad("something follows the dict");
    }
    return header;
  }

 private:
  static Status Bad(std::string_view what) {
    return BadFormatError(fmt::format("npy header: {}", what));
  }

  void SkipBlanks() {
    const size_t begin = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(begin, rest_.size()));
  }

  bool Accept(char c) {
    SkipBlanks();
    if (!rest_.starts_with(c)) {
      return false;
    }
    rest_.remove_prefix(1);
    return true;
  }

  bool AcceptWord(std::string_view word) {
    SkipBlanks();
    if (!rest_.starts_with(word)) {
      return false;
    }
    rest_.remove_prefix(word.size());
    return true;
  }

  Result<std::string> Text() {
    for (char quote : {'\'', '"'}) {
      if (Accept(quote)) {
        const size_t end = rest_.find(quote);
        const std::string_view text = rest_.substr(0, end);
        if (end == std::string_view::npos || text.find('\\') != std::string_view::npos) {
          return Bad("a plain quoted text was expected");
        }
        rest_.remove_prefix(end + 1);
        return std::string(text);
      }
    }
    return Bad("a quoted text was expected");
  }

  Result<std::string> Descr() {
    SkipBlanks();
    if (rest_.starts_with('[')) {
      return UnsupportedError("structured numpy arrays are not supported");
    }
    return Text();
  }

  Result<bool> Boolean() {
    if (AcceptWord("True")) {
      return true;
    }
    if (AcceptWord("False")) {
      return false;
    }
    return Bad("fortran_order must be True or False");
  }

  Result<Shape> Sizes() {
    if (!Accept('(')) {
      return Bad("shape must be a tuple");
    }
    Shape shape;
    while (!Accept(')')) {
      SkipBlanks();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc()) {
        return Bad("sizes must be integers of 64 bits");
      }
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) {  // Python 2
        rest_.remove_prefix(1);
      }
      if (shape.size() > kMaxRank) {
        return Bad(fmt::format("more than {} dimensions", kMaxRank));
      }
      shape.push_back(size);
      if (!Accept(',')) {
        if (!Accept(')')) {
          return Bad("',' or ')' was expected in shape");
        }
        if (shape.size() == 1) {
          return Bad("shape must be a tuple: (3,), not (3)");
        }
        break;
      }
    }
    return shape;
  }

  std::string_view rest_;
};

}  // namespace

Result<NumpyDType> ParseNumpyDType(std::string_view descr, bool void16_is_bfloat16) {
  NumpyDType result;
  std::string_view type = descr;
  if (!type.empty() && std::string_view("<>|=").find(type.front()) != std::string_view::npos) {
    result.byte_swapped = type.front() == '>';
    type.remove_prefix(1);
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& info = GetDTypeInfo(static_cast<DType>(i));
    if (!info.numpy_descr.empty() && info.numpy_descr.substr(1) == type) {
      result.dtype = info.dtype;
      result.byte_swapped = result.byte_swapped && info.size_bytes > 1;
      return result;
    }
  }
  if (type == "V2" && void16_is_bfloat16) {
    result.dtype = DType::kBFloat16;
    return result;
  }
  const std::string shown(descr.substr(0, 50));
  if (type.starts_with('O')) {
    return UnsupportedError("numpy object arrays hold pickled Python objects and are never read");
  }
  if (!type.empty() &&
      std::string_view("USVMmfcaiub").find(type.front()) != std::string_view::npos) {
    Status status = UnsupportedError(fmt::format("unsupported dtype \"{}\"", shown));
    return type == "V2"
               ? std::move(status).WithHint("bfloat16 written by ml_dtypes looks like this")
               : std::move(status);
  }
  return BadFormatError(fmt::format("unknown dtype \"{}\"", shown));
}

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kNpyMagic.size() + 4 || AsText(bytes.data(), kNpyMagic.size()) != kNpyMagic) {
    return BadFormatError("not a npy file: too short or without its magic");
  }
  const int major = std::to_integer<int>(bytes[6]);
  const int minor = std::to_integer<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return UnsupportedError(fmt::format("npy format version {}.{} is not known", major, minor));
  }
  const size_t prefix = major == 1 ? 10 : 12;
  if (bytes.size() < prefix) {
    return BadFormatError("npy file ends inside its header length");
  }
  const size_t length =
      major == 1 ? LoadLittle<uint16_t>(&bytes[8]) : LoadLittle<uint32_t>(&bytes[8]);
  if (length > bytes.size() - prefix) {
    return BadFormatError(
        fmt::format("npy header of {} bytes does not fit into a file of {}", length, bytes.size()));
  }
  if (length > kLongestNpyHeader) {
    return UnsupportedError(
        fmt::format("npy header of {} bytes (the limit is {})", length, kLongestNpyHeader));
  }
  MSP_ASSIGN_OR_RETURN(NpyHeader header,
                       LiteralParser(AsText(bytes.data() + prefix, length)).ParseHeader());
  header.data_offset = prefix + length;
  return header;
}

Result<TensorView> ReadNpyArray(std::span<const std::byte> bytes, bool void16_is_bfloat16) {
  MSP_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(bytes));
  MSP_ASSIGN_OR_RETURN(const NumpyDType type, ParseNumpyDType(header.descr, void16_is_bfloat16));
  MSP_ASSIGN_OR_RETURN(TensorView view,
                       MakeDenseView(type.dtype, std::move(header.shape), header.fortran_order,
                                     bytes.subspan(header.data_offset)));
  view.byte_swapped = type.byte_swapped;
  return view;
}

Status ReadNpy(std::span<const std::byte> bytes, const TensorFile::Options& options,
               TensorFileContents& contents) {
  contents.format = TensorFileFormat::kNpy;
  NamedTensor tensor;
  MSP_ASSIGN_OR_RETURN(tensor.view, ReadNpyArray(bytes, options.void16_is_bfloat16));
  const auto used = static_cast<size_t>(tensor.view.data - bytes.data()) + tensor.view.extent_bytes;
  if (used < bytes.size()) {
    contents.warnings.push_back(fmt::format("{} bytes after the array", bytes.size() - used));
  }
  contents.tensors.push_back(std::move(tensor));
  return {};
}

std::string FormatNpyHeader(std::string_view descr, const Shape& shape) {
  std::string sizes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    sizes += fmt::format("{}{}", axis > 0 ? ", " : "", shape[axis]);
  }
  if (shape.size() == 1) {
    sizes += ",";
  }
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  // NumPy leaves room for the first axis to grow to 21 digits in place.
  constexpr size_t kGrowthDigits = 21;
  if (!shape.empty()) {
    dict.append(kGrowthDigits - std::to_string(shape.front()).size(), ' ');
  }
  const size_t prefix = kNpyMagic.size() + 4;
  const size_t padding = kDataAlignment - (prefix + dict.size() + 1) % kDataAlignment;
  dict.append(padding, ' ');
  dict.push_back('\n');
  std::string header(kNpyMagic);
  header.push_back('\x01');
  header.push_back('\x00');
  header.push_back(static_cast<char>(dict.size() & 0xFFU));
  header.push_back(static_cast<char>(dict.size() >> 8U));
  return header + dict;
}

}  // namespace msprobe::io

namespace msprobe {
namespace {

// Only called for types that NumPy lacks.
float WidenElement(DType dtype, const std::byte* bytes) {
  if (dtype == DType::kBFloat16) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return tensor::BFloat16ToFloat(bits);
  }
  const auto bits = std::to_integer<uint8_t>(*bytes);
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return tensor::Float8E4M3FNToFloat(bits);
    case DType::kFloat8E5M2:
      return tensor::Float8E5M2ToFloat(bits);
    case DType::kFloat8E4M3FNUZ:
      return tensor::Float8E4M3FNUZToFloat(bits);
    default:
      return tensor::Float8E5M2FNUZToFloat(bits);
  }
}

Status WriteWidened(base::AtomicFile& file, DType dtype, std::span<const std::byte> block,
                    std::vector<float>& widened) {
  widened.clear();
  for (size_t at = 0; at < block.size(); at += DTypeSize(dtype)) {
    widened.push_back(WidenElement(dtype, block.data() + at));
  }
  return file.Write(std::as_bytes(std::span(widened)));
}

}  // namespace

Status io::WriteNpyTo(base::AtomicFile& file, const TensorView& view) {
  const std::string_view own_descr = GetDTypeInfo(view.dtype).numpy_descr;
  const bool widen = own_descr.empty();
  const std::string_view descr = widen ? GetDTypeInfo(DType::kFloat32).numpy_descr : own_descr;
  const std::string header = io::FormatNpyHeader(descr, view.shape);
  if (!widen && view.is_plain()) {
    return WriteParts(file, header, view.bytes(), {});
  }
  MSP_RETURN_IF_ERROR(file.Write(header));
  std::vector<std::byte> scratch;
  std::vector<float> widened;
  return tensor::ForEachBlock(
      view, tensor::kCopyBlockElements, scratch, [&](std::span<const std::byte> block, size_t) {
        return widen ? WriteWidened(file, view.dtype, block, widened) : file.Write(block);
      });
}

Status WriteNpyFile(const std::filesystem::path& path, const TensorView& tensor) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(io::WriteNpyTo(file, tensor));
  return file.Commit();
}

}  // namespace msprobe

namespace msprobe::io {
namespace {

constexpr std::string_view kSuffix = ".npy";

Status ReadMember(const ZipArchive& archive, const ZipEntry& entry,
                  const TensorFile::Options& options, TensorFileContents& contents,
                  TensorView& view) {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                       OpenTensorMember(archive, entry, options, contents));
  MSP_ASSIGN_OR_RETURN(view, ReadNpyArray(bytes, options.void16_is_bfloat16), "member \"",
                       entry.name, "\"");
  return {};
}

}  // namespace

Status ReadNpz(const ZipArchive& archive, const TensorFile::Options& options,
               TensorFileContents& contents) {
  contents.format = TensorFileFormat::kNpz;
  for (const ZipEntry& entry : archive.entries()) {
    if (archive.Find(entry.name) != &entry) {
      contents.warnings.push_back(fmt::format("member \"{}\" occurs twice; the last one counts",
                                              entry.name.substr(0, 200)));
      continue;
    }
    NamedTensor tensor;
    tensor.path.emplace_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
    tensor.status = ReadMember(archive, entry, options, contents, tensor.view);
    contents.tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace msprobe::io
