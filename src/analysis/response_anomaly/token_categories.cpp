// The vocabulary is read as events, so that the merges of a tokenizer.json, most of the file, are
// passed over. A token becomes the text that it stands for: byte-level vocabularies spell every
// byte as a character of its own, others spell blanks as U+2581 and single bytes as <0x0A>. Each
// character of the text then has a class (config/character_classes.txt), and the class of most of
// them names the token.
#include "src/analysis/response_anomaly/token_categories.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/json/config.h"
#include "src/json/document.h"
#include "src/json/stream_reader.h"

namespace msprobe::resources {
extern const std::string_view kCharacterClasses;
}  // namespace msprobe::resources

namespace msprobe::analysis::response_anomaly {
namespace {

using json::Json;

constexpr uint64_t kLargestTokenizer = uint64_t{1} << 29U;
constexpr int64_t kMostTokens = int64_t{1} << 24U;  // vocabularies in use: a quarter of a million
constexpr uint64_t kLargestSmallFile = uint64_t{1} << 24U;

// How the texts of a vocabulary are spelled.
enum class Spelling : uint8_t { kPlain, kByteLevel, kUnderscore };

// Hears a tokenizer.json: model.vocab, added_tokens and the types of its decoder; or an object that
// is nothing but a vocabulary. Other members are passed over.
class VocabularyHandler final : public json::Handler {
 public:
  struct Token {
    std::string text;
    int64_t id = 0;
    bool is_added = false;
  };
  std::vector<Token> tokens;
  Spelling spelling = Spelling::kPlain;
  std::string complaint;
  bool has_model = false;

  bool OnNull() override { return Leave(); }
  bool OnBool(bool) override { return Leave(); }
  bool OnInt(int64_t value) override {
    if (is_vocabulary() && names_.size() == depth_of_vocabulary_ && !in_list_of_pieces_) {
      return Add(names_.back(), value, false) && Leave();
    }
    if (is_added_token() && names_.back() == "id") {
      added_.id = value;
    }
    return Leave();
  }
  bool OnFloat(double, std::string_view) override { return Leave(); }
  bool OnText(std::string_view value) override {
    if (in_list_of_pieces_ && names_.size() == 4 && piece_part_ == 0) {
      // Unigram: [[text, score], ...]
      if (!Add(std::string(value), pieces_++, false)) {
        return false;
      }
      ++piece_part_;
    } else if (is_added_token() && names_.back() == "content") {
      added_.text = value;
    } else if (names_.size() >= 2 && names_.front() == "decoder" && names_.back() == "type" &&
               value == "ByteLevel") {
      spelling = Spelling::kByteLevel;
    } else if (names_.size() >= 2 && names_.front() == "decoder" && spelling == Spelling::kPlain &&
               (value == "Metaspace" || value.find("\xE2\x96\x81") != std::string_view::npos)) {
      spelling = Spelling::kUnderscore;
    }
    return Leave();
  }
  bool OnBeginObject() override {
    if (names_.size() == 1 && names_.back() == "model") {
      has_model = true;
    }
    if (names_.size() == 2 && names_.front() == "added_tokens") {
      added_ = {.text = {}, .id = -1, .is_added = true};
    }
    names_.emplace_back();
    return Deep();
  }
  bool OnKey(std::string_view key) override {
    names_.back() = key;
    return true;
  }
  bool OnEndObject() override {
    names_.pop_back();
    if (names_.size() == 2 && names_.front() == "added_tokens" && added_.id >= 0 &&
        !Add(added_.text, added_.id, true)) {
      return false;
    }
    return Leave();
  }
  bool OnBeginArray() override {
    if (names_.size() == 2 && names_[0] == "model" && names_[1] == "vocab") {
      in_list_of_pieces_ = true;
    }
    piece_part_ = 0;
    names_.emplace_back("[");
    return Deep();
  }
  bool OnEndArray() override {
    names_.pop_back();
    if (names_.size() == 2) {
      in_list_of_pieces_ = false;
    }
    return Leave();
  }

  // The members of the document itself, where it is only a vocabulary.
  void ReadPlain() { depth_of_vocabulary_ = 1; }

 private:
  bool is_vocabulary() const {
    return depth_of_vocabulary_ == 1
               ? names_.size() == 1
               : names_.size() == 3 && names_[0] == "model" && names_[1] == "vocab";
  }
  bool is_added_token() const { return names_.size() == 3 && names_.front() == "added_tokens"; }
  bool Leave() { return complaint.empty(); }
  bool Deep() {
    if (names_.size() > 64) {
      complaint = "nests too deeply";
    }
    return complaint.empty();
  }
  bool Add(std::string text, int64_t id, bool is_added) {
    if (id < 0 || id >= kMostTokens) {
      complaint = fmt::format("\"{}\" has the id {}", base::Printable(text), id);
      return false;
    }
    tokens.push_back({std::move(text), id, is_added});
    return true;
  }

