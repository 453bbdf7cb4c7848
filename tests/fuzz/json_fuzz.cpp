// Any bytes through the streaming reader; whatever it accepts must survive writing and reading
// again. What the quick walk takes, the reader must take, and both must tell the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/json/stream_reader.h"
#include "src/json/writer.h"

namespace {

using msprobe::json::Handler;
using msprobe::json::Writer;

class Copier final : public Handler {
 public:
  explicit Copier(std::string& out) : writer_(out, 1) {}
  bool OnNull() override {
    writer_.Null();
    return true;
  }
  bool OnBool(bool value) override {
    writer_.Bool(value);
    return true;
  }
  bool OnInt(int64_t value) override {
    writer_.Int(value);
    return true;
  }
  bool OnFloat(double value, std::string_view /*digits*/) override {
    writer_.Float(value);
    return true;
  }
  bool OnText(std::string_view value) override {
    writer_.Text(value);
    return true;
  }
  bool OnBeginObject() override {
    writer_.BeginObject();
    return true;
  }
  bool OnKey(std::string_view key) override {
    writer_.Key(key);
    return true;
  }
  bool OnEndObject() override {
    writer_.EndObject();
    return true;
  }
  bool OnBeginArray() override {
    writer_.BeginArray();
    return true;
  }
  bool OnEndArray() override {
    writer_.EndArray();
    return true;
  }

 private:
  Writer writer_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string once;
  Copier first(once);
  const bool accepted = msprobe::json::ParseStream(text, first).ok();
  std::string walked;
  Copier walker(walked);
  if (msprobe::json::ParsePlainObject(text, walker) && (!accepted || walked != once)) {
    std::abort();
  }
  if (!accepted) {
    return 0;
  }
  std::string twice;
  Copier second(twice);
  if (!msprobe::json::ParseStream(once, second).ok() || once != twice) {
    std::abort();
  }
  return 0;
}
