// Copies to and from symbols: the runtime finds the device's variable by the address of the host's variable.

#include "device/gpu/check.hpp"
#include "device/kernel/kernel.hpp"

namespace isthmus::device {

namespace {

void require_within(const char* call, const Symbol& symbol, std::size_t bytes) {
  if (bytes <= symbol.bytes) return;
  throw Error(ErrorKind::failure, call,
              std::to_string(bytes) + " bytes of " + symbol.name + ", which has " + std::to_string(symbol.bytes),
              "copy no more than the symbol's size");
}

}  // namespace

void copy_to_symbol(Symbol symbol, const void* source, std::size_t bytes, Stream& stream) {
  injection_point("copy_to_symbol");
  if (bytes == 0) return;
  require_within("copy_to_symbol", symbol, bytes);
  ISTHMUS_CALL("copy_to_symbol", MemcpyToSymbolAsync, symbol.address, source, bytes, 0, ISTHMUS_GPU(MemcpyDefault),
               gpu::handle_of(stream));
}

void copy_from_symbol(void* destination, Symbol symbol, std::size_t bytes, Stream& stream) {
  injection_point("copy_from_symbol");
  if (bytes == 0) return;
  require_within("copy_from_symbol", symbol, bytes);
  ISTHMUS_CALL("copy_from_symbol", MemcpyFromSymbolAsync, destination, symbol.address, bytes, 0,
               ISTHMUS_GPU(MemcpyDefault), gpu::handle_of(stream));
}

}  // namespace isthmus::device
