#pragma once

// Fault injection: every function of the API that can fail begins with injection_point("its name").

#include <string_view>

namespace isthmus::device {

/// Throws the Error that ISTHMUS_INJECT or set_injection asked for at this call, or sends this process the SIGINT; else
/// does nothing.
/// `call` is one of injectable_calls().
void injection_point(std::string_view call);

}  // namespace isthmus::device
