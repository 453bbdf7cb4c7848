// A table of free_benchmark as `show` ranks it.
#include <cstdint>
#include <string>

#include "src/analysis/inspect/inspect.h"
#include "tests/fuzz/input_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace inspect = msprobe::analysis::inspect;
  static const msprobe::fuzz::InputFolder folder;
  inspect::Options options;
  options.path = folder.Write(
      "free_benchmark.csv",
      std::string("rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index\n") +
          std::string(msprobe::fuzz::TextOf(data, size)));
  msprobe::Result<inspect::Contents> contents = inspect::Run(options);
  if (contents.ok()) {
    static_cast<void>(inspect::MakeDocument(*std::move(contents), false, true));
  }
  return 0;
}
