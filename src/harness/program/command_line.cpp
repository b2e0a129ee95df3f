#include "harness/program/command_line.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "harness/output.hpp"
#include "harness/plan/names.hpp"
#include "harness/program/environment.hpp"
#include "harness/program/list.hpp"
#include "harness/program/repeat.hpp"
#include "harness/program/session.hpp"
#include "harness/ranks/ranks.hpp"
#include "harness/ranks/watchdog.hpp"
#include "harness/record/facts_json.hpp"
#include "workload/fresh_process.hpp"

namespace isthmus::harness {

namespace {

constexpr const char* kDescription = "Measures how data moves between CPU and GPU memory.";

constexpr const char* kExamples = R"(Examples:
  isthmus-bench list
  isthmus-bench info
  isthmus-bench run microbench/saxpy --size tiny --table
  isthmus-bench run 'microbench/*' --mode all --size super --record super.jsonl
  isthmus-bench run microbench/gemm --placement pinned,managed --dry-run
  isthmus-bench run microbench/saxpy --set threads=256,512 --processes 3
  isthmus-bench run transfer/pinned-gpu0/ce --set bytes=4KiB,1MiB --table

Exit codes: 0 all passed or skipped; 1 a case failed or there is no device;
2 bad input, before any work; 3 interrupted or device lost, records are on disk.)";

constexpr const char* kRunExamples = R"(Modes: baseline async uvm uvm_async pm pm_async, or all.
Environment: ISTHMUS_RESULTS (folder of records), ISTHMUS_HOST_MEMORY (bytes
that may be used, as 8GiB), ISTHMUS_SYSTEM, ISTHMUS_PARTITION, ISTHMUS_PROFILER
(names written into records; the last also switches latches and batches off and
names phases for the profiler), ISTHMUS_UVM (force: --observe uvm on any driver
branch), ISTHMUS_GRAPH (the file of graph=file), ISTHMUS_INJECT,
ISTHMUS_EMULATOR (tests).)";

/// Values of comma lists that may also be repeated.
std::vector<std::string> flatten(const std::vector<std::string>& lists, std::string_view option) {
  std::vector<std::string> values;
  for (const auto& list : lists) {
    for (auto& value : split(list, ',')) {
      if (value.empty()) throw InputError(fmt::format("{} got an empty name in '{}'", option, list));
      values.push_back(std::move(value));
    }
  }
  return values;
}

/// Text of the numeric options: read here, so that what is wrong with one is said in our own words.
struct NumberTexts {
  std::string samples, warmups, least_time, processes, budget, seed, numa, chunks, oversubscribe, hang_after,
      latch_timeout;
};

template <class Integer>
std::optional<Integer> integer(const std::string& text, std::string_view option, Integer least, Integer most) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0') throw InputError(fmt::format("{} takes an integer, not '{}'", option, text));
  if (errno == ERANGE || value < least || value > most)
    throw InputError(
        fmt::format("{} is {}, which is out of range: it must be from {} to {}", option, text, least, most));
  return static_cast<Integer>(value);
}

std::optional<double> seconds(const std::string& text, std::string_view option) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !std::isfinite(value))
    throw InputError(fmt::format("{} takes a number of seconds, not '{}'", option, text));
  if (!(value > 0))
    throw InputError(fmt::format("{} is {}, which is out of range: it must be above zero", option, text));
  return value;
}

