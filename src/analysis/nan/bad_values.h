// What is wrong with a value, and what one entry of a dump says about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "msprobe/status.h"

namespace msprobe::analysis::nan {

// A set of kinds; 0 is a good value. Max and Min count, Mean and Norm do not.
using BadValues = uint8_t;
inline constexpr BadValues kNan = 1;
inline constexpr BadValues kPositiveInfinity = 2;
inline constexpr BadValues kNegativeInfinity = 4;
inline constexpr BadValues kTooLarge = 8;  // beyond --threshold

std::string BadValuesText(BadValues bad);  // "NaN", "NaN, -inf", "good"

// Of "nan", "inf", "-inf" in any case, blanks around them allowed; 0 for any other text.
BadValues BadValuesOfText(std::string_view text);

// One entry, looked at once.
struct EntryFacts {
  BadValues first_input = 0;   // of the first positional argument
  BadValues other_inputs = 0;  // of the other arguments, keyword arguments apart from "out", and
                               // parameters
  BadValues output = 0;
  bool has_bad_parameters = false;
  BadValues constants = 0;             // kinds among plain numbers given as arguments, e.g. -inf
  bool has_huge_constant = false;      // a plain number that float16 cannot hold
  bool inputs_look_like_masks = true;  // every bad input has -inf and otherwise nothing above zero
  bool has_lowest_input = false;       // some input's Min is the lowest number of a floating type
  bool is_recompute = false;
  bool is_object = false;  // the entry has members at all
};

// `text` is the entry's JSON value. `threshold` is infinite where only NaN and infinities count.
Result<EntryFacts> ReadEntryFacts(std::string_view text, double threshold);

}  // namespace msprobe::analysis::nan
