#include "src/commands/show_command.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/print.h"
#include "src/report/narrow_table.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(PATH may be
  a dump folder, step or rank      one row per rank: entries, tensors, bytes, whether it is complete
  a dump.json or debug.json        one row per argument, result and parameter, with the recorded statistics
  a .pt, .npy, .npz, .safetensors  one row per tensor: name, dtype, shape, bytes
  or a checkpoint
  a folder of such files           one row per tensor of all files

Examples:
  msprobe show dump
      is the dump complete, and what was captured?
  msprobe show dump/step0/rank0/dump.json --filter '*.attn.*.output.*'
      the outputs of all attention layers
  msprobe show model.safetensors --stats
      maximum, minimum, mean, norm and the number of NaN, infinities and zeros of every tensor
  msprobe show dump/step0/rank0/dump_tensor_data --stats --format csv -o tensors.csv
      the same for every tensor file of a dump, for a spreadsheet
  msprobe show checkpoint.pt --format json | jq 'select(.NaN > 0)'
      JSON lines for other programs

Nothing in a file is ever executed, and neither PyTorch nor MindSpore is needed. A tensor that cannot be read is a
marked row with the reason; exit code 3 means that nothing could be read at all.
)";

constexpr size_t kNotesShown = 20;

}  // namespace

void ShowCommand::Configure(CLI::App& app) {
  app_ = &app;
  app.add_option("path", options_.path,
                 "A dump folder, a dump.json, a file of tensors or a folder of such files")
      ->type_name("PATH")
      ->required();
  app.add_flag("--stats", options_.statistics,
               "Compute max, min, mean, norm and count NaN, infinities and zeros of every tensor");
  app.add_option("--filter", options_.name_filter,
                 "Only rows whose first column matches, e.g. '*.weight' or 'step0/*'")
      ->type_name("GLOB");
  app.add_option(
         "--limit", options_.row_limit,
         fmt::format("At most N rows; 0: all (default: {} on the screen, all in csv and json)",
                     kScreenRows))
      ->type_name("N");
  app.add_option("--format", format_, "table, csv, or json (one object per line)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"table", "csv", "json"}));
  app.add_option(
         "-o,--output", output_file_,
         "Write to FILE (- is the standard output); its ending .csv, .json or .jsonl chooses the "
         "format")
      ->type_name("FILE");
  AddForceFlag(app);
  AddThreadsFlag(app, options_.threads);
  app.footer(kExamples);
}

Status ShowCommand::ChooseFormat() {
  if (format_.empty()) {
    const std::string ending = output_file_.extension().string();
    format_ = ending == ".csv" ? "csv" : ending == ".json" || ending == ".jsonl" ? "json" : "table";
  }
  std::error_code ignored;
  if (base::IsStandardOutput(output_file_)) {
    output_file_.clear();
  }
  if (!output_file_.empty() && std::filesystem::equivalent(output_file_, options_.path, ignored)) {
    return UsageError(fmt::format("the output {} is the file to be shown", output_file_.string()));
  }
  if (!output_file_.empty()) {
    MSP_RETURN_IF_ERROR(base::CheckOutputFile(output_file_));
  }
  if (app_->count("--limit") == 0 && format_ == "table" && output_file_.empty()) {
    options_.row_limit = kScreenRows;
  }
  return {};
}

Status ShowCommand::WriteRows(const analysis::InspectResult& result) const {
  if (output_file_.empty()) {
    return Print(format_ == "csv" ? report::CsvText(result.table)
                                  : report::JsonLinesText(result.table));
  }
  return format_ == "csv" ? report::WriteCsv(output_file_, result.table)
                          : report::WriteJsonLines(output_file_, result.table);
}

Status ShowCommand::WriteForPeople(const Context& context,
                                   const analysis::InspectResult& result) const {
  const bool terminal = output_file_.empty() && ::isatty(STDOUT_FILENO) == 1;
  std::string text;
  if (!context.quiet) {
    for (const std::string& line : result.summary) {
      text += line + "\n";
    }
  }
  if (result.table.row_count() > 0) {
    // Only a terminal has a right edge; pipes and files get whole names.
    const report::ScreenView view = report::ForScreen(result.table, terminal ? context.width : 0);
    text += report::TerminalTable(view.table,
                                  {view.width, context.color && terminal, report::kScreenDigits});
    for (size_t i = 0; i < std::min(view.notes.size(), kNotesShown); ++i) {
      text += view.notes[i] + "\n";
    }
    if (view.notes.size() > kNotesShown) {
      text += fmt::format("... and {} more rows with a note\n",
                          base::FormatCount(view.notes.size() - kNotesShown));
    }
  } else if (!context.quiet) {
    text += options_.name_filter.empty() ? "nothing in it\n" : "nothing matches the filter\n";
  }
  if (result.rows_left_out > 0) {
    text += fmt::format("{} more rows; --limit 0 shows all, --filter some of them\n",
                        base::FormatCount(result.rows_left_out));
  }
  return output_file_.empty() ? Print(text) : base::WriteFileAtomically(output_file_, text);
}

Result<ExitCode> ShowCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(ChooseFormat());
  options_.quiet = context.quiet;
  MSP_ASSIGN_OR_RETURN(const analysis::InspectResult result, analysis::Inspect(options_));
  MSP_RETURN_IF_ERROR(format_ == "table" ? WriteForPeople(context, result) : WriteRows(result));
  std::fflush(stdout);  // warnings belong behind what they are about, also in a log file
  for (const std::string& warning : result.warnings) {
    base::LogWarning(warning);
  }
  return result.nothing_readable ? ExitCode::kFailed : ExitCode::kDone;
}

}  // namespace msprobe::commands
