#include "src/device/acl/acl_api.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::device {
namespace {

// In the order of AclFeature.
constexpr std::array<std::string_view, 14> kAclFeatureNames = {
    "runtime",
    "copies from the device",
    "error texts of the runtime",
    "version of the runtime",
    "names of devices",
    "memory sizes",
    "state of devices",
    "check for streams that record a graph",
    "overflow status",
    "saturation mode",
    "memory that doctor --ascend fills",
    "kernel dump",
    "kernel dump into memory",
    "way back from a kernel dump into memory",
};

struct CodeName {
  int code;
  std::string_view name;
};
constexpr CodeName kCodeNames[] = {
    {100000, "invalid parameter"},
    {100001, "not initialised"},
    {100002, "initialised twice"},
    {100003, "invalid file"},
    {100009, "invalid dump configuration"},
    {100037, "finalised twice"},
    {100044, "a dump is configured already"},
    {100045, "no dump is configured"},
    {107002, "no context on this thread"},
    {200000, "out of memory"},
    {200001, "function not supported"},
    {200002, "invalid device"},
    {200005, "invalid handle"},
    {200006, "feature not supported"},
    {207000, "feature not supported by the runtime"},
    {300000, "storage limit exceeded"},
    {500000, "internal error"},
    {500001, "failure"},
    {500002, "graph engine failure"},
    {500003, "runtime failure"},
    {500004, "driver failure"},
    {500005, "profiling failure"},
};

// Numbers without a name of their own tell at least whose they are.
std::string_view NameOfCode(int code) {
  for (const CodeName& known : kCodeNames) {
    if (known.code == code) {
      return known.name;
    }
  }
  const int family = code / 1000;
  return family == 107   ? "a parameter the runtime refuses"
         : family == 207 ? "out of a resource of the runtime"
         : family == 507 ? "a failure inside the runtime or the device"
                         : "unknown code";
}

}  // namespace

AclApi::AclApi() : features({kAclFeatureNames.begin(), kAclFeatureNames.end()}) {}

void AclApi::Load(Library opened) {
  library = std::move(opened);
  features = FeatureTable({kAclFeatureNames.begin(), kAclFeatureNames.end()});
#define MSPROBE_ACL_LOAD(feature, name, ...) \
  features.Load(library, static_cast<size_t>(AclFeature::feature), #name, name);
  MSPROBE_ACL_FUNCTIONS(MSPROBE_ACL_LOAD)
#undef MSPROBE_ACL_LOAD

  // A process of MindSpore has an implementation of its own; some versions of CANN keep it apart.
  constexpr const char* kRegister = "acldumpRegCallback";
  Library home = Library::IfLoaded("libmindspore_ascend.so.2");
  if (home.Find<void>(kRegister) == nullptr && library.Find<void>(kRegister) == nullptr) {
    home = Library::IfLoaded("libascend_dump.so");
  }
  if (home.Find<void>(kRegister) == nullptr) {
    home = library;
  }
  features.Load(home, static_cast<size_t>(AclFeature::kDumpCallback), kRegister,
                acldumpRegCallback);
  features.Load(home, static_cast<size_t>(AclFeature::kDumpUnregister), "acldumpUnregCallback",
                acldumpUnregCallback);
}

Status AclApi::Check(int code, std::string_view function) const {
  if (code == kAclSuccess) {
    return {};
  }
  std::string text = fmt::format("{} failed with {} ({})", function, code, NameOfCode(code));
  const char* said = aclGetRecentErrMsg == nullptr ? nullptr : aclGetRecentErrMsg();
  if (said != nullptr && *said != '\0') {
    std::string line(base::Trim(said));  // often several, indented
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
    text += ": " + base::Printable(line);
  }
  return DeviceError(std::move(text));
}

}  // namespace msprobe::device
