// --fail-on: when a command that did its work ends with exit code 1 all the same. The one place
// where that is decided, for every command and every form: the exit code, the JSON, the JUnit
// report and the line on stderr follow from Judge. A gate passes only when something was compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::report {

struct Document;

// A word that a command's --fail-on accepts. A command's list is in order of rank: what each of
// them asks about is commoner than what the ones before do.
struct GateLevel {
  std::string_view word;
  std::string_view meaning;       // for --help
  bool includes_previous = true;  // it also asks what the word before it asks
  bool on_request = false;        // a JUnit case of this level fails only when it is asked about
};

// Whether what a level asks about is there. Commands may have levels that are typed in full, such
// as "e2e>5%" of perf_compare; they stand behind the words and include nothing.
struct LevelOutcome {
  std::string word;
  bool found = false;
  bool includes_previous = true;
  bool on_request = false;
  std::string what = {};  // in a sentence; may be empty
};

// One outcome per level, nothing found yet.
std::vector<LevelOutcome> OutcomesOf(std::span<const GateLevel> levels);
// Sets `found` of the outcome with this word, which must exist.
void SetFound(std::vector<LevelOutcome>& outcomes, std::string_view word, bool found);

class Gate {
 public:
  Gate() = default;  // asks about nothing and never fails
  explicit Gate(std::vector<std::string> asked) : asked_(std::move(asked)) {}

  // Something that is asked about is there; or nothing was compared. A word that the document
  // does not know fails, too: what nobody looked for is not known to be absent.
  bool Fails(const Document& document) const;
  bool asks() const { return !asked_.empty(); }
  // Whether a JUnit case of this level counts as a failure: where something is asked about, a level
  // that is; otherwise every level but those on request. A case without a level always does.
  bool Counts(const Document& document, std::string_view level) const;
  // Why it fails, in one line: the words asked, and what was found.
  std::string Reason(const Document& document) const;

 private:
  bool AsksAbout(const Document& document, size_t level) const;

  std::vector<std::string> asked_;
};

enum class ExitClass : uint8_t { kDone = 0, kFindings = 1, kFailed = 3 };
ExitClass Judge(const Document& document, const Gate& gate);

}  // namespace msprobe::report
