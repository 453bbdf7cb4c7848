// Values as bytes that one process hands to another of the same launch (shared_run.h). A private
// form of this build: little more than a copy of the members, in their order. Reading checks every
// size against the bytes that are there, so that a damaged or hostile file is an error.
//
// A struct takes part by one function for both directions, found beside it:
//
//   template <typename Archive>
//   void PackMembers(Archive& archive, RowCounts& counts) { archive(counts.rows, counts.matched); }
//
// Enumerations say how many values they have: archive.Choice(counts.mode, kModeCount).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe {

template <typename Archive>
void PackMembers(Archive& archive, Status& status) {
  StatusCode code = status.code();
  std::string message = status.message();
  std::string hint = status.ok() ? std::string() : status.hint();
  archive.Choice(code, static_cast<size_t>(StatusCode::kInternal) + 1);
  archive(message, hint);
  if (code != StatusCode::kOk) {
    status = Status(code, std::move(message)).WithHint(std::move(hint));
  }
}

}  // namespace msprobe

namespace msprobe::base {

class Packer {
 public:
  explicit Packer(std::string& out) : out_(out) {}

  template <typename... Values>
  void operator()(const Values&... values) {
    (Put(values), ...);
  }
  template <typename Enum>
  void Choice(const Enum& value, size_t /*count*/) {
    Put(static_cast<uint8_t>(value));
  }

 private:
  template <typename Value>
  void Put(const Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      out_ += static_cast<char>(value);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      static_assert(sizeof(Value) <= 8, "long double has padding");
      char bytes[sizeof(Value)];
      std::memcpy(bytes, &value, sizeof value);
      out_.append(bytes, sizeof bytes);
    } else {
      PackMembers(*this, const_cast<Value&>(value));  // which reads its members only
    }
  }
  void Put(const std::string& text) {
    Put(static_cast<uint64_t>(text.size()));
    out_ += text;
  }
  void Put(const std::filesystem::path& path) { Put(path.string()); }
  template <typename First, typename Second>
  void Put(const std::pair<First, Second>& pair) {
    Put(pair.first);
    Put(pair.second);
  }
  template <typename Value>
  void Put(const std::optional<Value>& value) {
    Put(value.has_value());
    if (value) {
      Put(*value);
    }
  }
  template <typename Value, size_t kCount>
  void Put(const std::array<Value, kCount>& values) {
    for (const Value& value : values) {
      Put(value);
    }
  }
  template <typename Value>
  void Put(const std::vector<Value>& values) {
    Put(static_cast<uint64_t>(values.size()));
    for (const Value& value : values) {
      Put(value);
    }
  }
  template <typename Key, typename Value>
  void Put(const std::map<Key, Value>& values) {
    Put(static_cast<uint64_t>(values.size()));
    for (const auto& [key, value] : values) {
      Put(key);
      Put(value);
    }
  }

  std::string& out_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  // What cannot be read leaves its value as it is, and ok() false.
  template <typename... Values>
  void operator()(Values&... values) {
    (Get(values), ...);
  }
  template <typename Enum>
  void Choice(Enum& value, size_t count) {
    uint8_t number = 0;
    Get(number);
    if (number >= count) {
      Fail();
      return;
    }
    value = static_cast<Enum>(number);
  }

  // Everything was there, and nothing is left.
  bool Ended() const { return ok_ && rest_.empty(); }
  bool ok() const { return ok_; }
  void Fail() {
    ok_ = false;
    rest_ = {};
  }

 private:
  template <typename Value>
  void Get(Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      uint8_t byte = 0;
      Get(byte);
      if (byte > 1) {
        Fail();
        return;
      }
      value = byte == 1;
    } else if constexpr (std::is_arithmetic_v<Value>) {
      if (rest_.size() < sizeof(Value)) {
        Fail();
        return;
      }
      std::memcpy(&value, rest_.data(), sizeof value);
      rest_.remove_prefix(sizeof value);
    } else {
      PackMembers(*this, value);
    }
  }
  // A count of values that take at least a byte each.
  size_t Count() {
    uint64_t count = 0;
    Get(count);
    if (count > rest_.size()) {
      Fail();
      return 0;
    }
    return static_cast<size_t>(count);
  }
  void Get(std::string& text) {
    const size_t size = Count();
    if (ok_) {
      text.assign(rest_.substr(0, size));
      rest_.remove_prefix(size);
    }
  }
  void Get(std::filesystem::path& path) {
    std::string text;
    Get(text);
    path = std::move(text);
  }
  template <typename First, typename Second>
  void Get(std::pair<First, Second>& pair) {
    Get(pair.first);
    Get(pair.second);
  }
  template <typename Value>
  void Get(std::optional<Value>& value) {
    bool has_value = false;
    Get(has_value);
    value.reset();
    if (has_value) {
      Get(value.emplace());
    }
  }
  template <typename Value, size_t kCount>
  void Get(std::array<Value, kCount>& values) {
    for (Value& value : values) {
      Get(value);
    }
  }
  // Grows as values are read: a count alone allocates nothing.
  template <typename Value>
  void Get(std::vector<Value>& values) {
    values.clear();
    for (size_t left = Count(); left > 0 && ok_; --left) {
      if constexpr (std::is_same_v<Value, bool>) {
        bool value = false;
        Get(value);
        values.push_back(value);
      } else {
        Get(values.emplace_back());
      }
    }
  }
  template <typename Key, typename Value>
  void Get(std::map<Key, Value>& values) {
    values.clear();
    for (size_t left = Count(); left > 0 && ok_; --left) {
      Key key{};
      Get(key);
      Get(values[std::move(key)]);
    }
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace msprobe::base
