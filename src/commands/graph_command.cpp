#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "src/analysis/graph/graph.h"
#include "src/analysis/graph/options.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/common_flags.h"
#include "src/json/config.h"

namespace msprobe::commands {
namespace {

// msprobe graph, also graph_visualize: a dump as a tree of modules and calls, alone or beside
// another.

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

namespace graph = analysis::graph;

constexpr std::string_view kGraphNotes =
    "DUMP is the folder of a rank, of a step (rank<N>) or of a whole dump (step<N>) of level L0 or "
    "mix; BENCH is the same of the side that is right. The viewer of the Python tool reads the "
    "results: of 8.1.1 the .vis files, of the 26.x line the .vis.db file.\n\n";

std::string_view GraphCommand::summary() const {
  return name_ == "graph" ? "Show a dump as a tree of modules and calls, or two side by side"
                          : "Another name of graph";
}

std::vector<Positional> GraphCommand::positionals() {
  return {{.name = "DUMP", .fills = &dump_, .help = "Dump to show: the side under test"},
          {.name = "BENCH", .fills = &bench_, .help = "Dump to compare it with"}};
}

std::vector<Flag> GraphCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--input-path",
       .letter = "-i",
       .type = "FILE",
       .fills = &config_,
       .group = Group::kInput,
       .help = "JSON file with npu_path and, to compare, bench_path; instead of DUMP",
       .since = kPython811},
      {.name = "--target-path",
       .aliases = {"-tp"},
       .type = "DIR",
       .fills = &target_,
       .group = Group::kInput,
       .help = "The same as DUMP",
       .since = kPython26},
      {.name = "--golden-path",
       .aliases = {"-gp"},
       .type = "DIR",
       .fills = &golden_,
       .group = Group::kInput,
       .help = "The same as BENCH",
       .since = kPython26},
      {.name = "--layer-mapping",
       .aliases = {"-lm"},
       .type = "FILE",
       .fills = &options_.layer_mapping.file,
       .arguments = kOneOrNone,
       .group = Group::kMethod,
       .help =
           "Pair nodes by their place in the model; the YAML file with other names of layers is "
           "optional",
       .since = kPython811},
      {.name = "--overflow-check",
       .aliases = {"-oc"},
       .fills = &options_.overflow_check,
       .group = Group::kMethod,
       .help = "Mark nodes with NaN or infinity: critical, high, medium",
       .since = kPython811},
      {.name = "--fuzzy-match",
       .letter = "-f",
       .aliases = {"-fm"},
       .fills = &options_.fuzzy,
       .group = Group::kMethod,
       .help = "Pair the calls of a module by their order, whatever their numbers",
       .since = kPython811},
      {.name = "--rank-size",
       .type = "N",
       .fills = &rank_size_,
       .bounds = kPositive,
       .arguments = {.least = 1, .most = 2},
       .group = Group::kMethod,
       .help = "Merge the ranks of DUMP (and of BENCH, the second number), which share a model",
       .since = kPython26},
      {.name = "--tp",
       .type = "N",
       .fills = &tensor_,
       .bounds = kPositive,
       .arguments = {.least = 1, .most = 2},
       .group = Group::kMethod,
       .help = "Ranks that share each layer, with --rank-size",
       .since = kPython26,
       .needs = "--rank-size"},
      {.name = "--pp",
       .type = "N",
       .fills = &pipeline_,
       .bounds = kPositive,
       .arguments = {.least = 1, .most = 2},
       .group = Group::kMethod,
       .help = "Stages of the pipeline, with --rank-size",
       .since = kPython26,
       .needs = "--rank-size"},
      {.name = "--vpp",
       .type = "N",
       .fills = &virtual_pipeline_,
       .bounds = kPositive,
       .arguments = {.least = 1, .most = 2},
       .group = Group::kMethod,
       .help = "Parts of the model on each rank of a pipeline, with --rank-size",
       .default_text = "1",
       .since = kPython26,
       .needs = "--rank-size"},
      {.name = "--cp",
       .type = "N",
       .fills = &context_,
       .bounds = kPositive,
       .arguments = {.least = 1, .most = 2},
       .group = Group::kMethod,
       .help = "Ranks that share a sequence, with --rank-size",
       .default_text = "what the calls of attention modules tell",
       .needs = "--rank-size"},
      {.name = "--order",
       .type = "TEXT",
       .fills = &order_,
       .group = Group::kMethod,
       .help = "Which ranks are neighbours, innermost first, with --rank-size",
       .default_text = "tp-cp-ep-dp-pp",
       .since = kPython26,
       .needs = "--rank-size"},
      {.name = "--file-type",
       .type = "NAME",
       .fills = &file_type_,
       .values = {"db", "json"},
       .group = Group::kOutput,
       .help = "json: write the merged dump instead of its graph, with --rank-size",
       .since = kPython26},
      {.name = "--complete-stack",
       .aliases = {"-cs"},
       .fills = &options_.complete_stacks,
       .group = Group::kOutput,
       .help = "Keep all lines of the call stacks in .vis files; .vis.db has them always",
       .since = kPython811},
      OutputFolderFlag(output_, "Folder for the result files", {"--output_path"}),
      FormatsFlag(formats_, {"vis", "db", "html", "explorer", "trace"}, "vis,db"),
      {.name = "--is-print-compare-log",
       .aliases = {"-tensor_log"},
       .fills = &is_print_compare_log_,
       .group = Group::kOutput,
       .help = "Accepted; the rows stand in the results instead of the log",
       .since = kPython26,
       .hidden = true},
      {.name = "--is-print-progress-log",
       .aliases = {"-progress_log"},
       .fills = &is_print_progress_log_,
       .group = Group::kOutput,
       .help = "Accepted; progress is shown anyway",
       .since = kPython26,
       .hidden = true},
      ForceFlag(),
      ThreadsFlag(options_.threads),
  };
  AddAnswerFlags(flags, answer_, graph::kGateLevels);
  return flags;
}

