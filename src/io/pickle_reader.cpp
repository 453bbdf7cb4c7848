#include "src/io/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/io/contents.h"
#include "src/io/pickle_value.h"

namespace msprobe::io {
namespace {

constexpr uint8_t kHighestProtocol = 5;

}  // namespace

Status PickleReader::Step(uint8_t opcode) {
  switch (opcode) {
    case 'K':
    case 'M':
    case 'J':
    case 'I':
    case 'L':
    case 'F':
    case 'G':
    case 0x8A:
    case 0x8B:
      return StepNumber(opcode);
    case 'X':
    case 'U':
    case 'T':
    case 'B':
    case 'C':
    case 'S':
    case 'V':
    case 0x8C:
    case 0x8D:
    case 0x8E:
    case 0x96:
      return StepText(opcode);
    case ')':
    case 't':
    case 0x85:
    case 0x86:
    case 0x87:
    case ']':
    case 'l':
    case 'a':
    case 'e':
    case '}':
    case 'd':
    case 's':
    case 'u':
    case 0x8F:
    case 0x90:
    case 0x91:
      return StepContainer(opcode);
    case 'p':
    case 'q':
    case 'r':
    case 0x94:
    case 'g':
    case 'h':
    case 'j':
      return StepMemo(opcode);
    case 'c':
    case 0x93:
    case 'R':
    case 'b':
    case 0x81:
    case 0x92:
    case 'o':
    case 'i':
    case 'P':
    case 'Q':
      return StepObject(opcode);
    case 'N':
      return Push(kPickleNone);
    case 0x88:
      return Push(kPickleTrue);
    case 0x89:
      return Push(kPickleFalse);
    case '(':
      if (marks_.size() >= limits_.stack_and_memo) {
        return Bad("more marks than allowed");
      }
      marks_.push_back(stack_.size());
      return {};
    case '0':
      if (stack_.size() == Fence() && !marks_.empty()) {
        marks_.pop_back();
        return {};
      }
      MSP_RETURN_IF_ERROR(Need(1));
      stack_.pop_back();
      return {};
    case '1':
      return PopMark(&popped_);
    case '2':
      MSP_RETURN_IF_ERROR(Need(1));
      return Push(stack_.back());
    case 0x80: {
      uint8_t protocol = 0;
      MSP_RETURN_IF_ERROR(TakeInteger(&protocol));
      return protocol <= kHighestProtocol ? Status()
                                          : Bad(fmt::format("protocol {} is not known", protocol));
    }
    case 0x95: {
      uint64_t length = 0;
      MSP_RETURN_IF_ERROR(TakeInteger(&length));
      return length <= bytes_.size() - at_ ? Status() : Bad("a frame longer than the pickle");
    }
    default:
      return Bad("not an opcode that data files use");
  }
}

Status PickleReader::StepNumber(uint8_t opcode) {
  switch (opcode) {
    case 'K': {
      uint8_t value = 0;
      MSP_RETURN_IF_ERROR(TakeInteger(&value));
      return PushInteger(value);
    }
    case 'M': {
      uint16_t value = 0;
      MSP_RETURN_IF_ERROR(TakeInteger(&value));
      return PushInteger(value);
    }
    case 'J': {
      int32_t value = 0;
      MSP_RETURN_IF_ERROR(TakeInteger(&value));
      return PushInteger(value);
    }
    case 0x8A: {
      uint8_t length = 0;
      std::string_view digits;
      MSP_RETURN_IF_ERROR(TakeInteger(&length));
      MSP_RETURN_IF_ERROR(TakeCountedText(length, &digits));
      return PushLong(digits);
    }
    case 0x8B: {
      int32_t length = 0;
      std::string_view digits;
      MSP_RETURN_IF_ERROR(TakeInteger(&length));
      if (length < 0) {
        return Bad("an integer of negative length");
      }
      MSP_RETURN_IF_ERROR(TakeCountedText(static_cast<uint64_t>(length), &digits));
      return PushLong(digits);
    }
    case 'G': {
      const std::byte* operand = nullptr;
      MSP_RETURN_IF_ERROR(Take(sizeof(double), &operand));
      Pickle::Value value;
      value.kind = PickleKind::kFloat;
      value.number = std::bit_cast<double>(LoadBig<uint64_t>(operand));
      return PushNew(value);
    }
    default: {  // the text forms I, L, F
      std::string_view line;
      MSP_RETURN_IF_ERROR(TakeLine(&line));
      if (opcode == 'I' && (line == "00" || line == "01")) {
        return Push(line == "01" ? kPickleTrue : kPickleFalse);
      }
      if (opcode != 'F') {
        return PushDecimal(line);
      }
      const std::optional<double> number = base::ParseDouble(line);
      if (!number) {
        return Bad("not a number");
      }
      Pickle::Value value;
      value.kind = PickleKind::kFloat;
      value.number = *number;
      return PushNew(value);
    }
  }
}

Status PickleReader::StepText(uint8_t opcode) {
  std::string_view text;
  uint8_t length8 = 0;
  uint32_t length32 = 0;
  uint64_t length64 = 0;
  switch (opcode) {
    case 'S': {
      MSP_RETURN_IF_ERROR(TakeLine(&text));
      std::string decoded;
      if (!DecodeQuotedText(text, &decoded)) {
        return Bad("not a quoted text");
      }
      return PushOwnedText(PickleKind::kText, std::move(decoded));
    }
    case 'V': {
      MSP_RETURN_IF_ERROR(TakeLine(&text));
      std::string decoded;
      if (!DecodeRawUnicodeEscapes(text, &decoded)) {
        return Bad("a broken \\u escape");
      }
      return PushOwnedText(PickleKind::kText, std::move(decoded));
    }
    case 'U':
    case 'C':
    case 0x8C:
      MSP_RETURN_IF_ERROR(TakeInteger(&length8));
      length64 = length8;
      break;
    case 'T':
    case 'B':
    case 'X':  // T is signed; a negative length is too long for any pickle
      MSP_RETURN_IF_ERROR(TakeInteger(&length32));
      length64 = length32;
      break;
    default:
      MSP_RETURN_IF_ERROR(TakeInteger(&length64));
      break;
  }
  MSP_RETURN_IF_ERROR(TakeCountedText(length64, &text));
  const bool unicode = opcode == 'X' || opcode == 0x8C || opcode == 0x8D;
  if (unicode && !IsUtf8(text, Surrogates::kAllowed)) {  // as Python writes and reads them
    return Bad("a text that is not UTF-8");
  }
  const bool bytes = opcode == 'B' || opcode == 'C' || opcode == 0x8E || opcode == 0x96;
  return PushText(bytes ? PickleKind::kBytes : PickleKind::kText, text);
}

Status PickleReader::StepContainer(uint8_t opcode) {
  switch (opcode) {
    case ')':
      return Push(kPickleEmptyTuple);
    case 0x85:
    case 0x86:
    case 0x87: {
      const size_t count = opcode - size_t{0x84};
      MSP_RETURN_IF_ERROR(Need(count));
      const std::span<const PickleId> items(stack_.data() + stack_.size() - count, count);
      MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(PickleKind::kTuple, items));
      stack_.resize(stack_.size() - count);
      return Push(id);
    }
    case ']':
    case '}':
    case 0x8F: {
      const PickleKind kind = opcode == ']'   ? PickleKind::kList
                              : opcode == '}' ? PickleKind::kDict
                                              : PickleKind::kSet;
      MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(kind, {}));
      return Push(id);
    }
    case 't':
    case 'l':
    case 0x91: {
      MSP_RETURN_IF_ERROR(PopMark(&popped_));
      const PickleKind kind = opcode == 't'   ? PickleKind::kTuple
                              : opcode == 'l' ? PickleKind::kList
                                              : PickleKind::kSet;
      MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(kind, popped_));
      pickle_.values_[id].hashable |= opcode == 0x91;  // a frozenset
      return Push(id);
    }
    case 'd': {
      MSP_RETURN_IF_ERROR(PopMark(&popped_));
      MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(PickleKind::kDict, {}));
      MSP_RETURN_IF_ERROR(SetItems(id, popped_));
      return Push(id);
    }
    case 'a': {
      MSP_RETURN_IF_ERROR(Need(2));
      const PickleId item = Pop();
      return ListItems(stack_.back(), {&item, 1});
    }
    case 's': {
      MSP_RETURN_IF_ERROR(Need(3));
      const PickleId value = Pop();
      const PickleId pair[] = {Pop(), value};
      return SetItems(stack_.back(), pair);
    }
    default:  // e, u, ADDITEMS: everything above the mark goes into the value below it
      MSP_RETURN_IF_ERROR(PopMark(&popped_));
      MSP_RETURN_IF_ERROR(Need(1));
      return opcode == 'e'   ? ListItems(stack_.back(), popped_)
             : opcode == 'u' ? SetItems(stack_.back(), popped_)
                             : AddItems(stack_.back(), popped_);
  }
}

