"""Opens a tenant's tables with DuckDB, Polars, pandas and deltalake, and prints what each of them sees as JSON.

Usage: readers.py TENANT_FOLDER
Prints {"duckdb": {table: rows}, "polars": {...}, "pandas": {...}, "ids": {...}}; `ids` are (trace, span) pairs
of `spans` and (run, step) pairs of `run_steps`, for a census.
"""

import glob
import json
import os
import sys

import deltalake
import duckdb
import polars

TABLES = ["spans", "run_steps", "messages", "runs", "checkpoints"]


def duckdb_with_delta():
    """DuckDB with the Delta extension from its Python package, which needs no download."""
    import duckdb_ext

    folder = os.path.dirname(duckdb_ext.__file__ or list(duckdb_ext.__path__)[0] + "/x")
    (path,) = glob.glob(f"{folder}/extensions/*/*/delta.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{path}'")
    return connection


def main():
    root = sys.argv[1]
    seen = {"duckdb": {}, "polars": {}, "pandas": {}}
    duck = duckdb_with_delta()
    frames = {}
    for table in TABLES:
        path = os.path.join(root, table)
        (seen["duckdb"][table],) = duck.execute(f"SELECT count(*) FROM delta_scan('{path}')").fetchone()
        seen["polars"][table] = polars.scan_delta(path).collect().height
        frames[table] = deltalake.DeltaTable(path).to_pandas()
        seen["pandas"][table] = len(frames[table])
    spans = frames["spans"]
    spans = spans[spans["record"] == "span"]
    seen["ids"] = {
        "spans": sorted(map(list, zip(spans["trace_id"], spans["span_id"]))),
        "run_steps": sorted([r, int(i)] for r, i in zip(frames["run_steps"]["run_id"], frames["run_steps"]["step_index"])),
    }
    seen["model"] = duck.execute(
        f"SELECT attributes['gen_ai.request.model'] AS model, count(*) FROM delta_scan('{root}/spans') "
        "WHERE model IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()
    json.dump(seen, sys.stdout, default=str)


if __name__ == "__main__":
    main()
