#include "microbench/interjob/batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "memory/block.hpp"
#include "memory/parallel.hpp"
#include "microbench/call_cost.hpp"

namespace isthmus::microbench::interjob {

namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

std::size_t inputs_of_all(const Operand& operand, std::size_t jobs) {
  return operand.bytes + (jobs - 1) * operand.step;
}

/// Returns the position of an element in a padded array; `element` is counted without padding.
std::size_t place(const Operand& operand, std::size_t element) {
  return element / operand.columns * operand.pitch + element % operand.columns;
}

void fill_rows(std::byte* begin, std::size_t bytes, const Operand& operand) {
  auto* const values = reinterpret_cast<float*>(begin);
  const std::size_t elements = bytes / sizeof(float);
  memory::parallel_for(elements, std::size_t{1} << 16, [&](std::size_t first, std::size_t last) {
    std::size_t row = first / operand.pitch, column = first % operand.pitch;
    for (std::size_t i = first; i < last; ++i) {
      values[i] = column < operand.columns ? operand.values(row * operand.columns + column) : 0.0f;
      if (++column == operand.pitch) column = 0, ++row;
    }
  });
}

}  // namespace

struct JobBatch::Data {
  std::vector<memory::Block> inputs;   // one per operand that is read, in the same order
  std::vector<memory::Block> outputs;  // one per job in flight; none if jobs allocate their own
};

std::size_t JobBatch::host_bytes(const Wanted& wanted) {
  std::size_t bytes = 0;
  for (const auto& recipe : wanted.recipes) {
    const auto slots = static_cast<std::size_t>(wanted.depth);
    for (const auto& operand : recipe.operands) {
      if (operand.read) bytes += inputs_of_all(operand, wanted.jobs);
      if (wanted.host == Host::per_job) bytes += slots * operand.bytes;
    }
    if (wanted.host != Host::per_job) bytes += slots * recipe.output().bytes;
  }
  return bytes;
}

std::size_t JobBatch::device_bytes(const Wanted& wanted) {
  std::size_t bytes = 0;
  for (const auto& recipe : wanted.recipes) bytes = std::max(bytes, recipe.device_bytes());
  return bytes;
}

JobBatch::JobBatch(Wanted wanted) : wanted_(std::move(wanted)), checks_(wanted_.jobs) {
  const auto kind = wanted_.host == Host::pinned ? memory::Kind::pinned : memory::Kind::pageable;
  const memory::BlockOptions options{.numa_node = wanted_.numa_node};
  for (const auto& recipe : wanted_.recipes) {
    auto data = std::make_shared<Data>();
    for (const auto& operand : recipe.operands) {
      if (!operand.read) continue;
      const std::size_t bytes = inputs_of_all(operand, wanted_.jobs);
      fill_rows(data->inputs.emplace_back(kind, bytes, options).data(), bytes, operand);
    }
    for (int slot = 0; wanted_.host != Host::per_job && slot < wanted_.depth; ++slot)
      data->outputs.emplace_back(kind, recipe.output().bytes, options).touch();
    data_.push_back(std::move(data));
  }
  if (wanted_.host == Host::per_job)
    pool_ = std::make_unique<memory::ThreadPool>(std::max(1u, memory::host_threads() / 2), wanted_.numa_node);

  // Each check covers the first element, the last one, and other elements chosen at random. Duplicates do no harm.
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t i = 0; i < wanted_.jobs; ++i) {
    const auto& recipe = wanted_.recipes[i % wanted_.recipes.size()];
    const std::size_t count = recipe.results(), row = recipe.operands.front().columns;
    const std::size_t many = std::clamp<std::size_t>((std::size_t{1} << 20) / row, 2 * kQuickElements, 1024);
    auto& check = checks_[i];
    check.elements = {0, count - 1};
    for (std::size_t k = 2; k < many; ++k) check.elements.push_back(workload::hash(wanted_.seed, i, k) % count);
    check.expected.resize(many);
    for (std::size_t k = 0; k < many; ++k) all.emplace_back(i, k);
  }
  memory::parallel_for(all.size(), 64, [&](std::size_t first, std::size_t last) {
    for (std::size_t at = first; at < last; ++at) {
      const auto [i, k] = all[at];
      const auto& recipe = wanted_.recipes[i % wanted_.recipes.size()];
      checks_[i].expected[k] = recipe.expected(i, checks_[i].elements[k]);
    }
  });
}

