#include "src/analysis/nan/document.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/nan/explain.h"
#include "src/analysis/overflow/document.h"
#include "src/base/strings.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::nan {
namespace {

using base::FormatCount;
using base::Plural;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefValues = 8;
constexpr size_t kBriefFrames = 4;
constexpr size_t kBriefChain = 12;
constexpr size_t kBriefConsequences = 8;
constexpr size_t kBriefOverflows = 4;
constexpr size_t kMarkdownWarnings = 8;

std::string OperatorText(const StepAnswer& answer, const Consequence& consequence) {
  const Operator& at = answer.ranks[consequence.rank_place].operators[consequence.operator_place];
  return fmt::format("{}  ({} -> {})", base::Printable(at.name), BadValuesText(at.input),
                     BadValuesText(at.output));
}

Item OperatorItem(const StepAnswer& answer, const Consequence& consequence) {
  return {fmt::format("rank {}", answer.ranks[consequence.rank_place].rank),
          OperatorText(answer, consequence)};
}

bool DeviceOverflowed(const StepAnswer& answer) {
  return std::any_of(answer.device.overflows.begin(), answer.device.overflows.end(),
                     [](const overflow::Overflow& noted) { return noted.overflowed(); });
}

report::Verdict MakeVerdict(const Answer& whole) {
  const StepAnswer& answer = whole.step;
  report::Verdict verdict;
  verdict.text = internal::Headline(whole);
  verdict.number = static_cast<double>(answer.search.origins.size());
  verdict.unit = "origins";
  switch (answer.outcome) {
    case Outcome::kGood:
      verdict.word = "GOOD";
      verdict.tone = Tone::kGood;
      if (DeviceOverflowed(answer)) {
        verdict.text += "; but a device noted an overflow";
        verdict.tone = Tone::kCaution;
        verdict.standing = Standing::kFindings;
      }
      break;
    case Outcome::kFound:
      verdict.word = "FOUND";
      verdict.tone = Tone::kBad;
      verdict.standing = Standing::kFindings;
      break;
    case Outcome::kEntered:
      verdict.word = "ENTERED";
      verdict.tone = Tone::kCaution;
      verdict.standing = Standing::kFindings;
      break;
    case Outcome::kPartial:
      verdict.word = "PARTIAL";
      verdict.tone = Tone::kCaution;
      verdict.standing = Standing::kNothingCompared;
      break;
    case Outcome::kNothing:
      verdict.word = "NOTHING SEARCHED";
      verdict.tone = Tone::kBad;
      verdict.standing = Standing::kNothingCompared;
      break;
  }
  return verdict;
}

Section FindingSection(const StepAnswer& answer, const Finding& finding) {
  const auto rank = std::find_if(answer.ranks.begin(), answer.ranks.end(),
                                 [&](const RankDump& known) { return known.rank == finding.rank; });
  Section section{fmt::format("rank {}  {}", finding.rank, finding.name), {}};
  List facts{ListKind::kFacts, {}};
  facts.items.push_back(
      {IsWeak(finding.kind) ? "bad" : "made",
       fmt::format("{}: {}", BadValuesText(finding.made), internal::KindSentence(finding.kind))});
  if (!finding.note.empty()) {
    facts.items.push_back({"note", finding.note});
  }
  facts.items.push_back(
      {"place", fmt::format("operator {} of {} on its rank", FormatCount(finding.index + 1),
                            FormatCount(rank->operator_count))});
  const bool of_forward = finding.stack.empty() && !finding.forward_stack.empty();
  const std::vector<std::string> frames =
      dump::UserFrames(of_forward ? finding.forward_stack : finding.stack);
  if (!frames.empty()) {
    Item code{of_forward ? "forward at" : "code", internal::FrameLine(frames.front())};
    for (size_t i = 1; i < std::min(frames.size(), kBriefFrames); ++i) {
      code.details.push_back({"called by", internal::FrameLine(frames[i])});
    }
    facts.items.push_back(std::move(code));
  }
  if (finding.modules.size() > 1) {
    facts.items.push_back({"module", finding.modules[finding.modules.size() - 2]});
  }
  section.blocks.emplace_back(std::move(facts));
  List values{ListKind::kAligned, {}, {kBriefValues}};
  for (const internal::ValueLine& value : internal::ValueLines(finding.entry, SIZE_MAX)) {
    values.items.push_back({value.name, value.text, value.bad != 0 ? Tone::kBad : Tone::kPlain});
  }
  section.blocks.emplace_back(std::move(values));
  // Those further out, for pages only: the first ones stand above.
  List stack{ListKind::kSentences, {}, {0}};
  for (size_t i = kBriefFrames; i < frames.size(); ++i) {
    stack.items.push_back({"", internal::FrameLine(frames[i])});
  }
  section.blocks.emplace_back(std::move(stack));
  return section;
}

Section ChainSection(const StepAnswer& answer) {
  const std::vector<internal::ChainLine> chain = internal::ChainLines(answer);
  Section section{
      fmt::format("How it spread: {} of {}", Plural(answer.propagation.reached_ranks, "rank"),
                  FormatCount(answer.ranks.size())),
      {}};
  List list{ListKind::kAligned, {}, {kBriefChain}};
  for (const internal::ChainLine& line : chain) {
    list.items.push_back(
        {fmt::format("rank {}", line.from_rank),
         fmt::format("{} -> {}{}", line.from_name, internal::RankList(line.to_ranks),
                     line.to_name == line.from_name ? "" : " by " + line.to_name)});
  }
  if (chain.size() > kBriefChain) {
    list.brief.rest = fmt::format("and {}", Plural(chain.size() - kBriefChain, "more step"));
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section ConsequencesSection(const StepAnswer& answer) {
  Section section{fmt::format("First consequences, of {}",
                              Plural(answer.propagation.affected_operators, "operator")),
                  {}};
  List list{ListKind::kAligned, {}, {kBriefConsequences, "", /*counts_rest=*/false}};
  for (const Consequence& consequence : answer.propagation.consequences) {
    list.items.push_back(OperatorItem(answer, consequence));
  }
  section.blocks.emplace_back(std::move(list));
  if (!answer.propagation.backward.empty()) {
    const Consequence& first = answer.propagation.backward.front();
    section.blocks.emplace_back(
        List{ListKind::kNamed,
             {{"first bad gradient", fmt::format("rank {} {}", answer.ranks[first.rank_place].rank,
                                                 OperatorText(answer, first))}}});
  }
  return section;
}

Section AlsoSection(const StepAnswer& answer) {
  Section section{"Also", {}};
  if (answer.outcome == Outcome::kFound && !answer.search.weak.empty()) {
    const Origin& note = answer.search.weak.front();
    const RankDump& rank = answer.ranks[note.rank_place];
    section.blocks.emplace_back(report::Text{fmt::format(
        "rank {}: {}: {}", rank.rank, base::Printable(rank.operators[note.operator_place].name),
        internal::KindSentence(note.kind))});
  }
  return section;
}

// What the devices noted themselves, the first ones.
Section DeviceSection(const StepAnswer& answer) {
  Section section{"Overflows that the device noted", {}};
  List list{ListKind::kBullets, {}, {kBriefOverflows}};
  for (const overflow::Overflow& noted : answer.device.overflows) {
    if (noted.overflowed()) {
      list.items.push_back({"", overflow::Sentence(noted)});
    }
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section LevelsSection(const StepAnswer& answer) {
  List list{ListKind::kFacts, {}};
  for (const Level level : {Level::kCritical, Level::kHigh, Level::kMedium}) {
    const auto first =
        std::find_if(answer.levels.findings.begin(), answer.levels.findings.end(),
                     [&](const LevelFinding& known) { return known.level == level; });
    const uint64_t count = answer.levels.counts[static_cast<size_t>(level)];
    std::string text = FormatCount(count);
    if (first != answer.levels.findings.end()) {
      text += fmt::format(", first: rank {} {} ({})", first->rank, base::Printable(first->name),
                          SceneName(first->scene));
    }
    list.items.push_back({std::string(LevelName(level)), std::move(text)});
    list.items.back().number = static_cast<double>(count);
  }
  Section section{"Levels, each operator by itself", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section CountsSection(const StepAnswer& answer) {
  Section section{"Counts", {}};
  if (answer.operator_count > 0) {
    section.blocks.emplace_back(
        List{ListKind::kSentences,
             {{"", fmt::format("{} of {}; {} matched, {} without a partner",
                               Plural(answer.operator_count, "operator"),
                               Plural(answer.ranks.size(), "rank"),
                               Plural(answer.search.matched_events, "communication"),
                               FormatCount(answer.search.unmatched_calls))}}});
  }
  return section;
}

// A case per rank; it fails where an origin is its.
std::vector<report::TestCase> CasesOf(const StepAnswer& answer) {
  std::vector<report::TestCase> cases;
  for (const RankDump& rank : answer.ranks) {
    report::TestCase& test = cases.emplace_back();
    test.name = fmt::format("rank {}", rank.rank);
    for (const Finding& finding : answer.findings) {
      if (finding.rank == rank.rank && test.outcome == report::CaseOutcome::kPassed) {
        test.outcome = report::CaseOutcome::kFailed;
        test.level = IsWeak(finding.kind) ? "any" : "origin";
        test.type = BadValuesText(finding.made);
        test.message = fmt::format("{}: {}", finding.name, internal::KindSentence(finding.kind));
        for (const std::string& frame :
             dump::UserFrames(finding.stack.empty() ? finding.forward_stack : finding.stack)) {
          test.details += internal::FrameLine(frame) + "\n";
        }
      }
    }
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Answer& whole, bool with_levels) {
  const StepAnswer& answer = whole.step;
  report::Document document;
  document.command = "nan_analyze";
  document.verdict = MakeVerdict(whole);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "origin", answer.outcome == Outcome::kFound);
  report::SetFound(document.levels, "any",
                   answer.outcome != Outcome::kGood || DeviceOverflowed(answer));
  document.cases = CasesOf(answer);
  for (const Finding& finding : answer.findings) {
    document.sections.push_back(FindingSection(answer, finding));
  }
  if (answer.outcome == Outcome::kFound || answer.outcome == Outcome::kEntered) {
    document.sections.push_back(ChainSection(answer));
    document.sections.push_back(ConsequencesSection(answer));
    document.sections.push_back(AlsoSection(answer));
  }
  if (DeviceOverflowed(answer)) {
    document.sections.push_back(DeviceSection(answer));
  }
  if (with_levels) {
    document.sections.push_back(LevelsSection(answer));
  }
  document.sections.push_back(CountsSection(answer));
  if (const std::string_view next = internal::NextStep(answer); !next.empty()) {
    document.next.emplace_back(next);
  }
  for (const std::filesystem::path& file : answer.files) {
    document.files.push_back({file});
  }
  document.warnings = answer.warnings;
  document.bytes = answer.size_bytes;
  document.seconds = answer.seconds;
  document.deed = "searched";
  return document;
}

std::string MarkdownAnswer(const Answer& whole) {
  const StepAnswer& answer = whole.step;
  std::string text = fmt::format("# {}\n", internal::Headline(whole));
  for (const Finding& finding : answer.findings) {
    text +=
        fmt::format("\n## rank {}: `{}`\n\n{}: {}.", finding.rank, base::Printable(finding.name),
                    BadValuesText(finding.made), internal::KindSentence(finding.kind));
    text += finding.note.empty() ? "\n" : fmt::format(" {}.\n", finding.note);
    const bool of_forward = finding.stack.empty() && !finding.forward_stack.empty();
    const std::vector<std::string> frames =
        dump::UserFrames(of_forward ? finding.forward_stack : finding.stack);
    if (!frames.empty()) {
      text += of_forward ? "\nForward call at\n\n```\n" : "\n```\n";
      for (const std::string& frame : frames) {
        text += internal::FrameLine(frame) + "\n";
      }
      text += "```\n";
    }
    const std::vector<internal::ValueLine> values =
        internal::ValueLines(finding.entry, kBriefValues);
    if (!values.empty()) {
      text += "\n| value | |\n|---|---|\n";
      for (const internal::ValueLine& value : values) {
        text += fmt::format("| {} | {} |\n", value.name, base::ReplaceAll(value.text, "|", "\\|"));
      }
    }
  }
  if (DeviceOverflowed(answer)) {
    text += "\n## Overflows that the device noted\n\n";
    for (const overflow::Overflow& noted : answer.device.overflows) {
      text += noted.overflowed() ? fmt::format("- {}\n", overflow::Sentence(noted)) : "";
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
    for (const Consequence& consequence : answer.propagation.consequences) {
      text += fmt::format("- {}\n",
                          fmt::format("rank {:<4} {}", answer.ranks[consequence.rank_place].rank,
                                      OperatorText(answer, consequence)));
    }
  }
  if (!answer.warnings.empty()) {
    text += "\n## Warnings\n\n";
    for (size_t i = 0; i < std::min(answer.warnings.size(), kMarkdownWarnings); ++i) {
      text += fmt::format("- {}\n", answer.warnings[i]);
    }
  }
  return text;
}

}  // namespace msprobe::analysis::nan
