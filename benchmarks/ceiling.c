/* A plain C loop of QUCB on a finite MDP: the ceiling that the compiled Python is measured against.
 * Same equations, same memory layout, sparse successors, one uniform per step (splitmix64). */
#include <math.h>
#include <stdint.h>

static double uniform(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

/* Runs `episodes` episodes and returns the sum of all rewards; Q, V and visits are changed. */
double qucb(long episodes, long horizon, long n_states, long n_actions, long start, double scale,
            const int64_t *row_start, const int32_t *successor, const double *cumulative, const double *reward,
            const uint8_t *terminal, const double *bounds, double *Q, double *V, int32_t *visits,
            uint64_t seed) {
    double sum = 0.0;
    for (long episode = 0; episode < episodes; episode++) {
        long state = start;
        for (long step = 0; step < horizon; step++) {
            double *row = Q + (step * n_states + state) * n_actions;
            long action = 0;
            for (long a = 1; a < n_actions; a++)
                if (row[a] > row[action]) action = a;
            int64_t entry = row_start[state * n_actions + action];
            double u = uniform(&seed);
            while (u >= cumulative[entry]) entry++;
            long next = successor[entry];
            int32_t t = ++visits[(step * n_states + state) * n_actions + action];
            double v = bounds[step];
            double bonus = fmin(scale / sqrt((double)t), v);
            double alpha = (horizon + 1.0) / (horizon + t);
            double target = reward[entry] + bonus;
            if (!terminal[next]) target += V[(step + 1) * n_states + next];
            row[action] = (1.0 - alpha) * row[action] + alpha * target;
            double best = row[0];
            for (long a = 1; a < n_actions; a++) best = row[a] > best ? row[a] : best;
            V[step * n_states + state] = fmin(v, best);
            sum += reward[entry];
            if (terminal[next]) break;
            state = next;
        }
    }
    return sum;
}
