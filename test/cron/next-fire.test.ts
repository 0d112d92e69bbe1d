import test from 'ava';
import { fireAfter, fireUpTo, parseExpression, timeZoneNamed } from '#domain/cron/expression.ts';
import { ServiceError } from '#lib/errors.ts';

const iso = (ms: number | null): string | null =>
  ms === null ? null : new Date(ms).toISOString().replace('.000Z', 'Z');

/** The first fires after an instant. */
const fires = (text: string, zone: string, after: string, count: number): (string | null)[] => {
  const expression = parseExpression(text);
  const found: (string | null)[] = [];
  let at: number | null = Date.parse(after);
  while (found.length < count && at !== null) {
    at = fireAfter(expression, zone, at);
    found.push(iso(at));
  }
  return found;
};

/** The last fires up to an instant, latest first. */
const firesBack = (text: string, zone: string, upTo: string, count: number): (string | null)[] => {
  const expression = parseExpression(text);
  const found: (string | null)[] = [];
  let at: number | null = Date.parse(upTo);
  while (found.length < count && at !== null) {
    const fire: number | null = fireUpTo(expression, zone, at);
    found.push(iso(fire));
    at = fire === null ? null : fire - 1;
  }
  return found;
};

interface Case {
  readonly what: string;
  readonly schedule: string;
  readonly zone: string;
  readonly after: string;
  readonly expected: readonly string[];
}

const berlin = 'Europe/Berlin';
const newYork = 'America/New_York';
const lordHowe = 'Australia/Lord_Howe';

/** Berlin 2027: 28 March 02:00 → 03:00 at 01:00Z; 31 October 03:00 → 02:00 at 01:00Z. */
const berlinCases: readonly Case[] = [
  {
    what: 'a fixed time that is skipped fires right after the jump, and on the next day as ever',
    schedule: '30 2 * * *',
    zone: berlin,
    after: '2027-03-27T12:00:00Z',
    expected: ['2027-03-28T01:00:00Z', '2027-03-29T00:30:00Z'],
  },
  {
    what: 'several fixed times that are skipped fire once',
    schedule: '0,15,30 2 * * *',
    zone: berlin,
    after: '2027-03-27T12:00:00Z',
    expected: ['2027-03-28T01:00:00Z', '2027-03-29T00:00:00Z', '2027-03-29T00:15:00Z'],
  },
  {
    what: 'a fixed time at the end of the jump is not skipped and fires once',
    schedule: '0 2,3 * * *',
    zone: berlin,
    after: '2027-03-27T12:00:00Z',
    expected: ['2027-03-28T01:00:00Z', '2027-03-29T00:00:00Z', '2027-03-29T01:00:00Z'],
  },
  {
    what: 'a fixed time that comes twice fires the first time',
    schedule: '30 2 * * *',
    zone: berlin,
    after: '2027-10-30T12:00:00Z',
    expected: ['2027-10-31T00:30:00Z', '2027-11-01T01:30:00Z'],
  },
  {
    what: 'a fixed time that comes twice does not fire again when asked between the two',
    schedule: '30 2 * * *',
    zone: berlin,
    after: '2027-10-31T01:10:00Z',
    expected: ['2027-11-01T01:30:00Z'],
  },
  {
    what: 'an hourly schedule follows elapsed time when an hour is skipped',
    schedule: '15 * * * *',
    zone: berlin,
    after: '2027-03-27T23:30:00Z',
    expected: ['2027-03-28T00:15:00Z', '2027-03-28T01:15:00Z', '2027-03-28T02:15:00Z'],
  },
  {
    what: 'an hourly schedule follows elapsed time when an hour comes twice',
    schedule: '15 * * * *',
    zone: berlin,
    after: '2027-10-30T23:30:00Z',
    expected: ['2027-10-31T00:15:00Z', '2027-10-31T01:15:00Z', '2027-10-31T02:15:00Z'],
  },
  {
    what: 'a wildcard in the minute alone fires in both of the doubled hours',
    schedule: '*/30 2 * * *',
    zone: berlin,
    after: '2027-10-30T12:00:00Z',
    expected: [
      '2027-10-31T00:00:00Z',
      '2027-10-31T00:30:00Z',
      '2027-10-31T01:00:00Z',
      '2027-10-31T01:30:00Z',
      '2027-11-01T01:00:00Z',
    ],
  },
  {
    what: 'a wildcard in the minute alone does not fire for a skipped hour',
    schedule: '*/30 2 * * *',
    zone: berlin,
    after: '2027-03-27T12:00:00Z',
    expected: ['2027-03-29T00:00:00Z', '2027-03-29T00:30:00Z'],
  },
  {
    what: 'every ten seconds stays every ten seconds over a jump',
    schedule: '*/10 * * * * *',
    zone: berlin,
    after: '2027-03-28T00:59:45Z',
    expected: ['2027-03-28T00:59:50Z', '2027-03-28T01:00:00Z', '2027-03-28T01:00:10Z'],
  },
];

