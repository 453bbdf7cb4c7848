// msprobe devices: which accelerators can be used here, and why others cannot.
#pragma once

#include <string>
#include <vector>

#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class DevicesCommand final : public Command {
 public:
  std::string_view name() const override { return "devices"; }
  std::string_view summary() const override {
    return "List the accelerators, and say why others cannot be used";
  }
  std::vector<Flag> flags() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::string format_ = "table";  // "table", "csv", "json"
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
