// Opening tensor files: the cost per small file beside that of the bare system calls, and large
// ones mapped.
#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "msprobe/tensor_file.h"

#include "src/tensor/tensor_buffer.h"

namespace msprobe {
namespace {

// A .pt file of `bytes` bytes of float32, removed at exit.
class TensorOnDisk {
 public:
  explicit TensorOnDisk(int64_t bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("msprobe_io_bench_" + std::to_string(bytes) + ".pt")) {
    const tensor::TensorBuffer buffer(DType::kFloat32, {bytes / 4});
    ok_ = WritePtFile(path_, buffer.view()).ok();
  }
  TensorOnDisk(const TensorOnDisk&) = delete;
  TensorOnDisk& operator=(const TensorOnDisk&) = delete;
  ~TensorOnDisk() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  bool ok() const { return ok_; }

 private:
  std::filesystem::path path_;
  bool ok_ = false;
};

void OpenTensorFile(benchmark::State& state) {
  const TensorOnDisk file(state.range(0));
  std::vector<std::byte> scratch;
  TensorFile::Options options;
  options.scratch = &scratch;
  for (auto _ : state) {
    const Result<TensorFile> opened = TensorFile::Open(file.path(), options);
    if (!file.ok() || !opened.ok() || !opened->Single().ok()) {
      state.SkipWithError("cannot open the file");
      break;
    }
    benchmark::DoNotOptimize(opened->tensors().data());
  }
}
BENCHMARK(OpenTensorFile)
    ->Arg(4 << 10)
    ->Arg(128 << 10)
    ->Arg(16 << 20)
    ->Unit(benchmark::kMicrosecond);

// The floor of the above: what the system calls alone cost.
void ReadFileOnly(benchmark::State& state) {
  const TensorOnDisk file(state.range(0));
  std::vector<std::byte> buffer(static_cast<size_t>(state.range(0)) + 4096);
  for (auto _ : state) {
    const int descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    if (descriptor < 0 || ::fstat(descriptor, &info) != 0 ||
        ::read(descriptor, buffer.data(), buffer.size()) != info.st_size) {
      state.SkipWithError("cannot read the file");
    }
    ::close(descriptor);
  }
}
BENCHMARK(ReadFileOnly)->Arg(4 << 10)->Arg(128 << 10)->Unit(benchmark::kMicrosecond);

// One pass over a mapped tensor of 256 MiB, its checksum verified.
void VerifyMappedTensor(benchmark::State& state) {
  const TensorOnDisk file(256 << 20);
  for (auto _ : state) {
    const Result<TensorFile> opened = TensorFile::Open(file.path());
    if (!file.ok() || !opened.ok() || !opened->VerifyChecksum(opened->tensors()[0]).ok()) {
      state.SkipWithError("cannot read the file");
      break;
    }
  }
  state.SetBytesProcessed(state.iterations() * (256 << 20));
}
BENCHMARK(VerifyMappedTensor)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace msprobe
