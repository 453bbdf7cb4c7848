// msprobe show: what is in a dump or a file of tensors.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/inspect/inspect.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/dump/layout.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

constexpr const char* kShowNotes = R"(PATH is one of
  a dump folder, step or rank      one row per rank: entries, tensors, bytes, whether it is complete
  a dump.json or debug.json        one row per argument, result and parameter, with the recorded statistics
  a .pt, .npy, .npz, .safetensors  one row per tensor: name, dtype, shape, bytes
  or a checkpoint
  a kernel dump or ATB tensor      the same of what an Ascend device wrote
  a folder of such files           one row per tensor in all files
  a free_benchmark.csv, or the     one row per unstable function, the worst first
  folder that holds such tables
  another .csv                     its rows

Nothing in a file is ever executed, and neither PyTorch nor MindSpore is needed. If a tensor cannot be read, its row is
marked and shows the reason. Exit code 3 means that nothing could be read.)";

class ShowCommand final : public Command {
 public:
  ShowCommand() : Command("show", "Show what is in a dump, a checkpoint or a tensor file") {}

  FlagTable flags() override {
    return {
        Group::kSelection,
        Text("--filter", "GLOB", &options_.name_filter,
             "Only rows whose first column matches, e.g. '*.weight' or 'step0/*'"),
        Number("--limit", "N", &options_.row_limit, "Show at most N rows; 0: all",
               Default{fmt::format("{} on the screen, all in csv and json", kScreenRows)}),
        Group::kMethod,
        Switch("--stats", &options_.statistics,
               "Compute max, min, mean, norm and count NaN, infinities and zeros of every tensor"),
        Switch("--offsets", &options_.offsets,
               "Also show where the elements of every tensor are: its file, their offset in bytes "
               "and their strides in elements"),
        Group::kOutput,
        Path("--output -o", "FILE", &output_file_,
             "Write to FILE; the extension .csv, .json or .jsonl selects the format",
             Default{"-, the standard output"}),
        Choice("--format", "NAME", &format_, {"table", "csv", "json"},
               "Output format; json: one object per line", Default{"table"}),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("PATH", &options_.path,
                     "A dump folder, a dump.json, a tensor file, a folder of tensor files, or a "
                     "table of free_benchmark",
                     kRequired),
            Argument("NAME", &name_,
                     "Only rows with this in their names; of a dump, the calls of its first rank")};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe show dump softmax", "the calls of softmax, and what went in and out of them"},
        {"msprobe show dump", "whether the dump is complete, and what was captured"},
        {"msprobe show dump/step0/rank0/dump.json --filter '*.attn.*.output.*'",
         "the outputs of all attention layers"},
        {"msprobe show model.safetensors --stats",
         "maximum, minimum, mean, norm and the number of NaN, infinities and zeros of every "
         "tensor"},
        {"msprobe show dump/step0/rank0/dump_tensor_data --stats --format csv -o tensors.csv",
         "the same for every tensor file of a dump, for a spreadsheet"},
        {"msprobe show unstable", "the tables of free_benchmark as a ranking of functions"},
        {"msprobe show checkpoint.pt --format json | jq 'select(.NaN > 0)'",
         "JSON lines for other programs"},
    };
  }

  std::string notes() const override { return kShowNotes; }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(TakeName());
    MSP_RETURN_IF_ERROR(ChooseFormat(context));
    options_.quiet = context.quiet;
    MSP_ASSIGN_OR_RETURN(analysis::inspect::Contents result, analysis::inspect::Run(options_));
    OwnForms own;
    std::vector<report::OutputFile> files;
    bool shows = true;
    if (format_ == "table") {
      own.despite_quiet = true;
      own.file = output_file_;
    } else if (output_file_.empty()) {
      own.instead =
          format_ == "csv" ? report::CsvText(result.table) : report::JsonLinesText(result.table);
    } else {
      MSP_RETURN_IF_ERROR(format_ == "csv" ? report::WriteCsv(output_file_, result.table)
                                           : report::WriteJsonLines(output_file_, result.table));
      files.push_back({output_file_});
      shows = false;
    }
    const bool filtered = !options_.name_filter.empty();
    const bool summary = !context.quiet || answer_.json;
    report::Document document =
        analysis::inspect::MakeDocument(std::move(result), filtered, summary);
    document.files = std::move(files);
    Context shown = context;
    shown.quiet = context.quiet || !shows;
    return EmitReport(std::move(document), answer_, shown, own);
  }

 private:
  // Rows a screen shows unless --limit says otherwise; files get all rows.
  static constexpr uint64_t kScreenRows = 200;

  // NAME is a part of names, so it becomes a pattern. A dump is opened down to the calls.
  Status TakeName() {
    if (name_.empty()) {
      return {};
    }
    if (!options_.name_filter.empty()) {
      return UsageError("NAME and --filter cannot be combined");
    }
    options_.name_filter = "*" + name_ + "*";
    const Result<dump::DumpLayout> layout =
        base::IsFolder(options_.path) ? dump::FindDump(options_.path) : NotFoundError("no folder");
    if (!layout.ok()) {
      return {};
    }
    const auto rank = std::find_if(layout->ranks.begin(), layout->ranks.end(),
                                   [](const dump::RankFolder& folder) { return folder.has_dump; });
    if (rank == layout->ranks.end()) {
      return {};
    }
    if (layout->ranks.size() > 1) {
      base::LogInfo(fmt::format("calls of {}, the first of {}", rank->folder.string(),
                                base::Plural(layout->ranks.size(), "rank folder")));
    }
    options_.path = rank->folder / dump::kDumpFileName;
    return {};
  }

  Status ChooseFormat(const Context& context) {
    if (format_.empty()) {
      const std::string ending = output_file_.extension().string();
      format_ = ending == ".csv"                          ? "csv"
                : ending == ".json" || ending == ".jsonl" ? "json"
                                                          : "table";
    }
    std::error_code ignored;
    if (base::IsStandardOutput(output_file_)) {
      output_file_.clear();
    }
    if (!output_file_.empty() &&
        std::filesystem::equivalent(output_file_, options_.path, ignored)) {
      return UsageError(fmt::format("the output {} is the input file", output_file_.string()));
    }
    if (!output_file_.empty()) {
      MSP_RETURN_IF_ERROR(base::CheckOutputFile(output_file_));
    }
    if (answer_.json && format_ == "table" && !output_file_.empty()) {
      return UsageError("--json prints the answer, -o writes rows")
          .WithHint("give a file that ends in .csv, .json or .jsonl, or omit -o");
    }
    if (!context.Given("--limit") && format_ == "table" && !answer_.json && output_file_.empty()) {
      options_.row_limit = kScreenRows;
    }
    return {};
  }

  analysis::inspect::Options options_;
  std::string name_;
  std::string format_;  // "table", "csv", "json"; empty: by the output file's name, else table
  std::filesystem::path output_file_;  // empty: stdout
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeShow() { return std::make_unique<ShowCommand>(); }

}  // namespace msprobe::commands
