// Finds secrets, which must not leave this machine in a result: passwords, tokens and keys,
// recognised by the names they are stored under and by how they look. Used wherever variables,
// command lines, settings or captured output are shown or stored.
//
// Nothing that is masked changes what is around it: JSON stays JSON, YAML stays YAML, a command
// line is split as before. Masking twice changes nothing more. Time is linear in the text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/strings.h"

namespace msprobe::base {

inline constexpr std::string_view kMaskedText = "***";

struct Masked {
  std::string text;
  size_t count = 0;  // values that were replaced
};

// What a name reveals about its value.
enum class Secrecy : uint8_t {
  kNone,
  kRandom,  // "session": a secret where it looks like random letters
  kPlural,  // "tokens" alone: as kLikely, but words in lower case are names of columns or members
  kLikely,  // "wandb-key": a secret unless it is a number, a word like true, or a path
  kSure,    // "password": a secret, and so is all that is inside of it
};

// `name` may be of a variable, an option, a key of a config, dotted or not: "HF_TOKEN",
// "--db-password", "hub.apiKey". Model words ("pad_token", "num_key_value_heads") are none.
Secrecy SecrecyOf(std::string_view name);

// Whether a value is one under such a name. Empty texts, words like true and none, short numbers,
// ${VARIABLE} and kMaskedText never are.
bool IsSecretValue(Secrecy secrecy, std::string_view value);

// Any text: logs, output, scripts, configs, values.
Masked MaskText(std::string_view text);
// The value of one variable, parameter or member of a config.
Masked MaskValue(std::string_view name, std::string_view value);
// The words of a command line; `count`, if given, grows by what was masked.
std::vector<std::string> MaskArguments(std::span<const std::string> arguments,
                                       size_t* count = nullptr);

}  // namespace msprobe::base

namespace msprobe::base::internal {

// One pass over a text that finds the secrets in it.

inline constexpr size_t kNone = std::string_view::npos;
inline constexpr size_t kLongestName = 128;
inline constexpr std::string_view kPem = "-----BEGIN ";

inline bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool IsAlnum(char c) { return IsLetter(c) || IsDigit(c); }
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }
inline bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }
inline bool IsSpace(char c) {
  return IsBlank(c) || IsLineEnd(c) || c == '\f' || c == '\v' || c == '\0';
}
inline bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
inline bool IsNameChar(char c) {
  return IsAlnum(c) || c == '_' || c == '-' || c == '.' ||
         (static_cast<unsigned char>(c) & 0x80U) != 0;
}
inline bool IsWordChar(char c) { return IsAlnum(c) || c == '_' || c == '-'; }

// Where a value with a known look ("ghp_...", a JWT) that begins at `begin` ends.
std::optional<size_t> EndOfLook(std::string_view text, size_t begin);

struct Span {
  size_t begin = 0;
  size_t end = 0;
  std::string quote;  // stands around the mask where none is in the text
};

// Every value is looked at where its name, its separator or its look ends; the scan goes on behind
// what was masked, so that nothing is read twice.
class SecretScanner {
 public:
  explicit SecretScanner(std::string_view text) : text_(text) {}
  // The places of secrets, ascending; none of them overlap.
  std::vector<Span> Run();

 private:
  struct Name {
    size_t begin = 0;
    size_t end = 0;
    size_t quote = 0;     // length of the quote in front of it, with its backslashes
    bool closed = false;  // the quote ends behind the name
  };
  struct Context {
    Secrecy secrecy = Secrecy::kNone;
    bool is_colon = false;
    bool is_cookie = false;
    bool to_line_end = false;
    size_t opened = 0;  // length of a quote that is open since before the name
    char opening = '"';
    std::string quote;  // around the mask of a bare value
  };
  // The kind of program of a command line, which decides what its options mean.
  enum class Program : uint8_t { kOther, kPassword, kTransfer };

