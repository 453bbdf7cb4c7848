// Pieces that the documents of several commands are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "src/report/document.h"

namespace msprobe::analysis::monitor::internal {

// Figures that the verdict tells in its sentence, for programs.
report::Section FiguresSection(std::initializer_list<std::pair<std::string_view, double>> figures);
// The verdict of a command that writes files: how much it wrote.
report::Verdict Written(std::string text, uint64_t number, std::string_view unit);
// Tells in an answer that some tables of a run could not be read, or not to their end: no success.
void TellUnread(size_t files, report::Verdict& verdict);
// Fails when there is one of what is counted.
report::TestCase CaseOf(std::string name, std::string level, uint64_t count, std::string_view noun);

}  // namespace msprobe::analysis::monitor::internal
