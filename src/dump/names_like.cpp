#include "src/dump/names_like.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/names.h"

namespace msprobe::dump {
namespace {

constexpr size_t kMost = 5;
constexpr size_t kShortestPart = 3;       // fewer letters are in every second name
constexpr size_t kMostSubjects = 10'000;  // that a word is held against

}  // namespace

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
    for (size_t i = 0; i < names.size() && found.size() < kMost; ++i) {
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
