// msprobe rl_compare: key data of two runs of a reinforcement learning.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/rl/rl.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class RlCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "rl_compare"; }
  std::string_view summary() const override {
    return "Compare two reinforcement learning runs, as stored by SingleSave";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status CheckSides();
  Status ReadTokenKeys();

  std::filesystem::path run_;
  std::filesystem::path reference_;
  analysis::rl::Options options_;
  std::vector<std::string> formats_;
  std::vector<std::string> token_keys_;  // KEY or KEY=KEY_OF_B
  std::string language_ = "zh";
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
