#include "src/io/zip.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <libdeflate.h>
#include <zlib.h>

#include "src/io/contents.h"
#include "src/kernels/crc32.h"

namespace msprobe::io {
namespace {

constexpr uint32_t kLocalHeader = 0x04034B50;
constexpr uint32_t kDirectoryHeader = 0x02014B50;
constexpr uint32_t kEndRecord = 0x06054B50;
constexpr uint32_t kZip64EndRecord = 0x06064B50;
constexpr uint32_t kZip64Locator = 0x07064B50;

constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kDirectoryHeaderBytes = 46;
constexpr size_t kEndRecordBytes = 22;
constexpr size_t kZip64EndRecordBytes = 56;
constexpr size_t kZip64LocatorBytes = 20;
constexpr size_t kLongestComment = 65535;

constexpr uint16_t kFlagEncrypted = 0x0001;
constexpr uint16_t kFlagPatch = 0x0020;
constexpr uint16_t kFlagStrongEncryption = 0x0040;
constexpr uint16_t kMethodStored = 0;
constexpr uint16_t kMethodDeflated = 8;
constexpr uint16_t kZip64ExtraField = 0x0001;
// Deflate cannot expand by more than about 1032: a higher claim is a lie.
constexpr uint64_t kMaxInflateRatio = 1100;
constexpr size_t kIndexAboveEntries = 16;

std::string Quoted(std::string_view name) { return fmt::format("\"{}\"", name.substr(0, 200)); }

struct Directory {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t count = 0;
};

std::optional<size_t> FindEndRecord(std::span<const std::byte> file) {
  if (file.size() < kEndRecordBytes) {
    return std::nullopt;
  }
  const size_t last = file.size() - kEndRecordBytes;
  const size_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (LoadLittle<uint32_t>(&file[at]) == kEndRecord &&
        at + kEndRecordBytes + LoadLittle<uint16_t>(&file[at + 20]) <= file.size()) {
      return at;
    }
  }
  return std::nullopt;
}

// A value of the end record and its zip64 twin: the small one either agrees or is saturated.
Status AgreeOn(std::string_view what, uint64_t small, uint64_t saturated, uint64_t large) {
  if (small != saturated && small != large) {
    return BadFormatError(
        fmt::format("zip end records disagree about the {} ({} and {})", what, small, large));
  }
  return {};
}

Result<Directory> FindDirectory(std::span<const std::byte> file) {
  const std::optional<size_t> end = FindEndRecord(file);
  if (!end) {
    return BadFormatError("no end record of a zip archive: the file is truncated or damaged");
  }
  const std::byte* record = &file[*end];
  if (LoadLittle<uint16_t>(record + 4) != LoadLittle<uint16_t>(record + 6)) {
    return UnsupportedError("zip archives in several volumes are not supported");
  }
  Directory directory;
  directory.count = LoadLittle<uint16_t>(record + 10);
  directory.size = LoadLittle<uint32_t>(record + 12);
  directory.offset = LoadLittle<uint32_t>(record + 16);
  if (*end >= kZip64LocatorBytes &&
      LoadLittle<uint32_t>(record - kZip64LocatorBytes) == kZip64Locator) {
    const uint64_t at = LoadLittle<uint64_t>(record - kZip64LocatorBytes + 8);
    const uint64_t limit = *end - kZip64LocatorBytes;
    if (limit < kZip64EndRecordBytes || at > limit - kZip64EndRecordBytes ||
        LoadLittle<uint32_t>(&file[at]) != kZip64EndRecord) {
      return BadFormatError(fmt::format("zip64 end record is not at byte {}", at));
    }
    const std::byte* large = &file[at];
    const Directory wide{LoadLittle<uint64_t>(large + 48), LoadLittle<uint64_t>(large + 40),
                         LoadLittle<uint64_t>(large + 32)};
    MSP_RETURN_IF_ERROR(AgreeOn("number of members", directory.count, 0xFFFF, wide.count));
    MSP_RETURN_IF_ERROR(AgreeOn("directory size", directory.size, 0xFFFFFFFF, wide.size));
    MSP_RETURN_IF_ERROR(AgreeOn("directory offset", directory.offset, 0xFFFFFFFF, wide.offset));
    directory = wide;
  }
  if (directory.offset > *end || directory.size > *end - directory.offset) {
    return BadFormatError(fmt::format("zip directory (offset {}, {} bytes) lies outside the file",
                                      directory.offset, directory.size));
  }
  return directory;
}

// Replaces saturated 32-bit fields by those of the zip64 extra field, in the order the format
// fixes.
Status ApplyZip64Extra(std::span<const std::byte> extra, ZipEntry& entry) {
  uint64_t* const fields[] = {&entry.size_bytes, &entry.compressed_bytes,
                              &entry.local_header_offset};
  if (std::none_of(std::begin(fields), std::end(fields),
                   [](const uint64_t* f) { return *f == 0xFFFFFFFF; })) {
    return {};
  }
  while (extra.size() >= 4) {
    const uint16_t tag = LoadLittle<uint16_t>(extra.data());
    const size_t length = LoadLittle<uint16_t>(extra.data() + 2);
    if (length > extra.size() - 4) {
      break;
    }
    if (tag != kZip64ExtraField) {
      extra = extra.subspan(4 + length);
      continue;
    }
    std::span<const std::byte> values = extra.subspan(4, length);
    for (uint64_t* field : fields) {
      if (*field != 0xFFFFFFFF) {
        continue;
      }
      if (values.size() < 8) {
        return BadFormatError(fmt::format("member {}: short zip64 field", Quoted(entry.name)));
      }
      *field = LoadLittle<uint64_t>(values.data());
      values = values.subspan(8);
    }
    return {};
  }
  return {};  // exactly 0xFFFFFFFF without a zip64 field: the bounds checks below judge it
}

}  // namespace

