// msprobe ckpt_compare: two checkpoints of any kind, and which parameters differ.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/ckpt/result.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

// Compares, writes the results and shows them: what both `ckpt_compare` and `config_check -c` on
// two checkpoints do.
Result<ExitCode> CompareCheckpoints(const analysis::ckpt::Options& options,
                                    const AnswerFlags& flags, const Context& context);

class CkptCompareCommand final : public Command {
 public:
  std::string_view name() const override { return "ckpt_compare"; }
  std::string_view summary() const override {
    return "Compare two checkpoints and name the parameters that differ";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::ckpt::Options options_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
