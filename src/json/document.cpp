#include "src/json/document.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/numbers.h"
#include "src/json/stream_reader.h"
#include "src/json/tree_builder.h"

namespace msprobe::json::internal {

bool TreeBuilder::Fail(int line, std::string_view complaint) {
  if (status_.ok()) {
    status_ = BadFormatError(fmt::format("line {}: {}", line, complaint));
  }
  return false;
}

bool TreeBuilder::Count(size_t nodes, int line) {
  if (nodes > limits_.nodes - nodes_) {
    return Fail(line, fmt::format("more than {} values", limits_.nodes));
  }
  nodes_ += nodes;
  return true;
}

bool TreeBuilder::expects_key() const {
  return !open_.empty() && open_.back().value.is_object() && !open_.back().has_key;
}

void TreeBuilder::AddNote(int line, std::string_view spelling) {
  if (use_ == TreeUse::kSettings) {
    tree_.notes.push_back({line, static_cast<uint32_t>(tree_.spellings.size()),
                           static_cast<uint32_t>(spelling.size())});
    tree_.spellings += spelling;
  }
}

bool TreeBuilder::Add(Json scalar, int line, std::string_view spelling) {
  if (failed() || !Count(1, line)) {
    return false;
  }
  const size_t first_note = tree_.notes.size();
  AddNote(line, spelling);
  return Place(std::move(scalar), first_note);
}

bool TreeBuilder::AddCopy(const Json& value, std::span<const Note> notes) {
  if (failed() || !Count(1, notes.empty() ? 0 : notes[0].line)) {
    return false;
  }
  const size_t first_note = tree_.notes.size();
  tree_.notes.insert(tree_.notes.end(), notes.begin(), notes.end());
  return Place(Json(value), first_note);
}

TreeBuilder::Level::~Level() {
  TakeApart(value);
  std::for_each(merged.begin(), merged.end(), TakeApart);
}

// More room for members. Left to itself the vector copies them, whole trees, as their keys are
// const.
void TreeBuilder::Level::Grow() {
  auto& members = value.get_ref<Json::object_t&>();
  if (members.size() < members.capacity()) {
    return;
  }
  Level larger;
  larger.value = Json(Json::value_t::object);
  auto& room = larger.value.get_ref<Json::object_t&>();
  room.reserve(std::max<size_t>(4, 2 * members.size()));
  for (auto& [name, member] : members) {
    room.Container::emplace_back(name, std::move(member));
  }
  room.swap(members);
}

bool TreeBuilder::Place(Json&& value, size_t first_note) {
  last_note_ = first_note;
  if (open_.empty()) {
    tree_.root = std::move(value);
    last_ = &tree_.root;
    return true;
  }
  Level& parent = open_.back();
  if (parent.value.is_array()) {
    parent.value.push_back(std::move(value));
    last_ = &parent.value.back();
    return true;
  }
  if (parent.is_merge) {
    return PlaceMerged(parent, std::move(value));
  }
  // Not by key: the library would look through all members for it.
  parent.Grow();
  auto& members = parent.value.get_ref<Json::object_t&>();
  members.Container::emplace_back(std::move(parent.key), std::move(value));
  parent.key_lines.push_back(parent.key_line);
  parent.has_key = false;
  last_ = &members.back().second;
  return true;
}

bool TreeBuilder::PlaceMerged(Level& level, Json&& value) {
  level.has_key = false;
  level.is_merge = false;
  // If there are several objects, the first one counts.
  const size_t before = level.merged.size();
  if (value.is_array()) {
    auto& objects = value.get_ref<Json::array_t&>();
    level.merged.insert(level.merged.end(), std::make_move_iterator(objects.rbegin()),
                        std::make_move_iterator(objects.rend()));
  } else {
    level.merged.push_back(std::move(value));
  }
  last_ = nullptr;
  return std::all_of(level.merged.begin() + static_cast<std::ptrdiff_t>(before), level.merged.end(),
                     [](const Json& object) { return object.is_object(); }) ||
         Fail(level.key_line, "the value of << must be a mapping");
}

bool TreeBuilder::Begin(Json::value_t kind, int line) {
  if (failed() || !Count(1, line)) {
    return false;
  }
  if (open_.size() >= limits_.depth) {
    return Fail(line, fmt::format("more than {} nested levels", limits_.depth));
  }
  Level& level = open_.emplace_back();
  level.value = Json(kind);
  level.first_note = tree_.notes.size();
  AddNote(line, {});
  return true;
}

bool TreeBuilder::MergeKey(int line) {
  if (!Key("<<", line)) {
    return false;
  }
  open_.back().is_merge = true;
  return true;
}

bool TreeBuilder::Key(std::string key, int line) {
  if (failed()) {
    return false;
  }
  Level& level = open_.back();
  level.key = std::move(key);
  level.key_line = line;
  level.has_key = true;
  return true;
}

namespace {

// The places of two members with one key, the first such pair by name; nullopt: there is none.
std::optional<std::pair<size_t, size_t>> FindDuplicate(const Json::object_t& members) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&members](size_t place) -> const std::string& {
    return std::next(members.begin(), static_cast<std::ptrdiff_t>(place))->first;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&key](size_t left, size_t right) { return key(left) < key(right); });
  const auto pair =
      std::adjacent_find(order.begin(), order.end(),
                         [&key](size_t left, size_t right) { return key(left) == key(right); });
  return pair == order.end() ? std::nullopt : std::optional(std::pair(*pair, *std::next(pair)));
}

}  // namespace

