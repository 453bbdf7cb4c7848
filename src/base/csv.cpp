#include "src/base/csv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"

namespace msprobe::base {
namespace {

// No-break, ideographic and zero-width blanks, and the mark of byte order, are blanks as well.
constexpr std::array<std::string_view, 10> kSkipped = {
    " ", "\t", "\r", "\n", "\"", "\xC2\xA0", "\xE3\x80\x80", "\xE2\x80\x8B", "\xEF\xBB\xBF", "\v"};
constexpr std::array<std::string_view, 6> kMarks = {"=", "@", "＝", "＋", "－", "＠"};

template <size_t kCount>
size_t LengthOfFirst(std::string_view text, const std::array<std::string_view, kCount>& words) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [text](std::string_view word) { return text.starts_with(word); });
  return found == words.end() ? 0 : found->size();
}

// "-1", "-inf", "-0.5;0.25": numbers, one or several of merged rows.
bool IsNumberList(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ';');
  return std::all_of(parts.begin(), parts.end(),
                     [](std::string_view part) { return ParseDouble(part).has_value(); });
}

}  // namespace

bool LooksLikeFormula(std::string_view text) {
  if (text.starts_with('\t') || text.starts_with('\r')) {
    return true;
  }
  while (const size_t skipped = LengthOfFirst(text, kSkipped)) {
    text.remove_prefix(skipped);
  }
  if (const size_t mark = LengthOfFirst(text, kMarks); mark > 0) {
    return mark == 1 || text.size() > mark;
  }
  return text.size() > 1 && (text.front() == '+' || text.front() == '-') && !IsNumberList(text);
}

bool IsPlainCsvText(std::string_view text) {
  if (text.empty()) {
    return true;
  }
  const char first = text.front();
  if (!IsDigit(first) && !(first >= 'a' && first <= 'z') && !(first >= 'A' && first <= 'Z') &&
      first != '[' && first != '<' && first != '_') {
    return false;
  }
  return NoWordHas(text, [](uint64_t word) {
    return UnprintableOf(word) | MatchesOf(word, ',') | MatchesOf(word, '"');
  });
}

void AppendCsvText(std::string_view text, std::string& out) {
  if (IsPlainCsvText(text)) {
    out += text;
    return;
  }
  const bool quoted = text.find_first_of(",\"\r\n") != std::string_view::npos;
  out += quoted ? "\"" : "";
  out += LooksLikeFormula(text) ? "'" : "";
  if (!quoted) {
    out += text;
    return;
  }
  for (size_t quote = text.find('"'); quote != std::string_view::npos; quote = text.find('"')) {
    out += text.substr(0, quote + 1);
    out += '"';
    text.remove_prefix(quote + 1);
  }
  out += text;
  out += '"';
}

namespace {

using RowEnd = CsvDialect::RowEnd;

template <RowEnd kRowEnd>
bool EndsField(char c) {
  return c == ',' || (kRowEnd == RowEnd::kOutsideQuotes && (c == '\n' || c == '\r'));
}

// Where the field that begins at `at` ends, without regard to quotes. Fields are short, so that a
// call of a search per field would cost more than the search.
template <RowEnd kRowEnd>
size_t FieldEnd(std::string_view text, size_t at, size_t end) {
  while (end - at >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    uint64_t matches = MatchesOf(word, ',');
    if constexpr (kRowEnd == RowEnd::kOutsideQuotes) {
      matches |= MatchesOf(word, '\n') | MatchesOf(word, '\r');
    }
    if (matches != 0) {
      return at + static_cast<size_t>(std::countr_zero(matches)) / 8;
    }
    at += sizeof word;
  }
  while (at < end && !EndsField<kRowEnd>(text[at])) {
    ++at;
  }
  return at;
}

}  // namespace

std::string_view WithoutByteOrderMark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

void CsvTokenizer::SkipEmptyLines() {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {
    next_line_ += text_[at_] == '\n' ? 1U : 0U;
    ++at_;
  }
}

CsvTokenizer::Row CsvTokenizer::ReadLine(size_t line_end) {
  const size_t begin = at_;
  fields_.clear();
  field_count_ = 0;
  copies_used_ = 0;
  next_line_ = line_;
  const bool has_end = line_end != std::string_view::npos;
  size_t end = has_end ? line_end : text_.size();
  end -= end > begin && text_[end - 1] == '\r' ? 1U : 0U;
  const Row row = ReadRow<RowEnd::kEveryLineFeed>(end);
  row_text_ = text_.substr(begin, end - begin);
  at_ = has_end ? line_end + 1 : text_.size();
  next_line_ += has_end ? 1U : 0U;
  return row;
}

