// A dump.json of any content beside tensor files of many shapes, rechecked call by call: whatever
// arguments a dump claims, a call ends as a verdict.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/analysis/recheck/recheck.h"
#include "tests/fuzz/corpus_tensors.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace recheck = msprobe::analysis::recheck;
  static const msprobe::fuzz::InputFolder folder;
  static msprobe::base::ThreadPool pool(1);
  static const bool is_ready = [] {
    msprobe::fuzz::WriteCorpusTensors(folder.MakeFolder("dump_tensor_data"));
    return true;
  }();
  if (!is_ready || size > size_t{1} << 18U) {
    return 0;
  }
  const msprobe::Result<recheck::DumpEntries> entries =
      recheck::DumpEntries::Open(folder.Write("dump.json", msprobe::fuzz::TextOf(data, size)));
  if (!entries.ok()) {
    return 0;
  }
  for (const std::string& name : entries->calls()) {
    const msprobe::Result<recheck::CallVerdict> verdict =
        recheck::RecheckCall(*entries, name, recheck::Precision(), pool);
    if (verdict.ok() && verdict->verdict == recheck::Verdict::kBeyond &&
        verdict->worst() == nullptr) {
      std::abort();
    }
  }
  return 0;
}
