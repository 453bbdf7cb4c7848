#include "src/base/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace msprobe::base {
namespace {

TEST(BufferPool, HandsTheSameMemoryOutAgain) {
  BufferPool pool(size_t{1} << 20U);
  std::byte* first = nullptr;
  {
    BufferPool::Buffer buffer = pool.Take(5000);
    ASSERT_GE(buffer.capacity(), 5000U);
    first = buffer.data();
    std::memset(first, 1, buffer.capacity());
  }
  EXPECT_EQ(pool.Take(4000).data(), first);
}

TEST(BufferPool, PrefersTheSmallestThatFits) {
  BufferPool pool(size_t{64} << 20U);
  std::byte* small = nullptr;
  {
    const BufferPool::Buffer large = pool.Take(1'000'000);
    BufferPool::Buffer tight = pool.Take(10'000);
    small = tight.data();
  }
  EXPECT_EQ(pool.Take(9'000).data(), small);
}

TEST(BufferPool, NeverGivesOneBufferToTwo) {
  BufferPool pool(size_t{1} << 30U);
  std::vector<BufferPool::Buffer> taken;
  std::set<std::byte*> places;
  for (int i = 0; i < 20; ++i) {
    taken.push_back(pool.Take(4096));
    places.insert(taken.back().data());
  }
  EXPECT_EQ(places.size(), 20U);
}

TEST(BufferPool, BuffersArePageAligned) {
  BufferPool pool(0);
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20U}) {
    BufferPool::Buffer buffer = pool.Take(bytes);
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % page, 0U);
    EXPECT_EQ(buffer.capacity() % page, 0U);
    EXPECT_EQ(buffer.bytes().size(), buffer.capacity());
  }
}

TEST(BufferPool, ImpossibleSizesGiveAnEmptyBuffer) {
  BufferPool pool(1024);
  EXPECT_EQ(pool.Take(std::numeric_limits<size_t>::max()).capacity(), 0U);
  EXPECT_EQ(pool.Take(size_t{1} << 62U).capacity(), 0U);
  EXPECT_EQ(pool.Take(0).capacity(), 0U);
}

TEST(BufferPool, MovedBuffersReturnOnce) {
  BufferPool pool(size_t{1} << 20U);
  BufferPool::Buffer first = pool.Take(100);
  std::byte* place = first.data();
  {
    BufferPool::Buffer second = std::move(first);
    EXPECT_EQ(second.data(), place);
  }
  const BufferPool::Buffer a = pool.Take(100);
  BufferPool::Buffer b = pool.Take(100);
  EXPECT_NE(b.data(), place) << "a returned twice would be handed out twice";
}

TEST(BufferPool, ServesManyThreads) {
  BufferPool pool(size_t{1} << 20U);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        BufferPool::Buffer buffer = pool.Take(static_cast<size_t>(1 + i * 37 % 20000));
        std::memset(buffer.data(), t, buffer.capacity());
        EXPECT_EQ(buffer.data()[buffer.capacity() - 1], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace
}  // namespace msprobe::base
