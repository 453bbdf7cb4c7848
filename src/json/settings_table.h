// The keys of a configuration as rows: each key is stated once, and reading, the list of keys that
// messages name, the nearest name of a mistyped one and the JSON text of a configuration follow
// from its row. A table is a list of rows for one struct of settings:
//
//   const std::vector<SettingsRow<Options>>& Rows() {
//     static const std::vector<SettingsRow<Options>> kRows = {
//         {"threads", Number(&Options::threads, 1, 64)},
//         {"mode", OneOf(&Options::mode, kModes)},
//         {"limit", {ReadLimit, WriteLimit}}};
//     return kRows;
//   }
//
// Rows are read and written in their order. What belongs to several keys (combinations, defaults
// that depend on another key) is checked by the owner once all are read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/json/config.h"
#include "src/json/writer.h"

namespace msprobe::json {

// How the value of a key is read and written. An absent key leaves the settings as they are.
template <typename Settings>
struct SettingsKind {
  // Empty: the owner reads it.
  std::function<Status(const SettingsReader&, std::string_view key, Settings&)> read;
  // Writes the member, key included, or nothing where it has no value. Empty: it is never written.
  std::function<void(const Settings&, std::string_view key, Writer&)> write;
};

template <typename Settings>
struct SettingsRow {
  std::string_view name;
  SettingsKind<Settings> kind;
  // Conditions of reading and writing; null: always.
  bool (*is_read)(const Settings&) = nullptr;
  bool (*is_written)(const Settings&) = nullptr;
};

template <typename Settings>
Status ReadRow(const SettingsRow<Settings>& row, const SettingsReader& reader, Settings& settings) {
  return row.kind.read && (row.is_read == nullptr || row.is_read(settings))
             ? row.kind.read(reader, row.name, settings)
             : Status();
}

// Tables may consist of rows that know more (derived from SettingsRow).
template <typename Row, typename Settings>
Status ReadRows(const std::vector<Row>& rows, const SettingsReader& reader, Settings& settings) {
  for (const Row& row : rows) {
    MSP_RETURN_IF_ERROR(ReadRow(row, reader, settings));
  }
  return {};
}

// Members of an object that is open.
template <typename Row, typename Settings>
void WriteRows(const std::vector<Row>& rows, const Settings& settings, Writer& writer) {
  for (const Row& row : rows) {
    if (row.kind.write && (row.is_written == nullptr || row.is_written(settings))) {
      row.kind.write(settings, row.name, writer);
    }
  }
}

// One object; `indent` < 0: on one line.
template <typename Row, typename Settings>
std::string RowsJson(const std::vector<Row>& rows, const Settings& settings, int indent = -1) {
  std::string text;
  Writer writer(text, indent);
  writer.BeginObject();
  WriteRows(rows, settings, writer);
  writer.EndObject();
  return text;
}

template <typename Row>
std::vector<std::string> KeyNames(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    names.emplace_back(row.name);
  }
  return names;
}

// Kinds. `member`: a pointer to a member of the settings; or, after the settings' type as template
// argument, a function object that turns them into a reference, const or not as they are:
// Switch<Options>([](auto& options) -> auto& { return options.inner.flag; }).

namespace internal {

template <typename Given, typename Member>
struct OwnerOf {
  using Type = Given;
};
template <typename Settings, typename Value>
struct OwnerOf<void, Value Settings::*> {
  using Type = Settings;
};
template <typename Given, typename Member>
using Owner = typename OwnerOf<Given, Member>::Type;

inline std::string TextOf(const std::string& text) { return text; }
inline std::string TextOf(const std::filesystem::path& path) { return path.string(); }

template <typename Value>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

template <typename Value>
void WriteValue(Writer& writer, std::string_view key, const Value& value) {
  if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    writer.Member(key, value.string());
  } else if constexpr (std::is_same_v<Value, int32_t>) {
    writer.Member(key, int64_t{value});
  } else {
    writer.Member(key, value);
  }
}

}  // namespace internal

