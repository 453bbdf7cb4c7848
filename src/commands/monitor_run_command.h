// msprobe monitor run: a training as it is, watched.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class MonitorRunCommand : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override {
    return "Run an unmodified training script and record statistics of its steps";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path config_file_;
  std::filesystem::path output_folder_;
  int64_t micro_steps_ = 1;
  std::vector<std::string> program_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
