// The contents of a pickle as inert data: values live in one arena and refer to each other by
// number, so that neither sharing, cycles nor nesting cost anything, and destruction is a handful
// of frees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::io {

// A hash of integers that a file chose. std::hash gives an integer back as it is: keys that are
// multiples of the number of buckets would all lie in one.

struct SpreadHash {
  size_t operator()(uint64_t value) const {
    // Drawn anew in every process: no file can be made for it.
    static const uint64_t seed = (uint64_t{std::random_device()()} << 32U) | std::random_device()();
    // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
    value += seed;
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
    return static_cast<size_t>(value ^ (value >> 31U));
  }
};

// The text encodings that occur inside pickles.

// A Python 2 str literal with its quotes and escapes; false when it is none.
bool DecodeQuotedText(std::string_view literal, std::string* out);
// Latin-1 with \uXXXX and \UXXXXXXXX escapes, to UTF-8 (surrogates are kept as three bytes).
bool DecodeRawUnicodeEscapes(std::string_view line, std::string* out);
// UTF-8 that holds only code points below 256, to one byte each; false when others occur.
bool Utf8ToLatin1(std::string_view utf8, std::string* out);
bool IsAscii(std::string_view text);
enum class Surrogates { kRefused, kAllowed };
bool IsUtf8(std::string_view text, Surrogates surrogates = Surrogates::kRefused);

using PickleId = uint32_t;
inline constexpr PickleId kNoPickleValue = UINT32_MAX;

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond int64
  kFloat,
  kText,   // UTF-8 as found, not validated
  kBytes,  // bytes and bytearray
  kList,
  kTuple,
  kSet,           // set and frozenset
  kDict,          // dict, OrderedDict, defaultdict
  kGlobal,        // the name of a class or function; never looked up
  kObject,        // anything a class or function would have made
  kPersistentId,  // a reference to something outside the pickle (a tensor storage)
};

// Globals that readers give a meaning to; all others are kOther.
enum class PickleGlobal : uint8_t {
  kOther,
  kSuspicious,  // has no place in a data file: os.system, builtins.eval, ...
  kDict,
  kOrderedDict,
  kDefaultDict,
  kSet,
  kList,
  kTuple,
  kBytes,
  kComplex,
  kEncode,   // _codecs.encode: how protocol 2 spells bytes
  kGetattr,  // (class, name): an enum member as Python 3.11 pickles it
  kBytesIo,
  kTorchSize,
  kTorchDevice,
  kUntypedStorage,
  kRebuildTensor,  // _rebuild_tensor and its successors v2, v3
  kRebuildTensorV3,
  kRebuildParameter,
  kRebuildFromType,
  kRebuildFromNumpy,
  kRebuildFromTensor,
  kRebuildSparse,  // layout, parts
  kRebuildQuantized,
  kRebuildWrapper,  // a class around tensors of its own, which are in its state
  kRebuildUnsupported,
  kFirstArgument,  // returns it as it is: torch.jit._pickle.build_intlist, restore_type_tag, ...
  kNumpyReconstruct,
  kNumpyScalar,
  kNumpyDType,
  kNumpyFromBuffer,
};
// `name` is "module\nname".
PickleGlobal ClassifyPickleGlobal(std::string_view name);

struct PickleObject {
  PickleId callee = kNoPickleValue;     // usually a kGlobal
  PickleId arguments = kNoPickleValue;  // usually a kTuple
  PickleId state = kNoPickleValue;  // what __setstate__ would get; kNoPickleValue when never built
  PickleId list_items = kNoPickleValue;  // a kList, for classes derived from list
  PickleId dict_items = kNoPickleValue;  // a kDict, for classes derived from dict
};

class Pickle {
 public:
  PickleId root() const { return root_; }
  // Bytes read, the STOP included; a file may hold further pickles after them.
  size_t end_offset() const { return end_offset_; }
  size_t value_count() const { return values_.size(); }

  PickleKind kind(PickleId id) const { return values_[id].kind; }
  // The value of kBool (0 or 1) and kInt.
  int64_t integer(PickleId id) const { return values_[id].integer; }
  // The value of kFloat.
  double number(PickleId id) const { return values_[id].number; }
  // The bytes of kText and kBytes; "module\nname" for kGlobal. Borrows from the pickle's bytes or
  // from this object.
  std::string_view text(PickleId id) const { return {values_[id].text, values_[id].count}; }
  // The items of kList, kTuple, kSet; for kDict key, value, key, value, ... with duplicate keys as
  // written (the last one counts); for kPersistentId one item: what the reference says. Empty for
  // other kinds.
  std::span<const PickleId> items(PickleId id) const {
    const Value& value = values_[id];
    if (value.kind < PickleKind::kList || value.kind == PickleKind::kGlobal) {
      return {};
    }
    return {items_.data() + value.items.begin, value.count};
  }
  PickleGlobal global(PickleId id) const {
    return kind(id) == PickleKind::kGlobal ? values_[id].global : PickleGlobal::kOther;
  }
  PickleObject object(PickleId id) const;
  // Attributes set on a dict beside its items (a state_dict's _metadata), or kNoPickleValue.
  PickleId dict_attributes(PickleId id) const { return values_[id].extra; }
  // Usable as a dict key.
  bool hashable(PickleId id) const { return values_[id].hashable; }

  // Conveniences for readers of known structures.
  std::optional<int64_t> AsInt(PickleId id) const;  // kInt and kBool
  bool IsText(PickleId id, std::string_view expected) const {
    return kind(id) == PickleKind::kText && text(id) == expected;
  }
  std::span<const PickleId> sequence(
      PickleId id) const;  // items of a list or tuple, nothing for other kinds
  // The value under a text key; kNoPickleValue when absent or `dict` is not a dict.
  PickleId Find(PickleId dict, std::string_view key) const;
  // The attributes of an object as a dict: its state, or the first dict of a (dict, slots) pair.
  PickleId attributes(PickleId object) const;
  // Key and value of every item, duplicate keys merged: the first place, the last value.
  std::vector<std::pair<PickleId, PickleId>> UniqueItems(PickleId dict) const;
  // "torch.FloatStorage" for a kGlobal, the class or function name for a kObject; cut off after
  // 1000 bytes.
  std::string DottedName(PickleId id) const;
  // Decimal digits of kInt and kBigInt; huge numbers are described by their size.
  std::string IntegerText(PickleId id) const;

 private:
  friend class PickleReader;
  friend struct PickleLimits;

  struct ItemRange {
    uint32_t begin;
    uint32_t capacity;
  };
  struct Value {
    PickleKind kind = PickleKind::kNone;
    PickleGlobal global = PickleGlobal::kOther;
    bool hashable = true;
    bool decimal = false;             // kBigInt: text is decimal digits, not little-endian bytes
    uint32_t count = 0;               // of items, or bytes of text
    PickleId extra = kNoPickleValue;  // kDict: attributes
    union {
      int64_t integer = 0;
      double number;
      const char* text;
      ItemRange items;
    };
  };

  std::vector<Value> values_;
  std::vector<PickleId> items_;
  std::forward_list<std::string>
      owned_texts_;  // texts that could not be borrowed; addresses are stable
  PickleId root_ = kNoPickleValue;
  size_t end_offset_ = 0;
};

}  // namespace msprobe::io
