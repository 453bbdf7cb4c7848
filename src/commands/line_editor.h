// Lines that a person types at a terminal, with history and the keys people expect, or that come
// through a pipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace msprobe::commands {

// Editing is libedit's (BSD licence), opened while running: where the host has none, lines are read
// as the terminal gives them. What comes through a pipe is read without either, and no prompt is
// shown.
class LineEditor {
 public:
  // `words` are offered at the tabulator key.
  LineEditor(std::string prompt, std::vector<std::string> words);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool is_terminal() const { return is_terminal_; }
  // The next line without its end; nothing at the end of the input.
  std::optional<std::string> Next();

 private:
  std::optional<std::string> PlainLine();

  std::string prompt_;
  bool is_terminal_ = false;
  void* library_ = nullptr;
  char* (*read_)(const char*) = nullptr;
  int (*remember_)(const char*) = nullptr;
};

// Words as a shell cuts them: blanks separate, quotes of both kinds and backslashes hold together.
// Nothing when a quote does not end.
std::optional<std::vector<std::string>> SplitWords(std::string_view line);

}  // namespace msprobe::commands
