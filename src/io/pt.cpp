#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/contents.h"
#include "src/io/pickle_reader.h"
#include "src/io/pickle_tensors.h"
#include "src/io/tensor_output.h"
#include "src/kernels/crc32.h"
#include "src/tensor/element_blocks.h"

namespace msprobe::io {
namespace {

constexpr std::string_view kPickleName = "data.pkl";
constexpr uint64_t kSmallMemberBytes = 4096;
constexpr uint64_t kHeaderBytes = uint64_t{1} << 20U;  // no .npy header that is read is longer
constexpr int64_t kNewestVersion = 10;
constexpr uint64_t kMostCodeBytes = uint64_t{64} << 20U;

// Storages are members PREFIX/FOLDER/KEY, the folder being "data/" for all but constants; keys are
// looked up among members and nowhere else.
class ZipStorages final : public StorageSource {
 public:
  ZipStorages(const ZipArchive& archive, std::string_view prefix, std::string_view folder,
              const TensorFile::Options& options, TensorFileContents& contents)
      : archive_(archive), options_(options), contents_(contents), member_name_(prefix) {
    member_name_ += folder;
    prefix_bytes_ = member_name_.size();
  }

  Result<std::span<const std::byte>> Find(const StorageReference& reference) override {
    MSP_ASSIGN_OR_RETURN(const uint64_t wanted, StorageBytes(reference));
    auto known = opened_.find(reference.key);
    if (known == opened_.end()) {
      member_name_.resize(prefix_bytes_);
      member_name_ += reference.key;
      const ZipEntry* entry = archive_.Find(member_name_);
      if (entry == nullptr) {
        return BadFormatError(fmt::format("member \"{}\" is missing", member_name_.substr(0, 200)));
      }
      // PyTorch stores nothing but the storage: a compressed member of another size is a trap.
      if (!entry->stored() && entry->size_bytes != wanted) {
        return BadFormatError(
            fmt::format("member \"{}\" inflates to {} bytes, its storage declares {}",
                        entry->name.substr(0, 200), entry->size_bytes, wanted));
      }
      // A member that cannot be read is not tried again for each tensor that names it.
      known =
          opened_.emplace(reference.key, OpenTensorMember(archive_, *entry, options_, contents_))
              .first;
    }
    if (!known->second.ok()) {
      return known->second.status();
    }
    const std::span<const std::byte> bytes = *known->second;
    if (bytes.size() < wanted) {
      return BadFormatError(fmt::format("storage \"{}\" declares {} bytes, its member has {}",
                                        reference.key.substr(0, 50), wanted, bytes.size()));
    }
    return bytes.first(wanted);
  }

