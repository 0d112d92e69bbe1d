// One query in a process of its own, without a sandbox: connects, asks, ends.
import { Client } from 'pg';

const handler = async () => {
  const client = new Client({ connectionString: process.env.BENCH_DATABASE_URL });
  await client.connect();
  const { rows } = await client.query('select $1::int as n', [1]);
  await client.end();
  return rows[0];
};

process.stdout.write(JSON.stringify(await handler(JSON.parse(process.argv[2]))));
