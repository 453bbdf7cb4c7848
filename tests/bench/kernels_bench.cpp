// The kernels against the memory-read roof. Counters: GB/s (1e9 bytes of every side) of the best
// and of the median iteration, the best one's share of the roof, and elements per second. Sizes
// beside a name are bytes of one side.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include "src/base/files.h"
#include "src/kernels/compare.h"
#include "src/kernels/crc32.h"
#include "src/kernels/digest.h"
#include "src/kernels/kernel_table.h"
#include "src/kernels/matrix_product.h"
#include "src/kernels/stats.h"
#include "src/tensor/float_bits.h"
#include "tests/bench/roof.h"

namespace msprobe::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = kKiB * kKiB;

struct FreeBuffer {
  void operator()(std::byte* buffer) const { std::free(buffer); }
};
using Buffer = std::unique_ptr<std::byte[], FreeBuffer>;

// Nearly normal values; `noise` sets two buffers of the same seed apart.
Buffer MakeValues(DType dtype, size_t bytes, float noise) {
  Buffer buffer(static_cast<std::byte*>(
      std::aligned_alloc(2 * kMiB, (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB))));
  ::madvise(buffer.get(), bytes, MADV_HUGEPAGE);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  // One drawn block, repeated: drawing is slower than everything that is measured here.
  std::vector<std::byte> block(std::min(bytes, kMiB));
  const size_t size = DTypeSize(dtype);
  for (size_t at = 0; at < block.size(); at += size) {
    const float value = normal(random);
    const float moved = value * (1 + noise * normal(random));
    if (dtype == DType::kFloat32) {
      std::memcpy(block.data() + at, &moved, size);
    } else if (dtype == DType::kFloat64) {
      const double wide = moved;
      std::memcpy(block.data() + at, &wide, size);
    } else if (dtype == DType::kInt32) {
      const auto whole = static_cast<int32_t>(moved * 1000);
      std::memcpy(block.data() + at, &whole, size);
    } else {
      const uint16_t bits =
          dtype == DType::kFloat16 ? tensor::FloatToFloat16(moved) : tensor::FloatToBFloat16(moved);
      std::memcpy(block.data() + at, &bits, size);
    }
  }
  for (size_t at = 0; at < bytes; at += block.size()) {
    std::memcpy(buffer.get() + at, block.data(), std::min(block.size(), bytes - at));
  }
  return buffer;
}

// Times every iteration by itself: on a shared machine the best one tells what the code can do.
template <class Body>
void Run(benchmark::State& state, size_t bytes, size_t elements, double roof, const Body& body) {
  std::vector<double> seconds;
  // Short work is repeated inside one reading of the clock.
  const size_t repeats = std::max<size_t>(1, kMiB / std::max<size_t>(1, bytes) * 4);
  for (auto _ : state) {
    const auto start = Clock::now();
    for (size_t i = 0; i < repeats; ++i) {
      body();
    }
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() /
                      static_cast<double>(repeats));
    state.SetIterationTime(seconds.back() * static_cast<double>(repeats));
  }
  std::sort(seconds.begin(), seconds.end());
  const double best = seconds.front();
  state.counters["best_GB/s"] = static_cast<double>(bytes) / best / 1e9;
  state.counters["median_GB/s"] = static_cast<double>(bytes) / seconds[seconds.size() / 2] / 1e9;
  state.counters["roof_%"] = 100 * static_cast<double>(bytes) / best / roof;
  state.counters["Gelements/s"] = static_cast<double>(elements) / best / 1e9;
  state.counters["best_us"] = best * 1e6;
}

double OneCoreRoof() { return bench::MeasuredRoof().one_core_bytes_per_second; }

void Stats(benchmark::State& state, DType dtype, size_t bytes) {
  const Buffer data = MakeValues(dtype, bytes, 0);
  Run(state, bytes, bytes / DTypeSize(dtype), OneCoreRoof(), [&] {
    benchmark::DoNotOptimize(ComputeStats(dtype, {data.get(), bytes}));
  });
}

// Sums of a digest, of values as they are or rounded first.
void Digest(benchmark::State& state, DType dtype, size_t bytes, DigestCast cast) {
  const Buffer data = MakeValues(dtype, bytes, 0);
  Run(state, bytes, bytes / DTypeSize(dtype), OneCoreRoof(), [&] {
    DigestSums sums;
    AddToDigest(dtype, cast, {data.get(), bytes}, 0, sums);
    benchmark::DoNotOptimize(sums);
  });
}

