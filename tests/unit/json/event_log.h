// A handler that writes every event down, one letter and its text each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/json/stream_reader.h"

namespace msprobe::json {

class EventLog final : public Handler {
 public:
  std::string text;
  size_t stop_after = SIZE_MAX;

  bool OnNull() override { return Note("null"); }
  bool OnBool(bool value) override { return Note(value ? "true" : "false"); }
  bool OnInt(int64_t value) override { return Note(fmt::format("i{}", value)); }
  bool OnFloat(double value, std::string_view digits) override {
    return Note(fmt::format("f{}={}", base::PythonFloatRepr(value), digits));
  }
  bool OnText(std::string_view value) override { return Note(fmt::format("\"{}\"", value)); }
  bool OnBeginObject() override { return Note("{"); }
  bool OnKey(std::string_view key) override { return Note(fmt::format("{}:", key)); }
  bool OnEndObject() override { return Note("}"); }
  bool OnBeginArray() override { return Note("["); }
  bool OnEndArray() override { return Note("]"); }

 private:
  bool Note(const std::string& event) {
    text += text.empty() ? "" : " ";
    text += event;
    return --stop_after > 0;
  }
};

}  // namespace msprobe::json
