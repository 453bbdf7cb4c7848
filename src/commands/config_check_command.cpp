// msprobe config_check: is it the same experiment? Collects one side into a pack, or compares two
// packs, two checkpoints, or the settings in two training logs. msprobe ckpt_compare: two
// checkpoints of any kind, and which parameters differ. msprobe digest: sums of one that prove
// equality without it.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "src/analysis/ckpt/ckpt.h"
#include "src/analysis/ckpt/digests.h"
#include "src/analysis/ckpt/result.h"
#include "src/analysis/config_check/check.h"
#include "src/analysis/config_check/document.h"
#include "src/base/log.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

namespace config_check = analysis::config_check;

constexpr const char* kConfigCheckNotes =
    R"(To record data, weights and random calls, add to the training script:
  from msprobe.core.config_check import ConfigChecker

Relative differences in the workbook are |bench - cmp| / bench, so they have the sign of bench.

)";

class ConfigCheckCommand final : public Command {
 public:
  ConfigCheckCommand()
      : Command("config_check",
                "Check whether two runs are the same experiment: environment, settings, data, "
                "weights") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--dump -d", "FILE...", &inputs_,
             "Collect a pack; scripts (.sh, .py) and configs (.yaml, .yml, .json) are optional",
             Arguments{0, kUnlimited}, kPython811),
        Path(
            "--compare -c", "REFERENCE TEST", &pair_,
            "Compare two packs or checkpoints in the order of the Python tool: the reference first",
            Arguments{2, 2}, kPython811),
        Path("--verl-compare -vc", "TEST_LOG REFERENCE_LOG", &logs_,
             "Compare the settings printed in two training logs, .log or .txt", Arguments{2, 2},
             kPython26),
        Path("--slime-compare -sc", "TEST_LOG REFERENCE_LOG", &slime_,
             "Compare the arguments that two trainings with slime printed into their logs, .log or "
             ".txt",
             Arguments{2, 2}, kPython26),
        Path("--verl-verify -vv", "[REQUIRED.yaml] LOG", &verify_,
             "Check the settings printed in a training log against requirements (default: built-in "
             "ones for verl)",
             Arguments{1, 2}, kPython26),
        Path("--python", "PATH", &collect_.python,
             "Python interpreter whose packages are collected", Default{"python3 on the PATH"}),
        Path("--dynamic", "FILE", &collect_.dynamic,
             "JSON object with parameters of the running program, as written by ConfigChecker"),
        Group::kMethod,
        Switch("--normalize-env", &compare_.check.normalize_env,
               "Treat variables with the same meaning as equal: 0, false, off and not set"),
        Switch("--normalize-pip", &compare_.check.normalize_pip,
               "Accept package names in any spelling, and versions that contain '='"),
        Switch("--ignore-collector-env", &compare_.check.ignore_collector_env,
               "Ignore the two variables that the Python tool sets while it collects"),
        Switch("--compat", &compat_,
               "Reproduce the Python tool's output exactly, including its bugs"),
        Group::kOutput,
        Path(
            "--output -o", "PATH", &output_,
            "Pack to write, folder of the comparison, or json of compared checkpoints",
            Default{
                "./config_check_pack.zip, ./config_check_result, ./verl_param_compare_result, "
                "./slime_param_compare_result, ./verl_param_verify_result, ./ckpt_similarity.json"},
            kPython811),
        FormatsFlag({{"xlsx", &write_xlsx_}, {"json", &write_json_}, {"html", &write_html_}},
                    "xlsx"),
        OpenFlag(answer_),
        ForceFlag(),
        AnswerRows(answer_, config_check::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    constexpr NeededUnless kOtherWays{
        "--dump --compare --verl-compare --slime-compare --verl-verify"};
    return {Argument("TEST", &side_,
                     "The test: a pack, a script or config or a folder with them, a "
                     "checkpoint, or a training log (.log, .txt)",
                     kOtherWays),
            Argument("REFERENCE", &reference_,
                     "The reference, of the same kind; packs, scripts and configs "
                     "may be mixed",
                     kOtherWays, FromProject{"reference", ProjectScope::kOwnTable})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe config_check -d train.sh model.yaml -o npu.zip",
         "collect this side: environment, Python packages, hyperparameters of scripts and configs"},
        {"msprobe config_check npu.zip gpu.zip -o result",
         "compare two packs: verdict and fixes on the screen, all rows in result/result.xlsx"},
        {"msprobe config_check train_a.sh train_b.sh",
         "compare two launch scripts: what they pass to the training, and its environment; folders "
         "with scripts and configs, too"},
        {"msprobe config_check npu.zip gpu.zip --fail-on error",
         "in CI: exit code 1 if a check fails"},
        {"msprobe config_check ckpt_npu ckpt_gpu -o similarity.json",
         "compare two checkpoints, as msprobe ckpt_compare does"},
        {"msprobe config_check npu.log gpu.log",
         "compare the settings printed by two training runs (verl, Namespace(...), argument "
         "dumps)"},
        {"msprobe config_check -vv train.log",
         "check a verl log against the built-in requirements; with -vv REQUIRED.yaml train.log "
         "against yours"},
    };
  }

  std::string notes() const override {
    return kConfigCheckNotes + FailOnHelp(config_check::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(TakeSides());
    write_html_ |= answer_.open;
    const bool collects = context.Given("--dump");
    const bool compares = !pair_.empty();
    const int log_ways =
        (logs_.empty() ? 0 : 1) + (slime_.empty() ? 0 : 1) + (verify_.empty() ? 0 : 1);
    if (log_ways > 0) {
      if (collects || compares || log_ways > 1) {
        return UsageError("-d, -c, -vc, -sc and -vv cannot be combined");
      }
      return RunLogSettings(context);
    }
    if (collects) {
      if (compares) {
        base::LogWarning("both -d and -c are given: collecting, -c is ignored");
      }
      return RunCollect(context);
    }
    // Checkpoints may be zips, too (.pt): what a pack is, its members tell.
    const auto is_pack = [](const std::filesystem::path& path) {
      return path.string().ends_with("zip") || config_check::LooksLikePack(path);
    };
    const bool packs = is_pack(pair_[0]) || config_check::IsCollectable(pair_[0]) ||
                       config_check::IsCollectable(pair_[1]);
    return packs ? RunComparePacks(context) : RunCompareCheckpoints(context);
  }

 private:
  Status TakeSides() {
    if (side_.empty()) {
      return {};
    }
    if (!inputs_.empty() || !pair_.empty() || !logs_.empty() || !slime_.empty() ||
        !verify_.empty()) {
      return UsageError("the sides are given in more than one way")
          .WithHint("msprobe config_check TEST REFERENCE");
    }
    const std::string ending = side_.extension().string();
    if (ending == ".log" || ending == ".txt") {
      logs_ = {side_, reference_};
    } else {
      pair_ = {reference_, side_};
    }
    return {};
  }

  Result<ExitCode> RunCollect(const Context& context) {
    collect_.inputs = inputs_;
    collect_.compat = compat_;
    if (!output_.empty()) {
      collect_.output = output_;
    }
    MSP_ASSIGN_OR_RETURN(const config_check::CollectSummary summary, config_check::Run(collect_));
    return EmitReport(config_check::MakeDocument(summary), answer_, context);
  }

  Result<ExitCode> RunComparePacks(const Context& context) {
    compare_.bench_pack = pair_[0];
    compare_.cmp_pack = pair_[1];
    if (!output_.empty()) {
      compare_.output_folder = output_;
    }
    if (context.Given("--format")) {
      compare_.write_xlsx = write_xlsx_;
      compare_.write_json = write_json_;
    }
    compare_.check.framework = context.framework;
    compare_.check.compat = compat_;
    compare_.python = collect_.python;
    OwnForms own;
    if (write_html_) {
      own.page = compare_.output_folder / "result.html";
      MSP_RETURN_IF_ERROR(CheckPage(own.page));
    }
    MSP_ASSIGN_OR_RETURN(const config_check::CompareRun run, config_check::Run(compare_));
    return EmitReport(config_check::MakeDocument(run), answer_, context, own);
  }

  Result<ExitCode> RunCompareCheckpoints(const Context& context) {
    analysis::ckpt::Options options;
    options.path_a = pair_[0];
    options.path_b = pair_[1];
    if (!output_.empty()) {
      options.output = output_;
    }
    options.open.compatible_merge = compat_;
    options.float32_figures = true;
    options.open.allow_missing_ranks = true;  // scripts written for the Python tool count on it
    options.write_xlsx = write_xlsx_;
    options.write_json = write_json_;
    options.write_html = write_html_;
    options.quiet = context.quiet;
    // The words of this command, in the words of that one.
    AnswerFlags flags = answer_;
    std::replace(flags.fail_on.begin(), flags.fail_on.end(), std::string("warning"),
                 std::string("different"));
    MSP_ASSIGN_OR_RETURN(const analysis::ckpt::Comparison comparison, analysis::ckpt::Run(options));
    OwnForms own;
    own.page = comparison.page;
    return EmitReport(analysis::ckpt::MakeDocument(comparison), flags, context, own);
  }

  Result<ExitCode> RunLogSettings(const Context& context) {
    const std::vector<std::filesystem::path>& pair = slime_.empty() ? logs_ : slime_;
    const bool compares = !pair.empty();
    config_check::LogSettingsOptions options;
    options.verify = !compares;
    options.slime = !slime_.empty();
    options.second = compares ? pair[1] : verify_.back();
    if (compares) {
      options.first = pair[0];
    } else if (verify_.size() == 2) {
      options.first = verify_[0];
    }
    options.output_folder = !output_.empty() ? output_
                            : options.slime  ? "./slime_param_compare_result"
                            : compares       ? "./verl_param_compare_result"
                                             : "./verl_param_verify_result";
    OwnForms own;
    if (write_html_) {
      own.page = options.output_folder /
                 (compares ? "hyper_params_compare.html" : "hyper_params_verify.html");
      MSP_RETURN_IF_ERROR(CheckPage(own.page));
    }
    MSP_ASSIGN_OR_RETURN(const config_check::LogSettingsRun run, config_check::Run(options));
    return EmitReport(config_check::MakeDocument(run), answer_, context, own);
  }

  std::filesystem::path side_;
  std::filesystem::path reference_;
  analysis::config_check::CollectOptions collect_;
  analysis::config_check::CompareOptions compare_;
  std::vector<std::filesystem::path> inputs_;  // -d
  std::vector<std::filesystem::path> pair_;    // -c
  std::vector<std::filesystem::path> logs_;    // -vc
  std::vector<std::filesystem::path> slime_;   // -sc
  std::vector<std::filesystem::path> verify_;  // -vv
  std::filesystem::path output_;
  bool write_xlsx_ = false;
  bool write_json_ = false;
  bool write_html_ = false;
  AnswerFlags answer_;
  bool compat_ = false;
};

