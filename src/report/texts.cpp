#include "src/report/texts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

namespace msprobe::resources {
extern const std::string_view kAdvice;
extern const std::string_view kTexts;
}  // namespace msprobe::resources

namespace msprobe::report {
namespace {

using Json = nlohmann::ordered_json;

// Longer texts are data. Sentences stand in sentences no deeper.
constexpr size_t kLongestText = 4096;
constexpr int kDeepest = 8;
// A key with fewer letters of its own, such as "{0} of {1}", fits code and names, too.
constexpr size_t kTellingLetters = 6;
// A key with fewer takes no "name: text" in its places: "{0} file(s)" is not the frame of "none: no
// files".
constexpr size_t kFramingLetters = 14;
// A key with as many as "cannot run {0}: {1}" may end with what another program says.
constexpr size_t kReportingLetters = 10;
// Words of English in a row that have no translation, and make a text whose own key is missing: no
// key takes it, for what it translated would stand around English.
constexpr int kWordsOfProse = 2;
// Texts that are tried within one text: a name in a dump may be made so that each of its parts fits
// many keys.
constexpr int kMostTries = 4000;

// A key with places: what stands around them, and which value comes where.
struct Pattern {
  std::vector<std::string> pieces;  // one more than places
  std::vector<size_t> places;       // the number in each place
  std::string_view translation;
  size_t letters = 0;  // of the pieces
};

// "{0} of {1}" without its places: pieces "", " of ", "" and numbers 0, 1.
Pattern PatternOf(std::string_view key, std::string_view translation) {
  Pattern pattern{{std::string()}, {}, translation, 0};
  while (!key.empty()) {
    if (key.size() > 2 && key[0] == '{' && key[1] >= '0' && key[1] <= '9' && key[2] == '}') {
      pattern.places.push_back(static_cast<size_t>(key[1] - '0'));
      pattern.pieces.emplace_back();
      key.remove_prefix(3);
    } else {
      pattern.pieces.back() += key.front();
      ++pattern.letters;
      key.remove_prefix(1);
    }
  }
  return pattern;
}

// The key with and without each of its plurals.
void AddForms(const std::string& key, std::vector<std::string>& forms) {
  constexpr std::string_view kPlural = "(s)";
  const size_t at = key.find(kPlural);
  if (at == std::string::npos) {
    forms.push_back(key);
    return;
  }
  for (const char* ending : {"s", ""}) {
    AddForms(key.substr(0, at) + ending + key.substr(at + kPlural.size()), forms);
  }
}

class Translations {
 public:
  Translations() {
    const Json texts = Json::parse(resources::kTexts, nullptr, false);
    for (const auto& [key, translation] : texts.items()) {
      if (translation.is_string()) {
        all_.emplace_back(key, translation.get<std::string>());
      }
    }
    const Json advice = Json::parse(resources::kAdvice, nullptr, false);
    for (const auto& [id, row] : advice.items()) {
      all_.emplace_back(row.value("en", ""), row.value("zh", ""));
    }
    std::vector<std::string> forms;
    for (const auto& [key, translation] : all_) {
      forms.clear();
      AddForms(key, forms);
      for (const std::string& form : forms) {
        Pattern pattern = PatternOf(form, translation);
        if (pattern.places.empty()) {
          words_.emplace(form, translation);
        } else {
          patterns_.push_back(std::move(pattern));
        }
      }
    }
    std::stable_sort(patterns_.begin(), patterns_.end(),
                     [](const Pattern& a, const Pattern& b) { return a.letters > b.letters; });
    for (uint32_t index = 0; index < patterns_.size(); ++index) {
      const std::vector<std::string>& pieces = patterns_[index].pieces;
      if (!pieces.front().empty()) {
        by_first_[static_cast<uint8_t>(pieces.front().front())].push_back(index);
      } else if (!pieces.back().empty()) {
        by_last_[static_cast<uint8_t>(pieces.back().back())].push_back(index);
      } else {
        open_.push_back(index);
      }
    }
  }

  static const Translations& Chinese() {
    static const auto* const translations = new Translations();
    return *translations;
  }

  std::string_view Word(std::string_view english) const {
    const auto found = words_.find(english);
    return found == words_.end() ? std::string_view() : found->second;
  }

