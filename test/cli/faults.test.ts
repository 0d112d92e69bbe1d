import { once } from 'node:events';
import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { type Workbench, openWorkbench, useWorkbenches } from '#test/support/cli.ts';
import { serve } from '#test/support/serve.ts';

const kept = useWorkbenches(test);

/** A workbench for a server that answers as no platform does. */
const openAt = async (t: ExecutionContext, listener: RequestListener): Promise<{ bench: Workbench; url: string }> => {
  const url = await serve(t, listener);
  const env = { PLINTH_URL: url, PLINTH_ACCESS_TOKEN: 'plinth_pat_x', PLINTH_PROJECT: crypto.randomUUID() };
  return { bench: await kept(openWorkbench(env)), url };
};

/** An address at which nothing listens. */
const freeUrl = async (): Promise<string> => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return `http://127.0.0.1:${port}`;
};

test('nothing that listens is said so, with 1', async (t) => {
  const bench = await kept(openWorkbench({ PLINTH_ACCESS_TOKEN: 'x' }));
  const answer = await bench.run(['whoami', '--url', await freeUrl()]);
  t.is(answer.code, 1);
  t.regex(answer.stderr, /cannot be reached: nothing listens there/);
  const unknown = await bench.run(['whoami', '--url', 'https://no-such-host.invalid']);
  t.is(unknown.code, 1);
  t.notRegex(unknown.stderr, /\n\s+at /, 'no stack');
});

test('a page of a proxy is no platform, whatever its status', async (t) => {
  for (const status of [200, 401, 404, 502]) {
    const { bench } = await openAt(t, (_request, response) => {
      response.writeHead(status, { 'content-type': 'text/html' }).end('<html>\u001B[2JSign in first</html>');
    });
    const answer = await bench.json(['projects']);
    t.is(answer.code, 1, String(status));
    t.is(answer.value.error.code, 'no_platform');
    t.false(answer.stderr.includes('Sign in first'));
    t.is((await bench.run(['db', 'pull'])).code, 1);
  }
});

test('a redirect is not followed, and no token goes elsewhere', async (t) => {
  const seen: (string | undefined)[] = [];
  const { bench, url } = await openAt(t, ({ url: path, headers }, response) => {
    if (path === '/elsewhere') seen.push(headers.authorization);
    response.writeHead(302, { location: `${url}/elsewhere` }).end();
  });
  t.is((await bench.run(['whoami'])).code, 1);
  t.deepEqual(seen, []);
});

/** Answers with these statuses, one after the other, and a person's own account in the end. */
const answersOf = async (t: ExecutionContext, statuses: readonly number[], retryAfter: string) => {
  const methods: (string | undefined)[] = [];
  const { bench } = await openAt(t, ({ method }, response) => {
    const status = statuses[methods.push(method) - 1];
    const headers = { 'content-type': 'application/json', 'retry-after': retryAfter };
    const refusal = { code: 'overloaded', message: 'The platform is busy.', details: null, hint: null };
    const account = { id: crypto.randomUUID(), email: 'mary@example.com', projects: [], has_more: false };
    response.writeHead(status ?? 200, headers).end(JSON.stringify(status === undefined ? account : refusal));
  });
  return { bench, methods };
};

test('what a busy platform refuses is asked again some times, if it does nothing twice', async (t) => {
  const read = await answersOf(t, [503, 429, 503], '0');
  t.is((await read.bench.run(['whoami'])).code, 0);
  t.is(read.methods.length, 4);
  const never = await answersOf(t, [503, 503, 503, 503, 503], '0');
  const refused = await never.bench.run(['whoami']);
  t.is(refused.code, 1);
  t.regex(refused.stderr, /The platform is busy/);
  t.is(never.methods.length, 4);
  const later = await answersOf(t, [429], '60');
  t.is((await later.bench.run(['whoami'])).code, 1);
  t.is(later.methods.length, 1, 'nobody waits for a minute');
});

