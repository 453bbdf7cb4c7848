#include "src/report/zip_writer.h"

#include <algorithm>

#include <zlib.h>

namespace msprobe::report {
namespace {

constexpr uint32_t kMax32 = UINT32_MAX;
constexpr size_t kLocalHeaderBytes = 30;
// Every local header keeps room for the 64-bit sizes, which are known last. While they are not
// needed the room is labelled with an ID that readers skip.
constexpr uint16_t kZip64Id = 0x0001;
constexpr uint16_t kPaddingId = 0x4246;
constexpr uint16_t kZip64SizesBytes = 16;
constexpr uint16_t kUtf8NamesFlag = 0x0800;
// 1980-01-01 00:00, the earliest date of the format: equal tables give equal files.
constexpr uint16_t kNoTime = 0;
constexpr uint16_t kNoDate = 0x0021;

void AppendInteger(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
}

uint32_t Capped(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, kMax32)); }

// One block as raw deflate, ending on a byte boundary so that the next one can follow.
bool Deflate(std::string_view plain, std::string& out) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    return false;
  }
  // A sync flush adds at most a few bytes to the bound.
  out.resize(deflateBound(&stream, plain.size()) + 16);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int outcome = deflate(&stream, Z_SYNC_FLUSH);
  const bool complete = outcome == Z_OK && stream.avail_in == 0 && stream.avail_out > 0;
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return complete;
}

// An empty final block with fixed codes: the end of a deflate stream.
constexpr std::string_view kDeflateEnd("\x03\x00", 2);

}  // namespace

Result<ZipWriter> ZipWriter::Create(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  return ZipWriter(std::move(file));
}

Status ZipWriter::BeginMember(std::string_view name, bool deflated) {
  Member member;
  member.name = name;
  member.offset = file_.size_bytes();
  member.deflated = deflated;
  members_.push_back(member);
  // The space is filled in by EndMember.
  return file_.Write(std::string(kLocalHeaderBytes + name.size() + 4 + kZip64SizesBytes, '\0'));
}

Status ZipWriter::EndMember() {
  const Member& member = members_.back();
  const bool zip64 = member.plain_bytes >= kMax32 || member.compressed_bytes >= kMax32;
  std::string header = "PK\x03\x04";
  AppendInteger(header, zip64 ? 45 : 20, 2);
  AppendInteger(header, kUtf8NamesFlag, 2);
  AppendInteger(header, member.deflated ? 8 : 0, 2);
  AppendInteger(header, kNoTime, 2);
  AppendInteger(header, kNoDate, 2);
  AppendInteger(header, member.crc, 4);
  AppendInteger(header, zip64 ? kMax32 : member.compressed_bytes, 4);
  AppendInteger(header, zip64 ? kMax32 : member.plain_bytes, 4);
  AppendInteger(header, member.name.size(), 2);
  AppendInteger(header, 4 + kZip64SizesBytes, 2);
  header += member.name;
  AppendInteger(header, zip64 ? kZip64Id : kPaddingId, 2);
  AppendInteger(header, kZip64SizesBytes, 2);
  AppendInteger(header, zip64 ? member.plain_bytes : 0, 8);
  AppendInteger(header, zip64 ? member.compressed_bytes : 0, 8);
  return file_.WriteAt(member.offset, header);
}

Status ZipWriter::AddMember(std::string_view name, std::string_view content) {
  MSP_RETURN_IF_ERROR(BeginMember(name, /*deflated=*/false));
  Member& member = members_.back();
  member.plain_bytes = content.size();
  member.compressed_bytes = content.size();
  member.crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  MSP_RETURN_IF_ERROR(file_.Write(content));
  return EndMember();
}

