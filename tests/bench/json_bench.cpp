// Megabytes per second of reading and writing a statistics dump, on one core.
#include <cmath>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "src/json/stream_reader.h"
#include "src/json/writer.h"

namespace msprobe::json {
namespace {

// The shape of a real statistics dump: four tensors per call, indent 1.
// `flush` empties the text now and then, as a writer to a file does.
template <typename Flush>
std::string MakeDump(int calls, const Flush& flush) {
  std::string text;
  Writer writer(text, 1);
  std::vector<double> values(1024);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 9.0 * std::sin(static_cast<double>(i));
  }
  const auto tensor = [&writer, &values](int seed) {
    writer.BeginObject();
    writer.Member("type", "torch.Tensor");
    writer.Member("dtype", "torch.bfloat16");
    writer.Key("shape");
    writer.BeginArray();
    writer.Int(4096);
    writer.Int(1);
    writer.Int(1024);
    writer.EndArray();
    for (const char* name : {"Max", "Min", "Mean", "Norm"}) {
      writer.Member(name, values[static_cast<size_t>(seed++) % values.size()]);
    }
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
      tensor(call);
      tensor(call + 512);
      writer.EndArray();
    }
    writer.EndObject();
    flush(text);
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
  const std::string text = MakeDump(20000, [](std::string&) {});
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
    const std::string rest = MakeDump(20000, [&bytes](std::string& text) {
      if (text.size() > (size_t{1} << 20U)) {
        bytes += text.size();
        text.clear();
      }
    });
    bytes += rest.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
}
BENCHMARK(WriteDump)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace msprobe::json
