#include "simd_avx512.h"
#include "rows.inl"
const headwise::Code headwise::AVX512 = {"avx512", pack, rows};