  // nullopt: there is none.
  std::optional<std::string> Text(std::string_view english) const {
    Tried tried;
    return Text(english, {0, tried});
  }

  const std::vector<std::pair<std::string, std::string>>& all() const { return all_; }

 private:
  // The texts within one text that were tried, and how deep they stood. Many keys ask about the
  // same part.
  struct Try {
    int level;
    std::optional<std::string> translation;
  };
  struct Tried {
    std::map<std::pair<const char*, size_t>, Try> texts;
    int left = kMostTries;
  };
  struct Depth {
    int level;
    Tried& tried;
    Depth Below() const { return {level + 1, tried}; }
  };

  std::optional<std::string> Text(std::string_view english, Depth depth) const {
    if (const std::string_view word = Word(english); !word.empty()) {
      return std::string(word);
    }
    // Every key with places has a blank.
    if (depth.level >= kDeepest || english.size() > kLongestText ||
        english.find(' ') == std::string_view::npos) {
      return std::nullopt;
    }
    const std::pair part(english.data(), english.size());
    const auto earlier = depth.tried.texts.find(part);
    if (earlier != depth.tried.texts.end() && earlier->second.level <= depth.level) {
      return earlier->second.translation;
    }
    if (--depth.tried.left < 0) {
      return std::nullopt;
    }
    Try result = {depth.level, Find(english, depth)};
    depth.tried.texts.insert_or_assign(part, result);
    return std::move(result.translation);
  }

  std::optional<std::string> Find(std::string_view english, Depth depth) const {
    if (std::optional<std::string> verdict = AfterWord(english, depth)) {
      return verdict;
    }
    if (std::optional<std::string> message = BehindFlag(english, depth)) {
      return message;
    }
    bool has_tried_names = false;
    Candidates candidates = {by_first_[static_cast<uint8_t>(english.front())],
                             by_last_[static_cast<uint8_t>(english.back())], open_};
    while (const std::optional<uint32_t> index = Next(candidates)) {
      const Pattern& pattern = patterns_[*index];
      if (!has_tried_names && pattern.letters < kFramingLetters) {
        has_tried_names = true;
        if (std::optional<std::string> message = BehindName(english, depth)) {
          return message;
        }
      }
      const auto values = Match(pattern, english);
      if (values && (pattern.letters >= kTellingLetters || AreTexts(*values, depth)) &&
          !HoldProse(pattern, *values, depth)) {
        return Fill(pattern, *values, depth);
      }
    }
    for (const auto& [separator, translated] :
         {std::pair("; ", "；"), std::pair(", ", "，"), std::pair(" / ", " / ")}) {
      if (std::optional<std::string> list = Parts(english, separator, translated, depth)) {
        return list;
      }
    }
    return AfterLabel(english);
  }

  // The patterns that a text may fit, in their order: those with its first character, those that
  // begin with a place and have its last one, and those with a place at both ends.
  using Candidates = std::array<std::span<const uint32_t>, 3>;

  static std::optional<uint32_t> Next(Candidates& candidates) {
    std::span<const uint32_t>* next = nullptr;
    for (std::span<const uint32_t>& list : candidates) {
      if (!list.empty() && (next == nullptr || list.front() < next->front())) {
        next = &list;
      }
    }
    if (next == nullptr) {
      return std::nullopt;
    }
    const uint32_t index = next->front();
    *next = next->subspan(1);
    return index;
  }

  // "DIFFERENT: it starts with ...": a word of a verdict and what follows it.
  std::optional<std::string> AfterWord(std::string_view english, Depth depth) const {
    const size_t colon = english.find(": ");
    if (colon == std::string_view::npos || english.front() < 'A' || english.front() > 'Z') {
      return std::nullopt;
    }
    const std::string_view word = english.substr(0, colon);
    const std::string_view translated = Word(word);
    if (translated.empty() || word.size() < 2 || word[1] < 'A' || word[1] > 'Z') {
      return std::nullopt;
    }
    const std::string_view rest = english.substr(colon + 2);
    if (IsProse(rest, depth)) {
      return std::nullopt;
    }
    return std::string(translated) + "：" + Text(rest, depth.Below()).value_or(std::string(rest));
  }

