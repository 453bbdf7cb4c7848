// Runs modules one by one with recorded inputs and finds those that compute wrong by themselves.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/report/document.h"

namespace msprobe::analysis::isolate {

struct Options {
  std::filesystem::path output;  // where the training wrote step<N>/rank<M>/isolate.csv
};

// Whether a dump can be the reference of an isolated run.

// `path`: the dump_path of a good run. An error with the remedy where it has no steps, no modules,
// or statistics without tensors: modules cannot run on those.
Status CheckReference(const std::filesystem::path& path);

// A module, by its worst comparison. `factor`: how often the floor goes into the error; both are
// relative to the norm of the reference.
struct Guilty {
  std::string module;
  std::string kind;  // its class
  double factor = 0;
  double error = 0;
  double floor = 0;
  std::string what;   // "output 0", "what it gives to blocks.0.attn.drop"
  std::string call;   // "Module.fc.Linear.forward.0"
  std::string cause;  // "parameter weight differs"; empty: its own computation
  bool forward = false;
  bool backward = false;
  uint64_t ranks = 0;  // in how many tables
};

struct NotJudged {
  std::string call;
  std::string why;
};

struct Verdicts {
  std::vector<Guilty> guilty;         // the largest factor first
  std::vector<NotJudged> not_judged;  // calls
  uint64_t modules = 0;               // that something was compared of
  uint64_t comparisons = 0;
  // Modules that differ, but draw random numbers: whether that is a fault is not known.
  std::vector<std::string> random_modules;
  std::vector<std::filesystem::path> tables;
  std::vector<std::filesystem::path> unfinished;  // of steps that did not come to their end
  uint64_t unreadable = 0;                        // tables
  std::vector<std::string> warnings;
};

// The tables of an isolated run, read together.

// A table that cannot be read is a warning as long as another one can be. No tables at all: a
// result without comparisons.
Result<Verdicts> Run(const Options& options);

// isolate.csv of all steps and ranks below a folder, or with `unfinished` isolate.csv.part.
Result<std::vector<std::filesystem::path>> TablesIn(const std::filesystem::path& folder,
                                                    bool unfinished = false);

inline constexpr std::array<report::GateLevel, 1> kGateLevels = {
    {{"guilty", "a module that computes wrong on the reference's own inputs"}}};

report::Document MakeDocument(const Verdicts& verdicts);

}  // namespace msprobe::analysis::isolate
