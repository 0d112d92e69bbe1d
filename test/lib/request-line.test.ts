import { Writable } from 'node:stream';
import test from 'ava';
import { pino } from 'pino';
import { withLogContext } from '#lib/context.ts';
import { type Log, logBasics } from '#lib/log.ts';
import { createRequestLog } from '#lib/request-line.ts';

const memory = (level: string): { log: Log; lines: () => string[] } => {
  let text = '';
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      text += chunk.toString();
      done();
    },
  });
  const log = pino({ ...logBasics, level, base: { process: 'api' }, timestamp: () => ',"time":"now"' }, sink);
  return { log, lines: () => text.split('\n').slice(0, -1) };
};

const request = { method: 'GET', path: '/a"b\\c\n\u2028/ü', status: 200, ms: 1.26 };

test('the line of a request is the one that the logger would write', (t) => {
  for (const context of [{}, { requestId: 'r-1' }, { requestId: 'r-1', projectId: '5d1f' }]) {
    const { log, lines } = memory('info');
    withLogContext(context, () => {
      createRequestLog(log)(request);
      log.info({ ...request, ms: 1.3 }, 'request');
    });
    const [ours, pinos] = lines();
    t.deepEqual(JSON.parse(ours ?? ''), JSON.parse(pinos ?? ''));
    t.is(lines().length, 2);
  }
});

test('a child of the logger keeps what it says in each line', (t) => {
  const { log, lines } = memory('info');
  createRequestLog(log.child({ server: 2 }))(request);
  t.like(JSON.parse(lines()[0] ?? ''), { process: 'api', server: 2, level: 30, time: 'now', path: request.path });
});

test('nothing is written below the level', (t) => {
  const { log, lines } = memory('warn');
  createRequestLog(log)(request);
  t.deepEqual(lines(), []);
});
