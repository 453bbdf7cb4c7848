#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

constexpr size_t kMostPrinted = size_t{1} << 20U;

// echo -e, printf: what follows a backslash.
std::string Unescaped(std::string_view text) {
  constexpr std::string_view kLetters = "abefnrtv\\\"'";
  constexpr std::string_view kMeanings = "\a\b\x1b\f\n\r\t\v\\\"'";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t letter = text[i] == '\\' && i + 1 < text.size() ? kLetters.find(text[i + 1])
                                                                 : std::string_view::npos;
    if (letter != std::string_view::npos) {
      out += kMeanings[letter];
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string SetOf(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("[:upper:]") || text.substr(i).starts_with("[:lower:]")) {
      const char first = text[i + 2] == 'u' ? 'A' : 'a';
      for (char c = 0; c < 26; ++c) {
        out += static_cast<char>(first + c);
      }
      i += 8;
    } else if (i + 2 < text.size() && text[i + 1] == '-' && text[i] <= text[i + 2]) {
      for (int c = text[i]; c <= text[i + 2]; ++c) {
        out += static_cast<char>(c);
      }
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

void ShellRun::Print(const std::string& text) {
  if (output_ != nullptr) {
    output_->text += text;
    output_->unknown = output_->unknown || output_->text.size() > kMostPrinted;
  }
}

void ShellRun::Echo(const std::vector<std::string>& words) {
  size_t first = 0;
  bool line = true;
  bool escapes = false;
  for (; first < words.size(); ++first) {
    const std::string& word = words[first];
    if (word.size() < 2 || word[0] != '-' ||
        word.find_first_not_of("neE", 1) != std::string::npos) {
      break;
    }
    line = line && word.find('n') == std::string::npos;
    escapes = escapes || word.find('e') != std::string::npos;
  }
  std::string text = base::Join(std::span(words).subspan(first), " ");
  Print((escapes ? Unescaped(text) : text) + (line ? "\n" : ""));
}

void ShellRun::Printf(std::vector<std::string> words, int line) {
  std::string target;
  if (words.size() > 1 && words[0] == "-v") {
    target = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  if (!words.empty() && words[0] == "--") {
    words.erase(words.begin());
  }
  std::string text;
  bool known = !words.empty() && !HasUnknown(words[0]);
  size_t next = 1;
  do {
    const std::string format = known ? words[0] : std::string();
    const size_t before = next;
    for (size_t i = 0; i < format.size() && known; ++i) {
      if (format[i] == '\\' && i + 1 < format.size()) {
        text += Unescaped(format.substr(i, 2));
        ++i;
        continue;
      }
      if (format[i] != '%') {
        text += format[i];
        continue;
      }
      if (i + 1 < format.size() && format[i + 1] == '%') {
        text += '%';
        ++i;
        continue;
      }
      size_t end = i + 1;
      bool left = false;
      bool zeros = false;
      while (end < format.size() && (format[end] == '-' || format[end] == '0')) {
        left = left || format[end] == '-';
        zeros = zeros || format[end] == '0';
        ++end;
      }
      size_t width = 0;
      while (end < format.size() && base::IsDigit(format[end]) && width < 1000) {
        width = width * 10 + static_cast<size_t>(format[end] - '0');
        ++end;
      }
      const std::string argument = next < words.size() ? words[next] : std::string();
      ++next;
      const char kind = end < format.size() ? format[end] : '\0';
      std::string value = argument;
      if (kind == 'd' || kind == 'i') {
        const std::optional<int64_t> number = base::ParseInt(argument.empty() ? "0" : argument);
        known = known && number && !(argument.size() > 1 && argument[0] == '0');
        value = number ? std::to_string(*number) : std::string();
      } else if (kind == 'b') {
        value = Unescaped(argument);
      } else if (kind != 's') {
        known = false;
      }
      known = known && (width == 0 || !HasUnknown(value)) && !(zeros && value.starts_with('-'));
      if (value.size() < width) {
        const std::string fill(width - value.size(), zeros && kind != 's' && !left ? '0' : ' ');
        value = left ? value + fill : fill + value;
      }
      text += value;
      i = end;
    }
    if (next == before) {
      break;
    }
  } while (known && next < words.size() && text.size() < kMostPrinted);
  Done(0);
  if (!target.empty()) {
    SetText(target, known ? text : UnknownText("$" + target, ShellUnknown::Kind::kOther), line);
  } else if (known) {
    Print(text);
  } else if (output_ != nullptr) {
    output_->unknown = true;
  }
}

Status ShellRun::Read(const std::vector<std::string>& words, int line) {
  std::vector<std::string> names;
  char end = '\n';
  bool raw = false;
  bool array = false;
  bool odd = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-' || !names.empty()) {
      names.push_back(word);
      continue;
    }
    for (size_t k = 1; k < word.size(); ++k) {
      raw = raw || word[k] == 'r';
      array = array || word[k] == 'a';
      if (std::string_view("dntpuiN").find(word[k]) != std::string_view::npos) {
        const std::string value = k + 1 < word.size()    ? word.substr(k + 1)
                                  : i + 1 < words.size() ? words[++i]
                                                         : std::string();
        if (word[k] == 'd') {
          end = value.empty() ? '\0' : value[0];
        } else {
          odd = odd || word[k] == 'n' || word[k] == 'N' || word[k] == 'u';
        }
        break;
      }
    }
  }
  if (names.empty()) {
    names.emplace_back("REPLY");
  }
  if (input_->unknown || odd) {
    for (const std::string& name : names) {
      ForgetName(name);
    }
    outcome_ = {.code = std::nullopt, .key = fmt::format("line {} read", line)};
    return {};
  }
  if (input_->at >= input_->text.size()) {
    for (const std::string& name : names) {
      SetText(name, {}, line);
    }
    Done(1);
    return {};
  }
  std::string text;
  std::string escaped;  // which of its characters are
  bool ended = false;
  while (input_->at < input_->text.size() && !ended) {
    const char c = input_->text[input_->at++];
    if (c == end) {
      ended = true;
    } else if (c == '\\' && !raw) {
      if (input_->at < input_->text.size()) {
        const char next = input_->text[input_->at++];
        if (next != '\n') {
          text += next;
          escaped += '1';
        }
      }
    } else {
      text += c;
      escaped += '0';
    }
  }
  MSP_RETURN_IF_ERROR(CountBytes(text.size()));
  const std::string separators = Separators();
  const auto separates = [&](size_t i) {
    return escaped[i] == '0' && separators.find(text[i]) != std::string::npos;
  };
  const auto blank = [&](size_t i) {
    return separates(i) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n');
  };
  // The last name gets all that is left.
  std::vector<std::string> fields;
  size_t at = 0;
  size_t stop = text.size();
  while (stop > at && blank(stop - 1)) {
    --stop;
  }
  while (at < stop && blank(at)) {
    ++at;
  }
  while (at < stop) {
    if (!array && fields.size() + 1 == names.size()) {
      std::string rest = text.substr(at, stop - at);
      // A single non-blank separator at the end is dropped, as bash does.
      if (!rest.empty() && separates(stop - 1) && !blank(stop - 1)) {
        bool only = true;
        for (size_t i = at; i + 1 < stop; ++i) {
          only = only && !(separates(i) && !blank(i));
        }
        if (only) {
          rest.pop_back();
        }
      }
      fields.push_back(std::move(rest));
      break;
    }
    const size_t begin = at;
    while (at < stop && !separates(at)) {
      ++at;
    }
    fields.push_back(text.substr(begin, at - begin));
    while (at < stop && blank(at)) {
      ++at;
    }
    if (at < stop && separates(at) && !blank(at)) {
      ++at;
      while (at < stop && blank(at)) {
        ++at;
      }
    }
  }
  if (array) {
    Variable& variable = Own(names[0]);
    variable = {};
    variable.is_array = true;
    variable.is_set = true;
    variable.line = line;
    for (size_t i = 0; i < fields.size(); ++i) {
      variable.elements.emplace_back(std::to_string(i), std::move(fields[i]));
    }
  } else {
    for (size_t i = 0; i < names.size(); ++i) {
      SetText(names[i], i < fields.size() ? std::move(fields[i]) : std::string(), line);
    }
  }
  Done(ended ? 0 : 1);
  return {};
}

void ShellRun::ReadLines(const std::vector<std::string>& words) {
  std::string name = "MAPFILE";
  bool trims = false;
  bool odd = input_->unknown;
  for (const std::string& word : words) {
    if (word == "-t") {
      trims = true;
    } else if (word.starts_with('-')) {
      odd = true;
    } else {
      name = word;
    }
  }
  if (odd) {
    Own(name).is_array = true;
    ForgetName(name);
    Done(0);
    return;
  }
  Variable& variable = Own(name);
  variable = {};
  variable.is_array = true;
  variable.is_set = true;
  std::string_view rest = std::string_view(input_->text).substr(input_->at);
  for (size_t i = 0; !rest.empty(); ++i) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const size_t taken = std::min(end + 1, rest.size());
    variable.elements.emplace_back(std::to_string(i), rest.substr(0, trims ? end : taken));
    rest.remove_prefix(taken);
  }
  input_->at = input_->text.size();
  Done(0);
}

// Programs whose output follows from their input. False: it is none of them.
bool ShellRun::Filter(const std::vector<std::string>& words) {
  if (output_ == nullptr) {
    return false;
  }
  const std::string& name = words[0];
  const std::span<const std::string> arguments = std::span(words).subspan(1);
  const bool known = std::none_of(words.begin(), words.end(),
                                  [](const std::string& word) { return HasUnknown(word); });
  const auto number = [&](size_t i) { return base::ParseInt(words[i]); };
  if ((name == "basename" || name == "dirname") && known && arguments.size() >= 1 &&
      !arguments[0].starts_with('-') && arguments.size() <= 2) {
    std::string path = arguments[0];
    while (path.size() > 1 && path.ends_with('/')) {
      path.pop_back();
    }
    const size_t slash = path.rfind('/');
    if (name == "basename") {
      std::string base = slash == std::string::npos || path == "/" ? path : path.substr(slash + 1);
      if (arguments.size() == 2 && base.ends_with(arguments[1]) && base != arguments[1]) {
        base.resize(base.size() - arguments[1].size());
      }
      Print(base + "\n");
    } else {
      std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
      while (folder.size() > 1 && folder.ends_with('/')) {
        folder.pop_back();
      }
      Print((folder.empty() ? "/" : folder) + "\n");
    }
    return true;
  }
  if (name == "seq" && known && arguments.size() >= 1 && arguments.size() <= 3) {
    std::vector<int64_t> numbers;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::optional<int64_t> value = number(i);
      if (!value || std::abs(*value) > 1'000'000'000) {
        return false;
      }
      numbers.push_back(*value);
    }
    const int64_t first = numbers.size() > 1 ? numbers[0] : 1;
    const int64_t step = numbers.size() > 2 ? numbers[1] : 1;
    const int64_t last = numbers.back();
    if (step == 0 || std::abs(last - first) / std::abs(step) > 10'000) {
      return false;
    }
    for (int64_t value = first; step > 0 ? value <= last : value >= last; value += step) {
      Print(std::to_string(value) + "\n");
    }
    return true;
  }
  if (name == "expr" && known && arguments.size() == 3 && number(1) && number(3)) {
    const std::string& sign = words[2];
    if (sign.size() == 1 && std::string_view("+-*/%").find(sign[0]) != std::string_view::npos) {
      const Result<std::optional<int64_t>> value =
          Arithmetic(fmt::format("({}){}({})", words[1], sign, words[3]));
      if (value.ok() && *value) {
        Print(std::to_string(**value) + "\n");
        return true;
      }
    }
    return false;
  }
  if (input_->unknown) {
    return false;
  }
  const std::string text = input_->text.substr(std::min(input_->at, input_->text.size()));
  if (name == "cat" && (arguments.empty() || (arguments.size() == 1 && arguments[0] == "-"))) {
    input_->at = input_->text.size();
    Print(text);
    return true;
  }
  if (!known || HasUnknown(text)) {
    return false;
  }
  if (name == "xargs" && arguments.empty() && text.find_first_of("'\"\\") == std::string::npos) {
    std::string line;
    std::string word;
    for (const char c : text + " ") {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) {
        word += c;
      } else if (!word.empty()) {
        line += (line.empty() ? "" : " ") + word;
        word.clear();
      }
    }
    Print(line + "\n");
    return true;
  }
  if (name == "tr" && arguments.size() == 2) {
    std::string out;
    if (arguments[0] == "-d") {
      const std::string set = SetOf(Unescaped(arguments[1]));
      std::copy_if(text.begin(), text.end(), std::back_inserter(out),
                   [&](char c) { return set.find(c) == std::string::npos; });
    } else if (!arguments[0].starts_with('-')) {
      const std::string from = SetOf(Unescaped(arguments[0]));
      const std::string to = SetOf(Unescaped(arguments[1]));
      for (const char c : text) {
        const size_t place = from.rfind(c);
        out += place == std::string::npos || to.empty() ? c : to[std::min(place, to.size() - 1)];
      }
    } else {
      return false;
    }
    Print(out);
    return true;
  }
  if (name == "cut") {
    char separator = '\t';
    std::optional<int64_t> field;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& word = arguments[i];
      if (word.size() < 2 || word[0] != '-' || (word[1] != 'd' && word[1] != 'f')) {
        return false;
      }
      const std::string value = word.size() > 2            ? word.substr(2)
                                : i + 1 < arguments.size() ? arguments[++i]
                                                           : "";
      if (word[1] == 'd' && value.size() == 1) {
        separator = value[0];
      } else if (word[1] == 'f') {
        field = base::ParseInt(value);
      }
    }
    if (!field || *field < 1) {
      return false;
    }
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      const std::vector<std::string_view> parts = base::Split(line, separator);
      const auto place = static_cast<size_t>(*field - 1);
      Print(std::string(parts.size() == 1      ? line
                        : place < parts.size() ? parts[place]
                                               : std::string_view()) +
            "\n");
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return true;
  }
  return false;
}

