#include "memory/crew.hpp"

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

Crew::Crew(unsigned count, int numa_node)
    : count_(threads_on(count, numa_node)),
      start_(static_cast<std::ptrdiff_t>(count_)),
      end_(static_cast<std::ptrdiff_t>(count_)) {
  const auto work = [this, numa_node](unsigned i) {
    const ScopedThreadNode on_node(numa_node);
    for (;;) {
      start_.arrive_and_wait();
      if (body_ == nullptr) return;
      (*body_)(i);
      end_.arrive_and_wait();
    }
  };
  try {
    for (unsigned i = 1; i < count_; ++i) threads_.emplace_back(work, i);
  } catch (...) {  // the system has no more threads: those that are there must not wait for the rest
    for (std::size_t missing = count_ - 1 - threads_.size(); missing > 0; --missing) start_.arrive_and_drop();
    start_.arrive_and_wait();
    throw;
  }
}

Crew::~Crew() {
  body_ = nullptr;
  start_.arrive_and_wait();
}

void Crew::run(const std::function<void(unsigned)>& body) {
  body_ = &body;
  start_.arrive_and_wait();
  body(0);
  end_.arrive_and_wait();
}

}  // namespace isthmus::memory
