#include "harness/measure/inputs/verifier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "harness/measure/inputs/inputs.hpp"
#include "memory/parallel.hpp"

namespace isthmus::harness {

namespace {

constexpr std::size_t kAfterEachSample = 1024;
constexpr std::size_t kEveryElement = std::size_t{1} << 20;
constexpr std::size_t kLargeSample = std::size_t{1} << 16;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Returns the index of the first of `count` words that is all ones, or count. The loop is written so that the compiler
/// vectorises it.
template <class Word>
std::size_t first_poison(const std::byte* begin, std::size_t count) {
  constexpr std::size_t kBlock = 1024;
  const auto* words = reinterpret_cast<const Word*>(begin);
  for (std::size_t i = 0; i < count; i += kBlock) {
    const std::size_t end = std::min(i + kBlock, count);
    unsigned found = 0;
    for (std::size_t k = i; k < end; ++k) found |= words[k] == static_cast<Word>(~Word{0}) ? 1u : 0u;
    if (found == 0) continue;
    for (std::size_t k = i; k < end; ++k) {
      if (words[k] == static_cast<Word>(~Word{0})) return k;
    }
  }
  return count;
}

/// Returns the index of the first byte that is not poison, or `bytes`.
std::size_t first_other(const std::byte* begin, std::size_t bytes) {
  return static_cast<std::size_t>(std::find_if(begin, begin + bytes, [](std::byte b) { return b != std::byte{0xff}; }) -
                                  begin);
}

std::size_t first_poison(const std::byte* begin, std::size_t count, std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return first_poison<std::uint8_t>(begin, count);
    case 2:
      return first_poison<std::uint16_t>(begin, count);
    case 4:
      return first_poison<std::uint32_t>(begin, count);
    case 8:
      return first_poison<std::uint64_t>(begin, count);
    default:  // a struct is poison if all of its bytes are
      for (std::size_t i = 0; i < count; ++i) {
        if (first_other(begin + i * element_bytes, element_bytes) == element_bytes) return i;
      }
      return count;
  }
}

/// Lowers `smallest` to `value` if `value` is smaller. Several threads may call it at once.
void keep_smallest(std::atomic<std::size_t>& smallest, std::size_t value) {
  for (std::size_t seen = smallest; value < seen && !smallest.compare_exchange_weak(seen, value);) {
  }
}

/// Returns the index of the first element that was not written after the buffer was poisoned, or kNone if all were.
/// All-one bits are a NaN as a float, but may be the correct value of an integer, so an integer counts as unwritten
/// only if it differs from the expected value.
std::size_t find_poison(const std::byte* host, const ElementCheck& check) {
  std::atomic<std::size_t> first{kNone};
  const auto scan_row = [&](const std::byte* row, std::size_t index, std::size_t count) {
    for (std::size_t done = 0; done < count; ++done) {
      const std::byte* begin = row + done * check.element_bytes;
      done += first_poison(begin, count - done, check.element_bytes);
      if (done == count) return;
      const auto [actual, expected] = check.compare(index + done, row + done * check.element_bytes);
      if (check.floating || actual != expected) return keep_smallest(first, index + done);
    }
  };
  if (check.columns == check.pitch) {
    memory::parallel_for(check.elements, std::size_t{1} << 20, [&](std::size_t begin, std::size_t end) {
      scan_row(host + begin * check.element_bytes, begin, end - begin);
    });
    return first;
  }
  const std::size_t rows = check.elements / check.columns;
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 20) / check.pitch);
  memory::parallel_for(rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      scan_row(host + row * check.pitch * check.element_bytes, row * check.columns, check.columns);
  });
  return first;
}

std::string element_name(const ElementCheck& check, std::size_t index) {
  if (check.columns == check.pitch) return fmt::format("{}[{}]", check.buffer_name, index);
  return fmt::format("{}[{}][{}]", check.buffer_name, index / check.columns, index % check.columns);
}

}  // namespace

std::uint64_t checksum(const std::byte* begin, std::size_t row_bytes, std::size_t pitch_bytes, std::size_t rows) {
  // Pieces are summed by several threads, and their sums are combined in order.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const std::size_t pieces_of_row = (row_bytes + kPiece - 1) / kPiece;
  std::vector<std::uint64_t> sums(rows * pieces_of_row);
  const auto grain = std::max<std::size_t>(1, kPiece / row_bytes);
  memory::parallel_for(sums.size(), grain, [&](std::size_t first, std::size_t last) {
    for (std::size_t piece = first; piece < last; ++piece) {
      const std::size_t from = piece % pieces_of_row * kPiece, bytes = std::min(kPiece, row_bytes - from);
      const std::byte* data = begin + piece / pieces_of_row * pitch_bytes + from;
      std::uint64_t sum = bytes;
      for (std::size_t i = 0; i < bytes; i += sizeof sum) {
        std::uint64_t word = 0;
        std::memcpy(&word, data + i, std::min(sizeof word, bytes - i));
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
        sum ^= sum >> 29;
      }
      sums[piece] = sum;
    }
  });
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) all = hash(all, sums[i], i);
  return all;
}

