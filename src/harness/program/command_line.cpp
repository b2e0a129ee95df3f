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
#include <memory>
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

constexpr std::size_t kHelpColumn = 28;  ///< column where descriptions begin in help, whose lines fit into 80 columns

constexpr const char* kDescription = "Measures how data moves between CPU and GPU memory.";

constexpr const char* kExamples = R"(  isthmus-bench list
  isthmus-bench run microbench/saxpy --size tiny --table
)";

constexpr const char* kListExamples = R"(  isthmus-bench list 'transfer/*'
  isthmus-bench list microbench/gemm --json
)";

constexpr const char* kRunExamples = R"(  isthmus-bench run microbench/saxpy --size tiny --table
  isthmus-bench run 'microbench/*' --mode all --size super --record super.jsonl
)";

constexpr const char* kFooter = R"(Options of a command: isthmus-bench run --help

Exit codes: 0 all passed or skipped; 1 a case failed or there is no device;
2 bad input, before any work; 3 interrupted or device lost, records are on disk.)";

constexpr const char* kRunFooter = R"(More examples:
  isthmus-bench run microbench/gemm --placement pinned,managed --dry-run
  isthmus-bench run microbench/saxpy --set threads=256,512 --processes 3
  isthmus-bench run transfer/pinned-gpu0/ce --set bytes=4KiB,1MiB --table

Modes: baseline async uvm uvm_async pm pm_async, or all.

Environment:
  ISTHMUS_RESULTS           Folder of records
  ISTHMUS_HOST_MEMORY       Bytes that may be used, such as 8GiB
  ISTHMUS_SYSTEM            System's name in records
  ISTHMUS_PARTITION         Partition's name in records
  ISTHMUS_PROFILER          Profiler's name in records; also turns latches and
                            batches off and names phases for the profiler
  ISTHMUS_UVM               force: --observe uvm on any driver branch
  ISTHMUS_GRAPH             File of graph=file
  ISTHMUS_INJECT            Faults to inject (tests)
  ISTHMUS_EMULATOR          Settings of the emulator (tests))";

/// Formatter of help with examples below the usage line.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(const char* examples) : examples_(examples) { column_width(kHelpColumn); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return CLI::Formatter::make_usage(app, std::move(name)) + "\nExamples:\n" + examples_;
  }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const auto text = CLI::Formatter::make_help(app, std::move(name), mode);
    return CLI::detail::find_and_replace(text, "\n\n\n", "\n\n");  // leaves one empty line between groups
  }

 private:
  const char* examples_;
};

/// Returns the values of comma-separated lists, one list for each occurrence of the option.
std::vector<std::string> flatten(const std::vector<std::string>& lists, std::string_view option) {
  std::vector<std::string> values;
  for (const auto& list : lists) {
    for (auto& value : split(list, ',')) {
      if (value.empty()) throw InputError(fmt::format("{} contains an empty name: '{}'", option, list));
      values.push_back(std::move(value));
    }
  }
  return values;
}

/// Texts of the numeric options. They are parsed here, so that errors are reported in this project's wording.
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
    throw InputError("--latch-timeout needs the latch, which --no-latch turns off; give one of them");
  if (sampling.samples && sampling.least_time)
    throw InputError("--samples and --min-time both determine when sampling stops; give one of them");
}

/// Reports misspelt variables, which would have no effect. Only one process of a run does so.
void note_unread_variables() {
  if (child_role() || launched().rank > 0) return;
  if (const auto sentence = unread_variables_sentence(); !sentence.empty()) say(sentence);
}

/// Applies ISTHMUS_INJECT, and checks it before any work.
void apply_injection() {
  const char* text = std::getenv("ISTHMUS_INJECT");
  if (text == nullptr || *text == '\0') return;
  try {
    device::set_injection(text);
  } catch (const std::invalid_argument& error) {
    throw InputError(error.what());
  }
}

