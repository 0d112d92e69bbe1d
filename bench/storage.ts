import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { Client } from 'pg';
import { request } from 'undici';
import { signUp } from './client.ts';
import { apiSpec, createDataProject, databaseUrlOf, runSql } from './data/scene.ts';
import {
  type Bench,
  type Benchmark,
  type Row,
  allRight,
  byTurns,
  digits,
  median,
  megabytes,
  ms,
  perSecond,
  percentile,
  range,
  spread,
} from './harness.ts';
import { memoryOf } from './proc.ts';

const mib = 2 ** 20;
const rounds = 5;

const open = async (bench: Bench) => {
  const folder = path.join(bench.folder, 'files');
  mkdirSync(folder, { recursive: true });
  const api = await bench.servers.start(apiSpec('files', { DATA_DIR: path.join(bench.folder, 'data') }));
  const floor = await bench.servers.start({
    name: 'bare-files',
    file: 'bench/floors/bare-files.ts',
    env: { BENCH_FILES: folder },
  });
  const user = await signUp(api.url);
  const project = await createDataProject(api.url, user);
  const [bucket] = (await (
    await fetch(`${api.url}/storage/v1/bucket`, { headers: { apikey: project.key } })
  ).json()) as { id: string }[];
  const objects = `${api.url}/p/${project.ref}/storage/v1/object/${bucket?.id}`;
  const put = async (name: string, bytes: Buffer): Promise<void> => {
    const answer = await fetch(`${objects}/${name}`, {
      method: 'POST',
      headers: { apikey: project.key, 'x-upsert': 'true', 'content-type': 'application/octet-stream' },
      body: bytes,
    });
    if (!answer.ok) throw new Error(`an upload answered ${answer.status}: ${await answer.text()}`);
    await answer.arrayBuffer();
  };
  return { folder, api, floor, user, project, bucket: bucket?.id ?? '', objects, put };
};

type Scene = Awaited<ReturnType<typeof open>>;

/** Bytes per second, in MB. */
const rateOf = async (bytes: number, times: number, one: () => Promise<void>): Promise<number> => {
  const began = performance.now();
  for (let n = 0; n < times; n += 1) await one();
  return (bytes * times) / 1e6 / ((performance.now() - began) / 1000);
};

const drain = async (url: string, headers: Record<string, string>): Promise<void> => {
  const { statusCode, body } = await request(url, { headers });
  if (statusCode !== 200) throw new Error(`a download answered ${statusCode}`);
  for await (const _ of body);
};

const pairRow = (
  name: string,
  pairs: readonly { readonly ours: number; readonly floor: number }[],
  atLeast: number,
): Row => {
  const ratio = median(pairs.map((pair) => pair.ours / pair.floor));
  return {
    name,
    ours: { value: median(pairs.map((pair) => pair.ours)), unit: 'MB/s' },
    floor: { value: median(pairs.map((pair) => pair.floor)), unit: 'MB/s' },
    ratio,
    target: { of: 'ratio', atLeast },
    notes: [`ours ${range(pairs.map((pair) => pair.ours))}, floor ${range(pairs.map((pair) => pair.floor))} MB/s`],
  };
};

const downloadRow = async (scene: Scene, size: number, times: number): Promise<Row> => {
  const bytes = Buffer.alloc(size, 'x');
  await scene.put(`down-${size}`, bytes);
  writeFileSync(path.join(scene.folder, `down-${size}`), bytes);
  const ours = () => drain(`${scene.objects}/down-${size}`, { apikey: scene.project.key });
  const floor = () => drain(`${scene.floor.url}/down-${size}`, {});
  await ours();
  await floor();
  const pairs = await byTurns(
    rounds,
    () => rateOf(size, times, ours),
    () => rateOf(size, times, floor),
  );
  return pairRow(`download of ${size / mib} MB; floor: a Koa that streams the file`, pairs, 0.8);
};

const transfers: Benchmark = {
  name: 'storage/transfers',
  run: async (bench) => {
    const scene = await open(bench);
    const body = Buffer.alloc(100 * mib, 'y');
    const uploads = await byTurns(
      3,
      () => rateOf(body.length, 2, () => scene.put('up', body)),
      () =>
        rateOf(body.length, 2, async () => {
          const answer = await fetch(`${scene.floor.url}/up`, { method: 'POST', body });
          await answer.arrayBuffer();
        }),
    );
    return [
      await downloadRow(scene, mib, 40),
      await downloadRow(scene, 100 * mib, 2),
      pairRow('upload of 100 MB; floor: a pipe into a file with fsync', uploads, 0.6),
    ];
  },
};

