// DRAW, all its glimpses in one call, forward and back: what lnlab/papers/draw/model.py says.
//
// The batch is cut into slices that go through all glimpses by themselves (step_loop.h).
#pragma once

#include "step_loop.h"
#include "window.h"

constexpr long WINDOW = 5;  // the numbers that place a window

struct DrawProblem {
    static constexpr int PARAMETERS = 17;
    int64_t kernel, is_double, T, B, height, width, H, Z, read, write, first, threads;
    const double* eps;  // of the encoder (4) and the decoder (4)
    const void *x, *noise;
    // of the encoder, then of the decoder: W_x, W_h, parameters of the cell, h_0, c_0; of q,
    // the reader and the writer: W, b; the first canvas
    const void* parameters[PARAMETERS];
    void *canvas, *mean, *log_sigma, *saved;
    void *canvases, *z, *reads, *writes;  // null unless wanted
    const void *dcanvas, *dmean, *dlog_sigma;
    void* slopes[PARAMETERS];
};

namespace draw {

using namespace stepped;

// A cell whose first state is learned.
template <class T, class Cell> struct Begun : Recurrent<T, Cell> {
    Vector<T> h0, c0;

    Begun(const void* const* from, long H, Places inputs, const double* eps, long& end)
        : Recurrent<T, Cell>(from, H, std::move(inputs), eps, end),
          h0(from[3], blocks<T>(1, H), end), c0(from[4], blocks<T>(1, H), end) {}
};

template <class T, class Cell> struct Net {
    const DrawProblem& p;
    const Units<T> H, Z;
    const long r;  // the numbers that are read
    long end = 0;
    const Begun<T, Cell> encoder, decoder;
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

// What a slice knows after each glimpse; the canvas too begins before the first one.
template <class T, class Cell> struct Along : Tracks<T> {
    const CellTracks<T> encoder, decoder;
    const Track<T> input, q, z, read, write, canvas;

    Along(const Net<T, Cell>& net, long examples, bool all, T* memory)
        : Tracks<T>(net.p.T, examples, all, memory),
          encoder(this->template of_cell<Cell>(net.H.P)),
          decoder(this->template of_cell<Cell>(net.H.P)), input(this->track(net.encoder.x.N)),
          q(this->track(net.q.W_.M)), z(this->track(net.Z.P)), read(this->track(net.reader.W_.M)),
          write(this->track(net.writer.W_.M)), canvas(this->track(net.first.M)) {}
};

template <class T, class Cell> class Slice : stepped::Steps<T, Cell> {
    using V = vec<T>;
    using Base = stepped::Steps<T, Cell>;
    using Base::begin, Base::rows, Base::scratch, Base::example_at, Base::in, Base::out;

  public:
    using Problem = DrawProblem;
    using Net = draw::Net<T, Cell>;
    using Tracks = draw::Along<T, Cell>;

  private:
    const Net& net;
    const Problem& p;
    const long pixels;
    Buffer<T> own;  // of the tracks, where there is no backward pass
    const Tracks k;
    Window<T> reader, writer;
    Buffer<T> pictures, painted;

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

    void start(const Track<T>& track, const Vector<T>& with) const {
        for (long r = 0; r < rows; ++r) std::copy_n((T*)with.data, with.M, track.at(0, r));
    }

  public:
    Slice(const Net& n, long from, long to, T* saved)
        : Base(n.p.T, n.p.B, from, to, n.H.P, 2 * n.Z.P), net(n), p(n.p), pixels(n.first.M),
          own(saved ? 1 : Tracks(n, rows, false, nullptr).count),
          k(n, rows, saved, saved ? saved : (T*)own), reader(p.height, p.width, p.read, p.first),
          writer(p.height, p.width, p.write, p.first), pictures(rows * pixels), painted(pixels) {
        for (long r = 0; r < rows; ++r)
            padded(in(p.x) + (begin + r) * p.height * p.width, pictures + r * pixels);
    }

    void forward() {
        start(k.encoder.h, net.encoder.h0), start(k.encoder.c, net.encoder.c0);
        start(k.decoder.h, net.decoder.h0), start(k.decoder.c, net.decoder.c0);
        start(k.canvas, net.first);
        for (long t = 0; t < p.T; ++t) {
            read(t);
            this->step(net.encoder, k.encoder, k.input, t);
            sample(t);
            this->step(net.decoder, k.decoder, k.z, t);
            write(t);
        }
        for (long r = 0; r < rows; ++r)
            bare(k.canvas.at(p.T, r), out(p.canvas) + (begin + r) * p.height * p.width);
    }

  private:
    void paint(const T* canvas) const {
        for (long j = 0; j < pixels; j += W<T>) store<T>(painted + j, sigmoid<T>(load(canvas + j)));
    }

    void read(long t) {
        this->affine(net.reader, k.decoder.h.at(t), k.read, t);
        for (long r = 0; r < rows; ++r) {
            const T* raw = k.read.at(t, r);
            T* input = k.input.at(t, r);
            std::copy_n(k.decoder.h.at(t, r), net.H.P, input);
            std::fill_n(input + net.H.P, net.encoder.x.N - net.H.P, T(0));
            reader.place(raw);
            paint(k.canvas.at(t, r));
            reader.read(pictures + r * pixels, painted, input + net.H.P);
            if (p.reads) std::copy_n(raw, WINDOW, out(p.reads) + example_at(t, r) * WINDOW);
        }
    }

    // the noise of an example, padded
    const T* noise(long t, long r) const {
        std::copy_n(in(p.noise) + example_at(t, r) * p.Z, p.Z, (T*)scratch);
        std::fill_n(scratch + p.Z, net.Z.P - p.Z, T(0));
        return scratch;
    }

    void sample(long t) const {
        this->affine(net.q, k.encoder.h.at(t + 1), k.q, t);
        for (long r = 0; r < rows; ++r) {
            const T *mean = k.q.at(t, r), *log_sigma = mean + net.Z.P, *e = noise(t, r);
            T* z = k.z.at(t, r);
            for (long j = 0; j < net.Z.P; j += W<T>)
                store<T>(z + j, load(mean + j) + exp<T>(load(log_sigma + j)) * load(e + j));
            const long to = example_at(t, r) * p.Z;
            std::copy_n(mean, p.Z, out(p.mean) + to);
            std::copy_n(log_sigma, p.Z, out(p.log_sigma) + to);
            if (p.z) std::copy_n(z, p.Z, out(p.z) + to);
        }
    }

    void write(long t) {
        this->affine(net.writer, k.decoder.h.at(t + 1), k.write, t);
        for (long r = 0; r < rows; ++r) {
            const T* raw = k.write.at(t, r);
            T* canvas = k.canvas.at(t + 1, r);
            std::copy_n(k.canvas.at(t, r), pixels, canvas);
            writer.place(raw);
            writer.write(raw + WINDOW, canvas);
            if (p.writes) std::copy_n(raw, WINDOW, out(p.writes) + example_at(t, r) * WINDOW);
            if (p.canvases) bare(canvas, out(p.canvases) + example_at(t, r) * p.height * p.width);
        }
    }

  public:
    // The gradients of some glimpses, and of the state before them.
    struct Back {
        CellBack<T, Cell> encoder, decoder;
        Buffer<T> input, z, q, read, write, canvas;
        Outer<T> outer;

        explicit Back(const Slice& s) : Back(s, s.at_a_time() * s.rows) {
            q.zero(), read.zero(), write.zero();  // their padding
            for (long r = 0; r < s.rows; ++r)
                s.padded(in(s.p.dcanvas) + (s.begin + r) * s.p.height * s.p.width,
                         canvas + r * s.pixels);
        }

      private:
        Back(const Slice& s, long most)
            : encoder(s.k.encoder, most), decoder(s.k.decoder, most),
              input(s.rows * s.k.input.ld), z(s.rows * s.k.z.ld), q(most * s.k.q.ld),
              read(most * s.k.read.ld), write(most * s.k.write.ld), canvas(s.rows * s.pixels),
              outer(most, std::max(s.net.encoder.x.N, s.net.decoder.x.N)) {}
    };

    // sums: of this slice alone, in the order of the net
    void backward(Back& d, T* sums) {
        this->back([&](long t, long at) { glimpse_back(d, t, at, sums); },
                   [&](long t0, long count) { weights(d, t0, count, sums); });
        state_back(net.encoder, d.encoder, sums);
        state_back(net.decoder, d.decoder, sums);
        for (long r = 0; r < rows; ++r)
            Base::sum(d.canvas + r * pixels, pixels, sums + net.first.begin);
    }

    // the matrix products alone, in the order of the two above; results are thrown away
    void products(Back& d, T* sums) const {
        for (long t = 0; t < p.T; ++t) {
            this->affine(net.reader, k.decoder.h.at(t), k.read, t);
            this->only(net.encoder, k.encoder, k.input, t);
            this->affine(net.q, k.encoder.h.at(t + 1), k.q, t);
            this->only(net.decoder, k.decoder, k.z, t);
            this->affine(net.writer, k.decoder.h.at(t + 1), k.write, t);
        }
        this->back(
            [&](long t, long at) {
                this->through(net.writer.W_, d.write, k.write.ld, d.decoder.h, t);
                decoder_back(d, t, at);
                this->through(net.q.W_, d.q, k.q.ld, d.encoder.h, t);
                encoder_back(d, t, at);
                this->through(net.reader.W_, d.read, k.read.ld, d.decoder.h, t);
            },
            [&](long t0, long count) { weights(d, t0, count, sums); });
    }

  private:
    void encoder_back(Back& d, long t, long at) const {
        this->products_back(net.encoder, k.encoder, d.encoder, at, d.input, k.input.ld, t);
    }
    void decoder_back(Back& d, long t, long at) const {
        this->products_back(net.decoder, k.decoder, d.decoder, at, d.z, k.z.ld, t);
    }

    void glimpse_back(Back& d, long t, long at, T* sums) {
        write_back(d, t, at, sums);
        this->step_back(net.decoder, k.decoder, d.decoder, t, at, sums);
        decoder_back(d, t, at);
        sample_back(d, t, at, sums);
        this->step_back(net.encoder, k.encoder, d.encoder, t, at, sums);
        encoder_back(d, t, at);
        read_back(d, t, at, sums);
    }

    void write_back(Back& d, long t, long at, T* sums) {
        T* draw = d.write + at * k.write.ld;
        for (long r = 0; r < rows; ++r) {
            writer.place(k.write.at(t, r));
            writer.write_back(k.write.at(t, r) + WINDOW, d.canvas + r * pixels,
                              draw + r * k.write.ld);
            Base::sum(draw + r * k.write.ld, net.writer.b.M, sums + net.writer.b.begin);
        }
        this->through(net.writer.W_, draw, k.write.ld, d.decoder.h, t);
    }

    void sample_back(Back& d, long t, long at, T* sums) const {
        T* dq = d.q + at * k.q.ld;
        for (long r = 0; r < rows; ++r, dq += k.q.ld) {
            const T *e = noise(t, r), *log_sigma = k.q.at(t, r) + net.Z.P;
            const T* dz = d.z + r * k.z.ld;
            const long from = example_at(t, r) * p.Z;
            for (long j = 0; j < net.Z.P; j += W<T>) {
                store<T>(dq + j, load(dz + j));
                store<T>(dq + net.Z.P + j, load(dz + j) * exp<T>(load(log_sigma + j)) * load(e + j));
            }
            for (long j = 0; j < p.Z; ++j) dq[j] += in(p.dmean)[from + j];
            for (long j = 0; j < p.Z; ++j) dq[net.Z.P + j] += in(p.dlog_sigma)[from + j];
            Base::sum(dq, net.q.b.M, sums + net.q.b.begin);
        }
        this->through(net.q.W_, d.q + at * k.q.ld, k.q.ld, d.encoder.h, t);
    }

    void read_back(Back& d, long t, long at, T* sums) {
        T* draw = d.read + at * k.read.ld;
        for (long r = 0; r < rows; ++r) {
            const T *dinput = d.input + r * k.input.ld, *seen = k.input.at(t, r) + net.H.P;
            Base::sum(dinput, net.H.P, d.decoder.h + r * k.decoder.h.ld);
            reader.place(k.read.at(t, r));
            paint(k.canvas.at(t, r));
            reader.read_back(pictures + r * pixels, painted, seen, dinput + net.H.P,
                             draw + r * k.read.ld, d.canvas + r * pixels);
            Base::sum(draw + r * k.read.ld, net.reader.b.M, sums + net.reader.b.begin);
        }
        this->through(net.reader.W_, draw, k.read.ld, d.decoder.h, t);
    }

    void weights(Back& d, long t0, long count, T* sums) const {
        const auto add = [&](const Affine<T>& of, const T* da, long lda, const T* h) {
            Base::weights(d.outer, of.W_, da, lda, h, this->state, count, sums);
        };
        Base::weights(d.outer, net.encoder, k.encoder, d.encoder, k.input, t0, count, sums);
        Base::weights(d.outer, net.decoder, k.decoder, d.decoder, k.z, t0, count, sums);
        add(net.q, d.q, k.q.ld, k.encoder.h.at(t0 + 1));
        add(net.reader, d.read, k.read.ld, k.decoder.h.at(t0));
        add(net.writer, d.write, k.write.ld, k.decoder.h.at(t0 + 1));
    }

    void state_back(const Begun<T, Cell>& of, const CellBack<T, Cell>& d, T* sums) const {
        for (long r = 0; r < rows; ++r) {
            Base::sum(d.h + r * k.encoder.h.ld, net.H.P, sums + of.h0.begin);
            Base::sum(d.c + r * k.encoder.h.ld, net.H.P, sums + of.c0.begin);
        }
    }
};

}  // namespace draw
