// msprobe code_mapping: lines of code of a MindSpore graph's dump.
#pragma once

#include <filesystem>
#include <vector>

#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class CodeMappingCommand final : public Command {
 public:
  std::string_view name() const override { return "code_mapping"; }
  std::string_view summary() const override {
    return "Find the lines of code behind the dump of a MindSpore graph";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path dump_;
  analysis::kernel_dump::CodeMappingOptions options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