  char At(size_t place) const { return place < text_.size() ? text_[place] : '\n'; }
  std::string_view Part(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }
  size_t Free() const { return spans_.empty() ? 0 : spans_.back().end; }
  size_t LineEnd(size_t place) const;
  size_t SkipBlanks(size_t place) const;
  // Replaces [begin, end), and goes on behind it. A string of JSON stays one: a span that begins in
  // it ends in it.
  void Mask(size_t begin, size_t end, std::string quote = {});
  // Updates the open quotes and brackets up to `place`, which only grows.
  void CountTo(size_t place);
  // Whether the quote at `place` ends a string that is open there, as far as JSON goes.
  bool ClosesString(size_t place) const;
  void Look();
  // Behind the letter of an escape: "\nghp_...".
  bool BehindEscape() const;
  void Word();
  // "setenv NAME VALUE", "ENV NAME VALUE"
  void SetVariable(size_t place);
  // "Bearer VALUE", "Basic VALUE" outside of a header that names it.
  void Scheme(size_t place, bool is_basic);
  size_t SkipQuote(size_t place) const;
  // ---- names ----
  // The name that ends in front of `separator`, blanks, a quote and a bracket between them allowed.
  std::optional<Name> NameBefore(size_t separator) const;
  // "missing key: x": the word in front of a bare one belongs to the name.
  std::string NameText(const Name& name) const;
  // Whether nothing but marks of lists, quoting and comments is in front of it on its line.
  bool BeginsLine(const Name& name) const;
  void Separator(size_t length);
  // ---- values ----
  // The place of the quote (its first backslash) that closes one of `length` characters opened
  // before `begin`; kNone where there is none.
  size_t Closing(size_t begin, char quote, size_t length);
  // Masks the value that begins at `value` if it is a secret.
  void Value(size_t value, const Context& context);
  // "true  # comment" is true.
  std::string_view WithoutComment(size_t begin, size_t end, const Context& context) const;
  // In YAML and TOML three stars alone are not a value.
  std::string QuoteFor(size_t begin, size_t end, const Context& context) const;
  void Quoted(size_t quote, size_t length, const Context& context);
  // Where a value ends whose quote was opened in front of its name: "Cookie: a=b; c=d".
  size_t EndOfOpened(size_t begin, const Context& context);
  bool NameFollows(size_t place) const;
  // A bare value ends at a blank, or at what can only end it where it stands.
  size_t EndOfBare(size_t begin, const Context& context);
  // A backslash in front of a quote belongs to the quote, two are one of the value.
  size_t WithoutSlash(size_t begin, size_t end) const;
  size_t EndOfWord(size_t begin) const;
  // Masks one word behind a name, quoted or not.
  void MaskWord(size_t value, Secrecy secrecy);
  // ---- what spans lines ----
  // "name:" and the more indented lines behind it.
  void Block(const Name& name, size_t line_end, Secrecy secrecy);
  // "name: |" and the more indented lines behind it. False where it is none.
  bool BlockScalar(size_t value);
  // The texts in a list or, of a sure name, an object; each is masked by itself. False where none
  // begins here.
  bool Collection(size_t begin, Secrecy secrecy);
  size_t SkipSpaces(size_t place) const;
  // "-----BEGIN RSA PRIVATE KEY-----": what is between it and its end.
  void Pem();
  // <password>abc</password>
  void Element();
  // ---- command lines ----
  void Option();
  // Where the next word of a command line, or of a list of words, begins; kNone: there is none.
  size_t BehindOption(size_t end);
  void MaskOptionValue(size_t value, Secrecy secrecy);
  // -p of programs that read a password there, -u of those that send one.
  bool ShortOption(std::string_view name, size_t begin, size_t end);
  // Masks what follows the colon of "user:password".
  void MaskPassword(size_t value);
  // ---- URLs ----
  void Url();
  // Before the next URL begins.
  size_t UrlEnd(size_t place, std::string_view ends) const;
  // Addresses that are keys themselves: those of chats and other receivers of messages.
  void Hook(size_t begin, size_t end);
  // 123456789:AA... is the token of a bot.
  bool Telegram();
  const std::string_view text_;
  size_t at_ = 0;
  std::vector<Span> spans_;
  // State of the line up to counted_.
  size_t counted_ = 0;
  size_t slashes_ = 0;  // in a row
  size_t line_begin_ = 0;
  bool double_open_ = false;
  bool single_open_ = false;
  Program program_ = Program::kOther;
  // From where on no closing quote of a kind and length is: they are looked for once.
  std::array<size_t, 24> none_from_ = [] {
    std::array<size_t, 24> places{};
    places.fill(kNone);
    return places;
  }();
};

}  // namespace msprobe::base::internal
