// msprobe compare: two dumps of the same model, and where they part.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/compare/options.h"
#include "src/commands/command.h"

namespace msprobe::commands {

class CompareCommand final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Compare two dumps and name the first call where they part";
  }
  void Configure(CLI::App& app) override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  // A mapping flag as typed: absent, bare, or with a file.
  struct MappingArgument {
    CLI::App* app = nullptr;
    std::string flag;
    std::filesystem::path file;
  };
  void AddMappingFlag(CLI::App& app, const std::string& flag, const std::string& description,
                      bool needs_file, MappingArgument& argument);
  static analysis::MappingFlag ToMappingFlag(const MappingArgument& argument);
  Status FillOptions(const Context& context);
  Status CheckPaths() const;

  analysis::CompareOptions options_;
  std::filesystem::path config_file_;  // -i
  std::filesystem::path npu_path_;
  std::filesystem::path bench_path_;
  std::filesystem::path target_path_;  // -tp
  std::filesystem::path golden_path_;  // -gp
  std::filesystem::path output_folder_;
  std::vector<std::string> formats_;
  std::string fail_on_;
  bool compare_only_ = false;
  MappingArgument data_mapping_;
  MappingArgument cell_mapping_;
  MappingArgument api_mapping_;
  MappingArgument layer_mapping_;
};

}  // namespace msprobe::commands
