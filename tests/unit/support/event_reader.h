// A reader of TensorBoard event files that shares nothing with the writer: bit by bit, from the
// format's description.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::test_support {

struct Event {
  double wall_time_s = 0;
  int64_t step = 0;
  std::string file_version;
  std::string tag;
  float value = 0;
};

inline uint32_t SlowMaskedCrc(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1U) != 0 ? (crc >> 1U) ^ 0x82F63B78U : crc >> 1U;
    }
  }
  crc = ~crc;
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

class EventFields {
 public:
  explicit EventFields(std::string_view message) : rest_(message) {}
  // The next field; false at the end or where the bytes are no message (then broken()).
  bool Next() {
    if (rest_.empty() || broken_) {
      return false;
    }
    const uint64_t key = Varint();
    number = key >> 3U;
    switch (key & 7U) {
      case 0:
        integer = Varint();
        break;
      case 1:
        Take(8);
        break;
      case 2:
        Take(Varint());
        break;
      case 5:
        Take(4);
        break;
      default:
        broken_ = true;
    }
    return !broken_;
  }
  bool broken() const { return broken_; }

  uint64_t number = 0;
  uint64_t integer = 0;
  std::string_view bytes;

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    broken_ = true;
    return 0;
  }
  void Take(uint64_t count) {
    broken_ = broken_ || count > rest_.size();
    if (!broken_) {
      bytes = rest_.substr(0, count);
      rest_.remove_prefix(count);
    }
  }

  std::string_view rest_;
  bool broken_ = false;
};

template <typename Number>
Number FromBytes(std::string_view bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number < bytes.size() ? sizeof number : bytes.size());
  return number;
}

inline bool ReadEvent(std::string_view message, Event& event) {
  EventFields fields(message);
  while (fields.Next()) {
    if (fields.number == 1) {
      event.wall_time_s = FromBytes<double>(fields.bytes);
    } else if (fields.number == 2) {
      event.step = static_cast<int64_t>(fields.integer);
    } else if (fields.number == 3) {
      event.file_version = fields.bytes;
    } else if (fields.number == 5) {
      EventFields summary(fields.bytes);
      while (summary.Next()) {
        EventFields value(summary.bytes);
        while (value.Next()) {
          if (value.number == 1) {
            event.tag = value.bytes;
          } else if (value.number == 2) {
            event.value = FromBytes<float>(value.bytes);
          }
        }
        if (value.broken()) {
          return false;
        }
      }
      if (summary.broken()) {
        return false;
      }
    }
  }
  return !fields.broken();
}

// False where a length, a checksum or a message is wrong.
inline bool ReadEvents(std::string_view file, std::vector<Event>& events) {
  while (!file.empty()) {
    if (file.size() < 16) {
      return false;
    }
    const auto length = FromBytes<uint64_t>(file.substr(0, 8));
    if (FromBytes<uint32_t>(file.substr(8, 4)) != SlowMaskedCrc(file.substr(0, 8)) ||
        length > file.size() - 16) {
      return false;
    }
    const std::string_view message = file.substr(12, length);
    if (FromBytes<uint32_t>(file.substr(12 + length, 4)) != SlowMaskedCrc(message) ||
        !ReadEvent(message, events.emplace_back())) {
      return false;
    }
    file.remove_prefix(length + 16);
  }
  return true;
}

}  // namespace msprobe::test_support
