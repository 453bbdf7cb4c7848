// Ctrl-C and termination leave nothing half-written: files under temporary names are removed before
// the process ends.
#pragma once

#include <string>

namespace msprobe::base {

// Installs handlers for SIGINT, SIGTERM and SIGHUP that remove registered files and then let the
// signal end the process.
void InstallInterruptCleanup();

// Registers a path; returns a slot for ForgetOnInterrupt, or -1 when the table is full or the path
// too long (the file would then survive an interrupt under its temporary name, nothing worse).
int RemoveOnInterrupt(const std::string& path);
void ForgetOnInterrupt(int slot);

}  // namespace msprobe::base
