// msprobe graph, also graph_visualize: a dump as a tree of modules and calls, alone or beside
// another.
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/analysis/graph/graph.h"
#include "src/analysis/graph/options.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/json/config.h"

namespace msprobe::commands {
namespace {

namespace graph = analysis::graph;

constexpr std::string_view kGraphNotes =
    "DUMP is the folder of a rank, of a step (rank<N>) or of a whole dump (step<N>) of level L0 or "
    "mix; REFERENCE is the same of the reference. The viewer of the Python tool reads the "
    "results: of 8.1.1 the .vis files, of the 26.x line the .vis.db file.\n\n"
    "Under srun or mpirun the processes share the ranks; ranks that are merged (--rank-size) are "
    "the "
    "work of the first one.\n\n";

class GraphCommand final : public Command {
 public:
  // The same under each of the names that versions of the Python tool gave it.
  explicit GraphCommand(std::string_view name)
      : Command(name, name == "graph"
                          ? "Show a dump as a tree of modules and calls, or two side by side"
                          : "Alias of graph") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input-path -i", "FILE", &config_,
             "JSON file with npu_path and, to compare, bench_path; instead of DUMP", kPython811),
        Path("--target-path -tp", "DIR", &target_, "The same as DUMP", kPython26),
        Path("--golden-path -gp", "DIR", &golden_, "The same as REFERENCE", kPython26),
        Group::kMethod,
        Path("--layer-mapping -lm", "FILE", &options_.layer_mapping.file,
             "Pair nodes by their place in the model; the YAML file with other names of layers is "
             "optional",
             kOneOrNone, kPython811),
        Switch("--overflow-check -oc", &options_.overflow_check,
               "Mark nodes with NaN or infinity: critical, high, medium", kPython811),
        Switch("--fuzzy-match -f -fm", &options_.fuzzy,
               "Pair the calls of a module by their order, whatever their numbers", kPython811),
        Number("--rank-size", "N", &rank_size_,
               "Merge the ranks of DUMP (and of REFERENCE, the second number), which share a model",
               kPositive, Arguments{1, 2}, kPython26),
        Number("--tp", "N", &tensor_, "Ranks that share each layer, with --rank-size", kPositive,
               Arguments{1, 2}, kPython26, Needs{"--rank-size"}),
        Number("--pp", "N", &pipeline_, "Stages of the pipeline, with --rank-size", kPositive,
               Arguments{1, 2}, kPython26, Needs{"--rank-size"}),
        Number("--vpp", "N", &virtual_pipeline_,
               "Parts of the model on each rank of a pipeline, with --rank-size", kPositive,
               Arguments{1, 2}, Default{"1"}, kPython26, Needs{"--rank-size"}),
        Number("--cp", "N", &context_, "Ranks that share a sequence, with --rank-size", kPositive,
               Arguments{1, 2}, Default{"what the calls of attention modules tell"},
               Needs{"--rank-size"}),
        Text("--order", "TEXT", &order_,
             "Which ranks are neighbours, innermost first, with --rank-size",
             Default{"tp-cp-ep-dp-pp"}, kPython26, Needs{"--rank-size"}),
        Group::kOutput,
        Choice("--file-type", "NAME", &file_type_, {"db", "json"},
               "json: write the merged dump instead of its graph, with --rank-size", kPython26),
        Switch("--complete-stack -cs", &options_.complete_stacks,
               "Keep all lines of the call stacks in .vis files; .vis.db has them always",
               kPython811),
        OutputFolderFlag(output_, "Folder for the result files", {"--output_path"}),
        FormatsFlag({{"vis", &options_.write_vis},
                     {"db", &options_.write_database},
                     {"html", &options_.write_page},
                     {"explorer", &options_.write_explorer},
                     {"trace", &options_.write_trace}},
                    "vis,db"),
        Switch("--is-print-compare-log -tensor_log", &is_print_compare_log_,
               "Accepted; the rows stand in the results instead of the log", kPython26, kHidden),
        Switch("--is-print-progress-log -progress_log", &is_print_progress_log_,
               "Accepted; progress is shown anyway", kPython26, kHidden),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        AnswerRows(answer_, graph::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &dump_, "Dump to show, the test",
                     NeededUnless{"--input-path --target-path"}),
            Argument("REFERENCE", &bench_, "Dump to compare it with")};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe graph dump/step0 -o graph", "the graph of every rank of a step"},
        {"msprobe graph npu_dump bench_dump -o graph", "two dumps beside each other"},
        {"msprobe graph npu_dump bench_dump -o graph --format html",
         "the same as a page for browsers"},
        {"msprobe -f pytorch graph -i compare.json -o graph -oc",
         "as the Python tool 8.1.1 is called"},
        {"msprobe graph_visualize -tp npu_dump -gp bench_dump -o graph -fm", "as that of 26.x is"},
    };
  }

  std::string notes() const override {
    return std::string(kGraphNotes) + FailOnHelp(graph::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(CheckFlags(context));
    options_.write_page |= answer_.open;
    options_.quiet = context.quiet || answer_.json;
    MSP_ASSIGN_OR_RETURN(const graph::Answer answer, graph::Run(options_));
    if (!answer.reports) {
      return ExitCode::kDone;
    }
    report::Document document = graph::MakeDocument(answer);
    document.command = name();
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  Status ReadConfig() {
    static const std::vector<std::string> known_keys = {"npu_path", "bench_path",
                                                        "is_print_compare_log"};
    MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(config_));
    const json::Json& root = config.root();
    if (!root.is_object()) {
      return config.ErrorAt(root, "", "the file must hold an object with npu_path");
    }
    if (const Status unknown = config.CheckKeys(root, known_keys); !unknown.ok()) {
      base::LogWarning(unknown.message() + "; ignored");
    }
    MSP_ASSIGN_OR_RETURN(options_.npu_path, config.RequiredText(root, "npu_path"));
    MSP_ASSIGN_OR_RETURN(const std::string bench, config.Text(root, "bench_path", ""));
    options_.bench_path = bench;
    return config.Bool(root, "is_print_compare_log", true).status();
  }

  Status CheckParallelism();
  Status CheckFlags(const Context& context) {
    const int ways =
        (dump_.empty() ? 0 : 1) + (config_.empty() ? 0 : 1) + (target_.empty() ? 0 : 1);
    if (ways > 1) {
      return UsageError("give only one of DUMP, -i and -tp")
          .WithHint("msprobe graph DUMP [REFERENCE] -o DIR");
    }
    if (!bench_.empty() && !golden_.empty()) {
      return UsageError("give only one of REFERENCE and -gp");
    }
    if (!config_.empty()) {
      if (!bench_.empty() || !golden_.empty()) {
        return UsageError("with -i the other side is bench_path of that file");
      }
      MSP_RETURN_IF_ERROR(ReadConfig());
    } else {
      options_.npu_path = dump_.empty() ? target_ : dump_;
      options_.bench_path = bench_.empty() ? golden_ : bench_;
    }
    MSP_RETURN_IF_ERROR(CheckParallelism());
    options_.layer_mapping.given = context.Given("--layer-mapping");
    if (!output_.empty()) {
      options_.output = output_;
    }
    return base::CheckOutputFolder(options_.output);
  }

  std::filesystem::path dump_;
  std::filesystem::path bench_;
  std::filesystem::path config_;
  std::filesystem::path target_;
  std::filesystem::path golden_;
  std::filesystem::path output_;
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

Status GraphCommand::CheckParallelism() {
  if (rank_size_.empty()) {
    return {};
  }
  const size_t sides = options_.bench_path.empty() ? 1 : 2;
  if (rank_size_.size() != sides || tensor_.size() != sides || pipeline_.size() != sides) {
    return UsageError(sides == 1 ? "to merge ranks, --rank-size, --tp and --pp take a number each"
                                 : "to merge the ranks of two dumps, --rank-size, --tp and --pp "
                                   "take two numbers each: of DUMP and of REFERENCE");
  }
  if (!context_.empty() && context_.size() != sides) {
    return UsageError(sides == 1 ? "--cp takes one number"
                                 : "--cp takes two numbers: of DUMP and of REFERENCE");
  }
  if (virtual_pipeline_.size() > sides) {
    return UsageError("--vpp takes one number, or one of each dump");
  }
  const bool has_pipeline =
      std::any_of(pipeline_.begin(), pipeline_.end(), [](int64_t stages) { return stages > 1; });
  if (virtual_pipeline_.size() == 1 && virtual_pipeline_.front() > 1 && !has_pipeline) {
    return UsageError("--vpp above 1 needs --pp above 1");
  }
  const auto sizes = [this](size_t side) {
    graph::Parallelism parallelism;
    parallelism.rank_count = static_cast<uint64_t>(rank_size_[side]);
    parallelism.tensor = static_cast<uint64_t>(tensor_[side]);
    parallelism.pipeline = static_cast<uint64_t>(pipeline_[side]);
    // One number is that of the sides that have a pipeline.
    if (virtual_pipeline_.size() == rank_size_.size()) {
      parallelism.virtual_pipeline = static_cast<uint64_t>(virtual_pipeline_[side]);
    } else if (virtual_pipeline_.size() == 1 && parallelism.pipeline > 1) {
      parallelism.virtual_pipeline = static_cast<uint64_t>(virtual_pipeline_.front());
    }
    if (!context_.empty()) {
      parallelism.context = static_cast<uint64_t>(context_[side]);
    }
    if (!order_.empty()) {
      parallelism.order = order_;
    }
    return parallelism;
  };
  options_.npu_parallelism = sizes(0);
  if (sides == 2) {
    options_.bench_parallelism = sizes(1);
  }
  options_.export_merged = sides == 1 && file_type_ == "json";
  return {};
}

}  // namespace

std::unique_ptr<Command> MakeGraph(std::string_view name) {
  return std::make_unique<GraphCommand>(name);
}

}  // namespace msprobe::commands
