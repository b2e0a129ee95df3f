#include "harness/program/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "harness/measure/watch/uvm_observer.hpp"
#include "harness/output.hpp"
#include "harness/plan/names.hpp"
#include "harness/plan/plan.hpp"
#include "harness/program/choose_device.hpp"
#include "harness/program/environment.hpp"
#include "harness/program/progress.hpp"
#include "harness/program/repeat.hpp"
#include "harness/program/run_cases.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/record/host_facts.hpp"
#include "harness/record/host_speed.hpp"
#include "harness/record/job_allocation.hpp"
#include "memory/host_memory.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/processors.hpp"
#include "workload/clock.hpp"

namespace isthmus::harness {

int exit_code_of(const std::exception& failure) noexcept {
  const bool input =
      dynamic_cast<const InputError*>(&failure) != nullptr ||
      (dynamic_cast<const RecordError*>(&failure) != nullptr && dynamic_cast<const RecordLost*>(&failure) == nullptr) ||
      dynamic_cast<const std::invalid_argument*>(&failure) != nullptr;  // a bad setting in the environment
  return input ? exit_code::bad_input : exit_code::failed;
}

namespace {

using nlohmann::json;

void report(const SessionOptions& options, std::string_view sentence) {
  if (options.quiet) return;
  print(printable(sentence) + "\n");
}

void report_records(const SessionOptions& options, const std::vector<json>& records, std::string_view outcome,
                    std::string_view path) {
  if (options.table) print(table(records, contains(options.given, "--mode")));
  if (const auto sentence = doubts_sentence(records); !sentence.empty()) report(options, sentence);
  report(options, fmt::format("{}; records in {}", outcome, path));
}

/// Facts about a run that are known before any work.
struct Prepared {
  std::optional<Child> child;
  Request request;
  std::vector<CaseSpec> cases;
  std::vector<std::string> notices;
  int processes = 1;
  bool starts_others = false;  ///< this process only starts fresh processes, which measure
  RunContext context;
  std::string path;                    ///< path of the record file, on the rank that writes it
  std::shared_ptr<Watchdog> watchdog;  ///< set if a GPU may hang
};

void check_for_ranks(const std::vector<CaseSpec>& cases, const SessionOptions& options, int ranks) {
  if (options.processes.value_or(1) > 1)
    throw InputError(fmt::format(
        "--processes is for one process, but {} ranks were started; start the ranks several times instead", ranks));
  for (const auto& spec : cases) {
    // Each rank would record its figures as if it ran alone, although the other ranks disturb them.
    if (!spec.workload->description().several_ranks)
      throw InputError(fmt::format("{} is measured by one process, but {} ranks were started; start one",
                                   spec.workload->name(), ranks));
  }
}

/// Returns the requested number of processes; otherwise the largest number that a preset requests, or 1. Returns 1 with
/// several ranks.
int process_count(const SessionOptions& options, const std::vector<CaseSpec>& cases, const Ranks* ranks) {
  if (ranks != nullptr) return 1;
  if (options.processes) return *options.processes;
  int count = 1;
  for (const auto& spec : cases) {
    const auto* preset = spec.preset ? spec.workload->description().find_preset(*spec.preset) : nullptr;
    if (preset != nullptr) count = std::max(count, preset->processes);
  }
  return count;
}

constexpr const char *kUvm = "uvm", *kUvmFaults = "uvm_faults", *kUvmBrief = "uvm_brief", *kUvmBatches = "uvm_batches";

void check_observers(const SessionOptions& options, bool any_device, const Ranks* ranks) {
  const std::vector<std::string> known{kUvm, kUvmFaults, kUvmBrief, kUvmBatches};
  for (const auto& name : options.observers) {
    if (!contains(known, name))
      throw InputError(fmt::format("there is no observer '{}'; {}", name, suggestion(name, known)));
    if ((name == kUvmBatches || name == kUvmBrief) && options.observers.size() > 1)
      throw InputError(fmt::format("--observe {} is uvm without {}; choose one of the two", name,
                                   name == kUvmBatches ? "migrations" : "the table of migrations"));
    if (ranks != nullptr)
      throw InputError(
          fmt::format("--observe {} observes one process, but several ranks were started; start one", name));
    if (!any_device)
      throw InputError(fmt::format("--observe {} observes a device, but no case of this run uses one", name));
  }
}

/// Returns the requested observers. Throws device::Error before any work if one cannot observe.
std::vector<AskedObserver> asked_observers(const SessionOptions& options, trace::uvm::Keep keep) {
  if (options.observers.empty()) return {};
  try {
    using Watched = UvmObserver::Watched;
    const auto watched = contains(options.observers, kUvmFaults)    ? Watched::every_fault
                         : contains(options.observers, kUvmBatches) ? Watched::batches
                         : contains(options.observers, kUvmBrief)   ? Watched::moves_of_batches
                                                                    : Watched::moves;
    const std::shared_ptr<trace::uvm::Source> source = trace::uvm::attach(watched != Watched::batches, std::move(keep));
    return {{kUvm, [=] { return std::make_unique<UvmObserver>(*source, watched); }}};
  } catch (const trace::uvm::Unavailable& reason) {
    throw device::Error(device::ErrorKind::failure, "--observe uvm", reason.what(),
                        "omit the option to measure without it");
  }
}

/// Starts the watchdog before the device is touched, and refuses a run that must not be oversubscribed.
void start_watchdog(const SessionOptions& options, Prepared& prepared, Ranks* ranks) {
  const auto& asked = options.oversubscription;
  if (asked.ratio && options.resume)
    throw InputError(
        "--oversubscribe uses a different number of bytes each time, so --resume cannot recognise its cases; omit it");
  check_oversubscription(asked, prepared.request, prepared.cases, prepared.processes,
                         ranks != nullptr ? ranks->size() : 1);
  if (asked.ratio) prepared.watchdog = std::make_shared<Watchdog>(asked.hang_after.value_or(hang_limit(0)));
}

/// Throws InputError if the names of all cases select devices other than the chosen one; adds a notice if some do.
void check_is_used(const device::DeviceInfo& chosen, const std::vector<CaseSpec>& cases,
                   std::vector<std::string>& notices) {
  const auto is_of_others = [&](const CaseSpec& spec) {
    const auto& devices = spec.workload->description().devices;
    return !devices.empty() && !contains(devices, chosen.index);
  };
  const auto others = static_cast<std::size_t>(std::ranges::count_if(cases, is_of_others));
  if (others == 0) return;
  const auto& first = *std::ranges::find_if(cases, is_of_others);
  if (others == cases.size())
    throw InputError(
        fmt::format("--device chooses {}, but the name of {} determines its GPUs; choose the workload of that GPU, or "
                    "omit the option",
                    chosen.index, first.workload->name()));
  notices.push_back(
      fmt::format("--device has no effect on {} of {} cases, such as {}, whose names determine their GPUs", others,
                  cases.size(), first.workload->name()));
}

/// Throws InputError if the device must not be oversubscribed. Called before anything is allocated on it.
void check_device(const device::DeviceInfo& device) {
  const auto refused = refused_on({device::backend(), device.driver, device::occupancy(device.index)});
  if (!refused.empty()) throw InputError(refused);
}

void oversubscribe(const SessionOptions& options, Prepared& prepared) {
  const auto& asked = options.oversubscription;
  const std::size_t free = device::memory_info().free;
  const auto host = memory::host_memory();
  set_footprints(prepared.cases, *asked.ratio, free, host.known ? std::optional(host.bytes) : std::nullopt);
  if (!asked.hang_after) prepared.watchdog->set_limit(hang_limit(oversubscribed_bytes(*asked.ratio, free)));
}

Prepared prepare(const SessionOptions& options, Ranks* ranks) {
  Prepared prepared;
  prepared.child = child_role();
  prepared.request = parse_request(options.texts);
  prepared.notices = prepared.request.notices;
  prepared.cases = plan(prepared.request);
  const auto& cases = prepared.cases;
  if (ranks != nullptr) check_for_ranks(cases, options, ranks->size());
  if (const auto in_chunks = [](const CaseSpec& each) { return each.placement && (*each.placement)->chunked; };
      contains(options.given, "--chunks") && std::ranges::none_of(cases, in_chunks))
    throw InputError(
        "--chunks is for placement streamed, which no case has; choose that placement, or omit the option");
  if (options.resume && !options.record)
    throw InputError("--resume continues the file of --record, but none is named; name the record of the earlier run");
  prepared.processes = process_count(options, cases, ranks);
  prepared.starts_others = prepared.processes > 1 && !prepared.child && !options.dry_run;
  try {
    if (auto doubt = memory::host_memory().doubt; !doubt.empty()) prepared.notices.push_back(std::move(doubt));
  } catch (const std::invalid_argument& error) {
    throw InputError(error.what());
  }
  const bool needs_device =
      std::any_of(cases.begin(), cases.end(), [](const auto& c) { return !c.workload->description().cpu_only; });

  check_observers(options, needs_device, ranks);
  start_watchdog(options, prepared, ranks);

  auto& context = prepared.context;
  // Querying a device creates a context on it. A process that only starts others would then occupy memory there while
  // they measure, and they would report it as a foreign process.
  if (!prepared.starts_others)
    context.device = choose_device(options.device, needs_device, ranks != nullptr ? ranks->local_rank() : 0);
  else if (needs_device || options.device)
    require_device();
  if (options.device && context.device) check_is_used(*context.device, cases, prepared.notices);
  // Without a GPU case, --device still matters on a host with several NUMA nodes if the user named none: it determines
  // the node of host memory.
  if (options.device && !needs_device && (options.numa_node || memory::highest_numa_node() <= 0))
    prepared.notices.push_back("--device has no effect, because no case of this run uses a GPU; omit it");
  if (prepared.watchdog) {
    check_device(context.device.value());
    context.watchdog = prepared.watchdog.get();
  }
  context.seed = options.seed;
  context.sampling = options.sampling;
  const bool estimates = !prepared.starts_others && (ranks == nullptr || ranks->rank() == 0);
  if (estimates && host_speed().touch_rate > 0) context.sampling.touch_rate = host_speed().touch_rate;
  context.numa_node = choose_numa_node(options.numa_node, context.device);
  context.governor = host_facts().governor;
  context.ranks = ranks;
  if (context.device) device::select(context.device->index);
  if (prepared.watchdog) oversubscribe(options, prepared);

  if (!options.dry_run && (ranks == nullptr || ranks->rank() == 0)) {
    const auto& child = prepared.child;
    prepared.path = child ? child->record : options.record ? *options.record : default_record_path();
    check_is_apart(prepared.path, options.table || !options.quiet);
    check_record_path(prepared.path);
  }
  return prepared;
}

/// Prepares all ranks together: an error on one of them ends them all. Rank 0 reports it before any rank exits, because
/// launchers kill the other ranks when one fails. Returns the exit code in that case.
std::variant<Prepared, int> prepare_together(const SessionOptions& options, Ranks& ranks) {
  std::optional<Prepared> prepared;
  int code = exit_code::passed;
  std::string sentence;
  try {
    prepared = prepare(options, &ranks);
  } catch (const std::exception& failure) {
    sentence = sentence_of(failure);
    code = exit_code_of(failure);
  }
  const auto sentences = ranks.gather(sentence), codes = ranks.gather(std::to_string(code));
  for (std::size_t rank = 0; rank < sentences.size(); ++rank) {
    if (codes[rank] == std::to_string(exit_code::passed)) continue;
    const bool alike = std::count(sentences.begin(), sentences.end(), sentences[rank]) == ranks.size();
    if (ranks.rank() == 0) say(alike ? sentence : fmt::format("rank {}: {}", rank, sentences[rank]));
    ranks.barrier();
    return std::stoi(codes[rank]);
  }
  return std::move(*prepared);
}

std::vector<RankFacts> rank_facts(Ranks& ranks, const std::optional<device::DeviceInfo>& device) {
  const json own = {{"node", node_name()},
                    {"local_rank", ranks.local_rank()},
                    {"device", device ? device->uuid : std::string()},
                    {"cpus", number_ranges(memory::usable_processors(-1))}};
  std::vector<RankFacts> list;
  for (const auto& text : ranks.gather(own.dump(-1, ' ', false, json::error_handler_t::replace))) {
    const auto facts = json::parse(text);
    list.push_back({facts.at("node"), facts.at("local_rank"), facts.at("device"), facts.at("cpus")});
  }
  return list;
}

/// Count of the processes in which each case of a run must still be measured.
class Remaining {
 public:
  Remaining(const SessionOptions& options, const std::string& record, const RunContext& context, int processes,
            int ranks)
      : context_(context), processes_(processes) {
    identity_ = {.id = {}, .command = {}, .process = 1, .seed = options.seed};
    identity_.ranks.resize(static_cast<std::size_t>(ranks > 1 ? ranks : 0));
    if (options.resume) settled_ = settled_cases(record);
  }

