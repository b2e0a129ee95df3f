// What a workload is asked for, and what it declares.

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/measure/inputs/inputs.hpp"
#include "harness/measure/passes/case_state.hpp"
#include "harness/measure/passes/measurement.hpp"

namespace isthmus::workload {

using namespace harness;

// --- what was asked for ------------------------------------------------------------------------------

std::int64_t Case::integer(std::string_view axis) const {
  state_.consult(axis);
  return state_.spec.integer(axis);
}

std::size_t Case::extent(std::string_view axis) const {
  const auto number = integer(axis);
  if (number < 1)
    throw Skip(fmt::format("axis {} is {}, and this case counts with it: it must be at least 1", axis, number),
               SkipKind::not_applicable);
  return static_cast<std::size_t>(number);
}

std::string_view Case::choice(std::string_view axis) const {
  state_.consult(axis);
  return state_.spec.choice(axis);
}

memory::Placement Case::placement() const {
  if (!state_.spec.placement)
    throw std::logic_error(state_.spec.workload->name() + " is registered without placements");
  return *state_.spec.placement;
}

Staging Case::staging() const {
  if (!state_.spec.staging) throw std::logic_error(state_.spec.workload->name() + " is registered without stagings");
  return *state_.spec.staging;
}

std::uint64_t Case::seed() const {
  state_.consult("--seed");
  return state_.seed;
}

const device::DeviceInfo& Case::device() const {
  if (!state_.device_info) throw Skip("there is no device");
  return *state_.device_info;
}

const InputFile& Case::input_file() {
  if (state_.file) return *state_.file;
  auto file = open_input_file(state_.spec);
  const auto& known = state_.result.input_file;
  if (!state_.footprint_only && (!known || known->sha256 != file.sha256()))
    throw std::runtime_error(
        fmt::format("the file {} changed while it was read; run again once nobody writes it", file.path()));
  return state_.file.emplace(std::move(file));
}

bool Case::oversubscribed() const {
  return state_.spec.oversubscribed.has_value();
}

device::Stream& Case::stream() {
  if (!state_.stream) state_.stream.emplace();
  return *state_.stream;
}

// --- declarations ------------------------------------------------------------------------------------

std::size_t Case::declare_buffer(memory::BufferSpec spec, std::size_t element_bytes, const Shape& shape, Fill fill,
                                 bool whole) {
  if (state_.measured) throw std::logic_error("buffer " + spec.name + " is declared after measure()");
  for (const auto& other : state_.buffers) {
    if (other.spec.name == spec.name)
      throw std::logic_error("two buffers are named " + spec.name +
                             ": checksums and messages could not tell them apart");
  }
  if (spec.bytes == 0) throw Skip("buffer " + spec.name + " would be empty", SkipKind::not_applicable);
  if (spec.role == memory::Role::source && !placement()->two_memories())
    throw Skip(
        fmt::format("buffer {} is copied to the device part by part, and placement {} copies nothing: choose one "
                    "with memory on both sides, such as pinned",
                    spec.name, name(placement())),
        SkipKind::not_applicable);
  if (whole && shape.columns != shape.pitch)
    throw std::logic_error("buffer " + spec.name + " has padded rows: give a function of an element's number");
  state_.buffers.push_back({std::move(spec), element_bytes, shape, std::move(fill), whole});
  return state_.buffers.size() - 1;
}

const BufferAddresses& Case::addresses() const {
  return state_;
}

std::function<const void*()> Case::share(std::string name, std::size_t bytes, Make make) {
  for (const auto& other : state_.shared_inputs) {
    if (other.name == name)
      throw std::logic_error("two shared inputs are named " + name + ": the second would be given the first");
  }
  const auto made = std::make_shared<std::shared_ptr<const void>>();
  const auto get = [this, made, name, make = std::move(make)]() -> const void* {
    if (*made) return made->get();
    if (state_.footprint_only && state_.set) throw FootprintKnown{};
    if (state_.footprint_only)
      throw std::logic_error(name + " is looked at before measure(): its size must follow from the axes");
    const Watched making(state_, "shared", Part::inputs);
    *made = shared_input(state_.inputs_name(), name, make);
    return made->get();
  };
  state_.shared_inputs.push_back({std::move(name), bytes, get});
  if (state_.measured) get();  // declared after measuring: checks look from several threads
  return get;
}

void Case::add_file_reader(std::vector<std::size_t> buffers, std::function<ReadRow()> open) {
  if (state_.measured) throw std::logic_error("reads_file() comes before measure()");
  if (!state_.file) throw std::logic_error("reads_file() is for a case that has asked for its input_file()");
  state_.file_reader = {std::move(buffers), std::move(open)};
}

std::size_t Case::unpadded(std::size_t buffer) const {
  return state_.buffers.at(buffer).elements();
}

const std::string& Case::name_of(std::size_t buffer) const {
  return state_.buffers.at(buffer).spec.name;
}

void Case::chunks(std::size_t units) {
  if (state_.measured) throw std::logic_error("chunks() comes before measure()");
  state_.chunk_units = units;
}

void Case::repeats(std::size_t n) {
  if (n < 1) throw std::logic_error("a body runs at least once");
  if (state_.measured) throw std::logic_error("repeats() comes before measure()");
  state_.repeats = n;
}

void Case::kernel(device::KernelInfo info, const device::LaunchShape& shape) {
  state_.result.kernels.push_back({.info = std::move(info), .shape = shape, .traffic = {}, .seconds = {}});
}

void Case::fallback(std::string reason) {
  state_.result.fallback = std::move(reason);
}

void Case::note(const std::string& name, std::string text) {
  state_.result.notes[name] = std::move(text);
}

void Case::warn(std::string code, std::string message) {
  state_.result.warn(std::move(code), std::move(message));
}

void Case::add_check(std::size_t buffer, bool floating, bool everything, Element element, Tolerance tolerance,
                     std::string method) {
  const auto& declared = state_.checked_buffer(buffer);
  ElementCheck check{declared.spec.name,
                     buffer,
                     declared.element_bytes,
                     floating,
                     everything,
                     declared.shape.columns,
                     declared.shape.pitch,
                     declared.elements(),
                     std::move(element),
                     tolerance,
                     std::move(method)};
  if (state_.measured && state_.set) {
    const Watched verifying(state_, "", Part::verifying);
    state_.verifier.check_fully(*state_.set, check);
  }
  state_.verifier.add(std::move(check));
}

void Case::add_same(std::size_t buffer) {
  const auto& declared = state_.checked_buffer(buffer);
  SameCheck check{declared.spec.name,     buffer,
                  declared.element_bytes, declared.shape.columns,
                  declared.shape.pitch,   declared.shape.rows,
                  state_.inputs_name(),   state_.spec.label()};
  state_.verifier.add(std::move(check));
}

void Case::verify(std::string method, const std::function<double()>& error, double tolerance) {
  OwnCheck check{std::move(method), error, tolerance};
  if (state_.measured || state_.sampled) {
    const Watched verifying(state_, "", Part::verifying);
    state_.verifier.check_own(check);
  }
  state_.verifier.add(std::move(check));
}

}  // namespace isthmus::workload