bool ZipEntry::IsSafeToExtract() const {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos || name.find(':') != std::string_view::npos) {
    return false;
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == ".." || part == ".") {
      return false;
    }
    begin = end + 1;
  }
  constexpr uint8_t kUnix = 3;
  constexpr uint32_t kTypeMask = 0170000;
  constexpr uint32_t kRegular = 0100000;
  constexpr uint32_t kFolder = 0040000;
  const uint32_t type = (external_attributes >> 16U) & kTypeMask;
  return host_system != kUnix || type == 0 || type == kRegular || type == kFolder;
}

Result<ZipArchive> ZipArchive::Open(std::span<const std::byte> file) {
  MSP_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  ZipArchive archive;
  archive.file_ = file;
  archive.directory_offset_ = directory.offset;
  MSP_RETURN_IF_ERROR(archive.ParseDirectory(directory.offset, directory.size, directory.count));
  return archive;
}

Status ZipArchive::ParseDirectory(uint64_t offset, uint64_t size, uint64_t count) {
  if (count > size / kDirectoryHeaderBytes) {
    return BadFormatError(
        fmt::format("zip directory of {} bytes cannot hold {} members", size, count));
  }
  std::span<const std::byte> rest = file_.subspan(offset, size);
  entries_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (rest.size() < kDirectoryHeaderBytes ||
        LoadLittle<uint32_t>(rest.data()) != kDirectoryHeader) {
      return BadFormatError(
          fmt::format("zip directory is damaged at member {} of {}", i + 1, count));
    }
    const std::byte* header = rest.data();
    const size_t name_bytes = LoadLittle<uint16_t>(header + 28);
    const size_t extra_bytes = LoadLittle<uint16_t>(header + 30);
    const size_t comment_bytes = LoadLittle<uint16_t>(header + 32);
    const size_t entry_bytes = kDirectoryHeaderBytes + name_bytes + extra_bytes + comment_bytes;
    if (entry_bytes > rest.size()) {
      return BadFormatError(fmt::format("zip directory ends inside member {} of {}", i + 1, count));
    }
    ZipEntry entry;
    entry.name = AsText(header + kDirectoryHeaderBytes, name_bytes);
    entry.host_system = std::to_integer<uint8_t>(header[5]);
    entry.flags = LoadLittle<uint16_t>(header + 8);
    entry.method = LoadLittle<uint16_t>(header + 10);
    entry.crc32 = LoadLittle<uint32_t>(header + 16);
    entry.compressed_bytes = LoadLittle<uint32_t>(header + 20);
    entry.size_bytes = LoadLittle<uint32_t>(header + 24);
    entry.external_attributes = LoadLittle<uint32_t>(header + 38);
    entry.local_header_offset = LoadLittle<uint32_t>(header + 42);
    MSP_RETURN_IF_ERROR(
        ApplyZip64Extra(rest.subspan(kDirectoryHeaderBytes + name_bytes, extra_bytes), entry));
    entries_.push_back(entry);
    rest = rest.subspan(entry_bytes);
  }
  if (!rest.empty()) {
    return BadFormatError(
        fmt::format("zip directory has {} bytes after its {} members", rest.size(), count));
  }
  if (entries_.size() > kIndexAboveEntries) {
    index_.reserve(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      index_[entries_[i].name] = i;
    }
  }
  return {};
}

