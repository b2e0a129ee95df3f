#include "emulator/library.hpp"

#include <algorithm>

#include "emulator/format.hpp"
#include "emulator/memory.hpp"
#include "emulator/stream.hpp"

#if defined(__SANITIZE_THREAD__)
extern "C" {  // these declarations match the compiler's built-in ones
void __tsan_read_range(void* address, long bytes);
void __tsan_write_range(void* address, long bytes);
}
#endif

namespace emulator {
namespace {

std::size_t extent(const Operand& operand) {
  return (operand.rows - 1) * operand.pitch + operand.row_bytes;
}

std::optional<std::string> range_problem(const std::vector<Operand>& operands, bool now) {
  for (const Operand& operand : operands) {
    if (auto problem = Memory::instance().range_problem(operand.pointer, extent(operand), now)) {
      return sentence("{}: {}", operand.name, *problem);
    }
  }
  return std::nullopt;
}

bool meet(std::int64_t a, std::int64_t a_size, std::int64_t b, std::int64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

/// Returns true if two operands have a byte in common. Submatrices of the same matrix can have interleaved rows without
/// sharing a byte. Operands with different pitches are not compared.
bool overlap(const Operand& a, const Operand& b) {
  if (a.rows > 1 && b.rows > 1 && a.pitch != b.pitch) return false;
  const auto pitch = static_cast<std::int64_t>(a.rows > 1 ? a.pitch : b.rows > 1 ? b.pitch : a.row_bytes + b.row_bytes);
  const auto width_a = static_cast<std::int64_t>(a.row_bytes), width_b = static_cast<std::int64_t>(b.row_bytes);
  const auto rows_a = static_cast<std::int64_t>(a.rows), rows_b = static_cast<std::int64_t>(b.rows);
  const std::int64_t apart = static_cast<const char*>(b.pointer) - static_cast<const char*>(a.pointer);
  std::int64_t row = apart / pitch, column = apart % pitch;
  if (column < 0) {
    column += pitch;
    --row;
  }
  // A row of b that begins in one of a's rows may extend into the next row.
  return (meet(0, rows_a, row, rows_b) && meet(0, width_a, column, width_b)) ||
         (meet(0, rows_a, row + 1, rows_b) && meet(0, width_a, column - pitch, width_b));
}

void require_apart(const char* call, const std::vector<Operand>& operands) {
  for (const Operand& a : operands) {
    for (const Operand& b : operands) {
      if (&a == &b || !a.written || !overlap(a, b)) continue;
      throw Error(ErrorKind::failure, call, sentence("{} overlaps {}, which the call writes", b.name, a.name),
                  "give it separate memory");
    }
  }
}

/// Reports accesses to TSan, because the loops of the libraries are compiled without it.
void tell_tsan([[maybe_unused]] const std::vector<Operand>& operands) {
#if defined(__SANITIZE_THREAD__)
  for (const Operand& operand : operands) {
    const auto bytes = static_cast<long>(operand.row_bytes);
    for (std::size_t row = 0; row < operand.rows; ++row) {
      char* begin = const_cast<char*>(static_cast<const char*>(operand.pointer)) + row * operand.pitch;
      operand.written ? __tsan_write_range(begin, bytes) : __tsan_read_range(begin, bytes);
    }
  }
#endif
}

}  // namespace

void require_device_memory(const char* call, int device, const char* name, const void* pointer, std::size_t bytes) {
  Memory& memory = Memory::for_caller();
  if (const auto problem = memory.argument_problem(pointer, device)) {
    throw Error(ErrorKind::failure, call, sentence("{}: {}", name, problem->reason), problem->hint);
  }
  if (const auto problem = memory.range_problem(pointer, bytes, false)) {
    throw Error(ErrorKind::failure, call, sentence("{}: {}", name, *problem), "pass whole live allocations");
  }
}

void queue_library_call(const char* call, int device, Stream& stream, std::vector<Operand> operands,
                        std::function<void()> work) {
  StreamState& state = stream.state();
  if (state.device() != device || selected() != device) {
    throw Error(ErrorKind::failure, call,
                sentence("the library belongs to device {}, the stream to device {}, and device {} is selected", device,
                         state.device(), selected()),
                "create a library for each device, and select that device");
  }
  for (const Operand& operand : operands) {
    require_device_memory(call, device, operand.name, operand.pointer, extent(operand));
  }
  require_apart(call, operands);
  state.submit([call, operands = std::move(operands), work = std::move(work)](const FaultPointer&) -> FaultPointer {
    if (auto late = range_problem(operands, true)) {
      return make_fault(ErrorKind::failure, sentence("a queued {} failed ({})", call, *late),
                        "order the streams with an event");
    }
    const DeviceAccess access;
    tell_tsan(operands);
    work();
    return nullptr;
  });
}

}  // namespace emulator
