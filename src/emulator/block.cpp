#include "emulator/block.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/format.hpp"
#include "emulator/memory.hpp"

namespace emulator {

constinit thread_local ThreadView* this_thread = nullptr;

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t shared_alignment = 128;

std::uintptr_t address_of(const std::byte* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool same_place(const Thread& thread, const char* file, int line) {
  return thread.line == line && (thread.file == file || std::strcmp(thread.file, file) == 0);
}

}  // namespace

Block& Block::of_this_thread() {
  static thread_local Block block;
  return block;
}

Block::Block() : ring_(new Thread*[most_threads]), warps_(new Warp[most_threads / 32]) {
  worker_.adopt_thread();
}

Block::~Block() {
  if (shared_) munmap(shared_, shared_mapped_);
}

// --- running a block -------------------------------------------------------------------------------

void Block::run(Grid& launch, std::uint64_t number) {
  worker_.enter_thread();
  sanitizer_acquire(&launch.begin_token);
  prepare(launch, number);
  next_turn();  // signals sent for an earlier kernel must not affect this one
  sanitizer_release(&fork_token_);
  make_ready_if([](Thread&) { return true; }, 0, size_);
  for (;;) {
    if (Thread* next = take_ready()) Fiber::change(worker_, next->fiber);
    this_thread = nullptr;
    if (faulted_ || live_ == 0 || !idle()) break;
  }
  sanitizer_acquire(&join_token_);
  if (faulted_) {
    shared_bytes_ = 0;  // writes beyond its shared memory must not be attributed to the next block
  } else {
    check_shared();
  }
  sanitizer_release(&launch.end_token);
  worker_.leave_thread();
}

void Block::prepare(Grid& launch, std::uint64_t number) {
  grid_ = &launch;
  ++serial_;
  index = launch.block_index(number);
  block_extent = launch.block;
  grid_extent = launch.grid;
  warp_size = launch.configuration.warp_size;
  faulted_ = false;
  head_ = ready_ = 0;
  arrived_ = 0;
  predicate_count_ = 0;
  progress_ = spin_progress_ = 0;
  spin_rounds_ = 0;
  grid_parity_ = 0;
  bulk_.clear();
  random_ = launch.configuration.seed ^ (launch.launch_number * 0x9e3779b97f4a7c15ULL) ^ (number << 20);
  prepare_threads(launch.block.x * launch.block.y * launch.block.z);
  poison_shared();
}

void Block::prepare_threads(unsigned count) {
  while (threads_.size() < count) {
    auto thread = std::make_unique<Thread>();
    thread->number = static_cast<unsigned>(threads_.size());
    thread->block = this;
    const Stacks::Stack stack = stacks_.get(thread->number);
    thread->fiber.start(stack.begin, stack.bytes, &Block::thread_main, thread.get());
    next_turn();
    threads_.push_back(std::move(thread));
  }
  size_ = live_ = count;
  warp_count_ = (count + warp_size - 1) / warp_size;
  for (unsigned w = 0; w < warp_count_; ++w) {
    const unsigned lanes = std::min(warp_size, count - w * warp_size);
    warps_[w].existing = lanes == 64 ? ~LaneMask{0} : (LaneMask{1} << lanes) - 1;
    warps_[w].returned = 0;
    warps_[w].open = 0;
  }
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = *threads_[i];
    if (!thread.parked) {
      const Stacks::Stack stack = stacks_.get(i);
      thread.fiber.start(stack.begin, stack.bytes, &Block::thread_main, &thread);
      next_turn();
      thread.parked = true;
    }
    thread.index = {i % block_extent.x, i / block_extent.x % block_extent.y, i / block_extent.x / block_extent.y};
    thread.lane = i % warp_size;
    thread.warp = i / warp_size;
    thread.copies.clear();
    thread.committed = 0;
  }
}

