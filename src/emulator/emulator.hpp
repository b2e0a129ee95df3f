#pragma once

// What tests and tools may change about the emulated device. A variable of the environment, by default EMULATOR, sets
// the same from outside:
//   EMULATOR="warp=64,order=seed:7,memory=1GiB,lockstep=1"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emulator {

/// The order in which the threads of a block take turns, blocks start, and streams that could all go on do.
enum class Order {
  natural,  ///< ascending: many missing barriers hide here
  reverse,  ///< descending
  seeded,   ///< shuffled anew at every turn, the same for the same seed
};

/// What memory holds that nobody wrote, and the slack around an allocation.
enum class Poison {
  nan,    ///< NaN in any floating-point type
  large,  ///< large and finite, positive in any type: what fmax and integer maxima do not swallow
};

struct Configuration {
  unsigned warp_size = 32;       ///< "warp", 32 or 64
  Order order = Order::natural;  ///< "order": natural, reverse or seed:N
  std::uint64_t seed = 0;
  Poison poison = Poison::nan;                      ///< "poison": nan or large
  unsigned devices = 1;                             ///< "devices", 1 to 8
  std::size_t memory_bytes = std::size_t{4} << 30;  ///< "memory": capacity of each device's memory
  unsigned resident_blocks = 16;                    ///< "blocks": most of a cooperative launch
  std::size_t shared_per_block = 227 << 10;         ///< "shared"
  unsigned workers = 0;            ///< "workers": OS threads for the blocks of a launch; 0: one a core, two at least
  unsigned queue = 1022;           ///< "queue": what a stream holds that has not ended; the next call waits for room
  bool lockstep = false;           ///< "lockstep": the lanes of a warp leave a spin_until together
  double timeout = 60;             ///< "timeout": seconds that a block may do nothing but spin, or run without waiting
  double grace = 0.002;            ///< "grace": seconds after which queued work starts though nobody asked for it
  unsigned others = 0;             ///< "others": processes that are told to be on each device beside this one
  bool managed = true;             ///< "managed"
  bool concurrent_managed = true;  ///< "concurrent_managed"
  bool pageable_access = false;    ///< "pageable_access": kernels may be given malloc'd memory
  bool memory_pools = true;        ///< "memory_pools"
  bool virtual_memory = true;      ///< "virtual_memory": addresses and memory apart
  bool map_host = true;            ///< "map_host"
  bool cooperative = true;         ///< "cooperative"
  bool async_copy = true;          ///< "async_copy": the hardware copies to shared memory asynchronously
  bool bulk_copy = true;           ///< "bulk_copy"
  bool peer_access = true;         ///< "peer": one device can be given access to another's memory
  bool integrated = false;         ///< "integrated": the host may use device memory
  bool exit_report = true;         ///< "exit_report": memory never freed and errors nobody saw make exit code 0 a 1
};

/// The program that uses the emulator, as its errors speak of it.
struct Introduction {
  const char* name = "emulator";          ///< before what ends the process: "NAME: the host dereferenced device memory"
  const char* variable = "EMULATOR";      ///< of the environment, with a Configuration
  const char* instead = "do without it";  ///< what to do where the device lacks something
  std::size_t (*host_memory)() = nullptr;  ///< bytes that a host allocation must stay below; null: what is installed
};
/// To be called before anything else is asked of the emulator.
void introduce(const Introduction& user);
const Introduction& introduction() noexcept;

/// Starts from the defaults; throws Error on what is not understood.
Configuration parse(std::string_view specification);
/// What holds now: what the environment says, until configure() is called.
Configuration configuration();
/// Holds for work queued from now on.
void configure(const Configuration& configuration);
/// Waits for all work, forgets faults that nobody was told of, and ends all peer access.
void reset();

}  // namespace emulator
