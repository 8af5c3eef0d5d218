#include "simd_avx2.h"
#include "rows.inl"
const headwise::Code headwise::AVX2 = {"avx2", pack, rows};