 private:
  const ZipArchive& archive_;
  const TensorFile::Options& options_;
  TensorFileContents& contents_;
  std::string member_name_;
  size_t prefix_bytes_ = 0;
  std::unordered_map<std::string_view, Result<std::span<const std::byte>>> opened_;
};

// A small text member beside the pickle; empty when absent.
Result<std::string> ReadSmallMember(const ZipArchive& archive, std::string_view prefix,
                                    std::string_view name) {
  std::string full(prefix);
  full += name;
  const ZipEntry* entry = archive.Find(full);
  if (entry == nullptr) {
    return std::string();
  }
  MSP_ASSIGN_OR_RETURN(const ZipBytes content, archive.Read(*entry, kSmallMemberBytes, true));
  return std::string(base::Trim(content.text()));
}

// The names in a line such as `  __buffers__ = ["running_mean", ]`.
void AddListedNames(std::string_view line, std::unordered_set<std::string>& names) {
  for (size_t open = line.find('"'); open != std::string_view::npos; open = line.find('"', open)) {
    const size_t close = line.find('"', open + 1);
    if (close == std::string_view::npos) {
      return;
    }
    names.emplace(line.substr(open + 1, close - open - 1));
    open = close + 1;
  }
}

// The declarations about modules in the sources of a TorchScript archive. Sources are read up to a
// limit of their size, and never executed. "code/__torch__/torch/nn/modules/linear.py" declares the
// classes of __torch__.torch.nn.modules.linear.
Status ReadModuleMembers(const ZipArchive& archive, std::string_view prefix,
                         ModuleMembers& members) {
  constexpr std::string_view kEnding = ".py";
  constexpr std::string_view kClass = "class ";
  uint64_t bytes_left = kMostCodeBytes;
  const std::string folder = std::string(prefix) + "code/";
  for (const ZipEntry& entry : archive.entries()) {
    if (!entry.name.starts_with(folder) || !entry.name.ends_with(kEnding)) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const ZipBytes code, archive.Read(entry, bytes_left, true));
    bytes_left -= code.bytes.size();
    const std::string_view path(entry.name);
    const std::string module = base::ReplaceAll(
        path.substr(folder.size(), path.size() - folder.size() - kEnding.size()), "/", ".");
    std::unordered_set<std::string>* names = nullptr;
    for (const std::string_view line : base::Split(code.text(), '\n')) {
      const std::string_view text = base::Trim(line);
      if (line.starts_with(kClass)) {
        const std::string_view name = line.substr(kClass.size());
        names = &members[fmt::format("{}.{}", module, name.substr(0, name.find_first_of("(:")))];
      } else if (names != nullptr &&
                 (text.starts_with("__parameters__ =") || text.starts_with("__buffers__ ="))) {
        AddListedNames(text, *names);
      }
    }
  }
  return {};
}

// One pickle and the tensors in it, whose storages are members PREFIX/FOLDER/KEY.
Status ListPickle(const ZipArchive& archive, const ZipEntry& member, std::string_view prefix,
                  std::string_view folder, bool big_endian, const TensorFile::Options& options,
                  TensorFileContents& contents, const ModuleMembers* members = nullptr) {
  const PickleLimits limits = PickleLimits::ForStored(member.compressed_bytes);
  MSP_ASSIGN_OR_RETURN(ZipBytes pickle_bytes,
                       archive.Read(member, limits.pickle_bytes, options.verify_checksums));
  MSP_ASSIGN_OR_RETURN(Pickle pickle, PickleReader::Read(pickle_bytes.bytes, limits), "member \"",
                       member.name, "\"");
  if (pickle_bytes.owned != nullptr) {
    contents.inflated_bytes += pickle_bytes.bytes.size();
    contents.inflated.push_back(std::move(pickle_bytes));  // arrays inside borrow from it
  }
  contents.pickles.push_back(std::move(pickle));
  WarnAboutGlobals(contents.pickles.back(), contents.warnings);
  ZipStorages storages(archive, prefix, folder, options, contents);
  storages.big_endian = big_endian;
  return PickleLister(contents.pickles.back(), storages, contents, members).Run();
}

// The bytes of a member as they lie in the file. Members that lie inside each other would inflate,
// or be checksummed, the same bytes again and again.
Result<std::span<const std::byte>> OpenOnce(const ZipArchive& archive, const ZipEntry& entry,
                                            TensorFileContents& contents) {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, archive.RawBytes(entry));
  if (bytes.size() > archive.size_bytes() - contents.opened_bytes) {
    return BadFormatError(fmt::format(
        "member \"{}\" of {} bytes overlaps others: together they are longer than the file",
        entry.name.substr(0, 200), bytes.size()));
  }
  contents.opened_bytes += bytes.size();
  return bytes;
}

}  // namespace

Result<std::span<const std::byte>> OpenTensorMember(const ZipArchive& archive,
                                                    const ZipEntry& entry,
                                                    const TensorFile::Options& options,
                                                    TensorFileContents& contents) {
  if (entry.stored()) {
    MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                         OpenOnce(archive, entry, contents));
    if (options.verify_checksums && bytes.size() <= options.verify_stored_up_to_bytes) {
      MSP_RETURN_IF_ERROR(CheckMemberChecksum(entry, bytes));
    } else if (entry.crc32 != 0) {
      contents.unchecked.push_back({bytes, entry});
    }
    return bytes;
  }
  if (entry.size_bytes > options.max_inflated_bytes * 4 -
                             std::min(contents.inflated_bytes, options.max_inflated_bytes * 4)) {
    return UnsupportedError(fmt::format("compressed members of more than {} bytes in one file",
                                        options.max_inflated_bytes * 4));
  }
  MSP_RETURN_IF_ERROR(OpenOnce(archive, entry, contents).status());
  MSP_ASSIGN_OR_RETURN(
      ZipBytes content,
      options.headers_only
          ? archive.ReadFront(entry, options.max_inflated_bytes, kHeaderBytes)
          : archive.Read(entry, options.max_inflated_bytes, options.verify_checksums));
  contents.inflated_bytes += content.bytes.size();
  contents.inflated.push_back(std::move(content));
  return contents.inflated.back().bytes;
}