  // "dump.json: line 3: what is wrong": names of files and keys stay, what follows them is
  // translated.
  std::optional<std::string> BehindName(std::string_view english, Depth depth) const {
    const size_t colon = english.find(": ");
    if (colon == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view name = english.substr(0, colon);
    const std::optional<std::string> text = Text(english.substr(colon + 2), depth.Below());
    if (!text || IsProse(name, depth)) {
      return std::nullopt;
    }
    return Text(name, depth.Below()).value_or(std::string(name)) + "：" + *text;
  }

  // "--fail-on error, missing: what was found": a flag and its values stay.
  std::optional<std::string> BehindFlag(std::string_view english, Depth depth) const {
    const size_t colon = english.find(": ");
    const size_t blank = english.find(' ');
    if (!english.starts_with("--") || colon == std::string_view::npos || blank > colon ||
        !AreWords(english.substr(blank + 1, colon - blank - 1))) {
      return std::nullopt;
    }
    const std::optional<std::string> text = Text(english.substr(colon + 2), depth.Below());
    return text ? std::optional(std::string(english.substr(0, colon)) + "：" + *text)
                : std::nullopt;
  }

  // "results in this folder: /tmp/a": only what stands in front has a translation.
  std::optional<std::string> AfterLabel(std::string_view english) const {
    const size_t colon = english.find(": ");
    const std::string_view label = english.substr(0, colon);
    if (colon == std::string_view::npos || label.find(' ') == std::string_view::npos ||
        Word(label).empty()) {
      return std::nullopt;
    }
    return std::string(Word(label)) + "：" + std::string(english.substr(colon + 2));
  }

  // Whether parentheses close in their order: "fc1 (Linear" is not a value.
  static bool AreBalanced(std::string_view text) {
    int open = 0;
    for (const char c : text) {
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (open < 0) {
        return false;
      }
    }
    return open == 0;
  }

  // What stands in the places, in their order in the text; each at least one character, or quoted.
  // A text that divides in several ways is divided where its first values are shortest.
  static std::optional<std::vector<std::string_view>> Match(const Pattern& pattern,
                                                            std::string_view text) {
    if (!text.starts_with(pattern.pieces.front()) || !text.ends_with(pattern.pieces.back())) {
      return std::nullopt;
    }
    constexpr int kMostDivisions = 16;
    int left = kMostDivisions;
    std::vector<std::string_view> values;
    return Divide(pattern, text, pattern.pieces.front().size(), values, left)
               ? std::optional(std::move(values))
               : std::nullopt;
  }

  // The values behind those that are known, from `at` on; `left`: ways that may still be tried.
  static bool Divide(const Pattern& pattern, std::string_view text, size_t at,
                     std::vector<std::string_view>& values, int& left) {
    const size_t place = values.size() + 1;
    if (place == pattern.pieces.size()) {
      return true;
    }
    const std::string& piece = pattern.pieces[place];
    const bool is_last = place + 1 == pattern.pieces.size();
    const bool may_be_empty = pattern.pieces[place - 1].ends_with('"') && piece.starts_with('"');
    const size_t least = at + (may_be_empty ? 0 : 1);
    if (least + piece.size() > text.size()) {
      return false;
    }
    for (size_t next = is_last ? text.size() - piece.size() : text.find(piece, least);
         next != std::string_view::npos && next >= least && --left >= 0;
         next = is_last ? std::string_view::npos : text.find(piece, next + 1)) {
      values.push_back(text.substr(at, next - at));
      if (AreBalanced(values.back()) && Divide(pattern, text, next + piece.size(), values, left)) {
        return true;
      }
      values.pop_back();
    }
    return false;
  }

  // Whether each is a word, a list of words, or a text that has a translation.
  bool AreTexts(const std::vector<std::string_view>& values, Depth depth) const {
    return std::all_of(values.begin(), values.end(), [&](std::string_view value) {
      return AreWords(value) || Text(value, depth.Below());
    });
  }

  // "a", "a, b, c"
  static bool AreWords(std::string_view text) {
    size_t blank = text.find(' ');
    while (blank != std::string_view::npos && blank > 0 && text[blank - 1] == ',') {
      blank = text.find(' ', blank + 1);
    }
    return blank == std::string_view::npos;
  }

  // Whether a value is a text without a translation. What another program says may stand last,
  // behind a colon.
  bool HoldProse(const Pattern& pattern, const std::vector<std::string_view>& values,
                 Depth depth) const {
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_foreign = pattern.letters >= kReportingLetters && i + 1 == values.size() &&
                              pattern.pieces[i].ends_with(": ") && pattern.pieces[i + 1].empty();
      // "a; b of c": a place ends with its sentence, as it does with what names it ("a: b of c").
      const bool begins = i == 0 && pattern.pieces.front().empty();
      const bool ends = i + 1 == values.size() && pattern.pieces[i + 1].empty() &&
                        !pattern.pieces[i].ends_with(": ");
      const bool is_list =
          ((begins || ends) && values[i].find("; ") != std::string_view::npos) ||
          (begins && values[i].find(": ") != std::string_view::npos && Word(values[i]).empty());
      const bool is_labelled = values[i].find(": ") != std::string_view::npos &&
                               (pattern.letters < kFramingLetters || values[i].starts_with("--")) &&
                               !values[i].starts_with("msprobe ") &&
                               !Text(values[i], depth.Below());
      if (is_list || is_labelled || (!is_foreign && IsProse(values[i], depth))) {
        return true;
      }
    }
    return false;
  }

