// msprobe config_check: is it the same experiment? Collects one side into a pack, or compares two
// packs, two checkpoints, or the
// settings in two training logs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/config_check/check.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class ConfigCheckCommand final : public Command {
 public:
  std::string_view name() const override { return "config_check"; }
  std::string_view summary() const override {
    return "Check whether two runs are the same experiment: environment, settings, data, weights";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status TakeSides();
  bool Wants(std::string_view format) const;
  Result<ExitCode> RunCollect(const Context& context);
  Result<ExitCode> RunComparePacks(const Context& context);
  Result<ExitCode> RunCompareCheckpoints(const Context& context);
  Result<ExitCode> RunLogSettings(const Context& context);

  std::filesystem::path side_;
  std::filesystem::path reference_;
  analysis::config_check::CollectOptions collect_;
  analysis::config_check::CompareOptions compare_;
  std::vector<std::filesystem::path> inputs_;  // -d
  std::vector<std::filesystem::path> pair_;    // -c
  std::vector<std::filesystem::path> logs_;    // -vc
  std::vector<std::filesystem::path> verify_;  // -vv
  std::filesystem::path output_;
  std::vector<std::string> formats_;
  AnswerFlags answer_;
  bool compat_ = false;
};

}  // namespace msprobe::commands
