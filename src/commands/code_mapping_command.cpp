#include <filesystem>
#include <utility>
#include <vector>

#include "src/analysis/kernel_dump/code_mapping.h"
#include "src/analysis/kernel_dump/kernel_dump.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

// msprobe code_mapping: lines of code of a MindSpore graph's dump.

class CodeMappingCommand final : public Command {
 public:
  std::string_view name() const override { return "code_mapping"; }
  std::string_view summary() const override {
    return "Find the lines of code behind the dump of a MindSpore graph";
  }
  FlagTable flags() override;
  std::vector<Positional> positionals() override;
  std::vector<Example> examples() const override;
  std::string notes() const override;
  Result<ExitCode> Run(const Context& context) override;

 private:
  analysis::kernel_dump::CodeMappingOptions options_;
  AnswerFlags answer_;
};

std::vector<Positional> CodeMappingCommand::positionals() {
  return {Argument("DUMP", &options_.dump_data,
                   "Folder of the dump, or one of its .npy files or statistic.csv",
                   OrFlag{"--dump-data"})};
}

FlagTable CodeMappingCommand::flags() {
  return {
      Group::kInput,
      Path("--ir", "FILE", &options_.ir, "Text of the graph, as MindSpore saves it (save_graphs)",
           kPython811, kRequired),
      Path("--dump-data", "PATH", &options_.dump_data, "The same as DUMP", kPython811),
      OutputFolderFlag(options_.output, "Folder of code_mapping_<time>.csv", {"--output_path"}),
      ForceFlag(),
      AnswerRows(answer_),
  };
}

std::vector<Example> CodeMappingCommand::examples() const {
  return {{"msprobe -f mindspore code_mapping --ir graph.ir --dump_data dump/rank_0 --output lines",
           "a row per dump file with its lines of code"}};
}

std::string CodeMappingCommand::notes() const {
  return "Where the folder has no .npy files, every statistic.csv in it gets the columns Code "
         "Stack "
         "and Scope Name.";
}

Result<ExitCode> CodeMappingCommand::Run(const Context& context) {
  if (options_.output.empty()) {
    options_.output = "./";
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  MSP_ASSIGN_OR_RETURN(const analysis::kernel_dump::CodeMapping mapping,
                       analysis::kernel_dump::MapCode(options_));
  return GiveAnswer(analysis::kernel_dump::MakeDocument(mapping), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeCodeMapping() { return std::make_unique<CodeMappingCommand>(); }

}  // namespace msprobe::commands