void apply_numbers(const NumberTexts& texts, SessionOptions& options) {
  constexpr int kMany = 1'000'000;
  auto& sampling = options.sampling;
  sampling.samples = integer(texts.samples, "--samples", 1, kMany);
  sampling.warmups = integer(texts.warmups, "--warmups", 0, kMany);
  if (const auto value = integer(texts.chunks, "--chunks", 1, 512)) sampling.chunks = static_cast<std::size_t>(*value);
  options.processes = integer(texts.processes, "--processes", 1, 10'000);
  options.numa_node = integer(texts.numa, "--numa", 0, 1'000);
  if (const auto value = integer<std::int64_t>(texts.seed, "--seed", 0, INT64_MAX))
    options.seed = static_cast<std::uint64_t>(*value);
  auto& oversubscription = options.oversubscription;
  if (!texts.oversubscribe.empty()) oversubscription.ratio = parse_ratio(texts.oversubscribe);
  oversubscription.hang_after = seconds(texts.hang_after, "--hang-after");
  if (const auto value = seconds(texts.latch_timeout, "--latch-timeout")) sampling.latch_timeout = *value;
  sampling.budget = seconds(texts.budget, "--budget");
  sampling.least_time = seconds(texts.least_time, "--min-time");
  if (!sampling.latch && !texts.latch_timeout.empty())
    throw InputError("--latch-timeout is for the latch, and --no-latch leaves that out; give one of them");
  if (sampling.samples && sampling.least_time)
    throw InputError("--samples and --min-time both say when to stop sampling; give one of them");
}

/// A misspelt setting has no effect, so one process of a run says so.
void note_unread_variables() {
  if (child_role() || launched().rank > 0) return;
  if (const auto sentence = unread_variables_sentence(); !sentence.empty()) say(sentence);
}

/// What ISTHMUS_INJECT asks for, checked before any work.
void apply_injection() {
  const char* text = std::getenv("ISTHMUS_INJECT");
  if (text == nullptr || *text == '\0') return;
  try {
    device::set_injection(text);
  } catch (const std::invalid_argument& error) {
    throw InputError(error.what());
  }
}

/// A library that ISTHMUS_NVML names and that is none would leave facts out of the records without a word.
void check_nvml() {
  const char* path = std::getenv("ISTHMUS_NVML");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)
    throw InputError(fmt::format("ISTHMUS_NVML is '{}', which cannot be loaded ({}); name NVML's library, or unset it",
                                 path, dlerror()));
  dlclose(library);
}

/// Ranks that have not joined yet have the same arguments and fail alike: the first speaks for all, and its code
/// counts. A launcher that sees another one end badly might kill it before it has spoken.
int fail(std::string_view sentence, int code) {
  if (launched().rank > 0) return exit_code::passed;
  say(sentence);
  return code;
}

/// A standard stream that was closed would be the next file that is opened: a table would go into the records. It is
/// opened the other way round, so that it still cannot be read or written.
void keep_standard_streams_apart() {
  for (const int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) == -1) open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

/// What was printed has to be where it was sent.
int shown(int code) {
  const int error = output_error();
  if (error == 0) return code;
  return std::max(
      code, fail(fmt::format("standard output could not be written ({}); send it elsewhere", std::strerror(error)),
                 exit_code::failed));
}

/// What is wrong with the words of the command line, with the name that was probably meant.
std::string problem(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  const std::string command = argc > 1 ? argv[1] : "";
  const CLI::App* chosen = nullptr;
  std::vector<std::string> commands;
  for (const auto* each : app.get_subcommands({})) {
    commands.push_back(each->get_name());
    if (each->get_name() == command) chosen = each;
  }
  if (chosen == nullptr && !command.empty() && command[0] != '-') {
    return fmt::format("there is no command '{}'; {}", command, suggestion(command, commands));
  }
  for (int i = 2; chosen != nullptr && i < argc; ++i) {
    const std::string word = argv[i], option = word.substr(0, word.find('='));
    if (!option.starts_with("--") || option == "--" || chosen->get_option_no_throw(option) != nullptr) continue;
    std::vector<std::string> options;
    for (const auto* each : chosen->get_options()) {
      for (const auto& name : each->get_lnames()) options.push_back("--" + name);
    }
    return fmt::format("{} has no option '{}'; {}", command, option, suggestion(option, options));
  }
  std::string sentence = error.what();
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
  if (error.get_name() == "ArgumentMismatch") {
    const bool missing = sentence.find("missing") != std::string::npos;
    sentence = fmt::format("{} takes {}", sentence.substr(0, sentence.find(':')),
                           missing ? "a value, and has none" : "one value, and was given several");
  }
  return sentence + "; see isthmus-bench --help";
}

/// What `run` was given, before it is looked at.
struct RunWords {
  NumberTexts numbers;
  std::vector<std::string> modes, placements, stagings, sizes, observers;
};

void add_run(CLI::App& app, SessionOptions& options, RunWords& words) {
  auto* measure = app.add_subcommand("run", "Measure, and append one record per case");
  measure->footer(kRunExamples);
  measure->add_option("PATTERN", options.texts.patterns, "Globs on workload names")->required();
  measure->add_option("--mode", words.modes, "Aliases of placement and staging (default baseline)");
  measure->add_option("--placement", words.placements, "Placements, comma list or all");
  measure->add_option("--staging", words.stagings, "Stagings, comma list or all");
  measure->add_option("--size", words.sizes, "Sizes tiny...mega, comma list or all (default small)");
  measure->add_option("--set", options.texts.settings, "Axis: threads=64,128 bytes=4KiB n=all; repeatable");
  measure->add_flag("--size-sweep", options.texts.size_sweep, "All sizes that the workloads list for a sweep");
  measure->add_option("--preset", options.texts.preset, "Geometry of a paper's figure");
  measure->add_option("--observe", words.observers, "uvm, uvm_faults, uvm_brief, uvm_batches (docs/uvm.md)");
  measure->add_option("--oversubscribe", words.numbers.oversubscribe,
                      "Managed bytes over the GPU's free ones, as 1.25");
  measure->add_flag("--allow-oversubscription", options.oversubscription.allowed, "Nobody else uses this host");
  measure->add_option("--hang-after", words.numbers.hang_after, "Seconds without progress that end such a run");
  measure->add_option("--samples", words.numbers.samples, "Exactly N samples (default: adaptive, at most 30)");
  measure->add_option("--min-time", words.numbers.least_time, "Seconds of sampling at least (adaptive)");
  measure->add_option("--warmups", words.numbers.warmups, "Warm-up passes (default 2; none when emulated)");
  measure->add_option("--processes", words.numbers.processes, "Repeat in N fresh processes");
  measure->add_option("--budget", words.numbers.budget, "Seconds per case (default 120 when adaptive)");
  measure->add_option("--chunks", words.numbers.chunks, "Chunks of placement streamed (default 16)");
  measure->add_option("--record", options.record, "File to append to");
  measure->add_option("--device", options.device, "Index or UUID (default 0)");
  measure->add_option("--numa", words.numbers.numa, "NUMA node of host memory (default: the device's)");
  measure->add_option("--seed", words.numbers.seed, "Seed of the inputs (default 42)");
  measure->add_flag_callback(
      "--no-latch", [&options] { options.sampling.latch = false; }, "Do not hold the stream until all is queued");
  measure->add_option("--latch-timeout", words.numbers.latch_timeout,
                      "Seconds after which a held stream goes on (default 5)");
  measure->add_flag("--dry-run", options.dry_run, "Say what would run, how large and how long it is");
  measure->add_flag("--resume", options.resume, "Leave out cases that the record file holds already");
  measure->add_flag("--table", options.table, "Print medians at the end");
  measure->add_flag("--quiet", options.quiet, "Print failures only");
}

/// The options of `run` that were given.
std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> given;
  for (const auto* option : app.get_subcommand("run")->get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty()) given.push_back("--" + option->get_lnames().front());
  }
  return given;
}