Status PickleReader::StepMemo(uint8_t opcode) {
  uint64_t index = memo_.size() + sparse_memo_.size();  // MEMOIZE
  if (opcode == 'q' || opcode == 'h') {
    uint8_t operand = 0;
    MSP_RETURN_IF_ERROR(TakeInteger(&operand));
    index = operand;
  } else if (opcode == 'r' || opcode == 'j') {
    uint32_t operand = 0;
    MSP_RETURN_IF_ERROR(TakeInteger(&operand));
    index = operand;
  } else if (opcode == 'p' || opcode == 'g') {
    std::string_view line;
    MSP_RETURN_IF_ERROR(TakeLine(&line));
    const std::optional<int64_t> number = base::ParseInt(line);
    if (!number || *number < 0) {
      return Bad("not a memo index");
    }
    index = static_cast<uint64_t>(*number);
  }
  const bool get = opcode == 'g' || opcode == 'h' || opcode == 'j';
  return get ? Recall(index) : Memoize(index);
}

Status PickleReader::StepObject(uint8_t opcode) {
  switch (opcode) {
    case 'c': {
      // "module\nname\n" lies in one piece: the name is borrowed with its line break.
      std::string_view module;
      std::string_view name;
      MSP_RETURN_IF_ERROR(TakeLine(&module));
      MSP_RETURN_IF_ERROR(TakeLine(&name));
      return PushGlobal({module.data(), module.size() + 1 + name.size()});
    }
    case 0x93: {
      MSP_RETURN_IF_ERROR(Need(2));
      const PickleId name = Pop();
      const PickleId module = Pop();
      if (pickle_.kind(name) != PickleKind::kText || pickle_.kind(module) != PickleKind::kText ||
          pickle_.text(module).find('\n') != std::string_view::npos) {
        return Bad("module and class name must be texts");
      }
      std::string joined(pickle_.text(module));
      joined += '\n';
      joined += pickle_.text(name);
      if (pickle_.text(module).empty() || pickle_.text(name).empty()) {
        return Bad("an empty module or class name");
      }
      return PushOwnedText(PickleKind::kGlobal, std::move(joined));
    }
    case 'R':
    case 0x81: {
      MSP_RETURN_IF_ERROR(Need(2));
      const PickleId arguments = Pop();
      return Call(Pop(), arguments, kNoPickleValue);
    }
    case 0x92: {
      MSP_RETURN_IF_ERROR(Need(3));
      const PickleId named = Pop();
      const PickleId arguments = Pop();
      if (pickle_.kind(named) != PickleKind::kDict) {
        return Bad("the keyword arguments of a call must be a dict");
      }
      // A copy: items that are set on the object are not set on the dict, which others may hold.
      popped_.assign(pickle_.items(named).begin(), pickle_.items(named).end());
      MSP_ASSIGN_OR_RETURN(const PickleId copy, NewSequence(PickleKind::kDict, popped_));
      return Call(Pop(), arguments, copy);
    }
    case 'o': {
      MSP_RETURN_IF_ERROR(PopMark(&popped_));
      if (popped_.empty()) {
        return Bad("no class above the mark");
      }
      const std::span<const PickleId> items(popped_);
      MSP_ASSIGN_OR_RETURN(const PickleId arguments,
                           NewSequence(PickleKind::kTuple, items.subspan(1)));
      return Call(items[0], arguments, kNoPickleValue);
    }
    case 'i': {
      std::string_view module;
      std::string_view name;
      MSP_RETURN_IF_ERROR(TakeLine(&module));
      MSP_RETURN_IF_ERROR(TakeLine(&name));
      MSP_RETURN_IF_ERROR(PopMark(&popped_));
      MSP_ASSIGN_OR_RETURN(const PickleId arguments, NewSequence(PickleKind::kTuple, popped_));
      MSP_RETURN_IF_ERROR(PushGlobal({module.data(), module.size() + 1 + name.size()}));
      return Call(Pop(), arguments, kNoPickleValue);
    }
    case 'b': {
      MSP_RETURN_IF_ERROR(Need(2));
      const PickleId state = Pop();
      return Build(stack_.back(), state);
    }
    default: {  // P, Q
      if (opcode == 'P') {
        std::string_view line;
        MSP_RETURN_IF_ERROR(TakeLine(&line));
        MSP_RETURN_IF_ERROR(PushText(PickleKind::kText, line));
      }
      MSP_RETURN_IF_ERROR(Need(1));
      const PickleId reference = Pop();
      MSP_ASSIGN_OR_RETURN(const PickleId id,
                           NewSequence(PickleKind::kPersistentId, {&reference, 1}));
      return Push(id);
    }
  }
}

