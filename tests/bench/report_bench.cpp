// Cells per second of the table writers, on one core unless the name says otherwise.
#include <cmath>
#include <filesystem>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "src/base/threads.h"
#include "src/report/writers.h"

namespace msprobe::report {
namespace {

constexpr size_t kRows = 100'000;

// The mix of a compare result: eight texts and twelve numbers per row, one row in ten coloured.
const Table& SampleTable() {
  static const Table table = [] {
    std::vector<std::string> columns;
    for (int column = 0; column < 20; ++column) {
      columns.push_back(fmt::format("Column {}", column));
    }
    Table made("Sheet", columns);
    made.Reserve(kRows);
    std::vector<Cell> cells(20);
    for (size_t row = 0; row < kRows; ++row) {
      const Cell name =
          made.KeepText(fmt::format("Functional.linear.{}.forward.input.{}", row / 5, row % 5));
      cells[0] = name;
      cells[1] = name;
      cells[2] = Cell::Text("torch.bfloat16");
      cells[3] = Cell::Text("torch.bfloat16");
      cells[4] = Cell::Text("[4096, 1, 1024]");
      cells[5] = Cell::Text("[4096, 1, 1024]");
      for (size_t column = 6; column < 18; ++column) {
        cells[column] = Cell::Number(std::sin(static_cast<double>(row * 20 + column)) * 100.0);
      }
      cells[18] = Cell::Text("Warning");
      cells[19] = Cell::Text("");
      made.AddRow(cells, row % 10 == 0 ? Fill::kRed : Fill::kNone);
    }
    return made;
  }();
  return table;
}

std::filesystem::path OutputPath(const char* name) {
  return std::filesystem::temp_directory_path() / fmt::format("msprobe_bench_{}", name);
}

void CountCells(benchmark::State& state) {
  const Table& table = SampleTable();
  state.counters["cells"] =
      benchmark::Counter(static_cast<double>(table.row_count() * table.columns().size()),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void WriteXlsxThreads(benchmark::State& state) {
  base::ThreadPool pool(static_cast<size_t>(state.range(0)));
  const Table* const table = &SampleTable();
  const std::filesystem::path path = OutputPath("table.xlsx");
  for (auto _ : state) {
    if (!WriteXlsx(path, {&table, 1}, {}, pool).ok()) {
      state.SkipWithError("xlsx was not written");
    }
  }
  CountCells(state);
  std::filesystem::remove(path);
}
BENCHMARK(WriteXlsxThreads)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void WriteCsvTable(benchmark::State& state) {
  const std::filesystem::path path = OutputPath("table.csv");
  for (auto _ : state) {
    if (!WriteCsv(path, SampleTable()).ok()) {
      state.SkipWithError("csv was not written");
    }
  }
  CountCells(state);
  std::filesystem::remove(path);
}
BENCHMARK(WriteCsvTable)->Unit(benchmark::kMillisecond);

void WriteJsonLinesTable(benchmark::State& state) {
  const std::filesystem::path path = OutputPath("table.jsonl");
  for (auto _ : state) {
    if (!WriteJsonLines(path, SampleTable()).ok()) {
      state.SkipWithError("JSON lines were not written");
    }
  }
  CountCells(state);
  std::filesystem::remove(path);
}
BENCHMARK(WriteJsonLinesTable)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace msprobe::report