namespace {

// All expansions of a script together: what they come to, and the spelling of every reference each
// time that it is expanded, because what expands to nothing is work, too.
constexpr size_t kExpandedLimitBytes = size_t{16} << 20U;

bool IsBlankSeparator(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

// Collects the fields of one command.
class ShellRun::Builder {
 public:
  Builder(bool splits, std::string separators)
      : splits_(splits), separators_(std::move(separators)) {}

  bool splits() const { return splits_; }
  void BeginWord(const ShellWord& word) {
    line_ = word.line;
    begun_ = word.has_quotes;
    quoted_ = word.has_quotes;
    field_.clear();
  }
  void EndWord() {
    if (begun_) {
      const bool unknown =
          field_.starts_with(kOpenUnknown) && field_.find(kCloseUnknown) + 1 == field_.size();
      fields_.push_back({std::move(field_), unknown, unknown && !quoted_, line_});
    }
    field_ = {};
    begun_ = false;
    ends_with_separator_ = false;
  }

  // Text that stands in one field.
  void Add(std::string_view text) {
    if (ends_with_separator_) {
      NextField();
    }
    field_ += text;
    begun_ = true;
  }
  // The value of a variable. A non-blank separator ends a field even where that is empty.
  void AddValue(std::string_view text, bool quoted) {
    if (quoted || !splits_ || separators_.empty()) {
      Add(text);
      return;
    }
    size_t at = 0;
    while (at < text.size()) {
      const char c = text[at];
      if (separators_.find(c) == std::string::npos) {
        if (ends_with_separator_) {
          NextField();
        }
        field_ += c;
        begun_ = true;
        ++at;
        continue;
      }
      if (IsBlankSeparator(c)) {
        ends_with_separator_ = begun_;
        ++at;
        continue;
      }
      if (!begun_ && !ends_with_separator_) {
        begun_ = true;  // an empty field in front of it
      }
      NextField();
      ++at;
    }
  }
  void AddElements(const std::vector<std::string>& elements, bool quoted) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0 && splits_) {
        NextField();
        begun_ = quoted;
      } else if (i > 0) {
        Add(" ");
      }
      AddValue(elements[i], quoted);
    }
  }
  // Quotes around nothing but an empty "$@" leave no field.
  void DropEmptyWord() { begun_ = !field_.empty(); }

  std::vector<ShellField> TakeFields() { return std::move(fields_); }

 private:
  void NextField() { EndWord(); }

  const bool splits_;
  const std::string separators_;
  std::vector<ShellField> fields_;
  std::string field_;
  bool begun_ = false;
  bool quoted_ = false;
  bool ends_with_separator_ = false;  // blanks: a field ends if there is another one
  int line_ = 0;
};

