#pragma once

namespace isthmus::harness {

/// From now on SIGTERM and SIGINT ask for an end after the current sample; a second one ends at once. One that is
/// ignored stays so.
void catch_interrupts();
/// The end of the process that started this one asks for an end, too: nobody is left to start the next one.
void interrupt_with_parent() noexcept;
bool interrupted() noexcept;
/// What a signal does, for tests.
void request_interrupt() noexcept;
void clear_interrupt() noexcept;

}  // namespace isthmus::harness
