// The fields of a Protocol Buffers message, one after the other, straight from untrusted bytes:
// nothing is copied, nothing is allocated, every length is checked. For formats that are messages
// without a schema of ours: MindSpore's checkpoints and the headers of Ascend's kernel dumps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::io {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kCounted = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  uint32_t wire_type = kVarint;
  uint64_t integer = 0;   // of kVarint
  std::string_view text;  // of all others; of kCounted shorter than announced when `truncated`
  bool truncated = false;
};

class FieldReader {
 public:
  // `offset` of the message in its file and `hint` (see Status) are for messages.
  FieldReader(std::string_view message, uint64_t offset, std::string_view hint)
      : message_(message), offset_(offset), hint_(hint) {}

  bool AtEnd() const { return at_ == message_.size(); }
  bool ends_inside_number() const { return ends_inside_number_; }
  uint64_t offset() const { return offset_ + at_; }  // in the file

  // A counted field that reaches beyond the message is cut and marked: the file may be truncated.
  Status Next(Field* field);
  // The next number of a packed field.
  Status Varint(uint64_t* value);
  // The message in a counted field that Next() gave.
  FieldReader Inner(const Field& field) const;

 private:
  Status Bad(uint64_t offset, std::string_view what) const;
  Status Take(uint64_t count, Field* field);

  std::string_view message_;
  uint64_t offset_;
  std::string_view hint_;
  size_t at_ = 0;
  bool ends_inside_number_ = false;
};

}  // namespace msprobe::io
