#include "harness/record/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "build_info.hpp"
#include "harness/measure/case_runner.hpp"
#include "harness/measure/limits.hpp"
#include "harness/measure/statistics.hpp"
#include "harness/plan/registry.hpp"
#include "harness/record/facts_json.hpp"
#include "harness/record/host_facts.hpp"
#include "harness/record/job_allocation.hpp"
#include "memory/host_memory.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

constexpr const char* kSchema = "isthmus.record/2";

json environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

/// Variables that change what a runtime does, as far as they are set.
json settings_in_environment() {
  constexpr std::array names{"CUDA_VISIBLE_DEVICES",
                             "CUDA_DEVICE_ORDER",
                             "CUDA_DEVICE_MAX_CONNECTIONS",
                             "CUDA_LAUNCH_BLOCKING",
                             "CUDA_MODULE_LOADING",
                             "CUDA_FORCE_PTX_JIT",
                             "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
                             "CUDA_SCALE_LAUNCH_QUEUES",
                             "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                             "CUDA_MPS_PIPE_DIRECTORY",
                             "CUDA_INJECTION64_PATH",
                             "ROCR_VISIBLE_DEVICES",
                             "HIP_VISIBLE_DEVICES",
                             "HIP_LAUNCH_BLOCKING",
                             "HIP_HOST_COHERENT",
                             "HIP_FORCE_DEV_KERNARG",
                             "AMD_SERIALIZE_KERNEL",
                             "AMD_SERIALIZE_COPY",
                             "GPU_MAX_HW_QUEUES",
                             "GPU_ENABLE_PAL",
                             "HSA_XNACK",
                             "HSA_ENABLE_SDMA",
                             "HSA_ENABLE_PEER_SDMA",
                             "HSA_ENABLE_INTERRUPT",
                             "HSA_FORCE_FINE_GRAIN_PCIE",
                             "HSA_OVERRIDE_GFX_VERSION",
                             "HSA_TOOLS_LIB",
                             "GLIBC_TUNABLES",
                             "LD_PRELOAD",
                             "MALLOC_ARENA_MAX",
                             "MALLOC_TOP_PAD_",
                             "MALLOC_MMAP_THRESHOLD_",
                             "MALLOC_PERTURB_"};
  json settings = json::object();
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr) settings[name] = value;
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

/// JSON has no NaN and no infinity.
json number_or_null(std::optional<double> value) {
  return value && std::isfinite(*value) ? json(*value) : json(nullptr);
}

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

/// A profiler, or an observer that was asked for: of either, times are held to no reference.
json watched_by(const CaseResult& result) {
  json profiler = environment({"ISTHMUS_PROFILER"});
  if (!profiler.is_null() || result.observed_by.empty()) return profiler;
  return fmt::format("{}", fmt::join(result.observed_by, "+"));
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::not_applicable:
      return "not_applicable";
    case Verdict::not_run:
      return "not_run";
  }
  return "";
}

std::string_view name(SkipKind kind) {
  switch (kind) {
    case SkipKind::unsupported:
      return "unsupported";
    case SkipKind::memory:
      return "memory";
    case SkipKind::not_applicable:
      return "not_applicable";
  }
  return "";
}

json axes_json(const CaseSpec& spec, std::optional<std::size_t> chunks) {
  json axes = json::object();
  for (const auto& [axis, value] : spec.axes) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      axes[axis] = *number;
    } else {
      axes[axis] = std::get<std::string>(value);
    }
  }
  if (chunks) axes["chunks"] = *chunks;
  return axes;
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
                 {"direction", text_or_null(series.direction)},
                 {"bytes_needed", number_or_null(series.bytes_needed)},
                 {"bytes_moved", number_or_null(series.bytes_moved)},
                 {"samples", series.samples},
                 {"invalid", series.invalid},
                 {"median", nullptr},
                 {"mad", nullptr},
                 {"p05", nullptr},
                 {"p95", nullptr},
                 {"within_job", nullptr},
                 {"autocorrelation", nullptr},
                 {"batch", series.batch},
                 {"stop", name(series.stop)},
                 {"warmups", series.warmups},
                 {"limit", nullptr},
                 {"limit_reason", nullptr},
                 {"share", nullptr}};
  if (!valid.empty()) {
    middle = median(valid);
    metric["median"] = number_or_null(middle);
    metric["mad"] = number_or_null(median_absolute_deviation(valid));
    metric["p05"] = number_or_null(quantile(valid, 0.05));
    metric["p95"] = number_or_null(quantile(valid, 0.95));
    metric["autocorrelation"] = number_or_null(autocorrelation(valid));
    if (valid.size() >= 10 && !series.coarse) {
      const auto [low, high] = bootstrap_median_interval(valid);
      metric["within_job"] = {low, high};
    }
  }
  if (series.limit && series.limit->value > 0 && std::isfinite(series.limit->value)) {
    metric["limit"] = {{"value", series.limit->value}, {"unit", series.unit}, {"source", series.limit->source}};
    metric["share"] = number_or_null(share(series, middle));
  } else {
    metric["limit_reason"] =
        series.limit_reason.empty() ? "no hardware limit is known for this metric" : series.limit_reason;
  }
  return metric;
}

