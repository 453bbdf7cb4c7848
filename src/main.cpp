#include "src/commands/commands.h"

int main(int argc, char** argv) { return msprobe::commands::RunCommandLine(argc, argv); }
