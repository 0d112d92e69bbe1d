"""
Sums up a day's orders; made to be run by a schedule.

@setup create table orders (id serial primary key, day date not null, cents int not null); insert into orders (day, cents) values ('2026-03-01', 1200), ('2026-03-01', 300), ('2026-03-02', 999)
@payload {"day": "2026-03-01"}
@answer {"day": "2026-03-01", "orders": 2, "total": "15.00"}
"""
import logging
from decimal import Decimal


def handler(payload, sdk):
    day = payload["day"]
    row = sdk.db.query_one("select count(*) as orders, coalesce(sum(cents), 0) as cents from orders where day = %s", (day,))
    logging.info("%s: %s orders", day, row["orders"])
    return {"day": day, "orders": row["orders"], "total": f'{Decimal(row["cents"]) / 100:.2f}'}
