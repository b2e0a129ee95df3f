// Graphs: what was submitted to a stream while it was captured, to be run as one piece of work.

#include <mutex>

#include "device/emulator/stream.hpp"
#include "device/injection.hpp"

namespace isthmus::device {
namespace {

using emulator::FaultPointer;
using emulator::StreamState;

using Nodes = std::vector<StreamState::Work>;

/// What has been launched is kept until it has run, whether or not its ExecutableGraph still is.
struct Executable {
  Nodes nodes;
  std::mutex running;  // one graph never runs beside itself, whatever streams it was launched in
};

const Nodes& nodes_of(const Graph& graph) {
  return *static_cast<const Nodes*>(graph.native_handle());
}

}  // namespace

Graph::Graph(Stream& stream, const std::function<void()>& queue) {
  injection_point("graph_create");
  StreamState& state = emulator::outside_capture(stream, "graph_create");
  state.begin_capture();
  try {
    queue();
  } catch (...) {
    state.end_capture();
    throw;
  }
  handle_ = new Nodes(state.end_capture());
}

Graph::~Graph() {
  delete static_cast<Nodes*>(handle_);
}

std::size_t Graph::nodes() const {
  injection_point("graph_nodes");
  return nodes_of(*this).size();
}

ExecutableGraph::ExecutableGraph(const Graph& graph) {
  injection_point("executable_graph_create");
  auto executable = std::make_shared<Executable>();
  executable->nodes = nodes_of(graph);
  handle_ = new std::shared_ptr<Executable>(std::move(executable));
}

ExecutableGraph::~ExecutableGraph() {
  delete static_cast<std::shared_ptr<Executable>*>(handle_);
}

void ExecutableGraph::launch(Stream& stream) {
  injection_point("executable_graph_launch");
  StreamState& state = emulator::outside_capture(stream, "executable_graph_launch");
  state.submit([executable = *static_cast<std::shared_ptr<Executable>*>(handle_)](const FaultPointer& fault) {
    const std::lock_guard lock(executable->running);
    FaultPointer met;
    for (auto node = executable->nodes.begin(); node != executable->nodes.end() && !met; ++node) met = (*node)(fault);
    return met;
  });
}

}  // namespace isthmus::device
