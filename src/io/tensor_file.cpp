#include "msprobe/tensor_file.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/kernel_dump/dump_file.h"
#include "src/io/npy.h"

namespace msprobe {
namespace io {
namespace {

constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kEmptyZipMagic = "PK\x05\x06";
// The magic number of the legacy format as pickle protocols 2 to 5 write it, behind at most a
// protocol and a frame header.
constexpr std::string_view kLegacyMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::string_view kLegacyMagicInDigits = "L119547037146038801333356L\n";
constexpr size_t kLegacyMagicWithin = 32;
constexpr std::string_view kAtbMagic = "$Version=";
constexpr std::string_view kPickleSuffix = "/data.pkl";
constexpr std::string_view kReadable =
    ".pt, .npy, .npz, .safetensors, .gguf, MindSpore .ckpt, ATB .bin files and kernel dumps can be "
    "read";

// The member P/data.pkl with the shortest folder name: deeper ones belong to something inside.
const ZipEntry* FindDataPickle(const ZipArchive& archive) {
  const ZipEntry* best = nullptr;
  for (const ZipEntry& entry : archive.entries()) {
    if ((entry.name.ends_with(kPickleSuffix) || entry.name == kPickleSuffix.substr(1)) &&
        (best == nullptr || entry.name.size() < best->name.size())) {
      best = &entry;
    }
  }
  return best != nullptr ? archive.Find(best->name) : nullptr;
}

Status ReadZip(std::span<const std::byte> bytes, const TensorFile::Options& options,
               TensorFileContents& contents) {
  MSP_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(bytes));
  if (const ZipEntry* data_pickle = FindDataPickle(archive)) {
    return ReadPtZip(archive, *data_pickle, options, contents);
  }
  const std::vector<ZipEntry>& entries = archive.entries();
  const bool all_npy = std::all_of(entries.begin(), entries.end(), [](const ZipEntry& entry) {
    return entry.name.ends_with(".npy");
  });
  if (all_npy && !entries.empty()) {
    return ReadNpz(archive, options, contents);
  }
  return BadFormatError("a zip archive, but without data.pkl (PyTorch) or .npy members")
      .WithHint(std::string(kReadable));
}

// Files of tensors in other formats, and how to make one that can be read.
Status OtherFormat(std::string_view what, std::string_view hint) {
  return UnsupportedError(fmt::format("{}, which cannot be read", what))
      .WithHint(std::string(hint));
}

// A protobuf that begins with ONNX's version and the name of what wrote it, or its graph.
bool LooksLikeOnnx(std::string_view text) {
  constexpr unsigned char kNewestOnnx = 30;
  if (text.size() < 4 || text[0] != '\x08' || static_cast<unsigned char>(text[1]) == 0 ||
      static_cast<unsigned char>(text[1]) > kNewestOnnx) {
    return false;
  }
  // Fields of the model that follow: producer, its version, domain, graph, opset.
  return std::string_view("\x12\x1a\x22\x3a\x42").find(text[2]) != std::string_view::npos;
}

// A map whose first key is a text, as flax and others write it.
bool LooksLikeMsgpack(std::string_view text) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const bool is_small = (byte(0) & 0xF0U) == 0x80U && byte(0) != 0x80U;
  const size_t key = is_small ? 1 : byte(0) == 0xDEU ? 3 : byte(0) == 0xDFU ? 5 : 0;
  if (key == 0) {
    return false;
  }
  const bool is_short = (byte(key) & 0xE0U) == 0xA0U;
  const size_t begin = is_short ? key + 1 : byte(key) == 0xD9U ? key + 2 : 0;
  const size_t length = is_short ? byte(key) & 0x1FU : byte(key + 1);
  if (begin == 0 || length == 0 || text.size() < begin + length) {
    return false;
  }
  const std::string_view name = text.substr(begin, length);
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// Names the kind of another file by its first bytes.
Status NotATensorFile(std::string_view text) {
  constexpr size_t kTarMagicAt = 257;
  if (text.empty()) {
    return BadFormatError("the file is empty");
  }
  if (text.size() > kTarMagicAt + 5 && text.substr(kTarMagicAt, 5) == "ustar") {
    return UnsupportedError("a tar file, as PyTorch before 0.4 wrote them, cannot be read")
        .WithHint("load and save it again with a newer PyTorch");
  }
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) {
    return UnsupportedError("a plain pickle without tensor storages")
        .WithHint(std::string(kReadable));
  }
  if (LooksLikeOnnx(text)) {
    return OtherFormat("an ONNX model",
                       "compare the checkpoint that it was exported from, or save its "
                       "initializers as safetensors");
  }
  if (LooksLikeMsgpack(text)) {
    return OtherFormat("a MessagePack file (flax)",
                       "save its arrays as safetensors: flax.serialization.msgpack_restore reads "
                       "it, safetensors.numpy.save_file writes them");
  }
  return BadFormatError("not a tensor file: its first bytes belong to no known format")
      .WithHint(std::string(kReadable));
}

// An unreadable tensor among others is a matter of its own; a file that is nothing else is an
// unreadable file. Pickles hold other values, too, unless they are one bare tensor.
Status CheckReadable(const TensorFileContents& contents) {
  const std::vector<NamedTensor>& tensors = contents.tensors;
  if (tensors.size() == 1 && tensors[0].path.empty()) {
    return tensors[0].status;
  }
  const bool nothing_else = contents.format == TensorFileFormat::kSafetensors ||
                            contents.format == TensorFileFormat::kMindSpore ||
                            contents.format == TensorFileFormat::kGguf;
  const bool damaged = std::all_of(tensors.begin(), tensors.end(), [](const NamedTensor& tensor) {
    return tensor.status.code() == StatusCode::kBadFormat;
  });
  if (nothing_else && damaged && !tensors.empty()) {
    return Status(tensors[0].status)
        .AddContext(fmt::format("tensor \"{}\"", tensors[0].path[0].substr(0, 200)));
  }
  return {};
}

}  // namespace

