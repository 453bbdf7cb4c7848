// msprobe doctor: what works here, what does not, and which command mends it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class DoctorCommand final : public Command {
 public:
  std::string_view name() const override { return "doctor"; }
  std::string_view summary() const override {
    return "Check what works on this machine, and how to fix the rest";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::vector<std::string> command_;
  bool ascend_ = false;
  std::filesystem::path bundle_;
  std::vector<std::filesystem::path> logs_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
