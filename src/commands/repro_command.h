// msprobe repro: one call of a dump as a folder that makes it again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/repro/repro.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class ReproCommand final : public Command {
 public:
  std::string_view name() const override { return "repro"; }
  std::string_view summary() const override {
    return "Write one call of a tensor dump as a folder that makes it again, as small as can be";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::repro::Options options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