Status ReadTensorBytes(std::span<const std::byte> bytes, const TensorFile::Options& options,
                       TensorFileContents& contents) {
  const std::string_view text = AsText(bytes.data(), bytes.size());
  Status status;
  if (text.starts_with("GGUF")) {
    status = ReadGguf(bytes, contents);
  } else if (text.starts_with("\x89HDF\r\n\x1a\n")) {
    status = OtherFormat("an HDF5 file (Keras .h5)",
                         "save its arrays as .npz (h5py, numpy.savez) or safetensors");
  } else if (text.starts_with(kZipMagic) || text.starts_with(kEmptyZipMagic)) {
    status = ReadZip(bytes, options, contents);
  } else if (text.starts_with(kNpyMagic.substr(0, text.size())) && !text.empty()) {
    status = ReadNpy(bytes, options, contents);
  } else if (text.substr(0, kLegacyMagicWithin).find(kLegacyMagic) != std::string_view::npos ||
             text.starts_with(kLegacyMagicInDigits)) {
    status = ReadPtLegacy(bytes, contents);
  } else if (text.starts_with(kAtbMagic)) {
    status = ReadAtb(bytes, contents);
  } else if (kernel_dump::LooksLikeKernelDump(bytes)) {
    status = ReadKernelDumpTensors(bytes, options, contents);
  } else if (LooksLikeMindSpore(bytes)) {
    status = ReadMindSpore(bytes, options, contents);
  } else if (text.size() > 8 && text[8] == '{') {
    status = ReadSafetensors(bytes, contents);
  } else {
    status = NotATensorFile(text);
  }
  MSP_RETURN_IF_ERROR(std::move(status));
  return CheckReadable(contents);
}

