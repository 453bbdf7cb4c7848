// One command run by many processes that answer as one.
//
// A launcher (srun, mpirun, any MPI with PMI) starts the command several times, or somebody starts
// it with --share 1/4, --share 2/4 and so on. All processes see the same inputs and make the same
// list of units of work (a rank, a parameter, a file). The units are dealt out by their sizes, the
// largest first to whoever has the least, which every process computes alike without asking.
// Each process works on its units and delivers what it found as one file, a part, in a hidden
// folder beside the results. The first process collects the parts and goes on as if it had found
// everything itself, in the order of the units: the answer does not depend on the number of
// processes. It names what is missing where a process was killed or is late.
//
// A part carries the version of the program and a fingerprint of the work (the command line, and
// size and time of all inputs): a part of another run is not taken for one of this.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/packed.h"
#include "src/base/processes.h"

namespace msprobe::base {

// How this process takes part in its run. The same for the whole process, as --force is.
struct Sharing {
  ProcessShare share;
  std::chrono::seconds patience{1800};  // that the first process has for the others
  std::string work;                     // what is asked for: equal in all processes of a run
};
void SetSharing(Sharing sharing);
const Sharing& ThisSharing();
// Whether this process gives the answer: the first one, and the only one.
inline bool AnswersHere() { return ThisSharing().share.index == 0; }

// "2/8": the second of eight processes, which somebody starts one by one.
Result<ProcessShare> ParseShare(std::string_view text);

// An item of work. Every process must see the same units.
struct WorkUnit {
  uint64_t size = 1;  // of the work, in any measure
  uint64_t mark = 0;  // changes with the inputs
};
// The unit that reads these files; one that is missing counts as empty.
WorkUnit UnitOfFiles(std::initializer_list<Path> files);

// The units of process `index` of `count`, the largest first.
std::vector<size_t> DealOut(std::span<const WorkUnit> units, size_t index, size_t count);

class SharedRun {
 public:
  // `folder`: for the results of the command; `time`: for their names. A process whose number
  // another one of the run has is an error. One process alone leaves no trace.
  static Result<SharedRun> Join(const Path& folder, std::string_view command,
                                const std::string& time);
  // A run of one process, whatever launched it.
  SharedRun() = default;
  SharedRun(SharedRun&& other) noexcept;
  SharedRun& operator=(SharedRun&& other) noexcept;
  SharedRun(const SharedRun&) = delete;
  SharedRun& operator=(const SharedRun&) = delete;
  ~SharedRun();

  bool is_shared() const { return share_.count > 1; }
  bool answers() const { return share_.index == 0; }
  const ProcessShare& share() const { return share_; }
  // Where the processes meet: for files that are too large for a part. Whoever collects the parts
  // removes them.
  const Path& folder() const { return folder_; }

  // The time in the names of all files of the run, the same in all processes of a launch; of
  // processes that were started by hand each has its own.
  Result<RunStamp> TakeStamp();

  // Calls compute(mine, give) once, with the places of this process's units: give(place, result)
  // may be called from any thread that the caller lets, one at a time. Afterwards `results` has
  // what all processes gave, by place, in the first process; what a process that did not deliver
  // should have given is missing. In the others it is of no use. An error of any process is an
  // error of the run.
  template <typename Found, typename Compute>
  Status ShareOut(std::span<const WorkUnit> units, const Compute& compute,
                  std::vector<std::optional<Found>>& results) {
    results.clear();
    results.resize(units.size());
    const std::vector<size_t> mine = DealOut(units, share_.index, share_.count);
    const Status computed = compute(std::span<const size_t>(mine), [&](size_t place, Found found) {
      results[place] = std::move(found);
    });
    if (!is_shared()) {
      return computed;
    }
    return Exchange(
        units, computed,
        [&](std::string& bytes) {
          Packer pack(bytes);
          for (const size_t place : mine) {
            pack(results[place]);
          }
        },
        [&](std::span<const size_t> theirs, std::string_view bytes) {
          Unpacker unpack(bytes);
          for (const size_t place : theirs) {
            unpack(results[place]);
          }
          return unpack.Ended();
        });
  }

  // Sentences about processes that did not deliver, for the answer; empty when all did. `name`
  // makes the name of a unit, `what` says what they are: "pairs".
  std::vector<std::string> Missing(std::string_view what,
                                   const std::function<std::string(size_t unit)>& name) const;
  // The reason why a unit is missing: "process 2 of 4 ended without a result".
  std::string WhyMissing(size_t unit) const;

 private:
  Status Exchange(std::span<const WorkUnit> units, const Status& computed,
                  const std::function<void(std::string&)>& pack,
                  const std::function<bool(std::span<const size_t>, std::string_view)>& unpack);
  struct Late;
  std::string Reason(const Late& late) const;
  std::string HeaderOf(std::span<const WorkUnit> units, size_t index) const;
  Path ClaimOf(size_t process) const;
  Status Claim();
  Status AgreeOnStamp();
  bool IsUnclaimed(size_t process) const;
  bool IsAnswered() const;
  Path AnsweredFile() const;
  Status TooLate() const;
  void Leave();

  ProcessShare share_;
  Path output_;
  Path folder_;  // of the parts
  std::string time_;
  RunStamp stamp_;   // of a launch, until it is taken
  std::string run_;  // of a launch: the text of its stamp
  int claim_ = -1;
  size_t round_ = 0;  // calls of ShareOut
  struct Late {
    size_t process = 0;
    bool ended = false;    // it began, and is known to have ended
    bool foreign = false;  // a part of another run was in its place
    std::vector<size_t> units;
  };
  std::vector<Late> late_;
};

}  // namespace msprobe::base
