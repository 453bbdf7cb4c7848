#include "src/report/sheet_reader.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/report/sheet_parts.h"
#include "src/report/table_builder.h"
#include "src/report/writers.h"
#include "src/report/xml_events.h"

namespace msprobe::report::internal {
namespace {

constexpr size_t kMaxRows = kMaxSheetRows + 1;  // with the header

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

}  // namespace

Result<SharedStrings> ParseSharedStrings(std::string_view xml) {
  SharedStrings shared;
  SharedStringsHandler handler(shared);
  MSP_RETURN_IF_ERROR(ParseXml(xml, handler));
  return shared;
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

}  // namespace msprobe::report::internal
