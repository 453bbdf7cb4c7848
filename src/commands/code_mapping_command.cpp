#include "src/commands/code_mapping_command.h"

#include <fmt/format.h>

#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/print.h"

namespace msprobe::commands {

std::vector<Flag> CodeMappingCommand::flags() {
  return {{.name = "--ir",
           .type = "FILE",
           .fills = &options_.ir,
           .group = Group::kInput,
           .help = "Text of the graph, as MindSpore saves it (save_graphs)",
           .since = kPython811,
           .required = true},
          {.name = "--dump_data",
           .type = "PATH",
           .fills = &options_.dump_data,
           .group = Group::kInput,
           .help = "Folder of the dump, or one of its .npy files or statistic.csv",
           .since = kPython811,
           .required = true},
          {.name = "--output",
           .letter = "-o",
           .aliases = {"--output_path"},
           .type = "DIR",
           .fills = &options_.output,
           .group = Group::kOutput,
           .help = "Folder of code_mapping_<time>.csv",
           .default_text = "./",
           .since = kPython811},
          ForceFlag()};
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
  if (!context.quiet) {
    std::string text = fmt::format(
        "{} of {} have lines of code ({} in the graph)\n", base::FormatCount(mapping.mapped),
        base::Plural(mapping.rows, "row"), base::Plural(mapping.scopes, "scope"));
    for (const std::filesystem::path& file : mapping.files) {
      text += file.string() + "\n";
    }
    MSP_RETURN_IF_ERROR(PrintUntrusted(text));
  }
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
