// Graphs: work that was submitted to a stream during a capture and later runs as one item.

#include <mutex>

#include "emulator/stream.hpp"

namespace emulator {

struct Graph::Nodes {
  std::vector<StreamState::Work> works;
};

/// Nodes of a launched graph, kept until they have run, even if the ExecutableGraph no longer exists.
struct ExecutableGraph::Executable {
  std::shared_ptr<const Graph::Nodes> nodes;
  std::mutex running;  // a graph never runs concurrently with itself, no matter on which streams it is launched
};

Graph::Graph(Stream& stream, const std::function<void()>& queue) {
  StreamState& state = outside_capture(stream, "graph_create");
  state.begin_capture();
  try {
    queue();
  } catch (...) {
    state.end_capture();
    throw;
  }
  nodes_ = std::make_shared<const Nodes>(Nodes{state.end_capture()});
}

std::size_t Graph::nodes() const {
  return nodes_->works.size();
}

ExecutableGraph::ExecutableGraph(const Graph& graph) : executable_(std::make_shared<Executable>()) {
  executable_->nodes = graph.nodes_;
}

void ExecutableGraph::launch(Stream& stream) {
  StreamState& state = outside_capture(stream, "executable_graph_launch");
  state.submit([executable = executable_](const FaultPointer& fault) {
    const std::lock_guard lock(executable->running);
    FaultPointer met;
    for (const auto& work : executable->nodes->works) {
      if (met) break;
      met = work(fault);
    }
    return met;
  });
}

}  // namespace emulator
