#include "src/report/document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace msprobe::report {

std::string_view ToneName(Tone tone) {
  constexpr std::array<std::string_view, 5> kNames = {"", "strong", "good", "caution", "bad"};
  return kNames[static_cast<size_t>(tone)];
}

void Verdict::Say(std::string_view new_word, std::string_view rest, Tone new_tone,
                  AnswerOutcome new_outcome) {
  word = new_word;
  text = fmt::format("{}: {}", new_word, rest);
  tone = new_tone;
  outcome = new_outcome;
}

void Document::AddFiles(std::span<const std::filesystem::path> paths) {
  for (const std::filesystem::path& path : paths) {
    files.push_back({path});
  }
}

void Document::Advise(Advice advice) {
  if (!advice.id.empty()) {
    next.push_back(std::move(advice));
  }
}

std::vector<LevelOutcome> OutcomesOf(std::span<const GateLevel> levels) {
  std::vector<LevelOutcome> outcomes;
  for (const GateLevel& level : levels) {
    outcomes.push_back({std::string(level.word), false, level.includes_previous, level.on_request});
  }
  return outcomes;
}

void SetFound(std::vector<LevelOutcome>& outcomes, std::string_view word, bool found) {
  const auto outcome = std::find_if(outcomes.begin(), outcomes.end(),
                                    [&](const LevelOutcome& known) { return known.word == word; });
  outcome->found = found;
}

// By one of the words asked, or by one whose chain of included levels reaches it.
bool Gate::AsksAbout(const Document& document, size_t level) const {
  const std::vector<LevelOutcome>& levels = document.levels;
  for (size_t at = level;;) {
    if (std::find(asked_.begin(), asked_.end(), levels[at].word) != asked_.end()) {
      return true;
    }
    if (++at >= levels.size() || !levels[at].includes_previous) {
      return false;
    }
  }
}

bool Gate::Fails(const Document& document) const {
  if (asked_.empty()) {
    return false;
  }
  if (document.verdict.outcome == AnswerOutcome::kNothingCompared) {
    return true;
  }
  const auto known = [&](const std::string& word) {
    return std::any_of(document.levels.begin(), document.levels.end(),
                       [&](const LevelOutcome& level) { return level.word == word; });
  };
  if (!std::all_of(asked_.begin(), asked_.end(), known)) {
    return true;
  }
  for (size_t level = 0; level < document.levels.size(); ++level) {
    if (document.levels[level].found && AsksAbout(document, level)) {
      return true;
    }
  }
  return false;
}

bool Gate::Counts(const Document& document, std::string_view level) const {
  for (size_t at = 0; at < document.levels.size(); ++at) {
    if (document.levels[at].word == level) {
      return asks() ? AsksAbout(document, at) : !document.levels[at].on_request;
    }
  }
  return true;
}

std::string Gate::Reason(const Document& document) const {
  std::string found;
  for (size_t level = 0; level < document.levels.size(); ++level) {
    const LevelOutcome& outcome = document.levels[level];
    if (outcome.found && !outcome.what.empty() && AsksAbout(document, level)) {
      found += (found.empty() ? "" : "; ") + outcome.what;
    }
  }
  return fmt::format("--fail-on {}: {}{}{}", fmt::join(asked_, ", "), document.verdict.text,
                     found.empty() ? "" : "; ", found);
}

ExitClass Judge(const Document& document, const Gate& gate) {
  if (document.verdict.outcome == AnswerOutcome::kIncomplete) {
    return ExitClass::kFailed;
  }
  return gate.Fails(document) ? ExitClass::kFindings : ExitClass::kDone;
}

namespace {

Provenance& RunProvenance() {
  static auto* const provenance = new Provenance();
  return *provenance;
}

}  // namespace

void SetProvenance(Provenance provenance) { RunProvenance() = std::move(provenance); }
const Provenance& ThisRun() { return RunProvenance(); }

std::optional<SourceLine> SourceLineOf(std::string_view text) {
  constexpr size_t kMostDigits = 9;
  constexpr std::string_view kIn = " in ";
  const size_t in = text.find(kIn);
  for (size_t colon = text.find(':'); colon != std::string_view::npos;
       colon = text.find(':', colon + 1)) {
    const size_t end = std::min(text.find_first_not_of("0123456789", colon + 1), text.size());
    const size_t digits = end - colon - 1;
    if (colon > 0 && digits > 0 && digits <= kMostDigits &&
        (end == text.size() || text[end] == ' ')) {
      SourceLine source{std::string(text.substr(0, colon)), 0};
      std::from_chars(text.data() + colon + 1, text.data() + end, source.line);
      return source;
    }
    if (in != std::string_view::npos && in + kIn.size() <= colon) {
      break;  // behind the place stands code
    }
  }
  return std::nullopt;
}

}  // namespace msprobe::report