/** New York 2027: 14 March 02:00 → 03:00 at 07:00Z; 7 November 02:00 → 01:00 at 06:00Z. */
const newYorkCases: readonly Case[] = [
  {
    what: 'a fixed time that is skipped fires right after the jump',
    schedule: '30 2 * * *',
    zone: newYork,
    after: '2027-03-13T12:00:00Z',
    expected: ['2027-03-14T07:00:00Z', '2027-03-15T06:30:00Z'],
  },
  {
    what: 'a fixed time that comes twice fires the first time',
    schedule: '30 1 * * *',
    zone: newYork,
    after: '2027-11-06T12:00:00Z',
    expected: ['2027-11-07T05:30:00Z', '2027-11-08T06:30:00Z'],
  },
  {
    what: 'a skipped time counts only on the days of the schedule',
    schedule: '30 2 * * MON',
    zone: newYork,
    after: '2027-03-13T12:00:00Z',
    expected: ['2027-03-15T06:30:00Z'],
  },
  {
    what: 'midnight of the day of the jump is where it is',
    schedule: '@daily',
    zone: newYork,
    after: '2027-03-13T12:00:00Z',
    expected: ['2027-03-14T05:00:00Z', '2027-03-15T04:00:00Z'],
  },
];

/**
 * Lord Howe: half an hour. 2027: 3 October 02:00 → 02:30 at 15:30Z of the 2nd; 4 April 02:00 → 01:30 at 15:00Z of the
 * 3rd.
 */
const otherCases: readonly Case[] = [
  {
    what: 'a fixed time in half an hour that is skipped fires right after the jump',
    schedule: '15 2 * * *',
    zone: lordHowe,
    after: '2027-10-02T00:00:00Z',
    expected: ['2027-10-02T15:30:00Z', '2027-10-03T15:15:00Z'],
  },
  {
    what: 'a fixed time after the skipped half hour is not moved',
    schedule: '45 2 * * *',
    zone: lordHowe,
    after: '2027-10-02T00:00:00Z',
    expected: ['2027-10-02T15:45:00Z'],
  },
  {
    what: 'a fixed time in half an hour that comes twice fires the first time',
    schedule: '45 1 * * *',
    zone: lordHowe,
    after: '2027-04-03T00:00:00Z',
    expected: ['2027-04-03T14:45:00Z', '2027-04-04T15:15:00Z'],
  },
  {
    what: 'a wildcard in half an hour that comes twice follows elapsed time',
    schedule: '*/15 1 * * *',
    zone: lordHowe,
    after: '2027-04-03T14:20:00Z',
    expected: ['2027-04-03T14:30:00Z', '2027-04-03T14:45:00Z', '2027-04-03T15:00:00Z', '2027-04-03T15:15:00Z'],
  },
  {
    what: 'a zone without clock changes has none',
    schedule: '30 2 * * *',
    zone: 'Asia/Kolkata',
    after: '2027-03-27T12:00:00Z',
    expected: ['2027-03-27T21:00:00Z', '2027-03-28T21:00:00Z'],
  },
  {
    what: 'a midnight that is skipped fires right after the jump',
    schedule: '0 0 * * *',
    zone: 'Asia/Beirut',
    after: '2027-03-27T12:00:00Z',
    expected: ['2027-03-27T22:00:00Z', '2027-03-28T21:00:00Z'],
  },
];