Status ShellRun::CountBytes(size_t bytes) {
  work_.expanded_bytes += bytes;
  if (work_.expanded_bytes > kExpandedLimitBytes) {
    return BadFormatError(
        fmt::format("its variables expand to more than {} bytes", kExpandedLimitBytes));
  }
  return {};
}

std::string ShellRun::UnknownText(std::string spelling, ShellUnknown::Kind kind) {
  const auto [place, is_new] = unknown_places_.emplace(spelling, unknowns_.size());
  if (is_new) {
    unknowns_.push_back({std::move(spelling), kind, false, std::nullopt});
  }
  return fmt::format("{}{}{}", kOpenUnknown, place->second, kCloseUnknown);
}

std::vector<const ShellUnknown*> ShellRun::UnknownsIn(std::string_view text) const {
  std::vector<const ShellUnknown*> found;
  for (size_t at = text.find(kOpenUnknown); at != std::string_view::npos;
       at = text.find(kOpenUnknown, at + 1)) {
    const size_t close = text.find(kCloseUnknown, at);
    const auto number = base::ParseInt(text.substr(at + 1, close - at - 1));
    if (number && *number >= 0 && static_cast<size_t>(*number) < unknowns_.size()) {
      found.push_back(&unknowns_[static_cast<size_t>(*number)]);
    }
  }
  return found;
}

