// How log lines become those of another language.
#pragma once

#include <string>
#include <string_view>

namespace msprobe::base {

// Texts of log lines go through this before they are written; null: as they are. "warning: " and
// the other words in front are texts, too.
void SetLogTranslation(std::string (*translate)(std::string_view text));

}  // namespace msprobe::base
