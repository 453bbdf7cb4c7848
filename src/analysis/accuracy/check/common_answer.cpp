#include "src/analysis/accuracy/check/common_answer.h"

#include <fmt/format.h>

namespace msprobe::analysis::accuracy {

void MarkFailed(Outcome outcome, std::string_view skipped, std::string_view differs,
                report::TestCase& test) {
  test.outcome = report::CaseOutcome::kFailed;
  test.level = outcome == Outcome::kSkip    ? "skip"
               : outcome == Outcome::kError ? "error"
                                            : "warning";
  test.type = outcome == Outcome::kSkip ? skipped : differs;
}

std::string RestartWarning(uint64_t restarts) {
  return fmt::format("a worker had to be started again {} because of an operator; its row says why",
                     restarts == 1 ? "once" : fmt::format("{} times", restarts));
}

}  // namespace msprobe::analysis::accuracy
