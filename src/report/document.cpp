#include "src/report/document.h"

namespace msprobe::report {

std::string_view ToneName(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "strong";
    case Tone::kGood:
      return "good";
    case Tone::kCaution:
      return "caution";
    case Tone::kBad:
      return "bad";
  }
  return "";
}

}  // namespace msprobe::report
