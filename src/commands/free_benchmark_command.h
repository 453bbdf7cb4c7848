// msprobe free_benchmark: a training as it is, its selected calls made twice.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class FreeBenchmarkCommand final : public Command {
 public:
  std::string_view name() const override { return "free_benchmark"; }
  std::string_view summary() const override {
    return "Run an unmodified script and find operators that are unstable, without a second run";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path config_file_;
  std::string dump_path_;
  std::vector<std::string> program_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
