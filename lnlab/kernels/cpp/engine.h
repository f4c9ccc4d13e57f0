// The recurrence over time of one slice of the batch, forward and back.
//
// Forward, chunk by chunk: W_x x of the whole chunk at once, so that it is read again while in
// the cache; then for each step W_h h and, case by case, everything else of the step (LSTM,
// GRU or RNN: a Cell). Back, chunk by chunk: case by case the gradients of the summed inputs,
// for each step their product with W_h; then, the chunk still in the cache, its share of the
// gradients of W_h, W_x and x. The gradients of the summed inputs never exist for all time.
#pragma once

#include "layers.h"
#include "memory.h"
#include "products.h"
#include "sequences.h"

template <class T, class Cell> struct Sizes {
    static constexpr long FORWARD_ROWS = 64;
    Units<T> units, inputs;
    long B, D, H, P, G, row, input_row, state_row, record;

    explicit Sizes(const Problem& p)
        : units(p.H), inputs(p.D), B(p.B), D(p.D), H(p.H), P(units.P), G(Cell::GATES * P),
          // one vector more than needed: rows 4 KiB apart would share their places in the cache
          row(G + W<T>), input_row(inputs.P + W<T>), state_row(P + W<T>),
          record(G + (Cell::STATES > 1 ? P : 0) + Units<T>(2 * Cell::MOMENTS).P + W<T>) {}

    // few inputs: computing W_x x again is cheaper than fetching it
    bool keeps_inputs() const { return 8 * D > H; }
    long kept() const { return record + (keeps_inputs() ? row : 0); }
    // rows whose gradients of the summed inputs fit a part of the cache
    long backward_rows() const {
        return std::clamp<long>((1 << 20) / long(sizeof(T)) / G, 64, 256);
    }
    // the parameter row of padded row g of the summed inputs, or -1 in the padding
    long weight_row(long g) const { return g % P < H ? g / P * H + g % P : -1; }
};

template <class T> struct Weights {  // both as (K x N) for products from the left
    Packed<T> x, h;
    Buffer<T> x_data, h_data;

    Weights(long K_x, long N_x, long K_h, long N_h)
        : x_data(K_x * N_x), h_data(K_h * N_h) {
        x.K = K_x, x.N = N_x, x.data = x_data;
        h.K = K_h, h.N = N_h, h.data = h_data;
    }
};

