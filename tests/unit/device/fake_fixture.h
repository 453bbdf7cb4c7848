// Tests over a fake vendor library: a fresh machine before, nothing misused or left behind after.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/device/device.h"
#include "tests/unit/device/fake_machine.h"

namespace msprobe::test_support {

// An environment variable for the time of a test.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_.c_str()); }

 private:
  const std::string name_;
};

class FakeVendor : public ::testing::Test {
 protected:
  FakeVendor() { fake::Reset(); }
  ~FakeVendor() override {
    registry_.reset();
    EXPECT_THAT(fake::Misuse(), ::testing::IsEmpty());
  }

  // Opened by the first use, as a program of ours does.
  device::Runtime& Runtime(device::Kind kind, device::Loading loading = device::Loading::kMayLoad) {
    if (registry_ == nullptr) {
      registry_ = std::make_unique<device::Registry>(loading);
    }
    return registry_->Get(kind);
  }
  device::Registry& registry() { return *registry_; }
  void DropRegistry() { registry_.reset(); }

 private:
  std::unique_ptr<device::Registry> registry_;
};

// Device memory with every byte the same.
class DeviceBytes {
 public:
  DeviceBytes(size_t bytes, int value) : bytes_(bytes), address_(fake::DeviceAllocate(bytes)) {
    Fill(value);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { fake::DeviceFree(address_); }

  const void* address() const { return address_; }
  size_t size() const { return bytes_; }
  void Fill(int value) { std::memset(fake::Inside(address_, bytes_), value, bytes_); }

 private:
  const size_t bytes_;
  void* const address_;
};

inline std::vector<std::byte> AllBytes(size_t bytes, int value) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

}  // namespace msprobe::test_support
