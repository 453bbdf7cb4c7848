#include "src/io/protobuf_fields.h"

#include <algorithm>

#include <fmt/format.h>

namespace msprobe::io {
namespace {

constexpr size_t kLongestVarint = 10;

}  // namespace

Status FieldReader::Bad(uint64_t offset, std::string_view what) const {
  return BadFormatError(fmt::format("{} at byte {}", what, offset)).WithHint(hint_);
}

Status FieldReader::Varint(uint64_t* value) {
  *value = 0;
  const uint64_t begin = offset();
  for (size_t i = 0; i < kLongestVarint; ++i) {
    if (AtEnd()) {
      ends_inside_number_ = true;
      return Bad(begin, "the file ends inside a number");
    }
    const auto byte = static_cast<uint8_t>(message_[at_++]);
    // Bits beyond the 64th are dropped, as every Protocol Buffers reader does.
    *value |= static_cast<uint64_t>(byte & 0x7FU) << (7 * i);
    if ((byte & 0x80U) == 0) {
      return {};
    }
  }
  return Bad(begin, "a number of more than 10 bytes");
}

Status FieldReader::Take(uint64_t count, Field* field) {
  field->text = message_.substr(at_, count);
  field->truncated = field->text.size() < count;
  at_ += field->text.size();
  return {};
}

Status FieldReader::Next(Field* field) {
  const uint64_t begin = offset();
  uint64_t key = 0;
  MSP_RETURN_IF_ERROR(Varint(&key));
  field->number = static_cast<uint32_t>(std::min<uint64_t>(key >> 3U, UINT32_MAX));
  field->wire_type = static_cast<uint32_t>(key & 7U);
  field->truncated = false;
  if (field->number == 0) {
    return Bad(begin, "no field has the number 0");
  }
  switch (field->wire_type) {
    case kVarint:
      return Varint(&field->integer);
    case kFixed64:
      return Take(8, field);
    case kFixed32:
      return Take(4, field);
    case kCounted: {
      uint64_t count = 0;
      MSP_RETURN_IF_ERROR(Varint(&count));
      return Take(count, field);
    }
    default:
      return Bad(begin, fmt::format("wire type {} is not in use", key & 7U));
  }
}

FieldReader FieldReader::Inner(const Field& field) const {
  return {field.text, offset_ + static_cast<uint64_t>(field.text.data() - message_.data()), hint_};
}

}  // namespace msprobe::io
