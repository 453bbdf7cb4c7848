#include "src/commands/terminal.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace msprobe::commands {
namespace {

constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l";  // no cursor, no wrap
constexpr std::string_view kLeaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l";
// What follows an escape character of a key arrives at once, also over ssh mostly.
constexpr int kEscapeMilliseconds = 50;

volatile std::sig_atomic_t g_end = 0;
volatile std::sig_atomic_t g_stop = 0;
int g_wake_descriptor = -1;

extern "C" void NoteSignal(int number) {
  const int error = errno;
  if (number == SIGTSTP) {
    g_stop = 1;
  } else if (number != SIGWINCH) {  // which only has to wake the loop
    g_end = 1;
  }
  // Ends a poll that is about to begin; a full pipe wakes, too.
  const char byte = 0;
  [[maybe_unused]] const ssize_t ignored = ::write(g_wake_descriptor, &byte, 1);
  errno = error;
}

bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR && g_end == 0) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool ReadByte(int milliseconds, char& byte) {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, milliseconds) == 1 && ::read(STDIN_FILENO, &byte, 1) == 1;
}

}  // namespace

struct TerminalScreen::Saved {
  termios modes{};
  bool has_modes = false;  // standard input is a terminal
  bool input_open = true;
  std::array<int, 2> wake = {-1, -1};
  std::array<struct sigaction, kSignals.size()> actions{};
};

TerminalScreen::TerminalScreen() = default;
TerminalScreen::~TerminalScreen() { Close(); }

Status TerminalScreen::Open() {
  if (::isatty(STDOUT_FILENO) != 1) {
    return UnsupportedError("standard output is not a terminal")
        .WithHint("--once prints one snapshot");
  }
  saved_ = new Saved;
  if (::pipe2(saved_->wake.data(), O_NONBLOCK | O_CLOEXEC) != 0) {
    delete saved_;
    saved_ = nullptr;
    return IoError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  g_wake_descriptor = saved_->wake[1];
  saved_->has_modes = ::tcgetattr(STDIN_FILENO, &saved_->modes) == 0;
  saved_->input_open = saved_->has_modes;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = NoteSignal;
    sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], &action, &saved_->actions[i]);
  }
  Enter();
  return OkStatus();
}

void TerminalScreen::Close() {
  if (saved_ == nullptr) {
    return;
  }
  Leave();
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &saved_->actions[i], nullptr);
  }
  g_wake_descriptor = -1;
  ::close(saved_->wake[0]);
  ::close(saved_->wake[1]);
  delete saved_;
  saved_ = nullptr;
}

void TerminalScreen::Enter() {
  if (saved_->has_modes) {
    termios modes = saved_->modes;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
  }
  WriteAll(kEnterScreen);
}

void TerminalScreen::Leave() {
  WriteAll(kLeaveScreen);
  if (saved_->has_modes) {
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_->modes);
  }
}

TerminalSize TerminalScreen::size() const {
  winsize size{};
  TerminalSize result;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    result.width = size.ws_col;
    result.height = size.ws_row;
  }
  return result;
}

Status TerminalScreen::Show(std::string_view lines) {
  // One write, each line cleared behind its text: no flicker, little traffic.
  std::string frame = "\x1b[H";
  const size_t height = size().height;
  for (size_t i = 0; i < height && !lines.empty(); ++i) {
    const size_t end = lines.find('\n');
    frame += lines.substr(0, end);
    frame += "\x1b[K";
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (i + 1 < height && !lines.empty()) {
      frame += "\r\n";
    }
  }
  frame += "\x1b[J";
  return WriteAll(frame) || g_end != 0 ? OkStatus() : IoError("cannot write to the terminal");
}

Key TerminalScreen::DecodeEscape() {
  char byte = 0;
  if (!ReadByte(kEscapeMilliseconds, byte)) {
    return {KeyKind::kEscape};
  }
  if ((byte != '[' && byte != 'O') || !ReadByte(kEscapeMilliseconds, byte)) {
    return {};
  }
  const char code = byte;
  while ((byte < '@' || byte > '~') && ReadByte(kEscapeMilliseconds, byte)) {
  }
  switch (code) {
    case 'A':
      return {KeyKind::kUp};
    case 'B':
      return {KeyKind::kDown};
    case '5':
      return {KeyKind::kPageUp};
    case '6':
      return {KeyKind::kPageDown};
    default:
      return {};
  }
}

Key TerminalScreen::WaitKey(int milliseconds) {
  std::array<pollfd, 2> waited = {pollfd{saved_->wake[0], POLLIN, 0},
                                  pollfd{STDIN_FILENO, POLLIN, 0}};
  ::poll(waited.data(), saved_->input_open ? 2 : 1, milliseconds);
  std::array<char, 64> drained{};
  while (::read(saved_->wake[0], drained.data(), drained.size()) > 0) {
  }
  if (g_end != 0) {
    return {KeyKind::kEnd};
  }
  if (g_stop != 0) {
    g_stop = 0;
    Leave();
    ::raise(SIGSTOP);  // until the shell says fg
    Enter();
    return {};
  }
  if (!saved_->input_open || (waited[1].revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
    return {};
  }
  char byte = 0;
  if (::read(STDIN_FILENO, &byte, 1) != 1) {
    return {KeyKind::kEnd};
  }
  switch (byte) {
    case '\x1b':
      return DecodeEscape();
    case '\r':
    case '\n':
      return {KeyKind::kEnter};
    case '\x7f':
    case '\b':
      return {KeyKind::kBackspace};
    case '\x03':
    case '\x04':
      return {KeyKind::kEnd};
    default:
      return {KeyKind::kCharacter, byte};
  }
}

}  // namespace msprobe::commands
