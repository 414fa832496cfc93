"""DuckDB: a table in memory that is filled, asked and dropped."""

import duckdb
import pace

base = duckdb.connect()
base.execute("set threads = 2")
for step in pace.steps():
    base.execute(f"create or replace table t as select range as i, hash(range + {step}) % 1000 as k, random() as v from range(500000)")
    base.execute("select k, avg(v), count(*) from t group by k order by 2").fetchall()
