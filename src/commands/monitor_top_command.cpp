// msprobe monitor top: follows a running training in the terminal. First the terminal as a screen
// that is drawn again and again, then the command; what is drawn is in monitor_top_screen.cpp.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "msprobe/status.h"

#include "src/analysis/monitor/top/run_follower.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/monitor_top_screen.h"

namespace msprobe::commands {
namespace {

constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l";  // no cursor, no wrap
constexpr std::string_view kLeaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l";
// The rest of the escape sequence of a key arrives at once, mostly also over ssh.
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
  TerminalScreen() = default;
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;
  ~TerminalScreen();

  // Fails where standard output is not a terminal.
  Status Open();
  TerminalSize size() const;
  // Replaces what is shown; lines beyond the height are left out.
  Status Show(std::string_view lines);
  // Waits for a key, at most so long. Stops and goes on with the shell's job control.
  Key WaitKey(int milliseconds);

 private:
  void Enter();
  void Leave();
  Key DecodeEscape();

  bool is_open_ = false;
  termios modes_{};         // as they were
  bool has_modes_ = false;  // standard input is a terminal
  std::array<int, 2> wake_ = {-1, -1};
  std::array<struct sigaction, kSignals.size()> actions_{};  // as they were
};

Status TerminalScreen::Open() {
  if (::isatty(STDOUT_FILENO) != 1) {
    return UnsupportedError("standard output is not a terminal")
        .WithHint("--once prints one snapshot");
  }
  if (::pipe2(wake_.data(), O_NONBLOCK | O_CLOEXEC) != 0) {
    return IoError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  g_wake_descriptor = wake_[1];
  has_modes_ = ::tcgetattr(STDIN_FILENO, &modes_) == 0;
  is_open_ = true;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = NoteSignal;
    sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], &action, &actions_[i]);
  }
  Enter();
  return OkStatus();
}

TerminalScreen::~TerminalScreen() {
  if (!is_open_) {
    return;
  }
  Leave();
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &actions_[i], nullptr);
  }
  g_wake_descriptor = -1;
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void TerminalScreen::Enter() {
  if (has_modes_) {
    termios modes = modes_;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
  }
  WriteAll(kEnterScreen);
}