/// The metrics in the order that measured_metrics() gives, a workload's own after them.
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
  json kernel = {{"name", info.name},
                 {"kind", report.shape ? "kernel" : "library"},
                 {"registers", info.registers ? json(*info.registers) : json(nullptr)},
                 {"shared_bytes", nullptr},
                 {"local_bytes", info.local_bytes ? json(*info.local_bytes) : json(nullptr)},
                 {"occupancy", number_or_null(info.occupancy)}};
  const std::size_t dynamic = report.shape ? report.shape->shared_bytes : 0;
  if (info.static_shared_bytes) kernel["shared_bytes"] = *info.static_shared_bytes + dynamic;
  if (report.shape) {
    const auto extent = [](const device::Extent& e) { return json{e.x, e.y, e.z}; };
    kernel["grid"] = extent(report.shape->grid);
    kernel["block"] = extent(report.shape->block);
  }
  if (report.launches > 0) {
    kernel["launches"] = report.launches;
    kernel["seconds"] = number_or_null(report.seconds);
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

std::string identity_text(const json& workload, const json& version, const json& placement, const json& staging,
                          const json& size, const json& preset, const json& axes, const json& seed, const json& process,
                          const json& emulated, const json& device, std::size_t ranks) {
  return json{workload, version, placement, staging, size, preset, axes, seed, process, emulated, device, ranks}.dump();
}

json ranks_json(const RunIdentity& run) {
  json each = json::array();
  for (const auto& rank : run.ranks)
    each.push_back({{"node", rank.node},
                    {"local_rank", rank.local_rank},
                    {"device", text_or_null(rank.device)},
                    {"cpus", text_or_null(rank.cpus)}});
  return {{"count", run.ranks.size()}, {"library", run.ranks_library}, {"each", std::move(each)}};
}

json run_json(const RunIdentity& run, const CaseResult& result) {
  return {{"id", run.id},
          {"time", utc_time()},
          {"git", text_or_null(std::string(build_info::git))},
          {"dirty", build_info::dirty ? json(*build_info::dirty) : json(nullptr)},
          {"system", environment({"ISTHMUS_SYSTEM"})},
          {"partition", environment({"ISTHMUS_PARTITION"})},
          {"node", node_name()},
          {"job", environment({"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})},
          {"allocation", allocation_json()},
          {"process", run.process},
          {"environment", settings_in_environment()},
          {"command", run.command},
          {"wall", number_or_null(result.wall)},
          {"overhead", number_or_null(result.wall - result.accounted)},
          {"process_wall", number_or_null(result.process_wall)}};
}

json verify_json(const Verification& found) {
  json verify = {{"status", name(found.verdict)},
                 {"method", text_or_null(found.method)},
                 {"error", number_or_null(found.error)},
                 {"tolerance", number_or_null(found.tolerance)},
                 {"checked", found.checked},
                 {"detail", text_or_null(found.detail)}};
  if (!found.inputs.empty()) {
    verify["inputs"] = found.inputs;
    for (const auto& [buffer, sum] : found.checksums) verify["checksums"][buffer] = fmt::format("{:016x}", sum);
  }
  return verify;
}

}  // namespace

std::string new_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

json record_json(const RunIdentity& run, const CaseResult& result, std::span<const TableFile> tables) {
  const auto& spec = result.spec;
  const auto& workload = *spec.workload;
  const Mode* mode = spec.placement && spec.staging ? find_mode(*spec.placement, *spec.staging) : nullptr;
  json record = {
      {"schema", kSchema},
      {"run", run_json(run, result)},
      {"devices", json::array()},
      {"host", host_json(result.numa_node)},
      {"build", build_json()},
      {"emulated", is_emulated(workload)},
      {"profiler", watched_by(result)},
      {"workload", workload.name()},
      {"version", workload.description().version},
      {"placement", spec.placement ? json(memory::name(*spec.placement)) : json(nullptr)},
      {"staging", spec.staging ? json(name(*spec.staging)) : json(nullptr)},
      {"mode", mode != nullptr ? json(mode->name) : json(nullptr)},
      {"fallback", result.fallback ? json(*result.fallback) : json(nullptr)},
      {"size", spec.size ? json(*spec.size) : json(nullptr)},
      {"preset", spec.preset ? json(*spec.preset) : json(nullptr)},
      {"axes", axes_json(spec, result.chunks)},
      {"seed", run.seed},
      {"submission",
       !result.submission ? json(nullptr) : json(*result.submission == Submission::graph ? "graph" : "stream")},
      {"host_turns", result.host_turns ? json(*result.host_turns) : json(nullptr)},
      {"metrics", json::array()},
      {"kernels", json::array()},
      {"tables", json::array()},
      {"memory", {{"peak_host_bytes", nullptr}, {"peak_device_bytes", result.peak_device_bytes}}},
      {"verify", verify_json(result.verification)},
      {"warnings", warnings_json(result.warnings)},
      {"skipped", result.skipped ? json(*result.skipped) : json(nullptr)},
      {"skip_kind", result.skipped ? json(name(result.skip_kind)) : json(nullptr)},
      {"error", result.error ? json(*result.error) : json(nullptr)}};
  if (result.shortage)
    record["short_of"] = {{"memory", result.shortage->memory == Shortage::Memory::host ? "host" : "device"},
                          {"needed", result.shortage->needed},
                          {"free", result.shortage->free}};
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
      record["warnings"].push_back({{"code", "not_finite"},
                                    {"message", "metric " + metric->name + " is left out: a sample of it is no number"},
                                    {"samples", nullptr}});
    }
  }
  for (const auto& kernel : result.kernels) record["kernels"].push_back(kernel_json(kernel));
  for (const auto& [table, columns, path, rows, hash] : tables)
    record["tables"].push_back(
        {{"name", table}, {"columns", columns}, {"file", path}, {"rows", rows}, {"sha256", hash}});
  return record;
}

json upgraded(json record) {
  if (record.value("schema", json()) != "isthmus.record/1") return record;
  record["schema"] = kSchema;
  record.emplace("submission", nullptr);
  record.emplace("host_turns", nullptr);
  record.emplace("tables", json::array());
  return record;
}

std::string case_identity(const json& record) {
  const auto& devices = record.at("devices");
  return identity_text(record.at("workload"), record.at("version"), record.at("placement"), record.at("staging"),
                       record.at("size"), record.at("preset"), record.at("axes"), record.at("seed"),
                       record.at("run").at("process"), record.at("emulated"),
                       devices.empty() ? json(nullptr) : devices.front().at("uuid"),
                       record.contains("ranks") ? record["ranks"].at("count").get<std::size_t>() : 1);
}

std::string case_identity(const RunIdentity& run, const CaseSpec& spec, const std::optional<device::DeviceInfo>& device,
                          std::size_t chunks) {
  const auto& description = spec.workload->description();
  const bool uses_device = device && !description.native;
  const bool streamed = spec.placement == memory::Placement::streamed;
  return identity_text(spec.workload->name(), description.version,
                       spec.placement ? json(memory::name(*spec.placement)) : json(nullptr),
                       spec.staging ? json(name(*spec.staging)) : json(nullptr),
                       spec.size ? json(*spec.size) : json(nullptr), spec.preset ? json(*spec.preset) : json(nullptr),
                       axes_json(spec, streamed ? std::optional(chunks) : std::nullopt), run.seed, run.process,
                       is_emulated(*spec.workload), uses_device ? text_or_null(device->uuid) : json(nullptr),
                       std::max<std::size_t>(run.ranks.size(), 1));
}

bool is_settled(const json& record) {
  if (!record.at("error").is_null()) return false;
  for (const auto& metric : record.at("metrics")) {
    if (metric.at("stop") == "interrupted") return false;
  }
  if (!record.at("skipped").is_null()) return record.value("skip_kind", json(nullptr)) != "memory";
  const auto& status = record.at("verify").at("status");
  return status == "pass" || status == "not_applicable";
}

}  // namespace isthmus::harness
