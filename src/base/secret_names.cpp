// The words that make a name the name of a secret, and the prefixes by which values of known
// services are recognised.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/secrets.h"
#include "src/base/strings.h"

namespace msprobe::base {
namespace {

using Words = std::vector<std::string>;

// In lower case, without what joins words; anywhere in a word or in two neighbours.
constexpr std::string_view kSureParts[] = {
    "password",    "passwd",        "passphrase",    "passcode",      "secret",
    "credential",  "bearer",        "authorization", "apikey",        "accesskey",
    "privatekey",  "sshkey",        "authkey",       "authtoken",     "accesstoken",
    "apitoken",    "refreshtoken",  "sessiontoken",  "securitytoken", "mnemonic",
    "accountkey",  "encryptionkey", "signingkey",    "sshpass",       "accesssignature",
    "requirepass", "identitytoken"};
// Whole words, anywhere.
constexpr std::string_view kSureWords[] = {"pwd",  "pgpass", "creds", "cred",     "密码",
                                           "口令", "密钥",   "令牌",  "userpass", "dbpass"};
// The second half of a sure part that is written as two words.
constexpr std::string_view kSecondHalves[] = {"key",    "keys",      "token", "tokens",    "word",
                                              "phrase", "signature", "code",  "credential"};
// The last word of a name, or the last before one of kTails.
constexpr std::string_view kLikelyWords[] = {
    "token", "tokens",     "key",       "keys",      "auth",  "oauth", "pat",     "pats",
    "ak",    "sk",         "pw",        "pass",      "sas",   "dsn",   "cookie",  "cookies",
    "otp",   "jsessionid", "sessionid", "phpsessid", "authn", "jwt",   "webhook", "webhooks"};
// Words that also occur in the names of a model's settings.
constexpr std::string_view kModelHas[] = {"token", "tokens", "key", "keys", "pass"};
constexpr std::string_view kRandomWords[] = {"session",    "private", "signature",
                                             "signatures", "sig",     "hook"};
constexpr std::string_view kTails[] = {"id",     "val", "str",     "string", "data",      "b64",
                                       "base64", "enc", "encoded", "header", "headers",   "config",
                                       "url",    "uri", "raw",     "plain",  "plaintext", "hex"};
// Behind the word in a variable these speak of where or of what kind, not of the secret itself.
constexpr std::string_view kAbout[] = {
    "file",      "path",     "dir",     "folder",  "name",    "names",   "type",
    "types",     "ttl",      "timeout", "expiry",  "expires", "enabled", "enable",
    "required",  "method",   "mode",    "sock",    "socket",  "class",   "alg",
    "algorithm", "provider", "backend", "manager", "bus",     "count",   "endpoint",
    "host",      "port",     "server",  "realm",   "scope"};
// In front of or behind token, key and pass, these speak of a model, its data or its passes.
constexpr std::string_view kModelWords[] = {
    // tokens
    "pad", "padding", "eos", "bos", "unk", "sep", "cls", "mask", "masked", "eod", "eot", "eom",
    "eop", "sop", "sot", "boi", "eoi", "bov", "eov", "boa", "eoa", "image", "images", "img",
    "video", "videos", "audio", "vision", "speech", "text", "texts", "visual", "modality",
    "special", "max", "maximum", "min", "minimum", "num", "number", "n", "nr", "new", "total",
    "per", "input", "inputs", "output", "outputs", "prompt", "prompts", "completion", "completions",
    "vocab", "vocabulary", "start", "end", "begin", "stop", "added", "additional", "extra", "first",
    "last", "next", "prev", "previous", "draft", "speculative", "chunked", "batched", "batch",
    "global", "local", "train", "training", "trained", "valid", "validation", "eval", "test",
    "warmup", "generated", "generate", "generation", "gen", "cached", "prefix", "suffix", "middle",
    "drop", "dropped", "ignore", "ignored", "skip", "skipped", "think", "thinking", "tool", "im",
    "fim", "response", "seen", "consumed", "processed", "target", "source", "src", "tgt", "dst",
    "decoder", "encoder", "forced", "suppress", "timestamp", "bad", "language", "lang", "task",
    "newline", "blank", "sub", "pre", "multi", "soft", "de", "un", "re", "non", "single", "word",
    "words", "char", "byte", "sample", "samples", "expert", "experts", "moe", "router", "routed",
    "dispatch", "dispatched", "dispatcher", "permute", "permuted", "unpermute", "padded", "packed",
    "pack", "mtp", "latent", "register", "registers", "class", "time", "step", "steps", "patch",
    "patches", "layer", "type", "types", "ids", "dim", "dims", "value", "values", "heads", "head",
    "size", "len", "length", "lengths", "classification", "level", "wise", "embedding",
    "embeddings", "embed", "mixing", "shift", "counts", "stats", "merge", "merging", "pruning",
    "throughput", "rate", "loss", "logprobs", "logprob", "budget", "limit", "window", "stride",
    "overlap", "position", "pos", "index", "indices", "offset", "weights", "weight", "bias", "norm",
    "scale", "proj", "projection", "layernorm", "list", "mapping", "map", "parallel",
    // keys
    "attention", "attn", "query", "qk", "qkv", "kv", "cross", "memory", "sort", "sorting",
    "primary", "foreign", "public", "pub", "json", "data", "dataset", "label", "labels", "reward",
    "feature", "features", "column", "columns", "field", "fields", "state", "dict", "model",
    "module", "ckpt", "checkpoint", "optimizer", "optim", "param", "params", "parameter",
    "parameters", "missing", "unexpected", "mismatched", "matched", "cache", "group", "partition",
    "join", "lookup", "hot", "wildcard", "metric", "metrics", "monitor", "best", "score", "chosen",
    "rejected", "answer", "question", "messages", "message", "conversation", "conversations",
    "chat", "instruction", "tensor", "tensors", "buffer", "rank", "device", "expected", "required",
    "allowed", "known", "unknown", "duplicate", "duplicated", "common", "shared", "logging", "log",
    "config", "configs", "rng", "rope", "stage", "shape", "dtype", "meta", "metadata", "entry",
    "top", "ground", "truth", "fn", "func", "arg", "args", "kwarg", "kwargs", "extract", "hash",
    "tree", "registry", "pair", "pairs", "sequence", "seq", "item", "row", "partial", "full",
    "empty", "non", "invalid", "ordered", "order", "by", "of", "trajectory", "sampling", "rollout",
    "critic", "actor", "ref",
    // passes
    "forward", "backward", "fwd", "bwd", "second", "third", "one", "two", "low", "high", "band",
    "graph", "fusion", "compiler", "inductor", "through", "k", "at",
    // in sentences
    "worst", "and", "or", "whose", "which", "each", "every", "scheduled"};
// Directly in front of token, key and pass these outdo a model word elsewhere in the name.
constexpr std::string_view kServices[] = {
    "api",     "access",  "auth",    "oauth",    "hf",       "hub",     "huggingface", "github",
    "gh",      "gitlab",  "git",     "wandb",    "swanlab",  "bot",     "secret",      "bearer",
    "session", "refresh", "login",   "user",     "admin",    "service", "security",    "csrf",
    "xsrf",    "slack",   "discord", "telegram", "dingtalk", "openai",  "anthropic",   "aws",
    "azure",   "gcp",     "aliyun",  "obs",      "oss",      "s3",      "ssh",         "deploy",
    "ci",      "npm",     "pypi",    "docker",   "registry", "jwt"};
constexpr std::string_view kPlainGlued[] = {"monkey", "donkey", "turkey", "hotkey", "whiskey",
                                            "hockey", "jockey", "lackey", "mickey", "latchkey"};
// Folders of a shell, agents and helpers: names that everybody knows.
constexpr std::string_view kPlainNames[] = {
    "PWD", "OLDPWD", "SSH_AUTH_SOCK", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "XAUTHORITY"};

constexpr size_t kLongestPlain = 200;  // bytes of a value that may be none

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsNamePart(char c) {
  return IsUpper(c) || IsLower(c) || IsDigit(c) || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

class ModelWords {
 public:
  ModelWords() : sorted_(std::begin(kModelWords), std::end(kModelWords)) {
    std::sort(sorted_.begin(), sorted_.end());
  }
  bool Has(std::string_view word) const {
    return std::binary_search(sorted_.begin(), sorted_.end(), word);
  }

 private:
  std::vector<std::string_view> sorted_;
};

bool IsModelWord(std::string_view word) {
  static const ModelWords kWords;
  return kWords.Has(word);
}

// "hfToken", "HF_TOKEN", "hf-token2" and "HFToken" are the words hf and token.
Words WordsOf(std::string_view name) {
  Words words;
  std::string word;
  const auto end = [&] {
    while (word.size() > 1 && IsDigit(word.back())) {
      word.pop_back();
    }
    if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (!IsNamePart(c)) {
      end();
      continue;
    }
    const bool capital_begins =
        IsUpper(c) && i > 0 &&
        (IsLower(name[i - 1]) || (IsUpper(name[i - 1]) && i + 2 < name.size() &&
                                  IsLower(name[i + 1]) && IsLower(name[i + 2])));
    if (capital_begins) {
      end();
    }
    word += static_cast<char>(IsUpper(c) ? c - 'A' + 'a' : c);
  }
  end();
  return words;
}

bool HasSurePart(std::string_view text) {
  return std::any_of(std::begin(kSureParts), std::end(kSureParts), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

bool NamesSureSecret(const Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (IsOneOf(words[i], kSureWords) || HasSurePart(words[i])) {
      return true;
    }
    if (i + 1 < words.size() && IsOneOf(words[i + 1], kSecondHalves) &&
        HasSurePart(words[i] + words[i + 1])) {
      return true;
    }
  }
  return false;
}

// Splits "mytoken" into "my" and "token"; nullopt for words that do not end in such a word.
std::optional<std::pair<std::string_view, std::string_view>> Unglued(std::string_view word) {
  for (const std::string_view ending : {"tokens", "token", "keys", "key", "pwd", "oauth"}) {
    if (word.size() > ending.size() + 1 && word.ends_with(ending) &&
        std::find(std::begin(kPlainGlued), std::end(kPlainGlued), word) == std::end(kPlainGlued)) {
      return std::pair(word.substr(0, word.size() - ending.size()), ending);
    }
  }
  return std::nullopt;
}

bool AllCapitals(std::string_view name) { return std::none_of(name.begin(), name.end(), IsLower); }

// How likely the word at `place` names a secret, given the words around it. Where those suggest
// something else, the value decides.
Secrecy SecrecyAround(const Words& words, size_t place, std::string_view before_glued,
                      std::string_view name) {
  const std::string_view in_front = !before_glued.empty() ? before_glued
                                    : place > 0           ? std::string_view(words[place - 1])
                                                          : std::string_view();
  const bool may_be_of_model = !before_glued.empty() || IsOneOf(words[place], kModelHas);
  for (size_t i = place + 1; i < words.size(); ++i) {
    if (IsOneOf(words[i], kAbout) ||
        (may_be_of_model && IsModelWord(words[i]) && !IsOneOf(words[i], kTails))) {
      return Secrecy::kRandom;
    }
  }
  if (may_be_of_model && !IsOneOf(in_front, kServices)) {
    if ((!before_glued.empty() && IsModelWord(before_glued)) ||
        std::any_of(words.begin(), words.begin() + static_cast<ptrdiff_t>(place),
                    [](const std::string& word) { return IsModelWord(word); })) {
      return Secrecy::kRandom;
    }
  }
  const bool is_last = place + 1 == words.size();
  if (is_last || (place + 2 == words.size() && IsOneOf(words.back(), kTails))) {
    return Secrecy::kLikely;
  }
  return AllCapitals(name) ? Secrecy::kLikely : Secrecy::kRandom;
}

bool IsPlainWord(std::string_view value) {
  constexpr std::string_view kPlainValues[] = {
      "true",    "false", "yes",      "no",  "on",      "off",       "none",
      "null",    "nil",   "na",       "n/a", "~",       "undefined", "auto",
      "default", "str",   "optional", "int", "inherit", "empty",     "unset"};
  return IsOneOf(AsciiLower(value), kPlainValues);
}

// "${HF_TOKEN}", "$HF_TOKEN" and "{{ secrets.token }}" name a secret and are none.
bool IsReference(std::string_view value) {
  if (value.starts_with("${") && value.ends_with("}")) {
    const std::string_view inner = value.substr(2, value.size() - 3);
    return std::all_of(inner.begin(), inner.end(),
                       [](char c) { return IsNamePart(c) || c == '_' || c == '.'; });
  }
  if (value.starts_with("{{") && value.ends_with("}}")) {
    return value.find_first_of("\"'") == std::string_view::npos;
  }
  return value.size() > 2 && value.front() == '$' && value.find('_') != std::string_view::npos &&
         std::all_of(value.begin() + 1, value.end(),
                     [](char c) { return IsUpper(c) || IsDigit(c) || c == '_'; });
}

bool IsNumber(std::string_view value) {
  const bool digits = std::any_of(value.begin(), value.end(), IsDigit);
  return digits && value.find_first_not_of("0123456789+-.eE_") == std::string_view::npos;
}

bool IsPath(std::string_view value) {
  constexpr std::string_view kRoots[] = {"/home/", "/root", "/etc/",  "/usr/", "/opt/", "/var/",
                                         "/tmp/",  "/mnt/", "/data/", "/dev/", "/run/", "/srv/",
                                         "/path/", "~/",    "./",     "../",   "/proc/"};
  constexpr std::string_view kEndings[] = {".pem",  ".key", ".crt", ".cer", ".json",
                                           ".yaml", ".yml", ".txt", ".pub", ".bin"};
  if (value.find_first_of("=?&@:\\ ") != std::string_view::npos) {
    return false;
  }
  const auto is_root = [value](std::string_view root) { return value.starts_with(root); };
  const auto is_end = [value](std::string_view ending) { return value.ends_with(ending); };
  return std::any_of(std::begin(kRoots), std::end(kRoots), is_root) ||
         std::any_of(std::begin(kEndings), std::end(kEndings), is_end);
}

// "<pad>", "[PAD]", "</s>", "<|endoftext|>": a token of a vocabulary, or a place to fill in.
bool IsBracketed(std::string_view value) {
  return value.size() > 2 && ((value.front() == '<' && value.back() == '>') ||
                              (value.front() == '[' && value.back() == ']' &&
                               value.find_first_of("\"',") == std::string_view::npos));
}

// "response", "old_log_prob=ref"
bool IsIdentifier(std::string_view value) {
  return value.find_first_not_of("abcdefghijklmnopqrstuvwxyz_=,./[]' \"") == std::string_view::npos;
}

bool LooksRandom(std::string_view value) {
  constexpr size_t kShortestMixed = 8;
  constexpr size_t kShortest = 16;
  size_t digits = 0;
  bool lower = false;
  bool upper = false;
  bool joined = false;
  for (const char c : value) {
    digits += IsDigit(c) ? 1 : 0;
    lower |= IsLower(c);
    upper |= IsUpper(c);
    joined |= c == '-' || c == '_' || c == '.';
    if (!IsNamePart(c) && c != '+' && c != '=' && c != '-' && c != '_' && c != '.') {
      return false;
    }
  }
  if (IsPath(value)) {
    return false;
  }
  return lower && upper ? digits >= 2 && value.size() >= kShortestMixed
                        : digits >= 4 && (lower || upper) && !joined && value.size() >= kShortest;
}

// What may follow a prefix: letters and digits, and...
enum class Alphabet : uint8_t { kPlain, kWord /* _ - */, kDotted /* _ - . */, kCapitals };
struct Look {
  std::string_view prefix;
  size_t least;  // characters behind the prefix
  Alphabet alphabet = Alphabet::kWord;
  bool needs_digit = false;  // the prefix begins ordinary words as well
};
constexpr Look kLooks[] = {
    {"ghp_", 8},
    {"gho_", 8},
    {"ghu_", 8},
    {"ghs_", 8},
    {"ghr_", 8},
    {"github_pat_", 8},
    {"glpat-", 8, Alphabet::kDotted},
    {"gldt-", 8},
    {"glrt-", 8, Alphabet::kDotted},
    {"glcbt-", 8},
    {"glptt-", 8},
    {"hf_", 12, Alphabet::kPlain, true},
    {"api_org_", 12, Alphabet::kPlain, true},
    {"sk-", 12, Alphabet::kWord, true},
    {"sk_live_", 8},
    {"sk_test_", 8},
    {"rk_live_", 8},
    {"xoxb-", 8},
    {"xoxp-", 8},
    {"xoxa-", 8},
    {"xoxr-", 8},
    {"xoxs-", 8},
    {"xoxe-", 8},
    {"xoxe.", 8, Alphabet::kDotted},
    {"xapp-", 8},
    {"AKIA", 12, Alphabet::kCapitals},
    {"ASIA", 12, Alphabet::kCapitals},
    {"AROA", 12, Alphabet::kCapitals},
    {"ABIA", 12, Alphabet::kCapitals},
    {"AIza", 16},
    {"ya29.", 8, Alphabet::kDotted},
    {"GOCSPX-", 8},
    {"LTAI", 8, Alphabet::kPlain, true},
    {"AKID", 12, Alphabet::kPlain, true},
    {"npm_", 16, Alphabet::kPlain, true},
    {"pypi-", 16, Alphabet::kWord, true},
    {"dckr_pat_", 8},
    {"dckr_oat_", 8},
    {"SG.", 16, Alphabet::kDotted, true},
    {"shpat_", 16},
    {"dop_v1_", 16},
    {"lin_api_", 16},
    {"PMAK-", 16},
    {"glsa_", 16},
    {"hvs.", 12, Alphabet::kDotted, true},
    {"hvb.", 12, Alphabet::kDotted, true},
    {"ATATT3", 16},
    {"r8_", 20, Alphabet::kPlain, true},
    {"gsk_", 16, Alphabet::kPlain, true},
    {"nvapi-", 12},
    {"pplx-", 16, Alphabet::kPlain, true},
    {"tvly-", 12},
    {"lsv2_pt_", 8},
    {"xai-", 16, Alphabet::kPlain, true},
    {"xkeysib-", 12},
    {"sntrys_", 12},
    {"figd_", 12},
    {"wandb_v1_", 8},
    {"AGE-SECRET-KEY-1", 12, Alphabet::kCapitals},
};

bool IsIn(Alphabet alphabet, char c) {
  switch (alphabet) {
    case Alphabet::kCapitals:
      return IsDigit(c) || (c >= 'A' && c <= 'Z');
    case Alphabet::kPlain:
      return internal::IsAlnum(c);
    case Alphabet::kWord:
      return internal::IsWordChar(c);
    case Alphabet::kDotted:
      return internal::IsAlnum(c) || c == '_' || c == '-' || c == '.';
  }
  return false;
}

}  // namespace

std::optional<size_t> internal::EndOfLook(std::string_view text, size_t begin) {
  for (const Look& look : kLooks) {
    if (text.compare(begin, look.prefix.size(), look.prefix) != 0) {
      continue;
    }
    const size_t first = begin + look.prefix.size();
    size_t end = first;
    bool digit = false;
    while (end < text.size() && IsIn(look.alphabet, text[end])) {
      digit |= IsDigit(text[end++]);
    }
    while (end > first && text[end - 1] == '.') {  // of a sentence
      --end;
    }
    if (end - first >= look.least && (digit || !look.needs_digit)) {
      return end;
    }
  }
  // A JWT: three parts of base64, the first of which is JSON. One part alone is a setting.
  if (text.compare(begin, 3, "eyJ") == 0) {
    size_t end = begin;
    for (int part = 0; part < 3; ++part) {
      const size_t part_begin = end;
      while (end < text.size() && internal::IsWordChar(text[end])) {
        ++end;
      }
      if (end - part_begin < (part == 0 ? 8U : 4U)) {
        return part == 2 ? std::optional(end) : std::nullopt;
      }
      if (part < 2) {
        if (end == text.size() || text[end] != '.') {
          return std::nullopt;
        }
        ++end;
      }
    }
    return end;
  }
  return std::nullopt;
}

Secrecy SecrecyOf(std::string_view name) {
  if (IsOneOf(name, kPlainNames)) {
    return Secrecy::kNone;
  }
  if (NamesSureSecret(WordsOf(name))) {
    return Secrecy::kSure;
  }
  if (AsciiLower(name) == "tokens" || AsciiLower(name) == "keys") {
    return Secrecy::kPlural;
  }
  // The last part of a dotted path is what the value itself is called.
  name = name.substr(name.find_last_of("./") + 1);
  const Words words = WordsOf(name);
  Secrecy found = Secrecy::kNone;
  for (size_t i = 0; i < words.size(); ++i) {
    Secrecy here = Secrecy::kNone;
    if (IsOneOf(words[i], kLikelyWords)) {
      here = SecrecyAround(words, i, {}, name);
    } else if (const auto glued = Unglued(words[i])) {
      here = glued->second == "pwd" ? Secrecy::kSure : SecrecyAround(words, i, glued->first, name);
    } else if (i + 1 == words.size() && IsOneOf(words[i], kRandomWords)) {
      here = Secrecy::kRandom;
    }
    found = std::max(found, here);
  }
  return found;
}

bool IsSecretValue(Secrecy secrecy, std::string_view value) {
  constexpr size_t kShortNumber = 3;  // under a sure name
  constexpr size_t kCountDigits = 9;  // under another one
  value = Trim(value);
  if (secrecy == Secrecy::kNone || value.find_first_not_of('*') == std::string_view::npos) {
    return false;
  }
  if (secrecy == Secrecy::kRandom) {
    return LooksRandom(value);
  }
  if (value.size() > kLongestPlain) {
    return true;
  }
  if (IsPlainWord(value) || IsReference(value)) {
    return false;
  }
  if (secrecy == Secrecy::kSure) {
    return !IsNumber(value) || value.size() > kShortNumber;
  }
  if (secrecy == Secrecy::kPlural && IsIdentifier(value)) {
    return false;
  }
  return !(IsNumber(value) && value.size() <= kCountDigits) && !IsPath(value) &&
         !IsBracketed(value);
}

}  // namespace msprobe::base
