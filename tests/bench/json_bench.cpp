// Megabytes per second of reading and writing a statistics dump, on one core.
#include <cmath>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "src/json/stream_reader.h"
#include "src/json/writer.h"

namespace msprobe::json {
namespace {

// The shape of a real statistics dump: four tensors per call, indent 1.
std::string MakeDump(int calls) {
  std::string text;
  Writer writer(text, 1);
  const auto tensor = [&writer](double seed) {
    writer.BeginObject();
    writer.Member("type", "torch.Tensor");
    writer.Member("dtype", "torch.bfloat16");
    writer.Key("shape");
    writer.BeginArray();
    writer.Int(4096);
    writer.Int(1);
    writer.Int(1024);
    writer.EndArray();
    writer.Member("Max", 9.0 * std::abs(std::sin(seed)));
    writer.Member("Min", -9.0 * std::abs(std::sin(seed + 1)));
    writer.Member("Mean", 0.1 * std::sin(seed + 2));
    writer.Member("Norm", 9000.0 * std::abs(std::sin(seed + 3)));
    writer.Member("requires_grad", true);
    writer.EndObject();
  };
  writer.BeginObject();
  writer.Key("data");
  writer.BeginObject();
  for (int call = 0; call < calls; ++call) {
    writer.Key(fmt::format("Functional.linear.{}.forward", call));
    writer.BeginObject();
    for (const char* part : {"input_args", "output"}) {
      writer.Key(part);
      writer.BeginArray();
      tensor(call + 0.25);
      tensor(call + 0.5);
      writer.EndArray();
    }
    writer.EndObject();
  }
  writer.EndObject();
  writer.EndObject();
  return text;
}

class Counter final : public Handler {
 public:
  size_t events = 0;
  bool OnNull() override { return ++events != 0; }
  bool OnBool(bool /*value*/) override { return ++events != 0; }
  bool OnInt(int64_t /*value*/) override { return ++events != 0; }
  bool OnFloat(double /*value*/, std::string_view /*digits*/) override { return ++events != 0; }
  bool OnText(std::string_view /*value*/) override { return ++events != 0; }
  bool OnBeginObject() override { return ++events != 0; }
  bool OnKey(std::string_view /*key*/) override { return ++events != 0; }
  bool OnEndObject() override { return ++events != 0; }
  bool OnBeginArray() override { return ++events != 0; }
  bool OnEndArray() override { return ++events != 0; }
};

void ReadDump(benchmark::State& state) {
  const std::string text = MakeDump(20000);
  for (auto _ : state) {
    Counter counter;
    if (!ParseStream(text, counter).ok()) {
      state.SkipWithError("the dump did not parse");
    }
    benchmark::DoNotOptimize(counter.events);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(ReadDump)->Unit(benchmark::kMillisecond);

void WriteDump(benchmark::State& state) {
  size_t bytes = 0;
  for (auto _ : state) {
    bytes += MakeDump(20000).size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(WriteDump)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace msprobe::json
