// Streams, events and graphs on the emulator. Each handle points to an object of the emulator.

#include "device/host/emulated.hpp"

namespace isthmus::device {
namespace {

emulator::Event& of(const Event& event) {
  return *static_cast<emulator::Event*>(event.native_handle());
}
emulator::Graph& of(const Graph& graph) {
  return *static_cast<emulator::Graph*>(graph.native_handle());
}

}  // namespace

Stream::Stream() {
  handle_ = call("stream_create", [] { return new emulator::Stream; });
}

Stream::~Stream() {
  delete static_cast<emulator::Stream*>(handle_);
}

void Stream::synchronize() {
  call("stream_synchronize", [&] { device::of(*this).synchronize(); });
}

bool Stream::idle() {
  return call("stream_idle", [&] { return device::of(*this).idle(); });
}

void Stream::wait(const Event& event) {
  call("stream_wait", [&] { device::of(*this).wait(of(event)); });
}

Event::Event() {
  handle_ = call("event_create", [] { return new emulator::Event; });
}

Event::~Event() {
  delete static_cast<emulator::Event*>(handle_);
}

void Event::record(Stream& stream) {
  call("event_record", [&] { of(*this).record(device::of(stream)); });
}

void Event::synchronize() {
  call("event_synchronize", [&] { of(*this).synchronize(); });
}

bool Event::done() {
  return call("event_done", [&] { return of(*this).done(); });
}

double elapsed(const Event& begin, const Event& end) {
  return call("elapsed", [&] { return emulator::elapsed(of(begin), of(end)); });
}

double timer_tick() noexcept {
  return 1e-9;
}

Graph::Graph(Stream& stream, const std::function<void()>& queue) {
  handle_ = call("graph_create", [&] { return new emulator::Graph(device::of(stream), queue); });
}

Graph::~Graph() {
  delete static_cast<emulator::Graph*>(handle_);
}

std::size_t Graph::nodes() const {
  return call("graph_nodes", [&] { return of(*this).nodes(); });
}

ExecutableGraph::ExecutableGraph(const Graph& graph) {
  handle_ = call("executable_graph_create", [&] { return new emulator::ExecutableGraph(of(graph)); });
}

ExecutableGraph::~ExecutableGraph() {
  delete static_cast<emulator::ExecutableGraph*>(handle_);
}

void ExecutableGraph::launch(Stream& stream) {
  call("executable_graph_launch",
       [&] { static_cast<emulator::ExecutableGraph*>(handle_)->launch(device::of(stream)); });
}

}  // namespace isthmus::device
