#include "src/io/pickle_value.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "src/base/utf8.h"

namespace msprobe::io {
namespace {

std::optional<uint32_t> HexDigits(std::string_view digits) {
  uint32_t value = 0;
  for (char c : digits) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A') + 10;
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return value;
}

std::optional<char> SimpleEscape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return std::nullopt;
  }
}

}  // namespace

bool DecodeQuotedText(std::string_view literal, std::string* out) {
  while (!literal.empty() && (literal.back() == ' ' || literal.back() == '\r')) {
    literal.remove_suffix(1);
  }
  if (literal.size() < 2 || literal.front() != literal.back() ||
      (literal.front() != '\'' && literal.front() != '"')) {
    return false;
  }
  const std::string_view body = literal.substr(1, literal.size() - 2);
  out->clear();
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out->push_back(body[i]);
      continue;
    }
    const char next = body[++i];
    if (const std::optional<char> simple = SimpleEscape(next)) {
      out->push_back(*simple);
    } else if (next == 'x') {
      const std::optional<uint32_t> value =
          i + 2 < body.size() ? HexDigits(body.substr(i + 1, 2)) : std::nullopt;
      if (!value) {
        return false;
      }
      out->push_back(static_cast<char>(*value));
      i += 2;
    } else if (next >= '0' && next <= '7') {
      uint32_t value = 0;
      size_t digits = 0;
      while (digits < 3 && i + digits < body.size() && body[i + digits] >= '0' &&
             body[i + digits] <= '7') {
        value = value * 8 + static_cast<uint32_t>(body[i + digits] - '0');
        ++digits;
      }
      out->push_back(static_cast<char>(value & 0xFFU));
      i += digits - 1;
    } else {
      out->push_back('\\');
      out->push_back(next);
    }
  }
  return true;
}

bool DecodeRawUnicodeEscapes(std::string_view line, std::string* out) {
  out->clear();
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape =
        line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == 'u' || line[i + 1] == 'U');
    if (!escape) {
      base::AppendUtf8(static_cast<unsigned char>(line[i]), *out);
      continue;
    }
    const size_t digits = line[i + 1] == 'u' ? 4 : 8;
    const std::optional<uint32_t> value =
        i + 1 + digits < line.size() ? HexDigits(line.substr(i + 2, digits)) : std::nullopt;
    if (!value || *value > 0x10FFFF) {
      return false;
    }
    base::AppendUtf8(*value, *out);
    i += digits + 1;
  }
  return true;
}

bool Utf8ToLatin1(std::string_view utf8, std::string* out) {
  out->clear();
  out->reserve(utf8.size());
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      out->push_back(utf8[i]);
      continue;
    }
    // Code points 128 to 255 are the two-byte forms with lead C2 or C3.
    if ((lead != 0xC2 && lead != 0xC3) || i + 1 == utf8.size()) {
      return false;
    }
    const auto tail = static_cast<unsigned char>(utf8[++i]);
    if ((tail & 0xC0U) != 0x80U) {
      return false;
    }
    out->push_back(static_cast<char>(((lead & 0x03U) << 6U) | (tail & 0x3FU)));
  }
  return true;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsUtf8(std::string_view text, Surrogates surrogates) {
  while (!text.empty()) {
    const base::Utf8Char next = base::DecodeUtf8(text);
    const bool surrogate = next.code >= 0xD800 && next.code < 0xE000;
    if (!next.valid || (surrogate && surrogates == Surrogates::kRefused)) {
      return false;
    }
    text.remove_prefix(next.bytes);
  }
  return true;
}

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

