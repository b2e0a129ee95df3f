#include "harness/record/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <utility>

#include "build_info.hpp"
#include "harness/measure/results/statistics.hpp"
#include "harness/measure/watch/limits.hpp"
#include "harness/plan/modes.hpp"
#include "harness/plan/names.hpp"
#include "harness/record/facts_json.hpp"
#include "harness/record/host_facts.hpp"
#include "harness/record/job_allocation.hpp"
#include "harness/record/json_values.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

constexpr const char* kSchema = "isthmus.record/3";

json environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

/// Returns the environment variables that change the behaviour of a runtime, if they are set, with their values.
json settings_in_environment() {
  constexpr std::string_view kNames =
      "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING "
      "CUDA_MODULE_LOADING CUDA_FORCE_PTX_JIT CUDA_MANAGED_FORCE_DEVICE_ALLOC CUDA_SCALE_LAUNCH_QUEUES "
      "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUDA_MPS_PIPE_DIRECTORY CUDA_INJECTION64_PATH ROCR_VISIBLE_DEVICES "
      "HIP_VISIBLE_DEVICES HIP_LAUNCH_BLOCKING HIP_HOST_COHERENT HIP_FORCE_DEV_KERNARG AMD_SERIALIZE_KERNEL "
      "AMD_SERIALIZE_COPY GPU_MAX_HW_QUEUES GPU_ENABLE_PAL HSA_XNACK HSA_ENABLE_SDMA HSA_ENABLE_PEER_SDMA "
      "HSA_ENABLE_INTERRUPT HSA_FORCE_FINE_GRAIN_PCIE HSA_OVERRIDE_GFX_VERSION HSA_TOOLS_LIB GLIBC_TUNABLES "
      "LD_PRELOAD MALLOC_ARENA_MAX MALLOC_TOP_PAD_ MALLOC_MMAP_THRESHOLD_ MALLOC_PERTURB_";
  json settings = json::object();
  for (const auto& name : split(kNames, ' ')) {
    if (const char* value = std::getenv(name.c_str()); value != nullptr) settings[name] = value;
  }
  return settings;
}

std::string utc_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Returns the profiler, or else the requested observers. With either, times are not compared with references.
json watched_by(const CaseResult& result) {
  json profiler = environment({"ISTHMUS_PROFILER"});
  if (!profiler.is_null() || result.observed_by.empty()) return profiler;
  return fmt::format("{}", fmt::join(result.observed_by, "+"));
}

/// Words that the schema uses for the values of Stop; those for Verdict and SkipKind follow.
constexpr std::pair<Stop, std::string_view> kStops[] = {
    {Stop::interval, "interval"}, {Stop::samples, "samples"},         {Stop::budget, "budget"},
    {Stop::emulated, "emulated"}, {Stop::interrupted, "interrupted"}, {Stop::derived, "derived"},
    {Stop::single, "single"}};
constexpr std::pair<Verdict, std::string_view> kVerdicts[] = {{Verdict::pass, "pass"},
                                                              {Verdict::fail, "fail"},
                                                              {Verdict::not_applicable, "not_applicable"},
                                                              {Verdict::not_run, "not_run"}};
constexpr std::pair<SkipKind, std::string_view> kSkipKinds[] = {
    {SkipKind::unsupported, "unsupported"}, {SkipKind::memory, "memory"}, {SkipKind::not_applicable, "not_applicable"}};

std::string_view word(const auto& words, auto value) {
  for (const auto& [each, text] : words) {
    if (each == value) return text;
  }
  throw std::logic_error("a value has no word in the schema");
}

json skip_kind_json(const CaseResult& result) {
  if (!result.skipped) return nullptr;
  return result.over_budget ? json("budget") : json(word(kSkipKinds, result.skip_kind));
}