namespace {

// Warnings of all parts of a file together.
constexpr size_t kMostPartWarnings = 20;

// The memory that a part's tensor borrows from moves to `contents`, and so do its warnings.
NamedTensor ReadPart(std::span<const std::byte> file, const TensorFile::Part& part,
                     const TensorFile::Options& options, TensorFileContents& contents) {
  NamedTensor tensor;
  if (part.offset > file.size() || part.size_bytes > file.size() - part.offset) {
    tensor.status =
        BadFormatError(fmt::format("bytes {} to {} are not in a file of {} bytes (truncated?)",
                                   part.offset, part.offset + part.size_bytes, file.size()));
    return tensor;
  }
  TensorFileContents inner;
  tensor.status = ReadTensorBytes(file.subspan(part.offset, part.size_bytes), options, inner);
  if (tensor.status.ok() && inner.tensors.size() != 1) {
    tensor.status = BadFormatError(
        fmt::format("{} tensors where exactly one was expected", inner.tensors.size()));
  }
  for (std::string& warning : inner.warnings) {
    std::vector<std::string>& known = contents.warnings;
    if (known.size() >= kMostPartWarnings ||
        std::find(known.begin(), known.end(), warning) != known.end()) {
      continue;
    }
    known.push_back(std::move(warning));
    if (known.size() == kMostPartWarnings - 1) {
      known.emplace_back("further warnings are left out");
    }
  }
  if (!tensor.status.ok()) {
    tensor.status.AddContext(
        fmt::format("bytes {} to {}", part.offset, part.offset + part.size_bytes));
    return tensor;
  }
  tensor = std::move(inner.tensors.front());
  tensor.path.clear();
  const std::less<> before;  // a total order, unlike "<" between unrelated pointers
  const bool in_file = tensor.view.data != nullptr && !before(tensor.view.data, file.data()) &&
                       before(tensor.view.data, file.data() + file.size());
  std::move(inner.unchecked.begin(), inner.unchecked.end(), std::back_inserter(contents.unchecked));
  if (!in_file) {
    std::move(inner.inflated.begin(), inner.inflated.end(), std::back_inserter(contents.inflated));
    std::move(inner.pickles.begin(), inner.pickles.end(), std::back_inserter(contents.pickles));
  }
  return tensor;
}

}  // namespace
}  // namespace io

struct TensorFile::Impl {
  base::FileBytes file;
  io::TensorFileContents contents;
};

std::string_view TensorFileFormatName(TensorFileFormat format) {
  switch (format) {
    case TensorFileFormat::kPtZip:
      return "PyTorch zip";
    case TensorFileFormat::kTorchScript:
      return "TorchScript archive";
    case TensorFileFormat::kPtLegacy:
      return "PyTorch legacy";
    case TensorFileFormat::kNpy:
      return "NumPy npy";
    case TensorFileFormat::kNpz:
      return "NumPy npz";
    case TensorFileFormat::kSafetensors:
      return "safetensors";
    case TensorFileFormat::kMindSpore:
      return "MindSpore checkpoint";
    case TensorFileFormat::kAtb:
      return "ATB dump";
    case TensorFileFormat::kKernelDump:
      return "kernel dump";
    case TensorFileFormat::kGguf:
      return "GGUF";
  }
  return "";
}

std::string NamedTensor::name() const { return base::Join(path, "."); }

TensorFile::TensorFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  std::sort(
      impl_->contents.unchecked.begin(), impl_->contents.unchecked.end(),
      [](const auto& a, const auto& b) { return std::less<>()(a.bytes.data(), b.bytes.data()); });
}
TensorFile::TensorFile(TensorFile&&) noexcept = default;
TensorFile& TensorFile::operator=(TensorFile&&) noexcept = default;
TensorFile::~TensorFile() = default;

Result<TensorFile> TensorFile::Open(const std::filesystem::path& path, const Options& options) {
  auto impl = std::make_unique<Impl>();
  MSP_ASSIGN_OR_RETURN(impl->file, base::FileBytes::Open(path, options.scratch));
  MSP_RETURN_IF_ERROR(io::ReadTensorBytes(impl->file.bytes(), options, impl->contents),
                      path.native());
  return TensorFile(std::move(impl));
}

Result<TensorFile> TensorFile::Open(const std::filesystem::path& path) {
  return Open(path, Options());
}

