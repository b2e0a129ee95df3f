#include "harness/program/session.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <variant>

#include "harness/measure/case_runner.hpp"
#include "harness/measure/inputs.hpp"
#include "harness/measure/uvm_observer.hpp"
#include "harness/plan/estimate.hpp"
#include "harness/plan/names.hpp"
#include "harness/program/progress.hpp"
#include "harness/program/table.hpp"
#include "harness/ranks/interrupt.hpp"
#include "harness/ranks/process.hpp"
#include "harness/ranks/ranks.hpp"
#include "harness/record/host_facts.hpp"
#include "harness/record/job_allocation.hpp"
#include "harness/record/record.hpp"
#include "harness/record/record_file.hpp"
#include "harness/record/schema_check.hpp"
#include "memory/host_memory.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/processors.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

/// How one of --processes N knows which it is: "3:<run id>:<record>", set by the process that started it.
constexpr const char* kChildVariable = "ISTHMUS_CHILD_PROCESS";

struct Child {
  int process = 1;
  std::string run_id, record;
};

std::optional<Child> child_role() {
  const char* text = std::getenv(kChildVariable);
  if (text == nullptr) return std::nullopt;
  const std::string role = text;
  const auto first = role.find(':'), second = role.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  return Child{std::atoi(role.c_str()), role.substr(first + 1, second - first - 1), role.substr(second + 1)};
}

void say(std::string_view sentence) {
  fmt::print(stderr, "isthmus-bench: {}\n", printable(sentence));
}

/// What is no table goes to stdout too, unless a program reads the table there.
void report(const SessionOptions& options, std::string_view sentence) {
  if (options.quiet) return;
  if (options.table.value_or(TableFormat::text) == TableFormat::text) {
    fmt::print("{}\n", printable(sentence));
    std::fflush(stdout);  // before processes share it
  } else {
    say(sentence);
  }
}

/// What was asked for, else a GPU for each rank of the node: the one that the scheduler shows it, or its own of all.
std::optional<device::DeviceInfo> choose_device(const std::optional<std::string>& asked, bool needed, int local_rank) {
  const int count = device::count();
  if (count == 0) {
    if (!needed && !asked) return std::nullopt;
    throw device::Error(device::ErrorKind::failure, "count", no_device_sentence(), "run `isthmus-bench info`");
  }
  if (!asked) return device::info(local_rank % count);
  int index = -1;
  const auto [end, failure] = std::from_chars(asked->data(), asked->data() + asked->size(), index);
  if (failure == std::errc{} && end == asked->data() + asked->size()) {
    if (index < 0 || index >= count)
      throw InputError(fmt::format("there is no device {}; this process sees {} (0 to {})", index, count, count - 1));
    return device::info(index);
  }
  std::string known;
  for (int i = 0; i < count; ++i) {
    auto info = device::info(i);
    if (info.uuid == *asked) return info;
    known += (known.empty() ? "" : ", ") + info.uuid;
  }
  throw InputError(fmt::format("there is no device '{}'; give an index or one of {}", *asked, known));
}

/// Host memory goes where the user says, else to the device's own node where the machine has several.
int choose_numa_node(const std::optional<int>& asked, const std::optional<device::DeviceInfo>& device) {
  if (asked) {
    if (!memory::numa_node_usable(*asked))
      throw InputError(fmt::format("there is no usable NUMA node {}; the highest is {}", *asked,
                                   std::max(0, memory::highest_numa_node())));
    if (!memory::bind_thread(*asked))
      throw InputError(fmt::format("the system refuses to bind to NUMA node {}", *asked));
    return *asked;
  }
  if (device && memory::highest_numa_node() > 0 && memory::numa_node_usable(device->numa_node))
    return device->numa_node;
  return -1;
}

// --- what would run --------------------------------------------------------------------------------------

