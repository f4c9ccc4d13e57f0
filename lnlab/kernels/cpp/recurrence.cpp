// What Python calls: plain C functions over pointers, so that the library needs nothing of
// torch and is compiled in seconds. Each returns 0 (`saved_bytes` a size), or -1 where memory
// ran out.
#include <memory>

#include "exports.h"
#include "products_only.h"
#include "gru.h"
#include "lstm.h"
#include "batch_norm.h"
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

// padded row g of a weight matrix, or null in the padding
template <class T, class Cell>
const T* row_of(const Sizes<T, Cell>& z, const void* W_, long width, long g) {
    const long row = z.weight_row(g);
    return row < 0 ? nullptr : static_cast<const T*>(W_) + row * width;
}

// W (rows of the pre-activations x width) for W x: (K = width x N = padded rows)
template <class T, class Cell>
void pack(const Problem& p, const Sizes<T, Cell>& z, const void* source, const Packed<T>& to) {
#pragma omp parallel for num_threads(p.threads) schedule(static)
    for (long i = 0; i < to.panels().count(); ++i)
        to.fill_columns(i, [&](long n) { return row_of(z, source, to.K, n); });
}

// and for W^T da: (K = padded rows x N = padded width)
template <class T, class Cell>
void pack_transposed(const Problem& p, const Sizes<T, Cell>& z, const void* source, long width,
                     const Packed<T>& to) {
#pragma omp parallel for num_threads(p.threads) schedule(static)
    for (long i = 0; i < to.panels().count(); ++i)
        to.fill_rows(i, width, [&](long k) { return row_of(z, source, width, k); });
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
        : p(problem), z(p), slices(deal(p, z.groups > 1)), begin(parts(z, slices)),
          parameters(Cell::PARAMETERS * z.P),
          cell(z.units, padded_parameters(p, z.units, Cell::PARAMETERS, (T*)parameters),
               p.eps) {}

    Slice<T, Cell> slice(long s) const {
        T* saved = static_cast<T*>(p.saved);
        return {p, z, cell, slices[s], saved ? saved + begin[s] : nullptr};
    }

    // task(slice, member) for every slice, by as many threads as there are and are of use
    template <class Task> void each_slice(Task task, std::vector<Meeting*> meetings) const {
        const long count = long(slices.size());
        const long team = std::min<long>(p.threads, z.groups);
#pragma omp parallel num_threads(std::min<long>(p.threads, count * team))
        {
            const long here = omp_get_num_threads(), id = omp_get_thread_num();
            if (team > 1 && here >= team)
                task(0, Member{id, team, meetings[0]});
            else
                for (long s = id; s < count; s += here) task(s, Member{0, 1, meetings[s]});
        }
    }

    // each slice's memory: all is taken before the threads start, where an error can be told
    template <class Own> struct Working {
        std::vector<std::unique_ptr<Own>> own;
        std::vector<Meeting*> meetings;

        explicit Working(const Run& run) {
            for (size_t s = 0; s < run.slices.size(); ++s) {
                own.push_back(std::make_unique<Own>(run.slice(s)));
                meetings.push_back(&own.back()->meeting);
            }
        }
    };

    void forward() const {
        Weights<T> W_(z.D, z.G, z.H, z.G);
        pack(p, z, p.W_x, W_.x);
        pack(p, z, p.W_h, W_.h);
        Working<typename Slice<T, Cell>::Forward> work(*this);
        each_slice([&](long s, Member me) { slice(s).forward(W_, *work.own[s], me); },
                   work.meetings);
    }

    void backward() const {
        Weights<T> W_(z.D, z.G, 1, 1), back(z.G, z.inputs.P, z.G, z.P);
        if (!z.keeps_inputs()) pack(p, z, p.W_x, W_.x);
        if (p.dx) pack_transposed(p, z, p.W_x, z.D, back.x);
        pack_transposed(p, z, p.W_h, z.H, back.h);
        const long dW_h = z.G * z.inputs.P, dp = dW_h + z.G * z.P;
        const long own = dp + z.groups * Cell::PARAMETERS * z.P;
        Buffer<T> sums(slices.size() * own);
        for (size_t s = 0; s < slices.size(); ++s) {
            const long written = slices[s].steps() ? dp : 0;
            std::fill_n(sums + s * own + written, own - written, T(0));
        }
        Working<typename Slice<T, Cell>::Backward> work(*this);
        each_slice(
            [&](long s, Member me) {
                T* mine = sums + s * own;
                slice(s).backward(W_, back, *work.own[s], mine, mine + dW_h, mine + dp, me);
            },
            work.meetings);
        add_up(sums, own);
    }

    void floor() const {
        const bool back = p.dW_h;
        Weights<T> W_(z.D, z.G, z.H, z.G), to(z.G, z.inputs.P, z.G, z.P);
        for (const Weights<T>* w : {&W_, &to}) {
            std::fill_n((T*)w->x_data, w->x.K * w->x.N, T(0));
            std::fill_n((T*)w->h_data, w->h.K * w->h.N, T(0));
        }
        std::vector<Meeting> meetings(slices.size());
        std::vector<Meeting*> each;
        for (Meeting& meeting : meetings) each.push_back(&meeting);
        each_slice([&](long s, Member me) { products(slice(s), W_, to, back, me); }, each);
    }

    // over the slices and groups, always in the same order
    void add_up(const T* sums, long own) const {
        const long dW_h = z.G * z.inputs.P, dp = dW_h + z.G * z.P;
        const long count = long(slices.size()), block = Cell::PARAMETERS * z.P;
        const auto row = [&](const T* from, long parts, long n, void* to, long at) {
            T* sum = static_cast<T*>(to) + at;
            std::copy_n(from, n, sum);
            for (long k = 1; k < count * parts; ++k) {
                const T* next = from + k / parts * own + k % parts * block;
                for (long j = 0; j < n; ++j) sum[j] += next[j];
            }
        };
#pragma omp parallel for num_threads(p.threads) schedule(static)
        for (long g = 0; g < z.G; ++g) {
            const long to = z.weight_row(g);
            if (to < 0) continue;
            row(sums + g * z.inputs.P, 1, z.D, p.dW_x, to * z.D);
            row(sums + dW_h + g * z.P, 1, z.H, p.dW_h, to * z.H);
        }
        for (long k = 0; k < Cell::PARAMETERS; ++k)
            row(sums + dp + k * z.P, z.groups, z.H, p.dparameters, k * z.H);
    }
};

