#include "src/commands/monitor_diff_command.h"

#include <algorithm>
#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "src/base/log.h"
#include "src/base/strings.h"
#include "src/commands/common_flags.h"
#include "src/commands/print.h"

namespace msprobe::commands {
namespace {

constexpr const char* kExamples = R"(Examples:
  msprobe monitor diff before/monitor_output after/monitor_output
      one line per table and statistic, and what parted first
  msprobe monitor diff gpu npu --rtol 0.05 --tables actv,grad_reduced --ops norm
      norms only, up to 5 percent apart
  msprobe monitor diff one_rank eight_ranks --format json
      different numbers of ranks: norms of shards are put together; JSON for programs
  msprobe monitor diff before after --fail-on different -q
      in CI: exit code 1 when they part

Two numbers part when |A - B| > atol + rtol * max(|A|, |B|); NaN parts from everything but NaN.)";

std::string Where(const monitor::Parting& parting) {
  std::string text = base::Printable(parting.name);
  if (parting.stage != 0) {
    text += fmt::format(" (stage {})", parting.stage);
  }
  if (parting.micro_step > 0) {
    text += fmt::format(" micro step {}", parting.micro_step);
  }
  if (parting.rank >= 0) {
    text += fmt::format(" rank {}", parting.rank);
  }
  return text;
}

std::string Percent(double relative) {
  return std::isfinite(relative) ? fmt::format("{:.3g} %", relative * 100) : "not finite";
}

// One line for runs that do not part.
std::string Agreement(const monitor::DiffResult& result) {
  uint64_t compared = 0;
  uint64_t unequal = 0;
  uint64_t nan = 0;
  for (const monitor::DiffLine& line : result.lines) {
    compared += line.compared;
    unequal += line.unequal;
    nan += line.nan;
  }
  const std::string all = fmt::format("{} of {}", base::Plural(compared, "value"),
                                      base::Plural(result.lines.size(), "statistic"));
  const bool whole = result.only_a + result.only_b == 0;
  std::string text =
      unequal > 0 ? fmt::format("CLOSE: all {} agree within the tolerance, {} of them not exactly",
                                all, base::FormatCount(unequal))
                  : fmt::format("{}: all {} are equal", whole ? "IDENTICAL" : "EQUAL IN PART", all);
  if (nan > 0) {
    text += fmt::format(", but {} NaN in both runs",
                        nan == 1 ? "1 is" : base::FormatCount(nan) + " are");
  }
  return text + "\n";
}

std::string Unmatched(const monitor::DiffResult& result) {
  std::string text;
  if (result.only_a + result.only_b > 0) {
    text += fmt::format("\nwithout a partner: {} of the first run, {} of the second\n",
                        base::Plural(result.only_a, "row"), base::Plural(result.only_b, "row"));
  }
  for (const std::string& note : result.notes) {
    text += note + "\n";
  }
  return text;
}

std::string Text(const monitor::DiffResult& result) {
  std::string text;
  if (result.reduced) {
    text += fmt::format("ranks: {} against {}; values of all ranks are made one\n", result.ranks_a,
                        result.ranks_b);
  }
  if (const monitor::DiffLine* const first = result.first()) {
    const monitor::Parting& at = *first->first;
    text +=
        fmt::format("The runs part at step {}: {} of {} {}: {:.6g} against {:.6g}, {} apart\n\n",
                    at.step, first->op, first->table, Where(at), at.a, at.b, Percent(at.relative));
  } else {
    text += Agreement(result);
  }
  if (result.first() == nullptr) {
    return text + Unmatched(result);
  }
  size_t table_width = 14;
  size_t op_width = 11;
  for (const monitor::DiffLine& line : result.lines) {
    table_width = std::max(table_width, base::Printable(line.table).size());
    op_width = std::max(op_width, base::Printable(line.op).size());
  }
  text += fmt::format("{:<{}} {:<{}}{:>11}{:>11}{:>8}  {}\n", "table", table_width, "statistic",
                      op_width, "compared", "parted", "step", "first, and how far at most");
  for (const monitor::DiffLine& line : result.lines) {
    text += fmt::format("{:<{}} {:<{}}{:>11}{:>11}", base::Printable(line.table), table_width,
                        base::Printable(line.op), op_width, line.compared, line.parted);
    text += line.first.has_value() ? fmt::format("{:>8}  {}, {}\n", line.first->step,
                                                 Where(*line.first), Percent(line.worst->relative))
                                   : fmt::format("{:>8}\n", "-");
  }
  return text + Unmatched(result);
}

}  // namespace

void MonitorDiffCommand::Configure(CLI::App& app) {
  app.add_option("run_a", options_.a,
                 "A monitored run: folders <stamp>-rank<R>-<id>, or one of them")
      ->type_name("RUN_A")
      ->required();
  app.add_option("run_b", options_.b, "The run to hold against it")->type_name("RUN_B")->required();
  app.add_option("--rtol", options_.rtol, "Relative difference that is allowed (default 0.001)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--atol", options_.atol, "Absolute difference that is allowed (default 0.00001)")
      ->type_name("X")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tables,--data_type_list", options_.tables, "Only these tables")
      ->type_name("LIST")
      ->delimiter(',');
  app.add_option("--ops", options_.ops, "Only these statistics")->type_name("LIST")->delimiter(',');
  app.add_flag("--reduce", options_.reduce,
               "Make the values of all ranks one, also where both runs have the same ranks");
  app.add_option("--format", format_, "table or json")
      ->type_name("NAME")
      ->check(CLI::IsMember({"table", "json"}));
  app.add_option("--fail-on", fail_on_, "Exit code 1 when the runs part (different)")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"different"}));
  AddThreadsFlag(app, options_.threads);
  app.footer(kExamples);
}

Result<ExitCode> MonitorDiffCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const monitor::DiffResult result, monitor::DiffRuns(options_));
  for (const std::string& warning : result.warnings) {
    base::LogWarning(warning);
  }
  if (format_ == "json") {
    MSP_RETURN_IF_ERROR(Print(DiffJson(options_, result)));
  } else if (!context.quiet) {
    MSP_RETURN_IF_ERROR(Print(Text(result)));
  }
  return !fail_on_.empty() && result.first() != nullptr ? ExitCode::kFindings : ExitCode::kDone;
}

}  // namespace msprobe::commands