const ZipEntry* ZipArchive::Find(std::string_view name) const {
  if (!index_.empty()) {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &entries_[found->second];
  }
  for (size_t i = entries_.size(); i-- > 0;) {
    if (entries_[i].name == name) {
      return &entries_[i];
    }
  }
  return nullptr;
}

Result<std::span<const std::byte>> ZipArchive::RawBytes(const ZipEntry& entry) const {
  if ((entry.flags & kFlagPatch) != 0) {
    return UnsupportedError(fmt::format("member {} is a patch of another", Quoted(entry.name)));
  }
  if ((entry.flags & (kFlagEncrypted | kFlagStrongEncryption)) != 0) {
    return UnsupportedError(fmt::format("member {} is encrypted", Quoted(entry.name)));
  }
  if (entry.method != kMethodStored && entry.method != kMethodDeflated) {
    return UnsupportedError(fmt::format("member {} uses compression method {}", Quoted(entry.name),
                                        entry.method))
        .WithHint("only stored and deflated members can be read");
  }
  if (entry.stored() && entry.compressed_bytes != entry.size_bytes) {
    return BadFormatError(fmt::format("member {} is stored but claims {} bytes of {}",
                                      Quoted(entry.name), entry.size_bytes,
                                      entry.compressed_bytes));
  }
  // Members lie before the directory.
  const uint64_t offset = entry.local_header_offset;
  if (directory_offset_ < kLocalHeaderBytes || offset > directory_offset_ - kLocalHeaderBytes ||
      LoadLittle<uint32_t>(&file_[offset]) != kLocalHeader) {
    return BadFormatError(
        fmt::format("member {}: no header at byte {}", Quoted(entry.name), offset));
  }
  const std::byte* header = &file_[offset];
  const size_t name_bytes = LoadLittle<uint16_t>(header + 26);
  const size_t extra_bytes = LoadLittle<uint16_t>(header + 28);
  const uint64_t room = directory_offset_ - kLocalHeaderBytes - offset;
  if (name_bytes + extra_bytes > room || entry.compressed_bytes > room - name_bytes - extra_bytes) {
    return BadFormatError(fmt::format("member {} of {} bytes at byte {} does not fit into the file",
                                      Quoted(entry.name), entry.compressed_bytes, offset));
  }
  if (AsText(header + kLocalHeaderBytes, name_bytes) != entry.name) {
    return BadFormatError(fmt::format("member {}: the header at byte {} has another name",
                                      Quoted(entry.name), offset));
  }
  return file_.subspan(offset + kLocalHeaderBytes + name_bytes + extra_bytes,
                       entry.compressed_bytes);
}

