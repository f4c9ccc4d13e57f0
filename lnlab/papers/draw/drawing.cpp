// What Python calls of DRAW, in a library of its own: see glimpses.h.
#include "glimpses.h"
#include "slices.h"

LIBRARY_OF(DrawProblem, draw::Slice)
