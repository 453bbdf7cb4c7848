#include "src/dump/entry_scan.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/base/utf8.h"
#include "src/dump/json_source.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace msprobe::dump::internal {
namespace {

// Finds the end of a JSON value without decoding it, 64 bytes at a time.

struct SkippedValue {
  const char* end = nullptr;  // one past the value; null when the text ends inside of it
  // Set when a bare NaN or Infinity, a text that ends in "nan" or "inf", a number beyond the range
  // of a double or a raw control character may be inside.
  bool is_suspicious = false;
};

constexpr size_t kBlockBytes = 64;

char Lower(char c) { return static_cast<char>(c | 0x20); }

// Bit i of each mask speaks of byte i of a block.
struct BlockMasks {
  uint64_t quotes = 0;
  uint64_t backslashes = 0;
  uint64_t opening = 0;    // { and [
  uint64_t closing = 0;    // } and ]
  uint64_t capitals = 0;   // N and I: of NaN and Infinity where they stand outside of texts
  uint64_t ends = 0;       // n and f in either case: last letters of "nan" and "inf"
  uint64_t exponents = 0;  // e in either case: of numbers, and of true and false
  uint64_t digits = 0;     // digits and +
  uint64_t controls = 0;   // below 0x20: line breaks and tabs outside of texts, else damage
};

#if defined(__SSE2__)
BlockMasks Classify(const char* block) {
  BlockMasks masks;
  const __m128i case_bit = _mm_set1_epi8(0x20);
  for (size_t part = 0; part < kBlockBytes / 16; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + part * 16));
    const __m128i lower = _mm_or_si128(bytes, case_bit);
    const auto put = [part](uint64_t& mask, __m128i hits) {
      mask |= static_cast<uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(hits))) << (part * 16);
    };
    const auto is = [](__m128i values, char wanted) {
      return _mm_cmpeq_epi8(values, _mm_set1_epi8(wanted));
    };
    put(masks.quotes, is(bytes, '"'));
    put(masks.backslashes, is(bytes, '\\'));
    put(masks.opening, is(lower, '{'));  // '[' | 0x20 is '{'
    put(masks.closing, is(lower, '}'));
    put(masks.capitals, _mm_or_si128(is(bytes, 'N'), is(bytes, 'I')));
    put(masks.ends, _mm_or_si128(is(lower, 'n'), is(lower, 'f')));
    put(masks.exponents, is(lower, 'e'));
    const __m128i above_zero = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    const __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(above_zero, _mm_set1_epi8(9)), above_zero);
    put(masks.digits, _mm_or_si128(is_digit, is(bytes, '+')));
    const __m128i last_control = _mm_set1_epi8(0x1F);
    put(masks.controls, _mm_cmpeq_epi8(_mm_max_epu8(bytes, last_control), last_control));
  }
  return masks;
}
#else
BlockMasks Classify(const char* block) {
  BlockMasks masks;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    const char c = block[i];
    const char lower = Lower(c);
    const auto put = [i](uint64_t& mask, bool hit) { mask |= uint64_t{hit} << i; };
    put(masks.quotes, c == '"');
    put(masks.backslashes, c == '\\');
    put(masks.opening, lower == '{');
    put(masks.closing, lower == '}');
    put(masks.capitals, c == 'N' || c == 'I');
    put(masks.ends, lower == 'n' || lower == 'f');
    put(masks.exponents, lower == 'e');
    put(masks.digits, base::IsDigit(c) || c == '+');
    put(masks.controls, static_cast<unsigned char>(c) < 0x20);
  }
  return masks;
}
#endif

// Bits that are set. std::popcount is a call where the processor may lack the instruction.
uint64_t CountBits(uint64_t bits) {
  bits -= (bits >> 1U) & 0x5555555555555555U;
  bits = (bits & 0x3333333333333333U) + ((bits >> 2U) & 0x3333333333333333U);
  bits = (bits + (bits >> 4U)) & 0x0F0F0F0F0F0F0F0FU;
  return (bits * 0x0101010101010101U) >> 56U;
}

// Bit i: an odd number of the bits up to and including i is set.
uint64_t PrefixParity(uint64_t bits) {
  for (unsigned shift = 1; shift < 64; shift *= 2) {
    bits ^= bits << shift;
  }
  return bits;
}

// Whether three digits follow the e of a number, "1e+999": it may be beyond the range of a double.
bool HasLongExponent(const char* letter, const char* end) {
  const char* at = letter + 1;
  at += at != end && *at == '+' ? 1 : 0;
  return end - at >= 3 && base::IsDigit(at[0]) && base::IsDigit(at[1]) && base::IsDigit(at[2]);
}

