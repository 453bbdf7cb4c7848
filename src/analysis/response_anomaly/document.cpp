#include "src/analysis/response_anomaly/document.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::response_anomaly {
namespace {

using base::FormatCount;
using base::Plural;
using report::Cell;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefRequests = 20;
constexpr size_t kBriefLines = 5;

// The worst first.
constexpr std::array<Illness, 4> kIllnesses = {Illness::kNotFinite, Illness::kGarbled,
                                               Illness::kRepetition, Illness::kRareCharacters};

std::string_view WordsOf(Illness illness) {
  switch (illness) {
    case Illness::kRareCharacters:
      return "rare characters";
    case Illness::kGarbled:
      return "garbled";
    case Illness::kRepetition:
      return "repetition";
    case Illness::kNotFinite:
      return "not finite";
    case Illness::kNone:
      break;
  }
  return "normal";
}

std::string WhyOf(const Judgement& judgement) {
  switch (judgement.illness) {
    case Illness::kRareCharacters:
      return Plural(judgement.rare_tokens, "token");
    case Illness::kGarbled:
      return fmt::format("{} of {}", judgement.garbled_windows,
                         Plural(judgement.windows, "window"));
    case Illness::kRepetition:
      return fmt::format(
          "{} of {}",
          judgement.repeats_both + judgement.repeats_trajectory + judgement.repeats_period,
          Plural(judgement.windows, "window"));
    case Illness::kNotFinite: {
      std::string why;
      const auto add = [&](size_t count, const char* what) {
        if (count > 0) {
          why += fmt::format("{}{} {}", why.empty() ? "" : ", ", FormatCount(count), what);
        }
      };
      add(judgement.nans, "NaN");
      add(judgement.positive_infinities, "+inf");
      add(judgement.negative_infinities, "-inf");
      return why;
    }
    case Illness::kNone:
      break;
  }
  return {};
}

report::Verdict MakeVerdict(const Findings& findings) {
  report::Verdict verdict;
  verdict.unit = "requests";
  verdict.number = static_cast<double>(findings.ill_count());
  if (findings.requests == 0) {
    verdict.word = "NOTHING JUDGED";
    verdict.text = "NOTHING JUDGED: no line holds a request";
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kNothingCompared;
  } else if (findings.ill_count() > 0) {
    verdict.word = "ILL";
    std::string counts;
    for (const Illness illness : kIllnesses) {
      if (const uint64_t count = findings.of[static_cast<size_t>(illness)]; count > 0) {
        counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", FormatCount(count),
                              WordsOf(illness));
      }
    }
    verdict.text = fmt::format("ILL: {} of {}: {}", FormatCount(findings.ill_count()),
                               Plural(findings.requests, "request"), counts);
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
  } else {
    verdict.word = "NORMAL";
    verdict.text = fmt::format("NORMAL: all {}", Plural(findings.requests, "request"));
    verdict.tone = Tone::kGood;
  }
  if (findings.unreadable > 0) {
    verdict.text += fmt::format("; {} cannot be read", Plural(findings.unreadable, "line"));
    verdict.standing = Standing::kIncomplete;
    verdict.tone = Tone::kBad;
  }
  return verdict;
}

Section IllSection(const Findings& findings) {
  report::Table table("ill", {"Line", "Request", "Illness", "Found in", "First token", "Tokens"});
  for (const Row& row : findings.ill) {
    const Judgement& judgement = row.judgement;
    const std::array<Cell, 6> cells = {
        Cell::Integer(static_cast<int64_t>(row.line)),
        table.KeepText(base::Printable(row.name)),
        Cell::Text(WordsOf(judgement.illness)),
        table.KeepText(WhyOf(judgement)),
        judgement.first_token ? Cell::Integer(static_cast<int64_t>(*judgement.first_token))
                              : Cell(),
        Cell::Integer(static_cast<int64_t>(judgement.tokens))};
    table.AddRow(cells);
  }
  Section section;
  section.blocks.emplace_back(report::DataTable{std::move(table), {kBriefRequests}});
  if (findings.ill_count() > findings.ill.size()) {
    section.blocks.emplace_back(
        report::Text{fmt::format("The first {} are listed; -o writes a row for every request.",
                                 FormatCount(findings.ill.size()))});
  }
  return section;
}

Section UnreadSection(const Findings& findings) {
  Section section{"Lines that cannot be read", {}};
  List list{ListKind::kNamed, {}, {kBriefLines}};
  for (const Row& row : findings.unread) {
    list.items.push_back({fmt::format("line {}", row.line), base::Printable(row.error)});
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section NotesSection(const Findings& findings) {
  Section section{"Also", {}};
  List list{ListKind::kBullets, {}};
  const auto add = [&](uint64_t count, std::string text) {
    if (count > 0) {
      list.items.push_back({"", std::move(text)});
    }
  };
  add(findings.only_minus_infinity,
      fmt::format("{}: -inf is the only value that is not finite. Servers that fill up their "
                  "candidates with -inf do this, and nothing is wrong then.",
                  Plural(findings.only_minus_infinity, "request")));
  add(findings.short_repeats,
      fmt::format("{}: normal, but parts repeat themselves in fewer windows than "
                  "single_window_thresh and multi_window_thresh ask for.",
                  Plural(findings.short_repeats, "request")));
  add(findings.unfinished,
      fmt::format("{} of a known model: the last token does not end a response, and so the "
                  "categories of tokens were not used.",
                  Plural(findings.unfinished, "request")));
  if (list.items.empty()) {
    return {};
  }
  section.blocks.emplace_back(std::move(list));
  return section;
}

std::vector<report::TestCase> CasesOf(const Findings& findings) {
  std::vector<report::TestCase> cases;
  for (const Row& row : findings.ill) {
    report::TestCase& test = cases.emplace_back();
    test.name = row.name.empty() ? fmt::format("line {}", row.line) : row.name;
    test.outcome = report::CaseOutcome::kFailed;
    test.level = IllnessName(row.judgement.illness);
    test.type = WordsOf(row.judgement.illness);
    test.message = fmt::format("{}: {}", test.type, WhyOf(row.judgement));
  }
  for (const Row& row : findings.unread) {
    report::TestCase& test = cases.emplace_back();
    test.name = fmt::format("line {}", row.line);
    test.outcome = report::CaseOutcome::kError;
    test.type = "unreadable";
    test.message = row.error;
  }
  if (cases.empty() && findings.requests > 0) {
    cases.push_back({fmt::format("all {}", Plural(findings.requests, "request"))});
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Findings& findings) {
  report::Document document;
  document.command = "response_anomaly";
  document.verdict = MakeVerdict(findings);
  document.levels = report::OutcomesOf(kGateLevels);
  for (const Illness illness : kIllnesses) {
    report::SetFound(document.levels, IllnessName(illness),
                     findings.of[static_cast<size_t>(illness)] > 0);
  }
  report::SetFound(document.levels, "ill", findings.ill_count() > 0);
  if (!findings.ill.empty()) {
    document.sections.push_back(IllSection(findings));
  }
  if (!findings.unread.empty()) {
    document.sections.push_back(UnreadSection(findings));
  }
  if (Section notes = NotesSection(findings); !notes.blocks.empty()) {
    document.sections.push_back(std::move(notes));
  }
  for (const std::filesystem::path& file : findings.files) {
    document.files.push_back({file});
  }
  document.warnings = findings.warnings;
  document.cases = CasesOf(findings);
  document.bytes = findings.bytes;
  document.deed = "judged";
  return document;
}

}  // namespace msprobe::analysis::response_anomaly
