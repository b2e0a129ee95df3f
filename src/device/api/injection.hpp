#pragma once

// Fault injection: every function of the API that can fail begins with injection_point("its name").

#include <string_view>

namespace isthmus::device {

/// Throws the Error that ISTHMUS_INJECT or set_injection requested for this call, or sends SIGINT to this process if
/// that was requested; otherwise does nothing. `call` is one of injectable_calls().
void injection_point(std::string_view call);

}  // namespace isthmus::device
