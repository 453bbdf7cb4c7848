// JSON text as Python's json.dump spells it: ", " and ": " or indent 1, non-ASCII as \uXXXX, floats
// by repr, NaN, Infinity and -Infinity bare. Re-writing what Python wrote gives the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace msprobe::json {

class Writer {
 public:
  enum class NonFinite {
    kPython,  // bare NaN, Infinity: for dump files
    kNull,    // null: for strict readers of our own results
    kText,    // "NaN", "Infinity": strict, and nothing is lost; bytes that are not UTF-8 become
            // U+FFFD, because half a surrogate pair, as Python has it, is not JSON for every reader
  };
  // `indent` < 0: one line. Appends to `out`, which may be flushed and cleared between calls. What
  // is written stands inside `depth` containers that somebody else writes.
  Writer(std::string& out, int indent, NonFinite non_finite = NonFinite::kPython, size_t depth = 0);

  void BeginObject();
  void EndObject();
  void BeginArray();
  void EndArray();
  void Key(std::string_view key);
  void Null();
  void Bool(bool value);
  void Int(int64_t value);
  void Float(double value);
  void Text(std::string_view utf8);
  void Raw(std::string_view token);  // a number spelled elsewhere

  // Numbers, texts, lists of them; null for an empty std::optional.
  template <typename Value>
  void Member(std::string_view key, const Value& value) {
    Key(key);
    Put(value);
  }

  // An object whose members write() adds.
  template <typename Write>
  void Object(const Write& write) {
    BeginObject();
    write();
    EndObject();
  }
  template <typename Write>
  void Object(std::string_view key, const Write& write) {
    Key(key);
    Object(write);
  }

  // An array with the value that write(item) adds for each item.
  template <typename Items, typename Write>
  void Array(const Items& items, const Write& write) {
    BeginArray();
    for (const auto& item : items) {
      write(item);
    }
    EndArray();
  }
  template <typename Items, typename Write>
  void Array(std::string_view key, const Items& items, const Write& write) {
    Key(key);
    Array(items, write);
  }
  // The same with an object for each item, whose members write(item) adds.
  template <typename Items, typename Write>
  void Objects(std::string_view key, const Items& items, const Write& write) {
    Array(key, items, [&](const auto& item) { Object([&] { write(item); }); });
  }

 private:
  void Put(bool value) { Bool(value); }
  void Put(int value) { Int(value); }
  void Put(uint32_t value) { Int(value); }
  void Put(int64_t value) { Int(value); }
  void Put(uint64_t value) { Int(static_cast<int64_t>(value)); }
  void Put(double value) { Float(value); }
  void Put(std::string_view value) { Text(value); }
  void Put(const std::string& value) { Text(value); }
  void Put(const char* value) { Text(value); }
  template <typename Value>
  void Put(const std::optional<Value>& value) {
    value ? Put(*value) : Null();
  }
  template <std::ranges::input_range Items>
  requires(!std::is_convertible_v<const Items&, std::string_view>) void Put(const Items& items) {
    Array(items, [this](const auto& item) { Put(item); });
  }

  void BeforeValue();
  void NewLine(bool comma);
  void Open(char bracket);
  void Close(char bracket);

  std::string& out_;
  const int indent_;
  const NonFinite non_finite_;
  const size_t depth_;
  std::vector<uint8_t> has_items_;  // per open container
  bool after_key_ = false;
};

}  // namespace msprobe::json
