#include "device/api/injection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <vector>

#include "device/api/device.hpp"
#include "device/api/unreached_injections.hpp"

namespace isthmus::device {
namespace {

constexpr auto calls = std::to_array<std::string_view>({
    "count",
    "info",
    "select",
    "peer_info",
    "enable_peer_access",
    "disable_peer_access",
    "memory_info",
    "synchronize",
    "load_kernels",
    "stream_create",
    "stream_synchronize",
    "stream_idle",
    "stream_wait",
    "event_create",
    "event_record",
    "event_synchronize",
    "event_done",
    "elapsed",
    "graph_create",
    "graph_nodes",
    "executable_graph_create",
    "executable_graph_launch",
    "spin_latch_create",
    "spin_latch_hold",
    "malloc_device",
    "free_device",
    "malloc_pooled",
    "free_pooled",
    "set_pool_release_threshold",
    "malloc_pinned",
    "free_pinned",
    "register_host",
    "unregister_host",
    "device_address",
    "malloc_managed",
    "free_managed",
    "malloc_static_managed",
    "free_static_managed",
    "memory_granularity",
    "reserve_addresses",
    "release_addresses",
    "create_memory",
    "release_memory",
    "map_memory",
    "unmap_memory",
    "set_access",
    "copy",
    "copy_async",
    "fill_async",
    "copy_strided_async",
    "copy_batch_async",
    "write_values_async",
    "prefetch",
    "prefetch_batch",
    "discard_batch",
    "discard_and_prefetch_batch",
    "advise",
    "pointer_info",
    "last_prefetch",
    "launch",
    "kernel_info",
    "copy_to_symbol",
    "copy_from_symbol",
    "blas_create",
    "blas_sgemm",
    "blas_sgemv",
    "fft_create",
    "fft_set_workspace",
    "fft_run",
    "convolutions_create",
    "convolutions_plan",
    "convolutions_run",
});

struct Rule {
  std::string_view call;
  unsigned long occurrence;
  std::optional<ErrorKind> kind;  ///< nullopt: simulates Ctrl-C, then the call proceeds
  unsigned long seen = 0;
};

std::optional<ErrorKind> parse_kind(std::string_view word) {
  if (word == "failure") return ErrorKind::failure;
  if (word == "oom") return ErrorKind::out_of_memory;
  if (word == "unsupported") return ErrorKind::unsupported;
  if (word == "lost") return ErrorKind::device_lost;
  if (word == "timeout") return ErrorKind::timeout;
  return std::nullopt;
}

[[noreturn]] void refuse(std::string_view item, std::string_view why) {
  throw std::invalid_argument(fmt::format(
      "ISTHMUS_INJECT: '{}' is not understood ({}); write call:n or call:n:kind, separated by commas, with kind one of "
      "failure, oom, unsupported, lost, timeout, interrupt",
      item, why));
}

Rule parse_rule(std::string_view item) {
  const std::size_t colon = item.find(':');
  if (colon == std::string_view::npos) refuse(item, "the occurrence that is to fail is missing");
  const auto call = std::find(calls.begin(), calls.end(), item.substr(0, colon));
  if (call == calls.end()) refuse(item, "there is no such call");
  std::string_view rest = item.substr(colon + 1), word = "failure";
  if (const std::size_t second = rest.find(':'); second != std::string_view::npos) {
    word = rest.substr(second + 1);
    rest = rest.substr(0, second);
  }
  unsigned long occurrence = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), occurrence);
  if (problem != std::errc{} || end != rest.data() + rest.size() || occurrence == 0) {
    refuse(item, "the occurrence is not a positive integer");
  }
  const auto kind = parse_kind(word);
  if (!kind && word != "interrupt") refuse(item, "there is no such kind");
  return {*call, occurrence, kind};
}

std::vector<Rule> parse(std::string_view specification) {
  std::vector<Rule> rules;
  while (!specification.empty()) {
    const std::size_t comma = specification.find(',');
    rules.push_back(parse_rule(specification.substr(0, comma)));
    specification = comma == std::string_view::npos ? std::string_view{} : specification.substr(comma + 1);
  }
  return rules;
}

class Injector {
 public:
  /// Returns the process's injector. Every call throws until ISTHMUS_INJECT is well-formed.
  static Injector& instance() {
    static Injector injector;
    return injector;
  }
  void replace(std::vector<Rule> rules) {
    const std::lock_guard lock(mutex_);
    rules_ = std::move(rules);
    active_ = !rules_.empty();
  }
  std::vector<std::string> unreached() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> list;
    for (const Rule& rule : rules_) {
      if (rule.seen < rule.occurrence) list.push_back(fmt::format("{}:{}", rule.call, rule.occurrence));
    }
    return list;
  }
  void pass(std::string_view call) {
    if (!active_) return;
    const std::lock_guard lock(mutex_);
    const Rule* due = nullptr;  // every rule counts every call, including calls that another rule fails
    for (Rule& rule : rules_) {
      if (rule.call == call && ++rule.seen == rule.occurrence) due = &rule;
    }
    if (!due) return;
    if (!due->kind) {
      std::raise(SIGINT);
      return;
    }
    throw Error(*due->kind, std::string(call), fmt::format("failed at call {} (injected fault)", due->occurrence),
                "unset ISTHMUS_INJECT to run without it");
  }

 private:
  Injector() {
    if (const char* specification = std::getenv("ISTHMUS_INJECT")) replace(parse(specification));
  }
  std::mutex mutex_;
  std::vector<Rule> rules_;
  std::atomic<bool> active_ = false;
};

}  // namespace

void injection_point(std::string_view call) {
  Injector::instance().pass(call);
}

std::vector<std::string> unreached_injections() {
  return Injector::instance().unreached();
}

std::span<const std::string_view> injectable_calls() noexcept {
  return calls;
}

void set_injection(std::string_view specification) {
  Injector::instance().replace(parse(specification));
}

}  // namespace isthmus::device
