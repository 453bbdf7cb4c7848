#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/io/zip_writer.h"
#include "src/report/deflate_block.h"
#include "src/report/sheet_xml.h"
#include "src/report/writers.h"
#include "src/report/xlsx_parts.h"

namespace msprobe::report {
namespace {

using internal::Block;
using internal::Sheet;

constexpr size_t kMaxColumns = 16384;
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
  explicit SheetPacker(base::ThreadPool& pool)
      : pool_(pool),
        buffers_(pool.thread_count()),
        compressors_(pool.thread_count()),
        packed_(pool.thread_count() * kBlocksPerThread) {}

  Status Write(const Sheet& sheet, const std::string& path, const XlsxOptions& options,
               io::ZipWriter& zip) {
    const internal::SheetPlan plan = internal::PlanSheet(sheet);
    MSP_RETURN_IF_ERROR(zip.Begin(path, plan.bound_bytes >= kLargeBytes));
    uint32_t crc32 = 0;
    uint64_t size_bytes = 0;
    for (size_t first = 0; first < plan.blocks.size(); first += packed_.size()) {
      const size_t count = std::min(packed_.size(), plan.blocks.size() - first);
      pool_.ParallelFor(count, [&](size_t item, size_t worker) {
        Pack(sheet, plan.blocks[first + item], options, worker, packed_[item]);
      });
      for (size_t item = 0; item < count; ++item) {
        const PackedBlock& block = packed_[item];
        if (!block.ok) {
          return InternalError("cannot compress a block of the sheet: out of memory");
        }
        crc32 = internal::JoinCrc32(crc32, block.crc32, block.size_bytes);
        size_bytes += block.size_bytes;
        MSP_RETURN_IF_ERROR(zip.Append(block.compressed));
      }
    }
    MSP_RETURN_IF_ERROR(zip.Append(internal::kStreamEnd));
    return zip.End(crc32, size_bytes);
  }

 private:
  void Pack(const Sheet& sheet, const Block& block, const XlsxOptions& options, size_t worker,
            PackedBlock& packed) {
    internal::XmlBuffer& xml = buffers_[worker];
    internal::FormatBlock(sheet, block, options, xml);
    packed.crc32 = internal::Crc32(xml.text());
    packed.size_bytes = xml.text().size();
    packed.ok = compressors_[worker].Compress(xml.text(), packed.compressed);
  }

  base::ThreadPool& pool_;
  std::vector<internal::XmlBuffer> buffers_;            // per thread
  std::vector<internal::BlockCompressor> compressors_;  // per thread
  std::vector<PackedBlock> packed_;                     // of the current wave
};

}  // namespace

Status WriteXlsx(const std::filesystem::path& path, std::span<const Table* const> sheets,
                 const XlsxOptions& options, base::ThreadPool& pool) {
  if (sheets.empty()) {
    return InternalError(fmt::format("cannot write {}: no table", path.string()));
  }
  for (const Table* table : sheets) {
    if (table->columns().size() > kMaxColumns) {
      return UnsupportedError(fmt::format("cannot write {}: table {} has {} columns, a sheet {}",
                                          path.string(), table->name(), table->columns().size(),
                                          kMaxColumns));
    }
  }
  const std::vector<Sheet> plan = internal::PlanWorkbook(sheets, options.rows_per_sheet);
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  io::ZipWriter zip(file);
  MSP_RETURN_IF_ERROR(zip.AddStored("[Content_Types].xml", internal::ContentTypesXml(plan.size())));
  MSP_RETURN_IF_ERROR(zip.AddStored("_rels/.rels", internal::PackageRelationsXml()));
  MSP_RETURN_IF_ERROR(zip.AddStored("xl/workbook.xml", internal::WorkbookXml(plan, options)));
  MSP_RETURN_IF_ERROR(
      zip.AddStored("xl/_rels/workbook.xml.rels", internal::WorkbookRelationsXml(plan.size())));
  MSP_RETURN_IF_ERROR(zip.AddStored("xl/styles.xml", internal::StylesXml()));
  SheetPacker packer(pool);
  for (size_t index = 0; index < plan.size(); ++index) {
    MSP_RETURN_IF_ERROR(packer.Write(plan[index], internal::SheetPath(index), options, zip),
                        "cannot write ", path.string());
  }
  MSP_RETURN_IF_ERROR(zip.Finish());
  return file.Commit();
}

}  // namespace msprobe::report
