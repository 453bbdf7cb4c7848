// msprobe monitor top: follows a running training in the terminal.
#pragma once

#include <string>
#include <vector>

#include "src/analysis/monitor/top/run_follower.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/monitor_top_screen.h"
#include "src/commands/terminal.h"

namespace msprobe::commands {

class MonitorTopCommand final : public Command {
 public:
  std::string_view name() const override { return "top"; }
  std::string_view summary() const override {
    return "Follow a running training: worst modules, alerts, steps per second";
  }
  std::vector<Flag> flags() override;
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

}  // namespace msprobe::commands
