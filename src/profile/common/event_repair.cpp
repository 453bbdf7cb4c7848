#include "src/profile/common/event_repair.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace msprobe::profile {
namespace {

bool IsJsonWord(std::string_view word) {
  constexpr std::array<std::string_view, 6> kWords = {"true", "false",    "null",
                                                      "NaN",  "Infinity", "-Infinity"};
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) {
    return true;
  }
  size_t at = word.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = at;
    at = std::min(word.find_first_not_of("0123456789", at), word.size());
    return at > begin;
  };
  const size_t first = at;
  if (!digits() || (word[first] == '0' && at - first > 1)) {
    return false;
  }
  if (at < word.size() && word[at] == '.' && (++at, !digits())) {
    return false;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    at += at < word.size() && (word[at] == '+' || word[at] == '-') ? 1 : 0;
    if (!digits()) {
      return false;
    }
  }
  return at == word.size();
}

class Repair {
 public:
  Repair(std::string_view text, bool by_what_follows)
      : text_(text), by_what_follows_(by_what_follows) {}

  std::string Run() && {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (kBlanks.find(c) != std::string_view::npos) {
        out_ += c;
        ++at_;
      } else if (c == '"') {
        Text();
      } else if (kMarks.find(c) != std::string_view::npos) {
        Mark(c);
      } else {
        Word();
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r\n";
  static constexpr std::string_view kMarks = "{}[]:,";

  void Mark(char c) {
    const bool closes = c == '}' || c == ']';
    if (last_ == ':' && (closes || c == ',')) {
      out_ += "null";
    } else if (last_ == ',' && closes) {
      out_[last_at_] = ' ';
    } else if (c == ',' && (last_ == ',' || last_ == '{' || last_ == '[')) {
      ++at_;
      return;
    }
    Put(c);
  }

  void Put(char c) {
    last_ = c;
    last_at_ = out_.size();
    out_ += c;
    ++at_;
  }

  void Word() {
    const size_t end = std::min(text_.find_first_of("{}[]:,\" \t\r\n", at_ + 1), text_.size());
    std::string_view word = text_.substr(at_, end - at_);
    if (IsJsonWord(word)) {
      out_ += word;
    } else {
      if (word.size() > 1 && word.front() == '\'' && word.back() == '\'') {  // as Python prints it
        word = word.substr(1, word.size() - 2);
      }
      out_ += '"';
      for (const char c : word) {
        PutInText(c);
      }
      out_ += '"';
    }
    last_ = 'w';
    at_ = end;
  }

  // A byte that stands for itself.
  void PutInText(char c) {
    if (static_cast<unsigned char>(c) < 0x20) {
      out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out_ += c == '\\' || c == '"' ? "\\" : "";
      out_ += c;
    }
  }

  void Text() {
    Put('"');
    while (at_ < text_.size() && !EndsHere()) {
      const size_t escaped = text_[at_] == '\\' ? EscapeLength() : 0;
      if (escaped > 0) {
        out_ += text_.substr(at_, escaped);
        at_ += escaped;
      } else {
        PutInText(text_[at_++]);
      }
    }
    if (at_ < text_.size()) {
      Put('"');
    }
  }

  bool EndsHere() const {
    return text_[at_] == '"' &&
           (!by_what_follows_ || at_ + 1 == text_.size() || IsBehindText(text_.substr(at_ + 1)));
  }

  // Of the escape that stands here; 0: the backslash means itself.
  size_t EscapeLength() const {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with('"') && by_what_follows_ && IsBehindText(rest.substr(1))) {
      return 0;
    }
    if (rest.starts_with('u')) {
      constexpr size_t kDigits = 4;
      const std::string_view digits = rest.substr(1, kDigits);
      return digits.size() == kDigits &&
                     digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos
                 ? kDigits + 2
                 : 0;
    }
    return !rest.empty() && std::string_view("\"\\/bfnrt").find(rest[0]) != std::string_view::npos
               ? 2
               : 0;
  }

  static bool IsBehindText(std::string_view rest) {
    const auto skip = [&] {
      rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    };
    skip();
    if (rest.starts_with(',')) {
      rest.remove_prefix(1);
      skip();
      return !rest.empty() &&
             std::string_view("\"}[{-0123456789").find(rest[0]) != std::string_view::npos;
    }
    return rest.starts_with('}') || rest.starts_with(']') || rest.starts_with(':');
  }

  const std::string_view text_;
  const bool by_what_follows_;
  std::string out_;
  size_t at_ = 0;
  char last_ = '\0';    // the last mark, a quote behind a text, 'w' behind a word
  size_t last_at_ = 0;  // where it stands in `out_`
};

}  // namespace

std::string RepairedEvent(std::string_view text, bool by_what_follows) {
  return Repair(text, by_what_follows).Run();
}

}  // namespace msprobe::profile
