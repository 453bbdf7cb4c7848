#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/strings.h"
#include "src/io/zip.h"
#include "src/report/readers.h"
#include "src/report/sheet_reader.h"
#include "src/report/xml_events.h"

namespace msprobe::report {
namespace {

constexpr size_t kMaxSheets = 10'000;
constexpr std::string_view kPackageRelations = "_rels/.rels";
constexpr std::string_view kUsualWorkbook = "xl/workbook.xml";

struct Relation {
  std::string type;    // the last part of its address
  std::string target;  // a path inside of the archive
};
using Relations = std::map<std::string, Relation, std::less<>>;

struct SheetEntry {
  std::string name;
  std::string relation;
};

// Folder of a path with its slash; empty at the top.
std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash + 1);
}

// A relation's target as a path from the top of the archive. ".." never leads out of it.
std::string Resolve(std::string_view folder, std::string_view target) {
  const std::string joined =
      target.starts_with('/') ? std::string(target.substr(1)) : fmt::format("{}{}", folder, target);
  std::vector<std::string> parts;
  for (const std::string_view part : base::Split(joined, '/')) {
    if (part == "..") {
      if (!parts.empty()) {
        parts.pop_back();
      }
    } else if (!part.empty() && part != ".") {
      parts.emplace_back(part);
    }
  }
  return base::Join(parts, "/");
}

class RelationsHandler final : public internal::XmlHandler {
 public:
  RelationsHandler(std::string_view folder, Relations& out) : folder_(folder), out_(out) {}

  Status OnBegin(std::string_view name, const internal::XmlAttributes& attributes) override {
    if (name == "Relationship" && attributes.Find("TargetMode") != "External") {
      const std::string_view type = attributes.Find("Type");
      out_[std::string(attributes.Find("Id"))] = {std::string(type.substr(FolderOf(type).size())),
                                                  Resolve(folder_, attributes.Find("Target"))};
    }
    return {};
  }
  Status OnEnd(std::string_view /*name*/) override { return {}; }
  void OnText(std::string_view /*text*/) override {}

 private:
  std::string_view folder_;
  Relations& out_;
};

class WorkbookHandler final : public internal::XmlHandler {
 public:
  explicit WorkbookHandler(std::vector<SheetEntry>& out) : out_(out) {}

  Status OnBegin(std::string_view name, const internal::XmlAttributes& attributes) override {
    if (name == "sheet") {
      out_.push_back({std::string(attributes.Find("name")), std::string(attributes.Find("id"))});
    }
    return {};
  }
  Status OnEnd(std::string_view /*name*/) override { return {}; }
  void OnText(std::string_view /*text*/) override {}

 private:
  std::vector<SheetEntry>& out_;
};

class WorkbookReader {
 public:
  WorkbookReader(const io::ZipArchive& archive, uint64_t file_bytes, const ReadLimits& limits)
      : archive_(archive),
        limits_(limits),
        total_bytes_(std::min(limits.total_bytes,
                              limits.free_bytes + ReadLimits::kTimesFileSize * file_bytes)) {}

  Result<std::vector<Table>> Read() {
    MSP_ASSIGN_OR_RETURN(const std::string workbook_path, FindWorkbook());
    MSP_ASSIGN_OR_RETURN(const Relations relations, ReadRelations(workbook_path));
    MSP_ASSIGN_OR_RETURN(const io::ZipBytes workbook, Member(workbook_path));
    std::vector<SheetEntry> entries;
    WorkbookHandler handler(entries);
    MSP_RETURN_IF_ERROR(internal::ParseXml(workbook.text(), handler), workbook_path);
    MSP_ASSIGN_OR_RETURN(const internal::SharedStrings shared, ReadSharedStrings(relations));

    if (entries.size() > kMaxSheets) {
      return UnsupportedError(fmt::format("more than {} sheets", kMaxSheets));
    }
    std::vector<Table> tables;
    ReadLimits left = limits_;
    for (const SheetEntry& entry : entries) {
      const auto relation = relations.find(entry.relation);
      if (relation == relations.end()) {
        return BadFormatError(fmt::format("sheet \"{}\" has no content", entry.name));
      }
      if (relation->second.type != "worksheet") {
        continue;  // a chart or a macro sheet holds no rows
      }
      MSP_ASSIGN_OR_RETURN(const io::ZipBytes xml, Member(relation->second.target));
      MSP_ASSIGN_OR_RETURN(Table table, internal::ParseSheet(xml.text(), entry.name, shared, left),
                           "sheet \"", entry.name, "\"");
      tables.push_back(std::move(table));
    }
    return tables;
  }

 private:
  // Counts every reading: a workbook may name the same member many times.
  Result<io::ZipBytes> Member(std::string_view path) {
    const io::ZipEntry* entry = archive_.Find(path);
    if (entry == nullptr) {
      return BadFormatError(fmt::format("the archive has no member {}", path));
    }
    if (entry->size_bytes > total_bytes_ - read_bytes_) {
      return UnsupportedError(
                 fmt::format("its members have more than {} bytes together", total_bytes_))
          .WithHint("workbooks of results are some ten times as large as their files");
    }
    MSP_ASSIGN_OR_RETURN(io::ZipBytes content, archive_.Read(*entry, limits_.member_bytes, true));
    read_bytes_ += content.bytes.size();
    return content;
  }

  // Relations of the member at `path`; none when it has no such file.
  Result<Relations> ReadRelations(std::string_view path) {
    const std::string_view folder = FolderOf(path);
    const std::string name =
        path.empty() ? std::string(kPackageRelations)
                     : fmt::format("{}_rels/{}.rels", folder, path.substr(folder.size()));
    Relations relations;
    if (archive_.Find(name) == nullptr) {
      return relations;
    }
    MSP_ASSIGN_OR_RETURN(const io::ZipBytes xml, Member(name));
    RelationsHandler handler(folder, relations);
    MSP_RETURN_IF_ERROR(internal::ParseXml(xml.text(), handler), name);
    return relations;
  }

  Result<std::string> FindWorkbook() {
    MSP_ASSIGN_OR_RETURN(const Relations relations, ReadRelations(""));
    for (const auto& [id, relation] : relations) {
      if (relation.type == "officeDocument") {
        return relation.target;
      }
    }
    return std::string(kUsualWorkbook);
  }

  Result<internal::SharedStrings> ReadSharedStrings(const Relations& relations) {
    for (const auto& [id, relation] : relations) {
      if (relation.type == "sharedStrings") {
        MSP_ASSIGN_OR_RETURN(const io::ZipBytes xml, Member(relation.target));
        Result<internal::SharedStrings> shared = internal::ParseSharedStrings(xml.text());
        return shared;
      }
    }
    return internal::SharedStrings();
  }

  const io::ZipArchive& archive_;
  const ReadLimits& limits_;
  const uint64_t total_bytes_;
  uint64_t read_bytes_ = 0;
};

}  // namespace

Result<std::vector<Table>> ReadXlsxBytes(std::span<const std::byte> file,
                                         const ReadLimits& limits) {
  MSP_ASSIGN_OR_RETURN(const io::ZipArchive archive, io::ZipArchive::Open(file));
  return WorkbookReader(archive, file.size(), limits).Read();
}

Result<std::vector<Table>> ReadXlsx(const std::filesystem::path& path, const ReadLimits& limits) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  Result<std::vector<Table>> tables = ReadXlsxBytes(file.bytes(), limits);
  if (!tables.ok()) {
    return std::move(tables).status().AddContext(fmt::format("cannot read {}", path.string()));
  }
  return tables;
}

}  // namespace msprobe::report
