// msprobe nan_analyze, also overflow_check: the first NaN or infinity of a step.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/nan/nan.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class NanAnalyzeCommand final : public Command {
 public:
  // The same under each of the names that versions of the Python tool gave it.
  explicit NanAnalyzeCommand(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }
  std::string_view summary() const override;
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  bool TakesAllSteps() const;
  Status CheckFlags();
  // Named as the result file; by the time where nothing was found.
  std::filesystem::path PagePath(const report::Document& document) const;

  const std::string_view name_;
  analysis::nan::Options options_;
  std::filesystem::path dump_;
  std::filesystem::path all_steps_;
  std::filesystem::path output_ = "./output";
  std::string format_ = "text";
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
