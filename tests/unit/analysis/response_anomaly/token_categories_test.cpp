#include "src/analysis/response_anomaly/token_categories.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace msprobe::analysis::response_anomaly {
namespace {

TEST(TokenCategory, IsTheClassOfMostCharacters) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"", "other"},
      {"the", "english_latin"},
      {" the", "english_latin_space"},
      {"\xE2\x96\x81the", "english_latin_space"},
      {"2024", "numbers"},
      {"...", "punctuation"},
      {"===", "symbol_cluster"},
      {"你好", "cjk"},
      {"ひら", "hiragana"},
      {"한", "hangul"},
      {"\x01", "control_bytes"},
      {"\n", "whitespace"},
      {"\xE4\xBD", "symbol_cluster"},  // two bytes of three
      {"😀", "emoji"},
      {"абв", "cyrillic"},
      {"+-+-=a", "gibberish_symbols"},
  };
  for (const auto& [text, category] : expected) {
    EXPECT_EQ(TokenCategory(text), category) << text;
  }
}

TEST(ParseVocabulary, DecodesByteLevels) {
  const Result<Vocabulary> read = ParseVocabulary(
      R"({"added_tokens": [{"id": 3, "content": "<end>", "special": true}],
          "decoder": {"type": "ByteLevel"},
          "model": {"type": "BPE", "vocab": {"Ġa": 0, "ä½łå¥½": 1}, "merges": ["a b", ["a", "b"]]}})");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->texts, (std::vector<std::string>{" a", "你好", "", "<end>"}));
  EXPECT_EQ(read->special.at("<end>"), 3);
}

TEST(ParseVocabulary, ReadsListsOfPiecesWithBytes) {
  const Result<Vocabulary> read = ParseVocabulary(
      R"({"model": {"type": "Unigram", "vocab": [["<unk>", 0], ["▁a", -1.5], ["<0x0A>", -2]]},
          "decoder": {"type": "Sequence", "decoders": [{"type": "Replace",
                      "pattern": {"String": "▁"}, "content": " "}]}})");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->texts, (std::vector<std::string>{"<unk>", " a", "\n"}));
}

TEST(ParseVocabulary, TakesAVocabularyAlone) {
  const Result<Vocabulary> read = ParseVocabulary(R"({"Ġa": 1, "b": 0})");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->texts, (std::vector<std::string>{"b", " a"}));
}

TEST(ParseVocabulary, RefusesWhatIsNone) {
  for (const char* text : {"{}", "[]", "{", R"({"a": -1})", R"({"a": 99999999999})",
                           R"({"model": {"vocab": {"a": 16777216}}})"}) {
    EXPECT_FALSE(ParseVocabulary(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msprobe::analysis::response_anomaly
