// The first LSTM of a handwriting net and the window that it moves along a text, all points in
// one call, forward and back: what HandwritingNet._windowed in
// lnlab/papers/handwriting/model.py says.
//
// The batch is cut into slices that go through all points by themselves (step_loop.h). What the
// LSTM is given is x_t and w_{t-1} side by side: w is written where the next step reads it.
#pragma once

#include "along_text.h"
#include "step_loop.h"

struct WriteProblem {
    static constexpr int PARAMETERS = 5;
    int64_t kernel, is_double, T, B, D, V, U, H, K, threads;
    const double* eps;
    const int64_t* char_ids;  // (B, U): characters by number, below 0 where there is none
    const void *x, *h0, *c0, *kappa0, *w0;
    const void* parameters[PARAMETERS];  // W_x, W_h, those of the cell; of the window: W, b
    void *h, *w, *phi, *c_n, *kappa_n, *saved;
    const void *dh, *dw, *dphi, *dc_n, *dkappa_n;  // null where nothing comes back
    void *dx, *dh0, *dc0, *dkappa0, *dw0;
    void* slopes[PARAMETERS];
};

namespace writing {

using namespace stepped;

template <class T, class Cell> struct Net {
    const WriteProblem& p;
    const Units<T> H, K;
    long end = 0;
    const Recurrent<T, Cell> cell;
    const Affine<T> move;

    explicit Net(const WriteProblem& d)
        : p(d), H(d.H), K(d.K), cell(d.parameters, d.H, blocks<T>(1, d.D + d.V), d.eps, end),
          move(d.parameters + 3, blocks<T>(3, d.K), blocks<T>(1, d.H), end) {}

    // in the order of WriteProblem::parameters
    std::vector<const Laid<T>*> all() const {
        return {&cell.x, &cell.h, &cell.parameters, &move.W_, &move.b};
    }
};

// What a slice knows after each point; input and kappa too begin before the first one.
template <class T, class Cell> struct Along : Tracks<T> {
    const CellTracks<T> cell;
    const Track<T> input, move, kappa;

    Along(const Net<T, Cell>& net, long examples, bool all, T* memory)
        : Tracks<T>(net.p.T, examples, all, memory), cell(this->template of_cell<Cell>(net.H.P)),
          input(this->track(net.cell.x.N)), move(this->track(net.move.W_.M)),
          kappa(this->track(net.K.P)) {}
};

template <class T, class Cell> class Slice : stepped::Steps<T, Cell> {
    using Base = stepped::Steps<T, Cell>;
    using Base::begin, Base::rows, Base::example_at, Base::in, Base::out;

  public:
    using Problem = WriteProblem;
    using Net = writing::Net<T, Cell>;
    using Tracks = writing::Along<T, Cell>;

  private:
    const Net& net;
    const Problem& p;
    Buffer<T> own;  // of the tracks, where there is no backward pass
    const Tracks k;
    const AlongText<T> window;
    Buffer<T> phi;

    // rows of n numbers, one for each example: from a (B, n) array, 0 where there is none, and
    // to it
    void rows_in(const void* from, long n, T* to, long ld) const {
        for (long r = 0; from && r < rows; ++r)
            std::copy_n(in(from) + (begin + r) * n, n, to + r * ld);
    }
    void rows_out(const T* from, long ld, long n, void* to) const {
        for (long r = 0; to && r < rows; ++r)
            std::copy_n(from + r * ld, n, out(to) + (begin + r) * n);
    }
    static void clear(const Track<T>& track) { std::fill_n(track.at(0), track.rows * track.ld, T(0)); }

    // task(u, its character) for all characters of an example
    template <class Task> void each_character(long row, Task task) const {
        const int64_t* char_ids = p.char_ids + (begin + row) * p.U;
        for (long u = 0; u < p.U; ++u)
            if (char_ids[u] >= 0) task(u, char_ids[u]);
    }

  public:
    Slice(const Net& n, long from, long to, T* saved)
        : Base(n.p.T, n.p.B, from, to, n.H.P), net(n), p(n.p),
          own(saved ? 1 : Tracks(n, rows, false, nullptr).count),
          k(n, rows, saved, saved ? saved : (T*)own), window(p.K, p.U), phi(window.places.P) {}

    void forward() {
        for (const Track<T>* track : {&k.cell.h, &k.cell.c, &k.kappa, &k.input}) clear(*track);
        rows_in(p.h0, p.H, k.cell.h.at(0), k.cell.h.ld);
        rows_in(p.c0, p.H, k.cell.c.at(0), k.cell.c.ld);
        rows_in(p.kappa0, p.K, k.kappa.at(0), k.kappa.ld);
        rows_in(p.w0, p.V, k.input.at(0) + p.D, k.input.ld);
        for (long t = 0; t < p.T; ++t) {
            for (long r = 0; r < rows; ++r)
                std::copy_n(in(p.x) + example_at(t, r) * p.D, p.D, k.input.at(t, r));
            this->step(net.cell, k.cell, k.input, t);
            this->affine(net.move, k.cell.h.at(t + 1), k.move, t);
            for (long r = 0; r < rows; ++r) look(t, r);
        }
        rows_out(k.cell.c.at(p.T), k.cell.c.ld, p.H, p.c_n);
        rows_out(k.kappa.at(p.T), k.kappa.ld, p.K, p.kappa_n);
    }

  private:
    void look(long t, long r) {
        const long at = example_at(t, r);
        window.move(k.move.at(t, r), k.kappa.at(t, r), k.kappa.at(t + 1, r));
        window.look(k.move.at(t, r), k.kappa.at(t + 1, r), phi);
        T *next = k.input.at(t + 1, r), *w = next + p.D;
        std::fill_n(next, net.cell.x.N, T(0));
        each_character(r, [&](long u, long c) { w[c] += phi[u]; });
        std::copy_n(k.cell.h.at(t + 1, r), p.H, out(p.h) + at * p.H);
        std::copy_n(w, p.V, out(p.w) + at * p.V);
        std::copy_n((T*)phi, p.U + 1, out(p.phi) + at * (p.U + 1));
    }

  public:
    // The gradients of some points, and of the memory before them.
    struct Back {
        CellBack<T, Cell> cell;
        Buffer<T> input, kappa, move, dphi;
        Outer<T> outer;

        explicit Back(const Slice& s) : Back(s, s.at_a_time() * s.rows) {
            input.zero(), kappa.zero(), move.zero(), dphi.zero();
            s.rows_in(s.p.dc_n, s.p.H, cell.c, s.k.cell.c.ld);
            s.rows_in(s.p.dkappa_n, s.p.K, kappa, s.k.kappa.ld);
        }

      private:
        Back(const Slice& s, long most)
            : cell(s.k.cell, most), input(s.rows * s.k.input.ld), kappa(s.rows * s.k.kappa.ld),
              move(most * s.k.move.ld), dphi(s.window.places.P),
              outer(most, std::max(s.net.cell.x.N, s.net.H.P)) {}
    };

    // sums: of this slice alone, in the order of the net
    void backward(Back& d, T* sums) {
        this->back([&](long t, long at) { point_back(d, t, at, sums); },
                   [&](long t0, long count) { weights(d, t0, count, sums); });
        rows_out(d.cell.h, k.cell.h.ld, p.H, p.dh0);
        rows_out(d.cell.c, k.cell.c.ld, p.H, p.dc0);
        rows_out(d.kappa, k.kappa.ld, p.K, p.dkappa0);
        rows_out(d.input + p.D, k.input.ld, p.V, p.dw0);
    }

    // the matrix products alone, in the order of the two above; results are thrown away
    void products(Back& d, T* sums) const {
        for (long t = 0; t < p.T; ++t) {
            this->only(net.cell, k.cell, k.input, t);
            this->affine(net.move, k.cell.h.at(t + 1), k.move, t);
        }
        this->back([&](long t, long at) { move_back(d, t, at), cell_back(d, t, at); },
                   [&](long t0, long count) { weights(d, t0, count, sums); });
    }

  private:
    void point_back(Back& d, long t, long at, T* sums) const {
        for (long r = 0; r < rows; ++r) {
            const long place = example_at(t, r);
            T* dof = d.move + (at + r) * k.move.ld;
            look_back(d, r, place);
            window.back(k.move.at(t, r), k.kappa.at(t + 1, r), d.dphi, d.kappa + r * k.kappa.ld,
                        dof);
            Base::sum(dof, net.move.b.M, sums + net.move.b.begin);
            T* dh = d.cell.h + r * k.cell.h.ld;
            for (long j = 0; p.dh && j < p.H; ++j) dh[j] += in(p.dh)[place * p.H + j];
        }
        move_back(d, t, at);
        this->step_back(net.cell, k.cell, d.cell, t, at, sums);
        cell_back(d, t, at);
        for (long r = 0; p.dx && r < rows; ++r)
            std::copy_n(d.input + r * k.input.ld, p.D, out(p.dx) + example_at(t, r) * p.D);
    }

    // d.dphi, from what comes back from the window, phi and the next step
    void look_back(Back& d, long r, long place) const {
        T *dw = d.input + r * k.input.ld + p.D, *dphi = d.dphi;
        for (long c = 0; p.dw && c < p.V; ++c) dw[c] += in(p.dw)[place * p.V + c];
        if (p.dphi) std::copy_n(in(p.dphi) + place * (p.U + 1), p.U + 1, dphi);
        else std::fill_n(dphi, p.U + 1, T(0));
        each_character(r, [&](long u, long c) { dphi[u] += dw[c]; });
    }

    void move_back(Back& d, long t, long at) const {
        this->through(net.move.W_, d.move + at * k.move.ld, k.move.ld, d.cell.h, t);
    }
    void cell_back(Back& d, long t, long at) const {
        this->products_back(net.cell, k.cell, d.cell, at, d.input, k.input.ld, t);
    }

    void weights(Back& d, long t0, long count, T* sums) const {
        Base::weights(d.outer, net.cell, k.cell, d.cell, k.input, t0, count, sums);
        Base::weights(d.outer, net.move.W_, d.move, k.move.ld, k.cell.h.at(t0 + 1),
                      k.cell.h.ld, count, sums);
    }
};

}  // namespace writing