Status ReadPtZip(const ZipArchive& archive, const ZipEntry& data_pickle,
                 const TensorFile::Options& options, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kPtZip;
  // PyTorch takes one or the other, depending on its version.
  for (const ZipEntry& entry : archive.entries()) {
    if (archive.Find(entry.name) != &entry) {
      return BadFormatError(fmt::format("member \"{}\" occurs twice", entry.name.substr(0, 200)));
    }
  }
  const std::string_view prefix =
      data_pickle.name.substr(0, data_pickle.name.size() - kPickleName.size());
  MSP_ASSIGN_OR_RETURN(const std::string version, ReadSmallMember(archive, prefix, "version"));
  const std::optional<int64_t> number = base::ParseInt(version);
  if (!version.empty() && (!number || *number < 1 || *number > kNewestVersion)) {
    return UnsupportedError(
        fmt::format("PyTorch file format version \"{}\" is not known", version.substr(0, 20)));
  }
  MSP_ASSIGN_OR_RETURN(const std::string byte_order, ReadSmallMember(archive, prefix, "byteorder"));
  if (!byte_order.empty() && byte_order != "little" && byte_order != "big") {
    return BadFormatError(
        fmt::format("byte order \"{}\" is neither little nor big", byte_order.substr(0, 20)));
  }

  // torch.jit.save: the attributes of a module tree like any object's, the constants of its code in
  // a second pickle, where freezing moves the weights, too. Of the code only what it declares to be
  // parameters and buffers is read.
  const ZipEntry* constants = archive.Find(std::string(prefix) + "constants.pkl");
  contents.pickles.reserve(2);  // tensors and scalars may borrow from a pickle
  ModuleMembers members;
  if (constants != nullptr) {
    MSP_RETURN_IF_ERROR(ReadModuleMembers(archive, prefix, members));
  }
  MSP_RETURN_IF_ERROR(ListPickle(archive, data_pickle, prefix, "data/", byte_order == "big",
                                 options, contents, constants != nullptr ? &members : nullptr));
  if (constants == nullptr) {
    return {};
  }
  contents.format = TensorFileFormat::kTorchScript;
  const size_t tensors = contents.tensors.size();
  const size_t scalars = contents.scalars.size();
  MSP_RETURN_IF_ERROR(ListPickle(archive, *constants, prefix, "constants/", byte_order == "big",
                                 options, contents));
  // As the code calls them: CONSTANTS.c0.
  const auto rename = [](std::vector<std::string>& path) {
    if (!path.empty()) {
      path[0].insert(0, 1, 'c');
    }
    path.insert(path.begin(), "CONSTANTS");
  };
  for (size_t i = tensors; i < contents.tensors.size(); ++i) {
    rename(contents.tensors[i].path);
    contents.tensors[i].is_attribute = true;
  }
  for (size_t i = scalars; i < contents.scalars.size(); ++i) {
    rename(contents.scalars[i].path);
  }
  return {};
}

namespace {

constexpr int64_t kLegacyProtocolVersion = 1001;

class LegacyStorages final : public StorageSource {
 public:
  // Notes the element size of every storage that the pickle refers to: the file itself does not say
  // it again.
  void Declare(const Pickle& pickle) {
    for (PickleId id = 0; id < pickle.value_count(); ++id) {
      if (pickle.kind(id) != PickleKind::kPersistentId) {
        continue;
      }
      // A broken reference makes its tensor unreadable when that is rebuilt.
      if (const Result<StorageReference> reference = ParseStorageReference(pickle, id);
          reference.ok()) {
        declared_.try_emplace(reference->key, DTypeSize(reference->dtype));
      }
    }
  }

