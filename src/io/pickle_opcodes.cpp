// What each opcode of the pickle machine does, apart from classes and calls (pickle_calls.cpp).
#include <bit>

#include <fmt/format.h>

#include "src/base/numbers.h"
#include "src/io/pickle_reader.h"
#include "src/io/pickle_text.h"

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

}  // namespace msprobe::io
