// A dump.json of any content, of which a call is made again: as a folder, minimised, or as a
// script; and the entries of an API that was extracted before. Whatever they claim, a call ends as
// files or as an error.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "src/analysis/repro/entry_json.h"
#include "src/analysis/repro/op_generate.h"
#include "src/analysis/repro/repro.h"
#include "src/base/output_files.h"
#include "tests/fuzz/corpus_tensors.h"
#include "tests/fuzz/input_folder.h"

namespace {

namespace repro = msprobe::analysis::repro;

namespace fs = std::filesystem;

void Generate(const msprobe::fuzz::InputFolder& folder, const fs::path& dump,
              const std::string& api, const char* propagation, const char* mode) {
  const repro::Json config = {{"dump_json_path", dump.string()},
                              {"api_name", api},
                              {"extract_api_path", (folder.path() / "extracted.json").string()},
                              {"propagation", propagation},
                              {"data_mode", mode},
                              {"iter_times", 2}};
  repro::OpGenerateOptions options{
      folder.Write("config.json",
                   config.dump(-1, ' ', true, repro::Json::error_handler_t::replace)),
      folder.path() / "scripts", false};
  for (const bool for_mindspore : {false, true}) {
    options.for_mindspore = for_mindspore;
    const msprobe::Result<repro::OpGenerateAnswer> answer = repro::OpGenerate(options);
    if (answer.ok() && !fs::exists(answer->script)) {
      std::abort();
    }
  }
}

void WriteFolder(const msprobe::fuzz::InputFolder& folder, const fs::path& dump,
                 const std::string& call) {
  repro::Options options;
  options.dump = dump;
  options.call = call;
  options.output = folder.path() / "call";
  options.minimise = true;
  options.attempts = 20;
  options.threads = 1;
  options.quiet = true;
  const msprobe::Result<repro::Answer> answer = repro::Run(options);
  if (answer.ok() && answer->files.empty()) {
    std::abort();
  }
  std::error_code ignored;
  fs::remove_all(options.output, ignored);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const msprobe::fuzz::InputFolder folder;
  static const bool is_ready = [] {
    msprobe::fuzz::WriteCorpusTensors(folder.MakeFolder("dump_tensor_data"));
    folder.MakeFolder("scripts");
    msprobe::base::SetExistingFiles(msprobe::base::Existing::kReplace);
    return true;
  }();
  if (!is_ready || size > size_t{1} << 16U) {
    return 0;
  }
  const std::string_view text = msprobe::fuzz::TextOf(data, size);
  const fs::path dump = folder.Write("dump.json", text);
  const auto entries = msprobe::analysis::recheck::DumpEntries::Open(dump);
  if (!entries.ok()) {
    folder.Write("extracted.json", text);
    Generate(folder, {}, "Torch.add.0", "forward", "random_data");
    return 0;
  }
  if (entries->calls().empty()) {
    return 0;
  }
  // One call in one way: the length, which mutations change all the time, tells which.
  const std::string& name = entries->calls()[size / 3 % entries->calls().size()];
  const std::string api = name.substr(0, name.rfind('.'));
  switch (size % 3) {
    case 0:
      WriteFolder(folder, dump, name);
      break;
    case 1:
      Generate(folder, dump, api, "forward", "real_data");
      break;
    default:
      Generate(folder, dump, api, "backward", "random_data");
  }
  return 0;
}
