// Sixteen floats at a time.
#pragma once
#include <immintrin.h>

namespace {
struct V {
    using reg = __m512;
    static constexpr int W = 16, TILE = 4;  // lanes, and registers per row of a product
    static reg load(const float* p) { return _mm512_loadu_ps(p); }
    static void store(float* p, reg x) { _mm512_storeu_ps(p, x); }
    static reg set(float x) { return _mm512_set1_ps(x); }
    static reg zero() { return _mm512_setzero_ps(); }
    static reg count() {
        return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
    static reg add(reg a, reg b) { return _mm512_add_ps(a, b); }
    static reg sub(reg a, reg b) { return _mm512_sub_ps(a, b); }
    static reg mul(reg a, reg b) { return _mm512_mul_ps(a, b); }
    static reg fma(reg a, reg b, reg c) { return _mm512_fmadd_ps(a, b, c); }
    static reg max(reg a, reg b) { return _mm512_max_ps(a, b); }  // b where one is NaN
    static reg abs(reg a) { return _mm512_abs_ps(a); }
    static unsigned gt(reg a, reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
    static unsigned ge(reg a, reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
    static float sum(reg a) { return _mm512_reduce_add_ps(a); }
    static float most(reg a) { return _mm512_reduce_max_ps(a); }
    // the lanes of x named by `hit`, and their places from j on, one after the other; writes W of each
    static void keep(reg x, int j, unsigned hit, float* score, int* at) {
        const __m512i place = _mm512_add_epi32(
            _mm512_set1_epi32(j), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        store(score, _mm512_maskz_compress_ps(static_cast<__mmask16>(hit), x));
        _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(static_cast<__mmask16>(hit), place));
    }
    // 2^x for x from -150 to 0; NaN stays NaN
    static reg exp2(reg x) {
        const reg r = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const reg f = sub(x, r);
        reg p = set(1.5403530e-4f);
        p = fma(p, f, set(1.3333558e-3f));
        p = fma(p, f, set(9.6181291e-3f));
        p = fma(p, f, set(5.5504109e-2f));
        p = fma(p, f, set(2.4022651e-1f));
        p = fma(p, f, set(6.9314718e-1f));
        p = fma(p, f, set(1.0f));
        return _mm512_scalef_ps(p, r);
    }
};
}  // namespace
