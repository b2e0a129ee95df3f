#pragma once

// Memory at one end of a transfer. It can be filled with a pattern, read back and compared.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/block.hpp"
#include "microbench/transfer/ends.hpp"

namespace isthmus::microbench::transfer {

/// Byte pattern that is a function of (seed, stream, position). Word i of 8 bytes is workload::hash(seed, stream, i).
/// If `zeroed` is not 0, the lowest byte of every `zeroed`-th word is zero.
struct Pattern {
  std::uint64_t seed = 0, stream = 0;
  std::size_t zeroed = 0;
  std::uint64_t word(std::size_t i) const {
    const std::uint64_t word = workload::hash(seed, stream, i);
    return zeroed != 0 && i % zeroed == 0 ? word & ~std::uint64_t{0xff} : word;
  }
  /// Returns the sum of words 0, step, 2·step, … below `words`, which is what the kernels and threads that touch pages
  /// add up.
  std::uint64_t sum(std::size_t words, std::size_t step) const;
};

/// Map from a word of the destination to the word of the source that is transferred to it; kNothing if there is none.
using WordMap = std::function<std::size_t(std::size_t)>;
inline constexpr std::size_t kNothing = ~std::size_t{0};

class SharedPages;

class Block {
 public:
  /// Allocates `bytes`. Host memory is touched on the requested node; managed memory belongs to the selected device and
  /// starts on the host. Throws device::Error, and workload::Skip if the device does not support managed memory.
  Block(End end, std::size_t bytes, memory::BlockOptions options);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const End& end() const noexcept { return end_; }
  std::size_t size() const noexcept { return bytes_; }
  /// Returns the address for copies and, if the memory is the host's, for the host.
  std::byte* data() const noexcept { return data_; }
  /// Returns the address for kernels.
  std::byte* device_data() const;

  void fill(const Pattern& pattern);
  /// Moves managed pages from a device back to the host and waits. Other memory stays where it is.
  void move_home();
  /// Returns the share of managed pages that are no longer on the host; nullopt for other memory and where it cannot be
  /// determined.
  std::optional<double> share_away() const;
  /// Overwrites everything with 0xff bytes.
  void poison();
  /// Returns the number of wrong bytes. The expected word i is word i of the pattern, or word `source(i)` if the
  /// transfer rearranges words, or the poison if `source(i)` is kNothing.
  std::size_t wrong(const Pattern& pattern, const WordMap& source = {}) const;
  /// Flushes host memory from the CPU's caches. Returns false if a program cannot do that on this CPU.
  bool flush() const;
  std::vector<std::string> disagreements(const std::string& what) const;

 private:
  bool on_host() const noexcept { return !end_.on_gpu(); }
  bool write_combined() const noexcept { return own_.kind() == Kind::write_combined; }

  End end_;
  std::size_t bytes_;
  memory::Block own_;
  std::unique_ptr<SharedPages> managed_;
  std::byte* data_ = nullptr;
};

/// Writes the pattern to memory; count_wrong() compares memory with it. Unless `on_host`, both copy through the host.
/// Both work on whole 8-byte words and a partial last word.
void write_pattern(std::byte* to, std::size_t bytes, const Pattern& pattern, bool on_host);
std::size_t count_wrong(const std::byte* from, std::size_t bytes, const Pattern& pattern, const WordMap& source,
                        bool on_host);

}  // namespace isthmus::microbench::transfer
