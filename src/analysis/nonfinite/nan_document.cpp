
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/nonfinite/nan.h"
#include "src/analysis/nonfinite/overflow.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"
#include "src/report/document.h"

namespace msprobe::analysis::nonfinite {
namespace {

// Sentences and lines that the screen and the Markdown answer share.

// The tensors and plain numbers of an entry.
struct ValueLine {
  std::string name;  // "input_args.0", "output.1.0"
  std::string text;  // "float32 [2, 8]  max inf  min -1"
  BadValues bad = 0;
};

// The chain, arrivals by the same call of the same sender in one line: "rank 2,
// Distributed.all_reduce.1.forward -> ranks 0, 1, 3".
struct ChainLine {
  int64_t from_rank = 0;
  std::string from_name;
  std::vector<int64_t> to_ranks;
  std::string to_name;  // of the first of them
};

using dump::EntryTree;
using dump::NodeKind;

// "torch.float32" -> "float32".
std::string_view PlainDtype(std::string_view dtype) {
  return dtype.substr(dtype.find('.') == std::string_view::npos ? 0 : dtype.find('.') + 1);
}

std::string MemberText(const EntryTree& tree, uint32_t object, std::string_view key) {
  const uint32_t at = tree.Find(object, key);
  return at == EntryTree::kNone ? std::string() : base::Printable(dump::CompactText(tree, at));
}

BadValues BadValuesOfMember(const EntryTree& tree, uint32_t object, std::string_view key) {
  const uint32_t at = tree.Find(object, key);
  return at == EntryTree::kNone ? BadValues{0} : BadValuesOfNode(tree[at]);
}

class ValueLister {
 public:
  ValueLister(const EntryTree& tree, size_t most) : tree_(tree), most_(most) {}

  std::vector<ValueLine> Run() {
    if (tree_.size() == 0 || tree_[0].kind != NodeKind::kObject) {
      return {};
    }
    tree_.ForEachChild(0, [&](uint32_t section) {
      if (tree_[section].key != "is_recompute" && tree_[section].key != "is_nan") {
        List(section);
      }
    });
    return std::move(lines_);
  }

 private:
  // Everything in a section, without recursion: a path of names is kept along the way.
  void List(uint32_t section) {
    struct Open {
      uint32_t node = 0;
      size_t name_bytes = 0;  // of the path up to here
      uint32_t next_item = 0;
    };
    std::string path(tree_[section].key);
    std::vector<Open> open = {{section, path.size(), 0}};
    for (uint32_t index = section + 1; index < tree_[section].end && lines_.size() < most_;) {
      while (index >= tree_[open.back().node].end) {
        open.pop_back();
      }
      Open& parent = open.back();
      path.resize(parent.name_bytes);
      path += '.';
      path += tree_[parent.node].kind == NodeKind::kList ? std::to_string(parent.next_item++)
                                                         : base::Printable(tree_[index].key);
      if (tree_[index].kind == NodeKind::kObject && AddLine(index, path)) {
        index = tree_[index].end;
        continue;
      }
      if (tree_[index].kind == NodeKind::kObject || tree_[index].kind == NodeKind::kList) {
        open.push_back({index, path.size(), 0});
      }
      ++index;
    }
  }

  bool AddLine(uint32_t object, const std::string& path) {
    ValueLine line;
    line.name = path;
    if (tree_.Find(object, dump::KeyOf(dump::kMax)) != EntryTree::kNone) {
      line.text = fmt::format(
          "{} {}  max {}  min {}", PlainDtype(MemberText(tree_, object, "dtype")),
          MemberText(tree_, object, "shape"), MemberText(tree_, object, dump::KeyOf(dump::kMax)),
          MemberText(tree_, object, dump::KeyOf(dump::kMin)));
      line.bad = BadValuesOfMember(tree_, object, dump::KeyOf(dump::kMax)) |
                 BadValuesOfMember(tree_, object, dump::KeyOf(dump::kMin));
    } else if (tree_.Find(object, "group_ranks") != EntryTree::kNone) {
      line.text = "group " + MemberText(tree_, object, "group_ranks");
    } else if (tree_.Find(object, "value") != EntryTree::kNone) {
      line.text = MemberText(tree_, object, "value");
    } else {
      return false;
    }
    lines_.push_back(std::move(line));
    return true;
  }

