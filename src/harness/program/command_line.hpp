#pragma once

namespace isthmus::harness {

/// Runs isthmus-bench: reads the arguments, executes them and returns the exit code. Prints errors to stderr, one
/// sentence each.
int command_line(int argc, char** argv);

}  // namespace isthmus::harness