Result<ZipBytes> ZipArchive::MakeRoom(const ZipEntry& entry, std::span<const std::byte> raw,
                                      uint64_t limit_bytes) {
  if (entry.size_bytes > limit_bytes) {
    return UnsupportedError(fmt::format("member {} has {} bytes, more than the limit of {}",
                                        Quoted(entry.name), entry.size_bytes, limit_bytes));
  }
  if (entry.size_bytes / kMaxInflateRatio > raw.size()) {
    return BadFormatError(fmt::format("member {} claims to inflate {} bytes to {}",
                                      Quoted(entry.name), raw.size(), entry.size_bytes));
  }
  ZipBytes result;
  result.owned.reset(new (std::nothrow) std::byte[std::max<uint64_t>(entry.size_bytes, 1)]);
  if (result.owned == nullptr) {
    return UnsupportedError(fmt::format("no memory for the {} bytes of member {}", entry.size_bytes,
                                        Quoted(entry.name)));
  }
  result.bytes = {result.owned.get(), static_cast<size_t>(entry.size_bytes)};
  return result;
}

Result<ZipBytes> ZipArchive::Read(const ZipEntry& entry, uint64_t limit_bytes,
                                  bool verify_checksum) const {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> raw, RawBytes(entry));
  ZipBytes result;
  if (entry.stored()) {
    if (entry.size_bytes > limit_bytes) {
      return UnsupportedError(fmt::format("member {} has {} bytes, more than the limit of {}",
                                          Quoted(entry.name), entry.size_bytes, limit_bytes));
    }
    result.bytes = raw;
  } else {
    MSP_ASSIGN_OR_RETURN(result, MakeRoom(entry, raw, limit_bytes));
    // One byte more than claimed is never written: the exact size is the hard limit of the
    // decompressor.
    const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> inflater(
        libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
    if (inflater == nullptr) {
      return UnsupportedError(fmt::format("no memory to inflate member {}", Quoted(entry.name)));
    }
    if (libdeflate_deflate_decompress(inflater.get(), raw.data(), raw.size(), result.owned.get(),
                                      entry.size_bytes, nullptr) != LIBDEFLATE_SUCCESS) {
      return BadFormatError(fmt::format("member {}: its {} compressed bytes do not inflate to {}",
                                        Quoted(entry.name), raw.size(), entry.size_bytes));
    }
  }
  if (verify_checksum) {
    MSP_RETURN_IF_ERROR(CheckMemberChecksum(entry, result.bytes));
  }
  return result;
}

// libdeflate inflates whole members only; zlib can stop anywhere.
Result<ZipBytes> ZipArchive::ReadFront(const ZipEntry& entry, uint64_t limit_bytes,
                                       uint64_t front_bytes) const {
  MSP_ASSIGN_OR_RETURN(const std::span<const std::byte> raw, RawBytes(entry));
  MSP_ASSIGN_OR_RETURN(ZipBytes result, MakeRoom(entry, raw, limit_bytes));
  constexpr uint64_t kMost = UINT32_MAX;  // of zlib's counters
  z_stream stream = {};
  constexpr int kRawDeflate = -15;
  if (inflateInit2(&stream, kRawDeflate) != Z_OK) {
    return UnsupportedError(fmt::format("no memory to inflate member {}", Quoted(entry.name)));
  }
  const uint64_t wanted = std::min({front_bytes, entry.size_bytes, kMost});
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(raw.data()));  // only read
  stream.avail_in = static_cast<uInt>(std::min<uint64_t>(raw.size(), kMost));
  stream.next_out = reinterpret_cast<Bytef*>(result.owned.get());
  stream.avail_out = static_cast<uInt>(wanted);
  const int code = wanted == 0 ? Z_STREAM_END : inflate(&stream, Z_SYNC_FLUSH);
  const bool filled = stream.avail_out == 0;
  inflateEnd(&stream);
  if ((code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) || !filled) {
    return BadFormatError(fmt::format("member {}: its {} compressed bytes do not inflate to {}",
                                      Quoted(entry.name), raw.size(), entry.size_bytes));
  }
  return result;
}