std::string ShellRun::Spelled(std::string_view text) const {
  std::string spelled;
  while (!text.empty()) {
    const size_t open = std::min(text.find(kOpenUnknown), text.size());
    spelled += text.substr(0, open);
    text.remove_prefix(open);
    if (text.empty()) {
      break;
    }
    const size_t close = std::min(text.find(kCloseUnknown), text.size() - 1);
    for (const ShellUnknown* unknown : UnknownsIn(text.substr(0, close + 1))) {
      spelled += unknown->spelling;
    }
    text.remove_prefix(close + 1);
  }
  return spelled;
}

std::string ShellRun::Resolve(std::string text) const {
  if (!HasUnknown(text)) {
    return text;
  }
  std::string resolved;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find(kOpenUnknown), rest.size());
    resolved += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) {
      break;
    }
    const size_t close = std::min(rest.find(kCloseUnknown), rest.size() - 1);
    const std::vector<const ShellUnknown*> unknown = UnknownsIn(rest.substr(0, close + 1));
    if (!unknown.empty() && unknown[0]->binding) {
      resolved += *unknown[0]->binding;
    } else {
      resolved += rest.substr(0, close + 1);
    }
    rest.remove_prefix(close + 1);
  }
  return resolved;
}

std::string ShellRun::Separators() const {
  const auto found = variables_.find("IFS");
  return found == variables_.end() || !found->second->is_set || HasUnknown(found->second->text)
             ? std::string(" \t\n")
             : found->second->text;
}

Result<std::string> ShellRun::OperandText(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const ShellWord word, ParseOperand(text, true));
  return Text(word);
}

Result<std::string> ShellRun::Text(const ShellWord& word) {
  Builder builder(false, {});
  builder.BeginWord(word);
  MSP_RETURN_IF_ERROR(ExpandWord(word, 0, builder), fmt::format("line {}", word.line));
  builder.EndWord();
  std::vector<ShellField> fields = builder.TakeFields();
  return fields.empty() ? std::string() : Resolve(std::move(fields[0].text));
}

Result<std::string> ShellRun::Pattern(const ShellWord& word) {
  std::string pattern;
  for (const ShellSegment& segment : word.segments) {
    if (segment.part == ShellPart::kText || segment.part == ShellPart::kOpaque) {
      pattern += segment.quoted ? EscapedPattern(segment.text) : segment.text;
      continue;
    }
    ShellWord part;
    part.line = word.line;
    part.segments.push_back(segment);
    MSP_ASSIGN_OR_RETURN(const std::string text, Text(part));
    pattern += segment.quoted && !HasUnknown(text) ? EscapedPattern(text) : text;
  }
  return pattern;
}