/// A setting that would be cut short without a word. `least_time` and `budget`: seconds.
void check_times(const SamplingOptions& sampling) {
  const double budget = sampling.budget.value_or(SamplingOptions::kDefaultBudget);
  if (sampling.least_time && *sampling.least_time > budget)
    throw InputError(
        fmt::format("--min-time {:g} is more than the {:g} s that a case may take {}; give a larger "
                    "--budget",
                    *sampling.least_time, budget, sampling.budget ? "by --budget" : "without --budget"));
}

/// What the words mean. Throws InputError.
void read_words(const RunWords& words, SessionOptions& options) {
  options.texts.modes = flatten(words.modes, "--mode");
  options.texts.placements = flatten(words.placements, "--placement");
  options.texts.stagings = flatten(words.stagings, "--staging");
  options.texts.sizes = flatten(words.sizes, "--size");
  options.observers = flatten(words.observers, "--observe");
  apply_numbers(words.numbers, options);
  check_times(options.sampling);
}

int run(CLI::App& app, int argc, char** argv) {
  app.require_subcommand(1);
  app.footer(kExamples);
  app.get_formatter()->column_width(26);  // for lines of at most 80 columns
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", [] { return "isthmus-bench " + version_text(); }, "Show which program this is");

  std::string pattern = "*";
  bool as_json = false;
  auto* list = app.add_subcommand("list", "Show workloads and what can be varied");
  list->add_option("PATTERN", pattern, "Glob on workload names")->capture_default_str();
  list->add_flag("--json", as_json, "Print JSON");
  auto* about = app.add_subcommand("info", "Show devices, host and build");
  about->add_flag("--json", as_json, "Print JSON");

  SessionOptions options;
  RunWords words;
  add_run(app, options, words);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& shown) {  // --help
    std::ostringstream text, errors;
    const int code = app.exit(shown, text, errors);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    return fail(problem(app, argc, argv, error), exit_code::bad_input);
  }

  note_unread_variables();
  apply_injection();
  check_nvml();
  if (list->parsed()) {
    print(as_json ? list_json(pattern) + "\n" : list_text(pattern));
    return exit_code::passed;
  }
  if (about->parsed()) {
    const auto found = info();
    print(as_json ? found.json + "\n" : found.text);
    if (!found.problem.empty()) return fail(found.problem, exit_code::failed);
    return exit_code::passed;
  }
  options.given = given_options(app);
  read_words(words, options);
  options.command.assign(argv, argv + argc);
  return run_session(options);
}

}  // namespace

int command_line(int argc, char** argv) {
  if (const auto code = run_as_watchdog()) return *code;
  if (const auto code = run_as_fresh_process()) return *code;
  keep_standard_streams_apart();
  ignore_broken_pipes();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is then a failure to write, with its sentence
  CLI::App app(kDescription, "isthmus-bench");
  try {
    return shown(run(app, argc, argv));
  } catch (const std::exception& error) {
    return shown(fail(sentence_of(error), exit_code_of(error)));
  }
}

}  // namespace isthmus::harness