/// Refuses a library named by ISTHMUS_NVML that cannot be loaded, because it would silently leave facts out of the
/// records.
void check_nvml() {
  const char* path = std::getenv("ISTHMUS_NVML");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)
    throw InputError(fmt::format(
        "ISTHMUS_NVML is '{}', which cannot be loaded ({}); set it to NVML's library, or unset it", path, dlerror()));
  dlclose(library);
}

/// Reports a failure and returns the exit code. Ranks that have not joined yet have the same arguments and fail in the
/// same way, so only the first reports it and returns `code`. The others return success, because a launcher that sees
/// one of them fail might kill the first before it has reported.
int fail(std::string_view sentence, int code) {
  if (launched().rank > 0) return exit_code::passed;
  say(sentence);
  return code;
}

/// Opens standard streams that are closed, because otherwise the next opened file would get their descriptor and a
/// printed table would go into the records. They are opened in the wrong direction, so that they still cannot be read
/// or written.
void keep_standard_streams_apart() {
  for (const int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) == -1) open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

/// Returns `code`, or an error code if the printed text did not arrive.
int shown(int code) {
  const int error = output_error();
  if (error == 0) return code;
  return std::max(
      code, fail(fmt::format("standard output could not be written ({}); send it elsewhere", std::strerror(error)),
                 exit_code::failed));
}

/// Returns a sentence about the error in the command line, with the name that was probably meant.
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
                           missing ? "a value, but was given none" : "one value, but was given several");
  }
  return sentence + "; see isthmus-bench --help";
}

/// Options of `run` as typed, not yet parsed.
struct RunWords {
  NumberTexts numbers;
  std::vector<std::string> modes, placements, stagings, sizes, observers;
};

/// Adds options that select what is measured, and where.
void add_selection(CLI::App& run, SessionOptions& options, RunWords& words) {
  run.add_option("PATTERN", options.texts.patterns, "Globs on workload names")->required()->option_text("...");
  run.option_defaults()->group("What to measure");
  run.add_option("--size", words.sizes, "Sizes tiny...mega, or all (default small)")->option_text("LIST");
  run.add_option("--mode", words.modes, "Modes, or all (default baseline)")->option_text("LIST");
  run.add_option("--set", options.texts.settings, "Axis: threads=64,128 bytes=4KiB n=all; repeatable")
      ->option_text("AXIS=LIST");
  run.add_option("--placement", words.placements, "Placements, or all")->option_text("LIST");
  run.add_option("--staging", words.stagings, "Stagings, or all")->option_text("LIST");
  run.add_option("--preset", options.texts.preset, "Settings of a published figure")->option_text("NAME");
  run.add_flag("--size-sweep", options.texts.size_sweep, "All sizes that the workloads list for a sweep");
  run.add_option("--chunks", words.numbers.chunks, "Chunks of placement streamed (default 16)")->option_text("N");
  run.add_option("--seed", words.numbers.seed, "Seed of the inputs (default 42)")->option_text("N");
  run.option_defaults()->group("Where");
  run.add_option("--device", options.device, "Index or UUID of the GPU (default 0)")->option_text("GPU");
  run.add_option("--numa", words.numbers.numa, "NUMA node of host memory (default: the device's)")->option_text("N");
}

/// Adds options that determine how long a case is measured.
void add_durations(CLI::App& run, RunWords& words) {
  run.option_defaults()->group("How long");
  run.add_option("--samples", words.numbers.samples, "Exactly N samples (default: adaptive, at most 30)")
      ->option_text("N");
  run.add_option("--budget", words.numbers.budget, "Limit for a case (default 120 when adaptive)")
      ->option_text("SECONDS");
  run.add_option("--processes", words.numbers.processes, "Repeat in N fresh processes")->option_text("N");
  run.add_option("--warmups", words.numbers.warmups, "Warm-up passes (default 2; none when emulated)")
      ->option_text("N");
  run.add_option("--min-time", words.numbers.least_time, "Sample at least this long (adaptive)")
      ->option_text("SECONDS");
}

