#include "src/commands/command_line.h"

int main(int argc, char** argv) { return msprobe::commands::RunCommandLine(argc, argv); }
