#include "src/analysis/repro/document.h"

#include <fmt/format.h>

#include "src/analysis/repro/readme.h"
#include "src/base/strings.h"

namespace msprobe::analysis::repro {
namespace {

using report::Item;
using report::List;
using report::ListKind;
using report::Section;

constexpr size_t kBriefSteps = 12;

Section CallSection(const Answer& answer) {
  List list{ListKind::kFacts, {}};
  list.items.push_back({"call", base::Printable(answer.call)});
  list.items.push_back({"recheck", "it " + VerdictSentence(answer.verdict)});
  Item tensors{"tensors", base::Plural(answer.elements, "element")};
  tensors.number = static_cast<double>(answer.elements);
  for (const std::string& tensor : answer.tensors) {
    tensors.details.push_back({"", tensor});
  }
  list.items.push_back(std::move(tensors));
  Section section{"The call", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section MinimisedSection(const Minimised& minimised) {
  Section section{"Made smaller", {}};
  List facts{ListKind::kFacts, {}};
  facts.items.push_back(
      {"elements", fmt::format("{} to {}", base::FormatCount(minimised.elements_before),
                               base::FormatCount(minimised.elements_after))});
  facts.items.back().number = static_cast<double>(minimised.elements_after);
  facts.items.push_back(
      {"attempts",
       fmt::format("{}{}", base::FormatCount(minimised.attempts),
                   minimised.ran_out ? ": all that were allowed, more may be possible" : "")});
  facts.items.back().number = static_cast<double>(minimised.attempts);
  facts.items.push_back({"stays", minimised.kept.empty() ? "one element of each tensor"
                                                         : base::Join(minimised.kept, ", ")});
  section.blocks.emplace_back(std::move(facts));
  List steps{ListKind::kBullets, {}, {kBriefSteps}};
  for (const std::string& step : minimised.steps) {
    steps.items.push_back({"", step});
  }
  section.blocks.emplace_back(std::move(steps));
  return section;
}

}  // namespace

report::Document MakeDocument(const Answer& answer) {
  report::Document document;
  document.command = "repro";
  document.verdict.word = "WRITTEN";
  document.verdict.text =
      fmt::format("WRITTEN: {} alone, to {}", base::Printable(answer.call), answer.folder.string());
  document.verdict.tone = report::Tone::kStrong;
  document.verdict.unit = "elements";
  document.verdict.number = static_cast<double>(answer.elements);
  document.sections.push_back(CallSection(answer));
  if (answer.minimised) {
    document.sections.push_back(MinimisedSection(*answer.minimised));
  }
  document.warnings = answer.warnings;
  if (!answer.no_minimum.empty()) {
    document.warnings.push_back("not made smaller: " + base::Printable(answer.no_minimum));
  }
  if (answer.no_script.empty()) {
    document.next.push_back(
        fmt::format("python3 {} --device cpu makes the call again; copy the folder "
                    "to the machine that computed it and run it there.",
                    (answer.folder / "run.py").string()));
  } else {
    document.warnings.push_back("no script for PyTorch: " + base::Printable(answer.no_script));
  }
  for (const std::filesystem::path& file : answer.files) {
    document.files.push_back({file});
  }
  document.seconds = answer.seconds;
  document.deed = "written";
  return document;
}

}  // namespace msprobe::analysis::repro
