// What the capture engine takes from its callers: an entry with small tensors, the pass over a
// large one beside its parts, and tensor files beside a plain write to the same disk.
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "msprobe/capture.h"

#include "src/capture/tensor_values.h"
#include "src/kernels/crc32.h"
#include "src/kernels/stats.h"

namespace msprobe::capture {
namespace {

namespace fs = std::filesystem;

msprobe_text Text(std::string_view text) { return {text.data(), text.size()}; }

// A capture into a folder that is removed at the end. MSPROBE_BENCH_FOLDER: on another disk.
class BenchCapture {
 public:
  explicit BenchCapture(std::string_view members) {
    const char* const given = std::getenv("MSPROBE_BENCH_FOLDER");
    std::string pattern =
        (fs::path(given != nullptr ? given : "/tmp") / "msprobe_bench.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : "";
    const std::string overrides =
        "{\"dump_path\": \"" + folder_.string() + "\", " + std::string(members) + "}";
    msprobe_capture_open(Text(""), Text(overrides), Text("pytorch"), &capture_);
    Start();
  }
  BenchCapture(const BenchCapture&) = delete;
  BenchCapture& operator=(const BenchCapture&) = delete;
  ~BenchCapture() {
    msprobe_capture_close(capture_);
    fs::remove_all(folder_);
  }
  msprobe_capture* get() const { return capture_; }
  void Start() {
    int outcome = 0;
    msprobe_capture_start(capture_, 0, &outcome);
  }
  // A step of its own, so that what was recorded does not grow without end. Files are removed at
  // the very end: file systems are slow at making files where many were removed a moment ago.
  void NextStep() {
    msprobe_capture_step(capture_);
    Start();
  }

 private:
  fs::path folder_;
  msprobe_capture* capture_ = nullptr;
};

msprobe_tensor TensorOf(const std::vector<float>& values, const int64_t* shape) {
  msprobe_tensor tensor{};
  tensor.type = Text("torch.Tensor");
  tensor.dtype = Text("torch.float32");
  tensor.shape = shape;
  tensor.dimensions = 1;
  tensor.data = values.data();
  tensor.dtype_code = MSPROBE_FLOAT32;
  return tensor;
}

// As the forward of an API with two inputs and one output is recorded.
void RecordCall(msprobe_capture* capture, const std::string& name, const msprobe_tensor& tensor) {
  msprobe_entry* const before = msprobe_entry_begin(capture, Text(name));
  msprobe_put_member(before, Text("input_args"), Text("input"));
  msprobe_open_array(before, MSPROBE_IN_FILE_NAME);
  msprobe_put_tensor(before, &tensor);
  msprobe_put_tensor(before, &tensor);
  msprobe_close(before);
  msprobe_put_member(before, Text("input_kwargs"), Text("kwargs"));
  msprobe_open_object(before, MSPROBE_IN_FILE_NAME);
  msprobe_close(before);
  msprobe_entry_commit(before);
  msprobe_entry* const after = msprobe_entry_begin(capture, Text(name));
  msprobe_put_member(after, Text("is_recompute"), Text(""));
  msprobe_put_bool(after, 0);
  msprobe_put_member(after, Text("output"), Text("output"));
  msprobe_open_array(after, MSPROBE_IN_FILE_NAME);
  msprobe_put_tensor(after, &tensor);
  msprobe_close(after);
  msprobe_entry_commit(after);
}

void BM_CallWithThreeTensors(benchmark::State& state, const char* members) {
  BenchCapture capture(members);
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(float);
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  const int64_t shape = static_cast<int64_t>(count);
  const msprobe_tensor tensor = TensorOf(values, &shape);
  size_t call = 0;
  constexpr size_t kCallsPerStep = 2000;
  for (auto _ : state) {
    values[0] += 1;
    RecordCall(capture.get(), "Torch.matmul." + std::to_string(call) + ".forward", tensor);
    if (++call % kCallsPerStep == 0) {
      state.PauseTiming();
      capture.NextStep();
      state.ResumeTiming();
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * 3 * state.range(0));
}
BENCHMARK_CAPTURE(BM_CallWithThreeTensors, statistics, "\"task\": \"statistics\"")
    ->Arg(4)
    ->Arg(4096);
BENCHMARK_CAPTURE(BM_CallWithThreeTensors, md5,
                  "\"task\": \"statistics\", \"summary_mode\": \"md5\"")
    ->Arg(4096);
BENCHMARK_CAPTURE(BM_CallWithThreeTensors, tensor, "\"task\": \"tensor\"")->Arg(4096)->Arg(1 << 20);

void BM_Pass(benchmark::State& state, bool statistics, bool crc32, bool copy) {
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<float> values(bytes / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1000) - 500.0F;
  }
  std::vector<std::byte> target(bytes);
  TensorView view;
  view.shape = {static_cast<int64_t>(values.size())};
  view.strides = {1};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  view.extent_bytes = bytes;
  ValueRequest request;
  request.statistics = statistics;
  request.crc32 = crc32;
  request.copy_to = copy ? target.data() : nullptr;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ExamineTensor(view, request));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK_CAPTURE(BM_Pass, statistics, true, false, false)->Arg(1 << 20)->Arg(128 << 20);
BENCHMARK_CAPTURE(BM_Pass, checksum, false, true, false)->Arg(1 << 20)->Arg(128 << 20);
BENCHMARK_CAPTURE(BM_Pass, copy, false, false, true)->Arg(1 << 20)->Arg(128 << 20);
BENCHMARK_CAPTURE(BM_Pass, statistics_checksum, true, true, false)->Arg(1 << 20)->Arg(128 << 20);
BENCHMARK_CAPTURE(BM_Pass, statistics_checksum_copy, true, true, true)
    ->Arg(1 << 20)
    ->Arg(128 << 20);

// Different tensors of a size until everything is on its way to the disk; the step ends inside.
void BM_TensorFiles(benchmark::State& state) {
  BenchCapture capture("\"task\": \"tensor\"");
  const auto count = static_cast<size_t>(state.range(0)) / sizeof(float);
  const int64_t files = state.range(1);
  std::vector<float> values(count, 1.0F);
  const int64_t shape = static_cast<int64_t>(count);
  float next = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < files; ++i) {
      values[0] = next++;
      msprobe_entry* const entry =
          msprobe_entry_begin(capture.get(), Text("Torch.a." + std::to_string(i) + ".forward"));
      msprobe_put_member(entry, Text("output"), Text("output"));
      const msprobe_tensor tensor = TensorOf(values, &shape);
      msprobe_put_tensor(entry, &tensor);
      msprobe_entry_commit(entry);
    }
    capture.NextStep();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * files * state.range(0));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * files);
}
BENCHMARK(BM_TensorFiles)->Args({4096, 2000})->Args({64 << 20, 8})->UseRealTime();

}  // namespace
}  // namespace msprobe::capture
