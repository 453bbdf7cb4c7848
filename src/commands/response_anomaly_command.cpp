// msprobe response_anomaly: responses of a language model that went wrong.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/response_anomaly/judge.h"
#include "src/analysis/response_anomaly/response_anomaly.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/report/writers.h"

namespace msprobe::commands {
namespace {

namespace anomaly = analysis::response_anomaly;

constexpr const char* kResponseAnomalyNotes =
    R"(REQUESTS holds a JSON object per line: {"name": ..., "model": ..., "tokens": [id, ...],
"topk_logprobs": [[[id, logprob], ...], ...]}, a list of candidates for every token.

)";

class ResponseAnomalyCommand final : public Command {
 public:
  ResponseAnomalyCommand()
      : Command(
            "response_anomaly",
            "Find garbled, repetitive and NaN responses by the log-probabilities of their tokens") {
  }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--input -i", "FILE", &options_.input,
             "File with a request per line, instead of REQUESTS", kStreams),
        Path("--models", "FILE", &options_.models,
             "Known models, JSON: {\"name\": {\"eos\": id or [id, ...]}}"),
        Path("--categories", "DIR", &options_.categories,
             "Categories of the tokens of a model, a file <name>_<vocabulary size>.json each",
             Needs{"--models"}),
        Group::kMethod,
        Path("--config", "FILE", &options_.config, "Windows and thresholds, YAML"),
        Group::kOutput,
        Switch("--lines", &lines_,
               "Print a JSON object per request as soon as it is judged; the answer goes to stderr",
               Excludes{"--json"}),
        OutputFolderFlag(output_, "Folder for the result files", {}),
        FormatsFlag(formats_, {"csv", "jsonl", "html"}, "csv"),
        ForceFlag(),
        AnswerRows(answer_, anomaly::kGateLevels),
    };
  }

  std::vector<Positional> positionals() override {
    return {Argument("REQUESTS", &options_.input,
                     "File with a request per line; -: the standard input, judged as it comes",
                     OrFlag{"--input"}, kStreams)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe response_anomaly requests.jsonl", "which responses are ill, and of what"},
        {"msprobe response_anomaly requests.jsonl --models models.json --categories "
         "token_categories",
         "the same, with the categories of the tokens"},
        {"tail -f requests.jsonl | msprobe response_anomaly -i - --lines",
         "beside a running service: an answer per request"},
        {"msprobe response_anomaly requests.jsonl -o result --fail-on ill",
         "in CI: exit code 1 if a response is ill"},
    };
  }

  std::string notes() const override {
    return kResponseAnomalyNotes + FailOnHelp(anomaly::kGateLevels);
  }

  Result<ExitCode> Run(const Context& context) override {
    OwnForms own;
    own.to_stderr = lines_;
    MSP_RETURN_IF_ERROR(CheckResults(context, own));
    if (!options_.categories.empty() && !base::IsFolder(options_.categories)) {
      return NotFoundError(fmt::format("{} is not a folder", options_.categories.string()));
    }
    if (!output_.empty()) {
      MSP_RETURN_IF_ERROR(base::CreateFolders(output_));
    }
    const base::Stopwatch watch;
    anomaly::OnRow on_row;
    if (lines_) {
      on_row = [](const anomaly::Row& row) -> Status {
        report::Table table = anomaly::NewTable();
        anomaly::AddRow(row, table);
        MSP_RETURN_IF_ERROR(PrintUntrusted(report::JsonLinesText(table)));
        return std::fflush(stdout) == 0 ? Status() : IoError("cannot write to the standard output");
      };
    }
    MSP_ASSIGN_OR_RETURN(const anomaly::Findings findings, anomaly::Run(options_, on_row));
    report::Document document = anomaly::MakeDocument(findings);
    document.seconds = watch.seconds();
    return EmitReport(std::move(document), answer_, context, own);
  }

 private:
  // A row per request goes to <output>/response_anomaly.csv or .jsonl, the page beside them.
  Status CheckResults(const Context& context, OwnForms& own) {
    if (output_.empty()) {
      return context.Typed("--format")
                 ? UsageError("--format is given, but no folder for the files")
                       .WithHint("give -o DIR as well")
                 : Status();
    }
    MSP_RETURN_IF_ERROR(base::CheckOutputFolder(output_));
    for (const std::string& format :
         formats_.empty() ? std::vector<std::string>{"csv"} : formats_) {
      const std::filesystem::path file = output_ / ("response_anomaly." + format);
      if (format == "html") {
        own.page = file;
        MSP_RETURN_IF_ERROR(CheckPage(file));
      } else {
        MSP_RETURN_IF_ERROR(base::CheckOutputFile(file));
        options_.row_files.push_back(file);
      }
    }
    return {};
  }

  analysis::response_anomaly::Options options_;
  std::filesystem::path output_;
  std::vector<std::string> formats_;  // empty: csv
  bool lines_ = false;
  AnswerFlags answer_;
};

}  // namespace

std::unique_ptr<Command> MakeResponseAnomaly() {
  return std::make_unique<ResponseAnomalyCommand>();
}

}  // namespace msprobe::commands