for (const { what, schedule, zone, after, expected } of [...berlinCases, ...newYorkCases, ...otherCases]) {
  test(`${zone} ${schedule}: ${what}`, (t) => {
    t.deepEqual(fires(schedule, zone, after, expected.length), [...expected]);
    // Looking back from the last one finds the same, in the other order.
    const last = expected.at(-1) ?? '';
    t.deepEqual(firesBack(schedule, zone, last, expected.length), expected.toReversed());
  });
}

for (const [schedule, expected] of [
  ['0 0 29 2 *', ['2028-02-29', '2032-02-29']],
  ['0 0 31 * *', ['2026-12-31', '2027-01-31', '2027-03-31']],
  // Both days restricted: either.
  ['0 0 13 * FRI', ['2026-11-27', '2026-12-04', '2026-12-11', '2026-12-13']],
  // One of them begins with a star: both.
  ['0 0 */2 * MON', ['2026-11-23', '2026-12-07', '2026-12-21']],
  ['0 0 29 2 */7', ['2032-02-29', '2060-02-29']],
] as const) {
  test(`${schedule} fires on ${expected.join(', ')}`, (t) => {
    t.deepEqual(
      fires(schedule, 'UTC', '2026-11-20T12:00:00Z', expected.length).map((at) => at?.slice(0, 10)),
      [...expected],
    );
  });
}

for (const schedule of ['0 0 30 2 *', '0 0 31 4,6,9,11 *', '0 0 31 2 */2']) {
  test(`${schedule} never fires`, (t) => {
    t.is(fireAfter(parseExpression(schedule), berlin, Date.parse('2026-11-20T12:00:00Z')), null);
    t.is(fireUpTo(parseExpression(schedule), berlin, Date.parse('2026-11-20T12:00:00Z')), null);
  });
}

test('a fire is later than the instant asked after, also within its second', (t) => {
  const expression = parseExpression('* * * * * *');
  t.is(iso(fireAfter(expression, 'UTC', Date.parse('2026-11-20T12:00:00.000Z'))), '2026-11-20T12:00:01Z');
  t.is(iso(fireAfter(expression, 'UTC', Date.parse('2026-11-20T12:00:00.999Z'))), '2026-11-20T12:00:01Z');
  t.is(iso(fireUpTo(expression, 'UTC', Date.parse('2026-11-20T12:00:00.999Z'))), '2026-11-20T12:00:00Z');
});

const randomFrom = (seed: number): (() => number) => {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
};

test('looking ahead and looking back agree at thousands of places', (t) => {
  const random = randomFrom(7);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const zones = [berlin, newYork, lordHowe, 'Asia/Kolkata', 'Africa/Casablanca', 'America/Havana', 'UTC'];
  for (let round = 0; round < 2000; round += 1) {
    const text = [
      pick(['0', '*/30', '15,45', '*']),
      pick(['*', '2', '1-3', '*/6', '0']),
      pick(['*', '1', '28-31', '*/5']),
      pick(['*', '3', 'MAR,APR,OCT,NOV']),
      pick(['*', 'SUN', 'MON-FRI']),
    ].join(' ');
    const zone = pick(zones);
    const expression = parseExpression(text);
    const at = Date.parse('2026-01-01T00:00:00Z') + Math.floor(random() * 2 * 365 * 86_400) * 1000;
    const next = fireAfter(expression, zone, at);
    if (next === null) continue;
    t.is(fireUpTo(expression, zone, next), next, `${text} ${zone} ${iso(at)}`);
    const before = fireUpTo(expression, zone, next - 1000);
    t.true(before === null || before <= at, `${text} ${zone} ${iso(at)}: ${iso(before)} lies between`);
  }
});

test('a time zone is named as the database of time zones does', (t) => {
  t.is(timeZoneNamed('europe/berlin'), 'Europe/Berlin');
  t.is(timeZoneNamed('UTC'), 'UTC');
  t.is(timeZoneNamed('America/Argentina/Buenos_Aires'), 'America/Argentina/Buenos_Aires');
});

for (const name of ['', 'Mars/Olympus', '+02:00', 'Europe/Berlin ', '2020-01-01[Europe/Berlin]', 'local', '../etc']) {
  test(`"${name}" is no time zone`, (t) => {
    t.throws(() => timeZoneNamed(name), { instanceOf: ServiceError, code: 'validation_failed' });
  });
}