Status PickleReader::Call(PickleId callee, PickleId arguments, PickleId keyword_arguments) {
  if (pickle_.kind(arguments) != PickleKind::kTuple) {
    return Bad("the arguments of a call must be a tuple");
  }
  // Copied, because making values may move the arena. Only the first few arguments matter here.
  const std::span<const PickleId> all = pickle_.items(arguments);
  PickleId first_arguments[2];
  const size_t count = std::min<size_t>(all.size(), 2);
  std::copy_n(all.begin(), count, first_arguments);
  const std::span<const PickleId> known(first_arguments, count);

  const PickleGlobal global = pickle_.global(callee);
  switch (global) {
    case PickleGlobal::kDict:
    case PickleGlobal::kOrderedDict:
    case PickleGlobal::kDefaultDict:
      return CallDict(global, known);
    case PickleGlobal::kSet:
      MSP_RETURN_IF_ERROR(CallSequence(PickleKind::kSet, known));
      pickle_.values_[stack_.back()].hashable |= pickle_.text(callee).ends_with("frozenset");
      return {};
    case PickleGlobal::kList:
      return CallSequence(PickleKind::kList, known);
    case PickleGlobal::kTuple:
      return CallSequence(PickleKind::kTuple, known);
    case PickleGlobal::kFirstArgument:
      if (!known.empty()) {
        return Push(known[0]);
      }
      break;
    case PickleGlobal::kEncode:
    case PickleGlobal::kBytes: {
      bool understood = false;
      MSP_RETURN_IF_ERROR(CallEncode(known, &understood));
      if (understood) {
        return {};
      }
      break;
    }
    default:
      break;
  }
  const PickleId slots[] = {callee, arguments, kNoPickleValue, kNoPickleValue, keyword_arguments};
  MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(PickleKind::kObject, slots));
  return Push(id);
}

