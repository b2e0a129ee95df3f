#include "trace/uvm/trace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace isthmus::trace::uvm {

namespace {

constexpr char kMagic[16] = "isthmus.uvm/1\n";
constexpr std::uint32_t kChunk = 0x434d5655, kEnd = 0x454d5655;  // "UVMC", "UVME"
constexpr std::size_t kMostOfChunk = std::size_t{1} << 18;       // entries (16 MiB); a chunk with more is corrupt
constexpr std::size_t kMostFacts = std::size_t{1} << 20;         // bytes; a head with more facts is corrupt

struct Head {
  char magic[16];
  std::uint32_t bytes, sum;
};
struct ChunkHead {
  std::uint32_t mark, entries, packed, sum;
  std::uint64_t dropped, foreign_replays;
};
static_assert(sizeof(Head) == 24 && sizeof(ChunkHead) == 32);

std::uint32_t checksum(const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), bytes));
}

std::string lines_of(const TraceFacts& facts) {
  std::string text;
  for (auto [name, value] : facts) {
    std::replace(value.begin(), value.end(), '\n', ' ');
    text += name + '=' + value + '\n';
  }
  return text.substr(0, kMostFacts);
}

TraceFacts facts_in(std::string_view text) {
  TraceFacts facts;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const auto sign = line.find('='); sign != std::string_view::npos)
      facts[std::string(line.substr(0, sign))] = line.substr(sign + 1);
  }
  return facts;
}

/// Reader of a file that may be truncated or corrupt at any position.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  template <class T>
  bool next(T& value) {
    if (rest_.size() < sizeof value) return false;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool next(std::size_t bytes, std::string_view& piece) {
    if (rest_.size() < bytes) return false;
    piece = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return true;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace

TraceWriter::TraceWriter(const std::string& path, const TraceFacts& facts)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (file_ < 0)
    throw std::runtime_error(
        fmt::format("{} cannot be written ({}); choose another folder", path_, std::strerror(errno)));
  const auto text = lines_of(facts);
  Head head{{}, static_cast<std::uint32_t>(text.size()), checksum(text.data(), text.size())};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  write(&head, sizeof head);
  write(text.data(), text.size());
}

TraceWriter::~TraceWriter() {
  close(file_);
}

void TraceWriter::write(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto written = ::write(file_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw std::runtime_error(
          fmt::format("{} cannot be written ({}); its contents are valid, but the rest of the run is lost", path_,
                      std::strerror(errno)));
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void TraceWriter::append(std::span<const Entry> entries, std::uint64_t dropped, std::uint64_t foreign_replays) {
  if (entries.empty() && dropped == 0 && foreign_replays == 0) return;
  do {
    const auto piece = entries.first(std::min(entries.size(), kMostOfChunk));
    entries = entries.subspan(piece.size());
    uLongf packed = compressBound(piece.size_bytes());
    std::vector<Bytef> bytes(sizeof(ChunkHead) + packed);
    if (compress2(bytes.data() + sizeof(ChunkHead), &packed, reinterpret_cast<const Bytef*>(piece.data()),
                  piece.size_bytes(), Z_BEST_SPEED) != Z_OK)
      throw std::runtime_error("zlib has no memory to compress events; run with more memory");
    const ChunkHead head{kChunk,
                         static_cast<std::uint32_t>(piece.size()),
                         static_cast<std::uint32_t>(packed),
                         checksum(bytes.data() + sizeof(ChunkHead), packed),
                         dropped,
                         foreign_replays};
    std::memcpy(bytes.data(), &head, sizeof head);
    write(bytes.data(), sizeof head + packed);
    dropped = foreign_replays = 0;
  } while (!entries.empty());
}

void TraceWriter::end() {
  const ChunkHead head{.mark = kEnd, .entries = 0, .packed = 0, .sum = 0, .dropped = 0, .foreign_replays = 0};
  write(&head, sizeof head);
}

Trace read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("{} cannot be read ({}); name a trace", path, std::strerror(errno)));
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  Reader reader(whole);
  Head head{};
  std::string_view text;
  if (!reader.next(head) || std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.bytes > kMostFacts ||
      !reader.next(head.bytes, text) || checksum(text.data(), text.size()) != head.sum)
    throw std::runtime_error(
        fmt::format("{} is not a trace of page faults, or its head is cut short; record it again", path));
  Trace trace;
  trace.facts = facts_in(text);
  const auto ends = [&](std::string why) {
    trace.problem = fmt::format("{} {}; {} events before that are complete", path, why, trace.events.size());
    return trace;
  };
  for (;;) {
    if (reader.empty()) return ends("has no end, since its process was killed or still runs");
    ChunkHead chunk{};
    std::string_view packed;
    if (!reader.next(chunk)) return ends("is cut short");
    if (chunk.mark == kEnd) return reader.empty() ? trace : ends("continues past its end");
    if (chunk.mark != kChunk || chunk.entries > kMostOfChunk) return ends("is corrupt");
    if (!reader.next(chunk.packed, packed)) return ends("is cut short");
    if (checksum(packed.data(), packed.size()) != chunk.sum) return ends("is corrupt");
    std::vector<Entry> entries(chunk.entries);
    uLongf bytes = entries.size() * kEntryBytes;
    Bytef none = 0;
    if (uncompress(entries.empty() ? &none : reinterpret_cast<Bytef*>(entries.data()), &bytes,
                   reinterpret_cast<const Bytef*>(packed.data()), packed.size()) != Z_OK ||
        bytes != entries.size() * kEntryBytes)
      return ends("is corrupt");
    for (const auto& entry : entries) trace.events.push_back(decode(entry));
    trace.dropped += chunk.dropped;
    trace.foreign_replays += chunk.foreign_replays;
  }
}

}  // namespace isthmus::trace::uvm
