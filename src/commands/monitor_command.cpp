#include <memory>
#include <vector>

#include "src/analysis/monitor/store/store.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

// msprobe monitor: everything around the training monitor, each as a subcommand of its own.

class MonitorCommand final : public Command {
 public:
  MonitorCommand();
  std::string_view name() const override { return "monitor"; }
  std::string_view summary() const override {
    return "Watch a training run; analyse, compare, convert and show what was recorded";
  }
  std::vector<Command*> subcommands() const override;
  bool is_group() const override { return true; }
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

// To add a subcommand: a line here, beside the others in the order of their names.
MonitorCommand::MonitorCommand() {
  monitor::UseSqlite(&analysis::monitor::LinkedSqlite());
  commands_.push_back(MakeMonitorAnalyse());
  commands_.push_back(MakeMonitorCsv2db());
  commands_.push_back(MakeMonitorCsv2tb());
  commands_.push_back(MakeMonitorDiff());
  commands_.push_back(MakeMonitorReplay());
  commands_.push_back(MakeMonitorReport());
  commands_.push_back(MakeMonitorRun());
  commands_.push_back(MakeMonitorTop());
}

std::vector<Command*> MonitorCommand::subcommands() const {
  std::vector<Command*> commands;
  for (const std::unique_ptr<Command>& command : commands_) {
    commands.push_back(command.get());
  }
  return commands;
}

Result<ExitCode> MonitorCommand::Run(const Context&) { return ExitCode::kDone; }

}  // namespace

std::unique_ptr<Command> MakeMonitor() { return std::make_unique<MonitorCommand>(); }

}  // namespace msprobe::commands