  bool IsProse(std::string_view value, Depth depth) const {
    // A command line, or a line of a program.
    if (value.starts_with("msprobe ") || value.find(".py:") != std::string_view::npos) {
      return false;
    }
    if (value.find("; ") != std::string_view::npos) {
      return !Text(value, depth.Below());
    }
    int words = 0;
    for (std::string_view rest = value; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      std::string_view word = rest.substr(0, end);
      const bool ends = word.ends_with(':') || word.ends_with(';') || word.ends_with(',');
      word.remove_suffix(ends ? 1 : 0);
      word.remove_prefix(!word.empty() && word.front() >= 'A' && word.front() <= 'Z' ? 1 : 0);
      const bool is_word = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return c >= 'a' && c <= 'z';
      });
      words = is_word ? words + 1 : 0;
      if (words >= kWordsOfProse) {
        return !Text(value, depth.Below());
      }
      words = ends ? 0 : words;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  }

  // A place of a translation: {0}, and {0=} for words that stay as they are.
  struct Place {
    size_t number;
    bool keeps_words;
    size_t size;
  };
  static std::optional<Place> PlaceAt(std::string_view text) {
    if (text.size() < 3 || text[0] != '{' || text[1] < '0' || text[1] > '9') {
      return std::nullopt;
    }
    const bool keeps_words = text[2] == '=';
    const size_t end = keeps_words ? 3 : 2;
    return end < text.size() && text[end] == '}'
               ? std::optional<Place>({static_cast<size_t>(text[1] - '0'), keeps_words, end + 1})
               : std::nullopt;
  }

  std::string Fill(const Pattern& pattern, const std::vector<std::string_view>& values,
                   Depth depth) const {
    std::array<std::string_view, 10> by_number;
    for (size_t i = 0; i < values.size(); ++i) {
      by_number[pattern.places[i]] = values[i];
    }
    const auto is_wide = [](char c) { return static_cast<uint8_t>(c) >= 0x80; };
    std::string filled;
    // Chinese characters follow each other without a blank.
    const auto append = [&](std::string_view more) {
      const size_t letter = filled.find_last_not_of(' ');
      const size_t first = more.find_first_not_of(' ');
      if (letter != std::string::npos && first != std::string_view::npos &&
          is_wide(filled[letter]) && is_wide(more[first])) {
        filled.resize(letter + 1);
        more.remove_prefix(first);
      }
      filled += more;
    };
    for (std::string_view rest = pattern.translation; !rest.empty();) {
      if (const auto place = PlaceAt(rest)) {
        const std::string_view value = by_number[place->number];
        const bool stays = place->keeps_words && AreWords(value);
        append(stays ? value : Text(value, depth.Below()).value_or(std::string(value)));
        rest.remove_prefix(place->size);
      } else {
        const size_t end = std::min(rest.find('{', 1), rest.size());
        append(rest.substr(0, end));
        rest.remove_prefix(end);
      }
    }
    return filled;
  }

  static bool HasLetters(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  }

