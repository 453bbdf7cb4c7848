#include "src/io/pickle_value.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "src/io/spread_hash.h"

namespace msprobe::io {
namespace {

constexpr size_t kLongestIntegerBytes = 64;
constexpr size_t kLongestIntegerDigits = 160;
constexpr size_t kLongestName = 1000;

// Two's complement little-endian bytes to decimal: repeated division by 10^9, quadratic, hence the
// limit above.
std::string DecimalText(std::string_view bytes) {
  const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
  std::vector<uint32_t> words((bytes.size() + 3) / 4, negative ? 0xFFFFFFFFU : 0U);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t shift = static_cast<uint32_t>(i % 4) * 8;
    words[i / 4] = (words[i / 4] & ~(0xFFU << shift)) |
                   (static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << shift);
  }
  if (negative) {
    uint64_t carry = 1;
    for (uint32_t& word : words) {
      const uint64_t sum = static_cast<uint64_t>(~word) + carry;
      word = static_cast<uint32_t>(sum);
      carry = sum >> 32U;
    }
  }
  std::string digits;
  while (std::any_of(words.begin(), words.end(), [](uint32_t word) { return word != 0; })) {
    uint64_t remainder = 0;
    for (size_t i = words.size(); i-- > 0;) {
      const uint64_t value = (remainder << 32U) | words[i];
      words[i] = static_cast<uint32_t>(value / 1000000000U);
      remainder = value % 1000000000U;
    }
    for (int i = 0; i < 9; ++i) {
      digits.push_back(static_cast<char>('0' + remainder % 10));
      remainder /= 10;
    }
  }
  while (digits.size() > 1 && digits.back() == '0') {
    digits.pop_back();
  }
  if (digits.empty()) {
    digits.push_back('0');
  }
  if (negative) {
    digits.push_back('-');
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace

PickleObject Pickle::object(PickleId id) const {
  const std::span<const PickleId> slots = items(id);
  return {slots[0], slots[1], slots[2], slots[3], slots[4]};
}

std::optional<int64_t> Pickle::AsInt(PickleId id) const {
  if (kind(id) == PickleKind::kInt || kind(id) == PickleKind::kBool) {
    return integer(id);
  }
  return std::nullopt;
}

std::span<const PickleId> Pickle::sequence(PickleId id) const {
  if (id != kNoPickleValue && (kind(id) == PickleKind::kTuple || kind(id) == PickleKind::kList)) {
    return items(id);
  }
  return {};
}

PickleId Pickle::Find(PickleId dict, std::string_view key) const {
  if (dict == kNoPickleValue || kind(dict) != PickleKind::kDict) {
    return kNoPickleValue;
  }
  const std::span<const PickleId> pairs = items(dict);
  for (size_t i = pairs.size(); i >= 2; i -= 2) {
    if (IsText(pairs[i - 2], key)) {
      return pairs[i - 1];
    }
  }
  return kNoPickleValue;
}

PickleId Pickle::attributes(PickleId object_id) const {
  if (object_id == kNoPickleValue || kind(object_id) != PickleKind::kObject) {
    return kNoPickleValue;
  }
  const PickleId state = object(object_id).state;
  if (state == kNoPickleValue || kind(state) == PickleKind::kDict) {
    return state;
  }
  for (PickleId part : sequence(state)) {
    if (kind(part) == PickleKind::kDict) {
      return part;
    }
  }
  return kNoPickleValue;
}

std::vector<std::pair<PickleId, PickleId>> Pickle::UniqueItems(PickleId dict) const {
  const std::span<const PickleId> pairs = items(dict);
  std::vector<std::pair<PickleId, PickleId>> result;
  result.reserve(pairs.size() / 2);
  // Keys that are neither text nor numbers are compared by identity: they never merge by mistake.
  const auto key_text = [this](PickleId key) -> std::string_view {
    return kind(key) == PickleKind::kText || kind(key) == PickleKind::kBytes ? text(key)
                                                                             : std::string_view();
  };
  const auto same = [&](PickleId a, PickleId b) {
    if (a == b) {
      return true;
    }
    if (AsInt(a) && AsInt(b)) {
      return integer(a) == integer(b);
    }
    return kind(a) == kind(b) && (kind(a) == PickleKind::kText || kind(a) == PickleKind::kBytes) &&
           text(a) == text(b);
  };
  constexpr size_t kHashAbovePairs = 16;
  const auto hash = [&](PickleId key) {
    const std::optional<int64_t> number = AsInt(key);
    return number ? SpreadHash()(static_cast<uint64_t>(*number))
                  : std::hash<std::string_view>()(key_text(key));
  };
  std::unordered_map<PickleId, size_t, decltype(hash), decltype(same)> places(
      pairs.size() / 2 > kHashAbovePairs ? pairs.size() / 2 : 0, hash, same);
  const bool hashed = pairs.size() / 2 > kHashAbovePairs;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    size_t place = result.size();
    if (hashed) {
      // Objects and tuples all hash alike: they are left out of the table, else many of them would
      // cost a square.
      if (AsInt(pairs[i]) || kind(pairs[i]) == PickleKind::kText ||
          kind(pairs[i]) == PickleKind::kBytes) {
        place = places.try_emplace(pairs[i], place).first->second;
      }
    } else {
      for (size_t j = 0; j < result.size(); ++j) {
        if (same(result[j].first, pairs[i])) {
          place = j;
          break;
        }
      }
    }
    if (place == result.size()) {
      result.emplace_back(pairs[i], pairs[i + 1]);
    } else {
      result[place].second = pairs[i + 1];
    }
  }
  return result;
}

std::string Pickle::DottedName(PickleId id) const {
  // Objects whose callee is an object again: a bounded number of steps, cycles included.
  for (int step = 0; step < 8 && kind(id) == PickleKind::kObject; ++step) {
    id = object(id).callee;
  }
  if (kind(id) != PickleKind::kGlobal) {
    return "object";
  }
  std::string name(text(id).substr(0, kLongestName));
  std::replace(name.begin(), name.end(), '\n', '.');
  return name;
}

std::string Pickle::IntegerText(PickleId id) const {
  if (kind(id) != PickleKind::kBigInt) {
    return std::to_string(integer(id));
  }
  const size_t size = text(id).size();
  if (values_[id].decimal) {
    return size > kLongestIntegerDigits ? fmt::format("(integer of {} digits)", size)
                                        : std::string(text(id));
  }
  return size > kLongestIntegerBytes ? fmt::format("(integer of {} bytes)", size)
                                     : DecimalText(text(id));
}

}  // namespace msprobe::io