Status ShellRun::ExpandVariable(const ShellSegment& segment, int depth, Builder& out) {
  MSP_RETURN_IF_ERROR(CountBytes(segment.text.size()));
  MSP_ASSIGN_OR_RETURN(Reference reference, Look(segment));
  const std::string& operation = segment.operation;
  if (segment.prefix == '#') {
    if (reference.unknown ||
        std::any_of(reference.values.begin(), reference.values.end(),
                    [](const std::string& v) { return HasUnknown(v); }) ||
        ((segment.name == "@" || segment.name == "*") && !arguments_known_)) {
      out.Add(UnknownText(segment.text, ShellUnknown::Kind::kOther));
      return {};
    }
    const size_t size = reference.many             ? reference.values.size()
                        : reference.values.empty() ? 0
                                                   : reference.values[0].size();
    out.AddValue(std::to_string(size), segment.quoted);
    return {};
  }
  const bool is_set = reference.is_set;
  const bool has_text =
      is_set && !(reference.values.size() == 1 && reference.values.front().empty());
  const bool use_operand = operation.starts_with(':') ? !has_text : !is_set;
  const std::string_view kind =
      std::string_view(operation).substr(operation.size() == 2 && operation[0] == ':' ? 1 : 0);
  if (kind == "+" ? !use_operand : (kind == "-" || kind == "=") && use_operand) {
    MSP_ASSIGN_OR_RETURN(ShellWord operand, ParseOperand(segment.operand, segment.quoted));
    if (reference.unknown && IsArgumentName(segment.name)) {
      WarnAt(segment.line,
             fmt::format("{}: the default, as if the script had no arguments", segment.text));
    }
    if (kind == "=") {
      Builder value(false, {});
      value.BeginWord(operand);
      MSP_RETURN_IF_ERROR(ExpandWord(operand, depth + 1, value));
      value.EndWord();
      std::vector<ShellField> fields = value.TakeFields();
      SetText(segment.name, fields.empty() ? std::string() : std::move(fields[0].text),
              segment.line);
    }
    return ExpandWord(operand, depth + 1, out);
  }
  if (kind == "+") {
    return {};
  }
  if (reference.unknown && !reference.many) {
    const bool plain = operation.empty() || kind == "?" || kind == "-" || kind == "=";
    if (plain && operation.empty()) {
      out.Add(reference.values[0]);
    } else {
      out.Add(UnknownText(segment.text,
                          plain ? ShellUnknown::Kind::kEnvironment : ShellUnknown::Kind::kOther));
    }
    return {};
  }
  if (!operation.empty() && kind != "-" && kind != "=" && kind != "?") {
    MSP_RETURN_IF_ERROR(ApplyOperation(segment, reference, depth + 1));
  }
  if (reference.many) {
    if (reference.values.empty()) {
      out.DropEmptyWord();
      return {};
    }
    size_t bytes = 0;
    for (const std::string& value : reference.values) {
      bytes += value.size() + 1;
    }
    MSP_RETURN_IF_ERROR(CountBytes(bytes));
    if (reference.joined && segment.quoted) {
      const std::string separators = Separators();
      out.AddValue(base::Join(reference.values, std::string_view(separators).substr(0, 1)), true);
    } else {
      out.AddElements(reference.values, segment.quoted);
    }
    return {};
  }
  if (!reference.values.empty()) {
    MSP_RETURN_IF_ERROR(CountBytes(reference.values[0].size()));
    out.AddValue(reference.values[0], segment.quoted);
  }
  return {};
}

Status ShellRun::ExpandWord(const ShellWord& word, int depth, Builder& out) {
  if (depth > kDeepestDefaults) {
    return BadFormatError(fmt::format("more than {} nested defaults", kDeepestDefaults));
  }
  for (size_t i = 0; i < word.segments.size(); ++i) {
    const ShellSegment& segment = word.segments[i];
    MSP_RETURN_IF_ERROR(CountBytes(segment.text.size()));
    switch (segment.part) {
      case ShellPart::kText: {
        std::string_view text = segment.text;
        if (i == 0 && !segment.quoted && text.starts_with('~') &&
            (text.size() == 1 || text[1] == '/')) {
          out.Add(UnknownText("~", ShellUnknown::Kind::kEnvironment));
          text.remove_prefix(1);
        }
        // Unquoted blanks are there in the operand of a default only, and split it.
        if (!text.empty() || segment.quoted) {
          out.AddValue(text, segment.quoted || depth == 0);
        }
        break;
      }
      case ShellPart::kOpaque:
        out.Add(UnknownText(segment.text, ShellUnknown::Kind::kOther));
        break;
      case ShellPart::kCommand: {
        MSP_ASSIGN_OR_RETURN(const std::string text, Substitute(segment));
        MSP_RETURN_IF_ERROR(CountBytes(text.size()));
        out.AddValue(text, segment.quoted);
        break;
      }
      case ShellPart::kArithmetic: {
        MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> value, Arithmetic(segment.operand));
        out.AddValue(
            value ? std::to_string(*value) : UnknownText(segment.text, ShellUnknown::Kind::kOther),
            segment.quoted);
        break;
      }
      case ShellPart::kVariable:
        MSP_RETURN_IF_ERROR(ExpandVariable(segment, depth, out));
        break;
    }
  }
  return {};
}

Result<std::vector<ShellField>> ShellRun::Expand(const std::vector<ShellWord>& words) {
  Builder builder(true, Separators());
  for (const ShellWord& braced : words) {
    const std::vector<ShellWord> made = WordsOfBraces(braced);
    constexpr size_t kCost = 64;  // of making a word
    MSP_RETURN_IF_ERROR(CountBytes(made.size() > 1 ? made.size() * kCost : 0));
    for (const ShellWord& word : made) {
      builder.BeginWord(word);
      MSP_RETURN_IF_ERROR(ExpandWord(word, 0, builder), fmt::format("line {}", word.line));
      builder.EndWord();
    }
  }
  return builder.TakeFields();
}

namespace {

// What a shell sets by itself: a default is never taken.
constexpr std::array<std::string_view, 16> kSetByShell = {
    "PWD",  "HOSTNAME", "UID",      "EUID",   "PPID",     "RANDOM", "SECONDS",     "LINENO",
    "BASH", "SHLVL",    "HOSTTYPE", "OSTYPE", "MACHTYPE", "PATH",   "BASH_SOURCE", "BASH_VERSION"};

}  // namespace

bool IsArgumentName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), base::IsDigit);
}

ShellRun::Variable& ShellRun::Own(const std::string& name) {
  std::shared_ptr<Variable>& variable = variables_[name];
  if (variable == nullptr) {
    variable = std::make_shared<Variable>();
  } else if (variable.use_count() > 1) {
    variable = std::make_shared<Variable>(*variable);
  }
  return *variable;
}

