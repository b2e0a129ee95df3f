#pragma once

// Memory at one end of a transfer: allocated, filled with a pattern, read back and compared.

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

/// Bytes that are a function of (seed, stream, position): word i of 8 bytes is workload::hash(seed, stream, i), but for
/// the lowest byte of every `zeroed` words, which is zero, where `zeroed` is not.
struct Pattern {
  std::uint64_t seed = 0, stream = 0;
  std::size_t zeroed = 0;
  std::uint64_t word(std::size_t i) const {
    const std::uint64_t word = workload::hash(seed, stream, i);
    return zeroed != 0 && i % zeroed == 0 ? word & ~std::uint64_t{0xff} : word;
  }
  /// Sum of words 0, step, 2·step, … below `words`, as the kernels and threads that touch pages add them up.
  std::uint64_t sum(std::size_t words, std::size_t step) const;
};

/// Which word of the source belongs at a word of the destination.
using WordMap = std::function<std::size_t(std::size_t)>;
inline constexpr std::size_t kNothing = ~std::size_t{0};

class SharedPages;

class Block {
 public:
  /// Throws device::Error, and workload::Skip where there is no managed memory. Host memory is touched, on the node
  /// asked for; managed memory is of the selected device and lies on the host.
  Block(End end, std::size_t bytes, memory::BlockOptions options);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const End& end() const noexcept { return end_; }
  std::size_t size() const noexcept { return bytes_; }
  /// For copies, and for the host where it is the host's.
  std::byte* data() const noexcept { return data_; }
  /// For kernels.
  std::byte* device_data() const;

  void fill(const Pattern& pattern);
  /// Brings managed pages that a device took away back to the host, and waits; other memory stays where it is.
  void bring_home();
  /// Share of managed pages that have left the host; nullopt of other memory, and where nobody can tell.
  std::optional<double> share_away() const;
  /// Overwrites everything with 0xff bytes.
  void poison();
  /// Bytes that are not what they should be: word i of the pattern, or word `source(i)` of it where the transfer puts
  /// them elsewhere; kNothing where the poison must still be.
  std::size_t wrong(const Pattern& pattern, const WordMap& source = {}) const;
  /// Drops it from the CPU's caches where it is the host's; false where a program may not do that on this CPU.
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

/// Writes the pattern to any memory that copies reach, and compares it, through the host unless `on_host`. Both work on
/// whole 8-byte words and a last part of one.
void write_pattern(std::byte* to, std::size_t bytes, const Pattern& pattern, bool on_host);
std::size_t count_wrong(const std::byte* from, std::size_t bytes, const Pattern& pattern, const WordMap& source,
                        bool on_host);

}  // namespace isthmus::microbench::transfer
