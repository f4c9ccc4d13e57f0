// The parts of loops whose next input depends on the last output: what a slice of the batch
// knows at each step, and one step of the cell and of affine maps, forward and back. The
// backward pass takes the gradients of weights of some steps at a time, while what they need is
// in the cache.
#pragma once

#include "parameters.h"
#include "lstm.h"

namespace stepped {

constexpr long BACKWARD_ROWS = 256;
const Member ALONE{0, 1, nullptr};

// One quantity of the examples of a slice along the steps: of all, or of the last two.
template <class T> struct Track {
    T* data;
    long ld, rows;
    bool all;

    T* at(long t, long row = 0) const { return data + ((all ? t : t % 2) * rows + row) * ld; }
};

// Those of a cell; states begin before the first step.
template <class T> struct CellTracks {
    Track<T> a_h, a_x, c, h, moments;
};

// Tracks one behind the other in a memory; without one they are counted alone.
template <class T> struct Tracks {
    T* const base;
    const long rows, steps;
    const bool all;
    long count = 0;

    Tracks(long T_, long examples, bool whole, T* memory)
        : base(memory), rows(examples), steps(whole ? T_ + 1 : 2), all(whole) {}

    Track<T> track(long width) {
        // one vector more than needed: rows 4 KiB apart would share their places in the cache
        const Track<T> made{base ? base + count : nullptr, width + W<T>, rows, all};
        count += steps * rows * made.ld;
        return made;
    }
    template <class Cell> CellTracks<T> of_cell(long P) {
        const long G = Cell::GATES * P;
        return {track(G), track(Cell::APART ? G : 0), track(P), track(P),
                track(Units<T>(2 * Cell::MOMENTS).P)};
    }
};

// The gradients of a cell's state before, and of the pre-activations of so many examples and
// steps.
template <class T, class Cell> struct CellBack {
    Buffer<T> h, c, a_h, a_x;

    CellBack(const CellTracks<T>& of, long count)
        : h(of.h.rows * of.h.ld), c(of.h.rows * of.h.ld), a_h(count * of.a_h.ld),
          a_x(Cell::APART ? count * of.a_h.ld : 1) {
        h.zero(), c.zero(), a_h.zero(), a_x.zero();
    }
};

// The examples begin ... begin + rows of a batch of B, which go through T steps by themselves.
template <class T, class Cell> class Steps {
  protected:
    using Of = Recurrent<T, Cell>;
    using Along = CellTracks<T>;
    using Back = CellBack<T, Cell>;
    const long steps, B, begin, rows, P, state;  // P: padded units, state: from row to row
    Buffer<T> scratch, nothing;

    Steps(long T_, long batch, long from, long to, long units, long other_scratch = 0)
        : steps(T_), B(batch), begin(from), rows(to - from), P(units), state(units + W<T>),
          scratch(std::max(Cell::SCRATCH * units, other_scratch)), nothing(Cell::GATES * units) {
        nothing.zero();
    }

    static const T* in(const void* a) { return static_cast<const T*>(a); }
    static T* out(void* a) { return static_cast<T*>(a); }
    long example_at(long t, long row) const { return t * B + begin + row; }
    static void sum(const T* from, long n, T* to) {
        for (long j = 0; j < n; j += W<T>) add<T>(to + j, load(from + j));
    }

    long at_a_time() const { return std::max(1L, BACKWARD_ROWS / rows); }
    // some steps at a time: one(step, its first row among theirs), then chunk(first step, rows)
    template <class One, class Chunk> void back(One one, Chunk chunk) const {
        for (long t0, t1 = steps; t1 > 0; t1 = t0) {
            t0 = std::max(0L, t1 - at_a_time());
            for (long t = t1 - 1; t >= t0; --t) one(t, (t - t0) * rows);
            chunk(t0, (t1 - t0) * rows);
        }
    }

    // to = W h + b
    void affine(const Affine<T>& of, const T* h, const Track<T>& to, long t) const {
        for (long r = 0; r < rows; ++r) std::copy_n((T*)of.b.data, of.b.M, to.at(t, r));
        of.W_.there.multiply(h, state, rows, to.at(t), to.ld, true, t & 1, ALONE);
    }

    void step(const Of& of, const Along& at, const Track<T>& x, long t) const {
        T* a_x = Cell::APART ? at.a_x.at(t) : at.a_h.at(t);
        of.h.there.multiply(at.h.at(t), at.h.ld, rows, at.a_h.at(t), at.a_h.ld, false, t & 1,
                            ALONE);
        of.x.there.multiply(x.at(t), x.ld, rows, a_x, Cell::APART ? at.a_x.ld : at.a_h.ld,
                            !Cell::APART, t & 1, ALONE);
        for (long r = 0; r < rows; ++r) {
            T* c = at.c.at(t + 1, r);
            std::copy_n(at.c.at(t, r), P, c);
            of.cell.forward(at.a_h.at(t, r), Cell::APART ? at.a_x.at(t, r) : nothing,
                            at.h.at(t + 1, r), c, moments(at, t, r), scratch);
        }
    }

    // the matrix products of a step alone
    void only(const Of& of, const Along& at, const Track<T>& x, long t) const {
        of.h.there.multiply(at.h.at(t), at.h.ld, rows, at.a_h.at(t), at.a_h.ld, false, t & 1,
                            ALONE);
        of.x.there.multiply(x.at(t), x.ld, rows, at.a_h.at(t), at.a_h.ld, true, t & 1, ALONE);
    }

    // dh += W^T da
    void through(const Matrix<T>& W_, const T* da, long ld, T* dh, long t) const {
        W_.back.multiply(da, ld, rows, dh, state, true, t & 1, ALONE);
    }

    void step_back(const Of& of, const Along& along, Back& d, long t, long at, T* sums) const {
        for (long r = 0; r < rows; ++r) {
            const long row = (at + r) * along.a_h.ld, place = r * along.h.ld;
            T* da_x = Cell::APART ? d.a_x + row : d.a_h + row;
            const T *a_h = along.a_h.at(t, r), *c = along.c.at(t, r);
            const T* a_x = Cell::APART ? along.a_x.at(t, r) : nothing;
            of.cell.backward(a_h, a_x, nullptr, c, along.c.at(t + 1, r), moments(along, t, r),
                             d.h + place, d.c + place, d.a_h + row, da_x,
                             sums + of.parameters.begin, scratch, {a_h, a_x, c, d.h + place});
        }
    }

    // from the pre-activations of a cell to the state before and to what it was given
    void products_back(const Of& of, const Along& along, Back& d, long at, T* dx, long ld,
                       long t) const {
        const long a = along.a_h.ld;
        const T *da_h = d.a_h + at * a, *da_x = Cell::APART ? d.a_x + at * a : da_h;
        through(of.h, da_h, a, d.h, t);
        of.x.back.multiply(da_x, a, rows, dx, ld, false, t & 1, ALONE);
    }

    // the gradients of weights: of W_ from t0 on ...
    static void weights(const Outer<T>& outer, const Matrix<T>& W_, const T* da, long lda,
                        const T* x, long ldx, long count, T* sums) {
        outer.add(da, lda, W_.M, x, ldx, W_.N, count, sums + W_.begin, true, ALONE);
    }
    // ... and of both matrices of a cell
    static void weights(const Outer<T>& outer, const Of& of, const Along& at, const Back& da,
                        const Track<T>& x, long t0, long count, T* sums) {
        const T* da_x = Cell::APART ? da.a_x : da.a_h;
        weights(outer, of.h, da.a_h, at.a_h.ld, at.h.at(t0), at.h.ld, count, sums);
        weights(outer, of.x, da_x, at.a_h.ld, x.at(t0), x.ld, count, sums);
    }

  private:
    static Moments<T>* moments(const Along& at, long t, long r) {
        return reinterpret_cast<Moments<T>*>(at.moments.at(t, r));
    }
};

}  // namespace stepped
