#pragma once

namespace isthmus::harness {

/// isthmus-bench: reads the arguments, does what they say and returns the exit code. Prints errors to stderr, one
/// sentence each.
int command_line(int argc, char** argv);

}  // namespace isthmus::harness
