// The matrix products of a step and nothing else, in the shapes and the order of engine.h:
// the lower bound that benchmarks compare with. Results are discarded.
#pragma once

#include "engine.h"

template <class T, class Cell>
void products(const Slice<T, Cell>& slice, const Weights<T>& W_of, const Weights<T>& back_W,
              bool back, const Member& me) {
    const Sizes<T, Cell>& z = slice.z;
    const Sequences& seq = slice.seq;
    const long most = std::max(slice.forward_rows(), slice.backward_rows());
    Buffer<T> h(most * z.state_row), x(most * z.input_row), a(most * z.row);
    Buffer<T> dW(z.G * std::max(z.inputs.P, z.P));
    h.zero(), x.zero(), a.zero();
    for (long s0 = 0, s1; s0 < seq.steps(); s0 = s1) {
        s1 = seq.chunk_end(s0, slice.forward_rows());
        W_of.x.multiply(x, z.input_row, seq.first[s1] - seq.first[s0], a, z.row, false, false,
                        me);
        for (long s = s0; s < s1; ++s)
            W_of.h.multiply(h, z.state_row, seq.going(s), a, z.row, false, s & 1, me);
    }
    const Outer<T> outer = slice.outer();
    for (long s0, s1 = seq.steps(); back && s1 > 0; s1 = s0) {
        s0 = seq.chunk_begin(s1, slice.backward_rows());
        const long count = seq.first[s1] - seq.first[s0];
        for (long s = s0; s < s1; ++s)
            back_W.h.multiply(a, z.row, seq.going(s), h, z.state_row, true, s & 1, me);
        outer.add(a, z.row, z.G, h, z.state_row, z.P, count, dW, s1 < seq.steps(), me);
        outer.add(a, z.row, z.G, x, z.input_row, z.inputs.P, count, dW, s1 < seq.steps(),
                  me);
        back_W.x.multiply(a, z.row, count, x, z.input_row, false, false, me);
    }
}