// Whether the text whose closing quote this is ends in "nan" or "inf". At least three bytes of the
// document stand in front.
bool EndsNonFinite(const char* closing_quote) {
  const char first = Lower(closing_quote[-3]);
  const char second = Lower(closing_quote[-2]);
  const char third = Lower(closing_quote[-1]);
  return (first == 'n' && second == 'a' && third == 'n') ||
         (first == 'i' && second == 'n' && third == 'f');
}

class ContainerSkip {
 public:
  ContainerSkip(const char* at, const char* end) : begin_(at), at_(at), end_(end) {}

  SkippedValue Run() {
    char padded[kBlockBytes];
    while (at_ < end_) {
      const auto left = static_cast<size_t>(end_ - at_);
      const size_t length = left < kBlockBytes ? left : kBlockBytes;
      const char* block = at_;
      if (length < kBlockBytes) {
        std::memset(padded, ' ', sizeof(padded));
        std::memcpy(padded, at_, length);
        block = padded;
      }
      const BlockMasks masks = Classify(block);
      const char* stop =
          masks.backslashes == 0 && !escaped_ ? PlainBlock(masks) : SlowBlock(length);
      if (stop != nullptr) {
        return {stop, suspicious_};
      }
      at_ += length;
    }
    return {nullptr, suspicious_};
  }

 private:
  // Returns the place behind the container's end when it is in this block.
  const char* PlainBlock(const BlockMasks& masks) {
    // Set from an opening quote up to the byte before its closing one.
    const uint64_t inside = PrefixParity(masks.quotes) ^ (in_text_ ? ~uint64_t{0} : 0);
    in_text_ = (inside >> 63U) != 0;
    suspicious_ = suspicious_ || (masks.capitals & ~inside) != 0;
    const uint64_t closing_quotes = masks.quotes & ~inside;
    // The letter in front of a quote that opens this block is not in its masks.
    uint64_t endings = closing_quotes & ((masks.ends << 1U) | 1U);
    for (; !suspicious_ && endings != 0; endings &= endings - 1) {
      const char* quote = at_ + std::countr_zero(endings);
      suspicious_ = quote - begin_ >= 3 && EndsNonFinite(quote);
    }
    suspicious_ = suspicious_ || (masks.controls & inside) != 0 ||
                  HoldsDamage(masks.controls & ~inside) || HoldsHugeNumber(masks, inside);
    const uint64_t opening = masks.opening & ~inside;
    const uint64_t closing = masks.closing & ~inside;
    if ((opening | closing) == 0) {
      return nullptr;
    }
    const uint64_t closed = CountBits(closing);
    if (closed < depth_) {
      depth_ += CountBits(opening);
      depth_ -= closed;
      return nullptr;
    }
    for (uint64_t brackets = opening | closing; brackets != 0; brackets &= brackets - 1) {
      const auto bit = static_cast<unsigned>(std::countr_zero(brackets));
      if (((opening >> bit) & 1U) != 0) {
        ++depth_;
      } else if (--depth_ == 0) {
        return at_ + bit + 1;
      }
    }
    return nullptr;
  }

  // Whether one of these control characters outside of texts is none of the blanks of JSON.
  bool HoldsDamage(uint64_t controls) const {
    for (; controls != 0; controls &= controls - 1) {
      const char c = at_[std::countr_zero(controls)];
      if (c != '\n' && c != '\r' && c != '\t') {
        return true;
      }
    }
    return false;
  }

  // A number of more than 300 digits fills at least one block with digits.
  bool HoldsHugeNumber(const BlockMasks& masks, uint64_t inside) const {
    // The character after the last letter of a block is not in its masks.
    const uint64_t followed = (masks.digits >> 1U) | (uint64_t{1} << 63U);
    for (uint64_t letters = masks.exponents & followed & ~inside; letters != 0;
         letters &= letters - 1) {
      if (HasLongExponent(at_ + std::countr_zero(letters), end_)) {
        return true;
      }
    }
    return masks.digits == ~uint64_t{0} && inside == 0;
  }

  // Escapes are rare: byte by byte. What stands behind one is looked at by the caller.
  const char* SlowBlock(size_t length) {
    suspicious_ = true;
    for (const char* at = at_; at < at_ + length; ++at) {
      if (escaped_) {
        escaped_ = false;
      } else if (in_text_) {
        escaped_ = *at == '\\';
        in_text_ = *at != '"';
      } else if (*at == '"') {
        in_text_ = true;
      } else if (*at == '{' || *at == '[') {
        ++depth_;
      } else if ((*at == '}' || *at == ']') && --depth_ == 0) {
        return at + 1;
      }
    }
    return nullptr;
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  uint64_t depth_ = 0;
  bool in_text_ = false;
  bool escaped_ = false;
  bool suspicious_ = false;
};

const char* SkipBlanks(const char* at, const char* end) {
  while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
    ++at;
  }
  return at;
}

