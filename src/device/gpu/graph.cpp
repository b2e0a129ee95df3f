// Work captured from a stream.

#include "device/gpu/check.hpp"

namespace isthmus::device {

using gpu::handle_of;

Graph::Graph(Stream& stream, const std::function<void()>& queue) {
  injection_point("graph_create");
  // In this mode, calls of other threads that a capture forbids, such as an allocation, neither fail nor invalidate the
  // capture.
  ISTHMUS_CALL("graph_create", StreamBeginCapture, handle_of(stream), ISTHMUS_GPU(StreamCaptureModeThreadLocal));
  gpu::NativeGraph graph = nullptr;
  try {
    queue();
  } catch (...) {
    // The capture ends no matter which status this returns; the exception being thrown is the error to report.
    static_cast<void>(ISTHMUS_GPU(StreamEndCapture)(handle_of(stream), &graph));
    if (graph != nullptr) static_cast<void>(ISTHMUS_GPU(GraphDestroy)(graph));
    static_cast<void>(ISTHMUS_GPU(GetLastError)());
    throw;
  }
  ISTHMUS_CALL("graph_create", StreamEndCapture, handle_of(stream), &graph);
  handle_ = graph;
}

Graph::~Graph() {
  if (handle_ != nullptr) static_cast<void>(ISTHMUS_GPU(GraphDestroy)(handle_of(*this)));
}

std::size_t Graph::nodes() const {
  injection_point("graph_nodes");
  std::size_t nodes = 0;
  ISTHMUS_CALL("graph_nodes", GraphGetNodes, handle_of(*this), nullptr, &nodes);
  return nodes;
}

ExecutableGraph::ExecutableGraph(const Graph& graph) {
  injection_point("executable_graph_create");
  gpu::NativeExecutableGraph executable = nullptr;
  ISTHMUS_CALL("executable_graph_create", GraphInstantiateWithFlags, &executable, handle_of(graph), 0);
  handle_ = executable;
}

ExecutableGraph::~ExecutableGraph() {
  if (handle_ != nullptr) static_cast<void>(ISTHMUS_GPU(GraphExecDestroy)(handle_of(*this)));
}

void ExecutableGraph::launch(Stream& stream) {
  injection_point("executable_graph_launch");
  ISTHMUS_CALL("executable_graph_launch", GraphLaunch, handle_of(*this), handle_of(stream));
}

}  // namespace isthmus::device