Status ZipWriter::AddMemberInBlocks(
    std::string_view name, size_t count,
    const std::function<void(size_t block, std::string& out)>& make_block, base::ThreadPool& pool) {
  struct Block {
    std::string plain;
    std::string compressed;
    uint32_t crc = 0;
    bool complete = true;
  };
  MSP_RETURN_IF_ERROR(BeginMember(name, /*deflated=*/true));
  Member& member = members_.back();
  // Enough blocks in flight to keep the threads busy between two writes.
  std::vector<Block> window(std::min(count, pool.thread_count() * 4));
  for (size_t first = 0; first < count; first += window.size()) {
    const size_t blocks = std::min(window.size(), count - first);
    pool.ParallelFor(blocks, [&](size_t i, size_t) {
      Block& block = window[i];
      block.plain.clear();
      make_block(first + i, block.plain);
      block.crc = static_cast<uint32_t>(
          crc32_z(0, reinterpret_cast<const Bytef*>(block.plain.data()), block.plain.size()));
      block.complete = Deflate(block.plain, block.compressed);
    });
    for (size_t i = 0; i < blocks; ++i) {
      const Block& block = window[i];
      if (!block.complete) {
        return InternalError("a block of the workbook could not be compressed");
      }
      member.crc = static_cast<uint32_t>(
          crc32_combine(member.crc, block.crc, static_cast<z_off_t>(block.plain.size())));
      member.plain_bytes += block.plain.size();
      member.compressed_bytes += block.compressed.size();
      MSP_RETURN_IF_ERROR(file_.Write(block.compressed));
    }
  }
  MSP_RETURN_IF_ERROR(file_.Write(kDeflateEnd));
  member.compressed_bytes += kDeflateEnd.size();
  return EndMember();
}

Status ZipWriter::Commit() {
  std::string directory;
  for (const Member& member : members_) {
    std::string sizes;
    for (const uint64_t value : {member.plain_bytes, member.compressed_bytes, member.offset}) {
      if (value >= kMax32) {
        AppendInteger(sizes, value, 8);
      }
    }
    directory += "PK\x01\x02";
    AppendInteger(directory, 45, 2);
    AppendInteger(directory, sizes.empty() ? 20 : 45, 2);
    AppendInteger(directory, kUtf8NamesFlag, 2);
    AppendInteger(directory, member.deflated ? 8 : 0, 2);
    AppendInteger(directory, kNoTime, 2);
    AppendInteger(directory, kNoDate, 2);
    AppendInteger(directory, member.crc, 4);
    AppendInteger(directory, Capped(member.compressed_bytes), 4);
    AppendInteger(directory, Capped(member.plain_bytes), 4);
    AppendInteger(directory, member.name.size(), 2);
    AppendInteger(directory, sizes.empty() ? 0 : sizes.size() + 4, 2);
    AppendInteger(directory, 0, 2);  // comment
    AppendInteger(directory, 0, 2);  // disk
    AppendInteger(directory, 0, 2);  // internal attributes
    AppendInteger(directory, 0, 4);  // external attributes
    AppendInteger(directory, Capped(member.offset), 4);
    directory += member.name;
    if (!sizes.empty()) {
      AppendInteger(directory, kZip64Id, 2);
      AppendInteger(directory, sizes.size(), 2);
      directory += sizes;
    }
  }
  const uint64_t start = file_.size_bytes();
  const uint64_t directory_bytes = directory.size();
  if (start + directory_bytes >= kMax32) {
    const uint64_t record = start + directory_bytes;
    directory += "PK\x06\x06";
    AppendInteger(directory, 44, 8);
    AppendInteger(directory, 45, 2);
    AppendInteger(directory, 45, 2);
    AppendInteger(directory, 0, 4);
    AppendInteger(directory, 0, 4);
    AppendInteger(directory, members_.size(), 8);
    AppendInteger(directory, members_.size(), 8);
    AppendInteger(directory, directory_bytes, 8);
    AppendInteger(directory, start, 8);
    directory += "PK\x06\x07";
    AppendInteger(directory, 0, 4);
    AppendInteger(directory, record, 8);
    AppendInteger(directory, 1, 4);
  }
  directory += "PK\x05\x06";
  AppendInteger(directory, 0, 2);
  AppendInteger(directory, 0, 2);
  AppendInteger(directory, members_.size(), 2);
  AppendInteger(directory, members_.size(), 2);
  AppendInteger(directory, Capped(directory_bytes), 4);
  AppendInteger(directory, Capped(start), 4);
  AppendInteger(directory, 0, 2);
  MSP_RETURN_IF_ERROR(file_.Write(directory));
  return file_.Commit();
}

}  // namespace msprobe::report