json metric_json(const Series& series) {
  const auto valid = series.valid();
  std::optional<double> middle;
  json metric = {{"name", series.name},
                 {"unit", series.unit},
                 {"better", !series.better                    ? json(nullptr)
                            : *series.better == Better::lower ? json("lower")
                                                              : json("higher")},
                 {"timer", series.timer},
                 {"direction", or_null(series.direction)},
                 {"bytes_needed", or_null(series.bytes_needed)},
                 {"bytes_moved", or_null(series.bytes_moved)},
                 {"samples", series.samples},
                 {"invalid", series.invalid},
                 {"median", nullptr},
                 {"mad", nullptr},
                 {"p05", nullptr},
                 {"p95", nullptr},
                 {"within_job", nullptr},
                 {"autocorrelation", nullptr},
                 {"batch", series.batch},
                 {"stop", word(kStops, series.stop)},
                 {"warmups", series.warmups},
                 {"limit", nullptr},
                 {"limit_reason", nullptr},
                 {"share", nullptr}};
  if (!valid.empty()) {
    middle = median(valid);
    metric["median"] = or_null(middle);
    metric["mad"] = or_null(median_absolute_deviation(valid));
    metric["p05"] = or_null(quantile(valid, 0.05));
    metric["p95"] = or_null(quantile(valid, 0.95));
    metric["autocorrelation"] = or_null(autocorrelation(valid));
    if (valid.size() >= 10 && !series.coarse) {
      const auto [low, high] = bootstrap_median_interval(valid);
      metric["within_job"] = {low, high};
    }
  }
  if (series.limit && series.limit->value > 0 && std::isfinite(series.limit->value)) {
    metric["limit"] = {{"value", series.limit->value}, {"unit", series.unit}, {"source", series.limit->source}};
    metric["share"] = or_null(share(series, middle));
  } else {
    metric["limit_reason"] =
        series.limit_reason.empty() ? "no hardware limit is known for this metric" : series.limit_reason;
  }
  return metric;
}

