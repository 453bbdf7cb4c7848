#include "src/analysis/perf/detail_text.h"

#include <array>
#include <charconv>

#include "src/base/numbers.h"

namespace msprobe::analysis::perf {
namespace {

using profile::kNoText;
using profile::Profile;
using profile::TextId;

void AppendOrNone(const Profile& side, TextId id, std::string& out) {
  out += id == kNoText ? std::string_view("None") : side.texts[id];
}

}  // namespace

void AppendKernelText(const Profile& side, const profile::Kernel& kernel, std::string& out) {
  out += side.texts[kernel.name];
  if (side.device == profile::Device::kNpu) {
    out += ", ";
    AppendOrNone(side, kernel.task_id, out);
    out += ", ";
    AppendOrNone(side, kernel.task_type, out);
    if (kernel.shapes != kNoText) {
      out += ", [input shapes: ";
      out += side.texts[kernel.shapes];
      out += "]";
    }
  }
  out += " [duration: ";
  base::AppendPythonFloatRepr(kernel.duration_us, out);
  out += "]\n";
}

void AppendAllocationText(const Profile& side, const profile::Allocation& allocation,
                          std::string_view name, std::string& out) {
  out += name;
  out += ", (";
  out += side.texts[allocation.allocated];
  out += ", ";
  out += side.texts[allocation.released];
  out += "), [duration: ";
  base::AppendPythonFloatRepr(allocation.duration_us, out);
  out += "], [size: ";
  // An integer too large to be exact prints as the number it became.
  constexpr double kExact = 9007199254740992.0;
  if (allocation.size_is_integer && allocation.size_kb <= kExact && allocation.size_kb >= -kExact) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                   static_cast<int64_t>(allocation.size_kb));
    out.append(digits.data(), end.ptr);
  } else {
    base::AppendPythonFloatRepr(allocation.size_kb, out);
  }
  out += "]\n";
}

void DetailText::Count(size_t from) {
  for (size_t i = from; i < text_.size(); ++i) {
    const bool continues = (static_cast<unsigned char>(text_[i]) & 0xC0U) == 0x80U;
    if (continues) {
      continue;
    }
    if (characters_ == most()) {
      text_.resize(i);
      return;
    }
    ++characters_;
  }
}

}  // namespace msprobe::analysis::perf