test('what may have been done is not asked again, and what was not begun is', async (t) => {
  const create = ['projects', 'create', 'Guest book', '--org', crypto.randomUUID()];
  const unsure = await answersOf(t, [503], '0');
  t.is((await unsure.bench.run(create)).code, 1);
  t.is(unsure.methods.filter((method) => method === 'POST').length, 1);
  const refused = await answersOf(t, [429], '0');
  await refused.bench.run(create);
  t.is(refused.methods.filter((method) => method === 'POST').length, 2);
});

test('a platform that is older is said so', async (t) => {
  const { bench } = await openAt(t, (_request, response) => {
    const body = {
      code: 'not_found',
      message: 'There is nothing at this path.',
      details: null,
      hint: 'See /docs.',
      request_id: 'x',
    };
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const answer = await bench.run(['logs']);
  t.is(answer.code, 1);
  t.regex(answer.stderr, /older plinth/);
});

test('answers that are torn, empty or of another shape are sentences, not stacks', async (t) => {
  const bodies = ['', '{', '[]', 'null', '"text"', '{"projects":null,"total":1}'];
  for (const body of bodies) {
    const { bench } = await openAt(t, (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(body);
    });
    const answer = await bench.run(['projects']);
    t.is(answer.code, 1, body);
    t.notRegex(answer.stderr, /\n\s+at /, body);
  }
});

test('an answer that breaks off is said so', async (t) => {
  const { bench } = await openAt(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"projects":');
    setImmediate(() => response.destroy());
  });
  const answer = await bench.run(['projects']);
  t.is(answer.code, 1);
  t.regex(answer.stderr, /cannot be reached/);
});

test('texts of an error cannot steer the terminal', async (t) => {
  const { bench } = await openAt(t, (_request, response) => {
    const body = {
      code: 'x\u001B[1m',
      message: '\u001B]0;owned\u0007\u009B2J',
      details: null,
      hint: '\u202Eevil',
      request_id: '\u001B[2J',
    };
    response.writeHead(500, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  for (const args of [['whoami'], ['whoami', '--json']]) {
    const { stderr, code } = await bench.run(args);
    t.is(code, 1);
    for (const character of ['\u001B', '\u0007', '\u009B', '\u202E']) t.false(stderr.includes(character));
  }
});

test('fields that nobody knows yet change nothing', async (t) => {
  const { bench } = await openAt(t, (_request, response) => {
    const project = { id: 'x', ref: 'r', name: 'n', slug: 's', plan: 'free', status: 'active', colour: { a: 1 } };
    const body = { projects: [project], total: 1, next_page: null };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  t.is((await bench.run(['projects'])).code, 0);
});

test('command lines that are not right are 2, and say what is near', async (t) => {
  const bench = await kept(openWorkbench({ PLINTH_ACCESS_TOKEN: 'x' }));
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['depoly'], /unknown command/],
    [['functions', 'depoly'], /Did you mean deploy/],
    [['functions', 'deploy', '--prunee'], /Did you mean --prune/],
    [['functions', 'invoke'], /missing required argument/],
    [['whoami', 'x'], /too many arguments/],
    [['projects', '--url', 'ftp://x'], /https/],
    [['link', ''], /must not be empty|cannot be reached/],
    [['env', 'set', 'novalue'], /NAME=VALUE/],
    [['env', 'set', '1A=x'], /not a name/],
    [['completion', 'tcsh'], /bash/],
  ];
  for (const [args, expected] of cases) {
    const answer = await bench.run(args, { env: { PLINTH_URL: 'http://127.0.0.1:1' } });
    t.regex(answer.stderr, expected, args.join(' '));
    if (args[0] !== 'link') t.is(answer.code, 2, args.join(' '));
  }
  const { value, code } = await bench.json(['functions', 'depoly']);
  t.is(code, 2);
  t.is(value.error.code, 'unknown_command');
});

test('a group without a command is help, and 2', async (t) => {
  const bench = await kept(openWorkbench());
  const answer = await bench.run(['db']);
  t.is(answer.code, 2);
  t.regex(answer.stderr, /push \[options\]/);
  t.is((await bench.run(['db', '--help'])).code, 0);
  t.is((await bench.run(['--version'])).code, 0);
});
