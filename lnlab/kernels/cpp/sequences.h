// What is asked for (Problem, which Python fills in), and how its B sequences are dealt out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

struct Problem {
    int64_t kernel, is_double, T, B, D, H, reverse, threads, own_cache, from_batch;
    const int64_t* lengths;  // null: all T
    const double* eps;
    const void *x, *h0, *c0, *W_x, *W_h, *parameters;
    const void* mask;  // (B x H), factors of h on its way into W_h h; null: none
    void *statistics;  // null unless some run over examples, see batch_norm.h
    void *y, *h_n, *c_n, *saved;
    const void *dy, *dh_n, *dc_n;  // the last two null where nothing comes back
    void *dx, *dh0, *dc0, *dW_x, *dW_h, *dparameters;
};

// The sequences of one slice, longest first, so that those still going are always the first
// ones. A slice runs through all time steps by itself: layer normalization never looks from
// one example to another, so no slice waits for another. Batch normalization does: the whole
// batch is one slice then.
struct Sequences {
    std::vector<long> index, length;  // of each row: its place in the batch, its steps
    std::vector<long> first;          // of each step: the number of rows of all steps before
    bool reverse;
    long B;

    long rows() const { return long(index.size()); }
    long steps() const { return long(first.size()) - 1; }
    long going(long s) const { return first[s + 1] - first[s]; }
    // where row r stands at its step s in a (T, B, ...) array
    long at(long s, long r) const {
        return (reverse ? length[r] - 1 - s : s) * B + index[r];
    }
    // steps, from s on or before end, that together have at most so many rows; at least one
    long chunk_end(long s, long most) const {
        long end = s + 1;
        while (end < steps() && first[end + 1] - first[s] <= most) ++end;
        return end;
    }
    long chunk_begin(long end, long most) const {
        long s = end - 1;
        while (s > 0 && first[end] - first[s - 1] <= most) --s;
        return s;
    }
};

// The batch is cut by its size, the weights' and that of a thread's own cache, so that sums
// over examples do not depend on the number of threads: at least two slices, and no more than
// 32 sequences in each. Where it is together(), it is one slice, whose time steps two threads
// go through together, each with its half of the weights. Its examples are in two groups then,
// each of which adds up its own gradients of gains and biases. Over examples, the two groups
// are of units.
constexpr long FEW = 8;

// Two slices both read all of W_h (bytes) at every step, and meet nobody; half of it is read
// where two threads share one, and they meet twice. Measured (docs/speed.md): that pays if the
// weights are many for the examples that use each of them, more than the cache holds. From FEW
// examples on each half has to stay in there as well: a bound of caution, for one processor was
// slower beyond it.
inline bool together(const Problem& p, long W_h, bool over_examples) {
    if (over_examples || !p.own_cache) return over_examples || p.B < FEW;
    return 10 * W_h > p.B * p.own_cache && (p.B < FEW || W_h <= 2 * p.own_cache);
}

inline std::vector<Sequences> deal(const Problem& p, bool one) {
    const long B = p.B, count = one ? 1 : std::max(2L, (B + 31) / 32);
    std::vector<long> order(B);
    std::iota(order.begin(), order.end(), 0);
    const auto length = [&](long b) { return p.lengths ? p.lengths[b] : p.T; };
    std::stable_sort(order.begin(), order.end(),
                     [&](long a, long b) { return length(a) > length(b); });
    std::vector<Sequences> slices(count);
    for (long s = 0; s < count; ++s) {
        Sequences& own = slices[s];
        own.reverse = p.reverse, own.B = B;
        // neighbours while all are equally long, dealt like cards otherwise
        const long from = s * B / count, to = (s + 1) * B / count;
        if (!p.lengths)
            own.index.assign(order.begin() + from, order.begin() + to);
        else
            for (long i = s; i < B; i += count) own.index.push_back(order[i]);
        for (long b : own.index) own.length.push_back(length(b));
        own.first.push_back(0);
        for (long t = 0, going = own.rows(); t < (own.rows() ? own.length[0] : 0); ++t) {
            while (own.length[going - 1] <= t) --going;
            own.first.push_back(own.first.back() + going);
        }
    }
    return slices;
}
