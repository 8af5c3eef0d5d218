// Threads: those of the OpenMP that is loaded already (torch's, so that the two never compete), else our own.
#include <atomic>
#include <thread>
#include <vector>

#include "headwise.h"

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace headwise {
namespace {

using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

Parallel find_openmp() {
#if defined(__unix__) || defined(__APPLE__)
    return reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#else
    return nullptr;
#endif
}

Parallel openmp() {
    static const Parallel found = find_openmp();
    return found;
}

struct Work {
    void (*body)(void*, int64_t, int);
    void* context;
    int64_t count;
    std::atomic<int64_t> next{0};
    std::atomic<int> workers{0};
};

void work(void* of) {
    Work& w = *static_cast<Work*>(of);
    const int worker = w.workers.fetch_add(1);
    for (int64_t i = w.next.fetch_add(1); i < w.count; i = w.next.fetch_add(1)) w.body(w.context, i, worker);
}

}  // namespace

bool shares_openmp() { return openmp() != nullptr; }

void parallel(int threads, int64_t count, void (*body)(void*, int64_t, int), void* context) {
    if (threads > count) threads = static_cast<int>(count);
    if (threads <= 1) {
        for (int64_t i = 0; i < count; i++) body(context, i, 0);
        return;
    }
    Work w;
    w.body = body;
    w.context = context;
    w.count = count;
    if (openmp() != nullptr) return openmp()(work, &w, static_cast<unsigned>(threads), 0);
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(work, &w);
    work(&w);
    for (auto& other : others) other.join();
}

}  // namespace headwise