namespace {

struct KnownGlobal {
  std::string_view name;  // "module\nname"
  PickleGlobal meaning;
};

using enum PickleGlobal;

// Sorted by name. `__builtin__` is how protocol 2 spells `builtins`.
constexpr KnownGlobal kKnown[] = {
    {"__builtin__\nbytearray", kBytes},
    {"__builtin__\nbytes", kBytes},
    {"__builtin__\ncomplex", kComplex},
    {"__builtin__\ndict", kDict},
    {"__builtin__\nfrozenset", kSet},
    {"__builtin__\ngetattr", kGetattr},
    {"__builtin__\nlist", kList},
    {"__builtin__\nset", kSet},
    {"__builtin__\ntuple", kTuple},
    {"_codecs\nencode", kEncode},
    {"_io\nBytesIO", kBytesIo},
    {"builtins\nbytearray", kBytes},
    {"builtins\nbytes", kBytes},
    {"builtins\ncomplex", kComplex},
    {"builtins\ndict", kDict},
    {"builtins\nfrozenset", kSet},
    {"builtins\ngetattr", kGetattr},
    {"builtins\nlist", kList},
    {"builtins\nset", kSet},
    {"builtins\ntuple", kTuple},
    {"collections\nOrderedDict", kOrderedDict},
    {"collections\ndefaultdict", kDefaultDict},
    {"numpy\ndtype", kNumpyDType},
    {"numpy._core.multiarray\n_reconstruct", kNumpyReconstruct},
    {"numpy._core.multiarray\nscalar", kNumpyScalar},
    {"numpy._core.numeric\n_frombuffer", kNumpyFromBuffer},
    {"numpy.core.multiarray\n_reconstruct", kNumpyReconstruct},
    {"numpy.core.multiarray\nscalar", kNumpyScalar},
    {"numpy.core.numeric\n_frombuffer", kNumpyFromBuffer},
    {"torch\nSize", kTorchSize},
    {"torch\ndevice", kTorchDevice},
    {"torch._tensor\n_rebuild_from_type", kRebuildFromType},
    {"torch._tensor\n_rebuild_from_type_v2", kRebuildFromType},
    {"torch._utils\n_rebuild_device_tensor_from_cpu_tensor", kRebuildFromTensor},
    {"torch._utils\n_rebuild_device_tensor_from_numpy", kRebuildFromNumpy},
    {"torch._utils\n_rebuild_meta_tensor_no_storage", kRebuildUnsupported},
    {"torch._utils\n_rebuild_nested_tensor", kRebuildUnsupported},
    {"torch._utils\n_rebuild_parameter", kRebuildParameter},
    {"torch._utils\n_rebuild_parameter_with_state", kRebuildParameter},
    {"torch._utils\n_rebuild_qtensor", kRebuildQuantized},
    {"torch._utils\n_rebuild_sparse_csr_tensor", kRebuildSparse},
    {"torch._utils\n_rebuild_sparse_tensor", kRebuildSparse},
    {"torch._utils\n_rebuild_tensor", kRebuildTensor},
    {"torch._utils\n_rebuild_tensor_v2", kRebuildTensor},
    {"torch._utils\n_rebuild_tensor_v3", kRebuildTensorV3},
    {"torch._utils\n_rebuild_wrapper_subclass", kRebuildWrapper},
    {"torch._utils\n_rebuild_xla_tensor", kRebuildFromNumpy},
    {"torch.jit._pickle\nbuild_boollist", kFirstArgument},
    {"torch.jit._pickle\nbuild_doublelist", kFirstArgument},
    {"torch.jit._pickle\nbuild_intlist", kFirstArgument},
    {"torch.jit._pickle\nbuild_tensorlist", kFirstArgument},
    {"torch.jit._pickle\nrestore_type_tag", kFirstArgument},
    {"torch.nn.parameter\nBuffer", kRebuildParameter},
    {"torch.nn.parameter\nParameter", kRebuildParameter},
    {"torch.storage\nUntypedStorage", kUntypedStorage},
    {"torch.storage\n_UntypedStorage", kUntypedStorage},
    {"torch\nUntypedStorage", kUntypedStorage},
};

constexpr bool ByName(const KnownGlobal& a, const KnownGlobal& b) { return a.name < b.name; }

constexpr auto kSortedKnown = [] {
  std::array<KnownGlobal, std::size(kKnown)> sorted{};
  std::copy(std::begin(kKnown), std::end(kKnown), sorted.begin());
  std::sort(sorted.begin(), sorted.end(), ByName);
  return sorted;
}();

// Top-level modules that reach processes, files, the network or code.
constexpr std::string_view kSuspiciousModules[] = {
    "_pickle",    "_posixsubprocess",
    "asyncio",    "bdb",
    "code",       "codeop",
    "commands",   "ctypes",
    "dill",       "imp",
    "importlib",  "marshal",
    "nt",         "os",
    "pdb",        "pickle",
    "pip",        "posix",
    "pty",        "runpy",
    "shutil",     "signal",
    "socket",     "ssl",
    "subprocess", "sys",
    "webbrowser",
};
constexpr std::string_view kSuspiciousBuiltins[] = {
    "__import__", "breakpoint", "compile", "delattr", "eval",    "exec", "execfile",
    "globals",    "input",      "locals",  "open",    "setattr", "vars",
};

bool IsSuspicious(std::string_view name) {
  const size_t split = name.find('\n');
  const std::string_view module = name.substr(0, split);
  const std::string_view package = module.substr(0, module.find('.'));
  if (package == "builtins" || package == "__builtin__") {
    const std::string_view function = split == std::string_view::npos ? "" : name.substr(split + 1);
    return std::find(std::begin(kSuspiciousBuiltins), std::end(kSuspiciousBuiltins),
                     function.substr(0, function.find('.'))) != std::end(kSuspiciousBuiltins);
  }
  return std::find(std::begin(kSuspiciousModules), std::end(kSuspiciousModules), package) !=
         std::end(kSuspiciousModules);
}

}  // namespace

PickleGlobal ClassifyPickleGlobal(std::string_view name) {
  const auto found =
      std::lower_bound(kSortedKnown.begin(), kSortedKnown.end(), KnownGlobal{name, kOther}, ByName);
  if (found != kSortedKnown.end() && found->name == name) {
    return found->meaning;
  }
  return IsSuspicious(name) ? kSuspicious : kOther;
}

}  // namespace msprobe::io
