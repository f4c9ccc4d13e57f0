// DRAW, all its glimpses in one call, forward and back: what lnlab/tasks/draw/net.py says.
//
// The batch is cut into slices that go through all glimpses by themselves. Everything lies
// padded to whole vectors: Places says which number stands where, for parameters and for the
// gradients that a slice adds up of them. On the way back the gradients of weights are taken
// of some glimpses at a time, while what they need is still in the cache.
#pragma once

#include <memory>
#include <vector>

#include "lstm.h"
#include "products.h"
#include "window.h"

constexpr long WINDOW = 5;  // the numbers that place a window

struct DrawProblem {
    static constexpr int PARAMETERS = 17;
    int64_t kernel, is_double, T, B, height, width, H, Z, read, write, first, threads;
    const double* eps;  // of the encoder (4) and the decoder (4)
    const void *x, *noise;
    // of the encoder, then of the decoder: W_x, W_h, parameters of the cell, h_0, c_0; of q, the
    // reader and the writer: W, b; the first canvas
    const void* parameters[PARAMETERS];
    void *canvas, *mean, *log_sigma, *saved;
    void *canvases, *z, *reads, *writes;  // null unless wanted
    const void *dcanvas, *dmean, *dlog_sigma;
    void* slopes[PARAMETERS];
};