  // Reads the storage of each key from `rest`; returns the bytes left over.
  Result<size_t> Locate(const Pickle& keys, std::span<const std::byte> rest) {
    if (keys.kind(keys.root()) != PickleKind::kList) {
      return BadFormatError("the list of storage keys is missing");
    }
    for (PickleId key : keys.items(keys.root())) {
      const auto declared =
          keys.kind(key) == PickleKind::kText ? declared_.find(keys.text(key)) : declared_.end();
      if (declared == declared_.end()) {
        return BadFormatError("a storage key is listed that no tensor declares");
      }
      if (rest.size() < sizeof(int64_t)) {
        return BadFormatError(
            fmt::format("the file ends before storage \"{}\"", keys.text(key).substr(0, 50)));
      }
      const int64_t count =
          big_endian ? LoadBig<int64_t>(rest.data()) : LoadLittle<int64_t>(rest.data());
      rest = rest.subspan(sizeof(int64_t));
      if (count < 0 || static_cast<uint64_t>(count) > rest.size() / declared->second) {
        return BadFormatError(
            fmt::format("storage \"{}\" claims {} elements of {} bytes, {} bytes are left",
                        keys.text(key).substr(0, 50), count, declared->second, rest.size()));
      }
      const size_t bytes = static_cast<size_t>(count) * declared->second;
      located_.insert_or_assign(declared->first, rest.first(bytes));
      rest = rest.subspan(bytes);
    }
    return rest.size();
  }

  Result<std::span<const std::byte>> Find(const StorageReference& reference) override {
    const auto found = located_.find(reference.key);
    if (found == located_.end()) {
      return BadFormatError(
          fmt::format("storage \"{}\" is not in the file", reference.key.substr(0, 50)));
    }
    MSP_ASSIGN_OR_RETURN(const uint64_t wanted, StorageBytes(reference));
    const std::span<const std::byte> bytes = found->second;
    if (bytes.size() < wanted) {
      return BadFormatError(fmt::format("storage \"{}\" declares {} bytes, the file has {}",
                                        reference.key.substr(0, 50), wanted, bytes.size()));
    }
    if (!reference.is_view) {
      return bytes.first(wanted);
    }
    const auto element_bytes = static_cast<uint64_t>(DTypeSize(reference.dtype));
    const uint64_t count = wanted / element_bytes;
    const auto offset = static_cast<uint64_t>(reference.view_offset);
    const auto size = static_cast<uint64_t>(reference.view_size);
    if (offset > count || size > count - offset) {
      return BadFormatError(
          fmt::format("a view of storage \"{}\" reaches outside it", reference.key.substr(0, 50)));
    }
    return bytes.subspan(offset * element_bytes, size * element_bytes);
  }

 private:
  std::unordered_map<std::string_view, size_t> declared_;  // element size by key
  std::unordered_map<std::string_view, std::span<const std::byte>> located_;
};

// Reads the next pickle and moves on.
Result<Pickle> NextPickle(std::span<const std::byte>& rest, std::string_view what) {
  MSP_ASSIGN_OR_RETURN(Pickle pickle, PickleReader::Read(rest), what);
  rest = rest.subspan(pickle.end_offset());
  return pickle;
}

}  // namespace

Status ReadPtLegacy(std::span<const std::byte> bytes, TensorFileContents& contents) {
  contents.format = TensorFileFormat::kPtLegacy;
  std::span<const std::byte> rest = bytes;
  MSP_ASSIGN_OR_RETURN(const Pickle magic, NextPickle(rest, "magic number"));
  MSP_ASSIGN_OR_RETURN(const Pickle version, NextPickle(rest, "protocol version"));
  if (version.AsInt(version.root()) != kLegacyProtocolVersion) {
    return UnsupportedError("a legacy PyTorch file of unknown protocol version");
  }
  MSP_ASSIGN_OR_RETURN(const Pickle system, NextPickle(rest, "system information"));
  MSP_ASSIGN_OR_RETURN(Pickle object, NextPickle(rest, "object pickle"));
  MSP_ASSIGN_OR_RETURN(const Pickle keys, NextPickle(rest, "list of storage keys"));
  contents.pickles.push_back(std::move(object));
  const Pickle& pickle = contents.pickles.back();
  WarnAboutGlobals(pickle, contents.warnings);

  LegacyStorages storages;
  const PickleId little_endian = system.Find(system.root(), "little_endian");
  storages.big_endian = little_endian != kNoPickleValue && system.AsInt(little_endian) == 0;
  storages.Declare(pickle);
  MSP_ASSIGN_OR_RETURN(const size_t left, storages.Locate(keys, rest));
  if (left > 0) {
    contents.warnings.push_back(fmt::format("{} bytes after the last storage", left));
  }
  return PickleLister(pickle, storages, contents).Run();
}

}  // namespace msprobe::io

