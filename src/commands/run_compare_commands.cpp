// Two runs against each other by what they stored themselves: the signs of gradients
// (grad_compare), and the data of reinforcement learning (rl_compare).
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/grad/grad.h"
#include "src/analysis/rl/rl.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"

namespace msprobe::commands {
namespace {

Status CheckFolders(const std::filesystem::path& first, const std::filesystem::path& second,
                    const std::filesystem::path& output) {
  for (const std::filesystem::path& folder : {first, second}) {
    if (!base::Exists(folder)) {
      return NotFoundError(fmt::format("{} does not exist", folder.string()));
    }
    if (!base::IsFolder(folder)) {
      return NotFoundError(fmt::format("{} is not a folder", folder.string()));
    }
  }
  return base::CheckOutputFolder(output);
}

namespace grad = analysis::grad;

constexpr const char* kGradCompareNotes =
    R"(RUN and REFERENCE are folders that the task grad_probe wrote with grad_level L1 or L2.
A step stands out when fewer signs agree than --min-similarity at the first step, or when the share
has dropped by more than --max-drop since the step before.

)";

// msprobe grad_compare: the directions of two runs' gradients.
class GradCompareCommand final : public Command {
 public:
  GradCompareCommand()
      : Command("grad_compare",
                "Compare the signs of two runs' gradients, as the task grad_probe stored them") {}

  FlagTable flags() override {
    return {
        Number("--min-similarity", "SHARE", &options_.min_similarity,
               "Share of equal signs below which the first step stands out", Between(0, 1)),
        Number("--max-drop", "SHARE", &options_.max_drop,
               "Drop of that share from one step to the next above which a step stands out",
               Between(0, 1)),
        OutputFolderFlag(options_.output, "Folder for the result files", {}),
        FormatsFlag({{"csv", nullptr}, {"html", &wants_page_}}, "csv"),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_, grad::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("RUN", &options_.first, "Folder of the test run", kRequired),
            Argument("REFERENCE", &options_.second, "Folder of the reference run", kRequired,
                     FromProject{"reference", ProjectScope::kOwnTable})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe grad_compare grad_npu grad_gpu -o result",
         "result/rank<R>/similarities.csv: a row per parameter, a column per step"},
        {"msprobe grad_compare grad_npu grad_gpu -o result --format csv,html",
         "also a page with the curve of every parameter"},
        {"msprobe grad_compare grad_npu grad_gpu --fail-on diverged",
         "in CI: exit code 1 if a step stands out"},
    };
  }

