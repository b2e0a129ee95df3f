#pragma once

// Random programs that use three paged arrays, and the results that they would have with plain arrays.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "paging/array.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

using Word = unsigned long long;

constexpr Word mixed(Word seed, Word a, Word b) {
  Word z = seed * 0x9e3779b97f4a7c15ULL + a * 0xd1b54a32d192ed03ULL + b + 0x632be59bd9b4e019ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

struct Program {
  Word seed = 1;
  unsigned steps = 40;
  unsigned threads = 0;  ///< number of threads in the grid
  unsigned warp = 32;
  Word elements = 0;   ///< number of elements in each array
  unsigned lanes = 0;  ///< 1 if some steps are taken by single lanes instead of whole warps, otherwise 0
  unsigned threads_of_block = 0;
};

enum class Step : unsigned { read, window, own, add, sweep, alone, kinds };

/// Returns the kind of a warp's step. Host and device compute the same.
constexpr Step step_of(const Program& p, Word warp, unsigned step) {
  const unsigned kinds = p.lanes != 0 ? 6 : 5;
  return static_cast<Step>(mixed(p.seed, warp, step) % kinds);
}
/// Returns the element that a thread uses. The elements of a warp are adjacent in some steps and scattered in others.
constexpr Word element_of(const Program& p, Word thread, unsigned step) {
  const Word warp = thread / p.warp, start = mixed(p.seed + 1, warp, step);
  return (start & 64) != 0 ? (start / 128 + thread % p.warp) % p.elements
                           : mixed(p.seed + 2, thread, step) % p.elements;
}
/// Returns one of the elements that only this thread uses.
constexpr Word own_element_of(const Program& p, Word thread, unsigned step) {
  const Word rows = p.elements / p.threads;
  return mixed(p.seed + 3, thread / p.warp, step) % rows * p.threads + thread;
}
constexpr Word constant_of(const Program& p, Word i) {
  return mixed(p.seed + 4, i, 0);
}
constexpr Word value_of(const Program& p, Word thread, unsigned step) {
  return mixed(p.seed + 5, thread, step);
}

template <class Protocol>
// A block has at most nine warps of 64 lanes.
__global__ void __launch_bounds__(576) random_program(Array<Word, Protocol> constant, Array<Word, Protocol> own,
                                                      Array<Word, Protocol> sums, Program p, unsigned* wrong) {
  const Lanes lanes = Lanes::warp();
  // A block's last warp may have fewer lanes, so a warp's number is computed from the number of a thread.
  const Word thread = Word{blockIdx.x} * blockDim.x + threadIdx.x;
  const Word warp = thread / p.warp;
  unsigned bad = 0;
  auto reader = constant.reader(lanes);
  for (unsigned step = 0; step < p.steps; ++step) {
    const Word i = element_of(p, thread, step), mine = own_element_of(p, thread, step);
    const Word value = value_of(p, thread, step);
    switch (step_of(p, warp, step)) {
      case Step::read:
        bad += reader.read(i) != constant_of(p, i);
        reader.release();
        break;
      case Step::window: {
        const Word start = mixed(p.seed, warp, step) / 64 % p.elements;
        const auto window = constant.window(start, lanes);
        for (Word j = window.first() + lanes.rank; j < window.last(); j += 8 * lanes.size) {
          bad += window[j] != constant_of(p, j);
          if (j % 16 == 0) device::spin_wait();
        }
        break;
      }
      case Step::own:
        own.store(mine, value, lanes);
        bad += own.read(mine, lanes) != value;
        break;
      case Step::add:
        sums.update(i, [&](Word* sum) { atomicAdd(sum, value); }, lanes);
        break;
      case Step::sweep:
        for (Word j = 0; j < 4; ++j) {
          const Word at = (i + 97 * j) % p.elements;
          bad += reader.read(at) != constant_of(p, at);
        }
        reader.release();
        break;
      case Step::alone:
        if (device::lane() % 3 != 1) {
          own[mine] = value;
          if (device::lane() % 2 == 0) bad += own[mine] != value;
          bad += constant[i] != constant_of(p, i);
        }
        break;
      case Step::kinds:
        break;
    }
  }
  if (bad != 0) atomicAdd(wrong, bad);
}

struct Machine {
  Options options;
  Program program;
  unsigned blocks = 2;
  std::size_t bytes = 0;  ///< size of each array in bytes
};

/// Runs the program and compares its results with those of plain arrays. Returns the first error, or "" without errors.
template <class Protocol>
std::string outcome(const Machine& machine) {
  const Program& p = machine.program;
  if (p.elements == 0 || p.threads == 0) return "a program without elements or threads";
  memory::Block blocks[3] = {{memory::Kind::mapped, machine.bytes},
                             {memory::Kind::registered, machine.bytes},
                             {memory::Kind::mapped, machine.bytes}};
  const char* names[] = {"constant", "own", "sums"};
  std::vector<Word> expected[3];
  for (auto& one : expected) one.assign(p.elements, 0);
  for (Word i = 0; i < p.elements; ++i) {
    expected[0][i] = constant_of(p, i);
    expected[1][i] = mixed(p.seed + 6, i, 0);
  }
  for (int a = 0; a < 3; ++a) std::memcpy(blocks[a].data(), expected[a].data(), p.elements * sizeof(Word));
  for (Word thread = 0; thread < p.threads; ++thread) {
    for (unsigned step = 0; step < p.steps; ++step) {
      const Step kind = step_of(p, thread / p.warp, step);
      const Word lane = thread % p.warp;
      if (kind == Step::own || (kind == Step::alone && lane % 3 != 1))
        expected[1][own_element_of(p, thread, step)] = value_of(p, thread, step);
      if (kind == Step::add) expected[2][element_of(p, thread, step)] += value_of(p, thread, step);
    }
  }

  Pager pager(machine.options);
  device::Stream stream;
  memory::Block wrong(memory::Kind::device, sizeof(unsigned));
  device::fill_async(wrong.data(), 0, wrong.size(), stream);
  const Array<Word, Protocol> constant(pager.open(blocks[0], names[0])), own(pager.open(blocks[1], names[1])),
      sums(pager.open(blocks[2], names[2]));
  const Holds holds = p.lanes != 0 ? Holds{1, Holds::By::lane} : Holds{1, Holds::By::warp};
  try {
    pager.launch(stream, ISTHMUS_KERNEL(random_program<Protocol>),
                 {.grid = machine.blocks, .block = p.threads_of_block}, holds, constant, own, sums, p,
                 reinterpret_cast<unsigned*>(wrong.data()));
    pager.check(stream);
    if (const auto left = pager.references(stream)) return std::to_string(left) + " references are left";
    pager.flush(stream);
    pager.check(stream);
  } catch (const device::Error& error) {
    return error.what();
  }
  unsigned bad = 0;
  device::copy(&bad, wrong.data(), sizeof bad);
  if (bad != 0) return std::to_string(bad) + " elements were read that nobody wrote so";
  for (int a = 0; a < 3; ++a) {
    for (Word i = 0; i < p.elements; ++i) {
      Word found = 0;
      std::memcpy(&found, blocks[a].data() + i * sizeof(Word), sizeof found);
      if (found != expected[a][i])
        return std::string(names[a]) + "[" + std::to_string(i) + "] is " + std::to_string(found) + ", not " +
               std::to_string(expected[a][i]);
    }
  }
  return "";
}

}  // namespace isthmus::paging