template <class T, class Cell> class Slice {
    const Problem& p;
    const Sizes<T, Cell>& z;
    const Cell& cell;
    const Sequences& seq;
    T* const records;  // of each row of each step: summed inputs W_h h, c, moments
    T* const inputs;   // and W_x x, if it is kept

    static const T* in(const void* a) { return static_cast<const T*>(a); }
    static T* out(void* a) { return static_cast<T*>(a); }
    T* c_of(T* record) const { return record + z.G; }
    Moments<T>* moments_of(T* record) const {
        return reinterpret_cast<Moments<T>*>(record + z.G + (Cell::STATES > 1 ? z.P : 0));
    }

    void gather(const void* from, long width, long s0, long s1, T* to, long ld) const {
        for (long s = s0; s < s1; ++s)
            for (long r = 0; r < seq.going(s); ++r, to += ld)
                std::copy_n(in(from) + seq.at(s, r) * width, width, to);
    }
    void rows_in(const void* from, T* to) const {
        std::fill_n(to, seq.rows() * z.state_row, T(0));
        for (long r = 0; from && r < seq.rows(); ++r)
            std::copy_n(in(from) + seq.index[r] * z.H, z.H, to + r * z.state_row);
    }
    void rows_out(const T* from, void* to) const {
        for (long r = 0; to && r < seq.rows(); ++r)
            std::copy_n(from + r * z.state_row, z.H, out(to) + seq.index[r] * z.H);
    }
    void clear_padding(void* a, long width) const {
        for (long r = 0; r < seq.rows(); ++r)
            for (long t = seq.length[r]; t < p.T; ++t)
                std::fill_n(out(a) + (t * z.B + seq.index[r]) * width, width, T(0));
    }

  public:
    Slice(const Problem& problem, const Sizes<T, Cell>& sizes, const Cell& c,
          const Sequences& sequences, T* saved)
        : p(problem), z(sizes), cell(c), seq(sequences), records(saved),
          inputs(saved && sizes.keeps_inputs() ? saved + seq.first.back() * sizes.record
                                               : nullptr) {}

    void forward(const Weights<T>& W_of) const {
        const long M = seq.rows(), most = std::max(M, z.FORWARD_ROWS);
        Buffer<T> h(M * z.state_row), c(M * z.state_row), x(most * z.input_row);
        Buffer<T> a_x(inputs ? 1 : most * z.row), a_h(records ? 1 : M * z.record);
        Buffer<T> scratch(z.P * Cell::SCRATCH);
        rows_in(p.h0, h);
        rows_in(p.c0, c);
        for (long s0 = 0, s1; s0 < seq.steps(); s0 = s1) {
            s1 = seq.chunk_end(s0, most);
            gather(p.x, z.D, s0, s1, x, z.input_row);
            T* from_x = inputs ? inputs + seq.first[s0] * z.row : a_x;
            W_of.x.multiply(x, z.input_row, seq.first[s1] - seq.first[s0], from_x, z.row,
                            false, false);
            for (long s = s0; s < s1; ++s) {
                T* record = records ? records + seq.first[s] * z.record : a_h;
                W_of.h.multiply(h, z.state_row, seq.going(s), record, z.record, false, s & 1);
                for (long r = 0; r < seq.going(s); ++r, record += z.record, from_x += z.row) {
                    T *h_r = h + r * z.state_row, *c_r = c + r * z.state_row;
                    cell.forward(record, from_x, h_r, c_r, moments_of(record), scratch);
                    if (records && Cell::STATES > 1) std::copy_n(c_r, z.P, c_of(record));
                    std::copy_n(h_r, z.H, out(p.y) + seq.at(s, r) * z.H);
                }
            }
        }
        rows_out(h, p.h_n);
        rows_out(c, p.c_n);
        clear_padding(p.y, z.H);
    }

    // dW_x (G x inputs.P), dW_h (G x P) and dp are this slice's own, and begin at 0
    void backward(const Weights<T>& forward_W, const Weights<T>& back_W, T* dW_x, T* dW_h,
                  T* dp) const {
        const long M = seq.rows(), most = std::max(M, z.backward_rows());
        Buffer<T> dh(M * z.state_row), dc(M * z.state_row), scratch(z.P * Cell::SCRATCH);
        Buffer<T> x(most * z.input_row), h(most * z.state_row), c0(M * z.state_row);
        Buffer<T> da_h(most * z.row), da_x(most * z.row), a_x(inputs ? 1 : most * z.row);
        x.zero(), h.zero();
        rows_in(p.dh_n, dh);
        rows_in(p.dc_n, dc);
        rows_in(p.c0, c0);
        for (long s0, s1 = seq.steps(); s1 > 0; s1 = s0) {
            s0 = chunk_start(s1, most);
            const long first = seq.first[s0], count = seq.first[s1] - first;
            gather(p.x, z.D, s0, s1, x, z.input_row);
            states_before(s0, s1, h);
            const T* from_x = inputs ? inputs + first * z.row : a_x;
            if (!inputs)
                forward_W.x.multiply(x, z.input_row, count, a_x, z.row, false, false);
            for (long s = s1 - 1; s >= s0; --s) {
                const long at = seq.first[s] - first, going = seq.going(s);
                for (long r = 0; r < going; ++r) {
                    T* record = records + (seq.first[s] + r) * z.record;
                    const T* before = s ? c_of(records + (seq.first[s - 1] + r) * z.record)
                                        : c0 + r * z.state_row;
                    T* dh_r = dh + r * z.state_row;
                    const T* dy = in(p.dy) + seq.at(s, r) * z.H;
                    for (long j = 0; j < z.H; ++j) dh_r[j] += dy[j];
                    cell.backward(record, from_x + (at + r) * z.row,
                                  h + (at + r) * z.state_row, before, c_of(record),
                                  moments_of(record), dh_r, dc + r * z.state_row,
                                  da_h + (at + r) * z.row, da_x + (at + r) * z.row, dp,
                                  scratch);
                }
                back_W.h.multiply(da_h + at * z.row, z.row, going, dh, z.state_row, true, s & 1);
            }
            accumulate_outer<T>(da_h, z.row, z.G, h, z.state_row, z.P, count, dW_h, z.P);
            accumulate_outer<T>(da_x, z.row, z.G, x, z.input_row, z.inputs.P, count, dW_x,
                                z.inputs.P);
            if (p.dx) input_gradients(back_W, da_x, s0, s1, x);
        }
        rows_out(dh, p.dh0);
        rows_out(dc, p.dc0);
        if (p.dx) clear_padding(p.dx, z.D);
    }

  private:
    long chunk_start(long end, long most) const {
        long s = end - 1;
        while (s > 0 && seq.first[end] - seq.first[s - 1] <= most) --s;
        return s;
    }
    void states_before(long s0, long s1, T* h) const {
        for (long s = s0; s < s1; ++s)
            for (long r = 0; r < seq.going(s); ++r, h += z.state_row)
                if (s)
                    std::copy_n(in(p.y) + seq.at(s - 1, r) * z.H, z.H, h);
                else if (p.h0)
                    std::copy_n(in(p.h0) + seq.index[r] * z.H, z.H, h);
                else
                    std::fill_n(h, z.H, T(0));
    }
    void input_gradients(const Weights<T>& back_W, const T* da_x, long s0, long s1,
                         T* dx) const {
        const long count = seq.first[s1] - seq.first[s0];
        back_W.x.multiply(da_x, z.row, count, dx, z.input_row, false, false);
        for (long s = s0; s < s1; ++s)
            for (long r = 0; r < seq.going(s); ++r, dx += z.input_row)
                std::copy_n(dx, z.D, out(p.dx) + seq.at(s, r) * z.D);
    }
};
