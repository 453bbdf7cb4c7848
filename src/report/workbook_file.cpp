#include "src/report/workbook_file.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/io/zip.h"
#include "src/report/deflate_block.h"
#include "src/report/sheet_parts.h"
#include "src/report/xlsx_parts.h"

namespace msprobe::report::internal {
namespace {

constexpr uint64_t kLargeBytes = uint64_t{4} << 30U;
// Blocks in flight per thread: enough that threads seldom wait for the slowest one of a wave.
constexpr size_t kBlocksPerThread = 4;

struct PackedBlock {
  std::string compressed;
  uint32_t crc32 = 0;
  uint64_t size_bytes = 0;
  bool ok = false;
};

// Formats and compresses blocks; keeps its memory from sheet to sheet.
class SheetPacker {
 public:
  SheetPacker(const BlockFormatter& format, base::ThreadPool& pool)
      : format_(format),
        pool_(pool),
        buffers_(pool.thread_count()),
        compressors_(pool.thread_count()),
        packed_(pool.thread_count() * kBlocksPerThread) {}

  Status Write(const Sheet& sheet, const std::string& path, io::ZipWriter& zip) {
    const SheetPlan plan = PlanSheet(sheet);
    MSP_RETURN_IF_ERROR(zip.Begin(path, plan.bound_bytes >= kLargeBytes));
    uint32_t crc32 = 0;
    uint64_t size_bytes = 0;
    for (size_t first = 0; first < plan.blocks.size(); first += packed_.size()) {
      const size_t count = std::min(packed_.size(), plan.blocks.size() - first);
      pool_.ParallelFor(count, [&](size_t item, size_t worker) {
        Pack(sheet, plan.blocks[first + item], worker, packed_[item]);
      });
      for (size_t item = 0; item < count; ++item) {
        const PackedBlock& block = packed_[item];
        if (!block.ok) {
          return InternalError("cannot compress a block of the sheet: out of memory");
        }
        crc32 = JoinCrc32(crc32, block.crc32, block.size_bytes);
        size_bytes += block.size_bytes;
        MSP_RETURN_IF_ERROR(zip.Append(block.compressed));
      }
    }
    MSP_RETURN_IF_ERROR(zip.Append(kStreamEnd));
    return zip.End(crc32, size_bytes);
  }

 private:
  void Pack(const Sheet& sheet, const Block& block, size_t worker, PackedBlock& packed) {
    XmlBuffer& xml = buffers_[worker];
    format_(sheet, block, xml);
    packed.crc32 = Crc32(xml.text());
    packed.size_bytes = xml.text().size();
    packed.ok = compressors_[worker].Compress(xml.text(), packed.compressed);
  }

  const BlockFormatter& format_;
  base::ThreadPool& pool_;
  std::vector<XmlBuffer> buffers_;            // per thread
  std::vector<BlockCompressor> compressors_;  // per thread
  std::vector<PackedBlock> packed_;           // of the current wave
};

}  // namespace

Status CheckColumns(const std::filesystem::path& path, std::span<const Table* const> tables) {
  for (const Table* table : tables) {
    if (table->columns().size() > kMaxSheetColumns) {
      return UnsupportedError(fmt::format("cannot write {}: table {} has {} columns, a sheet {}",
                                          path.string(), table->name(), table->columns().size(),
                                          kMaxSheetColumns));
    }
  }
  return {};
}

Status WriteWorkbook(const std::filesystem::path& path, std::span<const Sheet> sheets,
                     const std::string& workbook_xml, const std::string& styles_xml,
                     const BlockFormatter& format, base::ThreadPool& pool) {
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  io::ZipWriter zip(file);
  MSP_RETURN_IF_ERROR(zip.AddStored("[Content_Types].xml", ContentTypesXml(sheets.size())));
  MSP_RETURN_IF_ERROR(zip.AddStored("_rels/.rels", PackageRelationsXml()));
  MSP_RETURN_IF_ERROR(zip.AddStored("xl/workbook.xml", workbook_xml));
  MSP_RETURN_IF_ERROR(
      zip.AddStored("xl/_rels/workbook.xml.rels", WorkbookRelationsXml(sheets.size())));
  MSP_RETURN_IF_ERROR(zip.AddStored("xl/styles.xml", styles_xml));
  SheetPacker packer(format, pool);
  for (size_t index = 0; index < sheets.size(); ++index) {
    MSP_RETURN_IF_ERROR(packer.Write(sheets[index], SheetPath(index), zip), "cannot write ",
                        path.string());
  }
  MSP_RETURN_IF_ERROR(zip.Finish());
  return file.Commit();
}

}  // namespace msprobe::report::internal
