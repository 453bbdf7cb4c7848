// The text encodings that occur inside pickles.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::io {

// A Python 2 str literal with its quotes and escapes; false when it is none.
bool DecodeQuotedText(std::string_view literal, std::string* out);
// Latin-1 with \uXXXX and \UXXXXXXXX escapes, to UTF-8 (surrogates are kept as three bytes).
bool DecodeRawUnicodeEscapes(std::string_view line, std::string* out);
// UTF-8 that holds only code points below 256, to one byte each; false when others occur.
bool Utf8ToLatin1(std::string_view utf8, std::string* out);
bool IsAscii(std::string_view text);
enum class Surrogates { kRefused, kAllowed };
bool IsUtf8(std::string_view text, Surrogates surrogates = Surrogates::kRefused);

}  // namespace msprobe::io
