#include "src/io/kernel_dump/overflow_record.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/io/contents.h"
#include "src/json/writer.h"

namespace msprobe::io::kernel_dump {
namespace {

constexpr uint32_t kOverflowMagic = 0x5A5A5A5A;
constexpr size_t kOlderBytes = 2048;
constexpr int kIndent = 4;

struct FieldName {
  std::string_view name;
  bool hexadecimal = false;
};

// The older layout: the same six numbers for each unit, and where its status is.
constexpr std::array<FieldName, 6> kOlderFields = {{{"model_id"},
                                                    {"stream_id"},
                                                    {"task_id"},
                                                    {"task_type"},
                                                    {"pc_start", true},
                                                    {"para_base", true}}};
constexpr std::array<FieldName, 2> kOlderCoreFields = {{{"kernel_code", true}, {"block_idx"}}};
struct OlderUnit {
  std::string_view name;
  size_t fields_at;
  size_t status_at;
  bool is_core;  // kernel code and block stand before the status
};
constexpr std::array<OlderUnit, 3> kOlderUnits = {{{"DHA Atomic Add", 0, 512, false},
                                                   {"L2 Atomic Add", 128, 768, false},
                                                   {"AI Core", 256, 1024, true}}};

// The newer layout, by the number of the unit.
constexpr std::array<FieldName, 10> kCoreFields = {{{"model_id"},
                                                    {"stream_id"},
                                                    {"task_id"},
                                                    {"task_type"},
                                                    {"context_id"},
                                                    {"thread_id"},
                                                    {"pc_start", true},
                                                    {"para_base", true},
                                                    {"core_id"},
                                                    {"block_id"}}};
constexpr std::array<FieldName, 7> kCpuFields = {{{"model_id"},
                                                  {"stream_id"},
                                                  {"task_id"},
                                                  {"task_type"},
                                                  {"context_id"},
                                                  {"cpu_id"},
                                                  {"thread_id"}}};
constexpr std::array<FieldName, 9> kDmaFields = {{{"model_id"},
                                                  {"stream_id"},
                                                  {"task_id"},
                                                  {"task_type"},
                                                  {"context_id"},
                                                  {"thread_id"},
                                                  {"src_addr", true},
                                                  {"dst_addr", true},
                                                  {"channel_id"}}};
struct NewerUnit {
  std::string_view name;
  std::span<const FieldName> fields;
  size_t statuses_of_version_1;
};
constexpr std::array<NewerUnit, 4> kNewerUnits = {{{"AIC", kCoreFields, 4},
                                                   {"AIV", kCoreFields, 4},
                                                   {"AICPU", kCpuFields, 1},
                                                   {"SDMA", kDmaFields, 1}}};

uint64_t NumberAt(std::span<const std::byte> bytes, size_t at) {
  return LoadLittle<uint64_t>(bytes.data() + at);
}

void AddFields(std::span<const std::byte> bytes, size_t at, std::span<const FieldName> names,
               OverflowEntry& entry) {
  for (const FieldName& field : names) {
    entry.fields.push_back({field.name, NumberAt(bytes, at), field.hexadecimal});
    at += sizeof(uint64_t);
  }
}

OverflowRecord ReadOlder(std::span<const std::byte> bytes) {
  OverflowRecord record;
  for (const OlderUnit& unit : kOlderUnits) {
    OverflowEntry entry;
    entry.unit = unit.name;
    AddFields(bytes, unit.fields_at, kOlderFields, entry);
    size_t status_at = unit.status_at;
    if (unit.is_core) {
      AddFields(bytes, status_at, kOlderCoreFields, entry);
      status_at += kOlderCoreFields.size() * sizeof(uint64_t);
    }
    entry.status.push_back(NumberAt(bytes, status_at));
    record.entries.push_back(std::move(entry));
  }
  return record;
}

Result<OverflowRecord> ReadNewer(std::span<const std::byte> bytes) {
  constexpr size_t kHead = 6 * sizeof(uint32_t);
  if (bytes.size() < kHead) {
    return BadFormatError(fmt::format("overflow record of {} bytes", bytes.size()));
  }
  const auto word = [&](size_t index) {
    return LoadLittle<uint32_t>(bytes.data() + index * sizeof(uint32_t));
  };
  OverflowRecord record;
  record.has_magic = true;
  record.version = word(1);
  record.valid = word(2);
  const uint32_t unit_number = word(3);
  record.reserved = word(4);
  record.data_bytes = word(5);
  OverflowEntry entry;
  if (unit_number >= kNewerUnits.size()) {
    entry.unit = fmt::format("unit {}", unit_number);
    record.warnings.push_back(fmt::format("unit {} is not known", unit_number));
    record.entries.push_back(std::move(entry));
    return record;
  }
  const NewerUnit& unit = kNewerUnits[unit_number];
  entry.unit = unit.name;
  const size_t statuses = record.version == 1 ? unit.statuses_of_version_1 : 1;
  const size_t needed = (unit.fields.size() + statuses) * sizeof(uint64_t);
  if (bytes.size() - kHead < needed) {
    return BadFormatError(fmt::format("overflow record of {}: {} bytes, {} are needed", unit.name,
                                      bytes.size() - kHead, needed));
  }
  if (record.data_bytes != needed) {
    record.warnings.push_back(
        fmt::format("a length of {} bytes, {} are in use", record.data_bytes, needed));
  }
  if (record.valid == 0) {
    record.warnings.emplace_back("the device marks the record as not valid");
  }
  AddFields(bytes, kHead, unit.fields, entry);
  for (size_t i = 0; i < statuses; ++i) {
    entry.status.push_back(NumberAt(bytes, kHead + (unit.fields.size() + i) * sizeof(uint64_t)));
  }
  entry.has_many_statuses = statuses > 1;
  record.entries.push_back(std::move(entry));
  return record;
}

std::string Hexadecimal(uint64_t value) { return fmt::format("0x{:x}", value); }

// 64 bits, also above what a signed number holds.
void PutNumber(json::Writer& writer, uint64_t value) { writer.Raw(std::to_string(value)); }

void WriteEntry(const OverflowEntry& entry, json::Writer& writer) {
  writer.BeginObject();
  for (const OverflowEntry::FieldValue& field : entry.fields) {
    writer.Key(field.name);
    if (field.hexadecimal) {
      writer.Text(Hexadecimal(field.value));
    } else {
      PutNumber(writer, field.value);
    }
  }
  if (!entry.status.empty()) {
    writer.Key("status");
    if (entry.has_many_statuses) {
      writer.BeginArray();
      for (const uint64_t status : entry.status) {
        PutNumber(writer, status);
      }
      writer.EndArray();
    } else {
      PutNumber(writer, entry.status.front());
    }
  }
  writer.EndObject();
}

}  // namespace

uint64_t OverflowEntry::Value(std::string_view name, uint64_t absent) const {
  for (const FieldValue& field : fields) {
    if (field.name == name) {
      return field.value;
    }
  }
  return absent;
}

bool OverflowEntry::overflowed() const {
  return std::any_of(status.begin(), status.end(), [](uint64_t bits) { return bits != 0; });
}

Result<OverflowRecord> ReadOverflowRecord(std::span<const std::byte> bytes) {
  if (bytes.size() >= sizeof(uint32_t) && LoadLittle<uint32_t>(bytes.data()) == kOverflowMagic) {
    return ReadNewer(bytes);
  }
  if (bytes.size() != kOlderBytes) {
    return BadFormatError(fmt::format(
        "overflow record of {} bytes: neither {} nor the magic number", bytes.size(), kOlderBytes));
  }
  return ReadOlder(bytes);
}

std::string OverflowJson(const OverflowRecord& record) {
  std::string text;
  json::Writer writer(text, kIndent);
  writer.BeginObject();
  if (record.has_magic) {
    const OverflowEntry& entry = record.entries.front();
    writer.Member("magic", Hexadecimal(kOverflowMagic));
    writer.Member("version", static_cast<int64_t>(record.version));
    writer.Key("acc_list");
    writer.BeginObject();
    writer.Member("valid", static_cast<int64_t>(record.valid));
    writer.Member("acc_type", entry.unit);
    writer.Member("rsv", static_cast<int64_t>(record.reserved));
    writer.Member("data_len", static_cast<int64_t>(record.data_bytes));
    writer.Key("data");
    WriteEntry(entry, writer);
    writer.EndObject();
  } else {
    for (const OverflowEntry& entry : record.entries) {
      writer.Key(entry.unit);
      WriteEntry(entry, writer);
    }
  }
  writer.EndObject();
  return text;
}

}  // namespace msprobe::io::kernel_dump
