// What echo, printf and a few programs print, and what read makes of it: text that follows from
// what they are given.
#include <algorithm>
#include <cctype>
#include <iterator>
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

}  // namespace msprobe::analysis::config_check::internal
