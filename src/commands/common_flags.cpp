#include "src/commands/common_flags.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/output_rule.h"
#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

struct LegacyFlag {
  std::string_view spelled;
  std::string_view long_form;
};
constexpr LegacyFlag kLegacyFlags[] = {
    {"-cm", "--cell_mapping"},
    {"-am", "--api_mapping"},
    {"-dm", "--data_mapping"},
    {"-lm", "--layer_mapping"},
    {"-config", "--config-path"},
    {"-tp", "--target_path"},
    {"-gp", "--golden_path"},
    {"-fm", "--fuzzy_match"},
    {"-bp", "--benchmark_profiling_path"},
    {"-da", "--diff_analyze"},
    {"-tensor_log", "--is_print_compare_log"},
    {"-vc", "--verl_compare"},
    {"-vv", "--verl_verify"},
};

}  // namespace

void AddThreadsFlag(CLI::App& app, size_t& threads) {
  app.add_option("--threads", threads,
                 "Threads to work with (default: all cores; results do not depend on it)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
}

void AddOutputFlag(CLI::App& app, std::filesystem::path& folder, const std::string& description) {
  app.add_option("-o,--output_path", folder, description + " (default: ./output)")
      ->type_name("DIR")
      ->expected(0, 1)
      ->default_str("");
}

void AddForceFlag(CLI::App& app) {
  app.add_flag_callback(
      "--force", [] { base::SetExistingFiles(base::Existing::kReplace); },
      "Replace result files that exist; without it they are refused");
}

void AddFormatFlag(CLI::App& app, std::vector<std::string>& formats,
                   const std::vector<std::string>& known) {
  app.add_option("--format", formats,
                 "Result files to write: " + base::Join(known, ", ") + "; several with commas")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(CLI::IsMember(known));
}

std::vector<std::string> NormalizeLegacyFlags(std::vector<std::string> arguments) {
  // The first argument that is neither a flag nor the value of -f/--framework is the subcommand.
  size_t behind = 0;
  while (behind < arguments.size() && arguments[behind].starts_with('-')) {
    behind += arguments[behind] == "-f" || arguments[behind] == "--framework" ? 2 : 1;
  }
  for (size_t i = std::min(behind, arguments.size()); i < arguments.size() && arguments[i] != "--";
       ++i) {
    for (const LegacyFlag& flag : kLegacyFlags) {
      if (arguments[i] == flag.spelled) {
        arguments[i] = flag.long_form;
      } else if (arguments[i].starts_with(std::string(flag.spelled) + "=")) {
        arguments[i].replace(0, flag.spelled.size(), flag.long_form);
      }
    }
  }
  return arguments;
}

}  // namespace msprobe::commands