  // A list of texts. All of them are translated, or nothing is.
  std::optional<std::string> Parts(std::string_view english, std::string_view separator,
                                   std::string_view translated, Depth depth) const {
    if (english.find(separator) == std::string_view::npos) {
      return std::nullopt;
    }
    std::string list;
    bool is_text = false;
    for (std::string_view rest = english;;) {
      const size_t end = rest.find(separator);
      const std::string_view part = rest.substr(0, end);
      const std::optional<std::string> text = Text(part, depth.Below());
      const bool may_stay = separator == " / " && AreWords(part);  // a value of two
      if (!text && !may_stay && HasLetters(part)) {
        return std::nullopt;
      }
      is_text = is_text || text;
      list += text.value_or(std::string(part));
      if (end == std::string_view::npos) {
        return is_text ? std::optional(list) : std::nullopt;
      }
      list += translated;
      rest.remove_prefix(end + separator.size());
    }
  }

  std::vector<std::pair<std::string, std::string>> all_;
  std::map<std::string, std::string_view, std::less<>> words_;
  std::vector<Pattern> patterns_;  // those with the most letters first
  std::array<std::vector<uint32_t>, 256> by_first_;
  std::array<std::vector<uint32_t>, 256> by_last_;
  std::vector<uint32_t> open_;
};

// Every text of a document once.
void CollectTexts(const Json& value, std::map<std::string, std::string>& found) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (!found.contains(text)) {
      found.emplace(text, InLanguage(text, Language::kChinese));
    }
  }
  if (value.is_structured()) {
    for (const Json& inner : value) {
      CollectTexts(inner, found);
    }
  }
}

}  // namespace

Language LanguageOfLocale() {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') {
      return std::string_view(value).starts_with("zh") ? Language::kChinese : Language::kEnglish;
    }
  }
  return Language::kEnglish;
}

std::string InLanguage(std::string_view english, Language language) {
  constexpr std::string_view kGap = "  ";
  const size_t first = english.find_first_not_of(' ');
  if (language == Language::kEnglish || first == std::string_view::npos) {
    return std::string(english);
  }
  // Columns of a line are texts of their own, or all of them are one.
  std::string translated(english.substr(0, first));
  bool is_text = false;
  for (std::string_view rest = english.substr(first); !rest.empty();) {
    const size_t gap = std::min(rest.find(kGap), rest.find_last_not_of(' ') + 1);
    const std::optional<std::string> column = Translations::Chinese().Text(rest.substr(0, gap));
    is_text = is_text || column;
    translated += column.value_or(std::string(rest.substr(0, gap)));
    const size_t next = std::min(rest.find_first_not_of(' ', gap), rest.size());
    translated.append(next - gap, ' ');
    rest.remove_prefix(next);
  }
  const size_t end = english.find_last_not_of(' ') + 1;
  const std::optional<std::string> whole =
      is_text ? std::nullopt : Translations::Chinese().Text(english.substr(first, end - first));
  return whole ? std::string(english.substr(0, first)) + *whole + std::string(english.substr(end))
               : translated;
}

std::string_view WordInLanguage(std::string_view english, Language language) {
  if (language == Language::kEnglish || english.empty()) {
    return english;
  }
  const std::string_view word = Translations::Chinese().Word(english);
  return word.empty() ? english : word;
}

std::string TranslationsOf(std::string_view json, const std::vector<std::string>& words) {
  std::map<std::string, std::string> found;
  if (const Json document = Json::parse(json, nullptr, false); !document.is_discarded()) {
    CollectTexts(document, found);
  }
  for (const std::string& word : words) {
    found.emplace(word, WordInLanguage(word, Language::kChinese));
  }
  Json translations = Json::object();
  for (const auto& [english, chinese] : found) {
    if (english != chinese) {
      translations[english] = chinese;
    }
  }
  return translations.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string WithTranslations(std::string json, const std::vector<std::string>& words) {
  const std::string translations = TranslationsOf(json, words);
  json.erase(json.find_last_of('}'));
  return json + (json.size() > 1 ? "," : "") + "\"zh\":" + translations + "}";
}

std::vector<std::pair<std::string, std::string>> AllTexts() {
  return Translations::Chinese().all();
}

}  // namespace msprobe::report
