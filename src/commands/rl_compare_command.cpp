#include "src/commands/rl_compare_command.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/analysis/rl/answer.h"
#include "src/base/output_rule.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"

namespace msprobe::commands {
namespace {

namespace rl = analysis::rl;

constexpr const char* kExamples = R"(Examples:
  msprobe rl_compare -a run_a -b run_b -o result
      one workbook per key: response, reward, log_prob, ...
  msprobe rl_compare -a run_a -b run_b -f csv --lang en
      csv files with English column names
  msprobe rl_compare -a run_a -b run_b --fail-on different
      in CI: exit code 1 when anything differs
  msprobe rl_compare -a run -b run --tokens rollout_log_prob=old_log_prob --mask response_mask
      by how much rollout and trainer of one run disagree, and at which tokens

The folders are those given to SingleSave of msprobe.core.

)";

}  // namespace

void RlCompareCommand::Configure(CLI::App& app) {
  app.add_option("-a,--first", options_.first, "Folder of the first run")
      ->type_name("DIR")
      ->required();
  app.add_option("-b,--second", options_.second, "Folder of the second run")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--output_path", options_.output,
                 "Folder for the result files (default: ./msprobe_compare_output)")
      ->type_name("DIR");
  app.add_option(
         "-f,--format", formats_,
         "Result files: xlsx (default), csv, json, html (a page for browsers); several with "
         "commas")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(CLI::IsMember({"xlsx", "csv", "json", "html"}));
  app.add_option("--lang", language_, "Language of the column names: zh (default) or en")
      ->type_name("NAME")
      ->check(CLI::IsMember({"zh", "en"}));
  CLI::Option* compat = app.add_flag(
      "--compat", options_.compat,
      "Columns, rows and values of the Python tool: NaN equals nothing, members of a dict "
      "share id 0, what has no partner is left out");
  AddAnswerFlags(app, answer_, rl::kGateLevels);
  CLI::Option* tokens =
      app.add_option("--tokens", token_keys_,
                     "Compare the log-probabilities of KEY token by token, with those of KEY_OF_B "
                     "of the second run if it is another key; may be repeated")
          ->type_name("KEY[=KEY_OF_B]")
          ->allow_extra_args(false)
          ->excludes(compat);
  app.add_option("--mask", options_.tokens.mask,
                 "Key of the first run, of the tokens' shape: 0 where a token does not count")
      ->type_name("KEY")
      ->needs(tokens);
  app.add_option("--ids", options_.tokens.ids,
                 "Key of the first run, of the tokens' shape: the ids of the tokens")
      ->type_name("KEY")
      ->needs(tokens);
  app.add_option("--worst", options_.tokens.worst, "Tokens to list per key (default: 20)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->needs(tokens);
  AddForceFlag(app);
  AddThreadsFlag(app, options_.threads);
  app.footer(kExamples + FailOnHelp(rl::kGateLevels));
}

Status RlCompareCommand::ReadTokenKeys() {
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

Result<ExitCode> RlCompareCommand::Run(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckAnswerFlags(answer_));
  std::error_code error;
  for (const std::filesystem::path* folder : {&options_.first, &options_.second}) {
    if (!std::filesystem::is_directory(*folder, error)) {
      return NotFoundError(fmt::format("{} is not a folder", folder->string()));
    }
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(options_.output));
  MSP_RETURN_IF_ERROR(ReadTokenKeys());
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
  options_.language = language_ == "en" ? rl::Language::kEnglish : rl::Language::kChinese;
  options_.quiet = context.quiet;
  MSP_ASSIGN_OR_RETURN(const rl::Comparison comparison, rl::Compare(options_));
  return GiveAnswer(rl::MakeDocument(comparison), answer_, context, own);
}

}  // namespace msprobe::commands