// Reads by `read(reader, key, value)`. An optional member gets a value where the key is given.
template <typename Settings, typename Member, typename Read>
auto ReadInto(Member member, Read read) {
  return [member, read](const SettingsReader& reader, std::string_view key,
                        Settings& settings) -> Status {
    auto& value = std::invoke(member, settings);
    if constexpr (internal::kIsOptional<std::remove_cvref_t<decltype(value)>>) {
      return reader.Find(key) != nullptr ? read(reader, key, value.emplace()) : Status();
    } else {
      return read(reader, key, value);
    }
  };
}

// Writes the member; an optional one where it has a value.
template <typename Settings, typename Member>
auto WriteFrom(Member member) {
  return [member](const Settings& settings, std::string_view key, Writer& writer) {
    const auto& value = std::invoke(member, settings);
    if constexpr (internal::kIsOptional<std::remove_cvref_t<decltype(value)>>) {
      if (value) {
        internal::WriteValue(writer, key, *value);
      }
    } else {
      internal::WriteValue(writer, key, value);
    }
  };
}

template <typename Given = void, typename Member, typename Read>
auto KindFor(Member member, Read read) {
  using Settings = internal::Owner<Given, Member>;
  return SettingsKind<Settings>{ReadInto<Settings>(member, read), WriteFrom<Settings>(member)};
}

// true or false.
template <typename Given = void, typename Member>
auto Switch(Member member) {
  return KindFor<Given>(member, [](const SettingsReader& reader, std::string_view key,
                                   bool& value) { return reader.Bool(key, value); });
}

// An integer of any width.
template <typename Given = void, typename Member>
auto Number(Member member, int64_t least, int64_t most) {
  return KindFor<Given>(
      member, [least, most](const SettingsReader& reader, std::string_view key, auto& value) {
        auto number = static_cast<int64_t>(value);
        MSP_RETURN_IF_ERROR(reader.Int(key, least, most, number));
        value = static_cast<std::remove_cvref_t<decltype(value)>>(number);
        return Status();
      });
}

// A text, as std::string or as a path.
template <typename Given = void, typename Member>
auto Text(Member member) {
  return KindFor<Given>(member,
                        [](const SettingsReader& reader, std::string_view key, auto& value) {
                          std::string text = internal::TextOf(value);
                          MSP_RETURN_IF_ERROR(reader.Text(key, text));
                          value = std::move(text);
                          return Status();
                        });
}

template <typename Given = void, typename Member>
auto TextList(Member member) {
  return KindFor<Given>(
      member, [](const SettingsReader& reader, std::string_view key,
                 std::vector<std::string>& value) { return reader.TextList(key, value); });
}

// Numbers and ranges such as "3-5", sorted.
template <typename Given = void, typename Member>
auto NumberSet(Member member) {
  return KindFor<Given>(
      member, [](const SettingsReader& reader, std::string_view key, std::vector<int64_t>& value) {
        return reader.NumberSet(key, value);
      });
}

// A value of an enum by its name. `choices` is borrowed for good.
template <typename Given = void, typename Member, typename Value, size_t kCount>
auto OneOf(Member member, const std::array<Choice<Value>, kCount>& choices) {
  using Settings = internal::Owner<Given, Member>;
  return SettingsKind<Settings>{
      ReadInto<Settings>(member,
                         [&choices](const SettingsReader& reader, std::string_view key,
                                    Value& value) { return reader.Choose(key, choices, value); }),
      [member, &choices](const Settings& settings, std::string_view key, Writer& writer) {
        writer.Member(key, NameOf(choices, std::invoke(member, settings)));
      }};
}

// A text that is one of the names. `names` is borrowed for good.
template <typename Given = void, typename Member, size_t kCount>
auto OneOf(Member member, const std::array<std::string_view, kCount>& names) {
  return KindFor<Given>(
      member,
      [&names](const SettingsReader& reader, std::string_view key, std::string& value) -> Status {
        std::string_view chosen;
        MSP_RETURN_IF_ERROR(reader.OneOf(key, names, chosen));
        value = chosen.empty() ? value : std::string(chosen);
        return {};
      });
}

}  // namespace msprobe::json
