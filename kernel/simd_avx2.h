// Eight floats at a time.
#pragma once
#include <immintrin.h>

namespace {
struct V {
    using reg = __m256;
    static constexpr int W = 8, TILE = 2;  // lanes, and registers per row of a product
    static reg load(const float* p) { return _mm256_loadu_ps(p); }
    static void store(float* p, reg x) { _mm256_storeu_ps(p, x); }
    static reg set(float x) { return _mm256_set1_ps(x); }
    static reg zero() { return _mm256_setzero_ps(); }
    static reg count() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
    static reg add(reg a, reg b) { return _mm256_add_ps(a, b); }
    static reg sub(reg a, reg b) { return _mm256_sub_ps(a, b); }
    static reg mul(reg a, reg b) { return _mm256_mul_ps(a, b); }
    static reg fma(reg a, reg b, reg c) { return _mm256_fmadd_ps(a, b, c); }
    static reg max(reg a, reg b) { return _mm256_max_ps(a, b); }  // b where one is NaN
    static reg abs(reg a) { return _mm256_andnot_ps(set(-0.f), a); }
    static unsigned gt(reg a, reg b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
    static unsigned ge(reg a, reg b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
    static float sum(reg a) {
        __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        x = _mm_add_ps(x, _mm_movehl_ps(x, x));
        return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
    }
    static float most(reg a) {
        __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        x = _mm_max_ps(x, _mm_movehl_ps(x, x));
        return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
    }
    // the lanes of x named by `hit`, and their places from j on, one after the other; writes up to W of each
    static void keep(reg x, int j, unsigned hit, float* score, int* at) {
        float all[W];
        store(all, x);
        for (int n = 0; hit != 0; hit &= hit - 1, n++) {
            const int lane = __builtin_ctz(hit);
            score[n] = all[lane];
            at[n] = j + lane;
        }
    }
    // 2^x for x from -150 to 0, 0 below -126; NaN stays NaN
    static reg exp2(reg x) {
        const reg r = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const reg f = sub(x, r);
        reg p = set(1.5403530e-4f);
        p = fma(p, f, set(1.3333558e-3f));
        p = fma(p, f, set(9.6181291e-3f));
        p = fma(p, f, set(5.5504109e-2f));
        p = fma(p, f, set(2.4022651e-1f));
        p = fma(p, f, set(6.9314718e-1f));
        p = fma(p, f, set(1.0f));
        const __m256i power =
            _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(r), _mm256_set1_epi32(127)), 23);
        const reg large = _mm256_cmp_ps(x, set(-126.f), _CMP_NLT_UQ);
        return _mm256_and_ps(mul(p, _mm256_castsi256_ps(power)), large);
    }
};
}  // namespace