// As the training monitor asks: zeros below a bound, or subnormals and the smallest magnitude too.
void SmallStats(benchmark::State& state, DType dtype, size_t bytes, bool magnitudes) {
  const Buffer data = MakeValues(dtype, bytes, 0);
  const SmallValues small{.zero_below = 1e-8, .magnitudes = magnitudes};
  Run(state, bytes, bytes / DTypeSize(dtype), OneCoreRoof(), [&] {
    benchmark::DoNotOptimize(StatsOfBlock(dtype, {data.get(), bytes}, small));
  });
}

void Compare(benchmark::State& state, DType npu_dtype, DType bench_dtype, size_t elements) {
  const size_t npu_bytes = elements * DTypeSize(npu_dtype);
  const size_t bench_bytes = elements * DTypeSize(bench_dtype);
  const Buffer npu = MakeValues(npu_dtype, npu_bytes, 1e-3F);
  const Buffer bench = MakeValues(bench_dtype, bench_bytes, 0);
  Run(state, npu_bytes + bench_bytes, elements, OneCoreRoof(), [&] {
    benchmark::DoNotOptimize(
        CompareTensors(npu_dtype, npu.get(), bench_dtype, bench.get(), elements));
  });
}

// Blocks dealt to one thread per core, as a caller with one huge tensor does.
void CompareAllCores(benchmark::State& state) {
  const unsigned cores = bench::MeasuredRoof().cores;
  const size_t elements = 64 * kMiB;
  const Buffer npu = MakeValues(DType::kFloat32, elements * 4, 1e-3F);
  const Buffer bench = MakeValues(DType::kFloat32, elements * 4, 0);
  Run(state, elements * 8, elements, bench::MeasuredRoof().all_cores_bytes_per_second, [&] {
    std::vector<std::thread> threads;
    for (unsigned core = 0; core < cores; ++core) {
      threads.emplace_back([&, core] {
        const size_t begin = elements / cores * core;
        benchmark::DoNotOptimize(CompareTensors(DType::kFloat32, npu.get() + begin * 4,
                                                DType::kFloat32, bench.get() + begin * 4,
                                                elements / cores));
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
}

// Two files in the page cache, mapped anew every time: what a comparison of dumped tensors meets.
void CompareMappedFiles(benchmark::State& state) {
  const size_t bytes = 256 * kMiB;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "msprobe_kernels_bench";
  std::filesystem::create_directories(folder);
  for (const auto& [name, noise] : {std::pair("npu.bin", 1e-3F), std::pair("bench.bin", 0.0F)}) {
    const Buffer values = MakeValues(DType::kFloat32, bytes, noise);
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.get()), static_cast<std::streamsize>(bytes));
  }
  Run(state, 2 * bytes, bytes / 4, OneCoreRoof(), [&] {
    const auto npu = base::FileBytes::Open(folder / "npu.bin");
    const auto bench = base::FileBytes::Open(folder / "bench.bin");
    if (!npu.ok() || !bench.ok()) {
      state.SkipWithError("cannot map the benchmark's files");
      return;
    }
    benchmark::DoNotOptimize(CompareTensors(DType::kFloat32, npu->bytes().data(), DType::kFloat32,
                                            bench->bytes().data(), npu->bytes().size() / 4));
  });
  std::filesystem::remove_all(folder);
}

void Crc(benchmark::State& state, size_t bytes) {
  const Buffer data = MakeValues(DType::kFloat32, bytes, 0);
  Run(state, bytes, bytes, OneCoreRoof(),
      [&] { benchmark::DoNotOptimize(Crc32(std::span<const std::byte>(data.get(), bytes))); });
}

// The same loop on every instruction set this machine has, in cache.
void StatsOnTable(benchmark::State& state, const internal::KernelTable* table) {
  internal::ForceTableForTesting(table);
  Stats(state, DType::kFloat32, kMiB);
  internal::ForceTableForTesting(nullptr);
}
void CompareOnTable(benchmark::State& state, const internal::KernelTable* table) {
  internal::ForceTableForTesting(table);
  Compare(state, DType::kFloat32, DType::kFloat32, kMiB / 8);
  internal::ForceTableForTesting(nullptr);
}

// Square matrices of doubles on one core, beside the fused operations that it makes at most.
void MatrixProduct(benchmark::State& state, size_t size) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> values(3 * size * size);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  const MatrixView a{values.data(), size, 1};
  const MatrixView b{values.data() + size * size, size, 1};
  base::ThreadPool pool(1);
  double best_seconds = 1e9;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    MultiplyMatrices(size, size, size, a, b, values.data() + 2 * size * size, pool);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best_seconds = std::min(best_seconds, seconds);
    state.SetIterationTime(seconds);
  }
  const double operations = 2.0 * static_cast<double>(size * size * size) / best_seconds;
  state.counters["GFLOP/s"] = operations / 1e9;
  state.counters["share of FMA peak"] =
      bench::MeasuredFmaPeak() > 0 ? operations / bench::MeasuredFmaPeak() : 0;
}

template <class... Arguments>
void Add(const std::string& name, void (*function)(benchmark::State&, Arguments...),
         std::type_identity_t<Arguments>... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

[[maybe_unused]] const bool registered = [] {
  using enum DType;
  const size_t large = 256 * kMiB;
  Add("ComputeStats/float32/256MiB", Stats, kFloat32, large);
  Add("ComputeStats/bfloat16/128MiB", Stats, kBFloat16, large / 2);
  Add("ComputeStats/float16/128MiB", Stats, kFloat16, large / 2);
  Add("ComputeStats/float64/256MiB", Stats, kFloat64, large);
  Add("ComputeStats/int32/256MiB", Stats, kInt32, large);
  Add("Digest/float32/256MiB", Digest, kFloat32, large, DigestCast::kNone);
  Add("Digest/float32_as_bfloat16/256MiB", Digest, kFloat32, large, DigestCast::kBFloat16);
  Add("Digest/bfloat16/128MiB", Digest, kBFloat16, large / 2, DigestCast::kNone);
  Add("Digest/float16/128MiB", Digest, kFloat16, large / 2, DigestCast::kNone);
  Add("Digest/float32/1MiB", Digest, kFloat32, kMiB, DigestCast::kNone);
  Add("ComputeStats/float32/1MiB", Stats, kFloat32, kMiB);
  Add("ComputeStats/bfloat16/512KiB", Stats, kBFloat16, kMiB / 2);
  Add("ComputeStats/float16/512KiB", Stats, kFloat16, kMiB / 2);
  Add("ComputeStats/float32/4KiB", Stats, kFloat32, 4 * kKiB);
  for (const bool all : {false, true}) {
    const std::string name = all ? "SmallStats" : "NearZeroStats";
    Add(name + "/float32/256MiB", SmallStats, kFloat32, large, all);
    Add(name + "/bfloat16/128MiB", SmallStats, kBFloat16, large / 2, all);
    Add(name + "/float64/256MiB", SmallStats, kFloat64, large, all);
    Add(name + "/float32/1MiB", SmallStats, kFloat32, kMiB, all);
  }
  Add("CompareTensors/float32/256MiB", Compare, kFloat32, kFloat32, large / 4);
  Add("CompareTensors/bfloat16/128MiB", Compare, kBFloat16, kBFloat16, large / 4);
  Add("CompareTensors/float16/128MiB", Compare, kFloat16, kFloat16, large / 4);
  Add("CompareTensors/float64/256MiB", Compare, kFloat64, kFloat64, large / 8);
  Add("CompareTensors/bfloat16_float32/128+256MiB", Compare, kBFloat16, kFloat32, large / 4);
  Add("CompareTensors/int32/256MiB", Compare, kInt32, kInt32, large / 4);
  Add("CompareTensors/float32/512KiB", Compare, kFloat32, kFloat32, kMiB / 8);
  Add("CompareTensors/float32/4KiB", Compare, kFloat32, kFloat32, kKiB);
  Add("CompareTensors/float32/256MiB/all_cores", CompareAllCores);
  Add("CompareTensors/float32/256MiB/mapped_files", CompareMappedFiles);
  Add("Crc32/256MiB", Crc, large);
  Add("Crc32/1MiB", Crc, kMiB);
  for (const size_t size : {256U, 512U, 1024U}) {
    Add("MultiplyMatrices/" + std::to_string(size), MatrixProduct, size);
  }
  for (const internal::KernelTable* table : internal::AvailableTables()) {
    Add("ComputeStats/float32/1MiB/" + std::string(table->name), StatsOnTable, table);
    Add("CompareTensors/float32/512KiB/" + std::string(table->name), CompareOnTable, table);
  }
  return true;
}();

}  // namespace
}  // namespace msprobe::kernels
