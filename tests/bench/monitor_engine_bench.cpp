// What one value costs the training thread, and one step the writer thread, through the C
// interface.
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "msprobe/monitor.h"

namespace msprobe {
namespace {

namespace fs = std::filesystem;

msprobe_text Text(std::string_view text) { return {text.data(), text.size()}; }

class Monitor {
 public:
  explicit Monitor(std::string_view overrides)
      : folder_(fs::temp_directory_path() / ("monitor_bench" + std::to_string(::time(nullptr)))) {
    ::setenv("MONITOR_OUTPUT_DIR", folder_.c_str(), 1);
    if (msprobe_monitor_open(Text(""), Text(overrides), Text("pytorch"), &monitor_) != MSPROBE_OK ||
        msprobe_monitor_begin(monitor_, 0, nullptr) != MSPROBE_OK) {
      std::abort();
    }
  }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor() {
    msprobe_monitor_close(monitor_);
    fs::remove_all(folder_);
  }
  msprobe_monitor* get() const { return monitor_; }

 private:
  const fs::path folder_;
  msprobe_monitor* monitor_ = nullptr;
};

struct HostTensor {
  explicit HostTensor(int64_t elements) : values(static_cast<size_t>(elements)), shape{elements} {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 1000) * 0.001F - 0.5F;
    }
    tensor.type = Text("torch.Tensor");
    tensor.dtype = Text("torch.float32");
    tensor.shape = shape.data();
    tensor.data = values.data();
    tensor.dimensions = 1;
    tensor.dtype_code = MSPROBE_FLOAT32;
    tensor.requires_grad = -1;
  }
  std::vector<float> values;
  std::vector<int64_t> shape;
  msprobe_tensor tensor{};
};

constexpr std::string_view kSixOps =
    R"({"xy_distribution": true, "ops": ["norm", "min", "max", "mean", "zeros", "nans"]})";

// One value, with the step's end shared by a thousand of them.
void MeasureOne(benchmark::State& state) {
  const Monitor monitor(kSixOps);
  const HostTensor tensor(state.range(0));
  std::vector<uint32_t> slots;
  for (int i = 0; i < 1000; ++i) {
    slots.push_back(msprobe_monitor_slot(monitor.get(), MSPROBE_MONITOR_GRAD_REDUCED,
                                         Text("0:layers." + std::to_string(i)), Text("post_grad")));
  }
  size_t next = 0;
  for ([[maybe_unused]] auto iteration : state) {
    msprobe_monitor_measure(monitor.get(), slots[next], MSPROBE_MONITOR_NO_INDEX,
                            MSPROBE_MONITOR_NO_MICRO_STEP, &tensor.tensor);
    if (++next == slots.size()) {
      next = 0;
      state.PauseTiming();
      msprobe_monitor_end_step(monitor.get(), nullptr);
      msprobe_monitor_flush(monitor.get());
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(MeasureOne)->Arg(1)->Arg(64)->Arg(1024)->Arg(4096)->Arg(65536)->Arg(1 << 20);

// Of a step that is not watched.
void MeasureWhenOff(benchmark::State& state) {
  const Monitor monitor(R"({"xy_distribution": true, "start_step": 1000000})");
  const HostTensor tensor(1024);
  const uint32_t slot =
      msprobe_monitor_slot(monitor.get(), MSPROBE_MONITOR_ACTV, Text("0:a.input"), Text("actv"));
  for ([[maybe_unused]] auto iteration : state) {
    msprobe_monitor_measure(monitor.get(), slot, -1, 0, &tensor.tensor);
  }
}
BENCHMARK(MeasureWhenOff);

// Rows and files of one step of so many values: time until all is written, by the writer thread.
void WriteStep(benchmark::State& state) {
  const Monitor monitor(kSixOps);
  const HostTensor tensor(64);
  std::vector<uint32_t> slots;
  for (int64_t i = 0; i < state.range(0); ++i) {
    slots.push_back(
        msprobe_monitor_slot(monitor.get(), static_cast<int32_t>(i % MSPROBE_MONITOR_UPDATE_RATIO),
                             Text("0:layers." + std::to_string(i) + ".input"), Text("task")));
  }
  for ([[maybe_unused]] auto iteration : state) {
    state.PauseTiming();
    for (const uint32_t slot : slots) {
      msprobe_monitor_measure(monitor.get(), slot, -1, 0, &tensor.tensor);
    }
    state.ResumeTiming();
    msprobe_monitor_end_step(monitor.get(), nullptr);
    msprobe_monitor_flush(monitor.get());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(WriteStep)->Arg(300)->Arg(10000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace msprobe
