#include "src/report/readers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <expat.h>
#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/base/csv.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/io/zip.h"
#include "src/report/sheet_xml.h"
#include "src/report/table.h"
#include "src/report/writers.h"
#include "src/report/xlsx_writer.h"

namespace msprobe::report {
namespace {

using internal::ColumnName;

// JSON repeats the names of columns in every row: so long may they be on average, and beyond that
// come to so much in all rows.
constexpr size_t kNameBytesPerCell = 64;
constexpr size_t kMostNameBytes = size_t{64} << 20U;

// A table from cells that arrive row by row, when its width is known only at the end.
class TableBuilder {
 public:
  // `left`: what all tables of the file may still hold.
  explicit TableBuilder(ReadLimits& left) : left_(left) {}

  // A cell of the current row; the last one at a column counts. Texts must be kept ones.
  void Add(size_t column, const Cell& cell) {
    cells_.push_back({cell, static_cast<uint32_t>(column)});
    width_ = std::max(width_, column + 1);
  }
  void EndRow() { row_ends_.push_back(cells_.size()); }
  std::string_view Keep(std::string_view text) { return texts_->Keep(text); }

  size_t row_count() const { return row_ends_.size(); }
  // No more cells should be added: Finish will fail.
  bool full() const { return cells_.size() > left_.cells; }

  // The first row becomes the columns. Refuses a table whose cells would not fit the limit, or that
  // is nearly all gaps: one cell far to the right makes every row wide.
  Result<Table> Finish(std::string name) {
    if (row_ends_.empty()) {
      return Table(std::move(name), {});
    }
    if (full() || (width_ > 0 && row_ends_.size() > left_.cells / width_)) {
      return UnsupportedError(fmt::format("{} rows of {} columns are more than {} cells",
                                          row_ends_.size(), width_, left_.cells));
    }
    const size_t all = row_ends_.size() * width_;
    const size_t free = cells_.size() * (1 + ReadLimits::kGapsPerCell);
    const size_t gaps = all - std::min(all, free);
    if (gaps > left_.gaps) {
      return UnsupportedError(fmt::format("{} rows of {} columns with only {} cells in them",
                                          row_ends_.size(), width_, cells_.size()))
          .WithHint("a row is much longer than the others: correct it, or leave it out");
    }
    size_t name_bytes = 0;
    for (size_t at = 0; at < row_ends_[0]; ++at) {
      name_bytes += cells_[at].cell.text().size();
    }
    const size_t usual = kNameBytesPerCell * width_;
    if (name_bytes > usual && row_ends_.size() > kMostNameBytes / (name_bytes - usual)) {
      return UnsupportedError(fmt::format("{} rows below names of columns that have {} bytes",
                                          row_ends_.size(), name_bytes))
          .WithHint("results repeat the names in every row: shorten them");
    }
    left_.cells -= all;
    left_.gaps -= gaps;
    std::vector<std::string> columns(width_);
    for (size_t column = 0; column < width_; ++column) {
      columns[column] = fmt::format("Column {}", ColumnName(column));
    }
    size_t at = 0;
    for (; at < row_ends_[0]; ++at) {
      columns[cells_[at].column] = CellText(cells_[at].cell);
    }
    Table table(std::move(name), std::move(columns));
    table.KeepAlive(texts_);
    table.Reserve(row_ends_.size() - 1);
    std::vector<Cell> row(width_);
    for (size_t index = 1; index < row_ends_.size(); ++index) {
      std::fill(row.begin(), row.end(), Cell());
      for (; at < row_ends_[index]; ++at) {
        row[cells_[at].column] = cells_[at].cell;
      }
      table.AddRow(row);
    }
    return table;
  }

