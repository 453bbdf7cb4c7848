// What an isolated run found: the modules that compute wrong by themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::isolate {

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
  // Modules that differ, but draw random numbers: whether that is a fault cannot be told.
  std::vector<std::string> random_modules;
  std::vector<std::filesystem::path> tables;
  std::vector<std::filesystem::path> unfinished;  // of steps that did not come to their end
  uint64_t unreadable = 0;                        // tables
  std::vector<std::string> warnings;
};

}  // namespace msprobe::analysis::isolate
