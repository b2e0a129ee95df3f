#include "microbench/transfer/block.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "memory/host_cache.hpp"
#include "memory/pages.hpp"
#include "memory/parallel.hpp"
#include "microbench/transfer/shared_pages.hpp"

namespace isthmus::microbench::transfer {

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kBounce = std::size_t{16} << 20;  // bytes copied through the host at a time
constexpr std::size_t kGrain = std::size_t{1} << 16;    // minimum words per thread

std::size_t words_of(std::size_t bytes) {
  return (bytes + kWord - 1) / kWord;
}

void write_words(std::byte* to, std::size_t bytes, const Pattern& pattern, std::size_t first_word) {
  memory::parallel_for(words_of(bytes), kGrain, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const std::uint64_t word = pattern.word(first_word + i);
      std::memcpy(to + i * kWord, &word, std::min(kWord, bytes - i * kWord));
    }
  });
}

std::size_t compare_words(const std::byte* from, std::size_t bytes, const Pattern& pattern, const WordMap& source,
                          std::size_t first_word) {
  std::atomic<std::size_t> wrong = 0;
  memory::parallel_for(words_of(bytes), kGrain, [&](std::size_t first, std::size_t last) {
    std::size_t found = 0;
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t at = source ? source(first_word + i) : first_word + i;
      const std::uint64_t word = at == kNothing ? ~std::uint64_t{0} : pattern.word(at);
      const std::size_t size = std::min(kWord, bytes - i * kWord);
      if (std::memcmp(from + i * kWord, &word, size) == 0) continue;
      const auto* expected = reinterpret_cast<const std::byte*>(&word);
      for (std::size_t b = 0; b < size; ++b) found += from[i * kWord + b] != expected[b];
    }
    wrong += found;
  });
  return wrong;
}

}  // namespace

std::uint64_t Pattern::sum(std::size_t words, std::size_t step) const {
  std::atomic<std::uint64_t> total = 0;
  memory::parallel_for((words + step - 1) / step, kGrain, [&](std::size_t first, std::size_t last) {
    std::uint64_t mine = 0;
    for (std::size_t i = first; i < last; ++i) mine += word(i * step);
    total += mine;
  });
  return total;
}

void write_pattern(std::byte* to, std::size_t bytes, const Pattern& pattern, bool on_host) {
  if (on_host) return write_words(to, bytes, pattern, 0);
  const auto bounce = std::make_unique_for_overwrite<std::byte[]>(std::min(bytes, kBounce));
  for (std::size_t done = 0; done < bytes; done += kBounce) {
    const std::size_t part = std::min(kBounce, bytes - done);
    write_words(bounce.get(), part, pattern, done / kWord);
    device::copy(to + done, bounce.get(), part);
  }
}

std::size_t count_wrong(const std::byte* from, std::size_t bytes, const Pattern& pattern, const WordMap& source,
                        bool on_host) {
  if (on_host) return compare_words(from, bytes, pattern, source, 0);
  const auto bounce = std::make_unique_for_overwrite<std::byte[]>(std::min(bytes, kBounce));
  std::size_t wrong = 0;
  for (std::size_t done = 0; done < bytes; done += kBounce) {
    const std::size_t part = std::min(kBounce, bytes - done);
    device::copy(bounce.get(), from + done, part);
    wrong += compare_words(bounce.get(), part, pattern, source, done / kWord);
  }
  return wrong;
}

Block::Block(End end, std::size_t bytes, memory::BlockOptions options) : end_(end), bytes_(bytes) {
  if (end.kind == Kind::managed) {
    const std::size_t page = memory::page_bytes();
    managed_ = std::make_unique<SharedPages>(end, end, (bytes + page - 1) / page * page, options);
    data_ = managed_->data();
    move_home();
    return;
  }
  std::optional<device::Selected> on;
  if (end.on_gpu()) on.emplace(end.index);
  if (end.on_node()) options.numa_node = end.index;
  own_ = memory::Block(end.kind, bytes, options);
  if (!end.on_gpu()) own_.touch();
  data_ = own_.data();
}

Block::~Block() = default;

std::byte* Block::device_data() const {
  return own_ ? own_.device_data() : data_;
}

void Block::fill(const Pattern& pattern) {
  write_pattern(data_, bytes_, pattern, on_host());
}

void Block::move_home() {
  if (!managed_) return;
  device::Stream stream;
  managed_->send_to(end_, stream);
}

std::optional<double> Block::share_away() const {
  return managed_ ? managed_->share_off_host() : std::nullopt;
}

void Block::poison() {
  if (on_host()) return memory::fill_host(data_, bytes_, std::byte{0xff});
  const device::Selected on(end_.index);
  device::Stream stream;
  device::fill_async(data_, 0xff, bytes_, stream);
  stream.synchronize();
}

std::size_t Block::wrong(const Pattern& pattern, const WordMap& source) const {
  if (!write_combined()) return count_wrong(data_, bytes_, pattern, source, on_host());
  // The CPU reads write-combined memory past its caches, at a hundredth of their speed. A GPU reads it at full speed.
  const Block copied(gpu(device::selected()), bytes_, {});
  device::copy(copied.data(), data_, bytes_);
  return copied.wrong(pattern, source);
}

bool Block::flush() const {
  // Write-combined memory is in no cache.
  return !on_host() || write_combined() || memory::flush_host_caches(data_, bytes_);
}

std::vector<std::string> Block::disagreements(const std::string& what) const {
  return own_ ? own_.disagreements(what) : managed_->disagreements();
}

}  // namespace isthmus::microbench::transfer