// `at` is behind the opening quote; returns the closing quote, or null. Clears `plain` when a
// backslash or a control character is inside.
const char* EndOfText(const char* at, const char* end, bool* plain) {
  // Eight plain bytes at a time; the first word that has another one is left to the loop below.
  for (uint64_t word = 0; end - at >= static_cast<ptrdiff_t>(sizeof word); at += sizeof word) {
    std::memcpy(&word, at, sizeof word);
    if ((base::UnprintableOf(word) | base::MatchesOf(word, '"') | base::MatchesOf(word, '\\')) !=
        0) {
      break;
    }
  }
  while (at != end && *at != '"') {
    *plain = *plain && static_cast<unsigned char>(*at) >= 0x20;
    if (*at == '\\') {
      *plain = false;
      if (++at == end) {
        return nullptr;
      }
    }
    ++at;
  }
  return at == end ? nullptr : at;
}

// `at` is the first byte of the value, in [text.begin, end). Brackets are counted, not checked for
// their kind; without recursion.
SkippedValue SkipValue(const char* at, const char* end) {
  if (at == end) {
    return {};
  }
  if (*at == '{' || *at == '[') {
    return ContainerSkip(at, end).Run();
  }
  if (*at == '"') {
    bool plain = true;
    const char* quote = EndOfText(at + 1, end, &plain);
    return {quote == nullptr ? nullptr : quote + 1, true};
  }
  constexpr std::string_view kBehindNumbers = ",]} \t\r\n";
  while (at != end && kBehindNumbers.find(*at) == std::string_view::npos) {
    ++at;
  }
  // A number at the very end may have lost digits.
  return {at == end ? nullptr : at, true};
}

}  // namespace

}  // namespace msprobe::dump::internal

namespace msprobe::dump {
namespace {

class Scanner {
 public:
  Scanner(std::string_view text, const VisitScannedEntry& on_entry)
      : begin_(text.data()), at_(text.data()), end_(at_ + text.size()), on_entry_(on_entry) {
    outcome_.size_bytes = text.size();
    if (text.starts_with(base::kByteOrderMark)) {
      at_ += base::kByteOrderMark.size();
    }
  }

  Result<EntryScanOutcome> Run() {
    at_ = internal::SkipBlanks(at_, end_);
    if (at_ != end_ && *at_ != '{') {
      return Error("it contains no object {...}");
    }
    MSP_RETURN_IF_ERROR(Members([this](std::string_view key) { return TopMember(key); }));
    return std::move(outcome_);
  }

 private:
  Status Error(std::string_view what) const {
    return BadFormatError(fmt::format("byte {}: {}", at_ - begin_, what));
  }

  // The document ends here, in the middle of something.
  Status Truncated() {
    outcome_.truncated = true;
    stopped_ = true;
    return {};
  }

  // The members of the object at `at_`; `member` finds itself in front of a value and leaves behind
  // it.
  template <typename Member>
  Status Members(const Member& member) {
    at_ = at_ == end_ ? end_ : at_ + 1;
    for (bool first = true;; first = false) {
      at_ = internal::SkipBlanks(at_, end_);
      if (at_ != end_ && *at_ == '}') {
        ++at_;
        return {};
      }
      if (!first) {
        if (at_ != end_ && *at_ != ',') {
          return Error("expected ',' or '}'");
        }
        at_ = at_ == end_ ? end_ : internal::SkipBlanks(at_ + 1, end_);
      }
      if (at_ == end_) {
        return Truncated();
      }
      if (*at_ != '"') {
        return Error("expected a key in double quotes");
      }
      bool plain = true;
      const char* key = at_ + 1;
      const char* quote = internal::EndOfText(key, end_, &plain);
      if (quote == nullptr) {
        return Truncated();
      }
      std::string_view name(key, static_cast<size_t>(quote - key));
      if (!plain) {
        Result<EntryTree> decoded = ParseEntry(std::string_view(key - 1, name.size() + 2));
        if (!decoded.ok()) {
          return Error("a key holds an unknown escape or a raw control character");
        }
        decoded_ = *std::move(decoded);
        name = decoded_[0].text;
      }
      at_ = internal::SkipBlanks(quote + 1, end_);
      if (at_ != end_ && *at_ != ':') {
        return Error("expected ':' after a key");
      }
      at_ = at_ == end_ ? end_ : internal::SkipBlanks(at_ + 1, end_);
      if (at_ == end_) {
        return Truncated();
      }
      MSP_RETURN_IF_ERROR(member(name));
      if (stopped_) {
        return {};
      }
    }
  }

