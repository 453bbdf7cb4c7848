#include "src/analysis/config_check/collect_screen.h"

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/report/screen.h"

namespace msprobe::analysis::config_check {

using base::Plural;

std::string CollectScreen(const CollectSummary& summary, size_t width, bool color) {
  report::Screen screen(width, color);
  screen.Line(summary.complete ? report::Ink::kGreen : report::Ink::kYellow,
              summary.complete ? "COLLECTED" : "COLLECTED IN PART: an input could not be read");
  screen.Item("environment",
              summary.masked == 0
                  ? Plural(summary.variables, "variable")
                  : fmt::format("{}, {} with a secret masked",
                                Plural(summary.variables, "variable"), summary.masked));
  screen.Item("packages", summary.interpreter.empty()
                              ? "none: no Python interpreter was found"
                              : fmt::format("{} of {}", Plural(summary.packages, "package"),
                                            base::Printable(summary.interpreter)));
  if (!summary.versions.empty()) {
    screen.Item("versions", base::Printable(base::Join(summary.versions, ", ")));
  }
  for (const CollectedInput& input : summary.inputs) {
    screen.Item("script",
                fmt::format("{}: {}", base::Printable(input.path.string()),
                            input.problem.empty() ? Plural(input.parameters, "hyperparameter")
                                                  : base::Printable(input.problem)));
  }
  screen.Heading("Pack");
  screen.Raw(fmt::format("  {}\n", base::Printable(summary.output.string())));
  return screen.Take();
}

}  // namespace msprobe::analysis::config_check
