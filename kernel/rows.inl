// The work itself, written once over the struct V of a set of instructions.
//
// Everything here is local to the file that includes it and takes nothing from the C++ library: code made for
// one CPU must not be merged with the same code made for another.
//
// A block is some query rows of one head with all the keys they see:
//   scores = q k^T (the scale is in q), row by row the softmax in place and its statistics, column by
//   column what the keys receive, then z = weights v, divided by each row's sum at the end.
#include <math.h>
#include <string.h>

#include "headwise.h"

namespace {
using headwise::ALIGN;
using headwise::Item;
using headwise::Job;
using headwise::MOST_ROWS;
using headwise::MOST_TOP;
using headwise::Prepared;
using reg = V::reg;

constexpr int R = 6;                     // rows of a product
constexpr int PANEL = V::TILE * V::W;    // keys of a panel
constexpr int GROUPS = (MOST_ROWS + R - 1) / R;
constexpr int CHUNK = 4 * V::W;          // columns added up at a time
constexpr float LOG2E = 1.4426950408889634f;
constexpr float LN2 = 0.6931471805599453f;
static_assert(ALIGN % PANEL == 0 && ALIGN % CHUNK == 0, "panels and chunks fill the padded keys");

struct bf16 {
    uint16_t bits;
};
constexpr int least(int a, int b) { return a < b ? a : b; }
constexpr int most(int a, int b) { return a > b ? a : b; }
inline int down(int x, int to) { return x / to * to; }
inline int up(int x, int to) { return (x + to - 1) / to * to; }

inline float real(float x) { return x; }
inline float real(bf16 x) {
    const uint32_t bits = uint32_t(x.bits) << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}
inline __m128 four(const float* p) { return _mm_loadu_ps(p); }
inline __m128 four(const bf16* p) {
    const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(x), 16));
}
inline void put(float* p, float x) { *p = x; }
inline void put(bf16* p, float x) {  // to the nearest, ties to even
    uint32_t bits;
    memcpy(&bits, &x, 4);
    p->bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// ---- products -------------------------------------------------------------------------------------------------

// C[rows, N registers] (+)= A[rows, depth] B[depth, N registers]
template <int rows, int N, bool add>
inline void product(const float* a, int lda, const float* b, int ldb, float* c, int ldc, int depth) {
    reg sum[rows][N];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < N; j++) sum[i][j] = add ? V::load(c + i * (size_t)ldc + j * V::W) : V::zero();
    for (int d = 0; d < depth; d++) {
        reg right[N];
        for (int j = 0; j < N; j++) right[j] = V::load(b + d * (size_t)ldb + j * V::W);
        for (int i = 0; i < rows; i++) {
            const reg left = V::set(a[i * (size_t)lda + d]);
            for (int j = 0; j < N; j++) sum[i][j] = V::fma(left, right[j], sum[i][j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < N; j++) V::store(c + i * (size_t)ldc + j * V::W, sum[i][j]);
}

template <int N, bool add>
void products(int rows, const float* a, int lda, const float* b, int ldb, float* c, int ldc, int depth) {
    switch (rows) {
        case 1: return product<1, N, add>(a, lda, b, ldb, c, ldc, depth);
        case 2: return product<2, N, add>(a, lda, b, ldb, c, ldc, depth);
        case 3: return product<3, N, add>(a, lda, b, ldb, c, ldc, depth);
        case 4: return product<4, N, add>(a, lda, b, ldb, c, ldc, depth);
        case 5: return product<5, N, add>(a, lda, b, ldb, c, ldc, depth);
        default: return product<6, N, add>(a, lda, b, ldb, c, ldc, depth);
    }
}

// The same for the first `used` registers of a panel of keys, without adding.
inline void narrow(int used, int rows, const float* a, int lda, const float* panel, float* c, int ldc, int depth) {
    switch (used) {
        case 1: return products<1, false>(rows, a, lda, panel, PANEL, c, ldc, depth);
        case 2: return products<2, false>(rows, a, lda, panel, PANEL, c, ldc, depth);
        case 3: return products<least(3, V::TILE), false>(rows, a, lda, panel, PANEL, c, ldc, depth);
        default: return products<V::TILE, false>(rows, a, lda, panel, PANEL, c, ldc, depth);
    }
}

// Adding, for any width that is a multiple of the lanes.
void wide(int rows, const float* a, int lda, const float* b, int ldb, float* c, int ldc, int depth, int width) {
    int at = 0;
    for (; at + PANEL <= width; at += PANEL)
        products<V::TILE, true>(rows, a, lda, b + at, ldb, c + at, ldc, depth);
    switch ((width - at) / V::W) {
        case 1: return products<1, true>(rows, a, lda, b + at, ldb, c + at, ldc, depth);
        case 2: return products<2, true>(rows, a, lda, b + at, ldb, c + at, ldc, depth);
        case 3: return products<least(3, V::TILE), true>(rows, a, lda, b + at, ldb, c + at, ldc, depth);
        default: return;
    }
}

// ---- packing --------------------------------------------------------------------------------------------------

template <class T>
void pack_k(const T* source, int64_t stride, int count, int dim, float* panel) {
    int j = 0;
    for (; j + 4 <= count; j += 4) {
        const T* s = source + j * stride;
        int d = 0;
        for (; d + 4 <= dim; d += 4) {
            __m128 a = four(s + d), b = four(s + stride + d), c = four(s + 2 * stride + d),
                   e = four(s + 3 * stride + d);
            _MM_TRANSPOSE4_PS(a, b, c, e);
            _mm_storeu_ps(panel + (d + 0) * PANEL + j, a);
            _mm_storeu_ps(panel + (d + 1) * PANEL + j, b);
            _mm_storeu_ps(panel + (d + 2) * PANEL + j, c);
            _mm_storeu_ps(panel + (d + 3) * PANEL + j, e);
        }
        for (; d < dim; d++)
            for (int t = 0; t < 4; t++) panel[d * PANEL + j + t] = real(s[t * stride + d]);
    }
    for (; j < PANEL; j++)
        for (int d = 0; d < dim; d++) panel[d * PANEL + j] = j < count ? real(source[j * stride + d]) : 0.f;
}

template <class T>
void pack_block(const Job& job, const Prepared& pre, int batch, int kv_head, int block, float* k, float* v) {
    const T* keys = static_cast<const T*>(job.k.data) + batch * job.k.batch + kv_head * job.k.head;
    const T* values = static_cast<const T*>(job.v.data) + batch * job.v.batch + kv_head * job.v.head;
    const int first = block * ALIGN;
    for (int at = first; at < first + ALIGN; at += PANEL) {
        const int count = most(0, least(PANEL, job.keys - at));
        pack_k(keys + (int64_t)at * job.k.row, job.k.row, count, job.dim, k + (size_t)at * job.dim);
    }
    for (int at = first; at < first + ALIGN; at++) {
        float* to = v + (size_t)at * pre.padded_v;
        const T* from = values + (int64_t)at * job.v.row;
        const int width = at < job.keys ? job.v_dim : 0;
        for (int d = 0; d < width; d++) to[d] = real(from[d]);
        for (int d = width; d < pre.padded_v; d++) to[d] = 0.f;
    }
}

void pack(const Job& job, const Prepared& pre, int batch, int kv_head, int block, float* k, float* v) {
    if (job.bf16)
        pack_block<bf16>(job, pre, batch, kv_head, block, k, v);
    else
        pack_block<float>(job, pre, batch, kv_head, block, k, v);
}

// ---- one row --------------------------------------------------------------------------------------------------

// Scores of a row lie in s[begin..end), begin and end multiples of the lanes; outside [lo, hi) they are -inf.
struct Row {
    float* s;
    int begin, end, lo, hi;
};

constexpr int LANES = MOST_TOP / V::W;  // registers whose lanes are as many as keys are kept at most

// The greatest of each lane of `used` interleaved registers.
template <int used>
inline void lane_most(const float* s, int begin, int end, reg* found) {
    for (int t = 0; t < used; t++) found[t] = V::set(-INFINITY);
    int j = begin;
    for (; j + used * V::W <= end; j += used * V::W)
        for (int t = 0; t < used; t++) found[t] = V::max(found[t], V::load(s + j + t * V::W));
    for (int t = 0; j < end; j += V::W, t++) found[t] = V::max(found[t], V::load(s + j));
}

inline float row_most(const float* s, int begin, int end) {
    reg found[4];
    lane_most<4>(s, begin, end, found);
    return V::most(V::max(V::max(found[0], found[1]), V::max(found[2], found[3])));
}

// The count-th greatest of the lanes: at least `count` scores are as great.
template <int used>
float nth_lane(const reg* lanes, int count) {
    float each[used * V::W], least_of = INFINITY;
    for (int t = 0; t < used; t++) V::store(each + t * V::W, lanes[t]);
    for (int i = 0; i < used * V::W; i++) {
        const reg x = V::set(each[i]);
        int greater = 0;
        for (int t = 0; t < used; t++) greater += __builtin_popcount(V::gt(lanes[t], x));
        if (greater < count) least_of = each[i] < least_of ? each[i] : least_of;
    }
    return least_of;
}

// Keys gathered as candidates for the top, in the order of the row; at most ROOM, and a register to spare.
constexpr int ROOM = 64;
struct Top {
    float score[ROOM + V::W];
    int at[ROOM + V::W];
    int count;
};

// Keep the `want` greatest, greatest first, the earlier first among equals. No branch hangs on the scores.
void sort_top(Top& top, int want) {
    float score[MOST_TOP + 1];
    int at[MOST_TOP + 1];
    const int used = (top.count + V::W - 1) / V::W;
    V::store(top.score + top.count, V::set(-INFINITY));
    for (int i = 0; i < top.count; i++) {
        const reg x = V::set(top.score[i]);
        int before = 0;
        for (int t = 0; t < used; t++) {
            const reg other = V::load(top.score + t * V::W);
            const int here = i - t * V::W;  // lanes below this one come earlier in the row
            const unsigned earlier = here >= V::W ? ~0u : here > 0 ? (1u << here) - 1 : 0u;
            before += __builtin_popcount((V::ge(other, x) & earlier) | (V::gt(other, x) & ~earlier));
        }
        const int place = least(before, want);
        score[place] = top.score[i];
        at[place] = top.at[i];
    }
    top.count = least(top.count, want);
    for (int t = 0; t < top.count; t++) {
        top.score[t] = score[t];
        top.at[t] = at[t];
    }
}

// The `want` greatest of s[begin..end), greatest first, the earlier first among equals; -inf and NaN are left out.
template <int used>
void find_top(const float* s, int begin, int end, int want, Top& top, float* row_max) {
    reg lanes[used];
    lane_most<used>(s, begin, end, lanes);
    reg all = lanes[0];
    for (int t = 1; t < used; t++) all = V::max(all, lanes[t]);
    *row_max = V::most(all);
    const float bound = nth_lane<used>(lanes, want);
    bool above = bound == -INFINITY;  // whether only what is greater than the floor counts, not what equals it
    reg floor = V::set(bound);
    top.count = 0;
    for (int j = begin; j < end; j += V::W) {
        const reg x = V::load(s + j);
        const unsigned hit = above ? V::gt(x, floor) : V::ge(x, floor);
        if (__builtin_expect(hit == 0, 1)) continue;
        V::keep(x, j, hit, top.score + top.count, top.at + top.count);
        top.count += __builtin_popcount(hit);
        if (top.count > ROOM - V::W) {
            sort_top(top, want);
            floor = V::set(top.score[want - 1]);
            above = true;
        }
    }
    sort_top(top, want);
}

void find_top(const float* s, int begin, int end, int want, Top& top, float* row_max) {
    if (want <= 16)
        find_top<16 / V::W>(s, begin, end, want, top, row_max);
    else
        find_top<LANES>(s, begin, end, want, top, row_max);
}

struct Sums {
    float total, heat, way;  // of e, of e * log2(e), of e * distance
};

// The softmax's numerators in place, e = exp(score - greatest), and their sums.
template <bool statistics>
Sums exponents(const Row& row, float greatest, float place) {
    const reg top = V::set(greatest), floor = V::set(-150.f), log2e = V::set(LOG2E);
    reg z0 = V::zero(), z1 = z0, t0 = z0, t1 = z0, w0 = z0, w1 = z0;
    // distance from the query's place to each key, counted along with the keys
    reg d0 = V::sub(V::set(place - float(row.begin)), V::count()), d1 = V::sub(d0, V::set(V::W));
    const reg step = V::set(2 * V::W);
    int j = row.begin;
    for (; j + 2 * V::W <= row.end; j += 2 * V::W) {
        const reg a = V::max(floor, V::mul(V::sub(V::load(row.s + j), top), log2e));
        const reg b = V::max(floor, V::mul(V::sub(V::load(row.s + j + V::W), top), log2e));
        const reg e = V::exp2(a), f = V::exp2(b);
        V::store(row.s + j, e);
        V::store(row.s + j + V::W, f);
        z0 = V::add(z0, e);
        z1 = V::add(z1, f);
        if (statistics) {
            t0 = V::fma(e, a, t0);
            t1 = V::fma(f, b, t1);
            w0 = V::fma(e, V::abs(d0), w0);
            w1 = V::fma(f, V::abs(d1), w1);
            d0 = V::sub(d0, step);
            d1 = V::sub(d1, step);
        }
    }
    if (j < row.end) {
        const reg a = V::max(floor, V::mul(V::sub(V::load(row.s + j), top), log2e));
        const reg e = V::exp2(a);
        V::store(row.s + j, e);
        z0 = V::add(z0, e);
        if (statistics) {
            t0 = V::fma(e, a, t0);
            w0 = V::fma(e, V::abs(d0), w0);
        }
    }
    if (!statistics) return {V::sum(V::add(z0, z1)), 0, 0};
    return {V::sum(V::add(z0, z1)), V::sum(V::add(t0, t1)), V::sum(V::add(w0, w1))};
}

// ---- one block ------------------------------------------------------------------------------------------------

struct Block {
    Block(const Job& j, const Prepared& p, const Item& i) : job(j), pre(p), item(i) {}

    const Job& job;
    const Prepared& pre;
    const Item& item;
    const int32_t *lo, *hi;      // of the sequence's queries
    int64_t head;                // batch * heads + head: which [query] this is in the results
    float *s, *q, *z, *spare;    // scores, scaled queries, results, one row of scores
    int first = 0, rows = 0;     // query rows
    int base = 0, width = 0, ld = 0;  // first key of s, keys in it, floats from row to row
    int low[GROUPS], high[GROUPS];    // keys that some row of a group of R sees, from base
    int begin[GROUPS], end[GROUPS];   // the same out to multiples of ALIGN
    float inverse[MOST_ROWS];         // 1 / sum of each row, 0 for a blind one

    int groups() const { return (rows + R - 1) / R; }
    int in_group(int g) const { return least(R, rows - g * R); }
};

// Take rows from `first` on while their scores fit the memory: always at least one group.
void choose(Block& b, int first, int last) {
    b.first = first;
    b.rows = 0;
    int from = 0, to = 0;  // keys of all groups so far
    for (int g = 0; first + g * R < last && g < GROUPS; g++) {
        const int stop = least(last, first + (g + 1) * R);
        int low = 0, high = 0;
        for (int i = first + g * R; i < stop; i++) {
            if (b.hi[i] <= b.lo[i]) continue;
            low = high ? least(low, b.lo[i]) : b.lo[i];
            high = most(high, b.hi[i]);
        }
        const int begin = down(low, ALIGN), end = up(high, ALIGN);
        const int new_from = !high ? from : to ? least(from, begin) : begin;
        const int new_to = most(to, end);
        if (g > 0 && (size_t)(new_to - new_from + 16) * (stop - first) > b.pre.cells) break;
        b.low[g] = low;
        b.high[g] = high;
        b.begin[g] = begin;
        b.end[g] = end;
        from = new_from;
        to = new_to;
        b.rows = stop - first;
    }
    b.base = from;
    b.width = to - from;
    b.ld = b.width + 16;  // rows a power of two apart would share few lines of the cache
    for (int g = 0; g < b.groups(); g++) {
        const int shift = b.high[g] ? from : 0;
        b.low[g] -= shift;
        b.high[g] -= shift;
        b.begin[g] -= shift;
        b.end[g] -= shift;
    }
}

template <class T>
void load_queries(Block& b) {
    const Job& job = b.job;
    const T* from = static_cast<const T*>(job.q.data) + b.item.batch * job.q.batch + b.item.head * job.q.head;
    const float scale = job.scale;
    for (int i = 0; i < b.rows; i++) {
        const T* row = from + (int64_t)(b.first + i) * job.q.row;
        for (int d = 0; d < job.dim; d++) b.q[i * (size_t)job.dim + d] = real(row[d]) * scale;
    }
}

void score(Block& b) {
    const int dim = b.job.dim;
    for (int at = 0; at < b.width; at += PANEL) {
        const float* panel = b.item.k + (size_t)(b.base + at) * dim;
        for (int g = 0; g < b.groups(); g++) {
            if (at + PANEL <= b.low[g] || at >= b.high[g]) continue;
            const int lanes = least(V::TILE, (b.high[g] - at + V::W - 1) / V::W);
            narrow(lanes, b.in_group(g), b.q + g * R * (size_t)dim, dim, panel, b.s + g * R * (size_t)b.ld + at,
                   b.ld, dim);
        }
    }
}

// Which keys of the row may be among its top, as scores: a copy of the row with -inf elsewhere.
const float* candidates(const Block& b, const Row& row, int place) {
    const Job& job = b.job;
    if (job.eligible == nullptr && job.apart <= 0) return row.s;
    const float* barred =
        b.pre.barred == nullptr ? nullptr : b.pre.barred + b.item.batch * b.pre.barred_batch + b.base;
    for (int j = row.begin; j < row.end; j += V::W) {
        const reg x = V::load(row.s + j);
        V::store(b.spare + j, barred == nullptr ? x : V::add(x, V::load(barred + j)));
    }
    if (job.apart > 0) {
        const int64_t from = (int64_t)place - job.apart + 1, to = (int64_t)place + job.apart;
        const int begin = from > row.begin ? (from < row.end ? (int)from : row.end) : row.begin;
        const int end = to < row.end ? (to > row.begin ? (int)to : row.begin) : row.end;
        for (int j = begin; j < end; j++) b.spare[j] = -INFINITY;
    }
    return b.spare;
}

bool may_be_top(const Block& b, int at, int place) {
    const Job& job = b.job;
    const bool apart = (at > place ? at - place : place - at) >= job.apart;
    return apart && (b.pre.barred == nullptr ||
                     b.pre.barred[b.item.batch * b.pre.barred_batch + b.base + at] == 0.f);
}

// Keys whose score is -inf or NaN come last, in their order.
void fill_top(const Block& b, const Row& row, int place, Top& top) {
    const Job& job = b.job;
    if (top.count == row.hi - row.lo) return;
    for (int at = row.lo; at < row.hi && top.count < job.top; at++) {
        bool known = !may_be_top(b, at, place);
        for (int t = 0; t < top.count && !known; t++) known = top.at[t] == at;
        if (!known) top.at[top.count++] = at;
    }
}

void save_top(const Block& b, const Row& row, int i, const Top& top, float inverse) {
    const int want = b.job.top;
    const int64_t to = (b.head * b.job.queries + b.first + i) * want;
    for (int t = 0; t < want; t++) {
        b.job.top_keys[to + t] = t < top.count ? b.base + top.at[t] : -1;
        b.job.top_weights[to + t] = t < top.count ? row.s[top.at[t]] * inverse : 0.f;
    }
}

void save_probes(const Block& b, const Row& row, int i, float inverse) {
    const Job& job = b.job;
    const int query = b.first + i;
    const int64_t* named = job.probe + b.item.batch * job.probe_batch + query;
    for (int p = 0; p < job.probes; p++) {
        const int64_t key = named[(int64_t)p * job.queries] - b.base;
        const int64_t to = (b.head * job.probes + p) * job.queries + query;
        const bool seen = key >= row.lo && key < row.hi;
        const float e = seen ? row.s[key] : 0.f;
        job.mass[to] = seen ? e * inverse : 0.f;
        job.hits[to] = seen && e >= 1.f && inverse == inverse;
    }
}

void save_row(const Block& b, int i, float entropy, float distance, float largest) {
    const int64_t to = b.head * b.job.queries + b.first + i;
    b.job.entropy[to] = entropy;
    b.job.distance[to] = distance;
    b.job.largest[to] = largest;
}

void blind_row(Block& b, int i) {
    b.inverse[i] = 0.f;
    if (b.job.entropy == nullptr) return;
    Row none = {b.s, 0, 0, 0, 0};
    Top top;
    top.count = 0;
    save_row(b, i, 0.f, 0.f, 0.f);
    if (b.job.probes) save_probes(b, none, i, 0.f);
    if (b.job.top) save_top(b, none, i, top, 0.f);
}

template <bool statistics>
void weigh_row(Block& b, int i) {
    const Job& job = b.job;
    const int query = b.first + i;
    float* s = b.s + i * (size_t)b.ld;
    const int zero_from = b.begin[i / R], zero_to = b.end[i / R];
    if (b.hi[query] <= b.lo[query]) {
        for (int j = zero_from; j < zero_to; j++) s[j] = 0.f;
        return blind_row(b, i);
    }
    Row row;
    row.s = s;
    row.lo = b.lo[query] - b.base;
    row.hi = b.hi[query] - b.base;
    row.begin = down(row.lo, V::W);
    row.end = up(row.hi, V::W);
    for (int j = row.begin; j < row.lo; j++) s[j] = -INFINITY;
    for (int j = row.hi; j < row.end; j++) s[j] = -INFINITY;
    const int place = query + job.offset - b.base;
    float greatest;
    Top top;
    if (statistics && job.top) {
        const float* seen = candidates(b, row, place);
        find_top(seen, row.begin, row.end, job.top, top, &greatest);
        if (seen != s) greatest = row_most(s, row.begin, row.end);
    } else {
        greatest = row_most(s, row.begin, row.end);
    }
    const Sums sums = exponents<statistics>(row, greatest, float(place));
    const float inverse = 1.f / sums.total;
    b.inverse[i] = inverse;
    if (statistics) {
        const float entropy = LN2 * (log2f(sums.total) - sums.heat * inverse);
        save_row(b, i, entropy < 0.f ? 0.f : entropy, sums.way * inverse, inverse);
        if (job.probes) save_probes(b, row, i, inverse);
        if (job.top) {
            if (top.count < job.top) fill_top(b, row, place, top);
            save_top(b, row, i, top, inverse);
        }
    }
    if (inverse != inverse) {  // keys it does not see stay 0, which a NaN as the factor would not leave so
        for (int j = row.lo; j < row.hi; j++) s[j] = inverse;
        b.inverse[i] = 1.f;
    }
    for (int j = zero_from; j < row.lo; j++) s[j] = 0.f;
    for (int j = row.hi; j < zero_to; j++) s[j] = 0.f;
}

// ---- what the keys receive ------------------------------------------------------------------------------------

// Add up to CHUNK columns, already summed over some rows of one query cell, to where they belong.
void spread(const Block& b, int at, int columns, int query_cell, const reg* sum, const reg* peak) {
    const Job& job = b.job;
    float sums[CHUNK], peaks[CHUNK];
    const int key = b.base + at;
    if (b.item.received != nullptr) {
        float* to = b.item.received + key;
        if (key + CHUNK <= job.keys) {
            for (int t = 0; t < 4; t++)
                V::store(to + t * V::W, V::add(V::load(to + t * V::W), sum[t]));
        } else {
            for (int t = 0; t < 4; t++) V::store(sums + t * V::W, sum[t]);
            for (int j = 0; j < job.keys - key; j++) to[j] += sums[j];
        }
    }
    if (b.item.pooled == nullptr) return;
    for (int t = 0; t < 4; t++) {
        V::store(sums + t * V::W, sum[t]);
        V::store(peaks + t * V::W, peak[t]);
    }
    const int32_t* cell = b.pre.key_cell + b.item.batch * b.pre.cell_batch + key;
    float* to = b.item.pooled + (size_t)query_cell * job.pool;
    float* peak_to = b.item.pooled_max + (size_t)query_cell * job.pool;
    for (int j = 0; j < columns;) {
        const int here = cell[j];
        float all = 0.f, high = peak_to[here];
        for (; j < columns && cell[j] == here; j++) {
            all += sums[j];
            high = peaks[j] > high ? peaks[j] : high;
        }
        to[here] += all;
        peak_to[here] = all != all ? all : high;
    }
}

void add_columns(const Block& b, int from, int to, int query_cell) {
    int begin = b.width, high = 0;
    for (int g = from / R; g <= (to - 1) / R; g++) {
        if (b.high[g] == 0) continue;
        begin = least(begin, b.begin[g]);
        high = most(high, b.high[g]);
    }
    for (int at = begin; at < high; at += CHUNK) {
        reg sum[4], peak[4];
        for (int t = 0; t < 4; t++) sum[t] = peak[t] = V::zero();
        for (int i = from; i < to; i++) {
            if (at < b.begin[i / R] || at >= b.end[i / R]) continue;
            const float* s = b.s + i * (size_t)b.ld + at;
            const reg inverse = V::set(b.inverse[i]);
            for (int t = 0; t < 4; t++) {
                const reg weight = V::mul(V::load(s + t * V::W), inverse);
                sum[t] = V::add(sum[t], weight);
                peak[t] = V::max(peak[t], weight);
            }
        }
        spread(b, at, least(CHUNK, high - at), query_cell, sum, peak);
    }
}

// Runs of real rows that fall in one query cell.
void columns(const Block& b) {
    const Job& job = b.job;
    const int64_t real_rows = job.query_lengths ? job.query_lengths[b.item.batch] : job.queries;
    const int stop = real_rows - b.first < b.rows ? most(0, (int)(real_rows - b.first)) : b.rows;
    for (int from = 0; from < stop;) {
        int cell = 0, to = stop;
        if (job.pool) {
            const int64_t at = (int64_t)(b.first + from) * job.pool / real_rows;
            cell = at < job.pool ? (int)at : job.pool - 1;
            to = from + 1;
            while (to < stop && (int64_t)(b.first + to) * job.pool / real_rows == at) to++;
        }
        add_columns(b, from, to, cell);
        from = to;
    }
}

// ---- results --------------------------------------------------------------------------------------------------

void mix(Block& b) {
    const int wide_v = b.pre.padded_v;
    for (size_t j = 0; j < (size_t)b.rows * wide_v; j++) b.z[j] = 0.f;
    for (int at = 0; at < b.width; at += ALIGN)
        for (int g = 0; g < b.groups(); g++) {
            const int start = most(b.low[g], at), stop = least(b.high[g], at + ALIGN);
            if (start >= stop) continue;
            wide(b.in_group(g), b.s + g * R * (size_t)b.ld + start, b.ld,
                 b.item.v + (size_t)(b.base + start) * wide_v, wide_v, b.z + g * R * (size_t)wide_v, wide_v,
                 stop - start, wide_v);
        }
}

template <class T>
void save_z(const Block& b) {
    const Job& job = b.job;
    for (int i = 0; i < b.rows; i++) {
        const int query = b.first + i;
        T* to = static_cast<T*>(job.z) +
                (((int64_t)b.item.batch * job.queries + query) * job.heads + b.item.head) * job.v_dim;
        const float* from = b.z + i * (size_t)b.pre.padded_v;
        const bool blind = b.hi[query] <= b.lo[query];
        for (int d = 0; d < job.v_dim; d++) put(to + d, blind ? 0.f : from[d] * b.inverse[i]);
    }
}

template <bool statistics>
void all_rows(Block& b) {
    for (int at = b.item.first; at < b.item.last; at += b.rows) {
        choose(b, at, b.item.last);
        b.job.bf16 ? load_queries<bf16>(b) : load_queries<float>(b);
        score(b);
        for (int i = 0; i < b.rows; i++) weigh_row<statistics>(b, i);
        if (statistics && (b.item.received != nullptr || b.item.pooled != nullptr)) columns(b);
        mix(b);
        b.job.bf16 ? save_z<bf16>(b) : save_z<float>(b);
    }
}

void rows(const Job& job, const Prepared& pre, const Item& item, float* scratch) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);  // numbers too small to be normal count as 0: they are slow, and weigh nothing
    Block b(job, pre, item);
    b.lo = job.lo + item.batch * job.span_batch;
    b.hi = job.hi + item.batch * job.span_batch;
    b.head = (int64_t)item.batch * job.heads + item.head;
    b.s = scratch;
    b.q = b.s + pre.cells;
    b.z = b.q + (size_t)up(MOST_ROWS * job.dim, ALIGN);
    b.spare = b.z + (size_t)MOST_ROWS * pre.padded_v;
    if (job.entropy != nullptr)
        all_rows<true>(b);
    else
        all_rows<false>(b);
    _mm_setcsr(before);
}
}  // namespace