  Status TopMember(std::string_view key) {
    if (key == "data" && *at_ == '{') {
      outcome_.has_data = true;
      return Members([this](std::string_view name) { return Entry(name); });
    }
    const internal::SkippedValue value = internal::SkipValue(at_, end_);
    if (value.end == nullptr) {
      return Truncated();
    }
    if ((key == "framework" || key == "task") && *at_ == '"') {
      MSP_ASSIGN_OR_RETURN(const EntryTree tree,
                           ParseEntry({at_, static_cast<size_t>(value.end - at_)}));
      (key == "task" ? outcome_.task : outcome_.framework).emplace(tree[0].text);
    }
    at_ = value.end;
    return {};
  }

  Status Entry(std::string_view name) {
    const internal::SkippedValue value = internal::SkipValue(at_, end_);
    if (value.end == nullptr) {
      return Truncated();
    }
    ScannedEntry entry;
    entry.name = name;
    entry.text = {at_, static_cast<size_t>(value.end - at_)};
    entry.offset = static_cast<uint64_t>(at_ - begin_);
    entry.is_suspicious = value.is_suspicious;
    ++outcome_.entry_count;
    stopped_ = !on_entry_(entry, outcome_);
    at_ = value.end;
    return {};
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  const VisitScannedEntry& on_entry_;
  EntryScanOutcome outcome_;
  EntryTree decoded_;  // a key with escapes
  bool stopped_ = false;
};

}  // namespace

Result<EntryScanOutcome> ScanEntryText(std::string_view text, const VisitScannedEntry& on_entry) {
  return Scanner(text, on_entry).Run();
}

Result<EntryScanOutcome> ScanEntries(const std::filesystem::path& path,
                                     const VisitScannedEntry& on_entry) {
  // Pages that were walked over are given back now and then, or the whole file would stay in
  // memory.
  constexpr uint64_t kReleaseBytes = uint64_t{4} << 20U;
  MSP_ASSIGN_OR_RETURN(const internal::JsonSource file, internal::JsonSource::Open(path));
  uint64_t released = 0;
  const auto visit = [&](const ScannedEntry& entry, const EntryScanOutcome& so_far) {
    const bool go_on = on_entry(entry, so_far);
    if (entry.offset - released >= kReleaseBytes) {
      file.ReleaseText(released, entry.offset - released);
      released = entry.offset;
    }
    return go_on;
  };
  Result<EntryScanOutcome> outcome = ScanEntryText(file.text(), visit);
  if (!outcome.ok()) {
    return std::move(outcome).status().AddContext("cannot read " + path.string());
  }
  outcome->recovery = file.recovery();
  return outcome;
}

struct EntryAccess::File {
  std::filesystem::path path;
  internal::JsonSource source;
};

EntryAccess::EntryAccess(std::unique_ptr<File> file) : file_(std::move(file)) {}

EntryAccess::EntryAccess(EntryAccess&&) noexcept = default;

EntryAccess& EntryAccess::operator=(EntryAccess&&) noexcept = default;

EntryAccess::~EntryAccess() = default;

Result<EntryAccess> EntryAccess::Open(const std::filesystem::path& path) {
  MSP_ASSIGN_OR_RETURN(internal::JsonSource source, internal::JsonSource::Open(path));
  auto file = std::make_unique<File>();
  file->path = path;
  file->source = std::move(source);
  return EntryAccess(std::move(file));
}

Result<EntryTree> EntryAccess::Read(uint64_t offset, uint64_t bytes) const {
  EntryTree tree;
  MSP_RETURN_IF_ERROR(Read(offset, bytes, tree));
  return tree;
}

Status EntryAccess::Read(uint64_t offset, uint64_t bytes, EntryTree& tree) const {
  const std::string_view text = file_->source.text();
  if (offset > text.size() || bytes > text.size() - offset) {
    return IoError(
        fmt::format("cannot read {}: it was truncated while being read", file_->path.string()));
  }
  Status parsed = ParseEntry(text.substr(offset, bytes), tree);
  return parsed.ok() ? std::move(parsed)
                     : std::move(parsed).AddContext(fmt::format("cannot read {}: entry at byte {}",
                                                                file_->path.string(), offset));
}

}  // namespace msprobe::dump
