#include "src/commands/nan_analyze_command.h"

#include <chrono>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/analysis/nan/answer.h"
#include "src/analysis/nan/result_files.h"
#include "src/base/output_rule.h"
#include "src/commands/common_flags.h"
#include "src/report/answer_page.h"

namespace msprobe::commands {
namespace {

namespace nan = analysis::nan;

constexpr const char* kExamples = R"(Examples:
  msprobe nan_analyze -i dump/step0
      the operator that made the first NaN or infinity, and how it spread over the ranks
  msprobe nan_analyze --all-steps dump
      the first bad step of all that were dumped
  msprobe nan_analyze -i dump/step0 --topk 5 --graph -o result
      five origins, and the propagation as a graph
  msprobe nan_analyze -i dump/step0 --fail-on origin
      in CI: exit code 1 when an operator made one

Needs a dump of level L0, L1 or mix with statistics. Attention masks of -inf are not taken for origins.

)";

}  // namespace

std::string_view NanAnalyzeCommand::summary() const {
  return name_ == "nan_analyze" ? "Find the operator that made the first NaN or infinity."
                                : "The same as nan_analyze.";
}

void NanAnalyzeCommand::Configure(CLI::App& app) {
  app.add_option("-i,--input_path", options_.input,
                 "Folder of one step of the dump, with a rank<N> folder per rank")
      ->type_name("STEP_DIR");
  AddOutputFlag(app, output_, "Folder for the result files; made only when there is a result");
  app.add_option("--all-steps", all_steps_,
                 "Instead of -i: search every step<N> of this folder up to the first bad one")
      ->type_name("DUMP_DIR");
  app.add_option("--format", format_,
                 "What to print: text (default), json or md; html: text, and a page for browsers")
      ->type_name("NAME")
      ->check(CLI::IsMember({"text", "json", "md", "html"}));
  app.add_option("--topk", options_.top, "Describe this many origins in order (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--graph", options_.graph,
               "Also write how it spread as a graph, in JSON and for Mermaid");
  app.add_flag("--mask-aware,!--no-mask-aware", options_.mask_aware,
               "Masks of -inf and constants that were asked for are no origins (default: on)");
  app.add_option("--threshold", options_.threshold, "Values beyond this magnitude are bad, too")
      ->type_name("T")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--levels", options_.levels,
               "Also judge every operator by itself: critical, high, medium");
  AddAnswerFlags(app, answer_, nan::kGateLevels);
  AddThreadsFlag(app, options_.threads);
  AddForceFlag(app);
  app.footer(kExamples + FailOnHelp(nan::kGateLevels));
}

std::filesystem::path NanAnalyzeCommand::PagePath(const report::Document& document) const {
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::filesystem::path page = document.files.empty()
                                   ? options_.output / fmt::format("anomaly_analyze_{}", now)
                                   : document.files[0].path;
  return page.replace_extension(".html");
}

Status NanAnalyzeCommand::CheckFlags() {
  if (options_.input.empty() == all_steps_.empty()) {
    return UsageError(all_steps_.empty() ? "nothing to search"
                                         : "-i and --all-steps exclude each other")
        .WithHint("msprobe nan_analyze -i dump/step0, or --all-steps dump");
  }
  if (!all_steps_.empty()) {
    options_.all_steps = true;
    options_.input = all_steps_;
  }
  if (!output_.empty()) {
    options_.output = output_;
  }
  return base::CheckOutputFolder(options_.output);
}

Result<ExitCode> NanAnalyzeCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckFlags());
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  options_.quiet = context.quiet || format_ == "json" || format_ == "md" || answer_.json;
  if (format_ == "html") {
    MSP_RETURN_IF_ERROR(report::AnswerPage::Available());
  }
  MSP_ASSIGN_OR_RETURN(const nan::Answer answer, nan::Analyze(options_));
  report::Document document = nan::MakeDocument(answer, options_.levels);
  document.command = name_;
  OwnForms own;
  if (format_ == "json") {
    own.instead = nan::AnswerJson(answer, static_cast<int>(ExitCodeOf(document, answer_)));
  } else if (format_ == "md") {
    own.instead = nan::MarkdownAnswer(answer);
  } else if (format_ == "html") {
    own.page = PagePath(document);
  }
  return GiveAnswer(std::move(document), answer_, context, own);
}

}  // namespace msprobe::commands