  std::vector<std::string> names_;  // of the members that are open; "[" of a list
  size_t depth_of_vocabulary_ = 3;
  bool in_list_of_pieces_ = false;
  int64_t pieces_ = 0;
  int piece_part_ = 0;
  Token added_;
};

// The byte that a character of a byte-level vocabulary stands for: printable ones of Latin-1 for
// themselves, the others are numbered from U+0100.
std::optional<uint8_t> ByteOf(uint32_t code) {
  const auto is_itself = [](uint32_t byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  };
  if (code < 256) {
    return is_itself(code) ? std::optional(static_cast<uint8_t>(code)) : std::nullopt;
  }
  uint32_t number = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!is_itself(byte) && number++ == code) {
      return static_cast<uint8_t>(byte);
    }
  }
  return std::nullopt;
}

std::string Decoded(std::string_view text, Spelling spelling) {
  constexpr std::string_view kBlank = "\xE2\x96\x81";
  if (spelling == Spelling::kPlain) {
    return std::string(text);
  }
  std::string out;
  if (spelling == Spelling::kUnderscore) {
    unsigned byte = 0;
    if (text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
        std::from_chars(text.data() + 3, text.data() + 5, byte, 16).ptr == text.data() + 5) {
      return std::string(1, static_cast<char>(byte));
    }
    return base::ReplaceAll(text, kBlank, " ");
  }
  while (!text.empty()) {
    const base::Utf8Char character = base::DecodeUtf8(text);
    if (const std::optional<uint8_t> byte = ByteOf(character.code); character.valid && byte) {
      out += static_cast<char>(*byte);
    } else {
      out += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

struct ClassRun {
  uint32_t first = 0;
  std::string_view name;
};

// The runs of characters of one class, in their order.
const std::vector<ClassRun>& ClassRuns() {
  static const std::vector<ClassRun> runs = [] {
    std::vector<ClassRun> read;
    for (const std::string_view line : base::Split(resources::kCharacterClasses, '\n')) {
      const size_t blank = line.find(' ');
      uint32_t first = 0;
      if (line.starts_with('#') || blank == std::string_view::npos ||
          std::from_chars(line.data(), line.data() + blank, first, 16).ec != std::errc()) {
        continue;
      }
      read.push_back({first, line.substr(blank + 1)});
    }
    return read;
  }();
  return runs;
}

std::string_view ClassOf(uint32_t code) {
  const std::vector<ClassRun>& runs = ClassRuns();
  const auto behind = std::upper_bound(
      runs.begin(), runs.end(), code,
      [](uint32_t character, const ClassRun& run) { return character < run.first; });
  return behind == runs.begin() ? std::string_view("other") : std::prev(behind)->name;
}

}  // namespace

std::string TokenCategory(std::string_view text) {
  struct Count {
    std::string_view name;
    size_t characters = 0;
  };
  std::vector<Count> counts;  // in the order in which they are met: the first wins a tie
  size_t total = 0;
  size_t printable = 0;
  bool has_blank = false;
  const auto count_of = [&](std::string_view name) {
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const Count& count) { return count.name == name; });
    return found == counts.end() ? 0.0 : static_cast<double>(found->characters);
  };
  while (!text.empty()) {
    const base::Utf8Char character = base::DecodeUtf8(text);
    text.remove_prefix(character.bytes);
    // Bytes that do not make a whole character print as U+FFFD.
    const std::string_view found = ClassOf(character.valid ? character.code : 0xFFFD);
    const bool is_blank = found == "blank" || found == "whitespace";
    const std::string_view name = is_blank ? "whitespace" : found;
    has_blank |= is_blank;
    printable += found == "whitespace" || found == "control" ? 0 : 1;
    ++total;
    const auto known = std::find_if(counts.begin(), counts.end(),
                                    [&](const Count& count) { return count.name == name; });
    if (known == counts.end()) {
      counts.push_back({name, 1});
    } else {
      ++known->characters;
    }
  }
  if (total == 0) {
    return "other";
  }
  const std::string_view most =
      std::max_element(counts.begin(), counts.end(), [](const Count& a, const Count& b) {
        return a.characters < b.characters;
      })->name;
  const double share = count_of(most) / static_cast<double>(total);
  const double printable_share = static_cast<double>(printable) / static_cast<double>(total);
  constexpr std::array<std::string_view, 6> kOwnName = {"cjk",    "hiragana", "katakana",
                                                        "hangul", "thai",     "variation_selector"};
  std::string label;
  if (most == "latin" && printable_share > 0.8) {
    return has_blank ? "english_latin_space" : "english_latin";
  }
  if (most == "digit" && share > 0.6) {
    return "numbers";
  }
  if (most == "punct" && share > 0.7) {
    return "punctuation";
  }
  if (most == "symbol" && share > 0.6) {
    return "symbol_cluster";
  }
  if (base::IsOneOf(most, kOwnName)) {
    return std::string(most);
  }
  if (most == "control") {
    label = "control_bytes";
  } else if (share < 0.5 && printable_share < 0.7) {
    label = "mixed_noise";
  } else {
    label = most == "punct" ? "punctuation" : most == "digit" ? "numbers" : std::string(most);
  }
  if (label != "punctuation" && label != "numbers" && total >= 3 &&
      (count_of("symbol") + count_of("punct")) / static_cast<double>(total) > 0.6) {
    return "gibberish_symbols";
  }
  return label;
}

