// Any bytes as CSV, in every dialect, against a reader that goes byte by byte.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/csv.h"

namespace {

using msprobe::base::CsvDialect;
using msprobe::base::CsvTokenizer;

struct PlainRow {
  CsvTokenizer::Row row = CsvTokenizer::Row::kEnd;
  std::vector<std::string> fields;
  uint64_t line = 1;
};

class PlainReader {
 public:
  PlainReader(std::string_view text, const CsvDialect& dialect) : text_(text), dialect_(dialect) {}

  PlainRow Next() {
    PlainRow row;
    row.line = line_;
    if (at_ == text_.size()) {
      return row;
    }
    if (by_line()) {
      return Lines();
    }
    row.row = CsvTokenizer::Row::kFields;
    Fields(row);
    if (at_ < text_.size() && text_[at_] == '\r') {
      ++at_;
    }
    if (at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      ++line_;
    }
    return row;
  }

 private:
  // A line, or, where a quoted field is open at its end, the fewest lines that close it; never more
  // than the tokeniser's limits allow.
  PlainRow Lines() {
    const size_t line_end = text_.find('\n', at_);
    const PlainReader before = *this;
    const PlainRow alone = Line(line_end);
    if (alone.row != CsvTokenizer::Row::kOpenQuote || line_end == std::string_view::npos) {
      return alone;
    }
    const PlainReader behind = *this;
    const size_t last = std::min(text_.size(), line_end + CsvTokenizer::kMostContinuedBytes);
    size_t end = line_end;
    for (int quotes = 0; quotes < 16 && end < last; ++quotes) {
      const size_t quote = text_.substr(0, last).find('"', end);
      if (quote == std::string_view::npos) {
        break;
      }
      end = text_.find('\n', quote);
      *this = before;
      const PlainRow together = Line(end);
      if (together.row == CsvTokenizer::Row::kFields) {
        return together;
      }
      if (together.row == CsvTokenizer::Row::kTextAfterQuote) {
        break;
      }
    }
    *this = behind;
    return alone;
  }

  // What stands in front of the line end at `end`, or of the end of the text.
  PlainRow Line(size_t end) {
    PlainRow row;
    row.row = CsvTokenizer::Row::kFields;
    row.line = line_;
    const bool has_end = end != std::string_view::npos;
    row_end_ = has_end ? end : text_.size();
    row_end_ -= row_end_ > at_ && text_[row_end_ - 1] == '\r' ? 1U : 0U;
    Fields(row);
    at_ = has_end ? end + 1 : text_.size();
    line_ += has_end ? 1U : 0U;
    return row;
  }

  void Fields(PlainRow& row) {
    do {
      row.fields.emplace_back();
    } while (Field(row) && TakeComma());
  }

  bool by_line() const { return dialect_.row_end == CsvDialect::RowEnd::kEveryLineFeed; }

  bool AtRowEnd() const {
    if (by_line()) {
      return at_ == row_end_;
    }
    return at_ == text_.size() || text_[at_] == '\n' || text_[at_] == '\r';
  }

  bool TakeComma() {
    if (AtRowEnd()) {
      return false;
    }
    ++at_;
    return true;
  }

  bool Field(PlainRow& row) {
    std::string& field = row.fields.back();
    if (!AtRowEnd() && text_[at_] == '"') {
      ++at_;
      for (;; ++at_) {
        if (by_line() ? AtRowEnd() : at_ == text_.size()) {
          row.row = CsvTokenizer::Row::kOpenQuote;
          return false;
        }
        if (text_[at_] == '"') {
          if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') {
            ++at_;
            break;
          }
          ++at_;
        }
        line_ += text_[at_] == '\n' ? 1U : 0U;
        field += text_[at_];
      }
      if (!AtRowEnd() && text_[at_] != ',' &&
          dialect_.after_quote == CsvDialect::AfterQuote::kError) {
        row.row = CsvTokenizer::Row::kTextAfterQuote;
        return false;
      }
    }
    for (; !AtRowEnd() && text_[at_] != ','; ++at_) {
      field += text_[at_];
    }
    return true;
  }

  std::string_view text_;
  CsvDialect dialect_;
  size_t at_ = 0;
  size_t row_end_ = 0;
  uint64_t line_ = 1;
};

void Check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void Compare(std::string_view text, const CsvDialect& dialect) {
  CsvTokenizer rows(text, dialect);
  PlainReader plain(text, dialect);
  for (;;) {
    const CsvTokenizer::Row row = rows.Next();
    const PlainRow expected = plain.Next();
    Check(row == expected.row && rows.line() == expected.line);
    if (row == CsvTokenizer::Row::kEnd) {
      return;
    }
    if (row != CsvTokenizer::Row::kFields) {
      if (dialect.row_end == CsvDialect::RowEnd::kOutsideQuotes) {
        return;  // what follows is of no use
      }
      continue;
    }
    Check(rows.field_count() == expected.fields.size());
    for (size_t i = 0; i < expected.fields.size(); ++i) {
      Check(rows.fields()[i] == expected.fields[i]);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto row_end :
       {CsvDialect::RowEnd::kOutsideQuotes, CsvDialect::RowEnd::kEveryLineFeed}) {
    for (const auto after : {CsvDialect::AfterQuote::kError, CsvDialect::AfterQuote::kJoined}) {
      Compare(text, {.row_end = row_end, .after_quote = after});
    }
  }
  return 0;
}