std::vector<Example> GraphCommand::examples() const {
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

std::string GraphCommand::notes() const {
  return std::string(kGraphNotes) + FailOnHelp(graph::kGateLevels);
}

Status GraphCommand::ReadConfig() {
  static const std::vector<std::string> known_keys = {"npu_path", "bench_path",
                                                      "is_print_compare_log"};
  MSP_ASSIGN_OR_RETURN(const json::Config config, json::LoadJsonConfig(config_));
  const json::ConfigValue& root = config.root;
  if (root.kind != json::ConfigKind::kObject) {
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

Status GraphCommand::CheckParallelism() {
  if (rank_size_.empty()) {
    return {};
  }
  const size_t sides = options_.bench_path.empty() ? 1 : 2;
  if (rank_size_.size() != sides || tensor_.size() != sides || pipeline_.size() != sides) {
    return UsageError(sides == 1
                          ? "to merge ranks, --rank-size, --tp and --pp take a number each"
                          : "to merge the ranks of two dumps, --rank-size, --tp and --pp take "
                            "two numbers each: of DUMP and of BENCH");
  }
  if (!context_.empty() && context_.size() != sides) {
    return UsageError(sides == 1 ? "--cp takes one number"
                                 : "--cp takes two numbers: of DUMP and of BENCH");
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

Status GraphCommand::CheckFlags(const Context& context) {
  const int ways = (dump_.empty() ? 0 : 1) + (config_.empty() ? 0 : 1) + (target_.empty() ? 0 : 1);
  if (ways != 1) {
    return UsageError(ways == 0 ? "no dump to show" : "give only one of DUMP, -i and -tp")
        .WithHint("msprobe graph DUMP [BENCH] -o DIR");
  }
  if (!bench_.empty() && !golden_.empty()) {
    return UsageError("give only one of BENCH and -gp");
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
  if (!formats_.empty()) {
    const auto asked = [this](std::string_view format) {
      return std::find(formats_.begin(), formats_.end(), format) != formats_.end();
    };
    options_.write_vis = asked("vis");
    options_.write_database = asked("db");
    options_.write_explorer = asked("explorer");
    options_.write_trace = asked("trace");
    options_.write_page = asked("html");
  }
  if (!output_.empty()) {
    options_.output = output_;
  }
  return base::CheckOutputFolder(options_.output);
}

Result<ExitCode> GraphCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckFlags(context));
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  options_.quiet = context.quiet || answer_.json;
  MSP_ASSIGN_OR_RETURN(const graph::Answer answer, graph::Run(options_));
  report::Document document = graph::MakeDocument(answer);
  document.command = name_;
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace

std::unique_ptr<Command> MakeGraph(std::string_view name) {
  return std::make_unique<GraphCommand>(name);
}

}  // namespace msprobe::commands
