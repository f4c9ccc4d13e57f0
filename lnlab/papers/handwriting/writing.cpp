// What Python calls of handwriting, in a library of its own: see writing.h.
#include "sliced.h"
#include "writing.h"

LIBRARY_OF(WriteProblem, writing::Slice)