  const EntryTree& tree_;
  const size_t most_;
  std::vector<ValueLine> lines_;
};

struct KindText {
  std::string_view verdict;   // of {0} a rank, {1} the values, {2} the operator
  std::string_view sentence;  // how it became bad
};

const KindText& TextOf(OriginKind kind) {
  // By OriginKind.
  static constexpr std::array<KindText, 9> kTexts = {
      {{"FOUND: rank {0} made the first {1}, in {2}", "good inputs, bad outputs"},
       {"FOUND: rank {0} made the first {1}, in {2}",
        "its inputs hold nothing worse than the -inf of a mask; a row that is masked as a whole "
        "gives NaN"},
       {"FOUND: the first {1} came out of a communication, {2} (rank {0})",
        "its inputs were good on all ranks, its output is not"},
       {"FOUND: the first {1} reached rank {0} from a rank that is not in the dump, by {2}",
        "received from a rank whose dump is missing or truncated: look for the cause there"},
       {"FOUND: the first {1} was made on rank {0} by a call that is not recorded, first seen by "
        "{2}",
        "its inputs were bad, while those of the module around it were good"},
       {"ENTERED: {1} entered rank {0} from outside the recorded calls, first seen by {2}",
        "its inputs were bad, and no recorded operator produced them"},
       {"ENTERED: rank {0} was asked for {1}, as a constant of {2}",
        "the value is among its arguments"},
       {"ENTERED: {2} on rank {0} read {1} from uninitialised memory",
        "its input is an uninitialised tensor"},
       {"ENTERED: {2} on rank {0} produced {1} only when recomputed",
        "activation checkpointing recomputed it, and its first run cannot be found"}}};
  return kTexts[static_cast<size_t>(kind)];
}

std::string FirstLine(const StepAnswer& answer) {
  const Finding& first = answer.findings.front();
  const std::string name = base::Printable(first.name);
  const std::string made = BadValuesText(first.made);
  return fmt::format(fmt::runtime(TextOf(first.kind).verdict), first.rank, made, name);
}

// The first line: "FOUND: rank 2 made the first NaN, in Torch.div.0.forward".
std::string Headline(const Answer& answer) {
  const StepAnswer& step = answer.step;
  std::string text;
  if (step.outcome == Outcome::kNothing) {
    text = fmt::format("NOTHING SEARCHED: {} of {} without the maximum of any tensor",
                       base::Plural(step.operator_count, "operator"),
                       base::Plural(step.ranks.size(), "rank"));
  } else if (step.outcome == Outcome::kPartial) {
    text = fmt::format("INCOMPLETE: no NaN and no infinity in the {} that could be read",
                       base::Plural(step.operator_count, "operator"));
  } else if (step.outcome != Outcome::kGood) {
    text = FirstLine(step);
  } else {
    const size_t steps = answer.good_steps.size() + 1;
    return fmt::format(
        "GOOD: no NaN and no infinity {}in {} of {}{}",
        step.search.weak.empty() ? "" : "that needs an explanation ",
        base::Plural(step.operator_count, "operator"), base::Plural(step.ranks.size(), "rank"),
        steps > 1 ? fmt::format(" in the last of {}", base::Plural(steps, "step")) : "");
  }
  if (step.step && !answer.good_steps.empty()) {
    text.insert(text.find(':'), fmt::format(" in step {}", *step.step));
  }
  return text;
}

// What is known about how it became bad: one sentence per kind of origin.
std::string_view KindSentence(OriginKind kind) { return TextOf(kind).sentence; }

// Calls that give NaN for a negative number.
constexpr std::array<std::string_view, 8> kNeedNotNegative = {"sqrt",  "rsqrt", "log",  "log2",
                                                              "log10", "sqrt_", "log_", "rsqrt_"};

// The least value of the first input of a call that negative ones are not defined for, as it is
// shown; empty where it is not negative, or not known.
std::string NegativeInput(const Finding& finding) {
  if (!base::IsOneOf(dump::ParseEntryName(finding.name).subject, kNeedNotNegative)) {
    return {};
  }
  const EntryTree& tree = finding.entry;
  for (uint32_t node = 0; node < tree.size(); ++node) {
    if (tree[node].kind == NodeKind::kObject &&
        tree.Find(node, dump::KeyOf(dump::kMin)) != EntryTree::kNone) {
      std::string least = MemberText(tree, node, dump::KeyOf(dump::kMin));
      const std::optional<double> value = base::ParseDouble(least);
      return value && *value < 0 ? least : std::string();
    }
  }
  return {};
}

// What to do now.
report::Advice NextStep(const StepAnswer& answer) {
  switch (answer.outcome) {
    case Outcome::kGood:
      return {};
    case Outcome::kPartial:
      return report::Advice("nan_analyze.partial");
    case Outcome::kNothing:
      return report::Advice("nan_analyze.nothing");
    default:
      break;
  }
  const Finding& first = answer.findings.front();
  if (const std::string least = NegativeInput(first);
      first.kind == OriginKind::kComputed && !least.empty()) {
    return report::Advice("nan_analyze.negative",
                          {least, base::Printable(dump::ParseEntryName(first.name).subject)});
  }
  return report::Advice(fmt::format("nan_analyze.{}", OriginKindName(first.kind)));
}

// A stack frame in one line: "/a/train.py:13 in forward: y = a / b".
std::string FrameLine(const std::string& frame) {
  return base::Printable(dump::FrameInOneLine(frame));
}

std::vector<ValueLine> ValueLines(const EntryTree& entry, size_t most) {
  return ValueLister(entry, most).Run();
}

std::vector<ChainLine> ChainLines(const StepAnswer& answer) {
  std::vector<ChainLine> lines;
  for (const Arrival& arrival : answer.propagation.chain) {
    const RankDump& from = answer.ranks[arrival.from_rank];
    const RankDump& to = answer.ranks[arrival.to_rank];
    const std::string from_name = base::Printable(from.operators[arrival.from_operator].name);
    if (lines.empty() || lines.back().from_rank != from.rank ||
        lines.back().from_name != from_name) {
      lines.push_back(
          {from.rank, from_name, {}, base::Printable(to.operators[arrival.to_operator].name)});
    }
    lines.back().to_ranks.push_back(to.rank);
  }
  return lines;
}

// "rank 3", "ranks 0, 1, 2 and 13 more".
std::string RankList(const std::vector<int64_t>& ranks) {
  constexpr size_t kShown = 8;
  std::vector<std::string> texts;
  for (const int64_t rank : std::span(ranks).first(std::min(ranks.size(), kShown))) {
    texts.push_back(std::to_string(rank));
  }
  std::string text = (ranks.size() == 1 ? "rank " : "ranks ") + base::Join(texts, ", ");
  if (ranks.size() > kShown) {
    text += fmt::format(" and {} more", ranks.size() - kShown);
  }
  return text;
}

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::Item;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownValues = 8;
constexpr size_t kShownFrames = 4;
constexpr size_t kShownChain = 12;
constexpr size_t kShownConsequences = 8;
constexpr size_t kShownOverflows = 4;
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
                     [](const Overflow& noted) { return noted.overflowed(); });
}

