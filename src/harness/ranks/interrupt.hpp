#pragma once

namespace isthmus::harness {

/// Makes SIGTERM, SIGINT and SIGHUP request an end after the current sample; a second signal ends the process at once.
/// A signal that is ignored stays ignored.
void catch_interrupts();
/// Requests an end when the process that started this one ends, because nobody would start the next process.
void interrupt_with_parent() noexcept;
bool interrupted() noexcept;
/// Simulates a signal, for tests.
void request_interrupt() noexcept;
void clear_interrupt() noexcept;

}  // namespace isthmus::harness
