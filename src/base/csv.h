// CSV text cut into rows of fields: the one place that knows quotes, doubled quotes and line ends.
// What columns mean, which values they may hold and what a broken row leads to is up to the caller
// (report/csv_reader, profile's CsvRows, the tables of monitored runs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::base {

// Texts as cells of csv files that spreadsheets open, the same in every file that is written.

// Whether a spreadsheet would take the text for a formula: it begins with = @ + - or one of their
// full-width forms, also behind what spreadsheets skip (blanks, line ends, quotes), or with a tab
// or carriage return. Numbers with a sign are numbers, and a sign alone is a text.
bool LooksLikeFormula(std::string_view text);

// Whether the text stands in a cell as it is: letters and digits in front, and no comma, quote,
// control character or byte beyond ASCII. False says nothing.
bool IsPlainCsvText(std::string_view text);

// In quotes where csv needs them, and with an apostrophe in front of what looks like a formula.
void AppendCsvText(std::string_view text, std::string& out);

// Choices that RFC 4180 leaves open, or that real files make differently.
struct CsvDialect {
  enum class RowEnd : uint8_t {
    // CR LF, LF and CR outside of quotes; a quoted field may hold line ends.
    kOutsideQuotes,
    // Every LF, with or without a CR in front of it, unless it stands in a quoted field that is
    // closed within kMostContinuedBytes. A quote that is not closed spoils its own line and no
    // other,
    // and a file can be cut at line ends into pieces that are read side by side.
    kEveryLineFeed
  };
  enum class AfterQuote : uint8_t {
    kError,  // nothing may follow the closing quote
    kJoined  // what follows it up to the next comma is part of the field: blanks, mostly
  };
  RowEnd row_end = RowEnd::kOutsideQuotes;
  AfterQuote after_quote = AfterQuote::kError;
  // Fields of a row that are kept; the others are read and dropped.
  size_t most_fields = SIZE_MAX;
};

// The text without the byte order mark that spreadsheets put in front of it.
std::string_view WithoutByteOrderMark(std::string_view text);

// Reads a text once, row by row. `text` must outlive the object; memory is that of one row.
class CsvTokenizer {
 public:
  enum class Row : uint8_t {
    kFields,
    kEnd,
    kOpenQuote,      // a quoted field does not end
    kTextAfterQuote  // something follows a closing quote
  };

  static constexpr size_t kMostContinuedBytes = 4096;

  explicit CsvTokenizer(std::string_view text, const CsvDialect& dialect = {})
      : dialect_(dialect), text_(text) {}

  // To the next row; an empty line is a row of one empty field. Behind an error the text goes on at
  // the next line with kEveryLineFeed, and is of no use otherwise.
  Row Next();
  // Past line ends that stand at the beginning of the next row.
  void SkipEmptyLines();

  // The fields of the row, without quotes: views into the text or, for fields with doubled quotes,
  // into copies. Valid until Next().
  std::span<const std::string_view> fields() const { return fields_; }
  // How many the row has, kept or not.
  size_t field_count() const { return field_count_; }
  // Whether fields() are views into the text, all of them.
  bool has_copies() const { return copies_used_ > 0; }
  // The row as it stands in the text, without its line end. After an error with kOutsideQuotes it
  // ends where the error was found.
  std::string_view row_text() const { return row_text_; }

  // Line feeds before the row, counted from 1.
  uint64_t line() const { return line_; }
  // The same of what follows the row.
  uint64_t next_line() const { return next_line_; }

 private:
  // A row that begins here and whose line ends at `line_end`, or npos for the end of the text.
  Row ReadLine(size_t line_end);
  // The same when a quoted field of the line is not closed in it: with the lines behind.
  Row ReadContinued(size_t line_end);
  template <CsvDialect::RowEnd kRowEnd>
  Row ReadRow(size_t end);
  Row QuotedField(size_t end, std::string_view& field);
  std::string& NewCopy();

  CsvDialect dialect_;
  std::string_view text_;
  size_t at_ = 0;
  uint64_t line_ = 1;
  uint64_t next_line_ = 1;
  std::string_view row_text_;
  std::vector<std::string_view> fields_;
  size_t field_count_ = 0;
  std::deque<std::string> copies_;  // of fields that hold quotes; their memory is used again
  size_t copies_used_ = 0;
};

}  // namespace msprobe::base