namespace draw {

const Member ALONE{0, 1, nullptr};

// the number that stands at each place, -1 in the padding
using Places = std::vector<long>;

template <class T> Places blocks(long count, long n, long from = 0) {
    Places places;
    for (long block = 0; block < count; ++block)
        for (long j = 0; j < Units<T>(n).P; ++j)
            places.push_back(j < n ? from + block * n + j : -1);
    return places;
}

template <class T> Places both(Places a, const Places& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// A parameter (M x N, padded), and where its gradient begins among those of a slice.
template <class T> struct Laid {
    const Places rows, columns;
    const long M, N, begin;
    const Buffer<T> data;

    Laid(const void* from, Places r, Places c, long& end)
        : rows(std::move(r)), columns(std::move(c)), M(long(rows.size())),
          N(long(columns.size())), begin(end), data(M * N) {
        end += M * N;
        std::fill_n((T*)data, M * N, T(0));
        each([&](long to, long i) { data[to] = static_cast<const T*>(from)[i]; });
    }

    // task(place, number) for all that is no padding
    template <class Task> void each(Task task) const {
        const long width = N - std::count(columns.begin(), columns.end(), -1);
        for (long m = 0; m < M; ++m)
            for (long n = 0; rows[m] >= 0 && n < N; ++n)
                if (columns[n] >= 0) task(m * N + n, rows[m] * width + columns[n]);
    }
};

template <class T> struct Vector : Laid<T> {
    Vector(const void* from, Places places, long& end) : Laid<T>(from, places, {0}, end) {}
};

// W of a = W x, packed for it and for dx = W^T da.
template <class T> struct Matrix : Laid<T> {
    const Buffer<T> there_data, back_data;
    Packed<T> there, back;

    Matrix(const void* from, Places rows, Places columns, long& end)
        : Laid<T>(from, rows, columns, end), there_data(this->M * this->N),
          back_data(this->M * this->N) {
        const long M = this->M, N = this->N;
        const T* W_ = this->data;
        there.K = N, there.N = M, there.data = there_data;
        back.K = M, back.N = N, back.data = back_data;
        for (long i = 0; i < there.panels().count(); ++i)
            there.fill_columns(i, [&](long m) { return W_ + m * N; });
        for (long i = 0; i < back.panels().count(); ++i)
            back.fill_rows(i, N, [&](long m) { return W_ + m * N; });
    }
};

template <class T> struct Affine {
    Matrix<T> W_;
    Vector<T> b;

    Affine(const void* const* from, Places rows, Places columns, long& end)
        : W_(from[0], rows, columns, end), b(from[1], rows, end) {}
};

template <class T, class Cell> struct Recurrent {
    Matrix<T> x, h;
    Vector<T> parameters, h0, c0;
    Cell cell;

    Recurrent(const void* const* from, long H, Places inputs, const double* eps, long& end)
        : x(from[0], blocks<T>(4, H), inputs, end),
          h(from[1], blocks<T>(4, H), blocks<T>(1, H), end),
          parameters(from[2], blocks<T>(Cell::PARAMETERS, H), end),
          h0(from[3], blocks<T>(1, H), end), c0(from[4], blocks<T>(1, H), end),
          cell(Units<T>(H), parameters.data, eps) {}
};

template <class T, class Cell> struct Net {
    const DrawProblem& p;
    const Units<T> H, Z;
    const long r;  // the numbers that are read
    long end = 0;
    const Recurrent<T, Cell> encoder, decoder;
    const Affine<T> q, reader, writer;
    const Vector<T> first;

    explicit Net(const DrawProblem& d)
        : p(d), H(d.H), Z(d.Z), r(2 * d.read * d.read),
          encoder(d.parameters, d.H, both<T>(blocks<T>(1, d.H, r), blocks<T>(1, r)), d.eps, end),
          decoder(d.parameters + 5, d.H, blocks<T>(1, d.Z), d.eps + 4, end),
          q(d.parameters + 10, blocks<T>(2, d.Z), blocks<T>(1, d.H), end),
          reader(d.parameters + 12, blocks<T>(1, WINDOW), blocks<T>(1, d.H), end),
          writer(d.parameters + 14, blocks<T>(1, WINDOW + d.write * d.write), blocks<T>(1, d.H),
                 end),
          first(d.parameters[16], blocks<T>(d.height, d.width), end) {}

    // in the order of DrawProblem::parameters
    std::vector<const Laid<T>*> all() const {
        return {&encoder.x, &encoder.h, &encoder.parameters, &encoder.h0, &encoder.c0,
                &decoder.x, &decoder.h, &decoder.parameters, &decoder.h0, &decoder.c0,
                &q.W_, &q.b, &reader.W_, &reader.b, &writer.W_, &writer.b, &first};
    }
};

// One quantity of the cases of a slice along the glimpses: of all, or of the last two.
template <class T> struct Track {
    T* data;
    long ld, rows;
    bool all;

    T* at(long t, long row = 0) const { return data + ((all ? t : t % 2) * rows + row) * ld; }
};

// What a slice knows after each glimpse; states and the canvas begin before the first one.
template <class T, class Cell> struct Tracks {
    struct LSTMs {
        Track<T> a_h, a_x, c, h, moments;
    };
    T* const base;
    const long rows, glimpses;
    long count = 0;
    LSTMs encoder, decoder;
    Track<T> input, q, z, read, write, canvas;

    Tracks(const Net<T, Cell>& net, long cases, bool all, T* memory)
        : base(memory), rows(cases), glimpses(all ? net.p.T + 1 : 2), encoder(lstm(net, all)),
          decoder(lstm(net, all)), input(track(net.encoder.x.N, all)),
          q(track(net.q.W_.M, all)), z(track(net.Z.P, all)), read(track(net.reader.W_.M, all)),
          write(track(net.writer.W_.M, all)), canvas(track(net.first.M, all)) {}

  private:
    Track<T> track(long width, bool all) {
        // one vector more than needed: rows 4 KiB apart would share their places in the cache
        const Track<T> made{base ? base + count : nullptr, width + W<T>, rows, all};
        count += glimpses * rows * made.ld;
        return made;
    }
    LSTMs lstm(const Net<T, Cell>& net, bool all) {
        const long G = Cell::GATES * net.H.P;
        return {track(G, all), track(Cell::APART ? G : 0, all), track(net.H.P, all),
                track(net.H.P, all), track(Units<T>(2 * Cell::MOMENTS).P, all)};
    }
};

constexpr long CASES = 64, BACKWARD_ROWS = 256;

template <class T, class Cell> class Slice {
    using V = vec<T>;
    using Of = Recurrent<T, Cell>;
    using Along = typename Tracks<T, Cell>::LSTMs;
    using Grid = Track<T>;
    const Net<T, Cell>& net;
    const DrawProblem& p;
    const long begin, rows, pixels;
    Buffer<T> own;  // of the tracks, where there is no way back
    const Tracks<T, Cell> k;
    Window<T> reader, writer;
    Buffer<T> pictures, painted, scratch, nothing;

    static const T* in(const void* a) { return static_cast<const T*>(a); }
    static T* out(void* a) { return static_cast<T*>(a); }
    long case_at(long t, long row) const { return t * p.B + begin + row; }

    // a picture, from rows of its width to padded ones, and back
    void padded(const T* from, T* to) const {
        const long P = Units<T>(p.width).P;
        for (long h = 0; h < p.height; ++h, from += p.width, to += P) {
            std::copy_n(from, p.width, to);
            std::fill_n(to + p.width, P - p.width, T(0));
        }
    }
    void bare(const T* from, T* to) const {
        for (long h = 0; h < p.height; ++h, from += Units<T>(p.width).P, to += p.width)
            std::copy_n(from, p.width, to);
    }

    void start(const Grid& track, const Vector<T>& with) const {
        for (long r = 0; r < rows; ++r) std::copy_n((T*)with.data, with.M, track.at(0, r));
    }

  public:
    Slice(const Net<T, Cell>& n, long from, long to, T* saved)
        : net(n), p(n.p), begin(from), rows(to - from), pixels(n.first.M),
          own(saved ? 1 : Tracks<T, Cell>(n, rows, false, nullptr).count),
          k(n, rows, saved, saved ? saved : (T*)own), reader(p.height, p.width, p.read, p.first),
          writer(p.height, p.width, p.write, p.first), pictures(rows * pixels), painted(pixels),
          scratch(std::max(Cell::SCRATCH * n.H.P, 2 * n.Z.P)), nothing(Cell::GATES * n.H.P) {
        nothing.zero();
        for (long r = 0; r < rows; ++r)
            padded(in(p.x) + (begin + r) * p.height * p.width, pictures + r * pixels);
    }

    void forward() {
        start(k.encoder.h, net.encoder.h0), start(k.encoder.c, net.encoder.c0);
        start(k.decoder.h, net.decoder.h0), start(k.decoder.c, net.decoder.c0);
        start(k.canvas, net.first);
        for (long t = 0; t < p.T; ++t) {
            read(t);
            step(net.encoder, k.encoder, k.input, t);
            sample(t);
            step(net.decoder, k.decoder, k.z, t);
            write(t);
        }
        for (long r = 0; r < rows; ++r)
            bare(k.canvas.at(p.T, r), out(p.canvas) + (begin + r) * p.height * p.width);
    }

  private:
    // to = W h + b
    void affine(const Affine<T>& of, const T* h, const Grid& to, long t) const {
        for (long r = 0; r < rows; ++r) std::copy_n((T*)of.b.data, of.b.M, to.at(t, r));
        of.W_.there.multiply(h, k.encoder.h.ld, rows, to.at(t), to.ld, true, t & 1, ALONE);
    }

    void paint(const T* canvas) const {
        for (long j = 0; j < pixels; j += W<T>) store<T>(painted + j, sigmoid<T>(load(canvas + j)));
    }

    void read(long t) {
        affine(net.reader, k.decoder.h.at(t), k.read, t);
        for (long r = 0; r < rows; ++r) {
            const T* raw = k.read.at(t, r);
            T* input = k.input.at(t, r);
            std::copy_n(k.decoder.h.at(t, r), net.H.P, input);
            std::fill_n(input + net.H.P, net.encoder.x.N - net.H.P, T(0));
            reader.place(raw);
            paint(k.canvas.at(t, r));
            reader.read(pictures + r * pixels, painted, input + net.H.P);
            if (p.reads) std::copy_n(raw, WINDOW, out(p.reads) + case_at(t, r) * WINDOW);
        }
    }

    void step(const Of& of, const Along& at, const Grid& x, long t) const {
        T* a_x = Cell::APART ? at.a_x.at(t) : at.a_h.at(t);
        of.h.there.multiply(at.h.at(t), at.h.ld, rows, at.a_h.at(t), at.a_h.ld, false, t & 1,
                            ALONE);
        of.x.there.multiply(x.at(t), x.ld, rows, a_x, Cell::APART ? at.a_x.ld : at.a_h.ld,
                            !Cell::APART, t & 1, ALONE);
        for (long r = 0; r < rows; ++r) {
            T* c = at.c.at(t + 1, r);
            std::copy_n(at.c.at(t, r), net.H.P, c);
            of.cell.forward(at.a_h.at(t, r), Cell::APART ? at.a_x.at(t, r) : nothing,
                            at.h.at(t + 1, r), c, moments(at, t, r), scratch);
        }
    }

    static Moments<T>* moments(const Along& at, long t, long r) {
        return reinterpret_cast<Moments<T>*>(at.moments.at(t, r));
    }

    // the noise of a case, padded
    const T* noise(long t, long r) const {
        std::copy_n(in(p.noise) + case_at(t, r) * p.Z, p.Z, (T*)scratch);
        std::fill_n(scratch + p.Z, net.Z.P - p.Z, T(0));
        return scratch;
    }

    void sample(long t) const {
        affine(net.q, k.encoder.h.at(t + 1), k.q, t);
        for (long r = 0; r < rows; ++r) {
            const T *mean = k.q.at(t, r), *log_sigma = mean + net.Z.P, *e = noise(t, r);
            T* z = k.z.at(t, r);
            for (long j = 0; j < net.Z.P; j += W<T>)
                store<T>(z + j, load(mean + j) + exp<T>(load(log_sigma + j)) * load(e + j));
            const long to = case_at(t, r) * p.Z;
            std::copy_n(mean, p.Z, out(p.mean) + to);
            std::copy_n(log_sigma, p.Z, out(p.log_sigma) + to);
            if (p.z) std::copy_n(z, p.Z, out(p.z) + to);
        }
    }

    void write(long t) {
        affine(net.writer, k.decoder.h.at(t + 1), k.write, t);
        for (long r = 0; r < rows; ++r) {
            const T* raw = k.write.at(t, r);
            T* canvas = k.canvas.at(t + 1, r);
            std::copy_n(k.canvas.at(t, r), pixels, canvas);
            writer.place(raw);
            writer.write(raw + WINDOW, canvas);
            if (p.writes) std::copy_n(raw, WINDOW, out(p.writes) + case_at(t, r) * WINDOW);
            if (p.canvases) bare(canvas, out(p.canvases) + case_at(t, r) * p.height * p.width);
        }
    }

  public:
    // The gradients of some glimpses, and of the state before them.
    struct Back {
        const long steps;
        struct LSTMs {
            Buffer<T> h, c, a_h, a_x;
        } encoder, decoder;
        Buffer<T> input, z, q, read, write, canvas;
        Outer<T> outer;

        explicit Back(const Slice& s)
            : steps(std::max(1L, BACKWARD_ROWS / s.rows)), encoder(lstm(s)), decoder(lstm(s)),
              input(s.rows * s.k.input.ld), z(s.rows * s.k.z.ld), q(steps * s.rows * s.k.q.ld),
              read(steps * s.rows * s.k.read.ld), write(steps * s.rows * s.k.write.ld),
              canvas(s.rows * s.pixels),
              outer(steps * s.rows, std::max(s.net.encoder.x.N, s.net.decoder.x.N)) {
            for (LSTMs* of : {&encoder, &decoder})
                of->h.zero(), of->c.zero(), of->a_h.zero(), of->a_x.zero();
            q.zero(), read.zero(), write.zero();  // their padding
            for (long r = 0; r < s.rows; ++r)
                s.padded(in(s.p.dcanvas) + (s.begin + r) * s.p.height * s.p.width,
                         canvas + r * s.pixels);
        }

      private:
        static LSTMs lstm(const Slice& s) {
            const size_t state = s.rows * s.k.encoder.h.ld;
            const size_t a = std::max(1L, BACKWARD_ROWS / s.rows) * s.rows * s.k.encoder.a_h.ld;
            return {Buffer<T>(state), Buffer<T>(state), Buffer<T>(a),
                    Buffer<T>(Cell::APART ? a : 1)};
        }
    };

    // sums: of this slice alone, in the order of the net
    void backward(Back& d, T* sums) {
        for (long t0, t1 = p.T; t1 > 0; t1 = t0) {
            t0 = std::max(0L, t1 - d.steps);
            for (long t = t1 - 1; t >= t0; --t) glimpse_back(d, t, (t - t0) * rows, sums);
            weights(d, t0, (t1 - t0) * rows, sums);
        }
        state_back(net.encoder, d.encoder, sums);
        state_back(net.decoder, d.decoder, sums);
        for (long r = 0; r < rows; ++r) sum(d.canvas + r * pixels, pixels, sums + net.first.begin);
    }

    // the matrix products alone, in the order of the two above; results are thrown away
    void products(Back& d, T* sums) const {
        for (long t = 0; t < p.T; ++t) {
            affine(net.reader, k.decoder.h.at(t), k.read, t);
            only(net.encoder, k.encoder, k.input, t);
            affine(net.q, k.encoder.h.at(t + 1), k.q, t);
            only(net.decoder, k.decoder, k.z, t);
            affine(net.writer, k.decoder.h.at(t + 1), k.write, t);
        }
        for (long t0, t1 = p.T; t1 > 0; t1 = t0) {
            t0 = std::max(0L, t1 - d.steps);
            for (long t = t1 - 1; t >= t0; --t) {
                through(net.writer.W_, d.write, k.write.ld, d.decoder.h, t);
                products_back(net.decoder, d.decoder, (t - t0) * rows, d.z, k.z.ld, t);
                through(net.q.W_, d.q, k.q.ld, d.encoder.h, t);
                products_back(net.encoder, d.encoder, (t - t0) * rows, d.input, k.input.ld, t);
                through(net.reader.W_, d.read, k.read.ld, d.decoder.h, t);
            }
            weights(d, t0, (t1 - t0) * rows, sums);
        }
    }

  private:
    static void sum(const T* from, long n, T* to) {
        for (long j = 0; j < n; j += W<T>) add<T>(to + j, load(from + j));
    }

    void only(const Of& of, const Along& at, const Grid& x, long t) const {
        of.h.there.multiply(at.h.at(t), at.h.ld, rows, at.a_h.at(t), at.a_h.ld, false, t & 1,
                            ALONE);
        of.x.there.multiply(x.at(t), x.ld, rows, at.a_h.at(t), at.a_h.ld, true, t & 1, ALONE);
    }

    // dh += W^T da
    void through(const Matrix<T>& W_, const T* da, long ld, T* dh, long t) const {
        W_.back.multiply(da, ld, rows, dh, k.encoder.h.ld, true, t & 1, ALONE);
    }

    void glimpse_back(Back& d, long t, long at, T* sums) {
        write_back(d, t, at, sums);
        step_back(net.decoder, k.decoder, d.decoder, t, at, sums);
        products_back(net.decoder, d.decoder, at, d.z, k.z.ld, t);
        sample_back(d, t, at, sums);
        step_back(net.encoder, k.encoder, d.encoder, t, at, sums);
        products_back(net.encoder, d.encoder, at, d.input, k.input.ld, t);
        read_back(d, t, at, sums);
    }

    void write_back(Back& d, long t, long at, T* sums) {
        T* draw = d.write + at * k.write.ld;
        for (long r = 0; r < rows; ++r) {
            writer.place(k.write.at(t, r));
            writer.write_back(k.write.at(t, r) + WINDOW, d.canvas + r * pixels,
                              draw + r * k.write.ld);
            sum(draw + r * k.write.ld, net.writer.b.M, sums + net.writer.b.begin);
        }
        through(net.writer.W_, draw, k.write.ld, d.decoder.h, t);
    }

    void step_back(const Of& of, const Along& along, typename Back::LSTMs& d, long t, long at,
                   T* sums) const {
        for (long r = 0; r < rows; ++r) {
            const long row = (at + r) * along.a_h.ld, state = r * along.h.ld;
            T* da_x = Cell::APART ? d.a_x + row : d.a_h + row;
            const T *a_h = along.a_h.at(t, r), *c = along.c.at(t, r);
            const T* a_x = Cell::APART ? along.a_x.at(t, r) : nothing;
            of.cell.backward(a_h, a_x, nullptr, c, along.c.at(t + 1, r), moments(along, t, r),
                             d.h + state, d.c + state, d.a_h + row, da_x,
                             sums + of.parameters.begin, scratch, {a_h, a_x, c, d.h + state});
        }
    }

    // from the summed inputs of a cell to the state before and to what it was given
    void products_back(const Of& of, typename Back::LSTMs& d, long at, T* dx, long ld,
                       long t) const {
        const long a = k.encoder.a_h.ld;
        const T *da_h = d.a_h + at * a, *da_x = Cell::APART ? d.a_x + at * a : da_h;
        through(of.h, da_h, a, d.h, t);
        of.x.back.multiply(da_x, a, rows, dx, ld, false, t & 1, ALONE);
    }

    void sample_back(Back& d, long t, long at, T* sums) const {
        T* dq = d.q + at * k.q.ld;
        for (long r = 0; r < rows; ++r, dq += k.q.ld) {
            const T *e = noise(t, r), *log_sigma = k.q.at(t, r) + net.Z.P;
            const T* dz = d.z + r * k.z.ld;
            const long from = case_at(t, r) * p.Z;
            for (long j = 0; j < net.Z.P; j += W<T>) {
                store<T>(dq + j, load(dz + j));
                store<T>(dq + net.Z.P + j, load(dz + j) * exp<T>(load(log_sigma + j)) * load(e + j));
            }
            for (long j = 0; j < p.Z; ++j) dq[j] += in(p.dmean)[from + j];
            for (long j = 0; j < p.Z; ++j) dq[net.Z.P + j] += in(p.dlog_sigma)[from + j];
            sum(dq, net.q.b.M, sums + net.q.b.begin);
        }
        through(net.q.W_, d.q + at * k.q.ld, k.q.ld, d.encoder.h, t);
    }

    void read_back(Back& d, long t, long at, T* sums) {
        T* draw = d.read + at * k.read.ld;
        for (long r = 0; r < rows; ++r) {
            const T *dinput = d.input + r * k.input.ld, *seen = k.input.at(t, r) + net.H.P;
            sum(dinput, net.H.P, d.decoder.h + r * k.decoder.h.ld);
            reader.place(k.read.at(t, r));
            paint(k.canvas.at(t, r));
            reader.read_back(pictures + r * pixels, painted, seen, dinput + net.H.P,
                             draw + r * k.read.ld, d.canvas + r * pixels);
            sum(draw + r * k.read.ld, net.reader.b.M, sums + net.reader.b.begin);
        }
        through(net.reader.W_, draw, k.read.ld, d.decoder.h, t);
    }

    void weights(Back& d, long t0, long count, T* sums) const {
        const auto add = [&](const Matrix<T>& W_, const T* da, long lda, const T* x, long ldx) {
            d.outer.add(da, lda, W_.M, x, ldx, W_.N, count, sums + W_.begin, ALONE);
        };
        const auto both = [&](const Of& of, const Along& at, typename Back::LSTMs& da,
                              const Grid& x) {
            const T* da_x = Cell::APART ? da.a_x : da.a_h;
            add(of.h, da.a_h, at.a_h.ld, at.h.at(t0), at.h.ld);
            add(of.x, da_x, at.a_h.ld, x.at(t0), x.ld);
        };
        const long ld = k.encoder.h.ld;
        both(net.encoder, k.encoder, d.encoder, k.input);
        both(net.decoder, k.decoder, d.decoder, k.z);
        add(net.q.W_, d.q, k.q.ld, k.encoder.h.at(t0 + 1), ld);
        add(net.reader.W_, d.read, k.read.ld, k.decoder.h.at(t0), ld);
        add(net.writer.W_, d.write, k.write.ld, k.decoder.h.at(t0 + 1), ld);
    }

    void state_back(const Of& of, typename Back::LSTMs& d, T* sums) const {
        for (long r = 0; r < rows; ++r) {
            sum(d.h + r * k.encoder.h.ld, net.H.P, sums + of.h0.begin);
            sum(d.c + r * k.encoder.h.ld, net.H.P, sums + of.c0.begin);
        }
    }
};

// The batch is cut by its size alone, so that no sum depends on the number of threads.
template <class T, class Cell> struct Run {
    using One = Slice<T, Cell>;
    const DrawProblem& p;
    const Net<T, Cell> net;
    const long count;

    explicit Run(const DrawProblem& d)
        : p(d), net(d), count(std::max(std::min(2L, long(d.B)), (long(d.B) + CASES - 1) / CASES)) {}

    long begin(long s) const { return p.B * s / count; }
    long saved(long s) const {
        return Tracks<T, Cell>(net, begin(s + 1) - begin(s), true, nullptr).count;
    }
    long saved() const {
        long all = 0;
        for (long s = 0; s < count; ++s) all += saved(s);
        return all;
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

    void forward() const {
        const auto all = slices();
        each([&](long s) { all[s]->forward(); });
    }

    void backward() const {
        with_sums([](One& one, auto& d, T* sums) { one.backward(d, sums); });
    }

    void floor() const {
        with_sums([](One& one, auto& d, T* sums) { one.products(d, sums); });
    }

  private:
    template <class Task> void with_sums(Task task) const {
        const auto all = slices();
        std::vector<std::unique_ptr<typename One::Back>> work;
        for (const auto& one : all) work.push_back(std::make_unique<typename One::Back>(*one));
        Buffer<T> sums(count * net.end);
        sums.zero();
        each([&](long s) { task(*all[s], *work[s], sums + s * net.end); });
        add_up(sums);
    }

    void add_up(const T* sums) const {
        const auto parameters = net.all();
#pragma omp parallel for num_threads(p.threads) schedule(dynamic)
        for (int i = 0; i < DrawProblem::PARAMETERS; ++i) {
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

}  // namespace draw
