#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "src/analysis/monitor/top/run_follower.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/monitor_top_screen.h"
#include "src/commands/print.h"
#include "src/commands/terminal.h"

namespace msprobe::commands {
namespace {

// msprobe monitor top: follows a running training in the terminal.

class MonitorTopCommand final : public Command {
 public:
  std::string_view name() const override { return "top"; }
  std::string_view summary() const override {
    return "Follow a running training: worst modules, alerts, steps per second";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status FirstLook(analysis::monitor::RunFollower& run) const;
  Result<ExitCode> Live(const Context& context, analysis::monitor::RunFollower& run);
  // False when the loop is to end.
  bool Handle(const Key& key, analysis::monitor::RunFollower& run);
  void Type(const Key& key);

  analysis::monitor::FollowOptions options_;
  TopView view_;
  double interval_seconds_ = 1;
  size_t lines_ = 40;
  bool once_ = false;
  AnswerFlags answer_;
};

constexpr const char* kMonitorTopNotes =
    R"(Keys: q quit, p pause, t next table, o next statistic, / search, arrows and page keys scroll.

Score: distance of the newest value from the median of the values before it (up to 47), in units of their usual spread
(1.4826 * MAD). @12 instead of a score: not finite since step 12. Only new data is read.)";

// The one behind `current`; "" stands in front of the first where `with_all`.
std::string Next(std::vector<std::string> choices, const std::string& current, bool with_all) {
  if (with_all) {
    choices.insert(choices.begin(), "");
  }
  const auto place = std::find(choices.begin(), choices.end(), current);
  if (choices.empty() || place == choices.end() || place + 1 == choices.end()) {
    return choices.empty() ? current : choices.front();
  }
  return *(place + 1);
}

std::vector<Positional> MonitorTopCommand::positionals() {
  return {Argument("RUN", &options_.root, "The run: the folder that contains <stamp>-rank<R>-<id>/",
                   kRequired)};
}

FlagTable MonitorTopCommand::flags() {
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

std::vector<Example> MonitorTopCommand::examples() const {
  return {
      {"msprobe monitor top monitor_output",
       "follow a run, with the worst modules first; works over ssh"},
      {"msprobe monitor top monitor_output --table grad_reduced --statistic max",
       "gradients only, scored by their largest element"},
      {"msprobe monitor top monitor_output --once --lines 10 | mail -s training me",
       "one snapshot as plain text"},
  };
}

std::string MonitorTopCommand::notes() const { return kMonitorTopNotes; }

Result<ExitCode> MonitorTopCommand::Run(const Context& context) {
  const report::ScreenOptions screen = ScreenOf(answer_, context);
  view_.utf8 = !screen.ascii;
  view_.color = screen.color;
  analysis::monitor::RunFollower run(options_);
  if (answer_.json) {
    MSP_RETURN_IF_ERROR(FirstLook(run));
    return GiveAnswer(TopAnswer(options_.root, run, view_), answer_, context);
  }
  if (!once_ && context.has_edge) {
    return Live(context, run);
  }
  MSP_RETURN_IF_ERROR(FirstLook(run));
  view_.width = screen.has_edge ? screen.width : std::max<size_t>(screen.width, 120);
  view_.height = lines_;
  view_.now = std::filesystem::file_time_type::clock::now();
  MSP_RETURN_IF_ERROR(Print(TopScreen(options_.root, run, view_)));
  return ExitCode::kDone;
}

Status MonitorTopCommand::FirstLook(analysis::monitor::RunFollower& run) const {
  MSP_RETURN_IF_ERROR(run.Look(analysis::monitor::RunFollower::Clock::now()));
  const std::vector<std::string>& known = run.ops();
  if (!known.empty() && !run.op().empty() &&
      std::find(known.begin(), known.end(), run.op()) == known.end()) {
    return NotFoundError("the run has no statistic \"" + run.op() + "\"")
        .WithHint("it has: " + base::Join(known, " "));
  }
  return OkStatus();
}

Result<ExitCode> MonitorTopCommand::Live(const Context&, analysis::monitor::RunFollower& run) {
  using Clock = analysis::monitor::RunFollower::Clock;
  MSP_RETURN_IF_ERROR(FirstLook(run));  // its error is for the ordinary screen
  TerminalScreen screen;
  MSP_RETURN_IF_ERROR(screen.Open());
  view_.keys = true;
  const auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_seconds_));
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

void MonitorTopCommand::Type(const Key& key) {
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

bool MonitorTopCommand::Handle(const Key& key, analysis::monitor::RunFollower& run) {
  const size_t page = std::max<size_t>(view_.height / 2, 1);
  if (key.kind == KeyKind::kEnd) {
    return false;
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
          view_.table = Next(run.tables(), view_.table, true);
          view_.scroll = 0;
          break;
        case 'o': {
          // Without a choice it is the main one that is judged.
          std::vector<std::string> others = run.ops();
          std::erase(others, std::string(analysis::monitor::MainOp(others)));
          run.Judge(Next(std::move(others), run.op(), true));
          [[maybe_unused]] const Status ignored =
              run.Look(analysis::monitor::RunFollower::Clock::now());
          break;
        }
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
