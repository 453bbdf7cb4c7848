// Numbers with a fixed count of decimals, in a hurry: files of graphs hold millions of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace msprobe::base {

// Numbers as Python spells and reads them: dump files, result cells and checksums of scalars depend
// on every digit.

// repr(float): shortest text that reads back the same, "1.0", "1e-05", "inf", "-inf", "nan".
std::string PythonFloatRepr(double value);
void AppendPythonFloatRepr(double value, std::string& out);

// printf's %.16g and %.{digits}g without locale.
void AppendGeneral(double value, int digits, std::string& out);

// A whole text as a double, as Python's float() reads it apart from underscores: blanks around it,
// "inf", "nan" in any case are allowed. nullopt for anything else.
std::optional<double> ParseDouble(std::string_view text);
std::optional<int64_t> ParseInt(std::string_view text);

// A Python text literal as repr(str) writes it: single quotes unless only they occur inside,
// escapes for control characters.
void AppendPythonTextRepr(std::string_view text, std::string& out);

// printf's %.{decimals}f: ties go to the even digit. At most 20 decimals.
void AppendFixed(double value, int decimals, std::string& out);

}  // namespace msprobe::base