report::Verdict MakeVerdict(const Answer& whole) {
  const StepAnswer& answer = whole.step;
  struct Word {
    std::string_view word;
    Tone tone;
    AnswerOutcome outcome;
  };
  // By Outcome.
  constexpr std::array<Word, 5> kWords = {
      {{"GOOD", Tone::kGood, AnswerOutcome::kClean},
       {"FOUND", Tone::kBad, AnswerOutcome::kFindings},
       {"ENTERED", Tone::kCaution, AnswerOutcome::kFindings},
       {"PARTIAL", Tone::kCaution, AnswerOutcome::kNothingCompared},
       {"NOTHING SEARCHED", Tone::kBad, AnswerOutcome::kNothingCompared}}};
  const auto& [word, tone, outcome] = kWords[static_cast<size_t>(answer.outcome)];
  report::Verdict verdict{std::string(word),
                          Headline(whole),
                          static_cast<double>(answer.search.origins.size()),
                          "origins",
                          tone,
                          outcome};
  if (answer.outcome == Outcome::kGood && DeviceOverflowed(answer)) {
    verdict.text += "; but a device noted an overflow";
    verdict.tone = Tone::kCaution;
    verdict.outcome = AnswerOutcome::kFindings;
  }
  if (answer.is_incomplete) {
    verdict.outcome = AnswerOutcome::kIncomplete;
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
       fmt::format("{}: {}", BadValuesText(finding.made), KindSentence(finding.kind))});
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
    Item code{of_forward ? "forward at" : "code", FrameLine(frames.front())};
    code.source = report::SourceLineOf(code.text);
    for (size_t i = 1; i < std::min(frames.size(), kShownFrames); ++i) {
      code.details.push_back({"called by", FrameLine(frames[i])});
    }
    facts.items.push_back(std::move(code));
  }
  if (finding.modules.size() > 1) {
    facts.items.push_back({"module", finding.modules[finding.modules.size() - 2]});
  }
  section.blocks.emplace_back(std::move(facts));
  List values{ListKind::kAligned, {}, {kShownValues}};
  for (const ValueLine& value : ValueLines(finding.entry, SIZE_MAX)) {
    values.items.push_back({value.name, value.text, value.bad != 0 ? Tone::kBad : Tone::kPlain});
  }
  section.blocks.emplace_back(std::move(values));
  // Outer frames, for pages only: the first ones are above.
  List stack{ListKind::kSentences, {}, {0}};
  for (size_t i = kShownFrames; i < frames.size(); ++i) {
    stack.items.push_back({"", FrameLine(frames[i])});
  }
  section.blocks.emplace_back(std::move(stack));
  return section;
}

