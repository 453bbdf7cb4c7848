#include "src/io/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/io/byte_order.h"
#include "src/io/pickle_text.h"

namespace msprobe::io {
namespace {

// A small tensor's pickle fits without a second allocation.
constexpr size_t kFirstReserve = 64;

}  // namespace

PickleLimits PickleLimits::ForStored(uint64_t stored_bytes) {
  constexpr uint64_t kAlways = uint64_t{128} << 20U;
  constexpr uint64_t kPerStoredByte = 64;
  PickleLimits limits;
  const uint64_t memory = kAlways + std::min(stored_bytes, limits.pickle_bytes) * kPerStoredByte;
  limits.pickle_bytes = std::min(limits.pickle_bytes, memory);
  limits.values = std::min<size_t>(limits.values, memory / 2 / sizeof(Pickle::Value));
  limits.items = std::min<size_t>(limits.items, memory / 4 / sizeof(PickleId));
  limits.stack_and_memo = std::min<size_t>(limits.stack_and_memo, memory / 4 / sizeof(PickleId));
  return limits;
}

PickleReader::PickleReader(std::span<const std::byte> bytes, const PickleLimits& limits)
    : bytes_(bytes), limits_(limits) {
  // A container slot costs at least one byte of pickle; growing lists and objects may multiply
  // that, not more.
  limits_.items = std::min(limits_.items, bytes.size() * 8 + 1024);
  pickle_.values_.reserve(kFirstReserve);
  pickle_.items_.reserve(kFirstReserve);
  stack_.reserve(kFirstReserve / 2);
  memo_.reserve(kFirstReserve / 2);
  Pickle::Value none;
  Pickle::Value boolean;
  boolean.kind = PickleKind::kBool;
  Pickle::Value truth = boolean;
  truth.integer = 1;
  Pickle::Value tuple;
  tuple.kind = PickleKind::kTuple;
  tuple.items = {0, 0};
  pickle_.values_ = {none, boolean, truth, tuple};
  pickle_.values_.reserve(kFirstReserve);
}

Result<Pickle> PickleReader::Read(std::span<const std::byte> bytes, const PickleLimits& limits) {
  PickleReader reader(bytes.first(std::min<uint64_t>(bytes.size(), limits.pickle_bytes)), limits);
  MSP_RETURN_IF_ERROR(reader.Run());
  return std::move(reader.pickle_);
}

Status PickleReader::Run() {
  while (at_ < bytes_.size()) {
    opcode_at_ = at_;
    const uint8_t opcode = std::to_integer<uint8_t>(bytes_[at_++]);
    if (opcode == '.') {
      MSP_RETURN_IF_ERROR(Need(1));
      pickle_.root_ = Pop();
      pickle_.end_offset_ = at_;
      return {};
    }
    MSP_RETURN_IF_ERROR(Step(opcode));
  }
  return BadFormatError(fmt::format("pickle of {} bytes ends without STOP", bytes_.size()));
}

Status PickleReader::Bad(std::string_view what) const {
  return BadFormatError(fmt::format("pickle byte {} (opcode {:#04x}): {}", opcode_at_,
                                    std::to_integer<unsigned>(bytes_[opcode_at_]), what));
}

// --- operands ---

Status PickleReader::Take(uint64_t count, const std::byte** out) {
  if (count > bytes_.size() - at_) {
    return Bad(fmt::format("an operand of {} bytes does not fit into the {} that are left", count,
                           bytes_.size() - at_));
  }
  *out = bytes_.data() + at_;
  at_ += count;
  return {};
}

Status PickleReader::TakeLine(std::string_view* out) {
  const std::string_view rest = AsText(bytes_.data() + at_, bytes_.size() - at_);
  const size_t end = rest.find('\n');
  if (end == std::string_view::npos) {
    return Bad("its text line does not end");
  }
  *out = rest.substr(0, end);
  at_ += end + 1;
  return {};
}

Status PickleReader::TakeCountedText(uint64_t count, std::string_view* out) {
  const std::byte* operand = nullptr;
  MSP_RETURN_IF_ERROR(Take(count, &operand));
  *out = AsText(operand, count);
  return {};
}

// --- stack ---

Status PickleReader::Need(size_t count) const {
  if (stack_.size() - Fence() < count) {
    return Bad("too few values on the stack");
  }
  return {};
}

Status PickleReader::Push(PickleId id) {
  if (stack_.size() + memo_.size() + sparse_memo_.size() >= limits_.stack_and_memo) {
    return Bad("more values on the stack and in the memo than allowed");
  }
  stack_.push_back(id);
  return {};
}

PickleId PickleReader::Pop() {
  const PickleId id = stack_.back();
  stack_.pop_back();
  return id;
}

Status PickleReader::PopMark(std::vector<PickleId>* out) {
  if (marks_.empty()) {
    return Bad("no MARK on the stack");
  }
  out->assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return {};
}

// --- values ---

Result<PickleId> PickleReader::NewValue(Pickle::Value value) {
  if (pickle_.values_.size() >= limits_.values) {
    return Bad(fmt::format("more than {} values, too many for its size", limits_.values));
  }
  pickle_.values_.push_back(value);
  return static_cast<PickleId>(pickle_.values_.size() - 1);
}

Status PickleReader::PushNew(Pickle::Value value) {
  MSP_ASSIGN_OR_RETURN(const PickleId id, NewValue(value));
  return Push(id);
}

Status PickleReader::PushInteger(int64_t integer) {
  Pickle::Value value;
  value.kind = PickleKind::kInt;
  value.integer = integer;
  return PushNew(value);
}

Status PickleReader::PushText(PickleKind kind, std::string_view text) {
  if (text.size() > UINT32_MAX) {
    return Bad("a text of more than 4 GiB");
  }
  Pickle::Value value;
  value.kind = kind;
  value.count = static_cast<uint32_t>(text.size());
  value.text = text.data();
  if (kind == PickleKind::kGlobal) {
    value.global = ClassifyPickleGlobal(text);
  }
  return PushNew(value);
}

Status PickleReader::ChargeText(size_t text_bytes) {
  decoded_bytes_ += text_bytes;
  if (decoded_bytes_ > uint64_t{bytes_.size()} * 8 + 65536) {
    return Bad("its strings grow out of proportion to its size");
  }
  return {};
}

Status PickleReader::PushOwnedText(PickleKind kind, std::string text) {
  MSP_RETURN_IF_ERROR(ChargeText(text.size()));
  return PushText(kind, pickle_.owned_texts_.emplace_front(std::move(text)));
}

Status PickleReader::PushLong(std::string_view bytes) {
  if (bytes.size() > limits_.long_bytes) {
    return Bad(fmt::format("an integer of {} bytes", bytes.size()));
  }
  if (bytes.size() <= sizeof(int64_t)) {
    const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
    int64_t value = negative ? -1 : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return PushInteger(value);
  }
  return PushText(PickleKind::kBigInt, bytes);
}

Status PickleReader::PushDecimal(std::string_view line) {
  if (line.ends_with('L')) {
    line.remove_suffix(1);
  }
  if (const std::optional<int64_t> value = base::ParseInt(line)) {
    return PushInteger(*value);
  }
  std::string_view digits = line;
  if (digits.starts_with('-') || digits.starts_with('+')) {
    digits.remove_prefix(1);
  }
  if (digits.empty() || digits.size() > limits_.long_bytes ||
      digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return Bad("not an integer");
  }
  MSP_RETURN_IF_ERROR(PushText(PickleKind::kBigInt, line));
  pickle_.values_[stack_.back()].decimal = true;
  return {};
}

Status PickleReader::PushGlobal(std::string_view name) {
  const size_t split = name.find('\n');
  if (split == 0 || split + 1 == name.size()) {
    return Bad("an empty module or class name");
  }
  return PushText(PickleKind::kGlobal, name);
}

Result<PickleId> PickleReader::NewSequence(PickleKind kind, std::span<const PickleId> items) {
  Pickle::Value value;
  value.kind = kind;
  value.hashable =
      kind != PickleKind::kList && kind != PickleKind::kDict && kind != PickleKind::kSet;
  if (kind == PickleKind::kTuple) {
    value.hashable = std::all_of(items.begin(), items.end(),
                                 [this](PickleId id) { return pickle_.hashable(id); });
  }
  value.items = {0, 0};
  MSP_ASSIGN_OR_RETURN(const PickleId id, NewValue(value));
  MSP_RETURN_IF_ERROR(AppendItems(id, items));
  return id;
}

// `items` must not point into the arena. A container whose slots are full and not last moves to the
// end with twice the room.
Status PickleReader::AppendItems(PickleId container, std::span<const PickleId> items) {
  if (items.empty()) {
    return {};
  }
  std::vector<PickleId>& pool = pickle_.items_;
  Pickle::Value& value = pickle_.values_[container];
  const size_t count = value.count + items.size();
  if (count > value.items.capacity) {
    const bool last = value.items.begin + size_t{value.items.capacity} == pool.size();
    const size_t begin = last ? value.items.begin : pool.size();
    // Tuples and first fills are exact; what grows again gets room to grow.
    const size_t capacity = value.count == 0 || last ? count : count * 2;
    if (begin + capacity > limits_.items || begin + capacity > UINT32_MAX) {
      return Bad("more container items than allowed");
    }
    pool.resize(begin + capacity, kPickleNone);
    if (!last) {
      std::copy_n(pool.begin() + value.items.begin, value.count,
                  pool.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    value.items = {static_cast<uint32_t>(begin), static_cast<uint32_t>(capacity)};
  }
  std::copy(items.begin(), items.end(),
            pool.begin() + static_cast<std::ptrdiff_t>(value.items.begin + size_t{value.count}));
  value.count = static_cast<uint32_t>(count);
  return {};
}

Status PickleReader::SetItems(PickleId target, std::span<const PickleId> pairs) {
  if (pairs.size() % 2 != 0) {
    return Bad("a dict key without a value");
  }
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (!pickle_.hashable(pairs[i])) {
      return Bad("a list, dict or set cannot be a dict key");
    }
  }
  if (pickle_.kind(target) == PickleKind::kObject) {
    PickleId dict = pickle_.object(target).dict_items;
    if (dict == kNoPickleValue) {
      MSP_ASSIGN_OR_RETURN(dict, NewSequence(PickleKind::kDict, {}));
      pickle_.items_[pickle_.values_[target].items.begin + 4] = dict;
    }
    target = dict;
  }
  if (pickle_.kind(target) != PickleKind::kDict) {
    return Bad("items are set on a value that is not a dict");
  }
  return AppendItems(target, pairs);
}

Status PickleReader::ListItems(PickleId target, std::span<const PickleId> items) {
  if (pickle_.kind(target) == PickleKind::kObject) {
    PickleId list = pickle_.object(target).list_items;
    if (list == kNoPickleValue) {
      MSP_ASSIGN_OR_RETURN(list, NewSequence(PickleKind::kList, {}));
      pickle_.items_[pickle_.values_[target].items.begin + 3] = list;
    }
    target = list;
  }
  if (pickle_.kind(target) != PickleKind::kList) {
    return Bad("items are appended to a value that is not a list");
  }
  return AppendItems(target, items);
}

Status PickleReader::AddItems(PickleId target, std::span<const PickleId> items) {
  if (pickle_.kind(target) != PickleKind::kSet) {
    return Bad("items are added to a value that is not a set");
  }
  return AppendItems(target, items);
}

// An index that continues the count goes into the vector, and is then looked for there first.
Status PickleReader::Memoize(uint64_t index) {
  MSP_RETURN_IF_ERROR(Need(1));
  if (index < memo_.size()) {
    memo_[index] = stack_.back();
    return {};
  }
  if (stack_.size() + memo_.size() + sparse_memo_.size() >= limits_.stack_and_memo) {
    return Bad("more values on the stack and in the memo than allowed");
  }
  if (index == memo_.size()) {
    if (!sparse_memo_.empty()) {
      sparse_memo_.erase(index);
    }
    memo_.push_back(stack_.back());
  } else {
    sparse_memo_[index] = stack_.back();
  }
  return {};
}

Status PickleReader::Recall(uint64_t index) {
  if (index < memo_.size()) {
    return Push(memo_[index]);
  }
  const auto found = sparse_memo_.find(index);
  if (found == sparse_memo_.end()) {
    return Bad(fmt::format("memo entry {} was never set", index));
  }
  return Push(found->second);
}

}  // namespace msprobe::io