int dry_run(const std::vector<CaseSpec>& cases, const RunContext& context, int processes) {
  Estimate all;
  for (const auto& spec : cases) {
    const auto found = footprint(spec, context);
    if (found.skipped) {
      fmt::print("{}: would be skipped: {}\n", spec.label(), *found.skipped);
      all.add(0);
      continue;
    }
    const auto seconds = estimate_seconds(spec, context.sampling, found);
    all.add(seconds);
    fmt::print("{}: host {}, device {}, {}\n", spec.label(),
               memory::format_bytes(static_cast<double>(found.host_bytes)),
               memory::format_bytes(static_cast<double>(found.device_bytes)),
               seconds ? about(*seconds * processes) : "for an unknown time");
  }
  fmt::print("{} in all\n", all.sentence(processes));
  return exit_code::passed;
}

/// As far as it is known without declaring the case.
std::optional<double> estimate_of(const CaseSpec& spec, const SamplingOptions& sampling) {
  return spec.not_applicable ? 0 : estimate_seconds(spec, sampling);
}

/// "120 cases, about 3 min": what a run is going to do, as far as that is known without doing any of it.
std::string outlook(const std::vector<CaseSpec>& cases, const SessionOptions& options, int processes) {
  Estimate all;
  for (const auto& spec : cases) all.add(estimate_of(spec, options.sampling));
  auto text = all.sentence(processes);
  if (options.resume) text += ", less what the record holds already";
  if (all.unknown == all.cases) text += "; --dry-run estimates how long they take";
  return text;
}

// --- running ----------------------------------------------------------------------------------------------

struct Tally {
  int passed = 0, skipped = 0, failed = 0, resumed = 0;
  bool ended_early = false;

  int code() const {
    if (ended_early) return exit_code::interrupted;
    return failed > 0 ? exit_code::failed : exit_code::passed;
  }
};

/// Writes one record; one that breaks the schema goes to FILE.invalid, since a reader of FILE must never meet it.
bool keep(RecordFile& file, const json& record, const std::string& label) {
  const auto violations = record_schema_check().violations(record);
  const std::string line = record.dump(-1, ' ', false, json::error_handler_t::replace);
  if (violations.empty()) {
    file.append(line);
    return true;
  }
  RecordFile(file.path() + ".invalid").append(line);
  say(fmt::format(
      "{}: its record breaks the schema ({}), which is an error of this program; it was put into {}.invalid", label,
      violations.front(), file.path()));
  return false;
}

/// Tells what happened to a case that did not pass.
void tell(const CaseResult& result, bool quiet) {
  const std::string label = result.spec.label();
  if (result.error) {
    say(fmt::format("{}: failed: {}", label, *result.error));
  } else if (result.verification.verdict == Verdict::fail) {
    say(fmt::format("{}: wrong result: {}", label, result.verification.detail));
  } else if (result.skipped && !quiet) {
    say(fmt::format("{}: skipped: {}", label, *result.skipped));
  }
}

enum class Next : char { run = 'r', leave_out = 'l', end = 'e' };

/// What all ranks do with the next case: what rank 0 says, unless any was asked to end.
Next agree(Ranks& ranks, Next own) {
  const auto all = ranks.gather(std::string(1, static_cast<char>(own)));
  const bool end = std::any_of(all.begin(), all.end(), [](const auto& each) { return each.at(0) == 'e'; });
  return end ? Next::end : static_cast<Next>(all.front().at(0));
}

/// A table that cannot be written is told of in the record: what was measured is kept.
std::vector<TableFile> write_tables(CaseResult& result, const RecordFile& file, const std::string& stem) {
  std::vector<TableFile> written;
  for (const auto& table : result.tables) {
    try {
      written.push_back(write_table(table, file.path(), stem));
    } catch (const RecordError& error) {
      say(error.what());
      result.error = error.what();
    }
  }
  return written;
}

