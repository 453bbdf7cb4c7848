// msprobe graph, also graph_visualize: a dump as a tree of modules and calls, alone or beside
// another.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/graph/options.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class GraphCommand final : public Command {
 public:
  // The same under each of the names that versions of the Python tool gave it.
  explicit GraphCommand(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }
  std::string_view summary() const override;
  std::vector<Flag> flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  Status ReadConfig();
  Status CheckParallelism();
  Status CheckFlags(const Context& context);

  const std::string_view name_;
  std::filesystem::path dump_;
  std::filesystem::path bench_;
  std::filesystem::path config_;
  std::filesystem::path target_;
  std::filesystem::path golden_;
  std::filesystem::path output_;
  std::vector<std::string> formats_;
  std::vector<int64_t> rank_size_;
  std::vector<int64_t> tensor_;
  std::vector<int64_t> pipeline_;
  std::vector<int64_t> virtual_pipeline_;  // one, or one of each side
  std::vector<int64_t> context_;           // one of each side, or none
  std::string order_;
  std::string file_type_;
  bool is_print_compare_log_ = false;
  bool is_print_progress_log_ = false;
  analysis::graph::Options options_;
  AnswerFlags answer_;
};

}  // namespace msprobe::commands