  std::string notes() const override { return kGradCompareNotes + FailOnHelp(grad::kGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(CheckFolders(options_.first, options_.second, options_.output));
    OwnForms own;
    if (wants_page_ || answer_.open) {
      own.page = options_.output / "grad_compare.html";
      MSP_RETURN_IF_ERROR(CheckPage(own.page));
    }
    options_.quiet = context.quiet;
    const base::Stopwatch watch;
    MSP_ASSIGN_OR_RETURN(const grad::Comparison comparison, grad::Run(options_));
    report::Document document = grad::MakeDocument(comparison);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  analysis::grad::Options options_;
  bool wants_page_ = false;
  AnswerFlags answer_;
};

namespace rl = analysis::rl;

constexpr const char* kRlCompareNotes =
    R"(RUN and REFERENCE are folders written by SingleSave of msprobe.core, or rollouts of a framework:
a .jsonl, .pt or .npz file, or a folder with a file per step.

)";

// msprobe rl_compare: key data of two runs of a reinforcement learning.
class RlCompareCommand final : public Command {
 public:
  RlCompareCommand()
      : Command("rl_compare", "Compare two reinforcement learning runs, as stored by SingleSave") {}

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--first -a", "DIR", &options_.first, "Folder of the first run, instead of RUN",
             kPython26),
        Path("--second -b", "DIR", &options_.second,
             "Folder of the second run, instead of REFERENCE", kPython26),
        Group::kMethod,
        Text("--tokens", "KEY[=KEY_OF_B]", &token_keys_,
             "Compare the log-probabilities of KEY token by token with those of KEY (or KEY_OF_B) "
             "in the second run; may be repeated",
             Excludes{"--compat"}),
        Text("--mask", "KEY", &options_.tokens.mask,
             "Key of the first run with the mask of the tokens: 0 excludes a token",
             Needs{"--tokens"}),
        Text("--ids", "KEY", &options_.tokens.ids,
             "Key of the first run with the ids of the tokens", Needs{"--tokens"}),
        Switch("--explain", &options_.tokens.explain,
               "Say where the differences of the tokens come from: causes with their shares",
               Needs{"--tokens"}),
        Text("--routes --routed-experts", "KEY", &options_.tokens.routes,
             "Key with the experts of each token, for --explain", Needs{"--explain"}),
        Text("--position-ids", "KEY", &options_.tokens.positions,
             "Key with the position of each token, for --explain", Needs{"--explain"}),
        Text("--prompt-lengths", "KEY", &options_.tokens.prompt_lengths,
             "Key with the length of each prompt, for --explain", Needs{"--explain"}),
        Text("--response-lengths", "KEY", &options_.tokens.response_lengths,
             "Key with the length of each response, for --explain", Needs{"--explain"}),
        Text("--sequence-ids", "KEY", &options_.tokens.sequences,
             "Key with a number of each sequence, or of each token's sequence, for --explain",
             Needs{"--explain"}),
        Text("--weight-version", "KEY", &options_.tokens.versions,
             "Key with the version of the weights, for --explain", Needs{"--explain"}),
        Number("--worst", "N", &options_.tokens.worst, "Number of tokens to list per key",
               Between(1, 1e6), Needs{"--tokens"}),
        Switch("--compat", &options_.compat,
               "Reproduce the Python tool: NaN never equals NaN, dict members share id 0, arrays "
               "without a partner are ignored"),
        OutputFolderFlag(options_.output, "Folder for the result files", {"--output_path"}),
        Group::kOutput,
        Choice("--format -f", "LIST", &formats_, {"xlsx", "csv", "json", "html"},
               "Comma-separated list of result files to write; html is a page for browsers",
               kSeparatedByCommas, Default{"xlsx"}, kPython26, FromProject{"formats"}),
        Choice("--lang", "NAME", &options_.language,
               {{"zh", rl::Language::kChinese}, {"en", rl::Language::kEnglish}},
               "Language of the column names", FromProject{"lang"}),
        OpenFlag(answer_),
        ForceFlag(),
        ThreadsFlag(options_.threads),
        AnswerRows(answer_, rl::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    constexpr NeededUnless kOtherWays{"--first --second"};
    return {Argument("RUN", &run_, "Folder of the test run", kOtherWays),
            Argument("REFERENCE", &reference_, "Folder of the reference run", kOtherWays,
                     FromProject{"reference", ProjectScope::kOwnTable})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe rl_compare run_a run_b -o result",
         "one workbook per key: response, reward, log_prob, ..."},
        {"msprobe rl_compare run_a run_b -f csv --lang en", "csv files with English column names"},
        {"msprobe rl_compare run_a run_b --fail-on different",
         "in CI: exit code 1 if anything differs"},
        {"msprobe rl_compare run run --tokens rollout_log_prob=old_log_prob --mask response_mask",
         "how much rollout and trainer of one run differ, and at which tokens"},
    };
  }

  std::string notes() const override { return kRlCompareNotes + FailOnHelp(rl::kGateLevels); }

  Result<ExitCode> Run(const Context& context) override {
    MSP_RETURN_IF_ERROR(CheckSides());
    for (const std::filesystem::path& run : {options_.first, options_.second}) {
      if (!base::Exists(run)) {
        return NotFoundError(fmt::format("{} does not exist", run.string()));
      }
    }
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
    MSP_RETURN_IF_ERROR(ReadTokenKeys());
    if (answer_.open && !base::IsOneOf("html", formats_)) {
      if (formats_.empty()) {
        formats_.emplace_back("xlsx");
      }
      formats_.emplace_back("html");
    }
    OwnForms own;
    if (!formats_.empty()) {
      options_.formats.clear();
      for (const std::string& format : formats_) {
        if (format == "html") {
          own.page = options_.output / "rl_compare.html";
          MSP_RETURN_IF_ERROR(CheckPage(own.page));
          continue;
        }
        options_.formats.push_back(format == "csv"    ? rl::FileFormat::kCsv
                                   : format == "json" ? rl::FileFormat::kJson
                                                      : rl::FileFormat::kXlsx);
      }
    }
    options_.quiet = context.quiet;
    MSP_ASSIGN_OR_RETURN(const rl::Comparison comparison, rl::Run(options_));
    return EmitReport(rl::MakeDocument(comparison), answer_, context, own);
  }

 private:
  Status CheckSides() {
    const bool named = !run_.empty();
    if (named && (!options_.first.empty() || !options_.second.empty())) {
      return UsageError("the runs are given in more than one way")
          .WithHint("msprobe rl_compare RUN REFERENCE, or -a RUN -b REFERENCE");
    }
    if (named) {
      options_.first = run_;
      options_.second = reference_;
    }
    if (options_.first.empty() || options_.second.empty()) {
      return MissingArgument("msprobe rl_compare",
                             options_.first.empty() ? "-a RUN" : "-b REFERENCE");
    }
    return {};
  }

  Status ReadTokenKeys() {
    for (const std::string& text : token_keys_) {
      const size_t equals = text.find('=');
      rl::TokenKey key;
      key.first = text.substr(0, equals);
      key.second = equals == std::string::npos ? text : text.substr(equals + 1);
      if (key.first.empty() || key.second.empty()) {
        return UsageError(fmt::format("--tokens {}: a key is missing", base::Printable(text)))
            .WithHint("give KEY, or KEY=KEY_OF_B");
      }
      options_.tokens.keys.push_back(std::move(key));
    }
    return {};
  }

  std::filesystem::path run_;
  std::filesystem::path reference_;
  analysis::rl::Options options_;
  std::vector<std::string> formats_;
  std::vector<std::string> token_keys_;  // KEY or KEY=KEY_OF_B
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeGradCompare() { return std::make_unique<GradCompareCommand>(); }
std::unique_ptr<Command> MakeRlCompare() { return std::make_unique<RlCompareCommand>(); }

}  // namespace msprobe::commands