// OrderedDict(), dict(), defaultdict(factory), and the old spelling OrderedDict([[key, value],
// ...]).
Status PickleReader::CallDict(PickleGlobal callee, std::span<const PickleId> arguments) {
  MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(PickleKind::kDict, {}));
  if (callee == PickleGlobal::kDefaultDict || arguments.empty()) {
    return Push(id);
  }
  std::vector<PickleId> pairs;
  if (pickle_.kind(arguments[0]) == PickleKind::kDict) {
    const std::span<const PickleId> items = pickle_.items(arguments[0]);
    pairs.assign(items.begin(), items.end());
  }
  for (PickleId pair : pickle_.sequence(arguments[0])) {
    const std::span<const PickleId> key_and_value = pickle_.sequence(pair);
    if (key_and_value.size() != 2) {
      return Bad("a dict is made from something other than pairs");
    }
    pairs.insert(pairs.end(), key_and_value.begin(), key_and_value.end());
  }
  MSP_RETURN_IF_ERROR(SetItems(id, pairs));
  return Push(id);
}

Status PickleReader::CallSequence(PickleKind kind, std::span<const PickleId> arguments) {
  std::vector<PickleId> items;
  if (!arguments.empty()) {
    const PickleKind source = pickle_.kind(arguments[0]);
    if (source != PickleKind::kList && source != PickleKind::kTuple && source != PickleKind::kSet) {
      return Bad("a list, tuple or set is made from another kind of value");
    }
    const std::span<const PickleId> all = pickle_.items(arguments[0]);
    items.assign(all.begin(), all.end());
  }
  MSP_ASSIGN_OR_RETURN(const PickleId id, NewSequence(kind, items));
  return Push(id);
}

// bytes(), bytearray(b"..."), and (text, encoding): bytes as protocol 2 writes them.
Status PickleReader::CallEncode(std::span<const PickleId> arguments, bool* understood) {
  *understood = true;
  if (arguments.empty()) {
    return PushText(PickleKind::kBytes, {});
  }
  if (pickle_.kind(arguments[0]) == PickleKind::kBytes) {
    return PushText(PickleKind::kBytes, pickle_.text(arguments[0]));
  }
  *understood = arguments.size() == 2 && pickle_.kind(arguments[0]) == PickleKind::kText &&
                (pickle_.IsText(arguments[1], "latin1") || pickle_.IsText(arguments[1], "latin-1"));
  if (!*understood) {
    return {};
  }
  const std::string_view text = pickle_.text(arguments[0]);
  // Charged although ASCII needs no copy: a long text recalled from the memo a million times must
  // not cost a scan each.
  MSP_RETURN_IF_ERROR(ChargeText(text.size()));
  if (IsAscii(text)) {
    return PushText(PickleKind::kBytes, text);
  }
  std::string bytes;
  if (!Utf8ToLatin1(text, &bytes)) {
    return Bad("bytes spelled with characters above 255");
  }
  return PushOwnedText(PickleKind::kBytes, std::move(bytes));
}

Status PickleReader::Build(PickleId target, PickleId state) {
  switch (pickle_.kind(target)) {
    case PickleKind::kDict:
      pickle_.values_[target].extra = state;
      return {};
    case PickleKind::kObject:
      pickle_.items_[pickle_.values_[target].items.begin + 2] = state;
      return {};
    default:
      return Bad("attributes are set on a plain value");
  }
}

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