double relative_to_bound(double actual, double expected, const Tolerance& tolerance) {
  if (actual == expected) return 0;
  const double bound = std::max(tolerance.absolute, tolerance.relative * std::abs(expected));
  const double error = std::abs(actual - expected) / bound;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

std::vector<std::size_t> elements_to_check(std::size_t elements, std::size_t columns, std::size_t limit) {
  std::vector<std::size_t> chosen;
  if (elements <= limit) {
    chosen.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) chosen[i] = i;
    return chosen;
  }
  const auto add = [&](std::size_t index) {
    if (index < elements) chosen.push_back(index);
  };
  constexpr std::size_t kTiles[] = {32, 256, 1024, 4096};
  for (std::size_t i = 0; i < limit; ++i) {
    const auto edge = [&](std::size_t k) {
      return static_cast<std::size_t>(static_cast<unsigned __int128>(elements) * k / limit);
    };
    const std::size_t begin = edge(i), width = edge(i + 1) - begin;
    const std::size_t index = begin + hash(0, i, elements) % width;
    add(index);
    if (i % 16 != 0) continue;  // edges of tiles and rows are added only for every sixteenth element
    const std::size_t tile = kTiles[i / 16 % std::size(kTiles)];
    const std::size_t tile_begin = index / tile * tile;
    add(tile_begin);
    if (tile_begin > 0) add(tile_begin - 1);
    const std::size_t row_begin = index / columns * columns;
    add(row_begin);
    add(row_begin + columns - 1);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    add(i);
    add(elements - 1 - i);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

void Verifier::note(const std::string& method, double error, double tolerance, std::string detail) {
  const double ratio =
      error <= tolerance ? (tolerance > 0 ? error / tolerance : 0) : std::numeric_limits<double>::infinity();
  const bool passes = error <= tolerance;  // false for a NaN
  if (outcome_.verdict == Verdict::fail) return;
  if (outcome_.method.find(method) == std::string::npos) {
    if (!outcome_.method.empty()) outcome_.method += ", ";
    outcome_.method += method;
  }
  outcome_.verdict = passes ? Verdict::pass : Verdict::fail;
  if (!passes) outcome_.detail = std::move(detail);
  if (!passes || ratio > worst_) {
    worst_ = ratio;
    outcome_.error = std::isfinite(error) ? std::optional(error) : std::nullopt;
    outcome_.tolerance = tolerance;
  }
}

void Verifier::check(const memory::BufferSet& buffers, const ElementCheck& check, std::size_t limit, bool counts) {
  if (failed()) return;
  const std::byte* host = buffers.host(check.buffer);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (const auto index = find_poison(host, check); index != kNone) {
    note(check.method, kInfinity, 1, element_name(check, index) + " was never written");
    return;
  }
  const auto chosen = elements_to_check(check.elements, check.columns, limit);
  std::mutex mutex;
  double worst = 0;
  std::size_t first_wrong = kNone;
  memory::parallel_for(chosen.size(), 256, [&](std::size_t begin, std::size_t end) {
    double part_worst = 0;
    std::size_t part_wrong = kNone;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t index = chosen[i];
      const std::size_t offset = index / check.columns * check.pitch + index % check.columns;
      const auto [actual, expected] = check.compare(index, host + offset * check.element_bytes);
      const double error = relative_to_bound(actual, expected, check.tolerance);
      part_worst = std::max(part_worst, error);
      if (error > 1 && part_wrong == kNone) part_wrong = index;
    }
    const std::scoped_lock lock(mutex);
    worst = std::max(worst, part_worst);
    first_wrong = std::min(first_wrong, part_wrong);
  });
  std::string detail;
  if (first_wrong != kNone) {
    const std::size_t offset = first_wrong / check.columns * check.pitch + first_wrong % check.columns;
    const auto [actual, expected] = check.compare(first_wrong, host + offset * check.element_bytes);
    const int digits = fmt::format("{:.9g}", actual) == fmt::format("{:.9g}", expected) ? 17 : 9;
    detail = fmt::format("{} is {:.{}g}, expected {:.{}g}", element_name(check, first_wrong), actual, digits, expected,
                         digits);
  }
  note(check.method, worst, 1, std::move(detail));
  if (counts) outcome_.checked += chosen.size();
}

void Verifier::check_sample(const memory::BufferSet& buffers) {
  for (const auto& entry : elements_) check(buffers, entry, kAfterEachSample, false);
}

void Verifier::check_fully(const memory::BufferSet& buffers) {
  outcome_.checked = 0;
  for (const auto& entry : elements_) check_fully(buffers, entry);
}

void Verifier::check_fully(const memory::BufferSet& buffers, const ElementCheck& entry) {
  check(buffers, entry, entry.everything || entry.elements <= kEveryElement ? entry.elements : kLargeSample, true);
}

void Verifier::check_same(const memory::BufferSet& buffers, const std::string& inputs, const std::string& label) {
  for (const auto& entry : same_) check_same(buffers, entry, inputs, label);
}

void Verifier::check_same(const memory::BufferSet& buffers, const SameCheck& entry, const std::string& inputs,
                          const std::string& label) {
  if (failed()) return;
  const auto own = checksum(buffers.host(entry.buffer), entry.columns * entry.element_bytes,
                            entry.pitch * entry.element_bytes, entry.rows);
  outcome_.inputs = inputs;
  outcome_.checksums[entry.buffer_name] = own;
  const auto known = known_result(inputs, entry.buffer_name, {own, label});
  if (known.checksum != own)
    note("same bytes everywhere", std::numeric_limits<double>::infinity(), 0,
         fmt::format("{} differs from the result of {} with the same inputs", entry.buffer_name, known.of));
}

void Verifier::check_own(const OwnCheck& entry) {
  if (failed()) return;
  const double error = entry.error();
  ++outcome_.checked;
  note(entry.method, error, entry.tolerance,
       fmt::format("{}: the error is {:.6g}, but at most {:.6g} is allowed", entry.method, error, entry.tolerance));
}

void Verifier::check_own() {
  for (const auto& entry : own_) check_own(entry);
}

}  // namespace isthmus::harness