std::span<const std::size_t> JobBatch::elements(std::size_t index, bool thorough) const {
  const std::span<const std::size_t> all = checks_[index].elements;
  return thorough ? all : all.first(kQuickElements);
}

void JobBatch::look(std::size_t index, const float* results, bool thorough) {
  const auto& recipe = wanted_.recipes[index % wanted_.recipes.size()];
  const auto at = elements(index, thorough);
  for (std::size_t k = 0; k < at.size(); ++k) {
    const double error = std::abs(results[place(recipe.output(), at[k])] - checks_[index].expected[k]);
    const double share = error / recipe.tolerance;
    worst_ = share <= worst_ ? worst_ : std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
  checked_ += at.size();
  ++ended_;
}

/// Copies with several threads, because one thread cannot write as fast as the device reads.
void JobBatch::fill(void* to, const std::byte* from, std::size_t bytes) {
  pool_->run([&](unsigned part) {
    const auto [first, last] = memory::part_of(bytes, pool_->size(), part);
    std::memcpy(static_cast<std::byte*>(to) + first, from + first, last - first);
  });
}

pipeline::Job JobBatch::job(std::size_t index, pipeline::Source source, For what) {
  const bool thorough = what == For::checks, calls_only = what == For::calls;
  const std::size_t which = index % wanted_.recipes.size();
  const Recipe& recipe = wanted_.recipes[which];
  Data& data = *data_[which];
  const std::size_t operands = recipe.operands.size();
  pipeline::Job job{.name = "job " + std::to_string(index)};
  for (const auto& operand : recipe.operands) {
    job.memory.push_back({source, operand.bytes, operand.read ? pipeline::Phase::in : pipeline::Phase::kernel,
                          operand.written ? pipeline::Phase::finish : pipeline::Phase::kernel});
  }
  const bool own_host = wanted_.host == Host::per_job;
  for (const auto& operand : recipe.operands)
    if (own_host) job.memory.push_back({memory::Kind::pinned, operand.bytes});

  // Slot for the results. Jobs that have memory at the same time never share a slot.
  const auto slot = std::make_shared<std::size_t>(0);
  const auto results = [=, &recipe, &data](std::span<void* const> memory) {
    return own_host ? static_cast<float*>(memory[operands + recipe.result])
                    : reinterpret_cast<float*>(data.outputs[*slot].data());
  };
  job.in = [=, this, &recipe, &data](const pipeline::Work& work) {
    *slot = work.slot;
    if (!recipe.output().read && !calls_only) {  // overwrites the results of an earlier job
      for (const auto element : elements(index, thorough))
        results(work.memory)[place(recipe.output(), element)] = kPoison;
    }
    std::size_t input = 0;
    for (std::size_t i = 0; i < operands; ++i) {
      const Operand& operand = recipe.operands[i];
      if (!operand.read) continue;
      const std::byte* from = data.inputs[input++].data() + index * operand.step;
      if (own_host) {
        if (!calls_only) fill(work.memory[operands + i], from, operand.bytes);
        from = static_cast<const std::byte*>(work.memory[operands + i]);
      }
      device::copy_async(work.memory[i], from, calls_only ? sizeof(float) : operand.bytes, work.stream);
    }
  };
  job.kernel = [=, &recipe](const pipeline::Work& work) {
    if (calls_only) return launch_empty(work.stream);
    recipe.queue(work.stream, work.memory.first(operands));
  };
  job.out = [=, &recipe](const pipeline::Work& work) {
    device::copy_async(results(work.memory), work.memory[recipe.result],
                       calls_only ? sizeof(float) : recipe.output().bytes, work.stream);
  };
  if (calls_only) {
    job.finish = [this](std::span<void* const>) { ++ended_; };
  } else {
    job.finish = [=, this](std::span<void* const> memory) { look(index, results(memory), thorough); };
  }
  return job;
}

pipeline::Result JobBatch::run(pipeline::Source source, const pipeline::Options& options, For what, std::size_t first) {
  std::vector<pipeline::Job> jobs;
  for (std::size_t i = 0; i < std::min(first, wanted_.jobs); ++i) jobs.push_back(job(i, source, what));
  ended_ = 0;
  auto result = pipeline::run(jobs, options);
  const auto failed = static_cast<std::size_t>(
      std::count_if(result.jobs.begin(), result.jobs.end(), [](const auto& each) { return each.failure != nullptr; }));
  if (ended_ + failed < jobs.size()) worst_ = std::numeric_limits<double>::infinity();
  return result;
}

}  // namespace isthmus::microbench::interjob
