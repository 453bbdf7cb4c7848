// msprobe isolate: every module of a training on the values of a good run, judged alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class IsolateCommand final : public Command {
 public:
  std::string_view name() const override { return "isolate"; }
  std::string_view summary() const override {
    return "Run an unmodified script on a good run's values and name the modules that are wrong "
           "themselves";
  }
  std::vector<Positional> positionals() override;
  std::vector<Flag> flags() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status ClearOutput() const;
  std::string OverridesJson() const;

  std::vector<std::string> program_;
  std::filesystem::path reference_;
  std::filesystem::path output_ = "./isolated";
  std::optional<int64_t> step_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
