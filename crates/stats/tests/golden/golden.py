"""Golden values from SciPy for the tests of crates/stats. Usage: golden.py OUTDIR"""
import json, sys
import numpy as np, scipy
from scipy import stats
out = sys.argv[1]
rng = np.random.default_rng(20010501)
def dump(name, rows):
    with open(f"{out}/{name}.json", "w") as f:
        json.dump({"source": f"SciPy {scipy.__version__}, NumPy {np.__version__}", "rows": rows}, f, indent=0)
        f.write("\n")
rows = []
for n in range(2, 31):
    x = (rng.lognormal(3, 1, n) if n % 2 else rng.normal(250, 9, n))
    x = np.round(x, 6)
    m, s = x.mean(), x.std(ddof=1)
    lo, hi = stats.t.interval(0.95, n - 1, m, s / np.sqrt(n))
    q = stats.quantile_test(x, p=0.5).confidence_interval(confidence_level=0.95)
    rows.append({"x": x.tolist(), "mean": m, "stddev": s, "low": lo, "high": hi,
      "quantiles": np.quantile(x, [0, .05, .25, .5, .75, .95, .99, 1]).tolist(),
      "median_low": None if np.isnan(q.low) else q.low, "median_high": None if np.isnan(q.high) else q.high})
dump("summary", rows)
rows = []
for na in (2, 3, 5, 12, 30):
    for nb in (2, 4, 9, 30):
        for d in (0, 2, 30):
            a = np.round(rng.normal(100, 5, na), 6); b = np.round(rng.normal(100 + d, 11, nb), 6)
            r = stats.ttest_ind(a, b, equal_var=False); ci = r.confidence_interval(0.95)
            rows.append({"a": a.tolist(), "b": b.tolist(), "t": r.statistic, "p": r.pvalue, "df": r.df, "low": ci.low, "high": ci.high})
dump("welch", rows)
rows = []
for df in (1, 1.5, 2, 3, 4.7, 9, 29, 100, 1e4):
    for p in (0.001, 0.025, 0.3, 0.5, 0.9, 0.975, 0.995, 0.99999):
        rows.append({"df": df, "p": p, "quantile": stats.t.ppf(p, df)})
dump("student", rows)
rows = []
for n in (2, 3, 7, 30):
    for k in range(4):
        x = np.round(rng.normal(0, 10, n), 3 if k % 2 else 0); y = np.round(x * (k - 1) + rng.normal(0, 6, n), 2)
        if len(set(x)) < 2 or len(set(y)) < 2: continue
        l = stats.linregress(x, y)
        rows.append({"x": x.tolist(), "y": y.tolist(), "pearson": stats.pearsonr(x, y).statistic, "spearman": stats.spearmanr(x, y).statistic,
          "slope": l.slope, "intercept": l.intercept, "r_squared": l.rvalue**2,
          "slope_half_width": None if n == 2 else l.stderr * stats.t.ppf(.975, n - 2)})
dump("pairs", rows)
rows = []
for n in (3, 4, 5, 6, 7, 11, 12, 20, 30, 200, 1000):
    for k in range(5):
        x = [rng.normal(100, 5, n), rng.lognormal(3, 1, n), rng.uniform(0, 1, n), rng.standard_t(2, n), rng.poisson(4, n) * 1.0][k]
        x = np.round(x, 6)
        if len(set(x)) < 2: continue
        r = stats.shapiro(x)
        rows.append({"x": x.tolist(), "w": r.statistic, "p": r.pvalue})
dump("normality", rows)
rows = []
for n in (3, 4, 8, 15, 30, 80):
    for k in range(3):
        x = np.round(rng.normal(100, 5, n) + k * rng.normal(0, 1) * np.arange(n), 6 if k else -1)
        if len(set(x)) < 2: continue
        r = stats.kendalltau(np.arange(n), x, method="asymptotic")
        rows.append({"x": x.tolist(), "tau": r.statistic, "p": r.pvalue, "slope": stats.theilslopes(x).slope})