Status CheckMemberChecksum(const ZipEntry& entry, std::span<const std::byte> bytes) {
  if (entry.crc32 == 0) {
    return {};
  }
  const uint32_t actual = kernels::Crc32(bytes);
  if (actual != entry.crc32) {
    return BadFormatError(
        fmt::format("member {} is damaged: its checksum is {:08x}, recorded is {:08x}",
                    Quoted(entry.name), actual, entry.crc32));
  }
  return {};
}

namespace {

constexpr uint32_t kLocalSignature = 0x04034B50;
constexpr uint32_t kDirectorySignature = 0x02014B50;
constexpr uint32_t kEndSignature = 0x06054B50;
constexpr uint32_t kEnd64Signature = 0x06064B50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064B50;
constexpr uint16_t kVersion = 20;
constexpr uint16_t kVersion64 = 45;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kUtf8Name = 0x0800;
constexpr uint16_t kDate1980 = 0x0021;  // the first day that the format knows
constexpr uint16_t kZip64Field = 0x0001;
constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr int kLevel = 6;
constexpr uint16_t kMax16 = std::numeric_limits<uint16_t>::max();

// Little-endian, whatever the machine.
template <std::unsigned_integral Integer>
void Put(std::string& out, Integer value) {
  for (size_t byte = 0; byte < sizeof(Integer); ++byte) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * byte)));
  }
}

uint32_t Crc32(std::string_view text) { return libdeflate_crc32(0, text.data(), text.size()); }

uint32_t Clamp32(uint64_t value) { return value >= kMax32 ? kMax32 : static_cast<uint32_t>(value); }
uint16_t Clamp16(uint64_t value) { return value >= kMax16 ? kMax16 : static_cast<uint16_t>(value); }

}  // namespace

std::string ZipWriter::LocalHeader(const Member& member) {
  std::string out;
  Put(out, kLocalSignature);
  Put(out, member.large ? kVersion64 : kVersion);
  Put(out, kUtf8Name);
  Put(out, member.method);
  Put(out, uint16_t{0});  // midnight
  Put(out, kDate1980);
  Put(out, member.crc32);
  Put(out, member.large ? kMax32 : Clamp32(member.compressed_bytes));
  Put(out, member.large ? kMax32 : Clamp32(member.size_bytes));
  Put(out, static_cast<uint16_t>(member.name.size()));
  Put(out, static_cast<uint16_t>(member.large ? 20 : 0));
  out += member.name;
  if (member.large) {
    Put(out, kZip64Field);
    Put(out, uint16_t{16});
    Put(out, member.size_bytes);
    Put(out, member.compressed_bytes);
  }
  return out;
}

std::string ZipWriter::DirectoryEntry(const Member& member) {
  // Only the values that do not fit stand in the extra field, in this order.
  std::string extra;
  for (const uint64_t value : {member.size_bytes, member.compressed_bytes, member.offset}) {
    if (value >= kMax32) {
      Put(extra, value);
    }
  }
  std::string out;
  Put(out, kDirectorySignature);
  Put(out, kVersion64);
  Put(out, member.large || !extra.empty() ? kVersion64 : kVersion);
  Put(out, kUtf8Name);
  Put(out, member.method);
  Put(out, uint16_t{0});
  Put(out, kDate1980);
  Put(out, member.crc32);
  Put(out, Clamp32(member.compressed_bytes));
  Put(out, Clamp32(member.size_bytes));
  Put(out, static_cast<uint16_t>(member.name.size()));
  Put(out, static_cast<uint16_t>(extra.empty() ? 0 : extra.size() + 4));
  Put(out, uint16_t{0});  // comment
  Put(out, uint16_t{0});  // disk
  Put(out, uint16_t{0});  // internal attributes
  Put(out, uint32_t{0});  // external attributes
  Put(out, Clamp32(member.offset));
  out += member.name;
  if (!extra.empty()) {
    Put(out, kZip64Field);
    Put(out, static_cast<uint16_t>(extra.size()));
    out += extra;
  }
  return out;
}