/// What the records in the file left where all placements must leave the same.
void remember_results(const std::string& path) {
  for_each_record(path, "\"checksums\"", [&](const json& record) {
    if (!record_schema_check().violations(record).empty()) return;
    const auto& verify = record.at("verify");
    if (verify.at("status") != "pass" || !verify.contains("checksums") || !verify.at("inputs").is_string()) return;
    const std::string of = fmt::format("the record of {} in {}", record.at("run").at("time").get<std::string>(), path);
    for (const auto& [buffer, sum] : verify.at("checksums").items())
      known_result(verify.at("inputs"), buffer, {std::stoull(sum.get<std::string>(), nullptr, 16), of});
  });
}

/// `file` is nullptr on the ranks that write none.
Tally run_cases(const std::vector<CaseSpec>& cases, const RunContext& context, const RunIdentity& identity,
                RecordFile* file, const SessionOptions& options, std::vector<json>& records, double process_begin) {
  std::set<std::string> settled;
  if (options.resume && file != nullptr) settled = settled_cases(file->path());
  if (file != nullptr) remember_results(file->path());
  Tally tally;
  std::vector<std::optional<double>> estimates;
  for (const auto& spec : cases) estimates.push_back(estimate_of(spec, options.sampling));
  Progress progress(!options.quiet && file != nullptr, std::move(estimates));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& spec = cases[i];
    const auto done_before = [&] {
      const auto device = device_of(*spec.workload, context.device);
      return settled.contains(case_identity(identity, spec, device, context.sampling.chunks));
    };
    Next next = interrupted() ? Next::end : done_before() ? Next::leave_out : Next::run;
    if (context.ranks != nullptr) next = agree(*context.ranks, next);
    if (next == Next::end) {
      tally.ended_early = true;
      break;
    }
    if (next == Next::leave_out) {
      ++tally.resumed;
      continue;
    }
    progress.begin(i, spec.label());
    const double begin = now();
    auto result = run_case(spec, context);
    if (!result.skipped) progress.measured(now() - begin);
    if (file == nullptr) {
      if (result.device_lost || result.interrupted) break;
      continue;
    }
    result.process_wall = now() - process_begin;
    progress.clear();
    tell(result, options.quiet);
    const auto tables = write_tables(result, *file, fmt::format("{}-{}-{}", identity.id, identity.process, i));
    auto record = record_json(identity, result, tables);
    const bool valid = keep(*file, record, spec.label());
    if (!valid || result.failed())
      ++tally.failed;
    else if (result.skipped)
      ++tally.skipped;
    else
      ++tally.passed;
    if (valid) records.push_back(std::move(record));
    if (result.device_lost || result.interrupted) {
      tally.ended_early = true;
      say(result.device_lost ? "the device is lost, so the run ends here; what was measured is in " + file->path()
                             : "interrupted; what was measured is in " + file->path());
      break;
    }
  }
  return tally;
}

/// Runs this program anew as often as asked, one after the other, into the same file.
int run_processes(int count, const std::string& run_id, const std::string& record) {
  int code = exit_code::passed;
  for (int process = 1; process <= count && !interrupted(); ++process) {
    const std::string role = fmt::format("{}:{}:{}", process, run_id, record);
    const int status = wait_for(start_again(kChildVariable, role), true);
    if (WIFSIGNALED(status)) {
      say(fmt::format("process {} of {} was ended by signal {}; what it measured before is in {}", process, count,
                      WTERMSIG(status), record));
      code = std::max(code, exit_code::failed);
      continue;
    }
    code = std::max(code, WEXITSTATUS(status));
    if (WEXITSTATUS(status) == exit_code::interrupted) break;
  }
  if (interrupted()) code = exit_code::interrupted;
  return code;
}

std::vector<json> records_of_run(const std::string& path, const std::string& run_id) {
  std::vector<json> records;
  for_each_record(path, run_id, [&](json record) {
    if (record.contains("run") && record["run"].value("id", "") == run_id) records.push_back(std::move(record));
  });
  return records;
}

}  // namespace