const small: Benchmark = {
  name: 'storage/small',
  run: async (bench) => {
    const scene = await open(bench);
    const { api, user, project, bucket } = scene;
    await runSql(
      api.url,
      user,
      project,
      `create policy readers on storage.objects for select to anon using (bucket_id = '${bucket}')`,
      'create table items (id int primary key, name text)',
      `insert into items values (1, 'one')`,
      'alter table items enable row level security',
      'create policy readers on items for select to anon using (id > 0)',
    );
    await scene.put('small', Buffer.alloc(4096, 'z'));
    const load = (requestPath: string) =>
      bench.servers.load({
        url: api.url,
        headers: { apikey: project.publishableKey },
        requests: [{ method: 'GET', path: requestPath }],
        callers: 8,
        warmUp: { requests: 300 },
        extent: { seconds: 4 },
        status: 200,
        pid: api.pid,
      });
    const rate = async (requestPath: string): Promise<number> => {
      const result = allRight(await load(requestPath));
      return result.latencies.length / result.seconds;
    };
    const objectPath = `/p/${project.ref}/storage/v1/object/${bucket}/small`;
    const pairs = await byTurns(
      rounds,
      () => rate(objectPath),
      () => rate(`/p/${project.ref}/rest/v1/items?id=eq.1`),
    );
    return [
      {
        name: 'download of 4 KB by policy; floor: one row of the data API by policy',
        ours: perSecond(median(pairs.map((pair) => pair.ours))),
        floor: perSecond(median(pairs.map((pair) => pair.floor))),
        ratio: median(pairs.map((pair) => pair.ours / pair.floor)),
        target: { of: 'ratio', atLeast: 0.5 },
        notes: [`ours ${range(pairs.map((pair) => pair.ours))}, floor ${range(pairs.map((pair) => pair.floor))} /s`],
      },
    ];
  },
};

const folderSize = 100_000;

const listing: Benchmark = {
  name: 'storage/list',
  run: async (bench) => {
    const scene = await open(bench);
    const { api, project, bucket } = scene;
    const db = new Client({ connectionString: databaseUrlOf(bench, project) });
    await db.connect();
    // As the server's administrator: the triggers would ask for a ticket for each row.
    await db.query(`set session_replication_role = replica`);
    await db.query(
      `insert into storage.objects (id, bucket_id, name, size, mime_type, etag, cache_control, metadata, version)
       select gen_random_uuid(), $1, 'folder/file-' || lpad(n::text, 6, '0'), 1, 'text/plain', repeat('0', 64), 'no-cache', '{}',
         gen_random_uuid() from generate_series(1, ${folderSize}) n`,
      [bucket],
    );
    await db.query('vacuum analyze storage.objects');
    await db.end();
    const times: Record<'offset' | 'cursor', number[]> = { offset: [], cursor: [] };
    const ask = async (route: string, body: object): Promise<{ nextCursor?: string }> => {
      const answer = await fetch(`${api.url}/p/${project.ref}/storage/v1/object/${route}/${bucket}`, {
        method: 'POST',
        headers: { apikey: project.key, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      if (!answer.ok) throw new Error(`a list answered ${answer.status}: ${await answer.text()}`);
      return (await answer.json()) as { nextCursor?: string };
    };
    let cursor: string | undefined;
    for (let page = 0; page < 300; page += 1) {
      const began = performance.now();
      await ask('list', { prefix: 'folder', limit: 100, offset: Math.floor(Math.random() * folderSize) });
      const between = performance.now();
      ({ nextCursor: cursor } = await ask('list-v2', { prefix: 'folder/', limit: 100, with_delimiter: true, cursor }));
      times.offset.push(between - began);
      times.cursor.push(performance.now() - between);
    }
    return (['offset', 'cursor'] as const).map((how) => ({
      name: `a page of 100 of a folder of 100,000 objects, by ${how}, p99`,
      ours: ms(percentile(times[how], 0.99)),
      target: { of: 'ours', atMost: 30 },
      notes: [`${spread(times[how])} ms over ${times[how].length} pages`],
    }));
  },
};

const uploaders = 50;
const uploadMib = 64;

const uploadMemory: Benchmark = {
  name: 'storage/memory',
  run: async (bench) => {
    const scene = await open(bench);
    await scene.put('warm', Buffer.alloc(mib));
    const before = memoryOf(scene.api.pid).rssMb;
    const chunk = Buffer.alloc(256 * 1024, 'm');
    async function* body(): AsyncGenerator<Buffer> {
      for (let sent = 0; sent < uploadMib * mib; sent += chunk.length) yield await Promise.resolve(chunk);
    }
    let highest = before;
    const watch = setInterval(() => (highest = Math.max(highest, memoryOf(scene.api.pid).rssMb)), 100);
    await Promise.all(
      Array.from({ length: uploaders }, async (_, n) => {
        const answer = await request(`${scene.objects}/large-${n}`, {
          method: 'POST',
          headers: { apikey: scene.project.key, 'content-type': 'application/octet-stream' },
          body: Readable.from(body(), { objectMode: false }),
        });
        await answer.body.dump();
        if (answer.statusCode !== 200) throw new Error(`an upload answered ${answer.statusCode}`);
      }),
    );
    clearInterval(watch);
    rmSync(path.join(bench.folder, 'data'), { recursive: true, force: true });
    return [
      {
        name: `memory of the API while ${uploaders} files of ${uploadMib} MB arrive at once`,
        ours: megabytes(highest - before),
        target: { of: 'ours', atMost: 150 },
        notes: [`${digits(before)} MB before, ${digits(highest)} MB at most`],
      },
    ];
  },
};

export const storageBenchmarks: readonly Benchmark[] = [transfers, small, listing, uploadMemory];
