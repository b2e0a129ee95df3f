// mpi/<memory>-<memory>/send[-duplex]: messages between two ranks with their buffers in the same kind of memory. With
// more ranks, pairs send at the same time: i and i + size/2, which are on different nodes if ranks fill node by node.

#include <algorithm>
#include <utility>

#include "memory/pages.hpp"
#include "memory/parallel.hpp"
#include "microbench/axes.hpp"
#include "microbench/transfer/block.hpp"
#include "microbench/transfer/mpi/readings.hpp"
#include "microbench/transfer/shared_pages.hpp"

namespace isthmus::microbench::transfer {

namespace {

using namespace workload;

/// Memory of this rank for outgoing or incoming messages.
class Buffer {
 public:
  Buffer(Kind kind, std::size_t bytes, memory::BlockOptions host) : bytes_(bytes) {
    if (kind == Kind::managed) {
      const std::size_t page = memory::page_bytes();
      pages_.emplace(End{kind}, own_gpu(), (bytes + page - 1) / page * page, host);
    } else {
      block_.emplace(kind == Kind::device ? own_gpu() : End{kind}, bytes, host);
    }
  }
  std::byte* data() const { return pages_ ? pages_->data() : block_->data(); }
  void fill(const Pattern& pattern) { write_pattern(data(), bytes_, pattern, on_host()); }
  void poison() {
    if (block_) return block_->poison();
    memory::fill_host(data(), bytes_, std::byte{0xff});
  }
  /// Returns the number of wrong bytes among the first `bytes`.
  std::size_t wrong(const Pattern& pattern, std::size_t bytes) const {
    return count_wrong(data(), bytes, pattern, {}, on_host());
  }
  std::vector<std::string> disagreements() const {
    return pages_ ? pages_->disagreements() : block_->disagreements("a message's buffer");
  }
  /// Moves managed pages to the memory in which they must be when a sample begins.
  void settle(bool on_gpu) {
    if (!pages_) return;
    device::Stream stream;
    pages_->send_to(on_gpu ? own_gpu() : End{Kind::managed}, stream);
  }

 private:
  static End own_gpu() { return gpu(device::selected()); }
  bool on_host() const { return pages_ || !block_->end().on_gpu(); }

  std::size_t bytes_;
  std::optional<Block> block_;
  std::optional<SharedPages> pages_;
};

/// Kind of memory in which the messages of a workload begin and end.
struct Ends {
  std::string_view name;
  Kind kind;
  std::string_view direction;
  bool on_gpu() const { return kind == Kind::device || kind == Kind::managed; }
};
constexpr Ends kEnds[] = {{"host", Kind::pageable, "h2h"},
                          {"pinned", Kind::pinned, "h2h"},
                          {"gpu", Kind::device, "d2d"},
                          {"managed", Kind::managed, ""}};

/// This rank's part in the exchange of a pair. Its functions do not throw, because the partner would wait forever.
class Conversation {
 public:
  Conversation(Team& team, bool duplex, std::size_t bytes, std::size_t window, std::byte* outgoing, std::byte* incoming)
      : team_(team), duplex_(duplex), bytes_(bytes), outgoing_(outgoing), incoming_(incoming) {
    const int pairs = team.size() / 2, rank = team.rank();
    if (rank >= 2 * pairs) return;  // the last of an odd number of ranks
    leads_ = rank < pairs;
    partner_ = leads_ ? rank + pairs : rank - pairs;
    for (std::size_t i = 0; i < window; ++i) {
      if (duplex || leads_) window_.push_back({partner_, true, outgoing + i * bytes, bytes});
      if (duplex || !leads_) window_.push_back({partner_, false, incoming + i * bytes, bytes});
    }
  }
  int partner() const { return partner_; }  ///< -1 if there is none
  bool leads() const { return leads_; }

  /// Sends messages back and forth or, if duplex, in both directions at once. Returns the seconds of one message; 0 on
  /// a rank that does not lead.
  double ping_pong(int times) {
    team_.start();
    const double begin = now();
    auto& messages = team_.messages();
    for (int i = 0; partner_ >= 0 && i < times; ++i) {
      if (duplex_) {
        const Message both[] = {{partner_, true, outgoing_, bytes_}, {partner_, false, incoming_, bytes_}};
        messages.exchange(both);
      } else if (leads_) {
        messages.send(partner_, outgoing_, bytes_);
        messages.receive(partner_, incoming_, bytes_);
      } else {
        messages.receive(partner_, incoming_, bytes_);
        messages.send(partner_, outgoing_, bytes_);
      }
    }
    return leads_ ? (now() - begin) / (duplex_ ? times : 2 * times) : 0;
  }

  /// Sends a window of messages at once, then an acknowledgement. Returns the seconds of one window; 0 on a rank that
  /// does not lead.
  double windows(int times) {
    team_.start();
    const double begin = now();
    auto& messages = team_.messages();
    for (int i = 0; partner_ >= 0 && i < times; ++i) {
      messages.exchange(window_);
      std::byte word{};
      if (duplex_ || !leads_) messages.send(partner_, &word, sizeof word);
      if (duplex_ || leads_) messages.receive(partner_, &word, sizeof word);
    }
    return leads_ ? (now() - begin) / times : 0;
  }

