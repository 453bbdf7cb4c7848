// msprobe serve: graphs and pages of a folder for browsers, over HTTP.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/commands/command.h"

namespace msprobe::commands {

class ServeCommand final : public Command {
 public:
  std::string_view name() const override { return "serve"; }
  std::string_view summary() const override {
    return "Show the graphs and pages of a folder in a browser, without copying them";
  }
  std::vector<Positional> positionals() override;
  std::vector<Flag> flags() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path folder_;
  uint64_t port_ = 0;
  std::string host_ = "127.0.0.1";
};

}  // namespace msprobe::commands