CsvTokenizer::Row CsvTokenizer::ReadContinued(size_t line_end) {
  // The end of every line that has a quote may be that of the row.
  constexpr int kMostQuotes = 16;
  const size_t begin = at_;
  const size_t last = std::min(text_.size(), line_end + kMostContinuedBytes);
  size_t end = line_end;
  for (int i = 0; i < kMostQuotes && end < last; ++i) {
    const size_t quote = text_.substr(0, last).find('"', end);
    if (quote == std::string_view::npos) {
      break;
    }
    end = text_.find('\n', quote);
    at_ = begin;
    const Row row = ReadLine(end);
    if (row == Row::kFields) {
      return row;
    }
    if (row == Row::kTextAfterQuote) {
      break;
    }
  }
  at_ = begin;
  return ReadLine(line_end);
}

CsvTokenizer::Row CsvTokenizer::Next() {
  fields_.clear();
  field_count_ = 0;
  copies_used_ = 0;
  line_ = next_line_;
  if (at_ == text_.size()) {
    row_text_ = {};
    return Row::kEnd;
  }
  const size_t begin = at_;
  if (dialect_.row_end == RowEnd::kEveryLineFeed) {
    const size_t line_end = text_.find('\n', at_);
    const Row row = ReadLine(line_end);
    if (row != Row::kOpenQuote || line_end == std::string_view::npos) {
      return row;
    }
    at_ = begin;
    return ReadContinued(line_end);
  }
  const Row row = ReadRow<RowEnd::kOutsideQuotes>(text_.size());
  row_text_ = text_.substr(begin, at_ - begin);
  // The next character ends the row.
  if (at_ < text_.size() && text_[at_] == '\r') {
    ++at_;
  }
  if (at_ < text_.size() && text_[at_] == '\n') {
    ++at_;
    ++next_line_;
  }
  return row;
}

// Fields from at_ on, up to a row end or `end`.
template <RowEnd kRowEnd>
CsvTokenizer::Row CsvTokenizer::ReadRow(size_t end) {
  for (;; ++at_) {
    const size_t copies_before = copies_used_;
    std::string_view field;
    if (at_ < end && text_[at_] == '"') {
      const Row read = QuotedField(end, field);
      if (read != Row::kFields) {
        return read;
      }
      if (at_ < end && !EndsField<kRowEnd>(text_[at_])) {
        if (dialect_.after_quote == CsvDialect::AfterQuote::kError) {
          return Row::kTextAfterQuote;
        }
        const size_t rest = at_;
        at_ = FieldEnd<kRowEnd>(text_, at_, end);
        std::string& joined = NewCopy();
        joined = field;
        joined += text_.substr(rest, at_ - rest);
        field = joined;
      }
    } else {
      const size_t begin = at_;
      at_ = FieldEnd<kRowEnd>(text_, at_, end);
      field = text_.substr(begin, at_ - begin);
    }
    ++field_count_;
    if (fields_.size() < dialect_.most_fields) {
      fields_.push_back(field);
    } else {
      copies_used_ = copies_before;
    }
    if (at_ == end || text_[at_] != ',') {
      return Row::kFields;
    }
  }
}

// From an opening quote to behind the closing one.
CsvTokenizer::Row CsvTokenizer::QuotedField(size_t end, std::string_view& field) {
  const std::string_view text = text_.substr(0, end);
  const size_t begin = ++at_;
  size_t quote = text.find('"', at_);
  if (quote != std::string_view::npos && (quote + 1 == end || text[quote + 1] != '"')) {
    field = text.substr(begin, quote - begin);
  } else {
    std::string& copy = NewCopy();
    while (quote != std::string_view::npos) {
      copy += text.substr(at_, quote - at_);
      if (quote + 1 == end || text[quote + 1] != '"') {
        break;
      }
      copy += '"';
      at_ = quote + 2;
      quote = text.find('"', at_);
    }
    field = copy;
  }
  if (quote == std::string_view::npos) {
    return Row::kOpenQuote;
  }
  at_ = quote + 1;
  next_line_ += static_cast<uint64_t>(std::count(field.begin(), field.end(), '\n'));
  return Row::kFields;
}

std::string& CsvTokenizer::NewCopy() {
  if (copies_used_ == copies_.size()) {
    copies_.emplace_back();
  }
  std::string& copy = copies_[copies_used_++];
  copy.clear();
  return copy;
}

}  // namespace msprobe::base
