#include "src/monitor/event_file.h"

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "src/kernels/crc32.h"

namespace msprobe::monitor {
namespace {

// Field numbers and wire types of the messages Event, Summary and Summary.Value.
constexpr uint8_t kWireVarint = 0;
constexpr uint8_t kWire64 = 1;
constexpr uint8_t kWireBytes = 2;
constexpr uint8_t kWire32 = 5;
constexpr char Key(uint8_t field, uint8_t wire) { return static_cast<char>((field << 3U) | wire); }
constexpr char kEventWallTime = Key(1, kWire64);
constexpr char kEventStep = Key(2, kWireVarint);
constexpr char kEventFileVersion = Key(3, kWireBytes);
constexpr char kEventSummary = Key(5, kWireBytes);
constexpr char kSummaryValue = Key(1, kWireBytes);
constexpr char kValueTag = Key(1, kWireBytes);
constexpr char kValueSimple = Key(2, kWire32);

constexpr size_t kHeadBytes = 12;  // of a record: length and its checksum
constexpr size_t kTailBytes = 4;

size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1U)) + 6) / 7;
}

char* PutVarint(uint64_t value, char* out) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80U);
    value >>= 7U;
  }
  *out++ = static_cast<char>(value);
  return out;
}

template <typename Integer>
char* PutLittleEndian(Integer value, char* out) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out[i] = static_cast<char>(value >> (8 * i));
  }
  return out + sizeof value;
}

uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = kernels::Crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

// Room for a record of `bytes` with its head; the message goes to the returned place.
char* BeginRecord(size_t bytes, std::string& out) {
  const size_t begin = out.size();
  out.resize(begin + kHeadBytes + bytes + kTailBytes);
  char* head = out.data() + begin;
  char* behind = PutLittleEndian(static_cast<uint64_t>(bytes), head);
  return PutLittleEndian(MaskedCrc({head, sizeof(uint64_t)}), behind);
}

void EndRecord(const char* begin, char* end) {
  PutLittleEndian(MaskedCrc({begin, static_cast<size_t>(end - begin)}), end);
}

char* PutWallTime(double wall_time_s, char* out) {
  *out++ = kEventWallTime;
  return PutLittleEndian(std::bit_cast<uint64_t>(wall_time_s), out);
}

char* PutText(char key, std::string_view text, char* out) {
  *out++ = key;
  out = PutVarint(text.size(), out);
  std::memcpy(out, text.data(), text.size());
  return out + text.size();
}

constexpr size_t kWallTimeBytes = 9;

}  // namespace

void AppendFileVersion(double wall_time_s, std::string& out) {
  constexpr std::string_view kVersion = "brain.Event:2";
  char* const begin = BeginRecord(kWallTimeBytes + 2 + kVersion.size(), out);
  EndRecord(begin, PutText(kEventFileVersion, kVersion, PutWallTime(wall_time_s, begin)));
}

void AppendScalar(std::string_view tag, int64_t step, double value, double wall_time_s,
                  std::string& out) {
  const auto step_bits = static_cast<uint64_t>(step);
  const size_t value_bytes = 1 + VarintBytes(tag.size()) + tag.size() + 5;
  const size_t summary_bytes = 1 + VarintBytes(value_bytes) + value_bytes;
  const size_t event_bytes = kWallTimeBytes + (step == 0 ? 0 : 1 + VarintBytes(step_bits)) + 1 +
                             VarintBytes(summary_bytes) + summary_bytes;
  char* const begin = BeginRecord(event_bytes, out);
  char* at = PutWallTime(wall_time_s, begin);
  if (step != 0) {
    *at++ = kEventStep;
    at = PutVarint(step_bits, at);
  }
  *at++ = kEventSummary;
  at = PutVarint(summary_bytes, at);
  *at++ = kSummaryValue;
  at = PutVarint(value_bytes, at);
  at = PutText(kValueTag, tag, at);
  *at++ = kValueSimple;
  at = PutLittleEndian(std::bit_cast<uint32_t>(static_cast<float>(value)), at);
  EndRecord(begin, at);
}

std::string EventFileName(double wall_time_s) {
  static std::atomic<uint64_t> counter{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') {
    host = {'h', 'o', 's', 't'};
  }
  return fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", static_cast<int64_t>(wall_time_s),
                     host.data(), ::getpid(), counter.fetch_add(1));
}

double WallTimeNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace msprobe::monitor
