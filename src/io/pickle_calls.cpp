// The half of the pickle interpreter that deals with classes and calls: what would be executed
// becomes data.
#include <algorithm>

#include <fmt/format.h>

#include "src/io/pickle_reader.h"
#include "src/io/pickle_text.h"

namespace msprobe::io {

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

}  // namespace msprobe::io