dump("drift", rows)
rows = []
for na, nb in ((2, 2), (3, 5), (10, 10), (12, 30), (30, 7)):
    for d in (0, 3, 40):
        a = np.round(rng.normal(100, 5, na), 3); b = np.round(rng.normal(100 + d, 9, nb), 3)
        va, vb, r = a.var(ddof=1) / na, b.var(ddof=1) / nb, a.mean() / b.mean()
        # Fieller's interval as the roots of a quadratic, by NumPy; Hedges' g from the pooled deviation.
        df = (va + r**2 * vb)**2 / (va**2 / (na - 1) + r**4 * vb**2 / (nb - 1))
        t = stats.t.ppf(.975, df)
        q = np.sort(np.roots([b.mean()**2 - t*t*vb, -2 * a.mean() * b.mean(), a.mean()**2 - t*t*va]))
        ok = b.mean()**2 > t*t*vb
        pooled = np.sqrt(((na - 1) * a.var(ddof=1) + (nb - 1) * b.var(ddof=1)) / (na + nb - 2))
        rows.append({"a": a.tolist(), "b": b.tolist(), "ratio": r, "low": float(q[0]) if ok else None, "high": float(q[1]) if ok else None,
          "hedges_g": (a.mean() - b.mean()) / pooled * (1 - 3 / (4 * (na + nb - 2) - 1)),
          "a12": stats.mannwhitneyu(a, b).statistic / (na * nb)})
dump("effect", rows)
dump("normal", [{"z": z, "tail": stats.norm.sf(z)} for z in (-9, -3.3, -1, -.01, 0, .3, 1, 1.96, 2.49, 2.5, 4, 8, 30)])
# Heavy tails, at every n from 2 to 30, with a generator of their own.
rng = np.random.default_rng(20070402)
draws = (lambda n: rng.standard_t(2, n) * 5 + 100, lambda n: rng.lognormal(3, 1.5, n), lambda n: rng.pareto(1.5, n) * 10 + 1,
  lambda n: np.where(rng.uniform(size=n) < .2, 900, 100) + rng.normal(0, 2, n))
rows = []
for n in range(2, 31):
    for k, draw in enumerate(draws):
        a = np.round(draw(n), 6); nb = 2 + (n * 7 + k) % 29; b = np.round(draw(nb) * (1 + .2 * (n % 3)), 6)
        m, s = a.mean(), a.std(ddof=1)
        lo, hi = stats.t.interval(0.95, n - 1, m, s / np.sqrt(n))
        w = stats.ttest_ind(a, b, equal_var=False); ci = w.confidence_interval(0.95)
        sw = stats.shapiro(a) if n > 2 else None
        pooled = np.sqrt(((n - 1) * a.var(ddof=1) + (nb - 1) * b.var(ddof=1)) / (n + nb - 2))
        va, vb, r = a.var(ddof=1) / n, b.var(ddof=1) / nb, a.mean() / b.mean()
        df = (va + r**2 * vb)**2 / (va**2 / (n - 1) + r**4 * vb**2 / (nb - 1))
        t = stats.t.ppf(.975, df); ok = bool(b.mean()**2 > t*t*vb)
        q = np.sort(np.roots([b.mean()**2 - t*t*vb, -2 * a.mean() * b.mean(), a.mean()**2 - t*t*va])) if ok else [0, 0]
        u = stats.mannwhitneyu(a, b, method="exact")
        rows.append({"a": a.tolist(), "b": b.tolist(), "mean": m, "stddev": s, "low": lo, "high": hi,
          "t": w.statistic, "p": w.pvalue, "df": w.df, "welch_low": ci.low, "welch_high": ci.high,
          "w": sw and sw.statistic, "normal_p": sw and sw.pvalue,
          "ratio_low": float(q[0]) if ok else None, "ratio_high": float(q[1]) if ok else None,
          "hedges_g": (m - b.mean()) / pooled * (1 - 3 / (4 * (n + nb - 2) - 1)), "a12": u.statistic / (n * nb), "rank_p": u.pvalue})
dump("heavy", rows)
rows = []
for n in range(2, 31, 4):
    for k in range(3):
        a = np.round(rng.normal(10, 3, n)); b = np.round(rng.normal(10 + 2 * k, 3, n + k))
        rows.append({"a": a.tolist(), "b": b.tolist(), "p": stats.mannwhitneyu(a, b, method="asymptotic").pvalue})
dump("ties", rows)