/// Returns the metrics in the order of measured_metrics(), followed by those that the workload defines.
std::vector<const Series*> ordered(const std::vector<Series>& metrics) {
  std::vector<const Series*> list;
  for (const auto& metric : metrics) list.push_back(&metric);
  const auto rank = [](const Series* metric) {
    const auto names = measured_metrics();
    return std::find(names.begin(), names.end(), metric->name) - names.begin();
  };
  std::stable_sort(list.begin(), list.end(), [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  return list;
}

json kernel_json(const WorkReport& report) {
  const auto& info = report.info;
  json kernel = {
      {"name", info.name},       {"kind", report.shape ? "kernel" : "library"}, {"registers", or_null(info.registers)},
      {"shared_bytes", nullptr}, {"local_bytes", or_null(info.local_bytes)},    {"occupancy", or_null(info.occupancy)}};
  const std::size_t dynamic = report.shape ? report.shape->shared_bytes : 0;
  if (info.static_shared_bytes) kernel["shared_bytes"] = *info.static_shared_bytes + dynamic;
  if (report.shape) {
    const auto extent = [](const device::Extent& e) { return json{e.x, e.y, e.z}; };
    kernel["grid"] = extent(report.shape->grid);
    kernel["block"] = extent(report.shape->block);
  }
  if (report.launches > 0) {
    kernel["launches"] = report.launches;
    kernel["seconds"] = or_null(report.seconds);
    kernel["timed"] = report.timed;
    kernel["bytes_read"] = report.traffic.bytes_read;
    kernel["bytes_written"] = report.traffic.bytes_written;
    kernel["flops"] = report.traffic.flops;
  }
  return kernel;
}

json warnings_json(const std::vector<Warning>& warnings) {
  json list = json::array();
  for (const auto& warning : warnings) {
    list.push_back({{"code", warning.code},
                    {"message", warning.message},
                    {"samples", warning.samples.empty() ? json(nullptr) : json(warning.samples)}});
  }
  return list;
}

json ranks_json(const RunIdentity& run) {
  json each = json::array();
  for (const auto& rank : run.ranks)
    each.push_back({{"node", rank.node},
                    {"local_rank", rank.local_rank},
                    {"device", or_null(rank.device)},
                    {"cpus", or_null(rank.cpus)}});
  return {{"count", run.ranks.size()}, {"library", run.ranks_library}, {"each", std::move(each)}};
}

json run_json(const RunIdentity& run, const CaseResult& result) {
  return {{"id", run.id},
          {"time", utc_time()},
          {"git", or_null(std::string(build_info::git))},
          {"dirty", or_null(build_info::dirty)},
          {"system", environment({"ISTHMUS_SYSTEM"})},
          {"partition", environment({"ISTHMUS_PARTITION"})},
          {"node", node_name()},
          {"job", environment({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})},
          {"allocation", allocation_json()},
          {"process", run.process},
          {"environment", settings_in_environment()},
          {"command", run.command},
          {"wall", or_null(result.wall)},
          {"overhead", or_null(result.wall - result.accounted)},
          {"process_wall", or_null(result.process_wall)},
          {"stolen_share", or_null(result.stolen_share)}};
}

json verify_json(const Verification& found) {
  json verify = {
      {"status", word(kVerdicts, found.verdict)}, {"method", or_null(found.method)}, {"error", or_null(found.error)},
      {"tolerance", or_null(found.tolerance)},    {"checked", found.checked},        {"detail", or_null(found.detail)}};
  if (!found.inputs.empty()) {
    verify["inputs"] = found.inputs;
    for (const auto& [buffer, sum] : found.checksums) verify["checksums"][buffer] = fmt::format("{:016x}", sum);
  }
  return verify;
}

}  // namespace

std::map<std::string, std::string> origin_of(const json& record) {
  std::map<std::string, std::string> origin;
  const auto take = [&](const char* word, const json& from, const char* field) {
    if (const auto found = from.find(field); found != from.end() && found->is_string()) origin[word] = *found;
  };
  take("node", record.at("run"), "node");
  take("commit", record.at("run"), "git");
  take("CPU", record.at("host"), "cpu");
  take("compiler", record.at("build"), "compiler");
  if (const auto& devices = record.at("devices"); !devices.empty()) {
    take("driver", devices.front(), "driver");
    take("runtime", devices.front(), "runtime");
  }
  return origin;
}

std::map<std::string, std::string> origin_here(const std::optional<device::DeviceInfo>& device) {
  json here{{"run", {{"node", node_name()}, {"git", or_null(std::string(build_info::git))}}},
            {"host", {{"cpu", host_facts().cpu}}},
            {"build", build_json()},
            {"devices", json::array()}};
  if (device) here["devices"].push_back({{"driver", or_null(device->driver)}, {"runtime", or_null(device->runtime)}});
  return origin_of(here);
}

std::string new_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

json record_json(const RunIdentity& run, const CaseResult& result, std::span<const TableFile> tables) {
  const auto& spec = result.spec;
  const Mode* mode = spec.placement && spec.staging ? find_mode(*spec.placement, *spec.staging) : nullptr;
  json record = case_json(spec, run.seed, result.chunks, result.input_file);
  record.update(
      {{"schema", kSchema},
       {"run", run_json(run, result)},
       {"devices", json::array()},
       {"host", host_json(result.numa_node)},
       {"build", build_json()},
       {"profiler", watched_by(result)},
       {"mode", mode != nullptr ? json(mode->name) : json(nullptr)},
       {"fallback", or_null(result.fallback)},
       {"submission",
        !result.submission ? json(nullptr) : json(*result.submission == Submission::graph ? "graph" : "stream")},
       {"host_turns", or_null(result.host_round_trips)},
       {"metrics", json::array()},
       {"kernels", json::array()},
       {"tables", json::array()},
       {"memory", {{"peak_host_bytes", nullptr}, {"peak_device_bytes", result.peak_device_bytes}}},
       {"verify", verify_json(result.verification)},
       {"warnings", warnings_json(result.warnings)},
       {"skipped", or_null(result.skipped)},
       {"skip_kind", skip_kind_json(result)},
       {"error", or_null(result.error)}});
  if (result.insufficient_memory)
    record["short_of"] = {
        {"memory", result.insufficient_memory->memory == InsufficientMemory::Memory::host ? "host" : "device"},
        {"needed", result.insufficient_memory->needed},
        {"free", result.insufficient_memory->free}};
  if (const auto& file = result.input_file)
    record["input_file"] = {{"name", file->name}, {"bytes", file->bytes}, {"sha256", file->sha256}};
  if (!run.ranks.empty()) record["ranks"] = ranks_json(run);
  if (!result.notes.empty()) record["notes"] = result.notes;
  if (const auto peak = memory::peak_resident_bytes()) record["memory"]["peak_host_bytes"] = *peak;
  if (result.device) record["devices"].push_back(device_json(*result.device, result.before, result.after));
  for (const auto& other : result.other_devices)
    record["devices"].push_back(device_json(other.info, other.before, other.after));
  for (const auto* metric : ordered(result.metrics)) {
    const bool finite =
        std::all_of(metric->samples.begin(), metric->samples.end(), [](double v) { return std::isfinite(v); });
    if (finite && !metric->samples.empty()) {
      record["metrics"].push_back(metric_json(*metric));
    } else {
      record["warnings"].push_back(
          {{"code", "not_finite"},
           {"message", "metric " + metric->name + " is left out, because one of its samples is not a number"},
           {"samples", nullptr}});
    }
  }
  for (const auto& kernel : result.kernels) record["kernels"].push_back(kernel_json(kernel));
  for (const auto& [table, columns, path, rows, hash] : tables)
    record["tables"].push_back(
        {{"name", table}, {"columns", columns}, {"file", path}, {"rows", rows}, {"sha256", hash}});
  return record;
}

}  // namespace isthmus::harness
