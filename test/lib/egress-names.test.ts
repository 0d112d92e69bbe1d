import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { EgressFailed } from '#lib/egress/failures.ts';
import { type Resolve, createResolve } from '#lib/egress/names.ts';

const types = { 1: 'A', 28: 'AAAA' } as Readonly<Record<number, string>>;
const [serverFailure, nameError] = [2, 3];

/** The reply of a name server: addresses, a response code, or nothing at all. */
type Saying = readonly Buffer[] | number | null;

const v4 = (address: string): Buffer => Buffer.from(address.split('.').map(Number));
const v6 = (hex: string): Buffer => Buffer.from(hex, 'hex');

const zone: Readonly<Record<string, Saying>> = {
  'A both.test': [v4('1.2.3.4'), v4('10.0.0.9')],
  'AAAA both.test': [v6('26064700000000000000000000001111')],
  'A one.test': [v4('1.2.3.4')],
  'AAAA one.test': [],
  'A half.test': [v4('1.2.3.4')],
  'AAAA half.test': serverFailure,
  'A broken.test': serverFailure,
  'AAAA broken.test': serverFailure,
  'A silent.test': null,
  'AAAA silent.test': null,
};

const nameIn = (query: Buffer): { name: string; end: number } => {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
};

const recordOf = (type: number, data: Buffer): Buffer => {
  const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length]);
  return Buffer.concat([head, data]);
};

const answerTo = (query: Buffer): Buffer | null => {
  const { name, end } = nameIn(query);
  const type = query.readUInt16BE(end);
  const saying = zone[`${types[type]} ${name}`] ?? (name in { 'silent.test': 1 } ? null : nameError);
  if (saying === null) return null;
  const records = typeof saying === 'number' ? [] : saying;
  const head = Buffer.alloc(12);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180 + (typeof saying === 'number' ? saying : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  return Buffer.concat([head, query.subarray(12, end + 4), ...records.map((data) => recordOf(type, data))]);
};

const nameServer = createSocket('udp4', (query, { port, address }) => {
  const answer = answerTo(query);
  if (answer) nameServer.send(answer, port, address);
});
const folder = mkdtempSync(path.join(tmpdir(), 'plinth-hosts-'));
let resolve: Resolve;

test.before(async () => {
  nameServer.bind(0, '127.0.0.1');
  await once(nameServer, 'listening');
  const hostsFile = path.join(folder, 'hosts');
  writeFileSync(hostsFile, '# ours\n10.9.8.7 Inner.Test alias.test # more\nfd00::7\tinner.test\nnonsense other.test\n');
  resolve = createResolve({ servers: [`127.0.0.1:${nameServer.address().port}`], hostsFile, timeoutMs: 300 });
});
test.after.always(() => {
  nameServer.close();
  rmSync(folder, { recursive: true });
});

const reasonOf = async (host: string): Promise<string> => {
  try {
    return (await resolve(host)).join(' ');
  } catch (error) {
    return error instanceof EgressFailed ? error.reason : String(error);
  }
};

test('all addresses of both families are found', async (t) => {
  t.deepEqual([...(await resolve('both.test'))].toSorted(), ['1.2.3.4', '10.0.0.9', '2606:4700::1111']);
});

test('a name with addresses of one family has these, also when the other question fails', async (t) => {
  t.deepEqual(await resolve('one.test'), ['1.2.3.4']);
  t.deepEqual(await resolve('half.test'), ['1.2.3.4']);
});

test('a name that is not there and a name server that fails are told apart', async (t) => {
  t.is(await reasonOf('nobody.test'), 'name_not_found');
  t.is(await reasonOf('broken.test'), 'name_lookup_failed');
});

test('a name server that says nothing is given up', async (t) => {
  t.is(await reasonOf('silent.test'), 'name_lookup_failed');
});

test('names of the hosts file are known without asking, in any case and with a dot', async (t) => {
  for (const name of ['inner.test', 'INNER.test.']) t.deepEqual(await resolve(name), ['10.9.8.7', 'fd00::7']);
  t.deepEqual(await resolve('alias.test'), ['10.9.8.7']);
  t.is(await reasonOf('other.test'), 'name_not_found');
});

test('without a hosts file names are asked for', async (t) => {
  const bare = createResolve({
    servers: [`127.0.0.1:${nameServer.address().port}`],
    hostsFile: path.join(folder, 'absent'),
  });
  t.deepEqual(await bare('one.test'), ['1.2.3.4']);
});
