#include "src/commands/show_command.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
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
marked row with the reason; exit code 3 means that nothing could be read at all.)";

// A folder of our own for as long as a file in it is needed.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Create() {
    std::error_code error;
    std::string pattern =
        (std::filesystem::temp_directory_path(error) / "msprobe-show-XXXXXX").string();
    if (error || ::mkdtemp(pattern.data()) == nullptr) {
      return IoError("cannot make a temporary folder")
          .WithHint("set TMPDIR, or name a file with -o");
    }
    return TemporaryFolder(pattern);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

Status PrintFile(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes file, base::FileBytes::Open(path));
  const std::string_view text = file.text();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    return IoError("cannot write to the standard output");
  }
  return {};
}

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
  app.add_option("-o,--output", output_file_,
                 "Write to FILE; its ending .csv, .json or .jsonl chooses the format")
      ->type_name("FILE");
  AddThreadsFlag(app, options_.threads);
  app.footer(kExamples);
}

Status ShowCommand::ChooseFormat() {
  if (format_.empty()) {
    const std::string ending = output_file_.extension().string();
    format_ = ending == ".csv" ? "csv" : ending == ".json" || ending == ".jsonl" ? "json" : "table";
  }
  std::error_code ignored;
  if (!output_file_.empty() && std::filesystem::is_directory(output_file_, ignored)) {
    return UsageError(fmt::format("the output {} is a folder", output_file_.string()))
        .WithHint("name a file with -o");
  }
  if (!output_file_.empty() && std::filesystem::equivalent(output_file_, options_.path, ignored)) {
    return UsageError(fmt::format("the output {} is the file to be shown", output_file_.string()));
  }
  if (app_->count("--limit") == 0 && format_ == "table" && output_file_.empty()) {
    options_.row_limit = kScreenRows;
  }
  return {};
}

Status ShowCommand::WriteTable(const Context& context,
                               const analysis::InspectResult& result) const {
  if (format_ == "table") {
    const std::string text = report::TerminalTable(
        analysis::ForScreen(result.table), {context.width, context.color && output_file_.empty()});
    if (!output_file_.empty()) {
      return base::WriteFileAtomically(output_file_, text);
    }
    std::fputs(text.c_str(), stdout);
    return {};
  }
  const auto write = [&](const std::filesystem::path& path) {
    return format_ == "csv" ? report::WriteCsv(path, result.table)
                            : report::WriteJsonLines(path, result.table);
  };
  if (!output_file_.empty()) {
    return write(output_file_);
  }
  // The writers write files; the shell gets the bytes of one.
  MSP_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create());
  const std::filesystem::path path = folder.path() / "rows";
  MSP_RETURN_IF_ERROR(write(path));
  return PrintFile(path);
}

Result<ExitCode> ShowCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(ChooseFormat());
  options_.quiet = context.quiet;
  MSP_ASSIGN_OR_RETURN(const analysis::InspectResult result, analysis::Inspect(options_));
  // Machines read the rows alone; people also want to know what they look at.
  const bool for_people = format_ == "table" && output_file_.empty() && !context.quiet;
  if (for_people) {
    for (const std::string& line : result.summary) {
      std::fputs((line + "\n").c_str(), stdout);
    }
  }
  if (result.table.row_count() > 0 || !for_people) {
    MSP_RETURN_IF_ERROR(WriteTable(context, result));
  } else {
    std::fputs(options_.name_filter.empty() ? "nothing in it\n" : "nothing matches the filter\n",
               stdout);
  }
  if (result.rows_left_out > 0 && for_people) {
    std::fputs(fmt::format("{} more rows; --limit 0 shows all, --filter some of them\n",
                           base::FormatCount(result.rows_left_out))
                   .c_str(),
               stdout);
  }
  for (const std::string& warning : result.warnings) {
    base::LogWarning(warning);
  }
  return ExitCode::kDone;
}

}  // namespace msprobe::commands
