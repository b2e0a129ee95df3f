#include "memory/thread_pool.hpp"

#include <utility>

#include "memory/numa_nodes.hpp"
#include "memory/parallel.hpp"

namespace isthmus::memory {

namespace {

unsigned threads_on(unsigned count, int numa_node) {
  if (count > 0) return count;
  const ScopedThreadNode on_node(numa_node);
  return host_threads();
}

}  // namespace

ThreadPool::ThreadPool(unsigned count, int numa_node)
    : count_(threads_on(count, numa_node)),
      start_(static_cast<std::ptrdiff_t>(count_)),
      end_(static_cast<std::ptrdiff_t>(count_)) {
  start(numa_node);
}

ThreadPool::ThreadPool(std::vector<int> processors)
    : count_(static_cast<unsigned>(processors.size())),
      processors_(std::move(processors)),
      start_(static_cast<std::ptrdiff_t>(count_)),
      end_(static_cast<std::ptrdiff_t>(count_)) {
  start(-1);
}

void ThreadPool::start(int numa_node) {
  const auto work = [this, numa_node](unsigned i) {
    const ScopedThreadNode on_node(numa_node);
    stand_on(i);
    for (;;) {
      start_.arrive_and_wait();
      if (body_ == nullptr) return;
      (*body_)(i);
      end_.arrive_and_wait();
    }
  };
  try {
    for (unsigned i = 1; i < count_; ++i) threads_.emplace_back(work, i);
  } catch (...) {  // no more threads can be started: the existing ones must not wait for the rest
    for (std::size_t missing = count_ - 1 - threads_.size(); missing > 0; --missing) start_.arrive_and_drop();
    start_.arrive_and_wait();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  body_ = nullptr;
  start_.arrive_and_wait();
}

void ThreadPool::stand_on(unsigned index) {
  if (processors_.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(processors_[index]), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) strayed_ = true;
}

void ThreadPool::run(const std::function<void(unsigned)>& body) {
  body_ = &body;
  // Outside run(), the caller and the threads it starts may run on any processor, as before.
  cpu_set_t before;
  const bool stays = !processors_.empty() && sched_getaffinity(0, sizeof before, &before) == 0;
  if (stays) stand_on(0);
  start_.arrive_and_wait();
  body(0);
  end_.arrive_and_wait();
  if (stays) sched_setaffinity(0, sizeof before, &before);
}

void ThreadPool::meet() noexcept {
  constexpr unsigned kPatience = 1u << 14;  // number of spins, about 100 us; after that, yield in case other threads
                                            // need the processor
  const unsigned meeting = meetings_.load(std::memory_order_acquire);
  if (here_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    here_.store(0, std::memory_order_relaxed);
    meetings_.store(meeting + 1, std::memory_order_release);
    return;
  }
  for (unsigned turn = 0; meetings_.load(std::memory_order_acquire) == meeting; ++turn) {
    if (turn > kPatience) std::this_thread::yield();
  }
}

}  // namespace isthmus::memory