template <class T, class Task> int64_t with_cell(const Problem& p, Task task) {
    switch (static_cast<Kernel>(p.kernel)) {
        case Kernel::LSTM: return task(Run<T, LSTM<T, true>>(p));
        case Kernel::DRAW: return task(Run<T, LSTM<T, false>>(p));
        case Kernel::GRU_WRITES: return task(Run<T, GRU<T, false>>(p));
        case Kernel::GRU_KEEPS: return task(Run<T, GRU<T, true>>(p));
        case Kernel::PLAIN_LSTM: return task(Run<T, LSTM<T, false, false>>(p));
        case Kernel::PLAIN_GRU_WRITES: return task(Run<T, GRU<T, false, false>>(p));
        case Kernel::PLAIN_GRU_KEEPS: return task(Run<T, GRU<T, true, false>>(p));
        case Kernel::BATCH_LSTM: return task(Run<T, BatchLSTM<T>>(p));
        default: return task(Run<T, RNN<T>>(p));
    }
}

template <class Task> int64_t run(const Problem* p, Task task) {
    return unless_full([&] {
        return p->is_double ? with_cell<double>(*p, task) : with_cell<float>(*p, task);
    });
}

}  // namespace

extern "C" {

// bytes that the backward pass needs
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

// the matrix products alone, those of the backward pass too if there is a dW_h
int64_t floor_of(const Problem* p) {
    return run(p, [](const auto& run) { return run.floor(), int64_t(0); });
}
}
