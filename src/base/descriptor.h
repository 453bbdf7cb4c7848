// A file descriptor that closes itself.
#pragma once

#include <utility>

#include <unistd.h>

namespace msprobe::base {

class Descriptor {
 public:
  // Takes it; a negative one, as calls return that fail, is none.
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }

  bool is_open() const { return value_ >= 0; }
  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }  // the caller closes it

 private:
  int value_;
};

}  // namespace msprobe::base
