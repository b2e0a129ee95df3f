#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "emulator/devices.hpp"
#include "emulator/emulator.hpp"
#include "emulator/error.hpp"
#include "emulator/format.hpp"

namespace emulator {
namespace {

[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view wanted) {
  throw Error(ErrorKind::failure, introduction().variable, sentence("'{}={}' is not understood", key, value),
              sentence("write {}", wanted));
}

std::uint64_t parse_count(std::string_view key, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) refuse(key, text, "a whole number");
  return value;
}

std::size_t parse_bytes(std::string_view key, std::string_view text) {
  std::string_view number = text;
  unsigned shift = 0;
  for (const auto& [suffix, bits] : {std::pair{"KiB", 10u}, std::pair{"MiB", 20u}, std::pair{"GiB", 30u}}) {
    if (number.ends_with(suffix)) {
      number.remove_suffix(3);
      shift = bits;
      break;
    }
  }
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (problem != std::errc{} || end != number.data() + number.size() || value > (~std::uint64_t{0} >> shift)) {
    refuse(key, text, "a number of bytes, optionally with KiB, MiB or GiB");
  }
  return value << shift;
}

double parse_seconds(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || !(value >= 0)) refuse(key, text, "seconds");
  return value;
}

bool parse_switch(std::string_view key, std::string_view text) {
  if (text != "0" && text != "1") refuse(key, text, "0 or 1");
  return text == "1";
}

void parse_order(Configuration& c, std::string_view text) {
  if (text == "natural") {
    c.order = Order::natural;
  } else if (text == "reverse") {
    c.order = Order::reverse;
  } else if (text.starts_with("seed:")) {
    c.order = Order::seeded;
    c.seed = parse_count("order", text.substr(5));
  } else {
    refuse("order", text, "natural, reverse or seed:N");
  }
}

const std::map<std::string_view, bool Configuration::*>& switches() {
  static const std::map<std::string_view, bool Configuration::*> all{
      {"lockstep", &Configuration::lockstep},
      {"managed", &Configuration::managed},
      {"concurrent_managed", &Configuration::concurrent_managed},
      {"pageable_access", &Configuration::pageable_access},
      {"memory_pools", &Configuration::memory_pools},
      {"virtual_memory", &Configuration::virtual_memory},
      {"map_host", &Configuration::map_host},
      {"cooperative", &Configuration::cooperative},
      {"async_copy", &Configuration::async_copy},
      {"bulk_copy", &Configuration::bulk_copy},
      {"peer", &Configuration::peer_access},
      {"integrated", &Configuration::integrated},
      {"exit_report", &Configuration::exit_report},
  };
  return all;
}

void parse_item(Configuration& c, std::string_view key, std::string_view value) {
  if (const auto found = switches().find(key); found != switches().end()) {
    c.*found->second = parse_switch(key, value);
  } else if (key == "warp") {
    if (value != "32" && value != "64") refuse(key, value, "32 or 64");
    c.warp_size = value == "64" ? 64 : 32;
  } else if (key == "order") {
    parse_order(c, value);
  } else if (key == "poison") {
    if (value != "nan" && value != "large") refuse(key, value, "nan or large");
    c.poison = value == "large" ? Poison::large : Poison::nan;
  } else if (key == "devices") {
    const std::uint64_t devices = parse_count(key, value);
    if (devices < 1 || devices > most_devices) refuse(key, value, sentence("1 to {}", most_devices));
    c.devices = static_cast<unsigned>(devices);
  } else if (key == "memory") {
    c.memory_bytes = parse_bytes(key, value);
  } else if (key == "shared") {
    c.shared_per_block = parse_bytes(key, value);
    if (c.shared_per_block > (std::size_t{1} << 20)) refuse(key, value, "at most 1MiB");
  } else if (key == "blocks") {
    const std::uint64_t blocks = parse_count(key, value);
    if (blocks < 1 || blocks > 64) refuse(key, value, "1 to 64");
    c.resident_blocks = static_cast<unsigned>(blocks);
  } else if (key == "workers") {
    const std::uint64_t workers = parse_count(key, value);
    if (workers > 1024) refuse(key, value, "at most 1024");
    c.workers = static_cast<unsigned>(workers);
  } else if (key == "queue") {
    const std::uint64_t queue = parse_count(key, value);
    if (queue < 1 || queue > 1'000'000) refuse(key, value, "1 to 1000000");
    c.queue = static_cast<unsigned>(queue);
  } else if (key == "others") {
    const std::uint64_t others = parse_count(key, value);
    if (others > 1000) refuse(key, value, "at most 1000");
    c.others = static_cast<unsigned>(others);
  } else if (key == "timeout") {
    c.timeout = parse_seconds(key, value);
  } else if (key == "grace") {
    c.grace = parse_seconds(key, value);
  } else {
    std::string known = "warp, order, poison, devices, memory, shared, blocks, workers, queue, others, timeout, grace";
    for (const auto& entry : switches()) known += sentence(", {}", entry.first);
    throw Error(ErrorKind::failure, introduction().variable, sentence("there is no '{}'", key),
                sentence("choose from {}", known));
  }
}

constinit Introduction introduced;

struct Holder {
  std::mutex mutex;
  Configuration value;
  Holder() {
    if (const char* specification = std::getenv(introduction().variable)) value = parse(specification);
  }
  static Holder& instance() {
    static Holder holder;
    return holder;
  }
};

}  // namespace

void introduce(const Introduction& user) {
  introduced = user;
}

const Introduction& introduction() noexcept {
  return introduced;
}

Configuration parse(std::string_view specification) {
  Configuration c;
  while (!specification.empty()) {
    const std::size_t comma = specification.find(',');
    const std::string_view item = specification.substr(0, comma);
    const std::size_t equals = item.find('=');
    const bool no_value = equals == std::string_view::npos;
    parse_item(c, item.substr(0, equals), no_value ? std::string_view{} : item.substr(equals + 1));
    specification = comma == std::string_view::npos ? std::string_view{} : specification.substr(comma + 1);
  }
  return c;
}

Configuration configuration() {
  Holder& holder = Holder::instance();
  const std::lock_guard lock(holder.mutex);
  return holder.value;
}

void configure(const Configuration& wanted) {
  Holder& holder = Holder::instance();
  const std::lock_guard lock(holder.mutex);
  holder.value = wanted;
}

}  // namespace emulator