constexpr const char* kCkptCompareNotes =
    R"(If a parameter cannot be read, it is marked, the others are compared, and the exit code is 3.

)";

class CkptCompareCommand final : public Command {
 public:
  CkptCompareCommand()
      : Command("ckpt_compare", "Compare two checkpoints and name the parameters that differ") {}

  FlagTable flags() override {
    return {
        Group::kSelection,
        Switch("--optimizer", &options_.open.optimizer,
               "Also compare optimizer states: tensors, learning rates, betas, steps"),
        Switch("--allow-missing-ranks", &options_.open.allow_missing_ranks,
               "If ranks are missing, compare the others instead of failing"),
        Group::kMethod,
        Path("--mapping", "FILE", &options_.mapping_file,
             "YAML file with rules that translate names of one checkpoint to those of the other"),
        Path("--suggest-mapping", "FILE", &options_.draft_file,
             "Write a draft of such rules, made from parameters of other names whose elements are "
             "equal"),
        Number("--vocab-size", "N", &options_.vocabulary,
               "Size of the vocabulary; rows of embeddings beyond it are padding and ignored",
               kPositive),
        Number("--num-attention-heads", "N", &options_.attention_heads,
               "Attention heads of the model, if neither checkpoint records them", kPositive),
        Number("--num-query-groups", "N", &options_.query_groups,
               "Key/value heads of the model, if fewer than attention heads", kPositive),
        Number("--rtol", "R", &options_.tolerance.relative,
               "Elements agree when |a - b| <= ATOL + RTOL * |b|; b is of REFERENCE", kNotNegative),
        Number("--atol", "A", &options_.tolerance.absolute, "See --rtol", kNotNegative),
        Path("--also", "PATH", &options_.also,
             "Another checkpoint that a side may hold by mistake, such as the step before: looked "
             "at for causes, beside the steps in the same folder"),
        Switch("--sensitivity", &options_.sensitivity,
               "Rank quantised parameters and layers by the error of their weights, or with "
               "--activations by what it does to their outputs"),
        Path("--activations", "DUMP", &options_.activations,
             "A dump with inputs of modules for --sensitivity: tensors give the effect, statistics "
             "a bound of it"),
        Switch("--compat", &options_.open.compatible_merge,
               "Merge Megatron shards exactly as the Python tool does, including its bugs"),
        Group::kOutput,
        Path("--output -o --output_path", "FILE", &options_.output, "The result file", kPython811),
        Choices("--format", "LIST",
                {{"json", &options_.write_json},
                 {"xlsx", &options_.write_xlsx},
                 {"csv", &options_.write_csv},
                 {"html", &options_.write_html}},
                "Also write all metrics, as NAME_details.FORMAT beside the result; comma-separated "
                "list"),
        Path("--unmatched", "FILE", &options_.unmatched_file,
             "Also write the unmatched names, with reasons, to this JSON file"),
        Switch("--strict-json", &options_.strict_json,
               "Write null instead of NaN and Infinity, which strict JSON does not allow"),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        ShareRows(answer_),
        AnswerRows(answer_, analysis::ckpt::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {
        Argument(
            "CKPT", &options_.path_a,
            "The test checkpoint: a Megatron, DeepSpeed, torch distributed or Hugging "
            "Face folder, quantised or not, or one .pt, .bin, .safetensors, .gguf, .npz or "
            "MindSpore .ckpt file; BASE+ADAPTER merges a LoRA adapter; or a digest, a file or a "
            "folder of ranks' files",
            kRequired),
        Argument("REFERENCE", &options_.path_b, "The checkpoint to compare it with, of any kind",
                 kRequired, FromProject{"reference", ProjectScope::kOwnTable})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe ckpt_compare gpu/ckpt npu/ckpt -o similarity.json",
         "two Megatron checkpoints of any TP, PP, VPP and EP sizes"},
        {"msprobe ckpt_compare megatron/ckpt llama-hf --vocab-size 32000",
         "Megatron against Hugging Face: names are translated, padding rows are ignored"},
        {"msprobe ckpt_compare step100.pt step200.safetensors --format xlsx",
         "state dicts in single files, with a workbook of all metrics"},
        {"msprobe ckpt_compare gpu/ckpt npu/ckpt --format html",
         "a page for any browser: a map of layers by kinds of parameters, all metrics to search "
         "and sort"},
        {"msprobe ckpt_compare model-fp8 model --sensitivity --activations dump",
         "which layers to keep in higher precision: quantisation errors times recorded inputs"},
        {"msprobe ckpt_compare before after --fail-on different -q",
         "in CI: exit code 1 when any parameter differs"},
    };
  }

  std::string notes() const override {
    return kCkptCompareNotes + FailOnHelp(analysis::ckpt::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    options_.quiet = context.quiet;
    options_.write_html |= answer_.open;
    options_.float32_figures = options_.open.compatible_merge;
    MSP_ASSIGN_OR_RETURN(const analysis::ckpt::Comparison comparison,
                         analysis::ckpt::Run(options_));
    if (!comparison.reports) {
      return ExitCode::kDone;
    }
    OwnForms own;
    own.page = comparison.page;
    return EmitReport(analysis::ckpt::MakeDocument(comparison), answer_, context, own);
  }

 private:
  analysis::ckpt::Options options_;
  AnswerFlags answer_;
};

constexpr const char* kDigestNotes =
    R"(A digest is the same for every number of ranks, every way to cut, join and order parameters, and for casts that change no value.

Casts that round are declared with --dtype. msprobe.weights.digest(model) makes digests in a running trainer or engine.)";

class DigestCommand final : public Command {
 public:
  DigestCommand()
      : Command("digest",
                "Write a digest of a checkpoint's weights, to prove equality without it") {}