Result<Vocabulary> ParseVocabulary(std::string_view text) {
  VocabularyHandler handler;
  MSP_RETURN_IF_ERROR(json::ParseStream(text, handler));
  if (handler.complaint.empty() && !handler.has_model) {
    handler = VocabularyHandler();
    handler.ReadPlain();
    handler.spelling = Spelling::kByteLevel;  // vocab.json belongs to such a vocabulary
    MSP_RETURN_IF_ERROR(json::ParseStream(text, handler));
  }
  if (!handler.complaint.empty()) {
    return BadFormatError(handler.complaint);
  }
  if (handler.tokens.empty()) {
    return BadFormatError("holds no vocabulary: neither model.vocab nor {\"text\": id}");
  }
  Vocabulary vocabulary;
  for (VocabularyHandler::Token& token : handler.tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (vocabulary.texts.size() <= id) {
      vocabulary.texts.resize(id + 1);
    }
    vocabulary.texts[id] = token.is_added ? token.text : Decoded(token.text, handler.spelling);
    if (token.is_added) {
      vocabulary.special.emplace(std::move(token.text), token.id);
    }
  }
  return vocabulary;
}

namespace {

// A small JSON file of the model; null where it is not there.
Result<Json> ModelFile(const std::filesystem::path& folder, const char* name) {
  if (!base::IsRegularFile(folder / name)) {
    return Json();
  }
  MSP_ASSIGN_OR_RETURN(const std::string text,
                       base::ReadTextFile(folder / name, kLargestSmallFile));
  MSP_ASSIGN_OR_RETURN(Json parsed, json::ParseDocument(text), (folder / name).string());
  return parsed;
}

bool IsTokenId(const Json& value) {
  return value.is_number_integer() && json::IntOf(value) >= 0 && json::IntOf(value) < kMostTokens;
}

bool AreTokenIds(const Json& value) {
  return IsTokenId(value) ||
         (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), IsTokenId));
}

// The id, or list of ids, that generation_config.json, config.json or the tokeniser names; null
// where none does.
Result<Json> SpecialId(const std::filesystem::path& folder, const std::string& which,
                       const Vocabulary& vocabulary) {
  for (const char* const file : {"generation_config.json", "config.json"}) {
    MSP_ASSIGN_OR_RETURN(const Json config, ModelFile(folder, file));
    const Json& id = json::Member(config, which + "_token_id");
    if (AreTokenIds(id)) {
      return id;
    }
    // Models of several kinds of input have the settings of their language below this name.
    const Json& nested = json::Member(json::Member(config, "text_config"), which + "_token_id");
    if (AreTokenIds(nested)) {
      return nested;
    }
  }
  MSP_ASSIGN_OR_RETURN(const Json config, ModelFile(folder, "tokenizer_config.json"));
  const Json& token = json::Member(config, which + "_token");
  const std::string& text =
      token.is_object() ? json::TextOf(json::Member(token, "content")) : json::TextOf(token);
  if (const auto found = vocabulary.special.find(text); found != vocabulary.special.end()) {
    return Json(found->second);
  }
  return Json();
}

std::string NameOf(const ModelConfigOptions& options) {
  std::string name = options.name;
  if (name.empty()) {
    name = base::WithoutLastSlash(std::filesystem::absolute(options.model).lexically_normal())
               .filename()
               .string();
  }
  name = base::AsciiLower(name);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return name;
}