namespace msprobe {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint64_t kZip64From = 0xFFFFFFFF;

template <typename Integer>
void AppendLittle(Integer value, std::string& out) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>((static_cast<uint64_t>(value) >> (8 * i)) & 0xFFU));
  }
}

// Emits the opcodes that Python's pickler chooses under protocol 2, memo entries included.
class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}

  void Global(std::string_view module, std::string_view name) {
    out_ += 'c';
    out_ += module;
    out_ += '\n';
    out_ += name;
    out_ += '\n';
    Memoize();
  }
  void Text(std::string_view text) {
    out_ += 'X';
    AppendLittle(static_cast<uint32_t>(text.size()), out_);
    out_ += text;
    Memoize();
  }
  void Int(int64_t value) {
    if (value < 0x100) {
      out_ += 'K';
      AppendLittle(static_cast<uint8_t>(value), out_);
    } else if (value < 0x10000) {
      out_ += 'M';
      AppendLittle(static_cast<uint16_t>(value), out_);
    } else if (value <= INT32_MAX) {
      out_ += 'J';
      AppendLittle(static_cast<int32_t>(value), out_);
    } else {
      std::string bytes;
      AppendLittle(value, bytes);
      while (bytes.back() == '\0' && (bytes[bytes.size() - 2] & '\x80') == 0) {
        bytes.pop_back();
      }
      out_ += '\x8a';
      out_ += static_cast<char>(bytes.size());
      out_ += bytes;
    }
  }
  void Sizes(const Shape& sizes) {
    if (sizes.empty()) {
      out_ += ')';
      return;
    }
    constexpr std::string_view kTupleOpcodes = "\x85\x86\x87";
    const bool marked = sizes.size() > kTupleOpcodes.size();
    out_ += marked ? "(" : "";
    for (int64_t size : sizes) {
      Int(size);
    }
    out_ += marked ? 't' : kTupleOpcodes[sizes.size() - 1];
    Memoize();
  }
  void Raw(std::string_view opcodes) { out_ += opcodes; }
  void Memoize() {
    out_ += 'q';
    out_ += static_cast<char>(memo_++);
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
  uint8_t memo_ = 0;
};

// Empty for types that only torch 2.1 and later have: they are written over untyped storages.
std::string_view StorageClassName(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "DoubleStorage";
    case DType::kFloat32:
      return "FloatStorage";
    case DType::kFloat16:
      return "HalfStorage";
    case DType::kBFloat16:
      return "BFloat16Storage";
    case DType::kInt64:
      return "LongStorage";
    case DType::kInt32:
      return "IntStorage";
    case DType::kInt16:
      return "ShortStorage";
    case DType::kInt8:
      return "CharStorage";
    case DType::kUInt8:
      return "ByteStorage";
    case DType::kBool:
      return "BoolStorage";
    case DType::kComplex64:
      return "ComplexFloatStorage";
    case DType::kComplex128:
      return "ComplexDoubleStorage";
    default:
      return "";
  }
}

