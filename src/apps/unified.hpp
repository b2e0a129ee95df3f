#pragma once

// What the MI300A paper's six programs have in common: where their input is when they begin.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "workload/text_numbers.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

/// Figure 11 at `large`, whose total holds reading the input; `settings` is what the original fixed. The placements are
/// named beside it: pageable for explicit copies, managed_demand for unified memory.
inline workload::Preset unified_preset(workload::AxisSettings settings = {}) {
  settings.emplace_back("data", "written");
  return {.name = "paper-mi300a",
          .help = "mi300a-upm-2025, Figure 11, of the original's form: with --placement pageable,managed_demand",
          .settings = std::move(settings),
          .sizes = {"large"}};
}

/// Adds the axis that says where the input is: made in memory, or in a file that is read in a phase of its own.
/// `variable`, if any, names the user's; `kind` says of what form that is.
inline workload::Workload& with_data(workload::Workload& program, const std::string& variable = {},
                                     const std::string& kind = {}) {
  std::string help = "the input: generated in memory, or written to a scratch file first and read from it";
  std::vector<workload::AxisValue> values = {"generated", "written"};
  if (!variable.empty()) {
    help += ", or in the file that " + variable + " names";
    values.emplace_back("file");
  }
  program.axis(workload::choice_axis("data", help, std::move(values))).file_phase("data");
  if (!variable.empty()) program.with_file("data", variable, kind, std::size_t{1} << 40);
  return program;
}

/// The user's file, where the case reads one; else nothing.
template <class T>
class UserFile {
 public:
  using All = workload::Shared<std::vector<T>>;
  using Next = std::function<void(std::span<T>)>;  ///< gives the next elements
  using Open = std::function<Next(const workload::InputFile&)>;

  UserFile() = default;
  /// `open` begins with the file, from which `elements` are taken in all.
  UserFile(workload::Case& c, std::size_t elements, const Open& open) {
    if (c.choice("data") != "file") return;
    open_ = [file = c.input_file(), open] { return open(file); };
    all_ = std::make_shared<const All>(
        c.shared<std::vector<T>>("the user's file", elements * sizeof(T), [elements, begin = open_] {
          std::vector<T> values(elements);
          begin()(values);
          return values;
        }));
  }

  /// Null without a file. GCC 12 takes an empty std::optional that is copied for one that is read.
  const std::shared_ptr<const All>& all() const { return all_; }
  /// What the file has fills these buffers, one after the other.
  template <class... Buffers>
  void fills(workload::Case& c, const Buffers&... buffers) const {
    if (all_) c.reads_file(std::vector<workload::Buffer<T>>{buffers...}, open_);
  }

 private:
  std::function<Next()> open_;
  std::shared_ptr<const All> all_;
};

/// Values of an input: what `generated` gives for an element's number, or what the user's file has from `first` on.
template <class T, class Generated>
class Values {
 public:
  Values(Generated generated) : generated_(std::move(generated)) {}
  T operator()(std::size_t i) const { return file_ ? (**file_)[first_ + i] : generated_(i); }
  /// Of a file, where there is one.
  void take(const UserFile<T>& file, std::size_t first = 0) {
    file_ = file.all();
    first_ = first;
  }

 private:
  Generated generated_;
  std::shared_ptr<const typename UserFile<T>::All> file_;
  std::size_t first_ = 0;
};

/// Reads a text of numbers; nothing may follow them.
inline std::function<void(std::span<float>)> numbers_of(workload::TextNumbers text, std::size_t elements, float least,
                                                        float largest) {
  return [text = std::move(text), left = elements, least, largest](std::span<float> row) mutable {
    for (float& value : row) value = text.number(least, largest);
    if ((left -= row.size()) == 0) text.end();
  };
}

}  // namespace isthmus::apps