/// Adds options for output, for doubts about figures, and for runs that may hang the machine.
void add_output(CLI::App& run, SessionOptions& options, RunWords& words) {
  run.option_defaults()->group("Output");
  run.add_flag("--table", options.table, "Print medians at the end");
  run.add_option("--record", options.record, "File to append records to")->option_text("FILE");
  run.add_flag("--resume", options.resume, "Skip cases that are already in the record file");
  run.add_flag("--quiet", options.quiet, "Print failures only");
  run.add_flag("--dry-run", options.dry_run, "Print the cases, their memory and time; run nothing");
  run.option_defaults()->group("Diagnostics");
  run.set_help_flag("-h,--help", "Show this help");
  run.add_option("--observe", words.observers, "Page faults: uvm, uvm_faults, uvm_brief, uvm_batches")
      ->option_text("LIST");
  run.add_flag_callback(
      "--no-latch", [&options] { options.sampling.latch = false; }, "Let work start while more is being queued");
  run.add_option("--latch-timeout", words.numbers.latch_timeout, "When a held stream continues (default 5)")
      ->option_text("SECONDS");
  run.option_defaults()->group("Oversubscription (can hang the machine; see docs/uvm.md)");
  run.add_option("--oversubscribe", words.numbers.oversubscribe, "Managed bytes / free bytes of the GPU, such as 1.25")
      ->option_text("RATIO");
  run.add_flag("--allow-oversubscription", options.oversubscription.allowed, "Confirm that nobody else uses this host");
  run.add_option("--hang-after", words.numbers.hang_after, "End such a run after this long without progress")
      ->option_text("SECONDS");
}

void add_run(CLI::App& app, SessionOptions& options, RunWords& words) {
  auto* run = app.add_subcommand("run", "Measure, and append one record per case");
  run->formatter(std::make_shared<HelpFormatter>(kRunExamples));
  run->footer(kRunFooter);
  add_selection(*run, options, words);
  add_durations(*run, words);
  add_output(*run, options, words);
}

/// Returns the options of `run` that were given.
std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> given;
  for (const auto* option : app.get_subcommand("run")->get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty()) given.push_back("--" + option->get_lnames().front());
  }
  return given;
}

/// Refuses a --min-time that the budget would silently cut short.
void check_times(const SamplingOptions& sampling) {
  const double budget = sampling.budget.value_or(SamplingOptions::kDefaultBudget);
  if (sampling.least_time && *sampling.least_time > budget)
    throw InputError(fmt::format("--min-time {:g} exceeds the {:g} s that a case may take {}; give a larger --budget",
                                 *sampling.least_time, budget, sampling.budget ? "by --budget" : "without --budget"));
}

/// Parses the words into `options`. Throws InputError.
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
  app.get_formatter()->column_width(kHelpColumn);
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", [] { return "isthmus-bench " + version_text(); }, "Show the program's version");

  std::string pattern = "*";
  bool as_json = false;
  auto* list = app.add_subcommand("list", "Show workloads and what can be varied");
  list->add_option("PATTERN", pattern, "Glob on workload names (default *)")->type_name("");
  list->add_flag("--json", as_json, "Print JSON");
  list->formatter(std::make_shared<HelpFormatter>(kListExamples));
  auto* about = app.add_subcommand("info", "Show devices, host and build");
  about->add_flag("--json", as_json, "Print JSON");

  SessionOptions options;
  RunWords words;
  add_run(app, options, words);
  app.formatter(std::make_shared<HelpFormatter>(kExamples));
  app.footer(kFooter);  // set after the subcommands, which would inherit it

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
  std::signal(SIGXFSZ, SIG_IGN);  // writes beyond the file size limit then fail, and that is reported
  CLI::App app(kDescription, "isthmus-bench");
  try {
    return shown(run(app, argc, argv));
  } catch (const std::exception& error) {
    return shown(fail(sentence_of(error), exit_code_of(error)));
  }
}

}  // namespace isthmus::harness