void TerminalScreen::Leave() {
  WriteAll(kLeaveScreen);
  if (has_modes_) {
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_);
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
  std::array<pollfd, 2> waited = {pollfd{wake_[0], POLLIN, 0}, pollfd{STDIN_FILENO, POLLIN, 0}};
  ::poll(waited.data(), has_modes_ ? 2 : 1, milliseconds);
  std::array<char, 64> drained{};
  while (::read(wake_[0], drained.data(), drained.size()) > 0) {
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
  if (!has_modes_ || (waited[1].revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
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

// The choice after `current`; "", which means all, follows the last one.
std::string Next(const std::vector<std::string>& choices, const std::string& current) {
  const auto place = std::find(choices.begin(), choices.end(), current);
  if (place == choices.end()) {
    return current.empty() && !choices.empty() ? choices.front() : "";
  }
  return place + 1 == choices.end() ? "" : *(place + 1);
}

class MonitorTopCommand final : public Command {
 public:
  MonitorTopCommand()
      : Command("top", "Follow a running training: worst modules, alerts, steps per second") {}

  FlagTable flags() override {
    return {
        Group::kSelection,
        Text("--table", "NAME", &view_.table, "Only this table, such as grad_reduced",
             Default{"all"}),
        Text("--search", "WORDS", &view_.search, "Only modules with these words in their names"),
        Number("--window --steps", "N", &options_.window_steps,
               "Number of latest steps whose files are read", Between(1, 1e9)),
        Group::kMethod,
        Text("--statistic", "NAME", &options_.op, "Statistic used for the score",
             Default{"norm, or the first statistic of tables without it"}),
        Group::kOutput,
        Number("--interval", "SECONDS", &interval_seconds_, "Seconds between updates",
               Between(0.1, 3600)),
        Switch("--once", &once_, "Print one snapshot as plain text and exit"),
        Number("--lines", "N", &lines_, "Lines of the snapshot; 0: all"),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("RUN", &options_.root,
                     "The run: the folder that contains <stamp>-rank<R>-<id>/", kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe monitor top monitor_output",
         "follow a run, with the worst modules first; works over ssh"},
        {"msprobe monitor top monitor_output --table grad_reduced --statistic max",
         "gradients only, scored by their largest element"},
        {"msprobe monitor top monitor_output --once --lines 10 | mail -s training me",
         "one snapshot as plain text"},
    };
  }

  std::string notes() const override { return std::string(kTopExplained); }

  Result<ExitCode> Run(const Context& context) override {
    const report::ScreenOptions screen = ScreenOf(answer_, context);
    view_.utf8 = !screen.ascii;
    view_.language = context.language;
    view_.color = screen.color;
    analysis::monitor::RunFollower run(options_);
    if (answer_.json) {
      MSP_RETURN_IF_ERROR(FirstLook(run));
      return EmitReport(TopAnswer(options_.root, run, view_), answer_, context);
    }
    if (!once_ && context.has_edge) {
      return Live(run);
    }
    MSP_RETURN_IF_ERROR(FirstLook(run));
    view_.width = screen.has_edge ? screen.width : std::max<size_t>(screen.width, 120);
    view_.height = lines_;
    view_.now = std::filesystem::file_time_type::clock::now();
    MSP_RETURN_IF_ERROR(Print(TopScreen(options_.root, run, view_)));
    return ExitCode::kDone;
  }

 private:
  Status FirstLook(analysis::monitor::RunFollower& run) const {
    MSP_RETURN_IF_ERROR(run.Look(analysis::monitor::RunFollower::Clock::now()));
    const std::vector<std::string>& known = run.ops();
    if (!known.empty() && !run.op().empty() &&
        std::find(known.begin(), known.end(), run.op()) == known.end()) {
      return NotFoundError("the run has no statistic \"" + run.op() + "\"")
          .WithHint("it has: " + base::Join(known, " "));
    }
    return OkStatus();
  }

  Result<ExitCode> Live(analysis::monitor::RunFollower& run) {
    using Clock = analysis::monitor::RunFollower::Clock;
    MSP_RETURN_IF_ERROR(FirstLook(run));  // its error is for the ordinary screen
    TerminalScreen screen;
    MSP_RETURN_IF_ERROR(screen.Open());
    view_.keys = true;
    const auto interval = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(interval_seconds_));
    Clock::time_point next = Clock::now() + interval;
    while (true) {
      const TerminalSize size = screen.size();
      view_.width = size.width;
      view_.height = size.height;
      view_.now = std::filesystem::file_time_type::clock::now();
      MSP_RETURN_IF_ERROR(screen.Show(TopScreen(options_.root, run, view_)));
      const auto wait =
          std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now()).count();
      const Key key = screen.WaitKey(static_cast<int>(std::clamp<int64_t>(wait, 0, 3'600'000)));
      if (!Handle(key, run)) {
        return ExitCode::kDone;
      }
      if (Clock::now() >= next) {
        next = Clock::now() + interval;
        if (!view_.paused) {
          // A folder that is gone may come back: what was seen stays on the screen.
          [[maybe_unused]] const Status ignored = run.Look(Clock::now());
        }
      }
    }
  }

  // False when the loop is to end.
  bool Handle(const Key& key, analysis::monitor::RunFollower& run);
  void Type(const Key& key) {
    switch (key.kind) {
      case KeyKind::kCharacter:
        view_.search += key.character;
        break;
      case KeyKind::kBackspace:
        if (!view_.search.empty()) {
          view_.search.pop_back();
        }
        break;
      case KeyKind::kEscape:
        view_.search.clear();
        view_.typing = false;
        break;
      case KeyKind::kEnter:
        view_.typing = false;
        break;
      default:
        break;
    }
    view_.scroll = 0;
  }

  analysis::monitor::FollowOptions options_;
  TopView view_;
  double interval_seconds_ = 1;
  size_t lines_ = 40;
  bool once_ = false;
  AnswerFlags answer_;
};

bool MonitorTopCommand::Handle(const Key& key, analysis::monitor::RunFollower& run) {
  const size_t page = std::max<size_t>(view_.height / 2, 1);
  if (key.kind == KeyKind::kEnd) {
    return false;
  }
  if (view_.help) {
    view_.help = key.kind == KeyKind::kNone;
    return true;
  }
  if (view_.typing) {
    if (key.kind != KeyKind::kNone) {
      Type(key);
    }
    return true;
  }
  switch (key.kind) {
    case KeyKind::kUp:
      view_.scroll -= std::min<size_t>(view_.scroll, 1);
      break;
    case KeyKind::kDown:
      view_.scroll = std::min(view_.scroll + 1, run.series().size());
      break;
    case KeyKind::kPageUp:
      view_.scroll -= std::min(view_.scroll, page);
      break;
    case KeyKind::kPageDown:
      view_.scroll = std::min(view_.scroll + page, run.series().size());
      break;
    case KeyKind::kCharacter:
      switch (key.character) {
        case 'q':
        case 'Q':
          return false;
        case 'p':
          view_.paused = !view_.paused;
          break;
        case 't':
          view_.table = Next(run.tables(), view_.table);
          view_.scroll = 0;
          break;
        case 'o': {
          // Without a choice it is the main one that is judged.
          std::vector<std::string> others = run.ops();
          std::erase(others, std::string(analysis::monitor::MainOp(others)));
          run.Judge(Next(others, run.op()));
          [[maybe_unused]] const Status ignored =
              run.Look(analysis::monitor::RunFollower::Clock::now());
          break;
        }
        case '?':
        case 'h':
          view_.help = true;
          break;
        case '/':
          view_.search.clear();
          view_.typing = true;
          break;
        default:
          break;
      }
      break;
    default:
      break;
  }
  return true;
}

}  // namespace

std::unique_ptr<Command> MakeMonitorTop() { return std::make_unique<MonitorTopCommand>(); }

}  // namespace msprobe::commands
