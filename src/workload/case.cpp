// Settings and declarations of a Case.

#include "workload/case.hpp"

#include <fmt/format.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "workload/registration.hpp"

namespace isthmus::workload {

// --- settings ----------------------------------------------------------------------------------------

std::int64_t Case::integer(std::string_view axis) const {
  host_.consult(axis);
  return host_.spec().integer(axis);
}

std::size_t Case::extent(std::string_view axis) const {
  const auto number = integer(axis);
  if (number < 1)
    throw Skip(fmt::format("axis {} is {}, but this case needs at least 1", axis, number), SkipKind::not_applicable);
  return static_cast<std::size_t>(number);
}

std::string_view Case::choice(std::string_view axis) const {
  host_.consult(axis);
  return host_.spec().choice(axis);
}

memory::Placement Case::placement() const {
  if (!host_.spec().placement)
    throw std::logic_error(host_.spec().workload->name() + " is registered without placements");
  return *host_.spec().placement;
}

Staging Case::staging() const {
  if (!host_.spec().staging) throw std::logic_error(host_.spec().workload->name() + " is registered without stagings");
  return *host_.spec().staging;
}

std::uint64_t Case::seed() const {
  host_.consult("--seed");
  return host_.seed();
}

const device::DeviceInfo& Case::device() const {
  const auto* device = host_.device();
  if (device == nullptr) throw Skip("there is no device");
  return *device;
}

const InputFile& Case::input_file() {
  return host_.input_file();
}

bool Case::oversubscribed() const {
  return host_.spec().oversubscribed.has_value();
}

// --- declarations ------------------------------------------------------------------------------------

std::size_t Case::declare_buffer(DeclaredBuffer buffer) {
  const auto& asked = buffer.spec;
  auto& buffers = host_.declarations().buffers;
  if (host_.measured()) throw std::logic_error("buffer " + asked.name + " is declared after measure()");
  for (const auto& other : buffers) {
    if (other.spec.name == asked.name)
      throw std::logic_error("two buffers are named " + asked.name +
                             ": checksums and messages could not tell them apart");
  }
  if (asked.bytes == 0) throw Skip("buffer " + asked.name + " would be empty", SkipKind::not_applicable);
  if (asked.role == memory::Role::host_source && !placement()->two_memories())
    throw Skip(fmt::format("buffer {} is copied to the device in parts, but placement {} copies nothing: choose one "
                           "with memory on both sides, such as pinned",
                           asked.name, name(placement())),
               SkipKind::not_applicable);
  if (buffer.whole && buffer.shape.columns != buffer.shape.pitch)
    throw std::logic_error("buffer " + asked.name + " has padded rows: pass a function of an element's index");
  buffers.push_back(std::move(buffer));
  return buffers.size() - 1;
}

const BufferAddresses& Case::addresses() const {
  return host_.addresses();
}

std::function<const void*()> Case::share(std::string name, std::size_t bytes, MakeShared make) {
  auto& inputs = host_.declarations().shared_inputs;
  for (const auto& other : inputs) {
    if (other.name == name)
      throw std::logic_error("two shared inputs are named " + name +
                             ": the second would get the contents of the first");
  }
  const auto made = std::make_shared<std::shared_ptr<const void>>();
  const auto get = [&host = host_, made, name, make = std::move(make)]() -> const void* {
    if (!*made) *made = host.shared_input(name, make);
    return made->get();
  };
  inputs.push_back({std::move(name), bytes, get});
  if (host_.measured()) get();  // made now, because checks access it from several threads
  return get;
}

void Case::add_file_reader(std::vector<std::size_t> buffers, std::function<ReadRow()> open) {
  if (host_.measured()) throw std::logic_error("reads_file() comes before measure()");
  if (!host_.declarations().file) throw std::logic_error("reads_file() needs a case that has called input_file()");
  host_.declarations().file_reader = {std::move(buffers), std::move(open)};
}

std::size_t Case::unpadded(std::size_t buffer) const {
  return host_.declarations().buffers.at(buffer).elements();
}

const std::string& Case::name_of(std::size_t buffer) const {
  return host_.declarations().buffers.at(buffer).spec.name;
}

void Case::chunks(std::size_t units) {
  if (host_.measured()) throw std::logic_error("chunks() comes before measure()");
  host_.declarations().chunk_units = units;
}

void Case::repeats(std::size_t n) {
  if (n < 1) throw std::logic_error("a body must run at least once");
  if (host_.measured()) throw std::logic_error("repeats() comes before measure()");
  host_.declarations().repeats = n;
}

void Case::kernel(device::KernelInfo info, const device::LaunchShape& shape) {
  host_.kernel(std::move(info), shape);
}

void Case::fallback(std::string reason) {
  host_.fallback(std::move(reason));
}

void Case::note(const std::string& name, std::string text) {
  host_.note(name, std::move(text));
}

void Case::warn(std::string code, std::string message) {
  host_.warn(std::move(code), std::move(message));
}

// --- checks ------------------------------------------------------------------------------------------

namespace {

/// Returns the buffer's declaration; throws std::logic_error if it is on the device only.
const DeclaredBuffer& checked(CaseHost& host, std::size_t buffer) {
  const auto& declared = host.declarations().buffers.at(buffer);
  if (declared.spec.role == memory::Role::scratch)
    throw std::logic_error(
        "buffer " + declared.spec.name +
        " is on the device only, so no check can read it: make it an output, or read it in the body");
  return declared;
}

}  // namespace

void Case::add_check(std::size_t buffer, bool floating, bool everything, Element element, Tolerance tolerance,
                     std::string method) {
  const auto& declared = checked(host_, buffer);
  host_.add(ElementCheck{declared.spec.name, buffer, declared.element_bytes, floating, everything,
                         declared.shape.columns, declared.shape.pitch, declared.elements(), std::move(element),
                         tolerance, std::move(method)});
}

void Case::add_same(std::size_t buffer) {
  const auto& declared = checked(host_, buffer);
  const auto& [rows, columns, pitch] = declared.shape;
  host_.add(SameCheck{declared.spec.name, buffer, declared.element_bytes, columns, pitch, rows});
}

void Case::verify(std::string method, const std::function<double()>& error, double tolerance) {
  host_.add(OwnCheck{std::move(method), error, tolerance});
}

// --- measuring ---------------------------------------------------------------------------------------

void Case::measure(Control control, std::function<void(Run&)> body, const PagedBuffers& buffers) {
  if (host_.measured()) throw std::logic_error("a case can be measured only once");
  host_.measure(control, std::move(body), buffers);
}

void Case::needs(std::size_t host_bytes, std::size_t device_bytes) {
  host_.needs(host_bytes, device_bytes);
}

void Case::report(Metric metric, double value) {
  metric.timer = "none";
  once(std::move(metric), value);
}

void Case::once(Metric metric, double value) {
  host_.once(std::move(metric), value);
}

device::Stream& Case::stream() {
  return host_.stream();
}

bool Case::emulated() const {
  return host_.emulated();
}

int Case::numa_node() const {
  return host_.numa_node();
}

Team& Case::team() {
  return host_.team();
}

}  // namespace isthmus::workload
