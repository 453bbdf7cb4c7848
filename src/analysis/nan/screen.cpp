#include "src/analysis/nan/screen.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/nan/explain.h"
#include "src/base/strings.h"
#include "src/report/screen.h"

namespace msprobe::analysis::nan {
namespace {

using report::Ink;
using report::Screen;

constexpr size_t kValues = 8;
constexpr size_t kFrames = 4;
constexpr size_t kChainLines = 12;
constexpr size_t kConsequences = 8;
constexpr size_t kWarnings = 8;

std::string OperatorLine(const StepAnswer& answer, const Consequence& one) {
  const RankDump& rank = answer.ranks[one.rank_place];
  const Operator& at = rank.operators[one.operator_place];
  return fmt::format("rank {:<4} {}  ({} -> {})", rank.rank, base::Printable(at.name),
                     BadnessText(at.input), BadnessText(at.output));
}

// As an item, but wrapped instead of cut: the line of code is what people came for.
void PutWrapped(Screen& screen, std::string_view label, std::string_view text) {
  screen.Labelled(fmt::format("  {:<12}", label), text, 15);
}

void PutFinding(Screen& screen, const StepAnswer& answer, const Finding& finding) {
  const auto rank = std::find_if(answer.ranks.begin(), answer.ranks.end(),
                                 [&](const RankDump& one) { return one.rank == finding.rank; });
  screen.Heading(fmt::format("rank {}  {}", finding.rank, base::Printable(finding.name)));
  screen.Item(
      IsWeak(finding.kind) ? "bad" : "made",
      fmt::format("{}: {}", BadnessText(finding.made), internal::KindSentence(finding.kind)));
  if (!finding.note.empty()) {
    PutWrapped(screen, "note", finding.note);
  }
  screen.Item("place",
              fmt::format("operator {} of {} on its rank", base::FormatCount(finding.index + 1),
                          base::FormatCount(rank->operator_count)));
  const bool of_forward = finding.stack.empty() && !finding.forward_stack.empty();
  const std::vector<std::string> frames =
      internal::OwnFrames(of_forward ? finding.forward_stack : finding.stack);
  for (size_t i = 0; i < std::min(frames.size(), kFrames); ++i) {
    PutWrapped(screen,
               i > 0        ? ""
               : of_forward ? "forward at"
                            : "code",
               internal::FrameLine(frames[i]));
  }
  if (finding.modules.size() > 1) {
    screen.Item("module", base::Printable(finding.modules[finding.modules.size() - 2]));
  }
  const std::vector<internal::ValueLine> values = internal::ValueLines(finding.entry, kValues);
  size_t width = 0;
  for (const internal::ValueLine& value : values) {
    width = std::max(width, value.name.size());
  }
  for (const internal::ValueLine& value : values) {
    const std::string line = fmt::format("    {:<{}}  {}", value.name, width, value.text);
    if (value.badness != 0) {
      screen.Line(Ink::kRed, line);
    } else {
      screen.Line(line);
    }
  }
}

void PutChain(Screen& screen, const StepAnswer& answer) {
  const std::vector<internal::ChainLine> chain = internal::ChainLines(answer);
  if (!chain.empty()) {
    screen.Heading(fmt::format("How it spread: {} of {}",
                               base::Plural(answer.propagation.reached_ranks, "rank"),
                               base::FormatCount(answer.ranks.size())));
    for (size_t i = 0; i < std::min(chain.size(), kChainLines); ++i) {
      const internal::ChainLine& line = chain[i];
      screen.Line(fmt::format("  rank {:<4} {} -> {}{}", line.from_rank, line.from_name,
                              internal::RankList(line.to_ranks),
                              line.to_name == line.from_name ? "" : " by " + line.to_name));
    }
    if (chain.size() > kChainLines) {
      screen.Line(fmt::format("  and {}", base::Plural(chain.size() - kChainLines, "more step")));
    }
  }
  const std::vector<Consequence>& consequences = answer.propagation.consequences;
  if (!consequences.empty()) {
    screen.Heading(fmt::format("First consequences, of {}",
                               base::Plural(answer.propagation.affected_operators, "operator")));
    for (size_t i = 0; i < std::min(consequences.size(), kConsequences); ++i) {
      screen.Line("  " + OperatorLine(answer, consequences[i]));
    }
  }
  if (!answer.propagation.backward.empty()) {
    screen.Line(fmt::format("  first bad gradient: {}",
                            OperatorLine(answer, answer.propagation.backward.front())));
  }
}

void PutLevels(Screen& screen, const StepAnswer& answer) {
  screen.Heading("Levels, each operator by itself");
  for (const Level level : {Level::kCritical, Level::kHigh, Level::kMedium}) {
    const auto first = std::find_if(answer.levels.findings.begin(), answer.levels.findings.end(),
                                    [&](const LevelFinding& one) { return one.level == level; });
    std::string text = base::FormatCount(answer.levels.counts[static_cast<size_t>(level)]);
    if (first != answer.levels.findings.end()) {
      text += fmt::format(", first: rank {} {} ({})", first->rank, base::Printable(first->name),
                          SceneName(first->scene));
    }
    screen.Item(LevelName(level), text);
  }
}

void PutFooter(Screen& screen, const StepAnswer& answer) {
  if (answer.operator_count > 0) {
    screen.Blank();
    screen.Line(fmt::format(
        "{} of {}, {} in {}; {} matched, {} without a partner",
        base::Plural(answer.operator_count, "operator"), base::Plural(answer.ranks.size(), "rank"),
        base::FormatBytes(answer.size_bytes), base::FormatSeconds(answer.seconds),
        base::Plural(answer.search.matched_events, "communication"),
        base::FormatCount(answer.search.unmatched_calls)));
  }
  // Paths are for copying: never cut.
  for (const std::filesystem::path& file : answer.files) {
    screen.Raw(fmt::format("result: {}\n", base::Printable(file.string())));
  }
}

}  // namespace

std::string ScreenAnswer(const Answer& whole, const ScreenOptions& options) {
  const StepAnswer& answer = whole.step;
  Screen screen(options.width, options.color);
  const Ink ink = answer.outcome == Outcome::kGood ? Ink::kGreen
                  : answer.outcome == Outcome::kEntered || answer.outcome == Outcome::kPartial
                      ? Ink::kYellow
                      : Ink::kRed;
  screen.Line(ink, internal::Headline(whole));
  for (const Finding& finding : answer.findings) {
    PutFinding(screen, answer, finding);
  }
  if (answer.outcome == Outcome::kNothing || answer.outcome == Outcome::kPartial) {
    screen.Heading("Next");
    screen.Paragraph(internal::NextStep(answer));
  } else if (answer.outcome != Outcome::kGood) {
    PutChain(screen, answer);
    if (answer.outcome == Outcome::kFound && !answer.search.weak.empty()) {
      const Origin& note = answer.search.weak.front();
      const RankDump& rank = answer.ranks[note.rank_place];
      screen.Heading("Also");
      screen.Paragraph(fmt::format("rank {}: {}: {}", rank.rank,
                                   base::Printable(rank.operators[note.operator_place].name),
                                   internal::KindSentence(note.kind)));
    }
    screen.Heading("Next");
    screen.Paragraph(internal::NextStep(answer));
  }
  if (options.levels) {
    PutLevels(screen, answer);
  }
  PutFooter(screen, answer);
  return screen.Take();
}

std::string MarkdownAnswer(const Answer& whole) {
  const StepAnswer& answer = whole.step;
  std::string text = fmt::format("# {}\n", internal::Headline(whole));
  for (const Finding& finding : answer.findings) {
    text +=
        fmt::format("\n## rank {}: `{}`\n\n{}: {}.", finding.rank, base::Printable(finding.name),
                    BadnessText(finding.made), internal::KindSentence(finding.kind));
    text += finding.note.empty() ? "\n" : fmt::format(" {}.\n", finding.note);
    const bool of_forward = finding.stack.empty() && !finding.forward_stack.empty();
    const std::vector<std::string> frames =
        internal::OwnFrames(of_forward ? finding.forward_stack : finding.stack);
    if (!frames.empty()) {
      text += of_forward ? "\nForward call at\n\n```\n" : "\n```\n";
      for (const std::string& frame : frames) {
        text += internal::FrameLine(frame) + "\n";
      }
      text += "```\n";
    }
    const std::vector<internal::ValueLine> values = internal::ValueLines(finding.entry, kValues);
    if (!values.empty()) {
      text += "\n| value | |\n|---|---|\n";
      for (const internal::ValueLine& value : values) {
        text += fmt::format("| {} | {} |\n", value.name, base::ReplaceAll(value.text, "|", "\\|"));
      }
    }
  }
  const std::vector<internal::ChainLine> chain = internal::ChainLines(answer);
  if (!chain.empty()) {
    text += "\n## How it spread\n\n";
    for (const internal::ChainLine& line : chain) {
      text += fmt::format("- rank {}: `{}` -> {}\n", line.from_rank, line.from_name,
                          internal::RankList(line.to_ranks));
    }
  }
  if (!answer.propagation.consequences.empty()) {
    text += "\n## First consequences\n\n";
    for (const Consequence& one : answer.propagation.consequences) {
      text += fmt::format("- {}\n", OperatorLine(answer, one));
    }
  }
  if (!answer.warnings.empty()) {
    text += "\n## Warnings\n\n";
    for (size_t i = 0; i < std::min(answer.warnings.size(), kWarnings); ++i) {
      text += fmt::format("- {}\n", answer.warnings[i]);
    }
  }
  return text;
}

}  // namespace msprobe::analysis::nan
