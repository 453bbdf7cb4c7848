#include "src/commands/merge_result_command.h"

#include <CLI/CLI.hpp>

#include "src/analysis/compare/merge_answer.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Example:
  msprobe merge_result -i output -o merged -config merge.yaml

  merge.yaml:
    api:                        # calls by the start of their names
      - Distributed.all_reduce
    compare_index:              # metrics, one sheet each; leave out for all
      - Max diff
      - L2norm diff)";

}  // namespace

void MergeResultCommand::Configure(CLI::App& app) {
  app.add_option("-i,--input_dir", options_.input_folder,
                 "Folder with the results of several ranks (compare_result_rank<N>_<time>.xlsx or "
                 ".csv)")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--output_dir", options_.output_folder, "Folder for the merged workbook")
      ->type_name("DIR")
      ->required();
  app.add_option("--config-path", options_.config_file,
                 "YAML naming calls and metrics (also -config)")
      ->type_name("FILE")
      ->required();
  AddThreadsFlag(app, options_.threads);
  AddForceFlag(app);
  AddAnswerFlags(app, answer_);
  app.footer(kExamples);
}

Result<ExitCode> MergeResultCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const analysis::MergeRun run, analysis::MergeResults(options_));
  return GiveAnswer(analysis::MakeDocument(run), answer_, context);
}

}  // namespace msprobe::commands