void TreeBuilder::KeepLastMembers(Level& level) {
  Json::object_t kept;
  std::unordered_map<std::string, size_t> places;
  level.merged.push_back(std::move(level.value));
  for (Json& object : level.merged) {
    for (auto& [key, value] : object.get_ref<Json::object_t&>()) {
      const auto [place, is_new] = places.emplace(key, kept.size());
      if (is_new) {
        kept.Container::emplace_back(key, std::move(value));
      } else {
        std::next(kept.begin(), static_cast<std::ptrdiff_t>(place->second))->second =
            std::move(value);
      }
    }
  }
  level.value = std::move(kept);
}

bool TreeBuilder::End() {
  if (failed()) {
    return false;
  }
  Level level = std::move(open_.back());
  open_.pop_back();
  if (level.value.is_object()) {
    const auto& members = level.value.get_ref<const Json::object_t&>();
    const auto duplicate = FindDuplicate(members);
    if (duplicate && use_ == TreeUse::kSettings) {
      return Fail(
          level.key_lines[duplicate->second],
          fmt::format(
              "key \"{}\": already given on line {}",
              std::next(members.begin(), static_cast<std::ptrdiff_t>(duplicate->second))->first,
              level.key_lines[duplicate->first]));
    }
    if (duplicate || !level.merged.empty()) {
      KeepLastMembers(level);
    }
  }
  return Place(std::move(level.value), level.first_note);
}

}  // namespace msprobe::json::internal

namespace msprobe::json {
namespace {

using Kind = Json::value_t;

constexpr uint64_t kBigIntegerType = 2;  // CBOR's tag for one
constexpr size_t kMostValues = size_t{1} << 22U;
constexpr size_t kDeepest = 512;

class DocumentReader final : public Handler {
 public:
  explicit DocumentReader(internal::TreeLimits limits)
      : builder_(internal::TreeUse::kData, limits) {}

  bool OnNull() override { return builder_.Add(nullptr, 0); }
  bool OnBool(bool value) override { return builder_.Add(value, 0); }
  bool OnInt(int64_t value) override { return builder_.Add(value, 0); }
  bool OnFloat(double value, std::string_view digits) override {
    const bool is_whole = digits.find_first_not_of("-0123456789") == std::string_view::npos;
    return builder_.Add(is_whole ? BigInteger(digits) : Json(value), 0);
  }
  bool OnText(std::string_view value) override { return builder_.Add(value, 0); }
  bool OnBeginObject() override { return builder_.Begin(Kind::object, 0); }
  bool OnKey(std::string_view key) override { return builder_.Key(std::string(key), 0); }
  bool OnEndObject() override { return builder_.End(); }
  bool OnBeginArray() override { return builder_.Begin(Kind::array, 0); }
  bool OnEndArray() override { return builder_.End(); }

  internal::TreeBuilder& builder() { return builder_; }

