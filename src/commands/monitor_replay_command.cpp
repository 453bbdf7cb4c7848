#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/monitor/replay.h"

namespace msprobe::commands {
namespace {

// msprobe monitor replay: recorded tensors through the monitor's statistics and CSV writer.

class MonitorReplayCommand final : public Command {
 public:
  std::string_view name() const override { return "replay"; }
  std::string_view summary() const override {
    return "Compute the monitor's tables from recorded tensors";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path feed_;
  monitor::ReplayOptions options_;
  AnswerFlags answer_;
};

constexpr const char* kMonitorReplayNotes =
    R"(FEED contains feed.jsonl (one event per line) and feed.bin (the bytes of the tensors).)";

std::vector<Positional> MonitorReplayCommand::positionals() {
  return {{.name = "FEED", .fills = &feed_, .help = "Folder with feed.jsonl and feed.bin"}};
}

std::vector<Flag> MonitorReplayCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--feed",
       .type = "DIR",
       .fills = &options_.feed,
       .group = Group::kInput,
       .help = "The same, instead of FEED"},
      {.name = "--config",
       .letter = "-c",
       .type = "FILE",
       .fills = &options_.config,
       .group = Group::kInput,
       .help = "Configuration of the monitor",
       .required = true},
      {.name = "--compat",
       .fills = &options_.compat,
       .group = Group::kMethod,
       .help = "Reproduce the Python tool's output exactly, including its bugs"},
      {.name = "--output",
       .letter = "-o",
       .type = "DIR",
       .fills = &options_.output,
       .group = Group::kOutput,
       .help = "Folder for the tables",
       .required = true},
      ForceFlag(),
  };
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> MonitorReplayCommand::examples() const {
  return {
      {"msprobe monitor replay case/feed -c case/config.json -o tables",
       "<table>_<first>-<last>.csv for every table of the feed"},
      {"msprobe monitor replay case/feed -c case/config.json -o tables --compat",
       "numbers and cells exactly as the Python tool writes them"},
  };
}

std::string MonitorReplayCommand::notes() const { return kMonitorReplayNotes; }

Result<ExitCode> MonitorReplayCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(TakePath(feed_, "FEED", "--feed", options_.feed));
  MSP_ASSIGN_OR_RETURN(const monitor::ReplayTotals totals, monitor::Replay(options_));
  report::Document document;
  document.command = "monitor replay";
  document.verdict.word = "WRITTEN";
  document.verdict.tone = report::Tone::kStrong;
  document.verdict.text = fmt::format("{} of {}", base::Plural(totals.rows, "row"),
                                      base::Plural(totals.tensors, "tensor"));
  document.verdict.number = static_cast<double>(totals.rows);
  document.verdict.unit = "rows";
  document.files.push_back({options_.output / "", "tables"});
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeMonitorReplay() { return std::make_unique<MonitorReplayCommand>(); }

}  // namespace msprobe::commands