void ShellRun::SetText(const std::string& name, std::string value, int line) {
  Variable& variable = Own(name);
  variable.is_set = true;
  variable.exported = variable.exported || exports_all_;
  variable.line = line;
  if (variable.is_array) {
    variable.elements.clear();
    variable.elements.emplace_back("0", std::move(value));
  } else {
    variable.text = std::move(value);
  }
}

Result<ShellRun::Reference> ShellRun::LookUp(const std::string& name, const std::string& index,
                                             const std::string& spelling) {
  using Kind = ShellUnknown::Kind;
  Reference reference;
  if (name == "@" || name == "*") {
    reference.many = true;
    reference.joined = name == "*";
    reference.values = arguments_;
    reference.is_set = !arguments_.empty();
    return reference;
  }
  if (name == "#") {
    reference.is_set = true;
    reference.values = {arguments_known_ ? std::to_string(arguments_.size())
                                         : UnknownText("$#", Kind::kArgument)};
    return reference;
  }
  if (name == "?" && outcome_.code) {
    reference.is_set = true;
    reference.values = {std::to_string(*outcome_.code)};
    return reference;
  }
  if (name == "?" || name == "$" || name == "!" || name == "-" || name == "0") {
    reference.is_set = true;
    reference.values = {UnknownText("$" + name, Kind::kOther)};
    return reference;
  }
  if (IsArgumentName(name)) {
    const auto place = static_cast<size_t>(base::ParseInt(name).value_or(0));
    if (arguments_known_) {
      reference.is_set = place >= 1 && place <= arguments_.size();
      if (reference.is_set) {
        reference.values = {arguments_[place - 1]};
      }
      return reference;
    }
    const std::string text = UnknownText(fmt::format("${}", place + shifted_), Kind::kArgument);
    const ShellUnknown* unknown = UnknownsIn(text)[0];
    reference.unknown = !unknown->assumed_set && !unknown->binding;
    const std::string value = Resolve(text);
    reference.is_set = unknown->assumed_set || !value.empty();
    reference.values = {value};
    reference.is_set = reference.is_set && !reference.unknown;
    return reference;
  }
  const auto found = variables_.find(name);
  if (found != variables_.end() && (found->second->is_set || found->second->is_array)) {
    const Variable& variable = *found->second;
    if (index == "@" || index == "*") {
      reference.many = true;
      reference.joined = index == "*";
      size_t bytes = 0;
      for (const auto& [key, value] : variable.elements) {
        bytes += value.size() + 1;
      }
      MSP_RETURN_IF_ERROR(CountBytes(bytes));
      if (!variable.is_array) {
        reference.values.push_back(variable.text);
      }
      for (const auto& [key, value] : variable.elements) {
        reference.values.push_back(Resolve(value));
      }
      // The order of keys is that of bash's hash table.
      if (variable.has_keys && variable.elements.size() > 1) {
        reference.values = {UnknownText(spelling, Kind::kOther)};
      }
      reference.is_set = !reference.values.empty();
      return reference;
    }
    std::string key = index.empty() ? "0" : index;
    if (!index.empty() && variable.has_keys) {
      MSP_ASSIGN_OR_RETURN(key, OperandText(index));
    } else if (!index.empty()) {
      MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> number, Arithmetic(index));
      key = number
                ? std::to_string(
                      *number < 0 && !variable.elements.empty()
                          ? *number + base::ParseInt(variable.elements.back().first).value_or(0) + 1
                          : *number)
                : std::string(1, kOpenUnknown);
    }
    if (HasUnknown(key)) {
      reference.is_set = true;
      reference.values = {UnknownText(spelling, Kind::kOther)};
      return reference;
    }
    if (!variable.is_array) {
      reference.is_set = key == "0";
      reference.values = {Resolve(variable.text)};
      return reference;
    }
    // Mostly the indices are 0, 1, 2...
    const auto place = static_cast<size_t>(std::max<int64_t>(base::ParseInt(key).value_or(0), 0));
    if (place < variable.elements.size() && variable.elements[place].first == key) {
      reference.is_set = true;
      reference.values = {Resolve(variable.elements[place].second)};
      return reference;
    }
    MSP_RETURN_IF_ERROR(CountBytes(variable.elements.size()));
    for (const auto& [element, value] : variable.elements) {
      if (element == key) {
        reference.is_set = true;
        reference.values = {Resolve(value)};
      }
    }
    return reference;
  }
  if (found != variables_.end()) {  // unset, or declared only
    return reference;
  }
  const std::string text = UnknownText(
      spelling.starts_with("${") && spelling.size() == name.size() + 3 ? spelling : "$" + name,
      Kind::kEnvironment);
  const ShellUnknown* unknown = UnknownsIn(text)[0];
  reference.values = {Resolve(text)};
  if (base::IsOneOf(name, kSetByShell) || unknown->assumed_set) {
    reference.is_set = true;
  } else if (unknown->binding) {
    reference.is_set = !unknown->binding->empty();
  } else {
    reference.unknown = true;
  }
  return reference;
}

