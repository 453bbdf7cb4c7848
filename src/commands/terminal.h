// The terminal as a screen that is drawn again and again, with keys as they are pressed. Whatever
// ends the program's loop, the terminal is left as it was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::commands {

enum class KeyKind : uint8_t {
  kNone,  // the time is up, or the size of the terminal has changed
  kCharacter,
  kEnter,
  kEscape,
  kBackspace,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kEnd,  // Ctrl-C, termination, hang-up, or no more input
};

struct Key {
  KeyKind kind = KeyKind::kNone;
  char character = 0;
};

struct TerminalSize {
  size_t width = 100;
  size_t height = 30;
};

// One at a time: signals know only one.
class TerminalScreen {
 public:
  TerminalScreen();
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  // Fails where standard output is not a terminal.
  Status Open();
  void Close();
  TerminalSize size() const;
  // Replaces what is shown; lines beyond the height are left out.
  Status Show(std::string_view lines);
  // Waits for a key, at most so long. Stops and goes on with the shell's job control.
  Key WaitKey(int milliseconds);

 private:
  struct Saved;
  void Enter();
  void Leave();
  Key DecodeEscape();

  Saved* saved_ = nullptr;
};

}  // namespace msprobe::commands