  int processes_of(const CaseSpec& spec) {
    if (settled_.empty()) return processes_;  // otherwise an input file would be hashed in vain
    int left = 0;
    for (identity_.process = 1; identity_.process <= processes_; ++identity_.process) {
      const auto device = device_of(*spec.workload, context_.device);
      left += settled_.contains(case_identity(identity_, spec, device, context_.sampling.chunks)) ? 0 : 1;
    }
    done_ += processes_ - left;
    return left;
  }
  /// Returns a text such as ", 3 done before"; empty if no case was done before.
  std::string done_before() const { return done_ > 0 ? fmt::format(", {} done before", done_) : ""; }

 private:
  const RunContext& context_;
  int processes_, done_ = 0;
  RunIdentity identity_;
  std::map<std::string, SettledCase> settled_;
};

/// Returns the estimate for a run, such as "120 cases, about 3 min", as far as it is known beforehand.
std::string outlook(const std::vector<CaseSpec>& cases, const SamplingOptions& sampling, Remaining remaining) {
  Estimate all;
  for (const auto& spec : cases) all.add(estimate_seconds(spec, sampling), remaining.processes_of(spec));
  return all.sentence() + remaining.done_before() +
         (all.unknown == all.cases && all.cases > 0 ? "; --dry-run estimates how long they take" : "");
}

/// Reports what each case would need and how long it would take, without running any. Returns the exit code.
int dry_run(const std::vector<CaseSpec>& cases, const RunContext& context, Remaining remaining) {
  Estimate all;
  std::size_t failures = 0;
  for (const auto& spec : cases) {
    const int times = remaining.processes_of(spec);
    if (times == 0) {
      print(fmt::format("{}: done before\n", spec.label()));
      continue;
    }
    const auto found = footprint(spec, context);
    if (found.skipped || found.failed) {
      failures += found.failed ? 1 : 0;
      print(printable(fmt::format("{}: would {}: {}", spec.label(), found.failed ? "fail" : "be skipped",
                                  found.failed ? *found.failed : *found.skipped)) +
            "\n");
      all.add(0, times);
      continue;
    }
    const auto seconds = estimate_seconds(spec, context.sampling, found);
    all.add(seconds, times);
    print(fmt::format("{}: host {}, device {}, {}\n", spec.label(),
                      memory::format_bytes(static_cast<double>(found.host_bytes)),
                      memory::format_bytes(static_cast<double>(found.device_bytes)),
                      seconds ? about(*seconds * times) : "unknown time"));
  }
  print(fmt::format("{} in all{}\n", all.sentence(), remaining.done_before()));
  if (failures == 0) return exit_code::passed;
  say(fmt::format("{} of {} cases would fail", failures, cases.size()));
  return exit_code::failed;
}

/// Reports an incomplete record that an earlier run left in the file, and removes it if that is safe.
void mend(RecordFile& file, bool resume, bool speaks) {
  const auto taken = file.discard_half_record();
  if (!speaks) return;
  if (taken > 0)
    say(
        fmt::format("the record {} ended with an incomplete line ({} bytes), left by a full disk or a killed run; it "
                    "was removed, and --resume measures its case again",
                    file.path(), taken));
  if (const auto line = resume ? broken_line(file.path()) : 0; line > 0)
    say(
        fmt::format("line {} of the record {} is not a complete record, so its case is measured again; delete that "
                    "line, because readers reject the file",
                    line, file.path()));
}

int measure(const SessionOptions& options, const Prepared& prepared, double process_begin) {
  const auto& [child, request, cases, notices, processes, starts_others, context, path, watchdog] = prepared;
  const bool writes = context.ranks == nullptr || context.ranks->rank() == 0;
  const bool speaks = writes && !child;
  if (speaks && !options.quiet) {
    for (const auto& sentence : notices) say(sentence);
  }
  if (options.dry_run) {
    if (!writes) return exit_code::passed;
    const int ranks = context.ranks != nullptr ? context.ranks->size() : 1;
    return dry_run(cases, context, {options, options.record.value_or(""), context, processes, ranks});
  }
  if (speaks) {
    for (const auto& sentence : unused_variables(cases, options)) say(sentence);
  }

  RunContext watched = context;
  const auto events =
      watchdog && !options.observers.empty() ? std::make_shared<EventFile>(*watchdog) : std::shared_ptr<EventFile>();
  trace::uvm::Keep keep;
  if (events) keep = [events](auto entries, auto dropped) { events->keep(entries, dropped); };
  if (!starts_others) watched.observers = asked_observers(options, std::move(keep));
  catch_interrupts();
  if (child) interrupt_with_parent();
  std::optional<RecordFile> file;  // fresh processes create a missing file when they have something to write
  if (writes && (!starts_others || std::filesystem::exists(path))) file.emplace(path);
  if (speaks && file) mend(*file, options.resume, !options.quiet);
  const int ranks = context.ranks != nullptr ? context.ranks->size() : 1;
  if (speaks) report(options, outlook(cases, options.sampling, {options, path, context, processes, ranks}));
  RunIdentity identity{child ? child->run_id : new_run_id(), options.command, child ? child->process : 1, options.seed};
  if (starts_others) {
    const int code = run_processes(processes, identity.id, path, options.quiet);
    if (code == exit_code::bad_input) return code;
    if (options.quiet && !options.table) return code;  // the file may be long, so it is not read in vain
    const auto records = records_of_run(path, identity.id);
    report_records(options, records, summary(records, processes), path);
    return code;
  }
  if (writes) host_speed();  // measured before anything else runs in the process that measures
  if (context.ranks != nullptr) {
    identity.ranks = rank_facts(*context.ranks, context.device);
    identity.ranks_library = context.ranks->library();
  }

  const auto tally = run_cases(cases, request.settings, watched, identity, file ? &*file : nullptr, options,
                               process_begin, events.get());
  if (watchdog && watchdog->lost())
    say("the process that watches this run was killed, so the run ended; results so far are in " + path);
  if (speaks) report_records(options, tally.records, tally.text(), path);
  return tally.code();
}

int measure_together(const SessionOptions& options, Ranks& ranks, double process_begin) {
  const auto prepared = prepare_together(options, ranks);
  if (const auto* code = std::get_if<int>(&prepared)) return *code;
  try {
    const int code = measure(options, std::get<Prepared>(prepared), process_begin);
    return std::stoi(ranks.gather(std::to_string(code)).front());
  } catch (const std::exception& error) {  // such as a full disk on rank 0: the other ranks would wait forever
    say(fmt::format("rank {}: {}", ranks.rank(), sentence_of(error)));
    ranks.abort(exit_code::failed);
    return exit_code::failed;  // not reached: abort() does not return, but GCC cannot tell for a virtual function
  }
}

}  // namespace

int run_session(const SessionOptions& options) {
  const double process_begin = now();
  if (const auto ranks = join_ranks()) return measure_together(options, *ranks, process_begin);
  return measure(options, prepare(options, nullptr), process_begin);
}

}  // namespace isthmus::harness
