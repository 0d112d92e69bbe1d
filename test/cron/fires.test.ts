import test from 'ava';
import { type DueSchedule, decideFires } from '#domain/cron/fires.ts';

const at = (time: string): number => Date.parse(`2027-01-01T${time}Z`);

const due = (given: Partial<DueSchedule>): DueSchedule => ({
  schedule: '*/5 * * * *',
  timezone: 'UTC',
  overlap: 'allow',
  misfire: 'once',
  nextRunAt: at('12:00:00'),
  spacingMs: 10_000,
  unfinished: 0,
  waiting: 0,
  ...given,
});

/** The fires in short: `12:00:00 start`. */
const decided = (given: Partial<DueSchedule>, now: string): string[] =>
  decideFires(due(given), at(now)).fires.map(
    ({ fireAt, verdict }) => `${new Date(fireAt).toISOString().slice(11, 19)} ${verdict}`,
  );

const nextOf = (given: Partial<DueSchedule>, now: string): string | undefined => {
  const { nextRunAt } = decideFires(due(given), at(now));
  return nextRunAt === null ? undefined : new Date(nextRunAt).toISOString().slice(11, 19);
};

for (const misfire of ['once', 'skip', 'all'] as const) {
  test(`misfire ${misfire}: a fire on time starts`, (t) => {
    t.deepEqual(decided({ misfire }, '12:00:00.400'), ['12:00:00 start']);
    t.is(nextOf({ misfire }, '12:00:00.400'), '12:05:00');
  });

  test(`misfire ${misfire}: a fire that a restart delayed by less than a minute starts`, (t) => {
    t.deepEqual(decided({ misfire }, '12:01:00'), ['12:00:00 start']);
  });
}

test('misfire once: what was missed runs once, as the latest of it', (t) => {
  t.deepEqual(decided({}, '13:02:30'), ['13:00:00 start']);
  t.is(nextOf({}, '13:02:30'), '13:05:00');
});

test('misfire skip: what was missed is listed once as skipped', (t) => {
  t.deepEqual(decided({ misfire: 'skip' }, '13:02:30'), ['13:00:00 skip']);
  t.regex(decideFires(due({ misfire: 'skip' }), at('13:02:30')).fires[0]?.reason ?? '', /misfire/);
  t.is(nextOf({ misfire: 'skip' }, '13:02:30'), '13:05:00');
});

test('misfire skip: the latest fire starts when it is on time, whatever was missed before', (t) => {
  t.deepEqual(decided({ misfire: 'skip' }, '13:00:02'), ['13:00:00 start']);
});

test('misfire all: each that was missed starts, the oldest first', (t) => {
  t.deepEqual(decided({ misfire: 'all' }, '12:11:00'), ['12:00:00 start', '12:05:00 start', '12:10:00 start']);
});

test('misfire all: at most the latest 100, found without counting from the start', (t) => {
  const long = due({ misfire: 'all', schedule: '*/10 * * * * *', nextRunAt: Date.parse('1990-01-01T00:00:00Z') });
  const { fires } = decideFires(long, at('12:00:05'));
  t.is(fires.length, 100);
  t.is(fires.at(-1)?.fireAt, at('12:00:00'));
  t.is(fires[0]?.fireAt, at('12:00:00') - 99 * 10_000);
});

test('overlap skip: a fire is skipped while a run goes on', (t) => {
  t.deepEqual(decided({ overlap: 'skip', unfinished: 1 }, '12:00:00'), ['12:00:00 skip']);
  t.regex(decideFires(due({ overlap: 'skip', unfinished: 1 }), at('12:00:00')).fires[0]?.reason ?? '', /overlap/);
  t.deepEqual(decided({ overlap: 'skip' }, '12:00:00'), ['12:00:00 start']);
});

test('overlap queue: a fire waits while a run goes on or waits', (t) => {
  t.deepEqual(decided({ overlap: 'queue', unfinished: 1 }, '12:00:00'), ['12:00:00 wait']);
  t.deepEqual(decided({ overlap: 'queue', waiting: 1 }, '12:00:00'), ['12:00:00 wait']);
  t.deepEqual(decided({ overlap: 'queue' }, '12:00:00'), ['12:00:00 start']);
});

test('overlap queue: at most 100 wait', (t) => {
  t.deepEqual(decided({ overlap: 'queue', unfinished: 1, waiting: 99 }, '12:00:00'), ['12:00:00 wait']);
  t.deepEqual(decided({ overlap: 'queue', unfinished: 1, waiting: 100 }, '12:00:00'), ['12:00:00 skip']);
});

test('overlap allow: a fire starts whatever runs, while fewer than 100 runs have not ended', (t) => {
  t.deepEqual(decided({ overlap: 'allow', unfinished: 99, waiting: 5 }, '12:00:00'), ['12:00:00 start']);
  t.deepEqual(decided({ overlap: 'allow', unfinished: 100 }, '12:00:00'), ['12:00:00 skip']);
  t.regex(decideFires(due({ unfinished: 100 }), at('12:00:00')).fires[0]?.reason ?? '', /100 runs .* not ended/);
});

test('overlap allow: what is caught up with counts, too', (t) => {
  t.deepEqual(decided({ misfire: 'all', unfinished: 98 }, '12:10:00'), [
    '12:00:00 start',
    '12:05:00 start',
    '12:10:00 skip',
  ]);
});

test('what is caught up with obeys the overlap rule, too', (t) => {
  const missed = { misfire: 'all' } as const;
  t.deepEqual(decided({ ...missed, overlap: 'skip' }, '12:10:00'), [
    '12:00:00 start',
    '12:05:00 skip',
    '12:10:00 skip',
  ]);
  t.deepEqual(decided({ ...missed, overlap: 'queue' }, '12:10:00'), [
    '12:00:00 start',
    '12:05:00 wait',
    '12:10:00 wait',
  ]);
});

test('a schedule that is too dense for its plan fires at the plan’s least interval', (t) => {
  const dense = { schedule: '*/10 * * * * *', spacingMs: 60_000 };
  t.deepEqual(decided(dense, '12:00:00'), ['12:00:00 start']);
  t.is(nextOf(dense, '12:00:00'), '12:01:00');
  t.deepEqual(decided({ ...dense, misfire: 'all' }, '12:02:00'), [
    '12:00:00 start',
    '12:01:00 start',
    '12:02:00 start',
  ]);
});

test('an instant that was promised is kept when the rules of the zone no longer give it', (t) => {
  t.deepEqual(decided({ nextRunAt: at('12:02:00') }, '12:02:01'), ['12:02:00 start']);
});
