// Any bytes as a text with secrets in it: masking twice changes nothing more, and the result is not
// much longer.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/base/secrets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msprobe::base::Masked;
  constexpr size_t kMostPerByte = 4;  // "***" in quotes for one character, less what names it
  constexpr size_t kLeast = 16;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Masked masked = msprobe::base::MaskText(text);
  const Masked twice = msprobe::base::MaskText(masked.text);
  if (twice.text != masked.text || twice.count != 0 ||
      masked.text.size() > kMostPerByte * size + kLeast ||
      (masked.count == 0 && masked.text != text)) {
    std::abort();
  }
  const size_t middle = size / 2;
  const Masked value = msprobe::base::MaskValue(text.substr(0, middle), text.substr(middle));
  if (msprobe::base::MaskValue(text.substr(0, middle), value.text).text != value.text) {
    std::abort();
  }
  return 0;
}
