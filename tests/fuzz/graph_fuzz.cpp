// Two dumps of a rank through the whole of `graph`: trees, matches, figures, and both files.
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "src/analysis/graph/graph.h"
#include "tests/fuzz/input_folder.h"

// The first byte chooses flags. The files of both sides stand behind it, with a byte 0x1e between
// them: construct.json, dump.json and stack.json, then those of the bench side that are others.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace graph = msprobe::analysis::graph;
  namespace fuzz = msprobe::fuzz;
  static const fuzz::InputFolder folder;
  std::string_view rest = fuzz::TextOf(data, size);
  const size_t flags = fuzz::TakeChoice(rest, 256);
  std::array<std::string_view, 6> files;
  for (std::string_view& file : files) {
    const size_t end = rest.find('\x1e');
    file = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  const std::array<std::string_view, 3> names = {"construct.json", "dump.json", "stack.json"};
  std::error_code ignored;
  graph::Options options;
  options.npu_path = folder.path() / "npu";
  options.output = folder.path() / "out";
  std::filesystem::remove_all(options.output, ignored);
  for (const char* side : {"npu", "bench"}) {
    std::filesystem::create_directories(folder.path() / side, ignored);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    folder.Write(std::string("npu/") + std::string(names[i]), files[i]);
    folder.Write(std::string("bench/") + std::string(names[i]),
                 files[i + 3].empty() ? files[i] : files[i + 3]);
  }
  if ((flags & 1U) == 0) {
    options.bench_path = folder.path() / "bench";
  }
  options.overflow_check = (flags & 2U) != 0;
  options.fuzzy = (flags & 4U) != 0;
  options.layer_mapping.given = (flags & 8U) != 0;
  // What is read matters more than what is written, and the database takes most of the time.
  options.write_database = (flags & 192U) == 64;
  options.write_vis = !options.write_database || (flags & 16U) != 0;
  options.threads = 1;
  options.quiet = true;
  if (const auto answer = graph::Run(options); answer.ok()) {
    static_cast<void>(graph::MakeDocument(*answer));
  }
  std::filesystem::remove_all(options.output, ignored);
  return 0;
}
