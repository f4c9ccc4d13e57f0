// What Python calls: plain C functions over pointers, so that the library needs nothing of
// torch and is compiled in seconds. Each returns 0, or 1 where memory ran out.
#include <memory>

#include "engine.h"
#include "gru.h"
#include "lstm.h"
#include "rnn.h"

namespace {

template <class T> T* padded_parameters(const Problem& p, const Units<T>& units, long blocks,
                                        T* to) {
    for (long block = 0; block < blocks; ++block)
        for (long j = 0; j < units.P; ++j)
            to[block * units.P + j] =
                j < units.H ? static_cast<const T*>(p.parameters)[block * units.H + j] : T(0);
    return to;
}

// W (rows of the summed inputs x width) for W x: (K = width x N = padded rows)
template <class T, class Cell>
void pack(const Problem& p, const Sizes<T, Cell>& z, const void* source, const Packed<T>& to) {
    const T* W_ = static_cast<const T*>(source);
#pragma omp parallel for num_threads(p.threads) schedule(static)
    for (long i = 0; i < to.panels(); ++i)
        to.fill_panel(i, [&](long k, long n) {
            const long row = z.weight_row(n);
            return row < 0 ? T(0) : W_[row * to.K + k];
        });
}

// and for W^T da: (K = padded rows x N = padded width)
template <class T, class Cell>
void pack_transposed(const Problem& p, const Sizes<T, Cell>& z, const void* source, long width,
                     const Packed<T>& to) {
    const T* W_ = static_cast<const T*>(source);
#pragma omp parallel for num_threads(p.threads) schedule(static)
    for (long i = 0; i < to.panels(); ++i)
        to.fill_panel(i, [&](long k, long n) {
            const long row = z.weight_row(k);
            return row < 0 || n >= width ? T(0) : W_[row * width + n];
        });
}

// where each slice's part of what is saved begins, and, last, how much it all is
template <class T, class Cell>
std::vector<long> parts(const Sizes<T, Cell>& z, const std::vector<Sequences>& slices) {
    std::vector<long> begin{0};
    for (const Sequences& s : slices) begin.push_back(begin.back() + s.first.back() * z.kept());
    return begin;
}

template <class T, class Cell> struct Run {
    const Problem& p;
    Sizes<T, Cell> z;
    std::vector<Sequences> slices;
    std::vector<long> begin;
    Buffer<T> parameters;
    Cell cell;

    explicit Run(const Problem& problem)
        : p(problem), z(p), slices(deal(p)), begin(parts(z, slices)),
          parameters(Cell::PARAMETERS * z.P),
          cell(z.units, padded_parameters(p, z.units, Cell::PARAMETERS, (T*)parameters),
               p.eps) {}

    Slice<T, Cell> slice(long s) const {
        T* saved = static_cast<T*>(p.saved);
        return {p, z, cell, slices[s], saved ? saved + begin[s] : nullptr};
    }

    template <class Task> void each_slice(Task task) const {
        bool memory = true;  // an exception must not leave a parallel region
#pragma omp parallel for num_threads(p.threads) schedule(dynamic, 1)
        for (long s = 0; s < long(slices.size()); ++s) try {
                task(s);
            } catch (const std::bad_alloc&) {
#pragma omp atomic write
                memory = false;
            }
        if (!memory) throw std::bad_alloc();
    }

    void forward() const {
        Weights<T> W_(z.D, z.G, z.H, z.G);
        pack(p, z, p.W_x, W_.x);
        pack(p, z, p.W_h, W_.h);
        each_slice([&](long s) { slice(s).forward(W_); });
    }

    void backward() const {
        Weights<T> W_(z.D, z.G, 1, 1), back(z.G, z.inputs.P, z.G, z.P);
        if (!z.keeps_inputs()) pack(p, z, p.W_x, W_.x);
        if (p.dx) pack_transposed(p, z, p.W_x, z.D, back.x);
        pack_transposed(p, z, p.W_h, z.H, back.h);
        const long own = z.G * (z.inputs.P + z.P) + Cell::PARAMETERS * z.P;
        Buffer<T> sums(slices.size() * own);
        each_slice([&](long s) {
            T* mine = sums + s * own;
            std::fill_n(mine, own, T(0));
            slice(s).backward(W_, back, mine, mine + z.G * z.inputs.P,
                              mine + z.G * (z.inputs.P + z.P));
        });
        add_up(sums, own);
    }

    // over the slices, always in the same order
    void add_up(const T* sums, long own) const {
        const long dW_h = z.G * z.inputs.P, dp = dW_h + z.G * z.P;
        const auto row = [&](long at, long n, void* to) {
            for (long j = 0; j < n; ++j) {
                T sum = 0;
                for (size_t s = 0; s < slices.size(); ++s) sum += sums[s * own + at + j];
                static_cast<T*>(to)[j] = sum;
            }
        };
        const auto place = [](void* a, long at) { return static_cast<void*>((T*)a + at); };
#pragma omp parallel for num_threads(p.threads) schedule(static)
        for (long g = 0; g < z.G; ++g) {
            const long to = z.weight_row(g);
            if (to < 0) continue;
            row(g * z.inputs.P, z.D, place(p.dW_x, to * z.D));
            row(dW_h + g * z.P, z.H, place(p.dW_h, to * z.H));
        }
        for (long block = 0; block < Cell::PARAMETERS; ++block)
            row(dp + block * z.P, z.H, place(p.dparameters, block * z.H));
    }
};

template <class T, class Task> int64_t with_cell(const Problem& p, Task task) {
    switch (p.cell) {
        case 0: return task(Run<T, LSTM<T, true>>(p));
        case 1: return task(Run<T, LSTM<T, false>>(p));
        case 2: return task(Run<T, GRU<T, false>>(p));
        case 3: return task(Run<T, GRU<T, true>>(p));
        default: return task(Run<T, RNN<T>>(p));
    }
}

template <class Task> int64_t run(const Problem* p, Task task) {
    try {
        return p->is_double ? with_cell<double>(*p, task) : with_cell<float>(*p, task);
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

}  // namespace

extern "C" {

// bytes that the way back needs
int64_t saved_bytes(const Problem* p) {
    return run(p, [&](const auto& run) {
        return int64_t(run.begin.back() * (p->is_double ? sizeof(double) : sizeof(float)));
    });
}

int64_t forward(const Problem* p) {
    return run(p, [](const auto& run) { return run.forward(), int64_t(0); });
}

int64_t backward(const Problem* p) {
    return run(p, [](const auto& run) { return run.backward(), int64_t(0); });
}

void* take(int64_t bytes) {
    try {
        return pool.take(size_t(bytes));
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void give(void* block) { pool.give(block); }
}
