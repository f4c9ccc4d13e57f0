// What Python calls of handwriting, in a library of its own: see writing.h.
#include "slices.h"
#include "writing.h"

LIBRARY_OF(WriteProblem, writing::Slice)
