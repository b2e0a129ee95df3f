// Copies from global to shared memory, which are performed only at the matching wait.

#include <cstring>

#include "emulator/block.hpp"
#include "emulator/format.hpp"
#include "emulator/memory.hpp"

namespace emulator {
namespace {

constexpr std::uint64_t bulk_magic = 0xb01c;

void land(std::vector<PendingCopy>& copies, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(copies[i].destination, copies[i].source, copies[i].bytes);
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(count));
}

bool aligned(const void* pointer, unsigned bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace

// --- asynchronous copies, per thread ---------------------------------------------------------------

void Block::async_copy(Thread& self, void* shared, const void* global, unsigned bytes, const char* file, int line) {
  if (!aligned(shared, bytes) || !aligned(global, bytes)) {
    stop(sentence("block {}: {}: {} is not aligned to the copy's {} bytes", triple(index),
                  here(self, "async_copy", file, line), aligned(shared, bytes) ? "the source" : "the destination",
                  bytes),
         "align both, or copy smaller pieces");
    abandon(self);
  }
  std::memset(shared, poison_byte(grid_->configuration.poison), bytes);
  self.copies.push_back({shared, global, bytes, self.committed});
}

void Block::async_wait(Thread& self, unsigned pending) {
  // Groups are numbered from 0; the newest `pending` groups of those committed may remain in flight.
  if (self.committed <= pending) return;
  const std::uint64_t through = self.committed - pending;
  std::size_t count = 0;
  while (count < self.copies.size() && self.copies[count].group < through) ++count;
  land(self.copies, count);
}

void async_commit() {
  ++current().committed;
}

// --- bulk copies, per block ------------------------------------------------------------------------

// Returns the barrier's value, which contains the serial number of the block that initialised it, a mark, and the index
// of its record in that block.
std::uint64_t Block::bulk_init(unsigned arrivals) {
  BulkRecord record;
  record.arrivals = record.pending_arrivals = arrivals;
  const Unseen unseen;
  bulk_.push_back(std::move(record));
  return serial_ << 32 | bulk_magic << 16 | (bulk_.size() - 1);
}

BulkRecord& Block::bulk_record(Thread& self, std::uint64_t barrier, const char* file, int line) {
  const std::uint64_t number = barrier & 0xffff;
  if (barrier >> 32 != (serial_ & 0xffffffff) || (barrier >> 16 & 0xffff) != bulk_magic || number >= bulk_.size()) {
    stop(sentence("block {}: {}: the barrier is not initialised", triple(index),
                  here(self, "a BulkBarrier", file, line)),
         "let one thread call init, then __syncthreads, before it is used");
    abandon(self);
  }
  return bulk_[number];
}

void Block::bulk_expect(Thread& self, std::uint64_t barrier, unsigned bytes, const char* file, int line) {
  BulkRecord& record = bulk_record(self, barrier, file, line);
  if (record.pending_arrivals == 0) {
    stop(sentence("block {}: {}: more arrivals in a phase than the {} given to init", triple(index),
                  here(self, "BulkBarrier::expect", file, line), record.arrivals),
         "call expect once per phase and arrival, and wait for a phase before the next");
    abandon(self);
  }
  sanitizer_release(&record.token[record.phase & 1]);
  --record.pending_arrivals;
  record.expected += bytes;
}

void Block::bulk_copy(Thread& self, void* shared, const void* global, unsigned bytes, std::uint64_t barrier,
                      const char* file, int line) {
  BulkRecord& record = bulk_record(self, barrier, file, line);
  if (!aligned(shared, 16) || !aligned(global, 16) || bytes % 16 != 0) {
    stop(sentence("block {}: {}: {}", triple(index), here(self, "bulk_copy", file, line),
                  bytes % 16 != 0 ? sentence("{} bytes are not a multiple of 16", bytes)
                                  : std::string(aligned(shared, 16) ? "the source is not aligned to 16 bytes"
                                                                    : "the destination is not aligned to 16 bytes")),
         "bulk copies move multiples of 16 bytes between addresses aligned to 16");
    abandon(self);
  }
  std::memset(shared, poison_byte(grid_->configuration.poison), bytes);
  sanitizer_release(&record.token[record.phase & 1]);
  const Unseen unseen;
  record.copies.push_back({shared, global, bytes, record.phase});
  record.issued += bytes;
}

bool Block::bulk_done(BulkRecord& record, unsigned parity) {
  if ((record.phase & 1) != (parity & 1)) return true;
  if (record.pending_arrivals != 0 || record.issued != record.expected) return false;
  void* token = &record.token[record.phase & 1];
  sanitizer_acquire(token);
  land(record.copies, record.copies.size());
  sanitizer_release(token);
  record.expected = record.issued = 0;
  record.pending_arrivals = record.arrivals;
  ++record.phase;
  return true;
}

void Block::bulk_wait(Thread& self, std::uint64_t barrier, unsigned parity, const char* file, int line) {
  BulkRecord& record = bulk_record(self, barrier, file, line);
  void* token = &record.token[parity & 1];
  if (!bulk_done(record, parity)) {
    self.state = State::bulk;
    self.operation = "BulkBarrier::wait";
    self.file = file;
    self.line = line;
    self.bulk_barrier = barrier;
    self.bulk_parity = parity;
    suspend(self);
  }
  sanitizer_acquire(token);
}

// --- functions called by kernels -------------------------------------------------------------------

namespace detail {

void async_copy(void* shared, const void* global, unsigned bytes, const char* file, int line) {
  current_block().async_copy(current(), shared, global, bytes, file, line);
}
void async_wait(unsigned pending) {
  current_block().async_wait(current(), pending);
}
std::uint64_t bulk_init(unsigned arrivals) {
  return current_block().bulk_init(arrivals);
}
void bulk_expect(std::uint64_t barrier, unsigned bytes, const char* file, int line) {
  current_block().bulk_expect(current(), barrier, bytes, file, line);
}
void bulk_wait(std::uint64_t barrier, unsigned parity, const char* file, int line) {
  current_block().bulk_wait(current(), barrier, parity, file, line);
}
void bulk_copy(void* shared, const void* global, unsigned bytes, std::uint64_t barrier, const char* file, int line) {
  current_block().bulk_copy(current(), shared, global, bytes, barrier, file, line);
}

}  // namespace detail

}  // namespace emulator