 private:
  struct PlacedCell {
    Cell cell;
    uint32_t column;
  };
  ReadLimits& left_;
  std::vector<PlacedCell> cells_;
  std::vector<size_t> row_ends_;
  size_t width_ = 0;
  std::shared_ptr<TextArena> texts_ = std::make_shared<TextArena>();
};

Status ReadRows(std::string_view text, size_t max_cells, TableBuilder& builder) {
  using Row = base::CsvTokenizer::Row;
  // One more than fits: the builder then refuses the table, whatever the row would still hold.
  base::CsvTokenizer rows(text, {.most_fields = max_cells < SIZE_MAX ? max_cells + 1 : SIZE_MAX});
  while (!builder.full()) {
    switch (rows.Next()) {
      case Row::kEnd:
        return {};
      case Row::kOpenQuote:
        return BadFormatError("unterminated quoted cell");
      case Row::kTextAfterQuote:
        return BadFormatError("text follows the closing quote of a cell");
      case Row::kFields:
        break;
    }
    for (size_t column = 0; column < rows.fields().size(); ++column) {
      builder.Add(column, Cell::Text(builder.Keep(rows.fields()[column])));
    }
    builder.EndRow();
  }
  return {};
}

constexpr size_t kMaxDepth = 256;

// XML as events. Nothing is ever fetched or expanded: a document type declaration, where entities
// would be defined, is an error.

std::string_view LocalName(std::string_view name) {
  const size_t colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

// The attributes of one element; names as written, with prefix.
class XmlAttributes {
 public:
  explicit XmlAttributes(const char* const* pairs) : pairs_(pairs) {}

  // The value of the attribute with this name, without regard to a prefix; empty when absent.
  std::string_view Find(std::string_view local_name) const {
    for (const char* const* pair = pairs_; pair != nullptr && *pair != nullptr; pair += 2) {
      if (LocalName(pair[0]) == local_name) {
        return pair[1];
      }
    }
    return {};
  }

 private:
  const char* const* pairs_;
};

// Names come without prefix. After a failure nothing more is delivered.
class XmlHandler {
 public:
  virtual ~XmlHandler() = default;
  virtual Status OnBegin(std::string_view name, const XmlAttributes& attributes) = 0;
  virtual Status OnEnd(std::string_view /*name*/) { return {}; }
  virtual void OnText(std::string_view /*text*/) {}
};

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};
using ParserOwner = std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser>;

struct Session {
  XML_Parser parser;
  XmlHandler& handler;
  size_t depth = 0;
  Status status;

  void Check(Status result) {
    if (!result.ok()) {
      status = std::move(result);
      XML_StopParser(parser, XML_FALSE);
    }
  }
};

void OnBegin(void* data, const char* name, const char** attributes) {
  auto& session = *static_cast<Session*>(data);
  if (++session.depth > kMaxDepth) {
    session.Check(BadFormatError(fmt::format("more than {} nested elements", kMaxDepth)));
    return;
  }
  session.Check(session.handler.OnBegin(LocalName(name), XmlAttributes(attributes)));
}

void OnEnd(void* data, const char* name) {
  auto& session = *static_cast<Session*>(data);
  // Expat still reports the end of an empty element whose beginning stopped it.
  if (session.status.ok()) {
    --session.depth;
    session.Check(session.handler.OnEnd(LocalName(name)));
  }
}

void OnText(void* data, const char* text, int length) {
  auto& session = *static_cast<Session*>(data);
  if (session.status.ok()) {
    session.handler.OnText({text, static_cast<size_t>(length)});
  }
}

void OnDoctype(void* data, const char* /*name*/, const char* /*system_id*/,
               const char* /*public_id*/, int /*has_internal_subset*/) {
  static_cast<Session*>(data)->Check(BadFormatError("document type declarations are not allowed"));
}

// `text` has at most 2^31 - 1 bytes. Errors name the line.
Status ParseXml(std::string_view text, XmlHandler& handler) {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return UnsupportedError("an XML member of 2 GiB or more");
  }
  const ParserOwner parser(XML_ParserCreate(nullptr));
  if (parser == nullptr) {
    return InternalError("no memory for an XML parser");
  }
  Session session{parser.get(), handler, 0, {}};
  XML_SetUserData(parser.get(), &session);
  XML_SetElementHandler(parser.get(), OnBegin, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  // In one call: Expat then works in place, and no token is scanned twice.
  const XML_Status parsed =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  const auto line = XML_GetCurrentLineNumber(parser.get());
  if (!session.status.ok()) {
    return std::move(session.status).AddContext(fmt::format("line {}", line));
  }
  if (parsed != XML_STATUS_OK) {
    return BadFormatError(fmt::format("line {}: not valid XML ({})", line,
                                      XML_ErrorString(XML_GetErrorCode(parser.get()))));
  }
  return {};
}

constexpr size_t kMaxRows = kMaxSheetRows + 1;  // with the header

// The texts that cells name by number.
struct SharedStrings {
  std::shared_ptr<TextArena> texts = std::make_shared<TextArena>();
  std::vector<std::string_view> items;
};

// <si><t>text</t></si> or <si><r><t>rich</t></r>...</si>; <rPh> holds pronunciation, not text.
class SharedStringsHandler final : public XmlHandler {
 public:
  explicit SharedStringsHandler(SharedStrings& out) : out_(out) {}

