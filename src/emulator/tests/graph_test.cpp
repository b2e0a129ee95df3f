// Graphs: captured work, its execution, and the state after a failed capture.

#include <memory>

#include "fixture.hpp"

namespace emulator {
namespace {

using GraphTest = EmulatorTest;

__global__ void multiply_add(int* value, int factor, int summand) {
  *value = *value * factor + summand;
}
const LaunchShape one_thread{.grid = 1, .block = 1};

TEST_F(GraphTest, RunsWhatWasCapturedInOrderEachTimeItIsLaunched) {
  configure("grace=30");
  DeviceArray<int> value(std::vector<int>{1}), copied(std::vector<int>{0});
  Stream stream, other;
  const Graph graph(stream, [&] {
    launch(stream, EMULATOR_KERNEL(multiply_add), one_thread, value.get(), 3, 1);
    launch(stream, EMULATOR_KERNEL(multiply_add), one_thread, value.get(), 2, 5);
    copy_async(copied.get(), value.get(), sizeof(int), stream);
  });
  EXPECT_EQ(graph.nodes(), 3u);
  stream.synchronize();
  EXPECT_EQ(value.host()[0], 1) << "capturing runs nothing";
  ExecutableGraph executable(graph);
  executable.launch(stream);
  EXPECT_EQ(value.host()[0], 1) << "nothing has demanded it yet";
  stream.synchronize();
  EXPECT_EQ(copied.host()[0], 13);
  executable.launch(other);
  other.synchronize();
  EXPECT_EQ(copied.host()[0], 85);
}

TEST_F(GraphTest, FillsAndStridedCopiesAreCaptured) {
  DeviceArray<int> values(std::vector<int>{1, 2, 3, 4}), every_other(2);
  Stream stream;
  const Graph graph(stream, [&] {
    copy_strided_async(every_other.get(), values.get(),
                       {.row_bytes = 4, .rows = 2, .destination_pitch = 4, .source_pitch = 8}, stream);
    fill_async(values.get(), 0, 4, stream);
  });
  EXPECT_EQ(graph.nodes(), 2u);
  ExecutableGraph(graph).launch(stream);  // launched work runs even though its handle is destroyed
  stream.synchronize();
  EXPECT_EQ(every_other.host(), (std::vector<int>{1, 3}));
  EXPECT_EQ(values.host(), (std::vector<int>{0, 2, 3, 4}));
}

TEST_F(GraphTest, NothingIsAGraphToo) {
  Stream stream;
  const Graph graph(stream, [] {});
  EXPECT_EQ(graph.nodes(), 0u);
  ExecutableGraph executable(graph);
  executable.launch(stream);
  stream.synchronize();
}

TEST_F(GraphTest, OutlivesItsStreamAndIsMoved) {
  DeviceArray<int> value(std::vector<int>{1});
  auto stream = std::make_unique<Stream>();
  Graph first(*stream, [&] { launch(*stream, EMULATOR_KERNEL(multiply_add), one_thread, value.get(), 3, 1); });
  stream.reset();
  const Graph second = std::move(first);
  ExecutableGraph a(second);
  ExecutableGraph b = std::move(a);
  Stream other;
  b.launch(other);
  other.synchronize();
  EXPECT_EQ(value.host()[0], 4);
}

TEST_F(GraphTest, AStreamIsUsableAfterACaptureThatFailed) {
  DeviceArray<int> value(std::vector<int>{1});
  Stream stream;
  const auto capture = [&] {
    const Graph graph(stream, [&] {
      launch(stream, EMULATOR_KERNEL(multiply_add), one_thread, value.get(), 3, 1);
      throw std::runtime_error("no more");
    });
  };
  EXPECT_THROW(capture(), std::runtime_error);
  stream.synchronize();
  EXPECT_EQ(value.host()[0], 1) << "the captured work is dropped";
  launch(stream, EMULATOR_KERNEL(multiply_add), one_thread, value.get(), 3, 1);
  stream.synchronize();
  EXPECT_EQ(value.host()[0], 4);
}

TEST_F(GraphTest, WhatAGraphCannotHoldIsRefused) {
  DeviceArray<int> value(std::vector<int>{1});
  int pageable = 0;
  void* managed = malloc_managed(64);
  Stream stream;
  Event event;
  const MemoryRange range{managed, 64};
  const CopyItem item{value.get(), value.get(), sizeof(int)};
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"stream_synchronize", [&] { stream.synchronize(); }},
      {"stream_idle", [&] { stream.idle(); }},
      {"stream_wait", [&] { stream.wait(event); }},
      {"event_record", [&] { event.record(stream); }},
      {"malloc_pooled", [&] { free_pooled(malloc_pooled(64, stream), stream); }},
      {"prefetch", [&] { prefetch(managed, 64, Location::gpu(0), stream); }},
      {"discard_batch", [&] { discard_batch({&range, 1}, stream); }},
      {"copy_batch_async", [&] { copy_batch_async({&item, 1}, stream); }},
      {"copy_async", [&] { copy_async(&pageable, value.get(), sizeof(int), stream); }},
      {"graph_create", [&] { const Graph graph(stream, [] {}); }},
  };
  for (const auto& named : calls) {
    const auto& name = named.first;
    const auto& call = named.second;
    expect_mentions(error_of([&] { const Graph graph(stream, call); }), {name, "is being captured into a graph"});
    EXPECT_NO_THROW(call()) << name << " works again";
  }
  stream.synchronize();
  free_managed(managed);
}

__global__ void faulty() {
  shuffle(0, 1, 0);
}

TEST_F(GraphTest, AFaultEndsTheLaunch) {
  DeviceArray<int> value(std::vector<int>{1});
  Stream stream;
  const Graph graph(stream, [&] {
    launch(stream, EMULATOR_KERNEL(faulty), one_thread);
    launch(stream, EMULATOR_KERNEL(multiply_add), one_thread, value.get(), 3, 1);
  });
  ExecutableGraph executable(graph);
  executable.launch(stream);
  expect_mentions(error_of([&] { stream.synchronize(); }), {"stream_synchronize", "faulty"});
  EXPECT_EQ(value.host()[0], 1);
}

TEST_F(GraphTest, MemoryThatIsFreedBeforeTheLaunchIsFound) {
  auto* value = static_cast<int*>(malloc_device(sizeof(int)));
  Stream stream;
  const Graph kernel(stream, [&] { launch(stream, EMULATOR_KERNEL(multiply_add), one_thread, value, 3, 1); });
  const Graph fill(stream, [&] { fill_async(value, 0, sizeof(int), stream); });
  free_device(value);
  for (const Graph* graph : {&kernel, &fill}) {
    ExecutableGraph(*graph).launch(stream);
    EXPECT_THROW(stream.synchronize(), Error);
  }
}

}  // namespace
}  // namespace emulator