  FlagTable flags() override {
    return {
        Group::kSelection,
        Switch("--allow-missing-ranks", &options_.open.allow_missing_ranks,
               "If ranks are missing, digest the others instead of failing"),
        Group::kMethod,
        Text("--dtype", "NAME", &options_.dtype,
             "Round values to float32, bfloat16 or float16 first, as the other side holds them"),
        Number("--vocab-size", "N", &options_.vocabulary,
               "Size of the vocabulary, if none is recorded; rows of embeddings beyond it are "
               "padding",
               kPositive),
        Number("--num-attention-heads", "N", &options_.attention_heads,
               "Attention heads of the model, if they are not recorded", kPositive),
        Number("--num-query-groups", "N", &options_.query_groups,
               "Key/value heads of the model, if fewer than attention heads", kPositive),
        Group::kOutput,
        Path("--output -o", "FILE", &options_.output, "The digest"),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("CKPT", &options_.path,
                     "A checkpoint of any kind that ckpt_compare reads; BASE+ADAPTER merges a LoRA "
                     "adapter",
                     kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe digest megatron/ckpt -o trainer.json", "a digest of some hundred KB"},
        {"msprobe digest trainer.pt --dtype bfloat16 -o trainer.json",
         "of float32 weights, for an engine that holds them in bfloat16"},
        {"msprobe ckpt_compare trainer.json llama-hf",
         "whether a checkpoint holds the same weights"},
        {"msprobe ckpt_compare trainer_digests engine_digests --fail-on different -q",
         "folders of ranks' digests: exit code 1 when any parameter differs"},
    };
  }

  std::string notes() const override { return kDigestNotes; }

  Result<ExitCode> Run(const Context& context) override {
    options_.quiet = context.quiet;
    MSP_ASSIGN_OR_RETURN(report::Document document, analysis::ckpt::WriteDigest(options_));
    return EmitReport(std::move(document), answer_, context);
  }

 private:
  analysis::ckpt::DigestOptions options_;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeConfigCheck() { return std::make_unique<ConfigCheckCommand>(); }
std::unique_ptr<Command> MakeDigest() { return std::make_unique<DigestCommand>(); }
std::unique_ptr<Command> MakeCkptCompare() { return std::make_unique<CkptCompareCommand>(); }

}  // namespace msprobe::commands