std::string TensorPickle(const TensorView& tensor) {
  const std::string_view storage_class = StorageClassName(tensor.dtype);
  const bool untyped = storage_class.empty();
  PickleWriter pickle;
  pickle.Global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  pickle.Raw("((");
  pickle.Text("storage");
  pickle.Global(untyped ? "torch.storage" : "torch", untyped ? "UntypedStorage" : storage_class);
  pickle.Text("0");
  pickle.Text("cpu");
  pickle.Int(untyped ? static_cast<int64_t>(tensor.size_bytes()) : tensor.element_count());
  pickle.Raw("t");
  pickle.Memoize();
  pickle.Raw("Q");
  pickle.Int(0);
  pickle.Sizes(tensor.shape);
  pickle.Sizes(ContiguousStrides(tensor.shape));
  pickle.Raw("\x89");
  pickle.Global("collections", "OrderedDict");
  pickle.Raw(")R");
  pickle.Memoize();
  if (untyped) {
    pickle.Global("torch", DTypeName(tensor.dtype));
  }
  pickle.Raw("t");
  pickle.Memoize();
  pickle.Raw("R");
  pickle.Memoize();
  pickle.Raw(".");
  return pickle.text();
}

struct Member {
  std::string_view name;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;
  uint64_t offset = 0;
};

// Version needed, flags (UTF-8 names), method, time and date: the same in both headers.
void AppendCommonFields(std::string& out, bool zip64) {
  AppendLittle<uint16_t>(zip64 ? 45 : 20, out);
  AppendLittle<uint16_t>(0x0800, out);
  AppendLittle<uint16_t>(0, out);
  AppendLittle<uint32_t>(0, out);
}

uint32_t Saturated(uint64_t value) {
  return value >= kZip64From ? 0xFFFFFFFFU : static_cast<uint32_t>(value);
}

// Byte offset of the CRC field in a local header.
constexpr uint64_t kLocalCrcOffset = 14;