Result<TensorFile> TensorFile::OpenParts(const std::filesystem::path& path,
                                         std::span<const Part> parts, const Options& options) {
  auto impl = std::make_unique<Impl>();
  MSP_ASSIGN_OR_RETURN(impl->file, base::FileBytes::Open(path, options.scratch));
  impl->contents.tensors.reserve(parts.size());
  for (const Part& part : parts) {
    impl->contents.tensors.push_back(
        io::ReadPart(impl->file.bytes(), part, options, impl->contents));
  }
  return TensorFile(std::move(impl));
}

uint64_t TensorFile::size_bytes() const {
  uint64_t bytes = impl_->file.bytes().size();
  for (const io::ZipBytes& member : impl_->contents.inflated) {
    bytes += member.bytes.size();
  }
  return bytes;
}
TensorFileFormat TensorFile::format() const { return impl_->contents.format; }
const std::vector<NamedTensor>& TensorFile::tensors() const { return impl_->contents.tensors; }
const std::vector<NamedScalar>& TensorFile::scalars() const { return impl_->contents.scalars; }
const std::vector<std::string>& TensorFile::warnings() const { return impl_->contents.warnings; }

std::optional<uint64_t> TensorFile::OffsetOf(const NamedTensor& tensor) const {
  const TensorView& view = tensor.view;
  const std::span<const std::byte> file = impl_->file.bytes();
  const std::less<> before;  // a total order, unlike "<" between unrelated pointers
  if (!tensor.status.ok() || view.data == nullptr || !tensor.slices.empty() ||
      tensor.quantization != nullptr || !tensor.raw_dtype.empty() || view.byte_swapped ||
      view.conjugated || view.negated || before(view.data, file.data()) ||
      before(file.data() + file.size(), view.data)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(view.data - file.data());
}

void TensorFile::ReleasePages(const TensorView& tensor, int64_t first, int64_t count) const {
  // Only where the elements lie in order; a strided walk comes back to its pages.
  TensorView layout = tensor;
  layout.byte_swapped = layout.conjugated = layout.negated = false;
  const std::span<const std::byte> file = impl_->file.bytes();
  const std::less<> before;  // a total order, unlike "<" between unrelated pointers
  if (tensor.data == nullptr || before(tensor.data, file.data()) ||
      !before(tensor.data, file.data() + file.size()) || !layout.is_plain()) {
    return;
  }
  const size_t element_bytes = DTypeSize(tensor.dtype);
  impl_->file.ReleasePages(tensor.bytes().subspan(static_cast<size_t>(first) * element_bytes,
                                                  static_cast<size_t>(count) * element_bytes));
}

Status TensorFile::VerifyChecksum(const NamedTensor& tensor, uint64_t up_to_bytes) const {
  const std::less<> before;  // a total order, unlike "<" between unrelated pointers
  const std::byte* data = tensor.view.data;
  const auto& members = impl_->contents.unchecked;
  // The last member that begins at or before the tensor.
  auto next = std::upper_bound(members.begin(), members.end(), data,
                               [before](const std::byte* address, const auto& member) {
                                 return before(address, member.bytes.data());
                               });
  if (next == members.begin()) {
    return {};
  }
  const io::TensorFileContents::UncheckedMember& member = *--next;
  if (!before(data, member.bytes.data() + member.bytes.size()) ||
      member.bytes.size() > up_to_bytes) {
    return {};
  }
  return io::CheckMemberChecksum(member.entry, member.bytes);
}

Result<const NamedTensor*> TensorFile::Single() const {
  const std::vector<NamedTensor>& all = tensors();
  if (all.size() != 1) {
    return BadFormatError(
        fmt::format("the file holds {} tensors, exactly one was expected", all.size()));
  }
  MSP_RETURN_IF_ERROR(all[0].status);
  MSP_RETURN_IF_ERROR(io::ReadBudget::ForMemory(size_bytes()).Take(all[0].view));
  return &all[0];
}

}  // namespace msprobe