Section ChainSection(const StepAnswer& answer) {
  const std::vector<ChainLine> chain = ChainLines(answer);
  List list{ListKind::kAligned, {}, {kShownChain}};
  for (const ChainLine& line : chain) {
    list.items.push_back(
        {fmt::format("rank {}", line.from_rank),
         fmt::format("{} -> {}{}", line.from_name, RankList(line.to_ranks),
                     line.to_name == line.from_name ? "" : " by " + line.to_name)});
  }
  if (chain.size() > kShownChain) {
    list.display_limit.rest =
        fmt::format("and {}", Plural(chain.size() - kShownChain, "more step"));
  }
  return report::MakeSection(
      fmt::format("How it spread: {} of {}", Plural(answer.propagation.reached_ranks, "rank"),
                  FormatCount(answer.ranks.size())),
      std::move(list));
}

Section ConsequencesSection(const StepAnswer& answer) {
  Section section{fmt::format("First consequences, of {}",
                              Plural(answer.propagation.affected_operators, "operator")),
                  {}};
  List list{ListKind::kAligned, {}, {kShownConsequences, "", /*counts_rest=*/false}};
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
        KindSentence(note.kind))});
  }
  return section;
}

// The first overflows that the devices recorded.
Section DeviceSection(const StepAnswer& answer) {
  List list{ListKind::kBullets, {}, {kShownOverflows}};
  for (const Overflow& noted : answer.device.overflows) {
    if (noted.overflowed()) {
      list.items.push_back({"", Sentence(noted)});
    }
  }
  return report::MakeSection("Overflows that the device noted", std::move(list));
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
    list.items.push_back(
        {std::string(LevelName(level)), std::move(text), Tone::kPlain, static_cast<double>(count)});
  }
  return report::MakeSection("Levels, each operator by itself", std::move(list));
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
        test.Fail(IsWeak(finding.kind) ? "any" : "origin", BadValuesText(finding.made),
                  fmt::format("{}: {}", finding.name, KindSentence(finding.kind)));
        for (const std::string& frame :
             dump::UserFrames(finding.stack.empty() ? finding.forward_stack : finding.stack)) {
          test.details += fmt::format("code {}\n", FrameLine(frame));
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
  document.Advise(NextStep(answer));
  if (!answer.findings.empty() && answer.findings.front().lacks_modules) {
    document.Advise(report::Advice("capture.layers"));
  }
  document.AddFiles(answer.files);
  document.warnings = answer.warnings;
  document.bytes = answer.size_bytes;
  document.seconds = answer.seconds;
  document.action = "searched";
  return document;
}

std::string MarkdownAnswer(const Answer& whole) {
  const StepAnswer& answer = whole.step;
  std::string text = fmt::format("# {}\n", Headline(whole));
  for (const Finding& finding : answer.findings) {
    text +=
        fmt::format("\n## rank {}: `{}`\n\n{}: {}.", finding.rank, base::Printable(finding.name),
                    BadValuesText(finding.made), KindSentence(finding.kind));
    text += finding.note.empty() ? "\n" : fmt::format(" {}.\n", finding.note);
    const bool of_forward = finding.stack.empty() && !finding.forward_stack.empty();
    const std::vector<std::string> frames =
        dump::UserFrames(of_forward ? finding.forward_stack : finding.stack);
    if (!frames.empty()) {
      text += of_forward ? "\nForward call at\n\n```\n" : "\n```\n";
      for (const std::string& frame : frames) {
        text += FrameLine(frame) + "\n";
      }
      text += "```\n";
    }
    const std::vector<ValueLine> values = ValueLines(finding.entry, kShownValues);
    if (!values.empty()) {
      text += "\n| value | |\n|---|---|\n";
      for (const ValueLine& value : values) {
        text += fmt::format("| {} | {} |\n", value.name, base::ReplaceAll(value.text, "|", "\\|"));
      }
    }
  }
  if (DeviceOverflowed(answer)) {
    text += "\n## Overflows that the device noted\n\n";
    for (const Overflow& noted : answer.device.overflows) {
      text += noted.overflowed() ? fmt::format("- {}\n", Sentence(noted)) : "";
    }
  }
  const std::vector<ChainLine> chain = ChainLines(answer);
  if (!chain.empty()) {
    text += "\n## How it spread\n\n";
    for (const ChainLine& line : chain) {
      text += fmt::format("- rank {}: `{}` -> {}\n", line.from_rank, line.from_name,
                          RankList(line.to_ranks));
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

}  // namespace msprobe::analysis::nonfinite
