#include "src/dump/names.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::dump {
namespace {

constexpr std::string_view kForward = "forward";
constexpr std::string_view kBackward = "backward";
constexpr std::string_view kDebug = "debug";
constexpr std::string_view kParametersGrad = "parameters_grad";

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The part behind the last dot, which is cut off `rest` together with its dot. The whole text when
// there is no dot.
std::string_view TakeLastPart(std::string_view& rest) {
  const size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) {
    const std::string_view all = rest;
    rest = {};
    return all;
  }
  const std::string_view part = rest.substr(dot + 1);
  rest = rest.substr(0, dot);
  return part;
}

Direction DirectionOf(std::string_view part) {
  if (part == kForward) {
    return Direction::kForward;
  }
  return part == kBackward ? Direction::kBackward : Direction::kNone;
}

// Where a dot-separated part equal to `word` starts, or npos.
size_t FindPart(std::string_view name, std::string_view word) {
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) {
      return at;
    }
  }
  return std::string_view::npos;
}

// "net.fc.Linear" -> subject "net.fc", class "Linear".
void TakeModulePath(std::string_view path, EntryName& entry) {
  entry.class_name = TakeLastPart(path);
  entry.subject = path;
}

// A name's direction part: where it starts, and whether it is the last part ("...0.forward") or the
// last but one
// ("...forward.0").
struct DirectionPart {
  Direction direction = Direction::kNone;
  size_t at = 0;
  bool is_last = false;
};

DirectionPart FindDirection(std::string_view name) {
  std::string_view rest = name;
  const std::string_view last = TakeLastPart(rest);
  if (const Direction direction = DirectionOf(last);
      direction != Direction::kNone && !rest.empty()) {
    return {direction, rest.size() + 1, true};
  }
  if (rest.empty() || !IsNumber(last)) {
    return {};
  }
  const std::string_view before = TakeLastPart(rest);
  if (const Direction direction = DirectionOf(before);
      direction != Direction::kNone && !rest.empty()) {
    return {direction, rest.size() + 1, false};
  }
  return {};
}

// The one match of \.(forward|backward)\. in `name`: where its word starts and ends. Nothing when
// there is none or a second one; matches do not overlap, so that the dot between two words belongs
// to the first.
struct WordMatch {
  size_t begin = 0;
  size_t end = 0;
};
std::optional<WordMatch> FindOnlyDirection(std::string_view name) {
  std::optional<WordMatch> found;
  for (size_t at = name.find('.'); at != std::string_view::npos;) {
    const std::string_view behind = name.substr(at + 1);
    const std::string_view word = behind.starts_with(kForward)    ? kForward
                                  : behind.starts_with(kBackward) ? kBackward
                                                                  : std::string_view();
    size_t next = at + 1;
    if (!word.empty() && behind.substr(word.size()).starts_with('.')) {
      if (found) {
        return std::nullopt;
      }
      found = WordMatch{at + 1, at + 1 + word.size()};
      next = found->end + 1;
    }
    at = name.find('.', next);
  }
  return found;
}

// Whether .+$ matches all of `text`: a dot matches anything but a line end, and $ also stands
// before a final one.
bool IsOneLine(std::string_view text) {
  const size_t line_end = text.find('\n');
  return !text.empty() && line_end != 0 &&
         (line_end == std::string_view::npos || line_end == text.size() - 1);
}

constexpr size_t kMostAlike = 5;
constexpr size_t kShortestPart = 3;       // fewer letters are in every second name
constexpr size_t kMostSubjects = 10'000;  // that a word is held against

}  // namespace

std::string_view RowStateName(RowState state) {
  constexpr std::array<std::string_view, 6> kNames = {"input",      "output",          "kwargs",
                                                      "parameters", "parameters_grad", "debug"};
  return kNames[static_cast<size_t>(state)];
}