Status ZipWriter::AddStored(std::string_view name, std::string_view content) {
  Member& member = members_.emplace_back();
  member.name = name;
  member.offset = file_.size_bytes();
  member.compressed_bytes = content.size();
  member.size_bytes = content.size();
  member.crc32 = Crc32(content);
  MSP_RETURN_IF_ERROR(file_.Write(LocalHeader(member)));
  return file_.Write(content);
}

Status ZipWriter::AddDeflated(std::string_view name, std::string_view content) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(kLevel), libdeflate_free_compressor);
  if (compressor == nullptr) {
    return InternalError(fmt::format("cannot compress {}: out of memory", name))
        .WithHint("free memory, or raise the limit of the shell or container");
  }
  std::string compressed(libdeflate_deflate_compress_bound(compressor.get(), content.size()), '\0');
  compressed.resize(libdeflate_deflate_compress(compressor.get(), content.data(), content.size(),
                                                compressed.data(), compressed.size()));
  MSP_RETURN_IF_ERROR(Begin(name, false));
  MSP_RETURN_IF_ERROR(Append(compressed));
  return End(Crc32(content), content.size());
}

Status ZipWriter::Begin(std::string_view name, bool may_be_large) {
  Member& member = members_.emplace_back();
  member.name = name;
  member.offset = file_.size_bytes();
  member.method = kDeflated;
  member.large = may_be_large;
  return file_.Write(LocalHeader(member));  // written again at the end, when all is known
}

Status ZipWriter::End(uint32_t crc32, uint64_t size_bytes) {
  Member& member = members_.back();
  member.crc32 = crc32;
  member.size_bytes = size_bytes;
  member.compressed_bytes = file_.size_bytes() - member.offset - LocalHeader(member).size();
  if (!member.large && (member.size_bytes >= kMax32 || member.compressed_bytes >= kMax32)) {
    return InternalError(fmt::format("zip member {} grew beyond 4 GiB", member.name));
  }
  return file_.WriteAt(member.offset, LocalHeader(member));
}

Status ZipWriter::Finish() {
  const uint64_t start = file_.size_bytes();
  for (const Member& member : members_) {
    MSP_RETURN_IF_ERROR(file_.Write(DirectoryEntry(member)));
  }
  const uint64_t end = file_.size_bytes();
  const uint64_t size = end - start;
  const uint64_t count = members_.size();
  std::string out;
  if (start >= kMax32 || size >= kMax32 || count >= kMax16) {
    Put(out, kEnd64Signature);
    Put(out, uint64_t{44});  // bytes that follow
    Put(out, kVersion64);
    Put(out, kVersion64);
    Put(out, uint32_t{0});
    Put(out, uint32_t{0});
    Put(out, count);
    Put(out, count);
    Put(out, size);
    Put(out, start);
    Put(out, kEnd64LocatorSignature);
    Put(out, uint32_t{0});
    Put(out, end);
    Put(out, uint32_t{1});
  }
  Put(out, kEndSignature);
  Put(out, uint16_t{0});
  Put(out, uint16_t{0});
  Put(out, Clamp16(count));
  Put(out, Clamp16(count));
  Put(out, Clamp32(size));
  Put(out, Clamp32(start));
  Put(out, uint16_t{0});
  return file_.Write(out);
}

}  // namespace msprobe::io