// The padding goes into an extra field "FB" so that the data starts at a multiple of 64.
std::string LocalHeader(const Member& member) {
  const bool zip64 = member.size_bytes >= kZip64From;
  std::string extra;
  if (zip64) {
    AppendLittle<uint16_t>(0x0001, extra);
    AppendLittle<uint16_t>(16, extra);
    AppendLittle(member.size_bytes, extra);
    AppendLittle(member.size_bytes, extra);
  }
  constexpr size_t kFixedBytes = 30;
  constexpr size_t kExtraHeaderBytes = 4;
  const size_t unpadded =
      member.offset + kFixedBytes + member.name.size() + extra.size() + kExtraHeaderBytes;
  const size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  extra += "FB";
  AppendLittle(static_cast<uint16_t>(padding), extra);
  extra.append(padding, 'Z');

  std::string header = "PK\x03\x04";
  AppendCommonFields(header, zip64);
  AppendLittle(member.crc32, header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(static_cast<uint16_t>(member.name.size()), header);
  AppendLittle(static_cast<uint16_t>(extra.size()), header);
  header += member.name;
  return header + extra;
}

std::string DirectoryHeader(const Member& member) {
  std::string extra;
  for (uint64_t value : {member.size_bytes, member.size_bytes, member.offset}) {
    if (value >= kZip64From) {
      AppendLittle(value, extra);
    }
  }
  if (!extra.empty()) {
    std::string field;
    AppendLittle<uint16_t>(0x0001, field);
    AppendLittle(static_cast<uint16_t>(extra.size()), field);
    extra.insert(0, field);
  }
  std::string header = "PK\x01\x02";
  AppendLittle<uint16_t>(extra.empty() ? 20 : 45, header);
  AppendCommonFields(header, !extra.empty());
  AppendLittle(member.crc32, header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(Saturated(member.size_bytes), header);
  AppendLittle(static_cast<uint16_t>(member.name.size()), header);
  AppendLittle(static_cast<uint16_t>(extra.size()), header);
  AppendLittle<uint16_t>(0, header);  // comment
  AppendLittle<uint16_t>(0, header);  // disk
  AppendLittle<uint16_t>(0, header);  // internal attributes
  AppendLittle<uint32_t>(0, header);  // external attributes
  AppendLittle(Saturated(member.offset), header);
  header += member.name;
  return header + extra;
}

std::string EndRecords(uint64_t count, uint64_t directory_bytes, uint64_t directory_offset) {
  std::string out;
  if (directory_offset >= kZip64From) {
    const uint64_t end_offset = directory_offset + directory_bytes;
    out += "PK\x06\x06";
    AppendLittle<uint64_t>(44, out);
    AppendLittle<uint16_t>(45, out);
    AppendLittle<uint16_t>(45, out);
    AppendLittle<uint64_t>(0, out);  // both disk numbers
    AppendLittle(count, out);
    AppendLittle(count, out);
    AppendLittle(directory_bytes, out);
    AppendLittle(directory_offset, out);
    out += "PK\x06\x07";
    AppendLittle<uint32_t>(0, out);
    AppendLittle(end_offset, out);
    AppendLittle<uint32_t>(1, out);
  }
  out += "PK\x05\x06";
  AppendLittle<uint32_t>(0, out);  // both disk numbers
  AppendLittle(static_cast<uint16_t>(count), out);
  AppendLittle(static_cast<uint16_t>(count), out);
  AppendLittle(static_cast<uint32_t>(directory_bytes), out);
  AppendLittle(Saturated(directory_offset), out);
  AppendLittle<uint16_t>(0, out);
  return out;
}

// The members of an archive while its bytes are put together. Offsets count from the begin of the
// file, of which `out` is the part not yet written.
class ArchiveLayout {
 public:
  void AddText(std::string_view name, std::string_view content, std::string& out) {
    AddHeader({name, content.size(), kernels::Crc32(content), written_ + out.size()}, out);
    out += content;
  }
  // The data follows behind what `out` holds.
  void AddData(std::string_view name, uint64_t size_bytes, uint32_t crc32, std::string& out) {
    AddHeader({name, size_bytes, crc32, written_ + out.size()}, out);
    data_ = members_.size() - 1;
    written_ += out.size() + size_bytes;
  }
  void SetDataCrc(uint32_t crc32) { members_[data_].crc32 = crc32; }
  uint64_t data_crc_offset() const { return members_[data_].offset + kLocalCrcOffset; }
  void AddDirectory(std::string& out) const {
    const uint64_t offset = written_ + out.size();
    const size_t begin = out.size();
    for (const Member& member : members_) {
      out += DirectoryHeader(member);
    }
    out += EndRecords(members_.size(), out.size() - begin, offset);
  }

 private:
  void AddHeader(const Member& member, std::string& out) {
    members_.push_back(member);
    out += LocalHeader(member);
  }

  std::vector<Member> members_;
  uint64_t written_ = 0;
  size_t data_ = 0;
};

}  // namespace

Status io::WritePtTo(base::AtomicFile& file, const TensorView& view,
                     std::optional<uint32_t> data_crc32) {
  const bool plain = view.is_plain();
  // A strided view passes through once: its checksum is filled in afterwards.
  uint32_t crc32 = data_crc32 ? *data_crc32 : plain ? kernels::Crc32(view.bytes()) : 0;
  ArchiveLayout archive;
  std::string head;
  archive.AddText("archive/data.pkl", TensorPickle(view), head);
  archive.AddText("archive/byteorder", "little", head);
  archive.AddData("archive/data/0", view.size_bytes(), crc32, head);

  const auto make_tail = [&archive] {
    std::string tail;
    archive.AddText("archive/version", "3\n", tail);
    archive.AddDirectory(tail);
    return tail;
  };
  if (plain) {
    return WriteParts(file, head, view.bytes(), make_tail());
  }
  MSP_RETURN_IF_ERROR(file.Write(head));
  const bool compute = !data_crc32.has_value();
  std::vector<std::byte> scratch;
  MSP_RETURN_IF_ERROR(tensor::ForEachBlock(view, tensor::kCopyBlockElements, scratch,
                                           [&](std::span<const std::byte> block, size_t) {
                                             crc32 = compute ? kernels::Crc32(block, crc32) : crc32;
                                             return file.Write(block);
                                           }));
  if (compute) {
    std::string crc;
    AppendLittle(crc32, crc);
    MSP_RETURN_IF_ERROR(file.WriteAt(archive.data_crc_offset(), crc));
    archive.SetDataCrc(crc32);
  }
  return file.Write(make_tail());
}

Status WritePtFile(const std::filesystem::path& path, const TensorView& tensor) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file,
                       base::AtomicFile::Create(path, base::Existing::kReplace));
  MSP_RETURN_IF_ERROR(io::WritePtTo(file, tensor, std::nullopt));
  return file.Commit();
}

}  // namespace msprobe
