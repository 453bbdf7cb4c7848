#include "src/analysis/repro/readme.h"

#include <cmath>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::analysis::repro {

std::string VerdictSentence(const recheck::CallVerdict& verdict) {
  switch (verdict.verdict) {
    case recheck::Verdict::kWithin:
      return "is within its error bound";
    case recheck::Verdict::kNotCheckable:
      return fmt::format("cannot be rechecked: {}", base::Printable(verdict.reason));
    case recheck::Verdict::kBeyond:
      break;
  }
  const recheck::Judgement& worst = *verdict.worst();
  if (!worst.reason.empty()) {
    return fmt::format("is wrong in {}: {}", base::Printable(worst.tensor), worst.reason);
  }
  const std::string off =
      std::isinf(verdict.ratio)
          ? "is off where no error is allowed"
          : fmt::format("is off by {:.3g} times its error bound", verdict.ratio);
  return fmt::format("{}: {} {} is {:.9g}, exactly {:.9g}", off, base::Printable(worst.tensor),
                     worst.element, worst.captured, worst.exact);
}

std::string MakeReadme(const Answer& answer) {
  const std::string name = base::Printable(answer.call);
  std::string text = fmt::format("# {}\n\nOne call, as it was captured. It {}.\n\n", name,
                                 VerdictSentence(answer.verdict));
  text += answer.no_script.empty()
              ? "    python3 run.py --device cpu     makes the call again under PyTorch (cuda, "
                "npu), and "
                "compares with the capture;\n"
                "                                    -o FOLDER writes what it computed as a dump" +
                    std::string(dump::ParseEntryName(answer.call).is_module
                                    ? ";\n                                    --module "
                                      "FILE.py:FUNCTION makes the module where its class is not "
                                      "known\n"
                                    : "\n")
              : fmt::format("There is no script for PyTorch: {}.\n\n",
                            base::Printable(answer.no_script));
  text +=
      "    sh recheck.sh                   recomputes it in float64 and judges the capture "
      "(needs msprobe)\n\nTensors:\n\n";
  for (const std::string& tensor : answer.tensors) {
    text += fmt::format("- {}\n", tensor);
  }
  if (answer.minimised) {
    text += fmt::format("\nMade smaller from {} to {} elements, by:\n\n",
                        base::FormatCount(answer.minimised->elements_before),
                        base::FormatCount(answer.minimised->elements_after));
    for (const std::string& step : answer.minimised->steps) {
      text += fmt::format("- {}\n", step);
    }
  }
  return text;
}

}  // namespace msprobe::analysis::repro
