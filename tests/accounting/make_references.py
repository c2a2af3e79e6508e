"""Makes references.json: delta of random workloads by mpmath alone, without any code of dither's
engines.

Every instance is an expression, an epsilon and the larger delta of both directions. Finite laws are
convolved atom by atom in 40 digits; others are inverted by the trapezoid rule on Re s = c in 24
digits with steps and ranges far beyond what the answer needs. Run: python -m
tests.accounting.make_references (about a quarter of an hour).
"""

import json
import math
import random
from pathlib import Path

import mpmath as mp
import numpy as np

HERE = Path(__file__).parent


def atoms_rr(eps):
    p = 1 / (1 + mp.exp(-eps))
    return {eps: p, -eps: 1 - p}


def atoms_discrete_laplace(scale, shift):
    law = {}
    a = mp.exp(-1 / scale)
    norm = (1 - a) / (1 + a)
    law[mp.mpf(shift) / scale] = 1 / (1 + a)
    law[-mp.mpf(shift) / scale] = a**shift / (1 + a)
    for x in range(1, shift):
        z = (mp.mpf(shift) - 2 * x) / scale
        law[z] = law.get(z, mp.mpf(0)) + norm * a**x
    return law


def atoms_discrete_gaussian(sigma, shift):
    reach = int(14 * sigma) + 3
    weights = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * sigma**2)) for x in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {(shift**2 - 2 * shift * x) / (2 * sigma**2): w / total for x, w in weights.items()}


def sampled(law, q, way):
    out = {}
    for z, p in law.items():
        under = p * mp.exp(-z)
        r = mp.log(1 - q + q * mp.exp(z))
        key, mass = (r, (1 - q) * under + q * p) if way == "remove" else (-r, under)
        out[key] = out.get(key, mp.mpf(0)) + mass
    return out


def convolve(first, second):
    out = {}
    for z1, p1 in first.items():
        for z2, p2 in second.items():
            key = mp.nstr(z1 + z2, 25)
            old = out.get(key)
            out[key] = (z1 + z2, p1 * p2 + (old[1] if old else 0))
    return dict(out.values())


def hockey(law, eps):
    return mp.fsum(p * (1 - mp.exp(eps - z)) for z, p in law.items() if z > eps)


class Sampled:
    """M of a Poisson-sampled Gaussian by a fine trapezoid."""

    def __init__(self, q, sigma, way, count, c):
        self.count, self.way = count, way
        step = sigma * mp.mpf("0.08") * min(1, sigma)
        low, high = (
            -11 * sigma - (c if way == "add" else 0),
            (c if way == "remove" else 0) + 1 + 11 * sigma,
        )
        n = int((high - low) / step) + 1
        y = [low + k * step for k in range(n)]
        # the rule errs by about exp(|Im s| pi/2 - 120) relative to M(c): enough for |Im s| up to 40
        self.w = [step * mp.exp(-(v**2) / (2 * sigma**2)) / (sigma * mp.sqrt(2 * mp.pi)) for v in y]
        self.log_r = [mp.log(1 - q + q * mp.exp((2 * v - 1) / (2 * sigma**2))) for v in y]

    def log_m(self, s):
        power = s + 1 if self.way == "remove" else -s
        total = mp.fsum(w * mp.exp(power * r) for w, r in zip(self.w, self.log_r, strict=True))
        return self.count * mp.log(total)


def invert(log_m, c, step, eps):
    total, k = mp.mpf(0), 0
    head = log_m(mp.mpf(c)).real
    small = 0
    while small < 3:
        s = mp.mpc(c, k * step)
        value = mp.exp(log_m(s) - head - mp.mpc(0, k * step) * eps) / (s * (s + 1))
        total += value.real * (1 if k == 0 else 2)
        small = small + 1 if abs(value) < mp.mpf(10) ** -20 else 0
        k += 1
    return total * step / (2 * mp.pi) * mp.exp(head - c * eps)