 private:
  Team& team_;
  bool duplex_, leads_ = false;
  int partner_ = -1;
  std::size_t bytes_;
  std::byte *outgoing_, *incoming_;
  std::vector<Message> window_;
};

void send(Case& c, const Ends& ends, bool duplex) {
  auto& team = c.team();
  const std::size_t bytes = c.extent("bytes"), window = c.extent("window");
  if (bytes > kLargestMessage)
    throw Skip("one message has at most 2147483647 bytes, because MPI counts them in an int", SkipKind::not_applicable);
  const std::size_t held = 2 * memory::byte_count(bytes, window);
  c.needs(ends.on_gpu() && ends.kind != Kind::managed ? 0 : held * team.on_this_node(), ends.on_gpu() ? held : 0);
  if (ends.on_gpu()) {
    if (const auto why = team.messages().refuses_gpu_memory()) throw Skip(*why);
  }
  const bool resident = ends.kind == Kind::managed && c.choice("resident") == "gpu";

  const memory::BlockOptions host{.numa_node = c.numa_node()};
  Buffer outgoing(ends.kind, bytes * window, host), incoming(ends.kind, bytes * window, host);
  for (auto& sentence : incoming.disagreements()) c.warn("placement_disagrees", std::move(sentence));
  const auto pattern_of = [&](int rank) { return Pattern{c.seed(), static_cast<std::uint64_t>(rank)}; };
  outgoing.fill(pattern_of(team.rank()));
  incoming.poison();
  Conversation pair(team, duplex, bytes, window, outgoing.data(), incoming.data());
  const auto settle = [&] {
    outgoing.settle(resident);
    incoming.settle(resident);
  };

  const double message = static_cast<double>(bytes);
  const int pairs = team.size() / 2;
  settle();
  const auto slowest = [&](double seconds) {
    const auto all = team.exchange(seconds);
    return *std::max_element(all.begin(), all.end());
  };
  const auto latency = [&](const char* name) {
    return time_metric(name, "clock", "latency has no known bound")
        .moving(message, message, std::string(ends.direction));
  };
  // The first message sets up the route and, in some memories, registers its buffer.
  c.once(latency("first_latency"), slowest(pair.ping_pong(1)));

  constexpr int kMost = 1000;
  const int round_trips = repetitions(c, 2 * pair.ping_pong(2), kMost);
  c.sampling().sample(latency("latency"), [&] {
    c.sampling().batch(round_trips);
    settle();
    return slowest(pair.ping_pong(round_trips));
  });

  const double in_window = message * static_cast<double>(window) * (duplex ? 2 : 1);
  const auto rate = [&](const char* name, double of) {
    return rate_metric(name, "B/s", "clock", kPathUnknown).moving(of, of, std::string(ends.direction));
  };
  std::vector<Metric> metrics{rate("rate", in_window * pairs)};
  if (pairs > 1) metrics.push_back(rate("rate_slowest", in_window));
  const int repeated = repetitions(c, pair.windows(1), kMost);
  c.sampling().sample(metrics, [&] {
    c.sampling().batch(repeated);
    settle();
    auto seconds = team.exchange(pair.windows(repeated));
    seconds.resize(static_cast<std::size_t>(pairs));  // times of the leading ranks
    double sum = 0;
    for (const double each : seconds) sum += in_window / each;
    std::vector<double> values{sum};
    if (pairs > 1) values.push_back(in_window / *std::max_element(seconds.begin(), seconds.end()));
    return values;
  });

  // The check repeats both exchanges into poison. A rank that leads in one direction receives one message, all other
  // ranks a whole window.
  incoming.poison();
  pair.windows(1);
  pair.ping_pong(1);
  std::size_t wrong = 0;
  if (pair.partner() >= 0)
    wrong = incoming.wrong(pattern_of(pair.partner()), pair.leads() && !duplex ? bytes : bytes * window);
  c.verify("every byte arrived", [wrong] { return static_cast<double>(wrong); }, 0);
}

Workload workload(const Ends& ends, bool duplex) {
  const std::string name(ends.name);
  Workload w("mpi/" + name + "-" + name + "/send" + (duplex ? "-duplex" : ""),
             [ends, duplex](Case& c) { send(c, ends, duplex); });
  w.version(1)
      .summary("messages from " + name + " memory of a rank to that of another" + (duplex ? ", both ways at once" : ""))
      .source("isthmus")
      .tags({"mpi", "send", name})
      .several_ranks()
      .stagings({})
      .metrics({"latency", "rate"})
      // The estimate counts round trips and windows of at least 2 ms. It predicts how long a run takes.
      .estimate([](const CaseSpec& spec) {
        const auto messages = static_cast<double>(spec.integer("window") + 2);
        return 10e-3 + messages * static_cast<double>(spec.integer("bytes")) / 5e9;
      })
      .axis(bytes_axis("bytes", "bytes of one message", 1 * kMi)
                .with_default_sweep({8, 4 * kKi, 64 * kKi, 1 * kMi, 32 * kMi})
                .with_size_sweep(powers(1, 256 * kMi)))
      .axis(number_axis("window", "messages in flight at once, for the rate", 16))
      .sizes({"bytes"}, {4 * kKi, 64 * kKi, 1 * kMi, 32 * kMi});
  if (ends.kind == Kind::managed)
    w.axis(choice_axis("resident", "where its pages are when a sample begins", {"gpu", "host"}));
  if (ends.kind == Kind::pageable) w.cpu_only();
  return w;
}

const std::vector<Registration> registrations = [] {
  std::vector<Registration> list;
  for (const auto& ends : kEnds) {
    for (const bool duplex : {false, true}) list.emplace_back(workload(ends, duplex));
  }
  return list;
}();

}  // namespace
}  // namespace isthmus::microbench::transfer