Result<Json> TableBefore(const std::filesystem::path& path) {
  if (!base::Exists(path)) {
    return Json::object();
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(path, kLargestSmallFile));
  MSP_ASSIGN_OR_RETURN(Json table, json::ParseDocument(text), path.string());
  if (!table.is_object()) {
    return BadFormatError(
        fmt::format("{} must hold an object with a member per model", path.string()));
  }
  return table;
}

}  // namespace

Result<report::Document> WriteModelConfig(const ModelConfigOptions& options) {
  if (!base::IsFolder(options.model)) {
    return NotFoundError(fmt::format("{} is not a folder", options.model.string()))
        .WithHint("--model-path takes the folder of a model, with its tokenizer.json");
  }
  std::filesystem::path source = options.model / "tokenizer.json";
  if (!base::IsRegularFile(source)) {
    source = options.model / "vocab.json";
  }
  if (!base::IsRegularFile(source)) {
    return NotFoundError(
               fmt::format("{} holds no tokenizer.json and no vocab.json", options.model.string()))
        .WithHint("AutoTokenizer.from_pretrained(MODEL).save_pretrained(DIR) writes one");
  }
  const std::string name = NameOf(options);
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '-') {
    return UsageError(fmt::format("\"{}\" cannot be the name of a model", base::Printable(name)))
        .WithHint("--model-name gives another one");
  }
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(source, kLargestTokenizer));
  MSP_ASSIGN_OR_RETURN(const Vocabulary vocabulary, ParseVocabulary(text), source.string());
  MSP_ASSIGN_OR_RETURN(Json bos, SpecialId(options.model, "bos", vocabulary));
  MSP_ASSIGN_OR_RETURN(Json eos, SpecialId(options.model, "eos", vocabulary));
  if (eos.is_null()) {
    return NotFoundError(fmt::format("no file of {} says which token ends a response",
                                     options.model.string()))
        .WithHint("eos_token_id in generation_config.json or config.json does");
  }

  const std::filesystem::path table_path = options.output / "configs" / "mtype_config.json";
  const std::filesystem::path categories_path =
      options.output / "token2category" / fmt::format("{}_{}.json", name, vocabulary.texts.size());
  MSP_RETURN_IF_ERROR(base::CheckOutputFile(categories_path));
  MSP_ASSIGN_OR_RETURN(Json table, TableBefore(table_path));
  const size_t others = table.size() - (table.contains(name) ? 1 : 0);
  table[name] = Json{{"bos", std::move(bos)}, {"eos", std::move(eos)}};

  Json categories = Json::object();
  std::map<std::string, uint64_t> totals;
  for (size_t id = 0; id < vocabulary.texts.size(); ++id) {
    std::string category = TokenCategory(vocabulary.texts[id]);
    ++totals[category];
    categories.get_ref<Json::object_t&>().emplace_back(std::to_string(id), std::move(category));
  }
  MSP_RETURN_IF_ERROR(base::CreateFolders(table_path.parent_path()));
  MSP_RETURN_IF_ERROR(base::CreateFolders(categories_path.parent_path()));
  constexpr int kIndent = 4;
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
      categories_path,
      json::DocumentText(categories, kIndent, json::Writer::NonFinite::kNull) + "\n"));
  // Other models stay in the table, so that writing it again takes nothing away.
  MSP_RETURN_IF_ERROR(base::WriteFileAtomically(
      table_path, json::DocumentText(table, kIndent, json::Writer::NonFinite::kNull) + "\n",
      base::Existing::kReplace));

  report::Document document;
  document.command = "gen_model_config";
  document.verdict.Say(
      "WRITTEN", fmt::format("{}, {} tokens", name, base::FormatCount(vocabulary.texts.size())),
      report::Tone::kStrong);
  document.verdict.number = static_cast<double>(vocabulary.texts.size());
  document.verdict.unit = "tokens";
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [category, count] : totals) {
    order.emplace_back(count, category);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  report::List facts{report::ListKind::kFacts, {}};
  for (const auto& [count, category] : order) {
    facts.items.push_back(
        {category, base::FormatCount(count), report::Tone::kPlain, static_cast<double>(count)});
  }
  document.Add("", std::move(facts));
  document.files.push_back(
      {table_path,
       others == 0 ? "" : fmt::format("{} stay in it", base::Plural(others, "other model"))});
  document.files.push_back({categories_path});
  return document;
}

}  // namespace msprobe::analysis::response_anomaly
