// The texts of msprobe in other languages than English: config/texts.json, and the advice of
// config/advice.json.
//
// Documents, messages and help are made in English, which programs read as well: JSON, JUnit, CSV
// and files never change with the language. A form for people asks for the translation of a text
// when it is shown. A key of the table is an English text with {0}, {1} where something differs;
// "(s)" is a plural that may be there or not. A text that is not a key as a whole is matched with
// the keys that have places, the one with the most letters of its own first; what fills the places
// is translated in its turn ("3 rows" within a sentence). Names, numbers and messages of other
// programs, for which there is no key, stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msprobe::report {

enum class Language : uint8_t { kEnglish, kChinese };

// By LC_ALL, LC_MESSAGES or LANG, the first that is set; English unless it begins with "zh".
Language LanguageOfLocale();

// A text in `language`; as it is where no translation is known.
std::string InLanguage(std::string_view english, Language language);
// The same for one that is a key as a whole: cells of tables, whose values may be anything.
std::string_view WordInLanguage(std::string_view english, Language language);

// For pages, which switch between languages: {English: Chinese} of all texts of a JSON object that
// have a translation, as JSON. `words`: further ones, of which only whole keys are looked up.
std::string TranslationsOf(std::string_view json, const std::vector<std::string>& words = {});
// The object with that as one more member, "zh".
std::string WithTranslations(std::string json, const std::vector<std::string>& words = {});

// All keys with their translations, as they stand in the tables.
std::vector<std::pair<std::string, std::string>> AllTexts();

}  // namespace msprobe::report
