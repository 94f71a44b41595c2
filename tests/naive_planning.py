"""Slow and obvious twins of problems and planning. Imports nothing from the library.

Dense arrays: P and R are (H, S, A, S), with H = 1 for problems without steps.
"""

import numpy as np


def backward_induction(P, R, terminal, horizon):
    n_states, n_actions = P.shape[1:3]
    values, q_values = np.zeros((horizon + 1, n_states)), np.zeros((horizon, n_states, n_actions))
    for h in reversed(range(horizon)):
        for s in range(n_states):
            if terminal[s]:
                continue
            for a in range(n_actions):
                now = h if len(P) > 1 else 0
                q_values[h, s, a] = sum(P[now, s, a, y] * (R[now, s, a, y] + values[h + 1, y]) for y in range(n_states))
            values[h, s] = max(q_values[h, s])
    return values, q_values


def policy_values(P, R, terminal, policy):
    horizon, n_states = policy.shape
    values = np.zeros((horizon + 1, n_states))
    for h in reversed(range(horizon)):
        for s in range(n_states):
            if not terminal[s]:
                now = h if len(P) > 1 else 0
                row, reward = P[now, s, policy[h, s]], R[now, s, policy[h, s]]
                values[h, s] = np.dot(row, reward + values[h + 1])
    return values


def discounted_policy_values(P, R, terminal, policy, discount):
    """Solves (I - discount * P_policy) V = r_policy."""
    n_states = P.shape[1]
    matrix, right = np.eye(n_states), np.zeros(n_states)
    for s in range(n_states):
        if not terminal[s]:
            row = P[0, s, policy[s]]
            matrix[s] -= discount * np.where(terminal, 0.0, row)
            right[s] = np.dot(row, R[0, s, policy[s]])
    return np.linalg.solve(matrix, right)


def policy_iteration(P, R, terminal, discount):
    n_states, n_actions = P.shape[1:3]
    policy = np.zeros(n_states, dtype=int)
    for _ in range(1000):
        values = discounted_policy_values(P, R, terminal, policy, discount)
        q_values = np.zeros((n_states, n_actions))
        for s in range(n_states):
            if not terminal[s]:
                for a in range(n_actions):
                    q_values[s, a] = np.dot(P[0, s, a], R[0, s, a] + discount * values)
        better = q_values.max(axis=1) > q_values[np.arange(n_states), policy] + 1e-12
        if not better.any():
            break
        policy = np.where(better, q_values.argmax(axis=1), policy)
    return values, q_values


def gridworld_row(rows, cols, walls, noise, cell, move):
    """{cell: probability}: the chosen move (L, R, U or D) with 1 - noise, else a free neighbour."""
    steps = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}

    def free(place):
        return 0 <= place[0] < rows and 0 <= place[1] < cols and place not in walls

    def moved(letter):
        return (cell[0] + steps[letter][0], cell[1] + steps[letter][1])

    result = {}
    chosen = moved(move) if free(moved(move)) else cell
    result[chosen] = result.get(chosen, 0.0) + 1.0 - noise
    neighbours = [moved(letter) for letter in "LRUD" if free(moved(letter))]
    for place in neighbours or [cell]:
        result[place] = result.get(place, 0.0) + noise / max(len(neighbours), 1)
    return {place: p for place, p in result.items() if p > 0.0}


def frozen_lake_row(lines, slip, cell, move):
    """{cell: probability}: the chosen move with 1 - slip, each perpendicular one with slip / 2."""
    steps = {"L": (0, -1), "R": (0, 1), "U": (-1, 0), "D": (1, 0)}
    perpendicular = {"L": "UD", "R": "UD", "U": "LR", "D": "LR"}
    result = {}
    for letter, p in [(move, 1.0 - slip), *((turn, slip / 2.0) for turn in perpendicular[move])]:
        row = min(max(cell[0] + steps[letter][0], 0), len(lines) - 1)
        col = min(max(cell[1] + steps[letter][1], 0), len(lines[0]) - 1)
        result[row, col] = result.get((row, col), 0.0) + p
    return {place: p for place, p in result.items() if p > 0.0}


def draw(probabilities, uniform):
    """The position at which the running sum first exceeds the uniform."""
    total = 0.0
    for position, probability in enumerate(probabilities):
        total += probability
        if uniform < total:
            return position
    return len(probabilities) - 1


def random_arrays(seed, n_states, n_actions, steps, random_start=False):
    """Sparse random P and R, some terminal states, a start."""
    rng = np.random.default_rng(seed)
    P = rng.random((steps, n_states, n_actions, n_states))
    P *= rng.random(P.shape) < 0.6
    P[..., rng.integers(n_states)] += 0.1
    P /= P.sum(axis=-1, keepdims=True)
    R = rng.normal(size=P.shape)
    terminal = rng.random(n_states) < 0.2
    terminal[0] = False
    initial = 0
    if random_start:
        initial = rng.random(n_states) * ~terminal
        initial /= initial.sum()
    return P, R, terminal, initial


def same_model(left, right):
    """Whether two problems hold the same arrays, bit for bit."""
    return all(np.array_equal(x, y) for x, y in zip(left.model, right.model, strict=True))
