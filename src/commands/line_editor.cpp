#include "src/commands/line_editor.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

namespace msprobe::commands {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20U;

// libedit's interface of readline knows one set of words, for the whole process.
const std::vector<std::string>* offered_words = nullptr;

// Called again and again for one beginning of a word; the result is freed by the library.
char* OfferWord(const char* begin, int again) {
  static size_t next = 0;
  if (again == 0) {
    next = 0;
  }
  while (offered_words != nullptr && next < offered_words->size()) {
    const std::string& word = (*offered_words)[next++];
    if (word.compare(0, std::strlen(begin), begin) == 0) {
      return ::strdup(word.c_str());
    }
  }
  return nullptr;
}

template <typename Function>
void Look(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

LineEditor::LineEditor(std::string prompt, std::vector<std::string> words)
    : prompt_(std::move(prompt)),
      is_terminal_(::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
  static std::vector<std::string> kept;
  kept = std::move(words);
  offered_words = &kept;
  if (!is_terminal_) {
    return;
  }
  for (const char* name : {"libedit.so.2", "libedit.so.0", "libedit.so"}) {
    library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr) {
      break;
    }
  }
  if (library_ == nullptr) {
    return;
  }
  Look(library_, "readline", read_);
  Look(library_, "add_history", remember_);
  if (void* const entry = ::dlsym(library_, "rl_completion_entry_function"); entry != nullptr) {
    *static_cast<char* (**)(const char*, int)>(entry) = &OfferWord;
  }
}

// The library stays: it has hooks at the end of the process.
LineEditor::~LineEditor() { offered_words = nullptr; }

std::optional<std::string> LineEditor::PlainLine() {
  if (is_terminal_) {
    std::fputs(prompt_.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string line;
  int c = 0;
  while ((c = std::fgetc(stdin)) != EOF && c != '\n') {
    if (line.size() < kLongestLine) {
      line.push_back(static_cast<char>(c));
    }
  }
  if (c == EOF && line.empty()) {
    return std::nullopt;
  }
  return line;
}

std::optional<std::string> LineEditor::Next() {
  if (read_ == nullptr) {
    return PlainLine();
  }
  char* const typed = read_(prompt_.c_str());
  if (typed == nullptr) {
    return std::nullopt;
  }
  std::string line(typed);
  std::free(typed);
  if (!line.empty() && remember_ != nullptr) {
    remember_(line.c_str());
  }
  return line;
}

std::optional<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < line.size() &&
                 (line[i + 1] == '"' || line[i + 1] == '\\')) {
        word.push_back(line[++i]);
      } else {
        word.push_back(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word.push_back(line[++i]);
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (in_word) {
        words.push_back(std::exchange(word, {}));
      }
      in_word = false;
    } else {
      word.push_back(c);
      in_word = true;
    }
  }
  if (quote != 0) {
    return std::nullopt;
  }
  if (in_word) {
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace msprobe::commands
