// The record that a device writes of an operator that overflowed: the payload of an "Opdebug" file.
// Two layouts exist, an older one of fixed offsets and a newer one with a magic number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::io::kernel_dump {

struct OverflowEntry {
  std::string unit;  // "AI Core", "L2 Atomic Add", "DHA Atomic Add"; "AIC", "AIV", "AICPU", "SDMA"
  // In the order of the file. Fields that are addresses are shown in hexadecimal.
  struct FieldValue {
    std::string_view name;  // "task_id"
    uint64_t value = 0;
    bool hexadecimal = false;
  };
  std::vector<FieldValue> fields;
  std::vector<uint64_t> status;  // bits of what went wrong; one, or four
  bool has_many_statuses = false;

  uint64_t Value(std::string_view name, uint64_t absent = 0) const;
  bool overflowed() const;  // a status that is not zero
};

struct OverflowRecord {
  bool has_magic = false;  // the newer layout, with these:
  uint32_t version = 0;
  uint32_t valid = 0;
  uint32_t reserved = 0;
  uint32_t data_bytes = 0;
  std::vector<OverflowEntry> entries;  // three of the older layout, one of the newer
  std::vector<std::string> warnings;   // lengths that do not agree
};

Result<OverflowRecord> ReadOverflowRecord(std::span<const std::byte> bytes);

// As the Python tool writes it, indent 4, keys in the order of the file.
std::string OverflowJson(const OverflowRecord& record);

}  // namespace msprobe::io::kernel_dump