EntryName ParseEntryName(std::string_view name) {
  EntryName entry;
  const size_t first_dot = name.find('.');
  entry.kind = name.substr(0, first_dot);
  const std::string_view behind_kind =
      first_dot == std::string_view::npos ? std::string_view() : name.substr(first_dot + 1);
  entry.subject = behind_kind;
  if (const size_t at = FindPart(name, kDebug); at != std::string_view::npos) {
    entry.is_debug = true;
    entry.subject = name.substr(0, at > 0 ? at - 1 : 0);
    std::string_view rest = entry.subject;
    if (const std::string_view count = TakeLastPart(rest); IsNumber(count) && !rest.empty()) {
      entry.call = base::ParseInt(count);
    }
    return entry;
  }
  entry.is_module = entry.kind == "Module" || entry.kind == "Cell";
  if (const size_t at = FindPart(behind_kind, kParametersGrad); at != std::string_view::npos) {
    entry.is_parameters_grad = true;
    TakeModulePath(behind_kind.substr(0, at > 0 ? at - 1 : 0), entry);
    return entry;
  }
  const DirectionPart part = FindDirection(name);
  if (part.direction == Direction::kNone || part.at <= first_dot) {
    return entry;
  }
  entry.direction = part.direction;
  // Between the kind's dot and the direction's.
  std::string_view middle = part.at > first_dot + 1
                                ? name.substr(first_dot + 1, part.at - first_dot - 2)
                                : std::string_view();
  if (part.is_last) {
    std::string_view rest = middle;
    if (const std::string_view count = TakeLastPart(rest); IsNumber(count)) {
      entry.call = base::ParseInt(count);
      middle = rest;
    }
    entry.subject = middle;
    return entry;
  }
  entry.call = base::ParseInt(name.substr(name.rfind('.') + 1));
  TakeModulePath(middle, entry);
  return entry;
}

std::optional<RowName> ParseRowName(std::string_view name) {
  if (FindPart(name, kDebug) != std::string_view::npos) {
    return RowName{RowState::kDebug, name.substr(0, name.find(kDebug))};
  }
  if (FindPart(name, kParametersGrad) != std::string_view::npos) {
    return RowName{RowState::kParametersGrad, name.substr(0, name.find(kParametersGrad))};
  }
  const std::optional<WordMatch> direction = FindOnlyDirection(name);
  if (!direction) {
    return std::nullopt;
  }
  size_t at = direction->end + 1;
  size_t digits_end = at;
  while (digits_end < name.size() && name[digits_end] >= '0' && name[digits_end] <= '9') {
    ++digits_end;
  }
  if (digits_end > at && name.substr(digits_end).starts_with('.')) {
    at = digits_end + 1;
  }
  const std::string_view rest = name.substr(at);
  for (RowState state :
       {RowState::kInput, RowState::kOutput, RowState::kKwargs, RowState::kParameters}) {
    const std::string_view word = RowStateName(state);
    if (rest.starts_with(word) && rest.substr(word.size()).starts_with('.') &&
        IsOneLine(rest.substr(word.size() + 1))) {
      return RowName{state, name.substr(0, at)};
    }
  }
  return std::nullopt;
}

std::string WithDirection(std::string_view entry_name, Direction direction) {
  std::string changed(entry_name);
  const DirectionPart part = FindDirection(entry_name);
  if (part.direction == Direction::kNone || direction == Direction::kNone) {
    return changed;
  }
  const std::string_view old_word = part.direction == Direction::kForward ? kForward : kBackward;
  changed.replace(part.at, old_word.size(),
                  direction == Direction::kForward ? kForward : kBackward);
  return changed;
}

std::vector<std::string> NamesLike(std::string_view word, std::span<const std::string> names) {
  const EntryName asked = ParseEntryName(word);
  // "gelu.0" and the like lack the kind.
  const bool has_subject = asked.subject.find_first_not_of("0123456789") != std::string_view::npos;
  const std::string wanted = base::AsciiLower(has_subject ? asked.subject : word);
  std::vector<std::string> subjects;  // in lower case, of `names`
  std::vector<std::string> known;     // each once
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    subjects.push_back(base::AsciiLower(ParseEntryName(name).subject));
    if (known.size() < kMostSubjects && seen.insert(subjects.back()).second) {
      known.push_back(subjects.back());
    }
  }
  const std::optional<std::string> nearest = base::NearestMatch(wanted, known);
  std::vector<std::string> found;
  const auto add = [&](const auto& fits) {
    for (size_t i = 0; i < names.size() && found.size() < kMostAlike; ++i) {
      if (fits(i) && std::find(found.begin(), found.end(), names[i]) == found.end()) {
        found.push_back(names[i]);
      }
    }
  };
  add([&](size_t i) { return subjects[i] == wanted; });
  if (wanted.size() >= kShortestPart) {
    add([&](size_t i) { return base::AsciiLower(names[i]).find(wanted) != std::string::npos; });
  }
  if (found.empty() && nearest) {
    add([&](size_t i) { return subjects[i] == *nearest; });
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string NamesLikeHint(std::string_view word, std::span<const std::string> names,
                          const std::string& json) {
  const std::vector<std::string> like = NamesLike(word, names);
  return like.empty() ? fmt::format("msprobe show {} lists its calls", base::Printable(json))
                      : "it has " + base::Printable(base::Join(like, ", "));
}

}  // namespace msprobe::dump