Result<ShellRun::Reference> ShellRun::Look(const ShellSegment& segment) {
  if (segment.prefix == '!') {
    Reference reference;
    if (segment.index == "@" || segment.index == "*") {
      reference.many = true;
      const auto found = variables_.find(segment.name);
      if (found != variables_.end()) {
        for (const auto& [key, value] : found->second->elements) {
          reference.values.push_back(key);
        }
        if (found->second->has_keys && reference.values.size() > 1) {
          reference.values = {UnknownText(segment.text, ShellUnknown::Kind::kOther)};
        }
      }
      reference.is_set = !reference.values.empty();
      return reference;
    }
    MSP_ASSIGN_OR_RETURN(reference, LookUp(segment.name, segment.index, segment.text));
    const std::string target = reference.values.empty() ? std::string() : reference.values[0];
    const bool is_name = !target.empty() && (StartsName(target[0]) || base::IsDigit(target[0])) &&
                         std::all_of(target.begin(), target.end(),
                                     [](char c) { return StartsName(c) || base::IsDigit(c); });
    if (!is_name || !segment.index.empty()) {
      reference = {};
      reference.is_set = true;
      reference.values = {UnknownText(segment.text, ShellUnknown::Kind::kOther)};
      return reference;
    }
    return LookUp(target, {}, "$" + target);
  }
  return LookUp(segment.name, segment.index, segment.text);
}

// All but the defaults.
Status ShellRun::ApplyOperation(const ShellSegment& segment, Reference& reference, int depth) {
  const std::string& operation = segment.operation;
  const auto opaque = [&] {
    reference.is_set = true;
    reference.many = false;
    reference.values = {UnknownText(segment.text, ShellUnknown::Kind::kOther)};
  };
  if (std::any_of(reference.values.begin(), reference.values.end(),
                  [](const std::string& value) { return HasUnknown(value); })) {
    opaque();
    return {};
  }
  if (operation == ":") {
    const size_t colon = segment.operand.find(':');
    MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> offset,
                         Arithmetic(std::string_view(segment.operand).substr(0, colon)));
    std::optional<int64_t> length = std::numeric_limits<int64_t>::max();
    if (colon != std::string::npos) {
      MSP_ASSIGN_OR_RETURN(length, Arithmetic(std::string_view(segment.operand).substr(colon + 1)));
    }
    if (!offset || !length || (segment.name == "@" && *offset < 1)) {
      opaque();
      return {};
    }
    const auto cut = [&](int64_t size) {
      int64_t first = *offset < 0 ? size + *offset : *offset;
      first = std::clamp<int64_t>(first, 0, size);
      const int64_t last =
          *length < 0 ? std::max(first, size + *length) : first + std::min(*length, size - first);
      return std::pair(static_cast<size_t>(first), static_cast<size_t>(last - first));
    };
    if (reference.many) {
      // The arguments of the script count from 1.
      const bool arguments = segment.name == "@" || segment.name == "*";
      const auto size = static_cast<int64_t>(reference.values.size());
      int64_t first = *offset < 0 ? size + *offset : *offset - (arguments ? 1 : 0);
      first = std::clamp<int64_t>(first, 0, size);
      const int64_t count = std::clamp<int64_t>(*length, 0, size - first);
      reference.values = {reference.values.begin() + first,
                          reference.values.begin() + first + count};
      return {};
    }
    for (std::string& value : reference.values) {
      const auto [first, count] = cut(static_cast<int64_t>(value.size()));
      value = value.substr(first, count);
    }
    return {};
  }
  if (operation.starts_with('^') || operation.starts_with(',')) {
    for (std::string& value : reference.values) {
      const size_t count = operation.size() == 2 ? value.size() : std::min<size_t>(1, value.size());
      for (size_t i = 0; i < count; ++i) {
        const auto byte = static_cast<unsigned char>(value[i]);
        value[i] = static_cast<char>(operation[0] == '^' ? std::toupper(byte) : std::tolower(byte));
      }
    }
    if (!segment.operand.empty()) {
      opaque();
    }
    return {};
  }
  if (depth > kDeepestDefaults) {
    return BadFormatError(fmt::format("more than {} nested defaults", kDeepestDefaults));
  }
  const bool replaces = operation.starts_with('/');
  std::string_view pattern_text = segment.operand;
  std::string_view replacement_text;
  if (replaces) {
    size_t slash = 0;
    while (slash < pattern_text.size() && pattern_text[slash] != '/') {
      slash += pattern_text[slash] == '\\' ? 2 : 1;
    }
    replacement_text = pattern_text.substr(std::min(slash + 1, pattern_text.size()));
    pattern_text = pattern_text.substr(0, std::min(slash, pattern_text.size()));
  }
  MSP_ASSIGN_OR_RETURN(const ShellWord pattern_word, ParseOperand(pattern_text, false));
  MSP_ASSIGN_OR_RETURN(const std::string pattern, Pattern(pattern_word));
  MSP_ASSIGN_OR_RETURN(const ShellWord replacement_word, ParseOperand(replacement_text, false));
  MSP_ASSIGN_OR_RETURN(const std::string replacement, Text(replacement_word));
  if (HasUnknown(pattern) || HasUnknown(replacement) ||
      !MatchesPattern(pattern, std::string_view()).has_value() ||
      (replaces && replacement.find('&') != std::string::npos)) {
    opaque();
    return {};
  }
  const auto matches = [&](std::string_view text) {
    return MatchesPattern(pattern, text).value_or(false);
  };
  for (std::string& value : reference.values) {
    const std::string_view text = value;
    // Each length is tried, at each place: a value too long for that stays as it is spelled.
    constexpr size_t kLongest = 4096;
    constexpr size_t kLongestReplaced = 256;
    const bool has_star = pattern.find('*') != std::string::npos;
    if (value.size() > (replaces && has_star ? kLongestReplaced : kLongest)) {
      opaque();
      return {};
    }
    MSP_RETURN_IF_ERROR(CountBytes(value.size() * 16));
    if (!replaces) {
      const bool front = operation[0] == '#';
      const bool longest = operation.size() == 2;
      for (size_t i = 0; i <= text.size(); ++i) {
        const size_t size = longest ? text.size() - i : i;
        const std::string_view part =
            front ? text.substr(0, size) : text.substr(text.size() - size);
        if (matches(part)) {
          value = front ? value.substr(size) : value.substr(0, value.size() - size);
          break;
        }
      }
      continue;
    }
    if (pattern.empty()) {
      continue;
    }
    std::string result;
    size_t at = 0;
    bool done = false;
    while (at <= text.size()) {
      size_t size = std::string_view::npos;
      const bool here = operation == "/#" ? at == 0 : true;
      if (!done && here) {
        const size_t longest = has_star ? text.size() : std::min(text.size(), at + pattern.size());
        for (size_t end = longest;; --end) {
          const bool fits = operation != "/%" || end == text.size();
          if (fits && matches(text.substr(at, end - at))) {
            size = end - at;
            break;
          }
          if (end == at) {
            break;
          }
        }
      }
      if (size != std::string_view::npos && (size > 0 || operation == "/#" || operation == "/%")) {
        result += replacement;
        at += size;
        done = operation != "//";
        if (size > 0) {
          continue;
        }
      }
      if (at < text.size()) {
        result += text[at];
      }
      ++at;
    }
    value = std::move(result);
  }
  return {};
}

