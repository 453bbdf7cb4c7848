// Blocked layouts of a device to plain rows and back, beside a plain copy of as many bytes: the
// limit of one core. Bytes per second count what is read and what is written.
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "src/io/kernel_dump/format.h"
#include "src/io/kernel_dump/layout.h"

namespace msprobe {
namespace {

namespace kd = io::kernel_dump;

struct LayoutCase {
  const char* name;
  uint32_t from;
  uint32_t to;
  Shape device;
  Shape plain;
  size_t element_bytes;
};

// 128 to 256 MB each: beyond every cache.
const std::vector<LayoutCase>& LayoutCases() {
  using namespace kd::format;
  static const std::vector<LayoutCase> cases = {
      {"FRACTAL_NZ_f16", kFractalNZ, kND, {512, 512, 16, 16}, {8192, 8192}, 2},
      {"FRACTAL_NZ_f32", kFractalNZ, kND, {512, 256, 16, 8}, {4096, 4096}, 4},
      {"FRACTAL_NZ_int8", kFractalNZ, kND, {256, 512, 16, 32}, {8192, 8192}, 1},
      {"NC1HWC0_f16", kNC1HWC0, kNCHW, {32, 16, 112, 112, 16}, {32, 256, 112, 112}, 2},
      {"NC1HWC0_to_NHWC_f16", kNC1HWC0, kNHWC, {32, 16, 112, 112, 16}, {32, 112, 112, 256}, 2},
      {"FRACTAL_Z_f16", kFractalZ, kNCHW, {9 * 128, 128, 16, 16}, {2048, 2048, 3, 3}, 2},
      {"FRACTAL_Z_f32", kFractalZ, kNCHW, {9 * 64, 128, 16, 16}, {2048, 1024, 3, 3}, 4},
      {"FRACTAL_Z_int8", kFractalZ, kNCHW, {9 * 64, 128, 16, 32}, {2048, 2048, 3, 3}, 1},
      {"FRACTAL_Z_1x1_f16", kFractalZ, kNCHW, {256, 256, 16, 16}, {4096, 4096, 1, 1}, 2},
      {"FRACTAL_Z_7x7_f16", kFractalZ, kNCHW, {49 * 64, 32, 16, 16}, {512, 1024, 7, 7}, 2},
      {"NDC1HWC0_f16", kNDC1HWC0, kNCDHW, {4, 16, 8, 56, 56, 16}, {4, 128, 16, 56, 56}, 2},
  };
  return cases;
}

void Convert(benchmark::State& state, const LayoutCase& of, bool to_plain) {
  const Result<kd::Layout> layout = kd::FindLayout({of.from, of.to, 1, &of.device, &of.plain});
  if (!layout.ok()) {
    state.SkipWithError(layout.status().message().c_str());
    return;
  }
  std::vector<std::byte> device(static_cast<size_t>(layout->device_elements) * of.element_bytes,
                                std::byte{1});
  std::vector<std::byte> plain(
      static_cast<size_t>(ElementCount(layout->plain_shape)) * of.element_bytes, std::byte{2});
  for (auto _ : state) {
    if (to_plain) {
      kd::ToPlainRows(*layout, of.element_bytes, device, plain);
    } else {
      kd::ToDeviceLayout(*layout, of.element_bytes, plain, device);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(device.size() + plain.size()));
}

// As `parse` does it: a buffer of 2^20 elements after the other, which stays in the cache.
void ConvertInPieces(benchmark::State& state, const LayoutCase& of) {
  const Result<kd::Layout> layout = kd::FindLayout({of.from, of.to, 1, &of.device, &of.plain});
  if (!layout.ok()) {
    state.SkipWithError(layout.status().message().c_str());
    return;
  }
  const std::vector<std::byte> device(
      static_cast<size_t>(layout->device_elements) * of.element_bytes, std::byte{1});
  std::vector<std::byte> plain;
  for (auto _ : state) {
    const Status status =
        kd::ForEachPiece(*layout, int64_t{1} << 20U, [&](const kd::LayoutPiece& piece) {
          plain.resize(static_cast<size_t>(ElementCount(piece.layout.plain_shape)) *
                       of.element_bytes);
          kd::ToPlainRows(
              piece.layout, of.element_bytes,
              std::span(device).subspan(static_cast<size_t>(piece.device_first) * of.element_bytes),
              plain);
          benchmark::ClobberMemory();
          return Status();
        });
    if (!status.ok()) {
      state.SkipWithError(status.message().c_str());
      return;
    }
  }
  const auto plain_bytes =
      static_cast<size_t>(ElementCount(layout->plain_shape)) * of.element_bytes;
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(device.size() + plain_bytes));
}

void CopyOnly(benchmark::State& state) {
  std::vector<std::byte> from(size_t{128} << 20U, std::byte{1});
  std::vector<std::byte> to(from.size(), std::byte{2});
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(2 * from.size()));
}
BENCHMARK(CopyOnly)->Unit(benchmark::kMillisecond);

const bool kRegistered = [] {
  for (const LayoutCase& of : LayoutCases()) {
    for (const bool to_plain : {true, false}) {
      benchmark::RegisterBenchmark(
          (std::string(to_plain ? "ToPlain/" : "ToDevice/") + of.name).c_str(),
          [&of, to_plain](benchmark::State& state) { Convert(state, of, to_plain); })
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RegisterBenchmark((std::string("InPieces/") + of.name).c_str(),
                                 [&of](benchmark::State& state) { ConvertInPieces(state, of); })
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace msprobe
