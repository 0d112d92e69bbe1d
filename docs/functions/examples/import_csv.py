"""
Reads CSV text into a table, all of it or nothing.

@setup create table people (name text primary key, age int not null)
@payload {"csv": "name,age\\nAda,36\\nBob,41\\n"}
@answer {"imported": 2, "oldest": "Bob"}
"""
import csv
import io


def handler(payload, sdk):
    rows = [{"name": row["name"], "age": int(row["age"])} for row in csv.DictReader(io.StringIO(payload["csv"]))]
    with sdk.db.transaction() as tx:
        for row in rows:
            tx.insert("people", row)
    oldest = sdk.db.query_one("select name from people order by age desc limit 1")
    return {"imported": len(rows), "oldest": oldest["name"]}
