#include "harness/measure/passes/input_phase.hpp"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/measure/inputs/inputs.hpp"
#include "memory/pages.hpp"
#include "workload/clock.hpp"
#include "workload/scratch_file.hpp"

namespace isthmus::harness {

namespace {

std::size_t bytes_of(const DeclaredBuffer& buffer) {
  return buffer.elements() * buffer.element_bytes;
}

/// Generates a buffer's elements again, piece by piece and in several threads. Calls use(piece, index of its first
/// element, byte offset of the piece in the buffer's memory).
template <class Use>
void make_anew(const DeclaredBuffer& buffer, const Use& use) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  CaseState::for_stretches(buffer, [&](std::size_t offset, std::size_t first, std::size_t last) {
    std::vector<std::byte> made(std::min(kPiece, last - first) * buffer.element_bytes);
    for (std::size_t at = first; at < last; at += kPiece) {
      const std::size_t end = std::min(at + kPiece, last);
      buffer.fill(made.data(), at, end);
      use(std::span(made).first((end - at) * buffer.element_bytes), at, offset + (at - first) * buffer.element_bytes);
    }
  });
}

/// Returns the indices of the buffers that have a fill.
std::vector<std::size_t> filled(const CaseState& state) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < state.declared.buffers.size(); ++i) {
    if (state.declared.buffers[i].fill) list.push_back(i);
  }
  return list;
}

/// Returns the name of the scratch file. It includes the buffers' sizes, because cases with the same inputs may use
/// different amounts of them.
std::string scratch_name(const CaseState& state) {
  std::string name = "scratch file";
  for (const auto i : filled(state))
    name += fmt::format(" {}:{}", state.declared.buffers[i].spec.name, bytes_of(state.declared.buffers[i]));
  return name;
}

std::size_t scratch_bytes(const CaseState& state) {
  const auto list = filled(state);
  return std::accumulate(list.begin(), list.end(), std::size_t{0},
                         [&](std::size_t sum, std::size_t i) { return sum + bytes_of(state.declared.buffers[i]); });
}

}  // namespace

/// Scratch file with all elements of all buffers, one after the other.
struct InputPhase::Scratch {
  explicit Scratch(const CaseState& state) : file(workload::open_scratch_file()) {
    for (const auto i : filled(state)) {
      const auto& buffer = state.declared.buffers[i];
      if (buffer.whole)
        throw std::logic_error("buffer " + buffer.spec.name +
                               " is filled as a whole, so it cannot be written piece by piece");
      make_anew(buffer, [&](std::span<const std::byte> piece, std::size_t first, std::size_t) {
        workload::write_scratch_file(file, piece, bytes + first * buffer.element_bytes);
      });
      bytes += bytes_of(buffer);
    }
    workload::flush_scratch_file(file);
  }
  ~Scratch() { close(file); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int file;
  std::size_t bytes = 0;
};

bool InputPhase::is_in(const CaseState& state) {
  return state.declared.file_reader || writes_input(state.spec);
}

void InputPhase::check_room(const CaseState& state) {
  if (writes_input(state.spec) && !holds_shared_input(state.inputs_name(), scratch_name(state)))
    workload::require_scratch_room(scratch_bytes(state));
}

InputPhase::InputPhase(CaseState& state)
    : s_(state), buffers_(state.declared.file_reader ? state.declared.file_reader->buffers : filled(state)) {
  if (state.declared.file_reader) return;
  const ScopedPhase writing(s_, "written", Part::inputs);
  scratch_ = std::static_pointer_cast<const Scratch>(
      shared_input(state.inputs_name(), scratch_name(state),
                   [&]() -> std::shared_ptr<const void> { return std::make_shared<Scratch>(state); }));
}

bool InputPhase::reads(std::size_t buffer) const {
  return std::ranges::find(buffers_, buffer) != buffers_.end();
}

FileReading InputPhase::read() {
  const int file = scratch_ ? scratch_->file : s_.declared.file->descriptor();
  FileReading reading{.seconds = 0, .bytes = scratch_ ? scratch_->bytes : s_.declared.file->bytes(), .resident = {}};
  {
    const ScopedPhase inputs(s_, "", Part::inputs);
    for (const auto index : buffers_) {
      const auto& buffer = s_.declared.buffers[index];
      CaseState::for_stretches(buffer, [&](std::size_t offset, std::size_t, std::size_t) {
        CaseState::clear_padding(buffer, s_.set->host(index) + offset);
      });
    }
    memory::drop_cached_pages(file);
  }
  reading.resident = memory::cached_share(file, reading.bytes);
  {
    const ScopedPhase phase(s_, "file", Part::samples);
    const double begin = now();
    std::size_t offset = 0;
    for (const auto buffer : scratch_ ? buffers_ : std::vector<std::size_t>{}) {
      read_rows(buffer, offset);
      offset += bytes_of(s_.declared.buffers[buffer]);
    }
    if (!scratch_) read_by_user();
    reading.seconds = now() - begin;
  }
  const ScopedPhase verifying(s_, "", Part::verifying);
  s_.verifier.check_own({"the bytes read are the input", [this] { return count_wrong(); }, 0});
  return reading;
}

/// Reads with one thread, like the original programs. Many rows with padding between them are read by one call.
void InputPhase::read_rows(std::size_t index, std::size_t offset) const {
  const auto& buffer = s_.declared.buffers[index];
  const auto& shape = buffer.shape;
  std::byte* host = s_.set->host(index);
  const std::size_t all = bytes_of(buffer);
  const std::size_t row = shape.columns == shape.pitch ? all : shape.columns * buffer.element_bytes;
  const std::size_t pitch = shape.pitch * buffer.element_bytes;
  constexpr std::size_t kMostRows = 1024;  // IOV_MAX
  std::vector<iovec> rows;
  for (std::size_t done = 0; done < all;) {
    rows.clear();
    for (std::size_t at = done; at < all && rows.size() < kMostRows; at += rows.back().iov_len)
      rows.push_back({host + at / row * pitch + at % row, row - at % row});
    const auto got =
        preadv(scratch_->file, rows.data(), static_cast<int>(rows.size()), static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw std::runtime_error(
          fmt::format("the input written to {} cannot be read back ({}); set TMPDIR to another folder",
                      workload::scratch_folder(), got < 0 ? std::strerror(errno) : "it ends early"));
    done += static_cast<std::size_t>(got);
  }
}

void InputPhase::read_by_user() const {
  const auto next = s_.declared.file_reader->open();
  for (const auto index : buffers_) {
    const auto& buffer = s_.declared.buffers[index];
    const auto& [rows, columns, pitch] = buffer.shape;
    std::byte* host = s_.set->host(index);
    for (std::size_t row = 0; row < rows; ++row) next(host + row * pitch * buffer.element_bytes, columns);
  }
}

/// Counts wrong elements in all buffers that were read. Later passes fill some of these buffers again, so their errors
/// would otherwise go unnoticed.
double InputPhase::count_wrong() const {
  std::atomic<std::size_t> wrong = 0;
  for (const auto index : buffers_) {
    const auto& buffer = s_.declared.buffers[index];
    const std::byte* host = s_.set->host(index);
    make_anew(buffer, [&](std::span<const std::byte> piece, std::size_t, std::size_t offset) {
      if (std::memcmp(piece.data(), host + offset, piece.size()) == 0) return;
      for (std::size_t at = 0; at < piece.size(); at += buffer.element_bytes)
        wrong += std::memcmp(&piece[at], host + offset + at, buffer.element_bytes) != 0 ? 1 : 0;
    });
  }
  return static_cast<double>(wrong);
}

}  // namespace isthmus::harness