  Status OnBegin(std::string_view name, const XmlAttributes& /*attributes*/) override {
    if (name == "si") {
      text_.clear();
    } else if (name == "rPh") {
      ++in_phonetic_;
    }
    in_text_ = name == "t" && in_phonetic_ == 0;
    return {};
  }
  Status OnEnd(std::string_view name) override {
    in_text_ = false;
    if (name == "rPh") {
      --in_phonetic_;
    } else if (name == "si") {
      out_.items.push_back(out_.texts->Keep(text_));
    }
    return {};
  }
  void OnText(std::string_view text) override {
    if (in_text_) {
      text_ += text;
    }
  }

 private:
  SharedStrings& out_;
  std::string text_;
  int in_phonetic_ = 0;
  bool in_text_ = false;
};

// The column of a reference such as "AB12", from 0; nothing when it is none.
std::optional<size_t> ColumnOf(std::string_view reference) {
  size_t column = 0;
  size_t letters = 0;
  for (const char c : reference) {
    if (c < 'A' || c > 'Z') {
      break;
    }
    column = column * 26 + static_cast<size_t>(c - 'A') + 1;
    if (++letters > 3) {
      return std::nullopt;
    }
  }
  if (letters == 0 || column > kMaxSheetColumns) {
    return std::nullopt;
  }
  return column - 1;
}

class SheetHandler final : public XmlHandler {
 public:
  SheetHandler(const SharedStrings& shared, TableBuilder& builder)
      : shared_(shared), builder_(builder) {}

  Status OnBegin(std::string_view name, const XmlAttributes& attributes) override {
    in_text_ = false;
    if (name == "c") {
      return BeginCell(attributes);
    }
    if (name == "row") {
      in_row_ = true;
      next_column_ = 0;
      if (builder_.row_count() >= kMaxRows) {
        return BadFormatError(fmt::format("more than {} rows", kMaxRows));
      }
    } else if (name == "rPh") {
      ++in_phonetic_;
    } else if (name == "v") {
      in_text_ = in_cell_;
    } else if (name == "t") {
      in_text_ = in_cell_ && in_phonetic_ == 0;
    }
    return {};
  }

  Status OnEnd(std::string_view name) override {
    in_text_ = false;
    if (name == "c" && in_cell_) {
      return EndCell();
    }
    if (name == "row" && in_row_) {
      in_row_ = false;
      builder_.EndRow();
    } else if (name == "rPh") {
      --in_phonetic_;
    }
    return {};
  }

  void OnText(std::string_view text) override {
    if (in_text_) {
      has_content_ = true;
      text_ += text;
    }
  }

 private:
  Status BeginCell(const XmlAttributes& attributes) {
    if (!in_row_ || in_cell_) {
      return BadFormatError("a cell outside of a row");
    }
    // Both the reference and the type may be left out.
    const std::string_view reference = attributes.Find("r");
    if (!reference.empty()) {
      const std::optional<size_t> column = ColumnOf(reference);
      if (!column) {
        return BadFormatError(
            fmt::format("invalid cell reference \"{}\"", reference.substr(0, 40)));
      }
      next_column_ = *column;
    }
    if (next_column_ >= kMaxSheetColumns) {
      return BadFormatError(fmt::format("more than {} columns", kMaxSheetColumns));
    }
    type_ = attributes.Find("t");
    text_.clear();
    in_cell_ = true;
    has_content_ = false;
    return {};
  }

  Status EndCell() {
    in_cell_ = false;
    if (builder_.full()) {
      return UnsupportedError("too many cells");
    }
    const size_t column = next_column_++;
    if (type_ == "inlineStr" || type_ == "str") {
      builder_.Add(column, Cell::Text(builder_.Keep(text_)));
      return {};
    }
    if (!has_content_) {
      return {};  // a cell that has only a format
    }
    if (type_ == "s") {
      const std::optional<int64_t> index = base::ParseInt(text_);
      if (!index || *index < 0 || static_cast<size_t>(*index) >= shared_.items.size()) {
        return BadFormatError(fmt::format("shared string {} does not exist", text_.substr(0, 40)));
      }
      builder_.Add(column, Cell::Text(shared_.items[static_cast<size_t>(*index)]));
    } else if (type_ == "b") {
      builder_.Add(column, Cell::Text(text_ == "0" || text_ == "false" ? "False" : "True"));
    } else if (const std::optional<int64_t> integer = base::ParseInt(text_);
               integer && IsNumberType()) {
      builder_.Add(column, Cell::Integer(*integer));
    } else if (const std::optional<double> number = base::ParseDouble(text_);
               number && IsNumberType()) {
      builder_.Add(column, Cell::Number(*number));
    } else {
      builder_.Add(column, Cell::Text(builder_.Keep(text_)));
    }
    return {};
  }

