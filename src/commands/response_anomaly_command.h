// msprobe response_anomaly: responses of a language model that went wrong.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/response_anomaly/judge.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class ResponseAnomalyCommand final : public Command {
 public:
  std::string_view name() const override { return "response_anomaly"; }
  std::string_view summary() const override {
    return "Find garbled, repetitive and NaN responses by the log-probabilities of their tokens";
  }
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status CheckResults(const Context& context, OwnForms& own);

  std::filesystem::path requests_;
  analysis::response_anomaly::Options options_;
  std::filesystem::path output_;
  std::vector<std::string> formats_;  // empty: csv
  bool lines_ = false;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
