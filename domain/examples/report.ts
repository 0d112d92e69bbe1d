import type { Example } from './example.ts';

const sql = `create table orders (
  id bigint generated always as identity primary key,
  product text not null,
  amount numeric(10, 2) not null check (amount >= 0),
  ordered_at timestamptz not null default now()
);
create index orders_ordered_at on orders (ordered_at);
alter table orders enable row level security;

create table reports (
  day date primary key,
  orders integer not null,
  total numeric(12, 2) not null
);
alter table reports enable row level security;
create policy "everybody reads" on reports for select using (true);

-- Two orders an hour of the last two days.
insert into orders (product, amount, ordered_at)
select (array['Tea', 'Coffee', 'Cake'])[1 + n % 3], 3 + n % 7, now() - n * interval '30 minutes'
from generate_series(1, 96) n;
`;

const report = `// Sums up yesterday, in UTC. A second run of a day gives the same row.
export const handler = async (payload, { db }) =>
  db.queryOne(
    \`insert into reports (day, orders, total)
     select d.day, count(o.id), coalesce(sum(o.amount), 0)
     from (select (now() at time zone 'utc')::date - 1 as day) d
     left join orders o on (o.ordered_at at time zone 'utc')::date = d.day
     group by d.day
     on conflict (day) do update set orders = excluded.orders, total = excluded.total
     returning day::text, orders, total::text\`,
  );
`;

const javascript = `const url = '{{rest_url}}';

// It runs by itself at 02:00 UTC; this is one run more.
const run = await fetch(url + '/functions/v1/nightly-report', {
  method: 'POST',
  headers: { apikey: '{{secret_key}}', 'content-type': 'application/json' },
  body: '{}',
});
if (!run.ok) throw new Error(await run.text());
console.log(await run.json());

// The reports are for everybody.
const headers = { apikey: '{{publishable_key}}' };
const reports = await fetch(url + '/rest/v1/reports?order=day.desc&limit=7', { headers });
console.log(await reports.json());
`;

const python = `import json, urllib.request

url = "{{rest_url}}"


def call(path, key, body=None):
    headers = {"apikey": key, "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + path, body, headers)) as answer:
        return json.load(answer)


# It runs by itself at 02:00 UTC; this is one run more.
print(call("/functions/v1/nightly-report", "{{secret_key}}", b"{}"))

# The reports are for everybody.
print(call("/rest/v1/reports?order=day.desc&limit=7", "{{publishable_key}}"))
`;

const curl = `URL='{{rest_url}}'

# It runs by itself at 02:00 UTC; this is one run more.
curl -sf "$URL/functions/v1/nightly-report" -H 'apikey: {{secret_key}}' -H 'content-type: application/json' -d '{}'

# The reports are for everybody.
curl -sf "$URL/rest/v1/reports?order=day.desc&limit=7" -H 'apikey: {{publishable_key}}'
`;

export const nightlyReport: Example = {
  name: 'report',
  title: 'Nightly report',
  summary: 'A schedule runs a function that sums up the orders of the day before.',
  makes: [
    'Table orders with 96 rows, and table reports, which everybody may read',
    'Function nightly-report, which only the secret key calls',
    'A schedule that runs it each day at 02:00 UTC',
  ],
  sql,
  functions: [{ name: 'nightly-report', code: report, access: 'secret', schedule: '0 2 * * *' }],
  code: { javascript, python, curl },
};
