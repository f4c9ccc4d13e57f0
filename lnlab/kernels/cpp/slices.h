// A batch cut into slices, each of which runs through all steps alone, and the calls of Python.
// It is cut by its size alone, so that no sum depends on the number of threads.
#pragma once

#include <memory>
#include <vector>

#include "exports.h"
#include "lstm.h"

namespace stepped {

constexpr long EXAMPLES = 64;

// One, a slice, has Problem, Net, Tracks and Back, and the ways forward(), backward(back, sums)
// and products(back, sums): sums are of this slice alone, in the order of the net.
template <class T, class One> struct Run {
    using Problem = typename One::Problem;
    const Problem& p;
    const typename One::Net net;
    const long count;

    explicit Run(const Problem& d)
        : p(d), net(d),
          count(std::max(std::min(2L, long(d.B)), (long(d.B) + EXAMPLES - 1) / EXAMPLES)) {}

    int64_t saved_bytes() const {
        long all = 0;
        for (long s = 0; s < count; ++s) all += saved(s);
        return int64_t(all * sizeof(T));
    }
    int64_t forward() const {
        const auto all = slices();
        each([&](long s) { all[s]->forward(); });
        return 0;
    }
    int64_t backward() const {
        return with_sums([](One& one, auto& d, T* sums) { one.backward(d, sums); });
    }
    int64_t floor() const {
        return with_sums([](One& one, auto& d, T* sums) { one.products(d, sums); });
    }

  private:
    long begin(long s) const { return p.B * s / count; }
    long saved(long s) const {
        return typename One::Tracks(net, begin(s + 1) - begin(s), true, nullptr).count;
    }

    // all memory is taken before the threads start, where an error can be told
    std::vector<std::unique_ptr<One>> slices() const {
        std::vector<std::unique_ptr<One>> all;
        T* memory = static_cast<T*>(p.saved);
        for (long s = 0; s < count; ++s) {
            all.push_back(std::make_unique<One>(net, begin(s), begin(s + 1), memory));
            if (memory) memory += saved(s);
        }
        return all;
    }

    template <class Task> void each(Task task) const {
#pragma omp parallel for num_threads(std::min<long>(p.threads, count)) schedule(static)
        for (long s = 0; s < count; ++s) task(s);
    }

    template <class Task> int64_t with_sums(Task task) const {
        const auto all = slices();
        std::vector<std::unique_ptr<typename One::Back>> work;
        for (const auto& one : all) work.push_back(std::make_unique<typename One::Back>(*one));
        Buffer<T> sums(count * net.end);
        sums.zero();
        each([&](long s) { task(*all[s], *work[s], sums + s * net.end); });
        add_up(sums);
        return 0;
    }

    void add_up(const T* sums) const {
        const auto parameters = net.all();
#pragma omp parallel for num_threads(p.threads) schedule(dynamic)
        for (int i = 0; i < Problem::PARAMETERS; ++i) {
            T* to = static_cast<T*>(p.slopes[i]);
            parameters[i]->each([&](long place, long number) {
                const T* from = sums + parameters[i]->begin + place;
                T sum = 0;
                for (long s = 0; s < count; ++s) sum += from[s * net.end];
                to[number] = sum;
            });
        }
    }
};

template <class T, template <class, class> class Slice, class Problem, class Task>
int64_t with_cell(const Problem& p, Task task) {
    switch (static_cast<Kernel>(p.kernel)) {
        case Kernel::LSTM: return task(Run<T, Slice<T, LSTM<T, true>>>(p));
        case Kernel::DRAW: return task(Run<T, Slice<T, LSTM<T, false>>>(p));
        default: return task(Run<T, Slice<T, LSTM<T, false, false>>>(p));
    }
}

// task of the Run of a problem; -1 where memory ran out
template <template <class, class> class Slice, class Problem, class Task>
int64_t run(const Problem* p, Task task) {
    return unless_full([&] {
        return p->is_double ? with_cell<double, Slice>(*p, task)
                            : with_cell<float, Slice>(*p, task);
    });
}

}  // namespace stepped

// the functions of a library that steps slices by hand; the last has its matrix products alone
#define LIBRARY_OF(Problem, Slice)                                                        \
    extern "C" {                                                                          \
    int64_t saved_bytes(const Problem* p) {                                               \
        return stepped::run<Slice>(p, [](const auto& run) { return run.saved_bytes(); }); \
    }                                                                                     \
    int64_t forward(const Problem* p) {                                                   \
        return stepped::run<Slice>(p, [](const auto& run) { return run.forward(); });     \
    }                                                                                     \
    int64_t backward(const Problem* p) {                                                  \
        return stepped::run<Slice>(p, [](const auto& run) { return run.backward(); });    \
    }                                                                                     \
    int64_t floor_of(const Problem* p) {                                                  \
        return stepped::run<Slice>(p, [](const auto& run) { return run.floor(); });       \
    }                                                                                     \
    }