  bool IsNumberType() const { return type_.empty() || type_ == "n"; }

  const SharedStrings& shared_;
  TableBuilder& builder_;
  std::string type_;
  std::string text_;
  size_t next_column_ = 0;
  int in_phonetic_ = 0;
  bool in_row_ = false;
  bool in_cell_ = false;
  bool in_text_ = false;
  bool has_content_ = false;
};

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

Result<Table> ParseSheet(std::string_view xml, std::string name, const SharedStrings& shared,
                         ReadLimits& left) {
  TableBuilder builder(left);
  SheetHandler handler(shared, builder);
  MSP_RETURN_IF_ERROR(ParseXml(xml, handler));
  MSP_ASSIGN_OR_RETURN(Table table, builder.Finish(std::move(name)));
  table.KeepAlive(shared.texts);
  return table;
}

// Calls a function at the beginning of every element.
class BeginHandler final : public XmlHandler {
 public:
  using Function = std::function<void(std::string_view name, const XmlAttributes& attributes)>;
  explicit BeginHandler(Function on_begin) : on_begin_(std::move(on_begin)) {}

  Status OnBegin(std::string_view name, const XmlAttributes& attributes) override {
    on_begin_(name, attributes);
    return {};
  }

 private:
  Function on_begin_;
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
    BeginHandler handler([&](std::string_view name, const XmlAttributes& attributes) {
      if (name == "sheet") {
        entries.push_back(
            {std::string(attributes.Find("name")), std::string(attributes.Find("id"))});
      }
    });
    MSP_RETURN_IF_ERROR(ParseXml(workbook.text(), handler), workbook_path);
    MSP_ASSIGN_OR_RETURN(const SharedStrings shared, ReadSharedStrings(relations));

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
      MSP_ASSIGN_OR_RETURN(Table table, ParseSheet(xml.text(), entry.name, shared, left),
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
    BeginHandler handler([&](std::string_view element, const XmlAttributes& attributes) {
      if (element == "Relationship" && attributes.Find("TargetMode") != "External") {
        const std::string_view type = attributes.Find("Type");
        relations[std::string(attributes.Find("Id"))] = {
            std::string(type.substr(FolderOf(type).size())),
            Resolve(folder, attributes.Find("Target"))};
      }
    });
    MSP_RETURN_IF_ERROR(ParseXml(xml.text(), handler), name);
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

  Result<SharedStrings> ReadSharedStrings(const Relations& relations) {
    SharedStrings shared;
    for (const auto& [id, relation] : relations) {
      if (relation.type == "sharedStrings") {
        MSP_ASSIGN_OR_RETURN(const io::ZipBytes xml, Member(relation.target));
        SharedStringsHandler handler(shared);
        MSP_RETURN_IF_ERROR(ParseXml(xml.text(), handler));
        break;
      }
    }
    return shared;
  }

  const io::ZipArchive& archive_;
  const ReadLimits& limits_;
  const uint64_t total_bytes_;
  uint64_t read_bytes_ = 0;
};

}  // namespace

Result<Table> ReadCsvText(std::string_view text, std::string name, const ReadLimits& limits) {
  ReadLimits left = limits;
  TableBuilder builder(left);
  MSP_RETURN_IF_ERROR(ReadRows(base::WithoutByteOrderMark(text), limits.cells, builder),
                      fmt::format("row {}", builder.row_count() + 1));
  return builder.Finish(std::move(name));
}

Result<Table> ReadCsv(const std::filesystem::path& path, const ReadLimits& limits) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  if (file.bytes().size() > limits.member_bytes) {
    return UnsupportedError(fmt::format("{} has {} bytes, more than the limit of {} for csv files",
                                        path.string(), file.bytes().size(), limits.member_bytes));
  }
  Result<Table> table = ReadCsvText(file.text(), path.stem().string(), limits);
  if (!table.ok()) {
    return std::move(table).status().AddContext(fmt::format("cannot read {}", path.string()));
  }
  return table;
}

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
