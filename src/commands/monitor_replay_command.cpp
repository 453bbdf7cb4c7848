#include "src/commands/monitor_replay_command.h"

#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/monitor/replay.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor replay --feed case/feed --config case/config.json --output tables
      <table>_<first>-<last>.csv for every table of the feed
  msprobe monitor replay --feed case/feed --config case/config.json --output tables --compat
      numbers and cells exactly as the Python tool writes them

A feed is feed.jsonl (one event a line) and feed.bin (the bytes of the tensors).)";

}  // namespace

void MonitorReplayCommand::Configure(CLI::App& app) {
  app.add_option("--feed", feed_, "The folder of feed.jsonl and feed.bin")
      ->type_name("DIR")
      ->required();
  app.add_option("--config", config_, "The monitor's configuration: digits, steps per file")
      ->type_name("JSON")
      ->required();
  app.add_option("--output", output_,
                 "Folder for the tables; those it holds are replaced with --force")
      ->type_name("DIR")
      ->required();
  app.add_flag("--compat", compat_, "Byte for byte as the Python tool, where it is wrong as well");
  AddForceFlag(app);
  AddAnswerFlags(app, answer_);
  app.footer(kExamples);
}

Result<ExitCode> MonitorReplayCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(
      const monitor::ReplayTotals totals,
      monitor::Replay({.feed = feed_, .config = config_, .output = output_, .compat = compat_}));
  report::Document document;
  document.command = "monitor replay";
  document.verdict.word = "WRITTEN";
  document.verdict.tone = report::Tone::kStrong;
  document.verdict.text = fmt::format("{} of {}", base::Plural(totals.rows, "row"),
                                      base::Plural(totals.tensors, "tensor"));
  document.verdict.number = static_cast<double>(totals.rows);
  document.verdict.unit = "rows";
  document.files.push_back({std::filesystem::path(output_) / "", "tables"});
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace msprobe::commands