int exit_code_of(const std::exception& failure) noexcept {
  const bool input =
      dynamic_cast<const InputError*>(&failure) != nullptr ||
      (dynamic_cast<const RecordError*>(&failure) != nullptr && dynamic_cast<const RecordLost*>(&failure) == nullptr) ||
      dynamic_cast<const std::invalid_argument*>(&failure) != nullptr;  // a setting in the environment
  return input ? exit_code::bad_input : exit_code::failed;
}

std::string no_device_sentence() {
  switch (device::backend()) {
    case device::Backend::cuda:
      return "this build measures NVIDIA GPUs and the driver shows none";
    case device::Backend::hip:
      return "this build measures AMD GPUs and the driver shows none";
    case device::Backend::emulator:
      return "the emulator shows no device";
  }
  return "";
}

namespace {

/// What is known before any work.
struct Prepared {
  std::optional<Child> child;
  std::vector<CaseSpec> cases;
  std::vector<std::string> notices;
  int processes = 1;
  RunContext context;
  std::string path;  ///< of the record, on the rank that writes it
};

void check_for_ranks(const std::vector<CaseSpec>& cases, const SessionOptions& options, int ranks) {
  if (options.processes.value_or(1) > 1)
    throw InputError(
        fmt::format("--processes is for one process, and {} ranks were started; start them anew instead", ranks));
  for (const auto& spec : cases) {
    // Each would write its own figures, taken while the others disturb it, as if it were alone.
    if (!spec.workload->description().several_ranks)
      throw InputError(fmt::format("{} is measured by one process, and {} ranks were started; start one",
                                   spec.workload->name(), ranks));
  }
}

/// As many as were asked for, else as many as a preset wants; ranks are what they are.
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

constexpr const char *kUvm = "uvm", *kUvmFaults = "uvm_faults";

void check_observers(const SessionOptions& options, bool any_device, const Ranks* ranks) {
  for (const auto& name : options.observers) {
    if (name != kUvm && name != kUvmFaults)
      throw InputError(fmt::format("there is no observer '{}'; {}", name,
                                   suggestion(name, std::vector<std::string>{kUvm, kUvmFaults})));
    if (ranks != nullptr)
      throw InputError(
          fmt::format("--observe {} watches one process, and several ranks were started; start one", name));
    if (!any_device)
      throw InputError(fmt::format("--observe {} watches a device, and no case of this run uses one", name));
  }
}

/// What was asked to watch each case. Throws device::Error where it cannot, before any work.
std::vector<AskedObserver> asked_observers(const SessionOptions& options) {
  if (options.observers.empty()) return {};
  try {
    const std::shared_ptr<trace::uvm::Source> source = trace::uvm::attach();
    const bool every_fault = std::ranges::count(options.observers, kUvmFaults) > 0;
    return {{kUvm, [=] { return std::make_unique<UvmObserver>(*source, every_fault); }}};
  } catch (const trace::uvm::Unavailable& reason) {
    throw device::Error(device::ErrorKind::failure, "--observe uvm", reason.what(),
                        "leave the option out to measure without it");
  }
}

Prepared prepare(const SessionOptions& options, Ranks* ranks) {
  Prepared prepared;
  prepared.child = child_role();
  prepared.cases = plan(options.request, &prepared.notices);
  const auto& cases = prepared.cases;
  if (ranks != nullptr) check_for_ranks(cases, options, ranks->size());
  prepared.processes = process_count(options, cases, ranks);
  try {
    memory::available_host_memory();
  } catch (const std::invalid_argument& error) {
    throw InputError(error.what());
  }
  const bool needs_device =
      std::any_of(cases.begin(), cases.end(), [](const auto& c) { return !c.workload->description().native; });

  check_observers(options, needs_device, ranks);

  auto& context = prepared.context;
  context.device = choose_device(options.device, needs_device, ranks != nullptr ? ranks->local_rank() : 0);
  context.seed = options.seed;
  context.sampling = options.sampling;
  context.numa_node = choose_numa_node(options.numa_node, context.device);
  context.governor = host_facts().governor;
  context.ranks = ranks;
  if (context.device && (options.dry_run || prepared.processes == 1 || prepared.child))
    device::select(context.device->index);

  if (!options.dry_run && (ranks == nullptr || ranks->rank() == 0)) {
    const auto& child = prepared.child;
    prepared.path = child ? child->record : options.record ? *options.record : default_record_path();
    check_record_path(prepared.path);
  }
  return prepared;
}

/// Several ranks prepare together: what is wrong on one of them ends them all. Rank 0 says it before any of them
/// leaves, since launchers kill the others when one ends badly. Returns the exit code where that is the end.
std::variant<Prepared, int> prepare_together(const SessionOptions& options, Ranks& ranks) {
  std::optional<Prepared> prepared;
  int code = exit_code::passed;
  std::string sentence;
  try {
    prepared = prepare(options, &ranks);
  } catch (const std::exception& failure) {
    sentence = failure.what();
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

int measure(const SessionOptions& options, const Prepared& prepared, double process_begin) {
  const auto& [child, cases, notices, processes, context, path] = prepared;
  const bool writes = context.ranks == nullptr || context.ranks->rank() == 0;
  const bool speaks = writes && !child;
  if (speaks && !options.quiet) {
    for (const auto& sentence : notices) say(sentence);
  }
  if (options.dry_run) return writes ? dry_run(cases, context, processes) : exit_code::passed;

  RunContext watched = context;
  if (processes == 1 || child) watched.observers = asked_observers(options);
  std::optional<RecordFile> file;
  if (writes) file.emplace(path);
  catch_interrupts();
  if (speaks) report(options, outlook(cases, options, processes));
  RunIdentity identity{child ? child->run_id : new_run_id(), options.command, child ? child->process : 1, options.seed};
  if (processes > 1 && !child) {
    const int code = run_processes(processes, identity.id, path);
    if (options.table) fmt::print("{}", table(records_of_run(path, identity.id), *options.table));
    report(options, fmt::format("{} processes; records in {}", processes, path));
    return code;
  }
  if (context.ranks != nullptr) {
    identity.ranks = rank_facts(*context.ranks, context.device);
    identity.ranks_library = context.ranks->library();
  }

  std::vector<json> records;
  const auto tally = run_cases(cases, watched, identity, file ? &*file : nullptr, options, records, process_begin);
  if (speaks) {
    if (options.table) fmt::print("{}", table(records, *options.table));
    report(options,
           fmt::format("{} passed, {} skipped, {} failed{}; records in {}", tally.passed, tally.skipped, tally.failed,
                       tally.resumed > 0 ? fmt::format(", {} done before", tally.resumed) : "", path));
  }
  return tally.code();
}

int measure_together(const SessionOptions& options, Ranks& ranks, double process_begin) {
  const auto prepared = prepare_together(options, ranks);
  if (const auto* code = std::get_if<int>(&prepared)) return *code;
  try {
    const int code = measure(options, std::get<Prepared>(prepared), process_begin);
    return std::stoi(ranks.gather(std::to_string(code)).front());
  } catch (const std::exception& error) {  // such as a full disk on rank 0: the other ranks would wait for ever
    say(fmt::format("rank {}: {}", ranks.rank(), error.what()));
    std::fflush(stdout);
    ranks.abort(exit_code::failed);
    return exit_code::failed;  // it does not return, but a virtual function's attribute is lost on GCC
  }
}

}  // namespace

int run_session(const SessionOptions& options) {
  const double process_begin = now();
  if (const auto ranks = join_ranks()) return measure_together(options, *ranks, process_begin);
  return measure(options, prepare(options, nullptr), process_begin);
}

}  // namespace isthmus::harness
