#include "src/io/zip_writer.h"

#include <concepts>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <libdeflate.h>

namespace msprobe::io {
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
