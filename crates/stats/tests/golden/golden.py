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
