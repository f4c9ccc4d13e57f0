// What Python calls of DRAW, in a library of its own: see glimpses.h.
#include "calls.h"
#include "glimpses.h"

namespace {

template <class T, class Task> int64_t with_cell(const DrawProblem& p, Task task) {
    switch (static_cast<Kernel>(p.kernel)) {
        case Kernel::LSTM: return task(draw::Run<T, LSTM<T, true>>(p));
        case Kernel::DRAW: return task(draw::Run<T, LSTM<T, false>>(p));
        default: return task(draw::Run<T, LSTM<T, false, false>>(p));
    }
}

template <class Task> int64_t run(const DrawProblem* p, Task task) {
    return unless_full([&] {
        return p->is_double ? with_cell<double>(*p, task) : with_cell<float>(*p, task);
    });
}

}  // namespace

extern "C" {

// bytes that the way back needs
int64_t saved_bytes(const DrawProblem* p) {
    return run(p, [&](const auto& run) {
        return int64_t(run.saved() * (p->is_double ? sizeof(double) : sizeof(float)));
    });
}

int64_t forward(const DrawProblem* p) {
    return run(p, [](const auto& run) { return run.forward(), int64_t(0); });
}

int64_t backward(const DrawProblem* p) {
    return run(p, [](const auto& run) { return run.backward(), int64_t(0); });
}

// the matrix products alone, there and back
int64_t floor_of(const DrawProblem* p) {
    return run(p, [](const auto& run) { return run.floor(), int64_t(0); });
}
}
