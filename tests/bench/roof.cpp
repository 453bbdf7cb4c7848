#include "tests/bench/roof.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace msprobe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBufferBytes = size_t{512} << 20U;
constexpr size_t kWindowBytes = size_t{32} << 20U;
constexpr size_t kLanes = 64;
constexpr size_t kWordsPerLine = 8;
constexpr size_t kPrefetchWords = 256;

// A sum that needs every byte; the compiler turns the lanes into the widest vectors of the machine.
#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
uint64_t
ReadAll(const uint64_t* data, size_t words) {
  uint64_t lanes[kLanes] = {};
  for (size_t i = 0; i < words; i += kLanes) {
    // Without this the processor's own prefetcher stops at every page border.
    for (size_t line = 0; line < kLanes; line += kWordsPerLine) {
      __builtin_prefetch(data + i + line + kPrefetchWords);
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] ^= data[i + lane];
    }
  }
  uint64_t total = 0;
  for (const uint64_t lane : lanes) {
    total ^= lane;
  }
  return total;
}

std::atomic<uint64_t> sink{0};

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct FreeBuffer {
  void operator()(uint64_t* buffer) const { std::free(buffer); }
};

double OneCore(const uint64_t* buffer) {
  double best_seconds = 1e9;
  for (size_t pass = 0; pass < 3; ++pass) {
    for (size_t offset = 0; offset < kBufferBytes; offset += kWindowBytes) {
      const auto start = Clock::now();
      sink += ReadAll(buffer + offset / sizeof(uint64_t), kWindowBytes / sizeof(uint64_t));
      best_seconds = std::min(best_seconds, SecondsSince(start));
    }
  }
  return static_cast<double>(kWindowBytes) / best_seconds;
}

// Every thread reads its own part; a part is long enough that starting the threads does not count.
double AllCores(const uint64_t* buffer, unsigned cores) {
  const size_t part_words = kBufferBytes / sizeof(uint64_t) / cores / kLanes * kLanes;
  double best = 0;
  for (int pass = 0; pass < 8; ++pass) {
    std::atomic<unsigned> waiting{cores};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (unsigned core = 0; core < cores; ++core) {
      threads.emplace_back([&, core] {
        --waiting;
        while (!go) {
          std::this_thread::yield();
        }
        sink += ReadAll(buffer + core * part_words, part_words);
      });
    }
    while (waiting != 0) {
      std::this_thread::yield();
    }
    const auto start = Clock::now();
    go = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
    best = std::max(
        best, static_cast<double>(part_words * sizeof(uint64_t) * cores) / SecondsSince(start));
  }
  return best;
}

Roof Measure() {
  std::unique_ptr<uint64_t[], FreeBuffer> buffer(
      static_cast<uint64_t*>(std::aligned_alloc(size_t{2} << 20U, kBufferBytes)));
  Roof roof;
  roof.cores = std::max(1U, std::thread::hardware_concurrency());
  if (buffer == nullptr) {
    return roof;
  }
  ::madvise(buffer.get(), kBufferBytes, MADV_HUGEPAGE);
  std::memset(buffer.get(), 1, kBufferBytes);
  roof.one_core_bytes_per_second = OneCore(buffer.get());
  roof.all_cores_bytes_per_second = AllCores(buffer.get(), roof.cores);
  return roof;
}

#if defined(__x86_64__)
constexpr int kChains = 12;  // hide the latency of four or five cycles on two ports
constexpr int kRounds = 1 << 18;

__attribute__((target("avx512f"))) double FmaWide() {
  __m512d sums[kChains];
  for (int i = 0; i < kChains; ++i) {
    sums[i] = _mm512_set1_pd(i);
  }
  const __m512d factor = _mm512_set1_pd(0.5);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm512_fmadd_pd(sums[i], factor, factor);
    }
  }
  double total = 0;
  for (const __m512d sum : sums) {
    total += sum[0];
  }
  return total;
}

__attribute__((target("avx2,fma"))) double FmaNarrow() {
  __m256d sums[kChains];
  for (int i = 0; i < kChains; ++i) {
    sums[i] = _mm256_set1_pd(i);
  }
  const __m256d factor = _mm256_set1_pd(0.5);
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm256_fmadd_pd(sums[i], factor, factor);
    }
  }
  double total = 0;
  for (const __m256d sum : sums) {
    total += sum[0];
  }
  return total;
}

double FmaPeak() {
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  if (!wide && !(__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)) {
    return 0;
  }
  double best_seconds = 1e9;
  for (int burst = 0; burst < 50; ++burst) {
    const Clock::time_point start = Clock::now();
    sink += static_cast<uint64_t>(wide ? FmaWide() : FmaNarrow());
    best_seconds = std::min(best_seconds, SecondsSince(start));
  }
  return 2.0 * kChains * kRounds * (wide ? 8 : 4) / best_seconds;
}
#else
double FmaPeak() { return 0; }
#endif

}  // namespace

const Roof& MeasuredRoof() {
  static const Roof roof = Measure();
  return roof;
}

double MeasuredFmaPeak() {
  static const double peak = FmaPeak();
  return peak;
}

}  // namespace msprobe::bench