void Block::poison_shared() {
  const std::size_t capacity = (grid_->configuration.shared_per_block + page - 1) / page * page;
  const std::size_t bytes = grid_->shared_bytes;
  const Poison poison = grid_->configuration.poison;
  if (shared_mapped_ < capacity + page) {
    if (shared_) munmap(shared_, shared_mapped_);
    shared_mapped_ = capacity + page;
    void* mapped = mmap(nullptr, shared_mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    shared_ = shared_open_ = static_cast<std::byte*>(mapped);
    mprotect(shared_ + capacity, page, PROT_NONE);  // guard page after the last byte
    shared_bytes_ = 0;
  }
  std::byte* end = shared_ + (shared_mapped_ - page);
  dynamic_shared = end - (bytes + shared_alignment - 1) / shared_alignment * shared_alignment;
  if (bytes == 0) return;
  if (shared_bytes_ != bytes || shared_poison_ != poison) lay_out_shared();
  std::memset(dynamic_shared, poison_byte(poison), bytes);
}

/// Sets the position of the shared memory: it is preceded by a page of canary, and inaccessible pages before that.
void Block::lay_out_shared() {
  shared_bytes_ = grid_->shared_bytes;
  shared_poison_ = grid_->configuration.poison;
  std::byte* end = shared_ + (shared_mapped_ - page);
  std::byte* first_page = end - (address_of(end) - address_of(dynamic_shared) + page - 1) / page * page;
  std::byte* open = std::max(shared_, first_page - page);
  mprotect(shared_, static_cast<std::size_t>(end - shared_), PROT_READ | PROT_WRITE);
  if (open != shared_) mprotect(shared_, static_cast<std::size_t>(open - shared_), PROT_NONE);
  shared_open_ = open;
  fill_canary(shared_poison_, address_of(open), address_of(dynamic_shared));
  fill_canary(shared_poison_, address_of(dynamic_shared) + shared_bytes_, address_of(end));
}

/// Checks for writes just before and just after the block's dynamic shared memory.
void Block::check_shared() {
  const std::size_t bytes = grid_->shared_bytes;
  if (bytes == 0) return;
  const std::uintptr_t begin = address_of(dynamic_shared), end = address_of(shared_ + (shared_mapped_ - page));
  std::uintptr_t overwritten = first_overwritten(shared_poison_, address_of(shared_open_), begin);
  if (overwritten == begin) overwritten = first_overwritten(shared_poison_, begin + bytes, end);
  if (overwritten == end) return;
  shared_bytes_ = 0;
  stop(sentence("block {} wrote out of bounds, at byte {} of the {} bytes of dynamic shared memory", triple(index),
                static_cast<std::ptrdiff_t>(overwritten - begin), bytes),
       "correct the kernel's index, or LaunchShape::shared_bytes");
}

void Block::thread_main(void* argument) {
  Thread& self = *static_cast<Thread*>(argument);
  Block& block = *static_cast<Block*>(self.block);
  for (;;) {
    self.parked = false;
    self.state = State::running;
    this_thread = &self;
    sanitizer_acquire(&block.fork_token_);
#if EMULATOR_TSAN
    forget_fences(self);
#endif
    bool threw = false;
    try {
      block.grid_->invoke(block.grid_->closure);
    } catch (...) {
      threw = true;
    }
    if (threw) {
      block.stop(sentence("thread {} threw an exception", triple(self.index)), "kernels cannot throw");
      block.abandon(self);
    }
    sanitizer_release(&block.join_token_);
    block.finish(self);
  }
}

void Block::finish(Thread& self) {
  self.state = State::finished;
  --live_;
  ++progress_;
  Warp& own = warps_[self.warp];
  own.returned |= LaneMask{1} << self.lane;
  for (unsigned i = 0; i < own.open; ++i) {
    const Rendezvous& meeting = own.rendezvous[i];
    if (meeting.mask >> self.lane & 1) {
      stop(sentence("block {}: lane {} of warp {} has returned, but the lanes of mask {:#x} wait for it at {}",
                    triple(index), self.lane, self.warp, meeting.mask, place(meeting.file, meeting.line)),
           "name only lanes that take part in the mask");
      abandon(self);
    }
  }
  if (live_ != 0 && arrived_ == live_) release_barrier();
  self.parked = true;
  next_turn();
  Thread* next = take_ready();
  Fiber::change(self.fiber, next ? next->fiber : worker_);
}

// --- switching threads -----------------------------------------------------------------------------

std::uint64_t Block::random() {
  random_ += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// --- __syncthreads ---------------------------------------------------------------------------------

inline int Block::wait_at_barrier(Thread& self, const char* operation, bool predicate, const char* file, int line) {
  void* token = &barrier_token_[barrier_parity_];
  sanitizer_release(token);
  if (arrived_ == 0) {
    first_arrived_ = &self;
  } else if (!same_place(*first_arrived_, file, line)) {
    different_barriers(self, operation, file, line);
  }
  self.state = State::barrier;
  self.operation = operation;
  self.file = file;
  self.line = line;
  predicate_count_ += predicate;
  if (++arrived_ == live_) {
    end_if_failed(self);
    release_barrier();
  }
  suspend(self);
  sanitizer_acquire(token);
  return self.barrier_result;
}

void Block::different_barriers(Thread& self, const char* operation, const char* file, int line) {
  stop(sentence("block {}: threads wait at different barriers: {}, {}", triple(index),
                here(self, operation, file, line), describe(*first_arrived_)),
       "let all threads of the block reach the same barrier");
  abandon(self);
}

void Block::release_barrier() {
  ++progress_;
  const int result = predicate_count_;
  arrived_ = 0;
  predicate_count_ = 0;
  barrier_parity_ ^= 1;
  make_ready_if(
      [result](Thread& thread) {
        if (thread.state != State::barrier) return false;
        thread.barrier_result = result;
        return true;
      },
      0, size_);
}

// --- waits -----------------------------------------------------------------------------------------

void Block::wait_at_grid(Thread& self, const char* file, int line) {
  if (!grid_->cooperative) {
    stop(sentence("grid_sync at {} in a launch that is not cooperative", place(file, line)),
         "set LaunchShape::cooperative");
    abandon(self);
  }
  void* token = &grid_token_[grid_parity_];
  sanitizer_release(token);
  self.state = State::grid;
  self.operation = "grid_sync";
  self.file = file;
  self.line = line;
  suspend(self);
  sanitizer_acquire(token);
}

void Block::spin(Thread& self, const char* file, int line) {
  self.state = State::spinning;
  self.operation = "spin_wait";
  self.file = file;
  self.line = line;
  suspend(self);
}

bool Block::lockstep_turn(Thread& self, bool passed, const char* file, int line) {
  self.state = State::lockstep;
  self.operation = passed ? "spin_until (done, waiting for the other lanes of its warp in lockstep)" : "spin_until";
  self.file = file;
  self.line = line;
  self.passed = passed;
  self.released = false;
  suspend(self);
  return self.released;
}

bool Block::idle() {
  if (grid_->failed()) {
    faulted_ = true;
    return false;
  }
  if (release_grid() || faulted_) return !faulted_;
  bool going_on = release_lockstep();
  going_on = poll_spinners() || going_on;
  if (!going_on && !faulted_) report_deadlock();
  return !faulted_;
}

bool Block::release_grid() {
  const Thread* first = nullptr;
  unsigned waiting = 0;
  for (unsigned i = 0; i < size_; ++i) {
    if (threads_[i]->state != State::grid) continue;
    if (!first) first = threads_[i].get();
    ++waiting;
    if (!same_place(*first, threads_[i]->file, threads_[i]->line)) {
      stop(sentence("block {}: threads wait at different grid barriers: {}, {}", triple(index), describe(*first),
                    describe(*threads_[i])),
           "let all threads of the grid reach the same grid_sync");
      return false;
    }
  }
  if (waiting == 0 || waiting != live_) return false;
  if (live_ != size_) {
    stop(sentence("block {}: {}, but {} of its {} threads have returned", triple(index), describe(*first),
                  size_ - live_, size_),
         "let every thread of the grid reach every grid_sync");
    return false;
  }
  // For TSan: releases of this block's threads must be visible to the other blocks.
  void* token = &grid_token_[grid_parity_];
  void* token_of_grid = &grid_->barrier_token[grid_parity_];
  grid_parity_ ^= 1;
  sanitizer_acquire(token);
  sanitizer_release(token_of_grid);
  worker_.leave_thread();
  const bool all_there = grid_->wait_at_barrier(index, first->file, first->line);
  worker_.enter_thread();
  sanitizer_acquire(token_of_grid);
  if (!all_there) {
    faulted_ = true;
    return false;
  }
  sanitizer_release(token);
  ++progress_;
  make_ready_if([](Thread& thread) { return thread.state == State::grid; }, 0, size_);
  return true;
}

bool Block::release_lockstep() {
  if (!grid_->configuration.lockstep) return false;
  bool released = false;
  for (unsigned w = 0; w < warp_count_; ++w) {
    const unsigned begin = w * warp_size, end = std::min(size_, begin + warp_size);
    for (unsigned i = begin; i < end; ++i) {
      Thread& leader = *threads_[i];
      if (leader.state != State::lockstep || leader.released) continue;
      bool all_passed = true;
      const auto with_leader = [&](const Thread& thread) {
        return thread.state == State::lockstep && !thread.released && same_place(thread, leader.file, leader.line);
      };
      for (unsigned j = begin; j < end; ++j)
        all_passed = all_passed && (!with_leader(*threads_[j]) || threads_[j]->passed);
      if (!all_passed) continue;
      for (unsigned j = end; j-- > i;) {
        if (with_leader(*threads_[j])) threads_[j]->released = true;
      }
      released = true;
    }
  }
  if (!released) return false;
  ++progress_;
  make_ready_if([](Thread& thread) { return thread.state == State::lockstep && thread.released; }, 0, size_);
  return true;
}

bool Block::poll_spinners() {
  bool spinning = false, landed = false;
  const Thread* example = nullptr;
  make_ready_if(
      [&](Thread& thread) {
        if (thread.state == State::bulk) {
          const std::uint64_t record = (thread.bulk_barrier & 0xffff);
          if (!bulk_done(bulk_[record], thread.bulk_parity)) return false;
          landed = true;
          return true;
        }
        if (thread.state == State::lockstep) {
          spinning = true;
          if (!example || example->passed) example = &thread;
          return !thread.passed;
        }
        if (thread.state != State::spinning) return false;
        spinning = true;
        if (!example) example = &thread;
        return true;
      },
      0, size_);
  if (landed) {
    ++progress_;
    return true;
  }
  if (!spinning) return false;
  if (progress_ != spin_progress_ || spin_rounds_ == 0) {
    spin_progress_ = progress_;
    spin_rounds_ = 0;
    spin_begin_ = seconds();
  }
  ++spin_rounds_;
  if (seconds() - spin_begin_ > grid_->configuration.timeout) {
    stop(sentence("block {}: all threads have been spinning for {} s: {}", triple(index), grid_->configuration.timeout,
                  describe(*example)),
         grid_->configuration.lockstep
             ? "in lockstep a lane with a lock waits for the lanes that want it: let one lane per warp take the lock"
             : sentence("set the value that it waits for, or raise timeout= in {}", introduction().variable),
         ErrorKind::timeout);
    return false;
  }
  // The thread that is waited for may need the core, or may not have started yet.
  if (spin_rounds_ % 64 == 0) {
    worker_.leave_thread();
    grid_->start_another_block();
    worker_.enter_thread();
  }
  if (spin_rounds_ < 256) {
    sched_yield();
  } else {
    const timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

// --- termination -----------------------------------------------------------------------------------

std::string Block::here(const Thread& thread, const char* operation, const char* file, int line) const {
  return sentence("thread {} at {} in {}", triple(thread.index), operation, place(file, line));
}

std::string Block::describe(const Thread& thread) const {
  return here(thread, thread.operation, thread.file, thread.line);
}

void Block::stop(const std::string& reason, std::string hint, ErrorKind kind) {
  grid_->fail(kind, reason, std::move(hint));
  faulted_ = true;
}

void Block::abandon(Thread& self) {
  self.parked = false;
  sanitizer_release(&join_token_);
  Fiber::change(self.fiber, worker_);
  std::abort();  // never reached: an abandoned thread is not resumed
}

void Block::stop_overdue(const Thread& self) {
  faulted_ = true;
  if (grid_->failed()) return;  // the launch was already stopped; this thread only kept it from ending
  stop(sentence("block {}, thread {}: it has used {} s of CPU time without waiting or ending", triple(index),
                triple(self.index), grid_->configuration.timeout),
       sentence("call spin_wait() in the body of a loop that waits, or raise timeout= in {}", introduction().variable),
       ErrorKind::timeout);
}

void Block::report_deadlock() {
  // Describe one thread for each distinct wait.
  std::string waits;
  std::vector<const Thread*> described;
  for (unsigned i = 0; i < size_; ++i) {
    const Thread& thread = *threads_[i];
    if (thread.state == State::finished) continue;
    bool known = false;
    for (const Thread* other : described) {
      known = known || (other->state == thread.state && same_place(*other, thread.file, thread.line) &&
                        (thread.state != State::warp || other->mask == thread.mask));
    }
    if (known || described.size() == 4) continue;
    described.push_back(&thread);
    waits += (waits.empty() ? "" : ", ") + describe(thread);
    if (thread.state == State::warp) waits += sentence(" with mask {:#x}", thread.mask);
    if (thread.state == State::bulk) {
      const BulkRecord& record = bulk_[thread.bulk_barrier & 0xffff];
      waits += sentence(" for parity {} ({} of {} expected bytes issued, {} arrivals missing)", thread.bulk_parity,
                        record.issued, record.expected, record.pending_arrivals);
    }
  }
  stop(sentence("block {}: deadlock, its threads wait for each other: {}{}", triple(index), waits,
                live_ == size_ ? "" : sentence("; {} of {} threads have returned", size_ - live_, size_)),
       "let all threads that are waited for reach the same call");
}

std::string Block::explain(const Thread& self, std::uintptr_t address) const {
  if (address < self.fiber.stack_bottom() && address + page >= self.fiber.stack_bottom()) {
    return "the end of the thread's stack, which has overflowed";
  }
  if (address - reinterpret_cast<std::uintptr_t>(shared_) < shared_mapped_) {
    return sentence("byte {} of the {} bytes of dynamic shared memory",
                    static_cast<std::ptrdiff_t>(address - reinterpret_cast<std::uintptr_t>(dynamic_shared)),
                    grid_->shared_bytes);
  }
  return "not memory of the device";
}

// --- functions called by kernels -------------------------------------------------------------------

namespace detail {

int barrier(const char* operation, bool predicate, const char* file, int line) {
  return current_block().wait_at_barrier(current(), operation, predicate, file, line);
}
void grid_barrier(const char* file, int line) {
  current_block().wait_at_grid(current(), file, line);
}
void spin_yield(const char* file, int line) {
  current_block().spin(current(), file, line);
}
bool lockstep_turn(bool passed, const char* file, int line) {
  return current_block().lockstep_turn(current(), passed, file, line);
}
bool lockstep() noexcept {
  return current_block().launch().configuration.lockstep;
}
void trap(const char* file, int line) {
  Thread& self = current();
  current_block().stop(sentence("thread {} called __trap at {}", triple(self.index), place(file, line)), "");
  current_block().abandon(self);
}

}  // namespace detail

bool has_async_copy() noexcept {
  return current_block().launch().configuration.async_copy;
}
bool has_bulk_copy() noexcept {
  return current_block().launch().configuration.bulk_copy;
}
long long ticks() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}
double seconds() noexcept {
  return static_cast<double>(ticks()) * 1e-9;
}

}  // namespace emulator
