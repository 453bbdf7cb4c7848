#include "src/analysis/config_check/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>
#include <vector>

#include "src/base/strings.h"

namespace msprobe::analysis::config_check {
namespace {

// Names are compared in lower case and without whatever is no letter or digit.
// Anywhere in any name.
constexpr std::array<std::string_view, 13> kAnywhere = {
    "password",  "passwd",  "passphrase", "secret", "credential", "apikey",       "accesskey",
    "authtoken", "authkey", "privatekey", "sshkey", "bearer",     "authorization"};
// At the end of any name.
constexpr std::array<std::string_view, 11> kAtEnd = {
    "accesstoken", "apitoken",   "hubtoken",    "hftoken",     "refreshtoken", "sessiontoken",
    "logintoken",  "wandbtoken", "githubtoken", "gitlabtoken", "sshpass"};
// Whole words of the name of an environment variable.
constexpr std::array<std::string_view, 10> kVariableWords = {
    "token", "key", "keys", "pwd", "pass", "pat", "auth", "jwt", "cookie", "cookies"};
// Variables and parameters of exactly these names.
constexpr std::array<std::string_view, 2> kSecretNames = {"token", "key"};
constexpr std::array<std::string_view, 5> kHarmlessVariables = {"PWD", "OLDPWD", "SSH_AUTH_SOCK",
                                                                "GIT_ASKPASS", "SSH_ASKPASS"};

constexpr std::string_view kSchemeEnd = "://";

bool IsLetterOrDigit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string Squeeze(std::string_view name) {
  std::string result = base::AsciiLower(name);
  std::erase_if(result, [](char c) { return !IsLetterOrDigit(c); });
  return result;
}

bool NamesSecretAnywhere(std::string_view name) {
  const std::string squeezed = Squeeze(name);
  return std::any_of(
             kAnywhere.begin(), kAnywhere.end(),
             [&](std::string_view part) { return squeezed.find(part) != std::string::npos; }) ||
         std::any_of(kAtEnd.begin(), kAtEnd.end(),
                     [&](std::string_view part) { return squeezed.ends_with(part); }) ||
         base::IsOneOf(squeezed, kSecretNames);
}

bool NamesSecretVariable(std::string_view name) {
  if (base::IsOneOf(name, kHarmlessVariables)) {
    return false;
  }
  if (NamesSecretAnywhere(name)) {
    return true;
  }
  size_t begin = 0;
  for (size_t at = 0; at <= name.size(); ++at) {
    if (at == name.size() || !IsLetterOrDigit(name[at])) {
      if (base::IsOneOf(Squeeze(name.substr(begin, at - begin)), kVariableWords)) {
        return true;
      }
      begin = at + 1;
    }
  }
  return false;
}

// The last part of a dotted path: what the parameter itself is called.
std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// scheme://user:password@host becomes scheme://***@host. Only a name in front of the @ is a secret
// where it may be a token: over http.
std::string MaskUrls(std::string_view text) {
  std::string result;
  size_t copied = 0;
  for (size_t at = text.find(kSchemeEnd); at != std::string_view::npos;
       at = text.find(kSchemeEnd, at + 1)) {
    const size_t begin = at + kSchemeEnd.size();
    const size_t end = std::min(text.find_first_of("/?# \t\r\n\"'<>,;", begin), text.size());
    // Not beyond `begin`: a text may hold many schemes and no @.
    const size_t place = text.substr(begin, end - begin).rfind('@');
    if (place == std::string_view::npos || begin < copied) {
      continue;
    }
    const size_t sign = begin + place;
    const std::string_view user = text.substr(begin, sign - begin);
    const std::string_view before = text.substr(0, at);
    const bool web = before.ends_with("http") || before.ends_with("https");
    if (user.find(':') == std::string_view::npos && !web) {
      continue;
    }
    result += text.substr(copied, begin - copied);
    result += kMaskedText;
    copied = sign;
  }
  result += text.substr(copied);
  return result;
}

// name=value inside of a longer text, as in URLs and lists of headers.
std::string MaskAssignments(std::string_view text) {
  constexpr std::string_view kValueEnds = "&;,\"'\n";
  std::string result;
  size_t copied = 0;
  for (size_t sign = text.find('='); sign != std::string_view::npos;
       sign = text.find('=', sign + 1)) {
    if (sign < copied) {
      continue;
    }
    size_t begin = sign;
    while (begin > copied &&
           (IsLetterOrDigit(text[begin - 1]) || text[begin - 1] == '_' || text[begin - 1] == '-')) {
      --begin;
    }
    const size_t quote =
        sign + 1 < text.size() && (text[sign + 1] == '"' || text[sign + 1] == '\'');
    const size_t value = sign + 1 + quote;
    const bool has_value =
        value < text.size() && kValueEnds.find(text[value]) == std::string_view::npos;
    if (begin == sign || !has_value || !NamesSecretAnywhere(text.substr(begin, sign - begin))) {
      continue;
    }
    // Looked for last: a text may be all assignments that nothing ends.
    const size_t end = std::min(text.find_first_of(kValueEnds, value), text.size());
    result += text.substr(copied, value - copied);
    result += kMaskedText;
    copied = end;
  }
  result += text.substr(copied);
  return result;
}

std::string MaskText(std::string_view text) {
  const std::string urls = MaskUrls(text);
  return text.find('=') == std::string_view::npos ? urls : MaskAssignments(urls);
}

}  // namespace

std::string MaskVariable(std::string_view name, std::string_view value) {
  if (!value.empty() && NamesSecretVariable(name)) {
    return std::string(kMaskedText);
  }
  return MaskText(value);
}

std::string MaskParameterText(std::string_view name, std::string_view value) {
  return !value.empty() && NamesSecretAnywhere(LastPart(name)) ? std::string(kMaskedText)
                                                               : MaskText(value);
}

void MaskParameter(std::string_view name, json::ConfigValue& value) {
  struct Pending {
    json::ConfigValue* value;
    bool secret;
  };
  std::vector<Pending> pending = {{&value, NamesSecretAnywhere(LastPart(name))}};
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    if (next.value->kind == json::ConfigKind::kText && !next.value->text.empty()) {
      next.value->text = next.secret ? std::string(kMaskedText) : MaskText(next.value->text);
    }
    for (json::ConfigValue& item : next.value->items) {
      pending.push_back({&item, next.secret});
    }
    for (auto& [key, member] : next.value->members) {
      pending.push_back({&member, next.secret || NamesSecretAnywhere(LastPart(key))});
    }
  }
}

}  // namespace msprobe::analysis::config_check