Status ShellRun::SetElement(Variable& variable, const std::string& index, std::string value,
                            bool appends) {
  std::string key;
  if (index.empty()) {
    key = variable.elements.empty()
              ? "0"
              : std::to_string(base::ParseInt(variable.elements.back().first).value_or(0) + 1);
  } else if (variable.has_keys) {
    MSP_ASSIGN_OR_RETURN(key, OperandText(index));
  } else {
    MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> number, Arithmetic(index));
    if (!number) {
      // Whichever it is: none of them is known any more.
      variable.elements = {{"0", UnknownText("$" + index, ShellUnknown::Kind::kOther)}};
      return {};
    }
    key = std::to_string(*number);
  }
  if (!index.empty()) {
    MSP_RETURN_IF_ERROR(CountBytes(variable.elements.size()));
    for (auto& [known, old] : variable.elements) {
      if (known == key) {
        old = appends ? old + value : std::move(value);
        return {};
      }
    }
  }
  if (index.empty() || variable.has_keys) {
    variable.elements.emplace_back(key, std::move(value));
    return {};
  }
  // In the order of the indices.
  const auto place =
      std::upper_bound(variable.elements.begin(), variable.elements.end(),
                       base::ParseInt(key).value_or(0), [](int64_t number, const auto& element) {
                         return number < base::ParseInt(element.first).value_or(0);
                       });
  variable.elements.emplace(place, key, std::move(value));
  return {};
}

Status ShellRun::Assign(const ShellAssignment& assignment) {
  const int line = assignment.words.empty() ? 0 : assignment.words.front().line;
  if (assignment.is_array) {
    // Values first: they may be made of the array itself.
    std::vector<std::pair<std::string, std::vector<ShellField>>> values;
    for (size_t i = 0; i < assignment.words.size(); ++i) {
      const std::string& index = assignment.indices[i];
      auto& [key, fields] = values.emplace_back(index, std::vector<ShellField>());
      if (index.empty()) {
        MSP_ASSIGN_OR_RETURN(fields, Expand({assignment.words[i]}));
      } else {
        MSP_ASSIGN_OR_RETURN(std::string text, Text(assignment.words[i]));
        fields.push_back({std::move(text), false, false, line});
      }
    }
    Variable& variable = Own(assignment.name);
    if (!variable.is_array && assignment.appends && variable.is_set) {
      variable.elements = {{"0", variable.text}};
    } else if (!assignment.appends) {
      variable.elements.clear();
    }
    variable.is_array = true;
    variable.is_set = true;
    variable.line = line;
    for (auto& [key, fields] : values) {
      for (ShellField& field : fields) {
        MSP_RETURN_IF_ERROR(SetElement(variable, key, std::move(field.text), false));
      }
    }
    return {};
  }
  MSP_ASSIGN_OR_RETURN(std::string value, Text(assignment.words.at(0)));
  if (!assignment.index.empty()) {
    Variable& variable = Own(assignment.name);
    if (!variable.is_array) {
      variable.is_array = true;
      if (variable.is_set) {
        variable.elements = {{"0", variable.text}};
      }
    }
    variable.is_set = true;
    return SetElement(variable, assignment.index, std::move(value), assignment.appends);
  }
  const auto known = variables_.find(assignment.name);
  const bool is_integer = known != variables_.end() && known->second->is_integer;
  if (is_integer) {
    MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> number, Arithmetic(value));
    value = number ? std::to_string(*number)
                   : UnknownText("$" + assignment.name, ShellUnknown::Kind::kOther);
  }
  if (assignment.appends) {
    MSP_ASSIGN_OR_RETURN(const Reference before,
                         LookUp(assignment.name, {}, "$" + assignment.name));
    const std::string old = before.values.empty() ? std::string() : before.values[0];
    if (is_integer) {
      const std::optional<int64_t> a = base::ParseInt(old.empty() ? "0" : old);
      const std::optional<int64_t> b = base::ParseInt(value);
      value = a && b ? std::to_string(static_cast<int64_t>(static_cast<uint64_t>(*a) +
                                                           static_cast<uint64_t>(*b)))
                     : UnknownText("$" + assignment.name, ShellUnknown::Kind::kOther);
    } else {
      MSP_RETURN_IF_ERROR(CountBytes(old.size()));
      value = old + value;
    }
  }
  SetText(assignment.name, std::move(value), line);
  return {};
}

}  // namespace msprobe::analysis::config_check::internal