def branch_free_log(parts):
    """log M summed part by part: each branch is principal, so powers are integer multiples of a
    correct logarithm."""
    return lambda s: sum((part(s) for part in parts), mp.mpc(0))


def rough(part, way):
    """log M at a real c in plain floats, to choose the contour and its step: nothing is read off
    it."""
    if part[0] != "gaussian":
        exact = transform(part, way, mp.mpf(1))
        return lambda c: float(exact(mp.mpf(c)).real)
    q, sigma, count = float(part[1]), float(part[2]), part[3]
    y = np.linspace(-40 * sigma, 40 + 40 * sigma, 8000)
    log_w = (
        -(y**2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(y[1] - y[0])
    )
    log_r = np.logaddexp(math.log1p(-q), math.log(q) + (2 * y - 1) / (2 * sigma**2))
    sign = 1 if way == "remove" else -1
    return lambda c: (
        count * float(np.logaddexp.reduce(log_w + (c + (way == "remove")) * sign * log_r))
    )


def choose(parts, way, eps):
    """(c, step, log delta roughly): the saddle of log M(c) - c eps - log(c(c+1)), and a step whose
    aliases vanish."""
    functions = [rough(part, way) for part in parts]

    def height(c):
        return sum(function(c) for function in functions) - c * float(eps)

    heights = [(height(c) - math.log(c * (c + 1)), c) for c in (0.15 * 1.1**k for k in range(60))]
    low, c = min(heights)
    step = 2 * math.pi * c / (44 - low)
    while (
        min(
            height(c * r) - c * (r - 1) * 2 * math.pi / step
            for r in (1.01, 1.03, 1.08, 1.2, 1.5, 2.5)
        )
        > low - 46
    ):
        step *= 0.8
    return mp.mpf(c), mp.mpf(step)


def make(kind, rng):
    """(expression, laws per direction, mass at infinity)."""
    parts, text, mass = [], [], mp.mpf(0)
    if kind == "discrete":
        for _ in range(rng.randint(1, 3)):
            which = rng.choice(["rr", "dl", "dg", "srr"])
            k = rng.randint(1, 4)
            if which == "rr":
                e = mp.mpf(rng.randint(5, 120)) / 100
                parts += [("atoms", atoms_rr(e))] * k
                text.append(f"{k} * pure({mp.nstr(e, 5)})")
            elif which == "dl":
                t, d = rng.randint(2, 12), rng.randint(1, 4)
                parts += [("atoms", atoms_discrete_laplace(mp.mpf(t), d))] * k
                text.append(f"{k} * discrete_laplace({t}, {d})")
            elif which == "dg":
                s, k = mp.mpf(rng.randint(4, 12)) / 4, rng.randint(1, 2)
                parts += [("atoms", atoms_discrete_gaussian(s, 1))] * k
                text.append(f"{k} * discrete_gaussian({mp.nstr(s, 5)}, 1)")
            else:
                e, q = mp.mpf(rng.randint(20, 120)) / 100, mp.mpf(rng.randint(5, 50)) / 100
                parts += [("sampled atoms", atoms_rr(e), q)] * k
                text.append(f"{k} * poisson({mp.nstr(q, 5)}, pure({mp.nstr(e, 5)}))")
    else:
        for _ in range(1 if kind == "sampled" else rng.randint(1, 2)):
            q = mp.mpf(rng.choice([5, 10, 20, 40])) / 1000
            sigma = mp.mpf(rng.randint(9, 24)) / 10
            k = rng.choice([300, 1000, 3000, 10000])
            parts.append(("gaussian", q, sigma, k))
            text.append(f"{k} * poisson({mp.nstr(q, 5)}, gaussian({mp.nstr(sigma, 5)}))")
        if kind in ("mixed", "infinite"):
            parts, text = parts[:1], text[:1]
            s, k = rng.randint(3, 20), rng.randint(1, 5)
            parts.append(("plain", mp.mpf(s), k))
            text.append(f"{k} * gaussian({s})")
            b, k = rng.randint(3, 20), rng.randint(1, 6)
            parts.append(("laplace", mp.mpf(1) / b, k))
            text.append(f"{k} * laplace({b})")
            e = mp.mpf(rng.randint(5, 40)) / 100
            parts.append(("rr", e, 1))
            text.append(f"pure({mp.nstr(e, 5)})")
        if kind == "infinite":
            k, e = rng.randint(1, 5), mp.mpf(rng.randint(5, 30)) / 100
            d = mp.mpf(10) ** -rng.randint(6, 9)
            parts.append(("rr", e, k))
            text.append(f"{k} * approx({mp.nstr(e, 5)}, {mp.nstr(d, 3)})")
            mass = 1 - (1 - d) ** k
    return " + ".join(text), parts, mass


def transform(part, way, c):
    if part[0] == "gaussian":
        return Sampled(part[1], part[2], way, part[3], c).log_m
    if part[0] == "plain":
        rho = part[2] / (2 * part[1] ** 2)
        return lambda s: rho * s * (s + 1)
    if part[0] == "laplace":
        e, k = part[1], part[2]
        return lambda s: (
            k * mp.log(((s + 1) * mp.exp(s * e) + s * mp.exp(-(s + 1) * e)) / (2 * s + 1))
        )
    e, k = part[1], part[2]
    p = 1 / (1 + mp.exp(-e))
    return lambda s: k * mp.log(p * mp.exp(s * e) + (1 - p) * mp.exp(-s * e))


def reference(kind, parts, mass, eps):
    worst = mp.mpf(0)
    for way in ("remove", "add"):
        if kind == "discrete":
            law = {mp.mpf(0): mp.mpf(1)}
            for part in parts:
                law = convolve(
                    law, part[1] if part[0] == "atoms" else sampled(part[1], part[2], way)
                )
            value = hockey(law, eps)
        else:
            c, step = choose(parts, way, eps)
            functions = [transform(part, way, c) for part in parts]
            value = invert(branch_free_log(functions), c, step, eps)
        worst = max(worst, mass + (1 - mass) * value)
    return worst


def place(parts, rng):
    """An epsilon where delta lies between about 1e-2 and 1e-8, by the Gaussian limit: only to
    choose the question."""
    total = mp.mpf(0)
    for part in parts:
        if part[0] == "gaussian":
            total += part[3] * part[1] ** 2 * mp.expm1(1 / part[2] ** 2)
        elif part[0] == "plain":
            total += part[2] / part[1] ** 2
        else:
            total += part[2] * part[1] ** 2
    mu, level = mp.sqrt(total), rng.randint(2, 8) * mp.log(10)
    return mp.mpf(max(1, int(100 * (mu * mp.sqrt(2 * level) * mp.mpf("0.9") + total / 2)))) / 100


def main(kinds, known=()):
    """All instances of the kinds, in a fixed order; `known` are instances made before, which are
    not made again."""
    rng, out = random.Random(20261115), []
    before = {(case["loss"], case["epsilon"]): case for case in known}
    for kind in kinds:
        if kind == "sampled":
            rng = random.Random(20261116)  # so that it can be made apart from the others
        for _ in range(50):
            with mp.workdps(40 if kind == "discrete" else 24):
                text, parts, mass = make(kind, rng)
                eps = mp.mpf(rng.randint(2, 40)) / 10 if kind == "discrete" else place(parts, rng)
                case = before.get((text, mp.nstr(eps, 6)))
                if case is None:
                    value = mp.nstr(reference(kind, parts, mass, eps), 17)
                    case = {"kind": kind, "loss": text, "epsilon": mp.nstr(eps, 6), "delta": value}
                out.append(case)
            print(out[-1], flush=True)
    return out


if __name__ == "__main__":
    found = main(("discrete", "infinite", "mixed", "sampled"))
    (HERE / "references.json").write_text(json.dumps(found, indent=0) + "\n")
