#pragma once

// Builds event entries as the driver writes them, from the offsets of the driver's interface instead of the structures
// in src/trace.

#include <cstring>
#include <initializer_list>

#include "trace/uvm/events.hpp"

namespace isthmus::trace::uvm {

struct Field {
  std::size_t at, bytes;
  std::uint64_t value;
};

inline Entry entry_of(std::initializer_list<Field> fields) {
  Entry entry{};
  for (const auto& field : fields) std::memcpy(entry.data() + field.at, &field.value, field.bytes);
  return entry;
}

inline Entry fault_entry(std::uint64_t address, std::uint32_t batch, std::uint64_t time = 0, std::uint8_t gpu = 1) {
  return entry_of({{0, 1, 3}, {3, 1, gpu}, {8, 8, address}, {16, 8, time}, {24, 8, time}, {32, 4, batch}, {36, 1, 1}});
}

inline Entry replay_entry(std::uint32_t batch, std::uint64_t time = 0, std::uint8_t gpu = 1) {
  return entry_of({{0, 1, 4}, {1, 1, gpu}, {2, 1, 1}, {4, 4, batch}, {8, 8, time}, {16, 8, time}});
}

}  // namespace isthmus::trace::uvm