 private:
  internal::TreeBuilder builder_;
};

}  // namespace

void TakeApart(Json& value) noexcept {
  if (value.is_array()) {
    auto& items = value.get_ref<Json::array_t&>();
    std::for_each(items.begin(), items.end(), TakeApart);
    items.clear();
  } else if (value.is_object()) {
    auto& members = value.get_ref<Json::object_t&>();
    for (auto& [key, member] : members) {
      TakeApart(member);
    }
    members.clear();
  }
}

const Json* Find(const Json& object, std::string_view key) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto& members = object.get_ref<const Json::object_t&>();
  const auto found = std::find_if(members.begin(), members.end(),
                                  [key](const auto& member) { return member.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

const Json* FindGiven(const Json& object, std::string_view key) {
  const Json* value = Find(object, key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json& Member(const Json& object, std::string_view key) {
  static const Json kNull;
  const Json* value = Find(object, key);
  return value == nullptr ? kNull : *value;
}

std::span<const Json> ItemsOf(const Json& list) {
  return list.is_array() ? std::span<const Json>(list.get_ref<const Json::array_t&>())
                         : std::span<const Json>();
}

Result<int64_t> IntegerIn(const Json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer() || IsBigInteger(value) ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
    return BadFormatError("must be an integer");
  }
  const int64_t number = IntOf(value);
  if (number < least || number > most) {
    return BadFormatError(fmt::format("is {}, not from {} to {}", number, least, most));
  }
  return number;
}

int64_t IntOf(const Json& value) { return value.is_number_integer() ? value.get<int64_t>() : 0; }

double NumberOf(const Json& value) {
  return value.is_number()     ? value.get<double>()
         : IsBigInteger(value) ? base::ParseDouble(IntegerText(value)).value_or(0)
                               : 0;
}

bool BoolOf(const Json& value) { return value.is_boolean() && value.get<bool>(); }

const std::string& TextOf(const Json& value) {
  static const std::string kNoText;
  return value.is_string() ? value.get_ref<const std::string&>() : kNoText;
}

std::string_view KindName(const Json& value) {
  switch (value.type()) {
    case Kind::null:
    case Kind::discarded:
      return "null";
    case Kind::boolean:
      return "true or false";
    case Kind::number_integer:
    case Kind::number_unsigned:
      return "an integer";
    case Kind::number_float:
    case Kind::binary:
      return "a number";
    case Kind::string:
      return "text";
    case Kind::array:
      return "a list";
    case Kind::object:
      return "an object";
  }
  return "unknown";
}

Json BigInteger(std::string_view digits) {
  return Json::binary({digits.begin(), digits.end()}, kBigIntegerType);
}

bool IsBigInteger(const Json& value) { return value.is_binary(); }

std::string IntegerText(const Json& value) {
  if (!IsBigInteger(value)) {
    return std::to_string(IntOf(value));
  }
  const Json::binary_t& digits = value.get_binary();
  return {digits.begin(), digits.end()};
}

Result<Json> ParseDocument(std::string_view text) {
  constexpr internal::TreeLimits kLimits = {kMostValues, kDeepest};
  DocumentReader reader(kLimits);
  MSP_RETURN_IF_ERROR(ParseStream(text, reader));
  // Only an event that does not fit stops a parse that found no error.
  if (reader.builder().failed()) {
    return UnsupportedError(fmt::format("more than {} values", kLimits.nodes));
  }
  return reader.builder().Take().root;
}

void WriteDocument(const Json& document, Writer& writer) {
  switch (document.type()) {
    case Kind::object:
      writer.BeginObject();
      WriteMembers(document, writer);
      writer.EndObject();
      return;
    case Kind::array:
      writer.BeginArray();
      for (const Json& item : document) {
        WriteDocument(item, writer);
      }
      writer.EndArray();
      return;
    case Kind::string:
      writer.Text(TextOf(document));
      return;
    case Kind::boolean:
      writer.Bool(BoolOf(document));
      return;
    case Kind::number_integer:
    case Kind::number_unsigned:
      writer.Int(IntOf(document));
      return;
    case Kind::number_float:
      writer.Float(NumberOf(document));
      return;
    case Kind::binary:
      writer.Raw(IntegerText(document));
      return;
    case Kind::null:
    case Kind::discarded:
      writer.Null();
      return;
  }
}

void WriteMembers(const Json& object, Writer& writer) {
  for (const auto& [key, value] : object.items()) {
    writer.Key(key);
    WriteDocument(value, writer);
  }
}

Json NumberOrNull(const std::optional<int64_t>& number) { return number ? Json(*number) : Json(); }

std::string DocumentText(const Json& document, int indent, Writer::NonFinite non_finite) {
  std::string text;
  Writer writer(text, indent, non_finite);
  WriteDocument(document, writer);
  return text;
}

void AppendPythonRepr(const Json& value, std::string& out) {
  auto separate = [&out, is_first = true]() mutable {
    out += is_first ? "" : ", ";
    is_first = false;
  };
  switch (value.type()) {
    case Kind::null:
    case Kind::discarded:
      out += "None";
      return;
    case Kind::boolean:
      out += BoolOf(value) ? "True" : "False";
      return;
    case Kind::number_integer:
    case Kind::number_unsigned:
    case Kind::binary:
      out += IntegerText(value);
      return;
    case Kind::number_float:
      base::AppendPythonFloatRepr(NumberOf(value), out);
      return;
    case Kind::string:
      base::AppendPythonTextRepr(TextOf(value), out);
      return;
    case Kind::array:
      out += '[';
      for (const Json& item : value) {
        separate();
        AppendPythonRepr(item, out);
      }
      out += ']';
      return;
    case Kind::object:
      out += '{';
      for (const auto& [key, member] : value.items()) {
        separate();
        base::AppendPythonTextRepr(key, out);
        out += ": ";
        AppendPythonRepr(member, out);
      }
      out += '}';
      return;
  }
}

std::string PythonStr(const Json& value) {
  std::string text = TextOf(value);
  if (!value.is_string()) {
    AppendPythonRepr(value, text);
  }
  return text;
}

}  // namespace msprobe::json
