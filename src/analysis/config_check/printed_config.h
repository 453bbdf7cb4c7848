// The configuration that a training printed into its log when it began: verl's dict, the argument
// dump of slime and Megatron, the Namespace of OpenRLHF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "msprobe/status.h"

#include "src/json/document.h"

namespace msprobe::analysis::config_check::internal {

// A Python literal (or JSON value) that a program printed into its log over several lines, read
// line by line: lines of somebody else in between are told apart because they do not fit.

// Turns the literal into JSON text: dicts and Namespace(a=1) into objects, tuples into lists, None,
// True and False into null, true and false; whatever is neither of these (torch.bfloat16,
// PosixPath('x')) into text as it stands.
class LiteralLines {
 public:
  enum class Fed : uint8_t {
    kTaken,
    kCut,      // up to a comma behind which something else begins
    kIgnored,  // does not continue the literal: as if the line were not there
    kDone,     // the literal is complete
  };
  // A line without its end. Its first one must begin with the literal.
  Fed Feed(std::string_view line);
  // Feed, unless it would cut or ignore the line: then nothing has changed.
  Fed FeedWhole(std::string_view line);

  bool done() const { return done_; }
  const std::string& json() const { return json_; }

 private:
  enum class Container : uint8_t { kDict, kList, kTuple, kCall };
  enum class Next : uint8_t { kFirst, kItem, kColon, kValue, kComma };
  struct Level {
    Container container;
    Next next;
    size_t opened_at;        // place of its bracket in json_
    bool has_comma = false;  // a tuple: ("a") is "a"
    bool written = false;    // something stands in it
  };
  struct State {
    std::vector<Level> levels;
    size_t json_size;
    size_t text_begin;
    size_t text_size;
    bool has_text;
  };

  // Sizes, not copies: a state is kept for every line and comma.
  State Save() const { return {levels_, json_.size(), text_begin_, text_.size(), has_text_}; }
  void Restore(const State& state);
  // What an earlier line's state might have needed.
  void DropTakenText();
  // One token; false: it does not fit.
  bool Step(std::string_view line, size_t* at);
  bool StepText(std::string_view line, size_t* at);
  bool StepWord(std::string_view line, size_t* at);
  bool Open(Container container);
  bool Close(char bracket);
  bool BeginValue();
  void EndValue();
  bool FlushText();
  bool PutKey(std::string_view key);

  std::vector<Level> levels_;
  std::string json_;
  // Adjacent quoted texts are one text. The parts that are not in json_ yet begin at text_begin_;
  // before them is what an earlier state may need again.
  std::string text_;
  size_t text_begin_ = 0;
  bool has_text_ = false;
  bool done_ = false;
};

}  // namespace msprobe::analysis::config_check::internal

namespace msprobe::analysis::config_check {

struct PrintedConfig {
  json::Json tree;  // one object
  size_t line = 0;  // of the log, where it begins; 1-based
  std::vector<std::string> warnings;
};

// The last one in the log. Colours, a prefix that repeats on every line (Ray's actor, a time),
// marks of repeated lines and lines of somebody else in between do not matter. `file_name` is for
// errors: nothing of the kind printed, or the last one not complete (an earlier one is used when
// there is one, with a warning).
Result<PrintedConfig> FindPrintedConfig(std::string_view log, std::string_view file_name);

// The first list of arguments in the log, read as the Python tool reads those of slime: names may
// hold blanks, and None and lists are text.
Result<PrintedConfig> FindSlimeArguments(std::string_view log, std::string_view file_name);

}  // namespace msprobe::analysis::config_check
