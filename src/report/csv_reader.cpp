#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/report/readers.h"
#include "src/report/table_builder.h"

namespace msprobe::report {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Walks the text once, cell by cell.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, internal::TableBuilder& builder)
      : text_(text), builder_(builder) {}

  Status Run() {
    while (at_ < text_.size() && !builder_.full()) {
      MSP_RETURN_IF_ERROR(Row(), fmt::format("row {}", builder_.row_count() + 1));
    }
    return {};
  }

 private:
  Status Row() {
    for (size_t column = 0;; ++column) {
      std::string_view cell;
      MSP_RETURN_IF_ERROR(CellText(cell));
      builder_.Add(column, Cell::Text(builder_.Keep(cell)));
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      EndLine();
      builder_.EndRow();
      return {};
    }
  }

  // Any of CR LF, LF and CR ends a line.
  void EndLine() {
    if (at_ < text_.size() && text_[at_] == '\r') {
      ++at_;
    }
    if (at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
    }
  }

  Status CellText(std::string_view& cell) {
    if (at_ == text_.size() || text_[at_] != '"') {
      const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
      cell = text_.substr(at_, end - at_);
      at_ = end;
      return {};
    }
    unquoted_.clear();
    ++at_;
    for (;;) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        return BadFormatError("a quoted cell does not end");
      }
      unquoted_ += text_.substr(at_, quote - at_);
      at_ = quote + 1;
      if (at_ == text_.size() || text_[at_] != '"') {
        break;
      }
      unquoted_ += '"';
      ++at_;
    }
    if (at_ < text_.size() &&
        std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos) {
      return BadFormatError("text follows the closing quote of a cell");
    }
    cell = unquoted_;
    return {};
  }

  std::string_view text_;
  internal::TableBuilder& builder_;
  size_t at_ = 0;
  std::string unquoted_;
};

}  // namespace

Result<Table> ReadCsvText(std::string_view text, std::string name, const ReadLimits& limits) {
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  internal::TableBuilder builder(limits.cells);
  MSP_RETURN_IF_ERROR(CsvScanner(text, builder).Run());
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

}  // namespace msprobe::report
