// The recurrence over time of one slice of the batch, forward and back.
//
// Forward, chunk by chunk: W_x x of the whole chunk at once, so that it is read again while in
// the cache; then for each step W_h h and, example by example, everything else of the step
// (LSTM, GRU or RNN: a Cell). Back, chunk by chunk: example by example the gradients of the
// pre-activations, for each step their product with W_h; then, the chunk still in the cache,
// its share of the gradients of W_h, W_x and x. The gradients of the pre-activations never
// exist for all time. What is normalized over examples (BatchLSTM) goes unit by unit instead,
// all examples of a step.
#pragma once

#include "layers.h"
#include "memory.h"
#include "batch_norm.h"
#include "products.h"
#include "sequences.h"

template <class T, class Cell> struct Sizes {
    static constexpr long FORWARD_ROWS = 64;
    Units<T> units, inputs;
    long B, D, H, P, G, groups, row, input_row, state_row, record;

    explicit Sizes(const Problem& p)
        : units(p.H), inputs(p.D), B(p.B), D(p.D), H(p.H), P(units.P), G(Cell::GATES * P),
          groups(together(p, G * P * sizeof(T), Cell::OVER_EXAMPLES) ? 2 : 1),
          // one vector more than needed: rows 4 KiB apart would share their places in the cache
          row(G + W<T>), input_row(inputs.P + W<T>), state_row(P + W<T>),
          record(G + (Cell::STATES > 1 ? P : 0) + Units<T>(2 * Cell::MOMENTS).P + W<T>) {}

    // few inputs: computing W_x x again is cheaper than fetching it
    bool keeps_inputs() const { return 8 * D > H; }
    long kept() const { return record + (keeps_inputs() ? row : 0); }
    // many: every chunk reads and writes the gradients of the weights; few: it stays in cache
    long backward_rows() const { return G * sizeof(T) > 8192 ? 256 : 128; }
    // the parameter row of padded row g of the pre-activations, or -1 in the padding
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
  public:
    const Sizes<T, Cell>& z;
    const Sequences& seq;

  private:
    const Problem& p;
    const Cell& cell;
    T* const records;  // of each row of each step: pre-activations W_h h, c, moments
    T* const inputs;   // and W_x x, if it is kept

    static const T* in(const void* a) { return static_cast<const T*>(a); }
    static T* out(void* a) { return static_cast<T*>(a); }
    T* c_of(T* record) const { return record + z.G; }
    Moments<T>* moments_of(T* record) const {
        return reinterpret_cast<Moments<T>*>(record + z.G + (Cell::STATES > 1 ? z.P : 0));
    }

    void gather(const void* from, long width, long s0, long s1, T* to, long ld,
                const Member& me) const {
        for (long s = s0; s < s1; ++s)
            for (long r = 0; r < seq.going(s); ++r, to += ld)
                if (s % me.size == me.rank)
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
    // h of row r, or its gradient, as the products see it
    void mask(T* h, long r) const {
        if (!p.mask) return;
        const T* factors = in(p.mask) + seq.index[r] * z.H;
        for (long j = 0; j < z.H; ++j) h[j] *= factors[j];
    }
    // that of all rows that have a step: what is left of the others was in no product
    void mask_first(T* h) const {
        for (long r = 0; r < seq.rows(); ++r)
            if (seq.length[r]) mask(h + r * z.state_row, r);
    }
    void clear_padding(void* a, long width) const {
        for (long r = 0; r < seq.rows(); ++r)
            for (long t = seq.length[r]; t < p.T; ++t)
                std::fill_n(out(a) + (t * z.B + seq.index[r]) * width, width, T(0));
    }

  public:
    Slice(const Problem& problem, const Sizes<T, Cell>& sizes, const Cell& c,
          const Sequences& sequences, T* saved)
        : z(sizes), seq(sequences), p(problem), cell(c), records(saved),
          inputs(saved && sizes.keeps_inputs() ? saved + seq.first.back() * sizes.record
                                               : nullptr) {}

    struct Forward {
        Buffer<T> h, c, x, a_x, a_h, scratch;
        Meeting meeting;

        explicit Forward(const Slice& s)
            : h(s.seq.rows() * s.z.state_row), c(s.seq.rows() * s.z.state_row),
              x(s.forward_rows() * s.z.input_row),
              a_x(s.inputs ? 1 : s.forward_rows() * s.z.row),
              a_h(s.records ? 1 : s.seq.rows() * s.z.record),
              scratch(s.z.groups * s.z.P * Cell::SCRATCH) {
            s.rows_in(s.p.h0, h);
            s.mask_first(h);
            s.rows_in(s.p.c0, c);
        }
    };

    void forward(const Weights<T>& W_of, Forward& own, const Member& me) const {
        for (long s0 = 0, s1; s0 < seq.steps(); s0 = s1) {
            s1 = seq.chunk_end(s0, forward_rows());
            gather(p.x, z.D, s0, s1, own.x, z.input_row, me);
            me.wait();
            T* from_x = inputs ? inputs + seq.first[s0] * z.row : own.a_x;
            W_of.x.multiply(own.x, z.input_row, seq.first[s1] - seq.first[s0], from_x, z.row,
                            false, false, me);
            for (long s = s0; s < s1; ++s) {
                T* record = records ? records + seq.first[s] * z.record : own.a_h;
                W_of.h.multiply(own.h, z.state_row, seq.going(s), record, z.record, false,
                                s & 1, me);
                me.wait();
                for (long group = me.begin(z.groups); group < me.end(z.groups); ++group)
                    forward_step(own, s, group, record, from_x);
                me.wait();
                from_x += seq.going(s) * z.row;
            }
        }
        if (me.rank) return;
        rows_out(own.h, p.h_n);
        rows_out(own.c, p.c_n);
        clear_padding(p.y, z.H);
    }

    struct Backward {
        Buffer<T> dh, dc, c0, x, h, da_h, da_x, a_x, scratch;
        Outer<T> outer[2];  // one for each member
        Meeting meeting;

        explicit Backward(const Slice& s)
            : dh(s.seq.rows() * s.z.state_row), dc(s.seq.rows() * s.z.state_row),
              c0(s.seq.rows() * s.z.state_row), x(s.backward_rows() * s.z.input_row),
              h(s.backward_rows() * s.z.state_row), da_h(s.backward_rows() * s.z.row),
              da_x(s.backward_rows() * s.z.row),
              a_x(s.inputs ? 1 : s.backward_rows() * s.z.row),
              scratch(s.z.groups * s.z.P * Cell::SCRATCH),
              outer{s.outer(), s.outer()} {
            x.zero(), h.zero();
            s.rows_in(s.p.dh_n, dh);
            s.rows_in(s.p.dc_n, dc);
            s.rows_in(s.p.c0, c0);
        }
    };

    // dW_x (G x inputs.P), dW_h (G x P) and dp (one for each group) are this slice's own
    void backward(const Weights<T>& forward_W, const Weights<T>& back_W, Backward& own, T* dW_x,
                  T* dW_h, T* dp, const Member& me) const {
        const Outer<T>& outer = own.outer[me.rank];
        for (long s0, s1 = seq.steps(); s1 > 0; s1 = s0) {
            s0 = seq.chunk_begin(s1, backward_rows());
            const long first = seq.first[s0], count = seq.first[s1] - first;
            gather(p.x, z.D, s0, s1, own.x, z.input_row, me);
            states_before(s0, s1, own.h, me);
            me.wait();
            const T* from_x = inputs ? inputs + first * z.row : own.a_x;
            if (!inputs)
                forward_W.x.multiply(own.x, z.input_row, count, own.a_x, z.row, false, false, me);
            me.wait();
            for (long s = s1 - 1; s >= s0; --s) {
                const long at = seq.first[s] - first;
                for (long group = me.begin(z.groups); group < me.end(z.groups); ++group)
                    backward_step(own, s, group, at, from_x, dp);
                me.wait();
                back_W.h.multiply(own.da_h + at * z.row, z.row, seq.going(s), own.dh,
                                  z.state_row, true, s & 1, me);
                me.wait();
            }
            const bool more = s1 < seq.steps();  // the first chunk writes, the others add
            outer.add(own.da_h, z.row, z.G, own.h, z.state_row, z.P, count, dW_h, more, me);
            outer.add(own.da_x, z.row, z.G, own.x, z.input_row, z.inputs.P, count, dW_x, more,
                      me);
            me.wait();
            if (p.dx) input_gradients(back_W, own, s0, s1, me);
        }
        if (me.rank) return;
        mask_first(own.dh);
        rows_out(own.dh, p.dh0);
        rows_out(own.dc, p.dc0);
        if (p.dx) clear_padding(p.dx, z.D);
    }

    Outer<T> outer() const { return {backward_rows(), std::max(z.inputs.P, z.P)}; }
    long forward_rows() const { return std::max(seq.rows(), z.FORWARD_ROWS); }
    long backward_rows() const { return std::max(seq.rows(), z.backward_rows()); }

  private:
    // the rows of a group that are still going at step s
    long from(long group) const { return seq.rows() * group / z.groups; }
    long to(long group, long s) const { return std::min(from(group + 1), seq.going(s)); }

    // and its units, where units are dealt out
    long unit(long group) const { return z.P / W<T> * group / z.groups * W<T>; }

    void forward_step(Forward& own, long s, long group, T* records_s, const T* from_x) const {
        if constexpr (Cell::OVER_EXAMPLES) forward_units(own, s, group, records_s, from_x);
        else forward_examples(own, s, group, records_s, from_x);
    }
    void backward_step(Backward& own, long s, long group, long at, const T* from_x,
                       T* dp) const {
        dp += group * Cell::PARAMETERS * z.P;
        if constexpr (Cell::OVER_EXAMPLES) backward_units(own, s, group, at, from_x, dp);
        else backward_examples(own, s, group, at, from_x, dp);
    }

    Step<T> all_examples(long s, const T* records_s, const T* from_x) const {
        return {seq.going(s), p.from_batch,
                out(p.statistics) + s * 2 * Cell::STATISTICS * z.H,
                {records_s, z.record}, {from_x, z.row}};
    }

    void forward_units(Forward& own, long s, long group, T* records_s, const T* from_x) const {
        const long begin = unit(group), end = unit(group + 1), real = std::min(end, z.H) - begin;
        cell.forward(all_examples(s, records_s, from_x), {own.h, z.state_row},
                     {own.c, z.state_row}, begin, end);
        for (long r = 0; r < seq.going(s); ++r) {
            const long at = r * z.state_row + begin;
            if (records) copy(own.c + at, end - begin, c_of(records_s + r * z.record) + begin);
            std::copy_n(own.h + at, real, out(p.y) + seq.at(s, r) * z.H + begin);
        }
    }

    void backward_units(Backward& own, long s, long group, long at, const T* from_x,
                        T* dp) const {
        const long begin = unit(group), end = unit(group + 1), real = std::min(end, z.H);
        T* const records_s = records + seq.first[s] * z.record;
        for (long r = 0; r < seq.going(s); ++r) {
            const T* dy = in(p.dy) + seq.at(s, r) * z.H;
            for (long j = begin; j < real; ++j) own.dh[r * z.state_row + j] += dy[j];
        }
        const long row = at * z.row;
        cell.backward(all_examples(s, records_s, from_x + row),
                      {c_before(own, s, 0), s ? z.record : z.state_row},
                      {c_of(records_s), z.record}, {own.dh, z.state_row},
                      {own.dc, z.state_row}, {own.da_h + row, z.row}, {own.da_x + row, z.row},
                      dp, begin, end);
    }

    void forward_examples(Forward& own, long s, long group, T* records_s, const T* from_x) const {
        T* scratch = own.scratch + group * z.P * Cell::SCRATCH;
        for (long r = from(group); r < to(group, s); ++r) {
            T *h = own.h + r * z.state_row, *c = own.c + r * z.state_row;
            T* record = records_s + r * z.record;
            cell.forward(record, from_x + r * z.row, h, c, moments_of(record), scratch);
            if (records && Cell::STATES > 1) std::copy_n(c, z.P, c_of(record));
            std::copy_n(h, z.H, out(p.y) + seq.at(s, r) * z.H);
            if (s + 1 < seq.length[r]) mask(h, r);
        }
    }

    void backward_examples(Backward& own, long s, long group, long at, const T* from_x,
                        T* dp) const {
        T* scratch = own.scratch + group * z.P * Cell::SCRATCH;
        for (long r = from(group); r < to(group, s); ++r) {
            T* record = records + (seq.first[s] + r) * z.record;
            T* dh = own.dh + r * z.state_row;
            const T* dy = in(p.dy) + seq.at(s, r) * z.H;
            if (s + 1 < seq.length[r]) mask(dh, r);
            for (long j = 0; j < z.H; ++j) dh[j] += dy[j];
            const long row = (at + r) * z.row;
            cell.backward(record, from_x + row, own.h + (at + r) * z.state_row,
                          c_before(own, s, r), c_of(record), moments_of(record), dh,
                          own.dc + r * z.state_row, own.da_h + row, own.da_x + row, dp, scratch,
                          next(own, s, r, group, from_x + row));
        }
    }

    const T* c_before(const Backward& own, long s, long r) const {
        return s ? c_of(records + (seq.first[s - 1] + r) * z.record) : own.c0 + r * z.state_row;
    }

    // what the example after this one reads: a_x, where W_x x is computed again
    Ahead<T> next(const Backward& own, long s, long r, long group, const T* a_x) const {
        if (++r == to(group, s)) r = from(group), s -= s > 0;
        const long row = seq.first[s] + r;
        return {records + row * z.record, inputs ? inputs + row * z.row : a_x,
                c_before(own, s, r), in(p.dy) + seq.at(s, r) * z.H};
    }

    void states_before(long s0, long s1, T* h, const Member& me) const {
        for (long s = s0; s < s1; ++s)
            for (long r = 0; r < seq.going(s); ++r, h += z.state_row) {
                if (s % me.size != me.rank) continue;
                if (s)
                    std::copy_n(in(p.y) + seq.at(s - 1, r) * z.H, z.H, h);
                else
                    std::copy_n(in(p.h0) + seq.index[r] * z.H, z.H, h);
                mask(h, r);
            }
    }

    void input_gradients(const Weights<T>& back_W, Backward& own, long s0, long s1,
                         const Member& me) const {
        const long count = seq.first[s1] - seq.first[s0];
        back_W.x.multiply(own.da_x, z.row, count, own.x, z.input_row, false, false, me);
        me.wait();
        const T* dx = own.x;
        for (long s = s0; s < s1; ++s)
            for (long r = 0; r < seq.going(s); ++r, dx += z.input_row)
                if (s % me.size == me.rank)
                    std::copy_n(dx, z.D, out(p.dx) + seq.at(s, r) * z.D);
        me.wait();
    }
};
