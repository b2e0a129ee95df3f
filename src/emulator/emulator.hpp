#pragma once

// Configuration of the emulated device, for tests and tools. An environment variable, by default EMULATOR, sets the
// same values from outside the program:
//   EMULATOR="warp=64,order=seed:7,memory=1GiB,lockstep=1"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace emulator {

/// Order in which the threads of a block run, blocks start, and ready streams continue.
enum class Order {
  natural,  ///< ascending: hides many missing barriers
  reverse,  ///< descending
  seeded,   ///< shuffled again at every turn, reproducible with the same seed
};

/// Contents of memory that has never been written, and of the slack around an allocation.
enum class Poison {
  nan,    ///< NaN in any floating-point type
  large,  ///< large and finite, positive in any type: not ignored by fmax and integer maxima
};

struct Configuration {
  unsigned warp_size = 32;       ///< "warp", 32 or 64
  Order order = Order::natural;  ///< "order": natural, reverse or seed:N
  std::uint64_t seed = 0;
  Poison poison = Poison::nan;                      ///< "poison": nan or large
  unsigned devices = 1;                             ///< "devices", 1 to 8
  std::size_t memory_bytes = std::size_t{4} << 30;  ///< "memory": capacity of each device's memory
  unsigned resident_blocks = 16;                    ///< "blocks": maximum number of blocks of a cooperative launch
  std::size_t shared_per_block = 227 << 10;         ///< "shared": maximum bytes of shared memory per block
  unsigned workers = 0;            ///< "workers": OS threads for the blocks of a launch; 0: one per core, at least two
  unsigned queue = 1022;           ///< "queue": maximum number of unfinished work items of a stream; further calls wait
  bool lockstep = false;           ///< "lockstep": the lanes of a warp continue after a spin_until together
  double timeout = 60;             ///< "timeout": maximum seconds that a block may only spin, or run without waiting
  double grace = 0.002;            ///< "grace": seconds after which queued work starts even without a wait
  unsigned others = 0;             ///< "others": number of other processes reported on each device
  bool managed = true;             ///< "managed"
  bool concurrent_managed = true;  ///< "concurrent_managed"
  bool pageable_access = false;    ///< "pageable_access": kernels may use malloc'd memory
  bool memory_pools = true;        ///< "memory_pools"
  bool virtual_memory = true;      ///< "virtual_memory": virtual memory management
  bool map_host = true;            ///< "map_host"
  bool cooperative = true;         ///< "cooperative"
  bool async_copy = true;          ///< "async_copy": the hardware supports asynchronous copies to shared memory
  bool bulk_copy = true;           ///< "bulk_copy"
  bool peer_access = true;         ///< "peer": devices can get access to each other's memory
  bool integrated = false;         ///< "integrated": the host may use device memory
  bool exit_report = true;         ///< "exit_report": unfreed memory and unreported errors change exit code 0 to 1
};

/// Description of the program that uses the emulator, for error messages.
struct Introduction {
  const char* name = "emulator";           ///< prefix of fatal messages: "NAME: the host dereferenced device memory"
  const char* variable = "EMULATOR";       ///< name of the environment variable that contains a Configuration
  const char* instead = "avoid it";        ///< advice for a missing capability
  std::size_t (*host_memory)() = nullptr;  ///< maximum bytes of a host allocation; null: installed memory
};
/// Sets the introduction. Must be called before any other function of the emulator.
void introduce(const Introduction& user);
const Introduction& introduction() noexcept;

/// Parses a specification of changes to the defaults; throws Error if it is malformed.
Configuration parse(std::string_view specification);
/// Returns the current configuration, which is that of the environment variable until configure() is called.
Configuration configuration();
/// Sets the configuration for all work queued from now on.
void configure(const Configuration& configuration);
/// Waits for all work, drops unreported faults, and disables all peer access.
void reset();

}  // namespace emulator
