#include "tests/unit/base/failing_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace msprobe::test_support {

constinit thread_local int g_allocations_left = -1;

}  // namespace msprobe::test_support

void* operator new(size_t size, const std::nothrow_t& /*nothrow*/) noexcept {
  int& left = msprobe::test_support::g_allocations_left;
  const bool fails = left >= 0 && left-- == 0;
  return fails ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void* operator new(size_t size) {
  void* const memory = operator new(size, std::nothrow);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }
